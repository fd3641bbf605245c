"""Seconds per iteration of mccgr, beside scikit-learn's multiplicative updates and the textbook form.

    python benchmarks/iteration.py [--samples 50000] [--features 1000] [--k 10]

All of them in one process on the same numbers, from the same start and with the same threads; the times are
medians, and the ratios are what counts. mccgr works the objective out at every iteration; "sklearn MU" (tol=0)
never does, "MU checked" (tol > 0, its default) does at every tenth. The neighbours in the graph are drawn at random,
which is the hardest case for the cache. Memory is the growth of the process while mccgr runs, relative to X.
"""

from __future__ import annotations

import argparse
import platform
import resource
import statistics
import time
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.decomposition import NMF
from sklearn.exceptions import ConvergenceWarning
from threadpoolctl import threadpool_info

from mccgr_cli.blocks import Array, MemoryBlocks, moments, threads_for_blocks
from mccgr_cli.settings import Settings, by_preset
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


def seconds(action: Callable[[], Any]) -> float:
    began = time.perf_counter()
    action()
    return time.perf_counter() - began


def scikit_learn_fit(X: Array, W: Array, H: Array, iterations: int, tol: float) -> None:
    model = NMF(W.shape[1], init="custom", solver="mu", tol=tol, max_iter=iterations)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit_transform(X, W=W.copy(), H=H.copy())


def peak_bytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--samples", type=int, default=50_000)
    options.add_argument("--features", type=int, default=1_000)
    options.add_argument("--k", type=int, default=10)
    options.add_argument("--repeats", type=int, default=5)
    given = options.parse_args()
    n, d, k = given.samples, given.features, given.k
    threads = max(pool["num_threads"] for pool in threadpool_info())
    print(f"{n} x {d}, k = {k}; {platform.machine()}, {threads} threads, numpy {np.__version__}")
    columns = ("mccgr", "sklearn MU", "MU checked", "textbook", "/ MU", "/ checked", "/ textbook", "memory")
    print(" " * 9 + "".join(f"{column:>12}" + (" " if i < 4 else "") for i, column in enumerate(columns)))
    for dtype in (np.float32, np.float64):  # the smaller first, as the peak of memory never falls
        rng = np.random.default_rng(0)
        X = rng.random((n, d), dtype=dtype)
        W, H = rng.random((n, k)).astype(dtype), rng.random((k, d)).astype(dtype)
        A = random_graph(n, 5, rng)
        settings = by_preset("paper", Settings, k=k, alpha=1.0, iterations=3, tolerance=0)

        before = peak_bytes()
        ours = solve(MemoryBlocks(X), settings, A, [(W, H)])
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
        with threads_for_blocks():
            update.step()  # warm
        taken: dict[str, list[float]] = {"mccgr": [], "bare": [], "checked": [], "textbook": []}
        for _ in range(given.repeats):  # in turn, so that what else the machine does hits all of them
            with threads_for_blocks():
                update.step(), update.step()  # untimed: threads of BLAS that have just worked spin for a while
                taken["mccgr"].append(seconds(lambda: [update.step() for _ in range(10)]) / 10)  # noqa: B023
            # per iteration, as the difference between a longer and a shorter fit
            for name, tol in (("bare", 0), ("checked", 1e-15)):
                scikit_learn_fit(X, W, H, 1, tol)  # untimed, for the same reason
                longer, shorter = (seconds(partial(scikit_learn_fit, X, W, H, count, tol)) for count in (11, 1))
                taken[name].append((longer - shorter) / 10)
            taken["textbook"].append(seconds(partial(textbook_step, X, W, H, A, degrees, 1.0)))
        median = {name: statistics.median(values) for name, values in taken.items()}
        shown = "".join(f"{median[name]:12.4f}s" for name in taken)
        ratios = "".join(f"{median['mccgr'] / median[name]:12.2f}" for name in ("bare", "checked", "textbook"))
        print(f"{np.dtype(dtype).name:8}{shown}{ratios}{extra:12.1%}")


if __name__ == "__main__":
    main()
