"""Choose the normalization of the rows, and the evenness of the principal axes, without labels.

Every candidate has a graph of the samples, and k parts of this graph. The parts that hold together best are chosen: few
edges between them in the graphs of all normalizations (modularity), and nearly the same parts when some samples are
left out (stability). If samples are many, this is done with some of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from mccgr_cli.blocks.protocol import Array, BlockSource, Matrix
from mccgr_cli.blocks.rows import idf_for, normalize, row_sizes, take_rows
from mccgr_cli.blocks.threads import threads_for_blocks
from mccgr_cli.core.kmeans import kmeans
from mccgr_cli.core.metrics import agreement
from mccgr_cli.core.parts import modularity
from mccgr_cli.core.principal_axes import coordinates_of_few
from mccgr_cli.settings import AUTO, TFIDF, GraphSettings, Settings
from mccgr_cli.system.phases import phase
from mccgr_cli.workflow import division
from mccgr_cli.workflow.division import Division
from mccgr_cli.workflow.trials import DRAWS, Trial, draw_subsets

KEEP_SIZES = ("none", "sqrt")  # normalizations in which rows keep their sizes
LOSE_SIZES = ("hellinger", "log")  # normalizations that scale rows to the same sum
EQUAL_SIZES = 0.1  # relative spread of the sums of rows below which rows are not scaled: their sums are no accident
UNEQUAL_SIZES = 0.5  # and above which they are: the length of a text or the depth of a cell says nothing
FEW_FEATURES, MANY_FEATURES = 10, 50  # of few features, the sum is a good part of what is known
EVENNESSES = (0.1, 0.5)
LEAST_SAMPLE, SAMPLE_PER_CLUSTER = 1000, 20  # samples that the choice is made with
NO_CLUSTERS = "doubt: the clusters hold together no better than by chance; try another --k"
STRONG_DISAGREEMENT = 0.5  # NMI of two clusterings below which they are different


@dataclass(frozen=True)
class Candidate:
    """A normalization of the rows and an evenness of the principal axes (None: there are no axes)."""

    normalize: str
    evenness: float | None

    def __str__(self) -> str:
        return self.normalize if self.evenness is None else f"{self.normalize}/{self.evenness:g}"


@dataclass(frozen=True)
class Choice:
    """What was chosen (None: it was given), and the score of every candidate, or its upper limit if it cannot win."""

    chosen: Candidate | None = None
    scores: dict[Candidate, float] = field(default_factory=dict)
    doubt: str | None = None  # why the clusters may be wrong
    division: Division | None = None

    def __str__(self) -> str:
        options = []
        if self.chosen is not None:
            evenness = "" if self.chosen.evenness is None else f" --evenness {self.chosen.evenness:g}"
            options.append(f"--normalize {self.chosen.normalize}{evenness}")
        if self.division is not None:
            options.append(str(self.division))
        ranked = sorted(self.scores.items(), key=lambda one: -one[1])
        listed = ", ".join(f"{candidate} {score:.3f}" for candidate, score in ranked)
        why = f": clusters hold together best ({listed})" if listed else ""
        return f"chosen: {' '.join(options)}{why}"


@dataclass(frozen=True)
class Settled:
    """Settings of which nothing is open any more, and the choice, if there was any."""

    normalize: str
    settings: Settings
    graph: GraphSettings
    choice: Choice | None = None
    idf: Array | None = None  # for the normalization tfidf, learnt from all rows


def settle(source: BlockSource, settings: Settings, normalization: str, graph: GraphSettings) -> Settled:
    """Choose what is left open, for rows that are not yet normalized."""
    choice: Choice | None = None
    idf = idf_for(normalization, source)
    with phase("choosing options", "graphs"):
        if rows_are_open(normalization, graph):
            choice, best = choose(source, settings.k, settings.seed, normalization, graph, idf)
            normalization, graph = best.normalize, replace(graph, evenness=best.evenness)
        if division.is_open(settings, graph):
            rng = np.random.default_rng([settings.seed, 1])
            chosen = division.choose_division(source, settings, normalization, graph, rng, idf)
            choice = replace(choice or Choice(), division=chosen)
            settings, graph = replace(settings, init=chosen.init), replace(graph, neighbors=chosen.neighbors)
    return Settled(normalization, settings, graph, choice, idf)


def without_graph(settings: Settings, graph: GraphSettings) -> tuple[Settings, GraphSettings]:
    """The settings where no graph is built: nothing of it is to be chosen."""
    usual = division.usual(settings, graph)
    evenness = EVENNESSES[0] if graph.evenness is None else graph.evenness
    return replace(settings, init=usual.init), replace(graph, evenness=evenness, neighbors=usual.neighbors)


def is_open(normalization: str, settings: Settings, graph: GraphSettings) -> bool:
    """Whether there is anything to choose, or to learn from all rows."""
    return normalization == TFIDF or rows_are_open(normalization, graph) or division.is_open(settings, graph)


def rows_are_open(normalization: str, graph: GraphSettings) -> bool:
    """Whether the normalization or the evenness is to be chosen."""
    return normalization == AUTO or (graph.evenness is None and graph.axes_for() > 0)


@threads_for_blocks()  # the choice must not depend on rounding, which depends on threads
def choose(
    source: BlockSource, k: int, seed: int, normalization: str, graph: GraphSettings, idf: Array | None = None
) -> tuple[Choice, Candidate]:
    """The choice of the normalization and the evenness, and the chosen candidate."""
    rng = np.random.default_rng(seed)
    n = min(source.shape[0], max(LEAST_SAMPLE, SAMPLE_PER_CLUSTER * k))
    X = take_rows(source, np.sort(rng.choice(source.shape[0], n, replace=False)))
    evennesses = (graph.evenness,) if graph.evenness is not None or not graph.axes_for() else EVENNESSES
    normalizations = open_normalizations(X) if normalization == AUTO else (normalization,)
    if not 1 < k < n:
        first = Candidate(normalizations[0], evennesses[0])
        return Choice(first), first
    trials: dict[Candidate, Trial] = {}
    for how in normalizations:
        trials |= make_trials(X, how, evennesses, k, seed, graph, idf)
    subsets = draw_subsets(n, k, rng)
    # Graphs of another evenness are not comparable.
    scores = {
        one: trial.mean_modularity(trials[other] for other in trials if other.evenness == one.evenness)
        for one, trial in trials.items()
    }
    best, found = next(iter(trials)), -np.inf
    for candidate in sorted(trials, key=lambda one: -scores[one]):
        if scores[candidate] > found:  # stability is at most 1, so the others cannot win any more
            scores[candidate] *= trials[candidate].stability(subsets)
            if scores[candidate] > found:
                best, found = candidate, scores[candidate]
    return Choice(best, scores, doubt(trials[best]) if found > 0 else NO_CLUSTERS), best


def open_normalizations(X: Matrix) -> Sequence[str]:
    sums, features = row_sizes(X, "l1"), np.count_nonzero(X.sum(axis=0))  # features that are in use
    spread = float(sums.std() / (sums.mean() or 1))
    if spread < EQUAL_SIZES or features < FEW_FEATURES:
        return KEEP_SIZES
    return LOSE_SIZES if spread > UNEQUAL_SIZES and features >= MANY_FEATURES else KEEP_SIZES + LOSE_SIZES


def make_trials(
    X: Matrix,
    how: str,
    evennesses: Sequence[float | None],
    k: int,
    seed: int,
    graph: GraphSettings,
    idf: Array | None = None,
) -> dict[Candidate, Trial]:
    """The trials of one normalization; they share the principal axes."""
    rows, axes = normalize(X.copy(), how, idf), graph.axes_for(k)
    points = [rows for _ in evennesses]
    if axes:
        points = coordinates_of_few(rows, axes, [one for one in evennesses if one is not None])
    settings = GraphSettings(neighbors=graph.neighbors, axes=0)
    return {Candidate(how, one): Trial(at, settings, k, seed) for one, at in zip(evennesses, points, strict=True)}


def doubt(trial: Trial) -> str | None:
    """Why the parts may be wrong: k-means finds others that cut fewer edges."""
    others = kmeans(trial.points, trial.k, DRAWS, trial.seed)
    common = agreement(trial.part, others)
    if others.max() and common < STRONG_DISAGREEMENT and modularity(trial.A, others) > modularity(trial.A, trial.part):
        return (
            f"doubt: k-means finds other clusters (NMI {common:.2f}), and more neighbours are together in those; "
            "compare 'mccgr cluster MATRIX --k'"
        )
    return None
