"""The factorizations of a ranking: one matrix with several numbers of components k.

What hardly depends on k is computed once: neighbour graphs and their eigenvectors. Clusters come from the start, the
parts of the graph, and only few samples change their cluster later. So single precision and a looser tolerance are
enough to see whether clusters are found again.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from mccgr_cli.blocks.in_memory import MemoryBlocks
from mccgr_cli.blocks.protocol import Array, Matrix
from mccgr_cli.core.methods import METHODS
from mccgr_cli.core.parts import Spectrum, parts_of
from mccgr_cli.core.solver import Factors, Start, starting_points
from mccgr_cli.core.starts import parts_start
from mccgr_cli.errors import MccgrError
from mccgr_cli.files.values import SAFE
from mccgr_cli.settings import GraphSettings, Settings
from mccgr_cli.workflow import factorization
from mccgr_cli.workflow.ranking import criteria
from mccgr_cli.workflow.stages import assign_clusters, assignment_of

LOOSER = 20.0  # tolerance of a factorization here, relative to that of the settings
RESTARTS = 10  # of k-means, where the components are not the clusters


@dataclass(frozen=True)
class Run:
    """A factorization of some samples: their rows in X, their clusters, and the signature of its start."""

    rows: Array
    assignments: Array
    signature: Array


class Samples:
    """Some samples, and the neighbour graph that the factorizations with several k share."""

    def __init__(
        self,
        X: Matrix,
        settings: Settings,
        graph: GraphSettings,
        ks: Sequence[int],
        plain: factorization.PlainGraph | None = None,
    ) -> None:
        self.X = in_single_precision(X)
        self.settings = replace(settings, tolerance=LOOSER * settings.tolerance)
        few = representative(ks)
        middle = replace(self.settings, k=few[len(few) // 2])
        self.A = factorization.choose_graph(self.X, middle, graph, ks=few, plain=plain)
        self.spectrum = None if self.A is None else Spectrum(self.A, max(ks))

    def starts(self, k: int) -> list[Start]:
        """The starts of a factorization with k components, as in :func:`mccgr_cli.core.solver.starting_points`."""
        source, settings = MemoryBlocks(self.X), replace(self.settings, k=k)
        if self.A is None or not settings.starts_from_graph:
            return starting_points(source, settings, self.A)
        rng, merged = np.random.default_rng(settings.seed), settings.init == "merged"
        seeds = [int(rng.integers(2**31)) for _ in range(settings.restarts)]
        parts = [parts_of(self.A, k, seed, merged=merged, spectrum=self.spectrum) for seed in seeds]
        return [parts_start(source, k, part) for part in parts]

    def factorize(self, k: int, starts: Sequence[Start]) -> Factors:
        return factorization.factorize(self.X, replace(self.settings, k=k), self.A, starts)

    def cluster(self, k: int, rows: Array) -> Run:
        """Factorize and cluster the samples, which are these rows of the whole matrix."""
        starts = self.starts(k)
        factors = self.factorize(k, starts)
        assign = assignment_of(self.A is not None and self.settings.is_orthogonal)
        found = assign_clusters(factors.W, k, assign, RESTARTS, self.settings.seed)
        return Run(rows, found, np.hstack([criteria.signature(W, rows) for W, _ in starts]))


def in_single_precision(X: Matrix) -> Matrix:
    """X in single precision, if its values are in the range of it."""
    least, most = SAFE[4]
    return X.astype(np.float32, copy=False) if least <= float(X.max()) <= most else X


def representative(ks: Sequence[int]) -> list[int]:
    """A small, a middle and a large k, so that what they share favours none."""
    ordered = sorted(ks)
    return sorted({ordered[0], ordered[len(ordered) // 2], ordered[-1]})


def tasks_of(ks: Sequence[int]) -> list[tuple[int, ...]]:
    """The k above 1 that one task tries for a draw: up to 15, up to 63, up to 255, and so on.

    >>> tasks_of((1, 2, 3, 15, 16, 50))
    [(16, 50), (2, 3, 15)]
    """
    return grouped(ks, lambda k: (max(k.bit_length(), 3) + 1) // 2)


def groups_of(ks: Sequence[int]) -> list[tuple[int, ...]]:
    """The k that share a graph: 4 and 5, 6 and 7, 8 to 15, 16 to 31, and so on.

    >>> groups_of((2, 3, 4, 5, 8, 11, 12, 15))
    [(8, 11, 12, 15), (4, 5), (3,), (2,)]
    """
    return grouped(ks, lambda k: (k.bit_length(), k >> (k.bit_length() - 2) if k < 8 else 0))


def grouped(ks: Sequence[int], key: Callable[[int], Any]) -> list[tuple[int, ...]]:
    found = [tuple(group) for _, group in itertools.groupby(sorted(set(ks) - {1}), key)]
    return found[::-1]


def cluster_subsample(
    X: Matrix, rows: Array, settings: Settings, graph: GraphSettings, ks: Sequence[int]
) -> dict[int, Run | MccgrError]:
    """Factorize and cluster some rows of X for several k; by k, the run or its error."""
    part, plain = in_single_precision(X[rows]), None
    if factorization.learns_from_parts(settings, graph):
        plain = factorization.PlainGraph(part, graph, max(ks))
    found: dict[int, Run | MccgrError] = {}
    for group in groups_of(ks):
        samples = Samples(part, settings, graph, group, plain)
        for k in reversed(group):
            try:
                found[k] = samples.cluster(k, rows)
            except MccgrError as fault:
                found[k] = fault
    return found


def mean_weights(X: Matrix, settings: Settings, graph: GraphSettings, ks: Sequence[int]) -> Array | None:
    """The mean feature weights (d,) over a few k, so that errors and distances are comparable between all k."""
    if not METHODS[settings.method].weighted:
        return None
    few = sorted({min(max(k, 2), *X.shape) for k in representative(ks)})
    samples = Samples(X, settings, graph, few)
    weights = [samples.factorize(k, samples.starts(k)).rho for k in few]
    mean = np.asarray(np.mean(weights, axis=0, dtype=np.float64))
    return mean if mean.max() > 0 else None
