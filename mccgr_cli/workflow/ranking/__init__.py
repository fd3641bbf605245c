"""Choose the number of components k: stability, held-out error and silhouette for a range of k.

The work is divided into tasks. Each task depends only on the matrix, the plan and itself, so tasks can run in any order
and in any process. ``criteria`` compares clusters and predicts hidden entries, ``choice`` recommends a k.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from scipy import sparse

from mccgr_cli.blocks.in_memory import MemoryBlocks
from mccgr_cli.blocks.protocol import Array, BlockSource, Matrix
from mccgr_cli.blocks.rows import normalize, take_rows
from mccgr_cli.blocks.threads import one_thread
from mccgr_cli.catalog import RANK_HEADINGS
from mccgr_cli.core.graph import search_points
from mccgr_cli.core.metrics import adjusted_rand_index
from mccgr_cli.core.solver import check_solver
from mccgr_cli.errors import DataError, MccgrError, ParameterError
from mccgr_cli.files.container import Contents
from mccgr_cli.settings import GraphSettings, Settings
from mccgr_cli.workflow import division
from mccgr_cli.workflow.choice import Settled, settle
from mccgr_cli.workflow.ranking import criteria
from mccgr_cli.workflow.ranking.choice import Recommendation, columns_of_errors, recommend
from mccgr_cli.workflow.ranking.subsamples import Run, cluster_subsample, in_single_precision, mean_weights, tasks_of

MASKS = 6  # sets of hidden entries
USUAL_KS = (*range(2, 11), 12, 15, 20, 25, 30, 40, 50)  # to try, if the user names none
ALWAYS_TRIED = 5  # up to this k, few samples are no reason to leave one out
FEWEST_PER_CLUSTER = 10  # samples, beyond ALWAYS_TRIED


@dataclass(frozen=True)
class Plan:
    """The numbers of components to try, and how."""

    ks: tuple[int, ...]
    runs: int  # for each k
    share: float  # of the samples, drawn for each run
    seed: int
    settings: Settings  # its k and seed are replaced in each run
    graph: GraphSettings

    def tasks(self) -> list[Task]:
        """All tasks. The long ones come first, so that no process waits for the last."""
        runs = [Task("run", run, ks) for ks in tasks_of(self.ks) for run in range(self.runs)]
        return [*(Task("mask", mask) for mask in range(MASKS)), Task("weights"), *runs]

    def all_ks(self) -> list[int]:
        """The k to try, and 1, with which all others are compared."""
        return sorted({1, *self.ks})

    def drawn(self, samples: int) -> int:
        return drawn(samples, self.share)


@dataclass(frozen=True)
class Task:
    """The runs with several k on one draw of samples, the held-out errors under one mask, or the feature weights."""

    kind: str  # "run", "mask" or "weights"
    number: int = 0  # of the draw or mask
    ks: tuple[int, ...] = ()  # of the runs

    @property
    def name(self) -> str:
        return f"{self.kind} {self.number} {','.join(map(str, self.ks))}"


@dataclass(frozen=True)
class Ranking:
    columns: dict[str, Array]  # one value for each k; see settings.RANK_HEADINGS
    recommendation: Recommendation
    failures: dict[int, str]  # by k: why a run failed


def drawn(samples: int, share: float) -> int:
    """How many samples a run draws."""
    return min(max(round(share * samples), 1), samples)


def usual_ks(shape: tuple[int, int], share: float) -> tuple[int, ...]:
    """The k to try if the user names none: all that a run has room for, with enough samples in a cluster.

    >>> usual_ks((192, 300), 0.8)
    (2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 15)
    >>> usual_ks((20, 300), 0.8), usual_ks((20, 3), 0.8)
    ((2, 3, 4, 5), (2, 3))
    """
    n, d = shape
    most = min(max(n // FEWEST_PER_CLUSTER, ALWAYS_TRIED), drawn(n, share), d)
    return tuple(k for k in USUAL_KS if k <= max(most, 2))


def check_plan(plan: Plan, shape: tuple[int, int]) -> None:
    """Refuse a plan that no run can follow."""
    check_solver(plan.settings)
    (n, d), k = shape, max(plan.ks)
    most = min(plan.drawn(n), d)
    if most < 2:
        raise DataError("X", f"{n} x {d}: too small to count its components", "bring more samples and features")
    if k > most:
        drawn = "" if d < plan.drawn(n) else f" (each run draws {plan.drawn(n)} of them)"
        what = f"{k} components are more than {n} samples{drawn} of {d} features have room for"
        raise ParameterError("--k", what, f"give at most {most}")


def draw_samples(source: BlockSource, most: int, seed: int) -> Matrix:
    """``most`` random samples of a larger X, in their order; one pass over X."""
    rows = np.sort(np.random.default_rng([seed, 0]).choice(source.shape[0], most, replace=False))
    return take_rows(source, rows)


def settled(X: Matrix, plan: Plan, normalization: str) -> tuple[Matrix, Plan, Settled]:
    """X with normalized rows, in single precision; the plan with nothing left open; and how it was chosen.

    It is chosen once, for the middle k and all samples. X is changed.
    """
    middle = plan.ks[len(plan.ks) // 2]
    usual = division.usual(plan.settings, plan.graph)  # what is best for one k need not be best for another
    settings, graph = replace(plan.settings, k=middle, init=usual.init), replace(plan.graph, neighbors=usual.neighbors)
    found = settle(MemoryBlocks(X), settings, normalization, graph)
    X = in_single_precision(normalize(X, found.normalize, found.idf))
    return X, replace(plan, settings=found.settings, graph=found.graph), found


def run_task(task: Task, X: Matrix, plan: Plan) -> Any:
    """The result of a task, or its error. It uses one thread, because other tasks use the other cores."""
    with one_thread():
        try:
            if task.kind == "run":
                return runs_of_draw(task, X, plan)
            if task.kind == "mask":
                return errors_under_mask(task.number, X, plan)
            return mean_weights(X, replace(plan.settings, seed=plan.seed), plan.graph, plan.ks)
        except MccgrError as fault:
            return fault


def runs_of_draw(task: Task, X: Matrix, plan: Plan) -> dict[int, Run | MccgrError]:
    """The runs on random samples, which are the same for every k."""
    rows, seed = draw(task.number, X.shape[0], plan)
    return cluster_subsample(X, rows, replace(plan.settings, seed=seed), plan.graph, task.ks)


def draw(number: int, samples: int, plan: Plan) -> tuple[Array, int]:
    """Random samples, and the seed of the factorizations of them."""
    rng = np.random.default_rng([plan.seed, 1, number])
    rows = np.sort(rng.choice(samples, plan.drawn(samples), replace=False))
    return rows, int(rng.integers(2**31))


def errors_under_mask(number: int, X: Matrix, plan: Plan) -> list[float]:
    """The error of predicted entries by k, from 1 on. Neither the fit nor the feature weights see these entries."""
    part = criteria.dense_part(X, np.random.default_rng([plan.seed, 2]))  # the same under every mask
    hidden = criteria.hide(part.shape, np.random.default_rng([plan.seed, 3, number]))
    settings = replace(plan.settings, seed=plan.seed)
    rho = mean_weights(criteria.imputed(part, hidden)[0], settings, plan.graph, plan.ks)
    rho = np.ones(part.shape[1]) if rho is None else rho
    ks = [min(k, *part.shape) for k in plan.all_ks()]
    return criteria.heldout_errors(part, hidden, ks, rho, [plan.seed, 4, number])


def combine(tasks: Sequence[Task], results: Sequence[Any], X: Matrix, plan: Plan) -> Ranking:
    """Combine the results of all tasks. A result is None if the process died."""
    runs: dict[int, list[Run]] = {k: [] for k in plan.all_ks()}
    failures: dict[int, str] = {}
    masks: list[list[float]] = []
    rho: Array | None = None
    for task, result in zip(tasks, results, strict=True):
        if task.kind == "run":
            for k in task.ks:
                run = result[k] if isinstance(result, dict) else result
                if isinstance(run, Run):
                    runs[k].append(run)
                else:
                    failures.setdefault(k, "its process died" if run is None else str(run))
        elif result is None or isinstance(result, MccgrError):
            continue
        elif task.kind == "mask":
            masks.append(result)
        else:
            rho = result
    if not any(runs.values()) and (failures or not masks):
        each = itertools.chain.from_iterable(one.values() if isinstance(one, dict) else [one] for one in results)
        faults = (one for one in each if isinstance(one, MccgrError))
        raise next(faults, DataError("worker processes", "all of them died", "give fewer --jobs"))
    with one_thread():  # so that rounding does not depend on the number of threads
        points = search_points(X, plan.graph, plan.graph.axes_for(max(plan.ks)), rho)
        rows = [cluster_criteria(k, runs[k], points) for k in plan.all_ks()]
    columns = {name: np.array([row[name] for row in rows]) for name in RANK_HEADINGS}
    if masks:
        columns |= columns_of_errors(np.array(masks))
    return Ranking(columns, recommend(columns, plan.ks), failures)


def cluster_criteria(k: int, runs: Sequence[Run], points: Any) -> dict[str, Any]:
    """The criteria that compare the clusters of the runs; NaN for all others."""
    distinct = [runs[number] for number in criteria.distinct_runs([(run.rows, run.signature) for run in runs])]
    row: dict[str, Any] = {**dict.fromkeys(RANK_HEADINGS, float("nan")), "k": k, "runs": len(distinct)}
    if k < 2 or len(distinct) < 2:
        return row
    assigned = np.full((len(distinct), points.shape[0]), criteria.ABSENT, dtype=np.int64)
    for clusters, run in zip(assigned, distinct, strict=True):
        clusters[run.rows] = run.assignments
    consensus = criteria.Consensus(assigned)
    row["reproducibility"], row["reproducibility_error"] = criteria.reproducibility(assigned, k)
    row["agreement"] = np.mean([adjusted_rand_index(table) for table in criteria.contingency_tables(assigned, k)])
    row["cophenetic"], row["dispersion"] = consensus.cophenetic(), consensus.dispersion()
    row["silhouette"] = silhouette(points, consensus.clusters(k))
    return row


def silhouette(points: Any, clusters: Array) -> float:
    """The silhouette of the consensus clusters, in the space where neighbours are searched.

    P. J. Rousseeuw: Silhouettes. Journal of Computational and Applied Mathematics 20, 1987.
    """
    from sklearn.metrics import silhouette_score

    if not 1 < len(np.unique(clusters)) < len(clusters):
        return float("nan")
    return float(silhouette_score(sparse.csr_matrix(points) if sparse.issparse(points) else points, clusters))


def ranks_contents(ranking: Ranking, plan: Plan, samples: int, normalization: str) -> Contents:
    found = asdict(ranking.recommendation)
    attributes = {
        "recommended": found.pop("k"),
        **found,
        "bracket": list(ranking.recommendation.bracket),
        "method": plan.settings.method,
        "normalize": normalization,
        "samples": samples,
        **{name: getattr(plan, name) for name in ("runs", "share", "seed")},
    }
    return Contents("ranks", dict(ranking.columns), attributes)
