"""The time of BLAS for the two narrow products of an iteration, by the number of rows at a time.

    python -m benchmarks.products [--samples 50000] [--features 1000] [--k 10]

It uses one thread and prints the best of five times. ``XM`` is X (n, d) times M (d, k), ``W'X`` is W' (k, n) times X.
"ours" is our compiled code, if numba is installed; "peak" is the same number of multiplications in a large square
product. If XM is fast only for few rows, BLAS has a path for small products that does not repack X: this is why
``mccgr_cli.blocks.products.narrow_product`` divides X.
"""

from __future__ import annotations

import argparse

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks.timing import seconds
from mccgr_cli.blocks.products import has_numba

WX = "W'X"


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--samples", type=int, default=50_000)
    options.add_argument("--features", type=int, default=1_000)
    options.add_argument("--k", type=int, default=10)
    given = options.parse_args()
    n, d, k = given.samples, given.features, given.k
    for dtype in (np.float32, np.float64):
        rng = np.random.default_rng(0)
        X, M, W = (rng.random(shape, dtype=dtype) for shape in ((n, d), (d, k), (n, k)))
        print(f"{np.dtype(dtype).name}, {n} x {d}, k = {k}")
        print(f"{'rows':>6}{'XM':>9}{WX:>9}")
        for rows in (50, 100, 128, 256, 512, 1024, n):
            parts = [slice(first, first + rows) for first in range(0, n, rows)]
            forward = min(seconds(lambda: [X[part] @ M for part in parts]) for _ in range(5))  # noqa: B023
            backward = min(seconds(lambda: [W[part].T @ X[part] for part in parts]) for _ in range(5))  # noqa: B023
            print(f"{rows:6}{forward:8.4f}s{backward:8.4f}s")
        if has_numba():
            from mccgr_cli.blocks import kernels

            parts = [slice(first, first + 1000) for first in range(0, n, 1000)]
            narrow, cross = kernels.narrow_product, kernels.cross_product
            forward = min(seconds(lambda: [narrow(X[part], M) for part in parts]) for _ in range(5))  # noqa: B023
            backward = min(seconds(lambda: [cross(W[part], X[part]) for part in parts]) for _ in range(5))  # noqa: B023
            print(f"{'ours':>6}{forward:8.4f}s{backward:8.4f}s")
        square = rng.random((2000, 2000), dtype=dtype)
        peak = 2 * 2000**3 / min(seconds(lambda: square @ square) for _ in range(5))  # noqa: B023
        print(f"{'peak':>6}{2 * n * d * k / peak:8.4f}s{2 * n * d * k / peak:8.4f}s")


if __name__ == "__main__":
    with threadpool_limits(1):
        main()
