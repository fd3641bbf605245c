"""Judge a way of clustering without labels: the parts of a graph of some samples, and whether they hold together."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from mccgr_cli.blocks.protocol import Array, Matrix
from mccgr_cli.core.graph import build_graph
from mccgr_cli.core.metrics import agreement
from mccgr_cli.core.parts import modularity, parts_of
from mccgr_cli.settings import GraphSettings
from mccgr_cli.system.phases import advance

LEFT_OUT, DRAWS = 0.2, 3  # stability: fraction of the samples that is left out, and how often
STABILITY_RESTARTS = 3  # of k-means; few, because parts that depend on them are not stable


def draw_subsets(n: int, k: int, rng: np.random.Generator) -> list[Array]:
    """Samples that are kept when others are left out."""
    return [np.sort(rng.choice(n, max(k, int((1 - LEFT_OUT) * n)), replace=False)) for _ in range(DRAWS)]


class Trial:
    """Points, their graph, and its k parts."""

    def __init__(self, points: Matrix, graph: GraphSettings, k: int, seed: int, merged: bool = False) -> None:
        self.points, self.graph, self.k, self.seed, self.merged = points, graph, k, seed, merged
        self.A = build_graph(points, graph)
        self.part = parts_of(self.A, k, seed, merged=merged)
        advance(1, "graphs")

    def mean_modularity(self, trials: Iterable[Trial]) -> float:
        """The mean modularity of the parts in the graphs of several trials; in its own, every partition looks good."""
        return float(np.mean([modularity(one.A, self.part) for one in trials]))

    def stability(self, subsets: Sequence[Array]) -> float:
        """The mean agreement of the parts with the parts of fewer samples."""
        graphs = (build_graph(self.points[some], self.graph) for some in subsets)
        parts = [parts_of(A, self.k, self.seed, STABILITY_RESTARTS, self.merged) for A in graphs]
        return float(np.mean([agreement(self.part[some], part) for some, part in zip(subsets, parts, strict=True)]))
