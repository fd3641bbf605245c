"""Compare the time to the same objective: coordinate steps, scikit-learn's best solver, and our own updates.

    python -m benchmarks.objective [--data matrices/] [--repeats 3]

Squared error: scikit-learn's coordinate descent runs for 200 iterations, ours until it reaches the same objective.
mccgr at a fixed bandwidth: multiplicative updates run for 400 iterations, coordinate steps until they reach the same
objective. Both have the same random starts and threads; times are medians. A run may end in another local minimum and
not reach the objective in 200 iterations: then the table says by how much it missed. --data has COIL20.mat and
TDT2.mat; without it only random matrices are used.
"""

from __future__ import annotations

import argparse
import statistics
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from sklearn.decomposition import NMF
from sklearn.exceptions import ConvergenceWarning

from benchmarks.problems import planted, start, stored
from benchmarks.timing import line, seconds, table
from mccgr_cli.blocks.in_memory import MemoryBlocks
from mccgr_cli.blocks.protocol import Array, Matrix
from mccgr_cli.core.graph import build_graph
from mccgr_cli.core.solver import Start, Step, solve
from mccgr_cli.settings import GraphSettings, Settings, by_preset

ENOUGH = 1e-6  # relative distance at which an objective counts as reached
MOST = 200  # iterations of ours


class Reached(Exception):
    pass


def time_to(target: float, X: Matrix, settings: Settings, A: Any, first: Start) -> tuple[float, int, float]:
    """Seconds and iterations until the objective is at most ``target``, and by how much it missed it (0: reached)."""
    seen: list[Step] = []

    def watch(step: Step) -> None:
        seen.append(step)
        if step.objective <= target * (1 + ENOUGH):
            raise Reached

    began = time.perf_counter()
    try:
        solve(MemoryBlocks(X), replace(settings, iterations=MOST, tolerance=0), A, [first], watch)
    except Reached:
        return time.perf_counter() - began, seen[-1].iteration, 0.0
    return time.perf_counter() - began, MOST, min(step.objective for step in seen) / target - 1


def scikit_learn(X: Matrix, first: Start, solver: str, iterations: int) -> tuple[float, float]:
    """Seconds, and the final squared error."""
    model = NMF(first[0].shape[1], init="custom", solver=solver, tol=0, max_iter=iterations)
    W, H = (factor.astype(X.dtype) for factor in first)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        taken = seconds(lambda: model.fit(X, W=W, H=H))
    return taken, float(model.reconstruction_err_**2)


def squared_error(name: str, X: Matrix, k: int, starts: int, repeats: int) -> Iterator[list[object]]:
    ours_best = by_preset("paper", Settings, k=k, method="l2", solver="coordinate")
    ratios = []
    for seed in range(starts):
        first = start(X, k, seed)
        theirs = [scikit_learn(X, first, "cd", MOST) for _ in range(repeats)]
        _, mu_error = scikit_learn(X, first, "mu", MOST)
        target = theirs[0][1]
        ours = [time_to(target, X, ours_best, None, first) for _ in range(repeats)]
        cells = row(f"{name}, start {seed}", [taken for taken, _ in theirs], ours, f"{mu_error / target - 1:+.2%}")
        ratios.append(float(str(cells[4])))
        yield cells
    yield [f"{name}, median of {starts} starts", "", "", "", f"{statistics.median(ratios):.3f}", "", ""]


def fixed_bandwidth(name: str, X: Array, k: int, alpha: float, repeats: int) -> list[object]:
    A = build_graph(X, by_preset("paper", GraphSettings))
    first = start(X, k)
    slow = by_preset("paper", Settings, k=k, alpha=alpha, iterations=50)
    sigma = float(solve(MemoryBlocks(X), slow, A, [first]).history["sigma"][-1])
    slow = replace(slow, bandwidth=sigma, iterations=400, tolerance=0)
    fast = replace(slow, solver="coordinate")
    theirs, ours = [], []
    for _ in range(repeats):
        began = time.perf_counter()
        target = solve(MemoryBlocks(X), slow, A, [first]).objective
        theirs.append(time.perf_counter() - began)
        ours.append(time_to(target, X, fast, A, first))
    return row(f"{name}, alpha {alpha:g}", theirs, ours, "")


def row(name: str, theirs: list[float], ours: list[tuple[float, int, float]], remark: str) -> list[object]:
    peer, mine = statistics.median(theirs), statistics.median(taken for taken, _, _ in ours)
    missed = max(missed for _, _, missed in ours)
    reached = "reached" if missed == 0 else f"missed by {missed:.2%}"
    return [name, f"{peer:.2f}", f"{mine:.3f}", ours[0][1], f"{mine / peer:.3f}", reached, remark]


def main(arguments: list[str] | None = None) -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--data", type=Path)
    options.add_argument("--repeats", type=int, default=3)
    given = options.parse_args(arguments)
    # Matrix, components, number of starts. Small matrices get more, because their runs end in more different minima.
    matrices: dict[str, Callable[[], tuple[Matrix, int, int]]] = {
        "20,000 x 1,000": lambda: (planted(20_000, 1_000, 20), 20, 3)
    }
    if given.data is not None:
        matrices["COIL-20"] = lambda: (stored(given.data, "COIL20.mat", "none"), 20, 10)
        matrices["TDT2"] = lambda: (stored(given.data, "TDT2.mat", "hellinger"), 30, 5)
    columns = ["squared error", "CD, 200 iterations, s", "coordinate, s", "iterations", "ratio", "", "error of MU, 200"]
    print(table(columns, []), flush=True)
    for name, make in matrices.items():
        for cells in squared_error(name, *make(), given.repeats):
            print(line(cells), flush=True)
    graph_columns = ["mccgr, fixed bandwidth", "multiplicative, 400, s", "coordinate, s", "iterations", "ratio", "", ""]
    print("\n" + table(graph_columns, []), flush=True)
    for alpha in (0.1, 100.0):
        print(line(fixed_bandwidth("20,000 x 1,000", planted(20_000, 1_000, 20), 20, alpha, given.repeats)), flush=True)
    if given.data is not None:
        X = stored(given.data, "COIL20.mat", "l2")
        for alpha in (0.1, 100.0):
            print(line(fixed_bandwidth("COIL-20, unit rows", X, 20, alpha, given.repeats)), flush=True)


if __name__ == "__main__":
    main()
