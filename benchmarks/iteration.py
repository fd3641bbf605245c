"""Compare the time per iteration of mccgr with other programs and with the limits of the machine.

    python -m benchmarks.iteration [--samples 50000] [--features 1000] [--k 10] [--repeats 9]

All run in one process in turn, on the same numbers, from the same start, with the same threads; times are medians.
mccgr has a graph, learns its weights and computes its objective at every iteration; its result is checked against the
formulas of the paper. scikit-learn solves plain NMF: "MU" by multiplicative updates without a check of convergence
(tol=0), "MU checked" with it (every tenth iteration, its default), "CD" by coordinate descent. Its error is checked
against that of our l2 after the same iterations. The roofline is the larger of two times: for the arithmetic at the
speed of a large square product, and for reading X once. Memory is the growth of the process relative to X.
"""

from __future__ import annotations

import argparse
import resource
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from sklearn.decomposition import NMF
from sklearn.exceptions import ConvergenceWarning

from benchmarks.problems import random_graph
from benchmarks.timing import in_turn, per_step, roofline, seconds, table
from mccgr_cli.blocks.in_memory import MemoryBlocks
from mccgr_cli.blocks.products import moments
from mccgr_cli.blocks.protocol import Array
from mccgr_cli.core.solver import make_update, solve
from mccgr_cli.settings import Settings, by_preset


def textbook_step(X: Array, W: Array, H: Array, A: Any, degrees: Array, alpha: float) -> tuple[Array, Array]:
    """One iteration by the formulas of the paper, with whole matrices."""
    errors = ((X - W @ H) ** 2).sum(axis=0)
    rho = np.exp(-errors / errors.mean())
    H = H * (W.T @ X) / (W.T @ W @ H)
    W = W * (X @ (rho * H).T + alpha * (A @ W)) / (W @ (rho * H) @ H.T + alpha * degrees[:, None] * W)
    return W, H


def scikit_learn(X: Array, W: Array, H: Array, solver: str, tol: float, iterations: int) -> float:
    """Run it and return the squared error."""
    model = NMF(W.shape[1], init="custom", solver=solver, tol=tol, max_iter=iterations)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(X, W=W.copy(), H=H.copy())
    return float(model.reconstruction_err_**2)


def per_iteration(fit: Callable[[int], Any]) -> float:
    """Seconds per iteration, from the difference of a long and a short run."""
    fit(1)  # not timed: warm up
    return (seconds(lambda: fit(21)) - seconds(lambda: fit(1))) / 20


def nimfa_step(X: Array, W: Array, H: Array) -> Callable[[int], Any] | None:
    """nimfa's multiplicative updates, if nimfa works here."""
    try:
        import nimfa

        def fit(iterations: int) -> Any:
            return nimfa.Nmf(X, rank=W.shape[1], W=W, H=H, max_iter=iterations, min_residuals=0)()

        fit(1)
    except Exception as fault:
        print(f"nimfa does not run here: {type(fault).__name__}: {fault}\n")
        return None
    return fit


def peak_bytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def compare(n: int, d: int, k: int, dtype: Any, repeats: int) -> dict[str, str]:
    rng = np.random.default_rng(0)
    X = rng.random((n, d), dtype=dtype)
    W, H = rng.random((n, k)).astype(dtype), rng.random((k, d)).astype(dtype)
    A = random_graph(n, 5).astype(dtype)
    degrees = np.asarray(A.sum(axis=1)).astype(dtype)
    settings = by_preset("paper", Settings, k=k, alpha=1.0, iterations=3, tolerance=0)
    few = slice(0, max(1, n // 4))
    solve(MemoryBlocks(X[few]), settings, A[few, few], [(W[few], H)])  # not timed: it loads and compiles code
    before = peak_bytes()
    ours = solve(MemoryBlocks(X), settings, A, [(W, H)])
    memory = (peak_bytes() - before) / X.nbytes
    theirs = W, H
    for _ in range(3):
        theirs = textbook_step(X, *theirs, A, degrees, 1.0)
    gap = float(np.abs(ours.W - theirs[0]).max() / theirs[0].max())
    assert gap < (1e-3 if dtype == np.float32 else 1e-9), f"mccgr and the textbook differ by {gap:.1e}"
    l2 = by_preset("paper", Settings, k=k, method="l2", iterations=11, tolerance=0)
    mine = solve(MemoryBlocks(X), l2, None, [(W, H)]).objective
    peer = scikit_learn(X, W, H, "mu", 0, 11)  # updates W first, so it is not equal
    assert abs(mine / peer - 1) < 0.01, f"the squared errors differ: {mine} and {peer}"

    source = MemoryBlocks(X)
    update = make_update(source, settings, A, moments(source), W, H)
    update.start()
    actions: dict[str, Callable[[], float]] = {
        "mccgr": partial(per_step, update),
        "MU": partial(per_iteration, partial(scikit_learn, X, W, H, "mu", 0)),
        "MU checked": partial(per_iteration, partial(scikit_learn, X, W, H, "mu", 1e-15)),
        "CD": partial(per_iteration, partial(scikit_learn, X, W, H, "cd", 0)),
        "textbook": lambda: seconds(partial(textbook_step, X, W, H, A, degrees, 1.0)),
    }
    nimfa = nimfa_step(X[:5000], W[:5000], H)
    taken = in_turn(actions, repeats)
    if nimfa is not None:
        taken["nimfa"] = per_iteration(nimfa) * n / 5000
    us, best = taken.pop("mccgr"), roofline(n, d, k, dtype)
    cells = {
        f"{n} x {d}, k = {k}, ms": np.dtype(dtype).name,
        "mccgr": f"{1000 * us:.1f}",
        "roofline": f"{1000 * best:.1f}",
    }
    cells |= {peer: f"{1000 * value:.1f}" for peer, value in taken.items()}
    cells |= {f"{peer} / mccgr": f"{value / us:.1f}x" for peer, value in taken.items()}
    return cells | {"of the roofline": f"{best / us:.0%}", "memory": f"{memory:.1%}"}


def main(arguments: list[str] | None = None) -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--samples", type=int, default=50_000)
    options.add_argument("--features", type=int, default=1_000)
    options.add_argument("--k", type=int, default=10)
    options.add_argument("--repeats", type=int, default=9)
    given = options.parse_args(arguments)
    sizes = given.samples, given.features, given.k
    # float32 first, because the peak memory of a process never falls.
    rows = [compare(*sizes, dtype, given.repeats) for dtype in (np.float32, np.float64)]
    print(table(list(rows[0]), [list(row.values()) for row in rows]))


if __name__ == "__main__":
    main()
