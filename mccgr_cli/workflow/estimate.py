"""Predict the time of a factorization from a few iterations on some of its rows."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import sparse

from mccgr_cli.blocks.in_memory import MemoryBlocks, size_of
from mccgr_cli.blocks.products import moments
from mccgr_cli.blocks.protocol import BlockSource
from mccgr_cli.blocks.threads import threads_for_blocks
from mccgr_cli.core.methods import METHODS
from mccgr_cli.core.neighbours import LARGEST_EXACT, nearest, why_not_faiss
from mccgr_cli.core.neighbours.approximate import has_faiss
from mccgr_cli.core.principal_axes import leading_axes
from mccgr_cli.core.solver import make_update
from mccgr_cli.core.starts import random_start
from mccgr_cli.settings import GraphSettings, Settings
from mccgr_cli.workflow.factorization import WEIGHING_STEPS, weighing_samples

WORTHWHILE = 2e10  # multiplications: a run with fewer takes some seconds, and needs no estimate
SAMPLE_BYTES = 32 << 20  # of X for the timed iterations
LONG_SEARCH = 60  # seconds for a graph above which a faster search is suggested
POINTS = 3000  # for the timed neighbour search
FIRST_ROWS = 100  # to measure the bytes of a row
EDGES = 5  # of a sample in the random graph of the timed iterations


@dataclass(frozen=True)
class Estimate:
    """Seconds for the graph and for one iteration, and the largest number of iterations."""

    graph: float
    iteration: float
    iterations: int
    could_be_fast: bool = False  # whether an approximate search is possible where an exact one is planned

    @property
    def seconds(self) -> float:
        return self.graph + self.iteration * self.iterations

    def __str__(self) -> str:
        parts = [f"at most {self.iterations} iterations of {in_time(self.iteration)}"]
        if self.graph:
            parts.insert(0, f"the graph {in_time(self.graph)}")
        return f"about {in_time(self.seconds)} ({', '.join(parts)})"


def in_time(seconds: float) -> str:
    """Seconds in a readable unit.

    >>> in_time(0.0123), in_time(12.3), in_time(600), in_time(10_000)
    ('0.012 s', '12 s', '10 min', '2.8 h')
    """
    for size, unit in ((3600, "h"), (60, "min")):
        if seconds >= 2 * size:
            return f"{seconds / size:.2g} {unit}"
    return f"{seconds:.2g} s"


def is_worthwhile(X: BlockSource, settings: Settings) -> bool:
    n, d = X.shape
    values = (None if X.whole is None else size_of(X.whole).values) or n * d
    return 4.0 * values * settings.k * settings.iterations * settings.restarts > WORTHWHILE or n > LARGEST_EXACT / 5


@threads_for_blocks()
def estimate(X: BlockSource, settings: Settings, graph: GraphSettings | None) -> Estimate:
    """Time a few iterations, and a search if a graph must be built (``graph``), and extrapolate."""
    n = X.shape[0]
    first = size_of(X.take(slice(0, min(n, FIRST_ROWS))))
    rows = int(np.clip(SAMPLE_BYTES * first.samples // first.bytes, 1, n))
    reading, part = timed(lambda: X.take(slice(0, rows)))
    share = n / rows
    reading = 0.0 if X.whole is not None else reading * share
    some = MemoryBlocks(part)
    iteration = max(reading, iteration_seconds(some, settings) * share)
    iterations = settings.iterations * settings.restarts
    if graph is None:
        return Estimate(0.0, iteration, iterations)
    features = graph.graph_features if METHODS[settings.method].weighted else "plain"
    learning = 0.0
    if features == "weighted":
        few = replace(settings, method="mcc", solver="multiplicative")
        learning = WEIGHING_STEPS * max(reading, iteration_seconds(some, few) * share)
    one, fast = search_seconds(some, graph, settings.k, share, reading)
    searches = 1.0
    if features == "explained":  # the first search is among some samples only, and its time grows with their square
        searches += (weighing_samples(X, settings.k) / n) ** 2
    on_axes = np.empty((1, 1), dtype=np.float32)
    samples = on_axes if graph.axes_for(settings.k) or X.whole is None else X.whole
    could_be_fast = not fast and graph.search == "auto" and has_faiss()
    could_be_fast = could_be_fast and not why_not_faiss(samples, graph.metric or "euclidean")
    return Estimate(learning + searches * one, iteration, iterations, could_be_fast)


def iteration_seconds(X: MemoryBlocks, settings: Settings) -> float:
    """The time of one iteration on these rows, with a random graph."""
    rng = np.random.default_rng(0)
    known, k, n = moments(X), min(settings.k, *X.shape), X.shape[0]
    edges = rng.integers(n, size=(2, EDGES * n))
    A = sparse.csr_array((np.ones(EDGES * n), (edges[0], edges[1])), shape=(n, n))
    start = random_start(X, k, known.mean, rng)
    update = make_update(X, replace(settings, k=k), A + A.T, known, *start)
    update.start()
    update.step()  # not timed: it loads and compiles code
    return min(timed(update.step)[0] for _ in range(2))


def search_seconds(X: MemoryBlocks, graph: GraphSettings, k: int, share: float, reading: float) -> tuple[float, bool]:
    """The time to search neighbours of ``share`` times these samples, and whether the search is approximate."""
    rng = np.random.default_rng(0)
    samples = X.shape[0] * share
    axes = graph.axes_for(k)
    found = 0.0
    points: Any = X.take(slice(0, min(POINTS, X.shape[0])))
    if axes:
        rank = min(axes, *X.shape)
        seconds, _ = timed(lambda: leading_axes(X, rank, rng))
        found = max(seconds * share, reading)
        points = rng.standard_normal((min(POINTS, int(samples)), rank)).astype(np.float32)
    neighbors = min(graph.most_neighbors(int(samples)), points.shape[0] - 1)
    if neighbors < 1:
        return found, False
    metric = graph.metric or "euclidean"
    seconds, _ = timed(lambda: nearest(points, neighbors, metric, "exact"))
    fast = graph.search == "approximate" or (graph.search == "auto" and samples > LARGEST_EXACT and has_faiss())
    # The time of an exact search grows with the square of the samples, of an approximate one with the power 1.5.
    times = samples / points.shape[0]
    return found + seconds * times ** (1.5 if fast else 2), fast


def timed(work: Callable[[], Any]) -> tuple[float, Any]:
    began = time.perf_counter()
    result = work()
    return time.perf_counter() - began, result
