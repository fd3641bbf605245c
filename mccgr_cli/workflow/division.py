"""Choose the number of neighbours, and how the graph is divided into clusters, without labels.

More neighbours are better where clusters are clouds, fewer where they are curves. More are used if the clusters then
hold together clearly better. Spectral clustering cuts a large cluster rather than separate two small ones. Merged parts
(``core.parts.parts_of``) do not, but they may join what touches. They are used if they are farther apart. Both changes
must be robust: the parts hardly differ if some samples are left out, or if there are half as many neighbours. Of many
samples, some are compared.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from mccgr_cli.blocks.protocol import Array, BlockSource
from mccgr_cli.blocks.rows import normalize, take_rows
from mccgr_cli.blocks.threads import threads_for_blocks
from mccgr_cli.core.graph import build_graph, principal_coordinates
from mccgr_cli.core.methods import METHODS
from mccgr_cli.core.metrics import agreement, separation
from mccgr_cli.core.parts import parts_of
from mccgr_cli.settings import AUTO, NEIGHBORS, GraphSettings, Settings
from mccgr_cli.workflow.factorization import weighing_samples, weights_by_parts
from mccgr_cli.workflow.trials import Trial, draw_subsets

# Samples that are compared. Clusters are of unequal size: those of a tenth of the average must be seen as well.
LEAST_SAMPLE, SAMPLE_PER_CLUSTER = 3000, 200
CLEARLY_BETTER = 1.02  # score with more neighbours, relative to that with fewer
FARTHER_APART = 0.05  # separation of merged parts, beyond that of the best others
FARTHER_THAN_ALL = 0.03  # or beyond that of all others
STABLE, AGREED = 0.93, 0.9  # agreement with parts of fewer samples, and of half the neighbours; else the usual division


@dataclass(frozen=True)
class Division:
    """How many neighbours a sample has in the graph, and where a factorization starts."""

    neighbors: int
    init: str

    def __str__(self) -> str:
        return f"--neighbors {self.neighbors} --init {self.init}"


def is_open(settings: Settings, graph: GraphSettings) -> bool:
    """Whether there is anything to choose."""
    return graph.neighbors is None or settings.init == AUTO


def usual(settings: Settings, graph: GraphSettings) -> Division:
    """The division without a choice."""
    return Division(graph.neighbors or NEIGHBORS[0], "graph" if settings.init == AUTO else settings.init)


@threads_for_blocks()  # the choice must not depend on rounding, which depends on threads
def choose_division(
    source: BlockSource,
    settings: Settings,
    normalization: str,
    graph: GraphSettings,
    rng: np.random.Generator,
    idf: Array | None = None,
) -> Division:
    """Choose for rows that are not yet normalized; everything else is settled."""
    first, k = usual(settings, graph), settings.k
    n = min(weighing_samples(source, k), max(LEAST_SAMPLE, SAMPLE_PER_CLUSTER * k))
    most = graph.most_neighbors(source.shape[0])
    # With few neighbours, parts that touch have hardly any edges between them: it is chance which are merged.
    may_merge = settings.init == AUTO and most >= NEIGHBORS[-1]
    nothing_to_compare = most == first.neighbors and not may_merge
    # A sample of an average cluster must find as many neighbours in its own cluster.
    if nothing_to_compare or most * k >= n or k < 2 or not graph.axes_for(k):
        return first
    points = sample_points(source, n, settings, normalization, replace(graph, neighbors=first.neighbors), rng, idf)
    subsets = draw_subsets(n, k, rng)

    def trial(neighbors: int, merged: bool = False) -> Trial:
        own = replace(graph, neighbors=neighbors, axes=0, search="exact")
        return Trial(points, own, k, settings.seed, merged)

    def is_robust(one: Trial, stability: float) -> bool:
        """Whether the parts hardly change with half of the neighbours, or without some samples."""
        half = trial((one.graph.neighbors or 2) // 2, one.merged)
        return stability >= STABLE and agreement(one.part, half.part) >= AGREED

    few = many = best = trial(first.neighbors)
    if most > first.neighbors:
        many = trial(most)
        least = CLEARLY_BETTER * few.mean_modularity((few, many)) * few.stability(subsets)
        if many.mean_modularity((few, many)) > least:  # stability is at most 1
            stability = many.stability(subsets)
            if many.mean_modularity((few, many)) * stability > least and is_robust(many, stability):
                best = many
    if may_merge:
        merged = trial(most, merged=True)
        apart, *others = (separation(points, one.part) for one in (merged, best, few, many))
        farther = apart > others[0] + FARTHER_APART or apart > max(others) + FARTHER_THAN_ALL
        if farther and is_robust(merged, merged.stability(subsets)):
            best = merged
    return Division(best.graph.neighbors or first.neighbors, "merged" if best.merged else first.init)


def sample_points(
    source: BlockSource,
    n: int,
    settings: Settings,
    normalization: str,
    graph: GraphSettings,
    rng: np.random.Generator,
    idf: Array | None,
) -> Array:
    """Some samples on the axes on which the neighbours of the factorization will be searched, (n, axes)."""
    some = np.sort(rng.choice(source.shape[0], n, replace=False))
    X = normalize(take_rows(source, some).copy(), normalization, idf)
    axes, weights = graph.axes_for(settings.k), None
    if METHODS[settings.method].weighted and graph.graph_features == "explained":
        plain = build_graph(X, replace(graph, axes=axes))
        weights = weights_by_parts(X, parts_of(plain, settings.k, settings.seed))
    return principal_coordinates(X, axes, weights, graph.evenness or 0.0).astype(np.float64)
