"""Which k? Stability, held-out error and silhouette for a range of them, and what they come to.

The work falls into pieces, each of which depends on nothing but the matrix, the plan and itself, so that they may be
done in any order, anywhere.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import sparse
from threadpoolctl import threadpool_limits

from mccgr_cli.blocks.in_memory import MemoryBlocks
from mccgr_cli.blocks.protocol import Array, Matrix
from mccgr_cli.core.graph import place
from mccgr_cli.core.kmeans import kmeans
from mccgr_cli.core.methods import METHODS
from mccgr_cli.core.solver import begin, check_solver
from mccgr_cli.errors import DataError, MccgrError, ParameterError
from mccgr_cli.files.container import RANKS, Contents
from mccgr_cli.settings import GraphSettings, Settings
from mccgr_cli.workflow import stages
from mccgr_cli.workflow.ranking import heldout
from mccgr_cli.workflow.ranking.choice import Recommendation, columns_of_errors, recommend
from mccgr_cli.workflow.ranking.stability import ABSENT, Consensus, agreement, distinct, reproducibility, tables, trace

MASKS = 6  # times that other entries are hidden
RESTARTS = 10  # of k-means


@dataclass(frozen=True)
class Plan:
    """What is tried."""

    ks: tuple[int, ...]
    runs: int
    share: float  # of the samples that each run draws
    seed: int
    settings: Settings  # its k and seed are those of a run
    graph: GraphSettings

    def pieces(self) -> list[Piece]:
        """The long ones first, so that no process waits for the last."""
        runs = [Piece("run", k, run) for k in sorted(self.ks, reverse=True) if k > 1 for run in range(self.runs)]
        return [*(Piece("mask", number=mask) for mask in range(MASKS)), Piece("weights"), *runs]

    def all_ks(self) -> list[int]:
        """With 1, which all others must beat."""
        return sorted({1, *self.ks})

    def drawn(self, samples: int) -> int:
        return min(max(round(self.share * samples), 1), samples)

    def some_ks(self, most: int) -> list[int]:
        """Few, small and large, so that what is learnt with them favours none."""
        ks = sorted(self.ks)
        return sorted({min(max(k, 2), most) for k in (ks[0], ks[len(ks) // 2], ks[-1])})


@dataclass(frozen=True)
class Piece:
    """One factorization of some samples, the errors under one mask, or the weights of the features."""

    kind: str
    k: int = 0
    number: int = 0


@dataclass(frozen=True)
class Run:
    """Clusters of the samples that were drawn, and where the factorization began."""

    rows: Array
    assignments: Array
    start: Array  # its trace


@dataclass(frozen=True)
class Ranking:
    """The criteria by k, and what they come to."""

    columns: dict[str, Array]
    recommendation: Recommendation
    failures: dict[int, str]  # by k: why a run failed


def check(plan: Plan, shape: tuple[int, int]) -> None:
    """Refuse what no run could do."""
    check_solver(plan.settings)
    (n, d), k = shape, max(plan.ks)
    most = min(plan.drawn(n), d)
    if most < 2:
        raise DataError(
            "X", f"{n} x {d}: too small for its components to be counted", "bring more samples and features"
        )
    if k > most:
        drawn = "" if d < plan.drawn(n) else f", of which each run draws {plan.drawn(n)}"
        what = f"{k} components are more than {n} samples of {d} features have room for{drawn}"
        raise ParameterError("--k", what, f"give at most {most}")


def draw_samples(X: Matrix, most: int, seed: int) -> Matrix:
    """As many random samples as there is time and memory for, in their order."""
    if X.shape[0] <= most:
        return X
    chosen: Matrix = X[np.sort(np.random.default_rng([seed, 0]).choice(X.shape[0], most, replace=False))]
    return chosen


def perform(piece: Piece, X: Matrix, plan: Plan) -> Any:
    """The outcome of one piece, or the error that it ended with; with one thread, as others use the other cores."""
    import sklearn.cluster  # noqa: F401 - its threads are limited only if they are there before the limit

    with threadpool_limits(limits=1):
        try:
            if piece.kind == "run":
                return factorize(piece, X, plan)
            if piece.kind == "mask":
                return errors_under_mask(piece.number, X, plan)
            return weights(X, plan, plan.seed)
        except MccgrError as fault:
            return fault


def factorize(piece: Piece, X: Matrix, plan: Plan) -> Run:
    """Some samples, the same for every k, and their clusters."""
    rng = np.random.default_rng([plan.seed, 1, piece.number])
    n = X.shape[0]
    rows = np.sort(rng.choice(n, plan.drawn(n), replace=False))
    settings = replace(plan.settings, k=piece.k, seed=int(rng.integers(2**31)))
    part = X[rows]
    A = stages.choose_graph(part, settings, plan.graph)
    starts = begin(MemoryBlocks(part), settings, A)
    factors = stages.factorize(part, settings, A, starts)
    assignments = kmeans(factors.W, piece.k, RESTARTS, settings.seed)
    return Run(rows, assignments, np.hstack([trace(W, rows) for W, _ in starts]))


def weights(X: Matrix, plan: Plan, seed: int) -> Array | None:
    """The weights of the features (d,) on average over some k, so that errors and distances are the same for all k."""
    if not METHODS[plan.settings.method].weighted:
        return None
    found = []
    for k in plan.some_ks(min(X.shape)):
        settings = replace(plan.settings, k=k, seed=seed)
        found.append(stages.factorize(X, settings, stages.choose_graph(X, settings, plan.graph)).rho)
    mean: Array = np.mean(found, axis=0)
    return mean if mean.max() > 0 else None


def errors_under_mask(number: int, X: Matrix, plan: Plan) -> list[float]:
    """By k, with 1: how well entries are predicted that neither the fit nor the weights of the features have seen."""
    part = heldout.part_of(X, np.random.default_rng([plan.seed, 2]))  # the same part under every mask
    hidden = heldout.hide(part.shape, np.random.default_rng([plan.seed, 3, number]))
    rho = weights(heldout.blanked(part, hidden)[0], plan, plan.seed)
    rho = np.ones(part.shape[1]) if rho is None else rho
    ks = [min(k, *part.shape) for k in plan.all_ks()]
    return heldout.errors(part, hidden, ks, rho, [plan.seed, 4, number])


def conclude(pieces: Sequence[Piece], outcomes: Sequence[Any], X: Matrix, plan: Plan) -> Ranking:
    """From the outcomes of all pieces, None where its process died."""
    runs: dict[int, list[Run]] = {k: [] for k in plan.all_ks()}
    failures: dict[int, str] = {}
    masks: list[list[float]] = []
    rho: Array | None = None
    faults = [outcome for outcome in outcomes if isinstance(outcome, MccgrError)]
    for piece, outcome in zip(pieces, outcomes, strict=True):
        if outcome is None or isinstance(outcome, MccgrError):
            if piece.kind == "run":
                failures.setdefault(piece.k, "its process died" if outcome is None else str(outcome))
        elif piece.kind == "run":
            runs[piece.k].append(outcome)
        elif piece.kind == "mask":
            masks.append(outcome)
        else:
            rho = outcome
    if not any(runs.values()) and (failures or not masks):
        raise faults[0] if faults else DataError("worker processes", "all of them died", "give fewer --jobs")
    with threadpool_limits(limits=1):  # however many there are, rounding is the same
        places = place(X, plan.graph.axes_for(max(plan.ks)), rho)
        rows = [{"k": k, **judged(k, runs[k], places)} for k in plan.all_ks()]
    columns = {name: np.array([row[name] for row in rows]) for name in rows[0]}
    unknown = np.full(len(rows), np.nan)
    columns |= columns_of_errors(np.array(masks)) if masks else {"heldout": unknown, "heldout_error": unknown}
    columns = {name: columns[name] for name in RANKS}
    return Ranking(columns, recommend(columns, plan.ks), failures)


def judged(k: int, runs: Sequence[Run], places: Any) -> dict[str, Any]:
    """Stability and silhouette of the clusters that the runs found."""
    names = ("reproducibility", "reproducibility_error", "agreement", "cophenetic", "dispersion", "silhouette")
    kept = [runs[number] for number in distinct([(run.rows, run.start) for run in runs])]
    found: dict[str, Any] = {"runs": len(kept), **dict.fromkeys(names, float("nan"))}
    if k < 2 or len(kept) < 2:
        return found
    assigned = np.full((len(kept), places.shape[0]), ABSENT, dtype=np.int64)
    for row, run in zip(assigned, kept, strict=True):
        row[run.rows] = run.assignments
    agreed = Consensus(assigned)
    found["reproducibility"], found["reproducibility_error"] = reproducibility(assigned, k)
    return found | {
        "agreement": agreement(tables(assigned, k)),
        "cophenetic": agreed.cophenetic(),
        "dispersion": agreed.dispersion(),
        "silhouette": silhouette(places, agreed.clusters(k)),
    }


def silhouette(places: Any, clusters: Array) -> float:
    """Of the clusters that the runs agree on most, where neighbours are sought.

    P. J. Rousseeuw: Silhouettes. Journal of Computational and Applied Mathematics 20, 1987.
    """
    from sklearn.metrics import silhouette_score

    if not 1 < len(np.unique(clusters)) < len(clusters):
        return float("nan")
    return float(silhouette_score(sparse.csr_matrix(places) if sparse.issparse(places) else places, clusters))


def ranks_contents(ranking: Ranking, plan: Plan, samples: int, how: str) -> Contents:
    found = ranking.recommendation
    attributes: Mapping[str, Any] = {
        "recommended": found.k,
        "reasons": found.reasons,
        "firm": found.firm,
        "by_stability": found.by_stability,
        "by_heldout": found.by_heldout,
        "by_silhouette": found.by_silhouette,
        "bracket": list(found.bracket),
        "method": plan.settings.method,
        "normalize": how,
        "runs": plan.runs,
        "share": plan.share,
        "samples": samples,
        "seed": plan.seed,
    }
    return Contents("ranks", dict(ranking.columns), dict(attributes))
