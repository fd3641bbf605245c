"""Choose the normalization of the rows, and how many principal axes to search neighbours on, without labels.

Every candidate has a graph of the samples, and k parts of this graph. The parts that hold together best are chosen:
in the graphs of all candidates (modularity), and when some of the samples are left out (stability). If samples are
many, this is done with some of them.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy import sparse

from mccgr_cli.blocks.protocol import Array, BlockSource, Matrix, Partial, sum_over_blocks
from mccgr_cli.blocks.rows import normalize, row_sizes
from mccgr_cli.blocks.threads import threads_for_blocks
from mccgr_cli.core.graph import build_graph, modularity, parts_of, search_points
from mccgr_cli.core.metrics import agreement
from mccgr_cli.settings import AUTO, GraphSettings

CANDIDATES = ("none", "sqrt", "hellinger", "log")
KEEP_SIZES = ("none", "sqrt")  # candidates in which rows keep their sizes
EQUAL_SIZES = 0.1  # relative spread of the sums of rows below which rows are not scaled: their sums are no accident
MANY_AXES = 200  # tried for sparse X too: words of texts need more axes than genes
LEAST_SAMPLE, SAMPLE_PER_CLUSTER = 1000, 20  # samples that the choice is made with
LEFT_OUT, DRAWS = 0.2, 3  # stability: fraction of the samples that is left out, and how often
STABILITY_POWER = 0.25  # how much stability counts beside modularity


@dataclass(frozen=True)
class Candidate:
    """A normalization, and a number of principal axes (None: the default)."""

    normalize: str
    axes: int | None

    def __str__(self) -> str:
        return self.normalize if self.axes is None else f"{self.normalize} with {self.axes} axes"


@dataclass(frozen=True)
class Choice:
    """The chosen candidate, and the score of every candidate."""

    chosen: Candidate
    scores: dict[str, float]  # by the name of the candidate

    def __str__(self) -> str:
        listed = ", ".join(f"{name} {score:.3f}" for name, score in self.scores.items())
        return f"rows: --normalize {self.chosen} holds together best ({listed})"


def candidates(X: Matrix, k: int, normalization: str, graph: GraphSettings) -> list[Candidate]:
    """What there is to choose from; an option that the user gave is obeyed."""
    ways: Sequence[str] = (normalization,)
    if normalization == AUTO:
        sums = row_sizes(X, "l1")
        ways = KEEP_SIZES if sums.std() < EQUAL_SIZES * sums.mean() else CANDIDATES
    axes: list[int | None] = [None]
    if graph.axes is None and sparse.issparse(X) and graph.axes_for(k) < MANY_AXES < min(X.shape) // 2:
        axes.append(MANY_AXES)
    return [Candidate(*one) for one in itertools.product(ways, axes)]


def choose(source: BlockSource, k: int, seed: int, normalization: str, graph: GraphSettings) -> Choice | None:
    """The best candidate for rows that are not yet normalized; None if there is nothing to choose."""
    rng = np.random.default_rng(seed)
    X = some_rows(source, max(LEAST_SAMPLE, SAMPLE_PER_CLUSTER * k), rng)
    pool = candidates(X, k, normalization, graph)
    n = X.shape[0]
    if len(pool) == 1 and pool[0].normalize == normalization and pool[0].axes == graph.axes:
        return None
    if n <= k or k == 1:
        return Choice(pool[0], {})
    subsets = [np.sort(rng.choice(n, max(k, int((1 - LEFT_OUT) * n)), replace=False)) for _ in range(DRAWS)]
    trials = [Trial(X, k, seed, one, graph) for one in pool]
    scores = {
        str(one): max(float(np.mean([modularity(other.A, trial.part) for other in trials])), 0.0)
        * trial.stability(subsets) ** STABILITY_POWER
        for one, trial in zip(pool, trials, strict=True)
    }
    return Choice(max(pool, key=lambda one: scores[str(one)]), scores)


def settle(
    source: BlockSource, k: int, seed: int, normalization: str, graph: GraphSettings
) -> tuple[str, GraphSettings, Choice | None]:
    """The normalization and the settings of the graph after the choice, and the choice if there was one."""
    choice = choose(source, k, seed, normalization, graph)
    if choice is None:
        return normalization, graph, None
    chosen = choice.chosen
    return chosen.normalize, replace(graph, axes=chosen.axes if chosen.axes is not None else graph.axes), choice


class Trial:
    """The graph of a candidate, and its parts."""

    def __init__(self, X: Matrix, k: int, seed: int, candidate: Candidate, graph: GraphSettings) -> None:
        self.k, self.seed = k, seed
        axes = replace(graph, axes=candidate.axes if candidate.axes is not None else graph.axes).axes_for(k)
        self.points: Matrix = search_points(normalize(X.copy(), candidate.normalize), axes, None)  # type: ignore[assignment]
        self.settings = GraphSettings(neighbors=graph.neighbors, axes=0)
        self.A = build_graph(self.points, self.settings)
        self.part = parts_of(self.A, k, seed)

    def stability(self, subsets: Sequence[Array]) -> float:
        """The mean agreement of the parts with the parts of fewer samples."""
        found = [
            agreement(self.part[some], parts_of(build_graph(self.points[some], self.settings), self.k, self.seed))
            for some in subsets
        ]
        return float(np.mean(found))


@threads_for_blocks()
def some_rows(source: BlockSource, count: int, rng: np.random.Generator) -> Matrix:
    """This number of random rows, or all rows if there are fewer."""
    n = source.shape[0]
    chosen = np.zeros(n, dtype=bool)
    chosen[rng.choice(n, min(count, n), replace=False)] = True
    rows = np.empty(n, dtype=object)
    sum_over_blocks(source, rows_of_block, (chosen,), into=(rows,))
    found = [block for block in rows if block is not None]
    return sparse.csr_array(sparse.vstack(found)) if sparse.issparse(found[0]) else np.vstack(found)


def rows_of_block(X_b: Matrix, chosen_b: Array) -> Partial:
    """The chosen rows of a block, as one object in the first place of the block."""
    rows = np.full(X_b.shape[0], None, dtype=object)
    if chosen_b.any():
        rows[0] = X_b[chosen_b]
    return Partial(rows=(rows,))
