"""Choose the normalization of the rows, and the evenness of the principal axes, without labels.

Every candidate has a graph of the samples, and k parts of this graph. The parts that hold together best are chosen: few
edges between them in the graphs of all normalizations (modularity), and nearly the same parts when some samples are
left out (stability). If samples are many, this is done with some of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from mccgr_cli.blocks.protocol import Array, BlockSource, Matrix
from mccgr_cli.blocks.rows import normalize, row_sizes, take_rows
from mccgr_cli.blocks.threads import threads_for_blocks
from mccgr_cli.core.graph import build_graph
from mccgr_cli.core.kmeans import kmeans
from mccgr_cli.core.metrics import agreement
from mccgr_cli.core.parts import modularity, parts_of
from mccgr_cli.core.principal_axes import coordinates_of_few
from mccgr_cli.settings import AUTO, GraphSettings

KEEP_SIZES = ("none", "sqrt")  # normalizations in which rows keep their sizes
LOSE_SIZES = ("hellinger", "log")  # normalizations that scale rows to the same sum
EQUAL_SIZES = 0.1  # relative spread of the sums of rows below which rows are not scaled: their sums are no accident
UNEQUAL_SIZES = 0.5  # and above which they are: the length of a text or the depth of a cell says nothing
FEW_FEATURES, MANY_FEATURES = 10, 50  # of few features, the sum is a good part of what is known
EVENNESSES = (0.1, 0.5)
LEAST_SAMPLE, SAMPLE_PER_CLUSTER = 1000, 20  # samples that the choice is made with
NO_CLUSTERS = "doubt: the clusters hold together no better than by chance; try another --k"
STRONG_DISAGREEMENT = 0.5  # NMI of two clusterings below which they are different
LEFT_OUT, DRAWS = 0.2, 3  # stability: fraction of the samples that is left out, and how often
STABILITY_RESTARTS = 3  # of k-means; few, because parts that depend on them are not stable


@dataclass(frozen=True)
class Candidate:
    """A normalization of the rows and an evenness of the principal axes (None: there are no axes)."""

    normalize: str
    evenness: float | None

    def __str__(self) -> str:
        return self.normalize if self.evenness is None else f"{self.normalize}/{self.evenness:g}"


@dataclass(frozen=True)
class Choice:
    """The chosen candidate, and the score of every candidate (an upper limit, if it could not win any more)."""

    chosen: Candidate
    scores: dict[Candidate, float]
    doubt: str | None = None  # why the clusters may be wrong

    def __str__(self) -> str:
        evenness = "" if self.chosen.evenness is None else f" --evenness {self.chosen.evenness:g}"
        ranked = sorted(self.scores.items(), key=lambda one: -one[1])
        listed = ", ".join(f"{candidate} {score:.3f}" for candidate, score in ranked)
        why = f": clusters hold together best ({listed})" if listed else ""
        return f"chosen: --normalize {self.chosen.normalize}{evenness}{why}"


def settle(
    source: BlockSource, k: int, seed: int, normalization: str, graph: GraphSettings
) -> tuple[str, GraphSettings, Choice | None]:
    """Choose what is left open, for rows that are not yet normalized.

    Returns
    -------
    tuple
        The normalization, the settings of the graph, and the choice, if there was any.
    """
    if not is_open(normalization, graph):
        return normalization, graph, None
    choice = choose(source, k, seed, normalization, graph)
    return choice.chosen.normalize, replace(graph, evenness=choice.chosen.evenness), choice


def without_graph(graph: GraphSettings) -> GraphSettings:
    """The settings where no graph is built: there is no evenness to choose."""
    return graph if graph.evenness is not None else replace(graph, evenness=EVENNESSES[0])


def is_open(normalization: str, graph: GraphSettings) -> bool:
    """Whether there is anything to choose."""
    return normalization == AUTO or (graph.evenness is None and graph.axes_for() > 0)


@threads_for_blocks()  # the choice must not depend on rounding, which depends on threads
def choose(source: BlockSource, k: int, seed: int, normalization: str, graph: GraphSettings) -> Choice:
    rng = np.random.default_rng(seed)
    n = min(source.shape[0], max(LEAST_SAMPLE, SAMPLE_PER_CLUSTER * k))
    X = take_rows(source, np.sort(rng.choice(source.shape[0], n, replace=False)))
    evennesses = (graph.evenness,) if graph.evenness is not None or not graph.axes_for() else EVENNESSES
    normalizations = open_normalizations(X) if normalization == AUTO else (normalization,)
    if not 1 < k < n:
        return Choice(Candidate(normalizations[0], evennesses[0]), {})
    trials = [one for how in normalizations for one in make_trials(X, how, evennesses, k, seed, graph)]
    subsets = [np.sort(rng.choice(n, max(k, int((1 - LEFT_OUT) * n)), replace=False)) for _ in range(DRAWS)]
    scores = {one.candidate: one.mean_modularity(trials) for one in trials}
    best, found = trials[0], -np.inf
    for trial in sorted(trials, key=lambda one: -scores[one.candidate]):
        if scores[trial.candidate] > found:  # stability is at most 1, so the others cannot win any more
            scores[trial.candidate] *= trial.stability(subsets)
            if scores[trial.candidate] > found:
                best, found = trial, scores[trial.candidate]
    return Choice(best.candidate, scores, best.doubt() if found > 0 else NO_CLUSTERS)


def open_normalizations(X: Matrix) -> Sequence[str]:
    sums, features = row_sizes(X, "l1"), np.count_nonzero(X.sum(axis=0))  # features that are in use
    spread = float(sums.std() / (sums.mean() or 1))
    if spread < EQUAL_SIZES or features < FEW_FEATURES:
        return KEEP_SIZES
    return LOSE_SIZES if spread > UNEQUAL_SIZES and features >= MANY_FEATURES else KEEP_SIZES + LOSE_SIZES


def make_trials(
    X: Matrix, how: str, evennesses: Sequence[float | None], k: int, seed: int, graph: GraphSettings
) -> list[Trial]:
    """The trials of one normalization; they share the principal axes."""
    rows, axes = normalize(X.copy(), how), graph.axes_for(k)
    if not axes:
        return [Trial(Candidate(how, one), rows, k, seed, graph.neighbors) for one in evennesses]
    lengths = [one for one in evennesses if one is not None]
    points = coordinates_of_few(rows, axes, lengths)
    return [Trial(Candidate(how, one), at, k, seed, graph.neighbors) for one, at in zip(lengths, points, strict=True)]


class Trial:
    """A candidate: its points, their graph, and the parts of the graph."""

    def __init__(self, candidate: Candidate, points: Matrix, k: int, seed: int, neighbors: int) -> None:
        self.candidate, self.points, self.k, self.seed = candidate, points, k, seed
        self.settings = GraphSettings(neighbors=neighbors, axes=0)
        self.A = build_graph(points, self.settings)
        self.part = parts_of(self.A, k, seed)

    def mean_modularity(self, trials: Sequence[Trial]) -> float:
        """The mean modularity of the parts in the graphs of all normalizations.

        In its own graph alone every partition looks good. Graphs of another evenness are not comparable.
        """
        graphs = [one.A for one in trials if one.candidate.evenness == self.candidate.evenness]
        return float(np.mean([modularity(A, self.part) for A in graphs]))

    def doubt(self) -> str | None:
        """Why the parts may be wrong: k-means finds others that cut fewer edges."""
        others = kmeans(self.points, self.k, DRAWS, self.seed)
        common = agreement(self.part, others)
        if others.max() and common < STRONG_DISAGREEMENT and modularity(self.A, others) > modularity(self.A, self.part):
            return (
                f"doubt: k-means finds other clusters (NMI {common:.2f}), and more neighbours are together in those; "
                "compare 'mccgr cluster MATRIX --k'"
            )
        return None

    def stability(self, subsets: Sequence[Array]) -> float:
        """The mean agreement of the parts with the parts of fewer samples."""
        found = [
            agreement(
                self.part[some],
                parts_of(build_graph(self.points[some], self.settings), self.k, self.seed, STABILITY_RESTARTS),
            )
            for some in subsets
        ]
        return float(np.mean(found))
