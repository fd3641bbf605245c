"""Seconds per iteration of mccgr, beside scikit-learn's multiplicative updates and the textbook form.

    python benchmarks/iteration.py [--samples 50000] [--features 1000] [--k 10]

All of them in one process on the same numbers, from the same start and with the same threads; the times are
medians, and the ratios are what counts. The neighbours in the graph are drawn at random, which is the hardest
case for the cache. Memory is the growth of the process beyond X while mccgr runs.
"""

from __future__ import annotations

import argparse
import platform
import resource
import statistics
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.decomposition import NMF
from sklearn.exceptions import ConvergenceWarning
from threadpoolctl import threadpool_info

from mccgr_cli.blocks import Array, MemoryBlocks, moments
from mccgr_cli.settings import Settings
from mccgr_cli.solver import make_update, solve


def random_graph(samples: int, neighbors: int, rng: np.random.Generator) -> Any:
    rows = np.repeat(np.arange(samples), neighbors)
    directed = sparse.csr_array((np.ones(len(rows)), (rows, rng.integers(0, samples, len(rows)))))
    directed.setdiag(0)
    A = (directed + directed.T).tocsr()
    A.eliminate_zeros()
    A.data[:] = 1
    return A


def textbook_step(X: Array, W: Array, H: Array, A: Any, degrees: Array, alpha: float) -> tuple[Array, Array]:
    """The paper's formulas with whole matrices."""
    errors = ((X - W @ H) ** 2).sum(axis=0)
    rho = np.exp(-errors / errors.mean())
    H = H * (W.T @ X) / (W.T @ W @ H)
    W = W * (X @ (rho * H).T + alpha * (A @ W)) / (W @ (rho * H) @ H.T + alpha * degrees[:, None] * W)
    return W, H


def median_seconds(step: Callable[[], Any], repeats: int) -> float:
    step()  # warm
    taken = []
    for _ in range(repeats):
        began = time.perf_counter()
        step()
        taken.append(time.perf_counter() - began)
    return statistics.median(taken)


def scikit_learn_seconds(X: Array, W: Array, H: Array, repeats: int) -> float:
    """Per iteration, as the difference between a longer and a shorter fit."""

    def fit(iterations: int) -> None:
        model = NMF(W.shape[1], init="custom", solver="mu", tol=0, max_iter=iterations)
        model.fit_transform(X, W=W.copy(), H=H.copy())

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        short, long = (median_seconds(lambda count=count: fit(count), repeats) for count in (1, 6))  # type: ignore[misc]
    return (long - short) / 5


def peak_bytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--samples", type=int, default=50_000)
    options.add_argument("--features", type=int, default=1_000)
    options.add_argument("--k", type=int, default=10)
    options.add_argument("--repeats", type=int, default=7)
    given = options.parse_args()
    n, d, k = given.samples, given.features, given.k
    threads = max(pool["num_threads"] for pool in threadpool_info())
    print(f"{n} x {d}, k = {k}; {platform.machine()}, {threads} threads, numpy {np.__version__}")
    print(f"{'':10}{'mccgr':>9}{'sklearn MU':>12}{'textbook':>10}{'/ MU':>8}{'/ textbook':>12}{'memory beyond X':>18}")
    for dtype in (np.float32, np.float64):  # the smaller first, as the peak of memory never falls
        rng = np.random.default_rng(0)
        X = rng.random((n, d), dtype=dtype)
        W, H = rng.random((n, k)).astype(dtype), rng.random((k, d)).astype(dtype)
        A = random_graph(n, 5, rng)
        settings = Settings(k=k, alpha=1.0, iterations=3, tolerance=0)

        before = peak_bytes()
        ours = solve(MemoryBlocks(X), settings, A, (W, H))
        extra = (peak_bytes() - before) / X.nbytes

        degrees = np.asarray(A.sum(axis=1)).astype(dtype)
        A = A.astype(dtype)
        theirs = W, H
        for _ in range(3):
            theirs = textbook_step(X, *theirs, A, degrees, 1.0)
        gap = float(np.abs(ours.W - theirs[0]).max() / theirs[0].max())
        assert gap < (1e-3 if dtype == np.float32 else 1e-9), f"the results differ by {gap:.1e}"

        source = MemoryBlocks(X)
        update = make_update(source, settings, A, moments(source), W, H)
        update.start()
        mccgr = median_seconds(update.step, given.repeats)
        textbook = median_seconds(lambda: textbook_step(X, W, H, A, degrees, 1.0), 3)  # noqa: B023
        sklearn = scikit_learn_seconds(X, W, H, 3)
        print(
            f"{np.dtype(dtype).name:10}{mccgr:8.4f}s{sklearn:11.4f}s{textbook:9.4f}s{mccgr / sklearn:8.2f}"
            f"{mccgr / textbook:12.2f}{extra:17.1%}"
        )


if __name__ == "__main__":
    main()
