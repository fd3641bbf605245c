"""The paper's protocol: compare methods on the same random draws of classes, from the same starts.

A trial is one draw of classes with one normalization. It depends only on the matrix, the plan and its own number, so
trials can run in any order and in any process.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from mccgr_cli.blocks.in_memory import MemoryBlocks
from mccgr_cli.blocks.protocol import Array, Matrix
from mccgr_cli.blocks.rows import normalize, weigh_features
from mccgr_cli.blocks.threads import one_thread
from mccgr_cli.catalog import SCORES
from mccgr_cli.core.methods import METHODS
from mccgr_cli.core.metrics import evaluate
from mccgr_cli.core.solver import Factors, Start, starting_points, uses_graph
from mccgr_cli.errors import ParameterError
from mccgr_cli.files.container import RESULTS, Field
from mccgr_cli.settings import BASELINES, NEIGHBORS, GraphSettings, Settings
from mccgr_cli.workflow import factorization
from mccgr_cli.workflow.choice import settle
from mccgr_cli.workflow.stages import assign_clusters, assignment_of

SETTLED = 0.01  # largest relative distance of a settled objective from the last one, which it never leaves again

Row = dict[str, Any]  # one row of a results file
NOT_APPLICABLE: Row = {
    **dict.fromkeys(("alpha", "strength", "theta", "keep", "seconds"), float("nan")),
    **dict.fromkeys(("neighbors", "iterations", "settled", "converged"), 0),
    "weight": "",
}


@dataclass(frozen=True)
class Plan:
    """What is compared: every method with every combination of the values that concern it."""

    methods: tuple[str, ...]
    ks: tuple[int, ...]
    runs: int
    seed: int
    settings: Settings  # all other settings; k and seed are those of a trial
    graph: GraphSettings
    normalize: tuple[str, ...]
    alpha: tuple[float | None, ...]  # None: use strength
    strength: tuple[float, ...]
    theta: tuple[float | None, ...]  # None: use keep
    keep: tuple[float, ...]
    neighbors: tuple[int | None, ...]  # None: chosen
    weight: tuple[str, ...]
    restarts: int  # of k-means

    def trials(self) -> list[Trial]:
        return [Trial(*one) for one in itertools.product(self.normalize, self.ks, range(self.runs))]

    def settings_of(self, method: str) -> list[Settings]:
        """Every combination of the values that a method uses; of values that it does not use, the first."""
        uses = METHODS[method]
        alphas = self.alpha if uses.graph else self.alpha[:1]
        strengths = self.strength if uses.graph and None in alphas else self.strength[:1]
        thetas = self.theta if uses.weighted else self.theta[:1]
        keeps = self.keep if uses.weighted and None in thetas else self.keep[:1]
        return [
            replace(self.settings, method=method, alpha=alpha, strength=strength, theta=theta, keep=keep)
            for alpha, strength, theta, keep in itertools.product(alphas, strengths, thetas, keeps)
        ]


@dataclass(frozen=True)
class Trial:
    """One draw of classes."""

    normalize: str
    k: int
    run: int

    @property
    def name(self) -> str:
        return f"{self.normalize} {self.k} {self.run}"


def check_plan(plan: Plan, X: Matrix, labels: Array) -> None:
    """Refuse a plan with trials that are impossible for this matrix."""
    k, classes, features = max(plan.ks), len(np.unique(labels)), X.shape[1]
    if k > classes:
        raise ParameterError("--k", f"cannot draw {k} classes of {classes}", f"give at most {classes}")
    if k > features:
        what = f"{k} components are more than {features} features have room for"
        raise ParameterError("--k", what, f"give at most {features}")


def draw_classes(labels: Array, trial: Trial, seed: int) -> tuple[Array, int]:
    """The samples of k random classes, and a seed for all other random numbers of the trial."""
    rng = np.random.default_rng([seed, trial.k, trial.run])
    chosen = rng.choice(np.unique(labels), trial.k, replace=False)
    return np.flatnonzero(np.isin(labels, chosen)), int(rng.integers(2**31))


def run_trial(trial: Trial, X: Matrix, labels: Array, plan: Plan) -> list[Row]:
    """The results of every method in one trial. It uses one thread, because other trials use the other cores."""
    with one_thread():
        return list(TrialRunner(trial, X, labels, plan).rows())


class TrialRunner:
    """The samples of a trial, and the graphs and starts that its methods share."""

    def __init__(self, trial: Trial, X: Matrix, labels: Array, plan: Plan) -> None:
        samples, self.seed = draw_classes(labels, trial, plan.seed)
        self.trial, self.plan = trial, plan
        rows = X[samples].astype(np.float64)
        settings = replace(plan.settings, k=trial.k, seed=self.seed)
        # Given numbers change only the graph, so that each gives in a sweep what it gives alone.
        graph = plan.graph if plan.neighbors == (None,) else replace(plan.graph, neighbors=NEIGHBORS[0])
        settled = settle(MemoryBlocks(rows), settings, trial.normalize, graph)
        self.graph, self.init = settled.graph, settled.settings.init
        self.X = normalize(rows, settled.normalize, settled.idf)
        self.labels = labels[samples].tolist()
        self.graphs: dict[Hashable, factorization.Graph | None] = {}
        self.starts: dict[Hashable, list[Start]] = {}

    def rows(self) -> Iterator[Row]:
        plan = self.plan
        pairs = itertools.product(plan.neighbors, plan.weight)
        graphs = [
            replace(self.graph, neighbors=neighbors or self.graph.neighbors, weight=weight)
            for neighbors, weight in pairs
        ]
        rho: Array | None = None
        for method in plan.methods:
            if method in BASELINES:
                continue
            own_graphs = graphs if METHODS[method].graph else graphs[:1]
            for settings, graph in itertools.product(plan.settings_of(method), own_graphs):
                factors, row = self.factorize(settings, graph)
                if method == "mcc" and rho is None:
                    rho = factors.rho
                yield row
        if "k-means" in plan.methods:
            yield self.clustered("k-means", self.X)
        if "k-means-weighted" in plan.methods:
            if rho is None:
                rho = self.factorize(plan.settings_of("mcc")[0], graphs[0])[0].rho
            yield self.clustered("k-means-weighted", weigh_features(self.X, rho))

    def shared_starts(self, settings: Settings, graph: GraphSettings) -> list[Start]:
        """The W and H from which all methods start: those of mccgr with its default strength."""
        settings = replace(settings, method="mccgr", alpha=None, strength=Settings.strength)
        key = graph_key(settings, graph)
        if key not in self.starts:
            A = self.choose_graph(settings, graph) if settings.starts_from_graph else None
            self.starts[key] = starting_points(MemoryBlocks(self.X), settings, A)
        return self.starts[key]

    def choose_graph(self, settings: Settings, graph: GraphSettings) -> factorization.Graph | None:
        """The graph of a method, built once."""
        key = graph_key(settings, graph)
        if key not in self.graphs:
            self.graphs[key] = factorization.choose_graph(self.X, settings, graph)
        return self.graphs[key]

    def factorize(self, settings: Settings, graph: GraphSettings) -> tuple[Factors, Row]:
        """The factors, and a row with the settings that the method uses."""
        settings = replace(settings, k=self.trial.k, seed=self.seed, init=self.init)
        starts, A = self.shared_starts(settings, graph), self.choose_graph(settings, graph)
        began = time.perf_counter()
        factors = factorization.factorize(self.X, settings, A, starts)
        columns: Row = {"seconds": time.perf_counter() - began, "iterations": factors.iterations}
        objective = factors.history["objective"]
        far = np.flatnonzero(np.abs(objective - objective[-1]) > SETTLED * abs(objective[-1]))
        columns |= {"settled": int(far[-1]) + 1 if len(far) else 0, "converged": int(factors.converged)}
        method = METHODS[settings.method]
        if method.graph:
            chosen = self.plan.neighbors == (None,)  # for each draw; as a value it would divide the draws
            columns |= {"neighbors": 0 if chosen else graph.neighbors, "weight": graph.weight}
            columns |= {"strength": settings.strength} if settings.alpha is None else {"alpha": settings.alpha}
        if method.weighted:
            columns |= {"keep": settings.keep} if settings.theta is None else {"theta": settings.theta}
        assign = assignment_of(A is not None and settings.is_orthogonal)
        return factors, self.clustered(settings.method, factors.W, columns, assign)

    def clustered(
        self, method: str, samples: Matrix, columns: Mapping[str, Any] | None = None, assign: str = "kmeans"
    ) -> Row:
        """A row with the scores of the clusters of these samples."""
        found = assign_clusters(samples, self.trial.k, assign, self.plan.restarts, self.seed)
        scores = evaluate(self.labels, found)
        trial = {"k": self.trial.k, "run": self.trial.run, "method": method, "normalize": self.trial.normalize}
        return {**NOT_APPLICABLE, **trial, **(columns or {}), **{name: getattr(scores, name) for name in SCORES}}


def graph_key(settings: Settings, graph: GraphSettings) -> Hashable:
    """All settings that differ within a trial and change its graph."""
    return graph, settings.method, uses_graph(settings), settings.keep, settings.theta


def are_results(found: Any) -> bool:
    """Whether these are rows of a results file; a journal may be damaged."""
    if not isinstance(found, list) or not all(isinstance(row, dict) and row.keys() == RESULTS.keys() for row in found):
        return False
    return len(found) > 0 and all(fits(field, row[name]) for row in found for name, field in RESULTS.items())


def fits(field: Field, value: Any) -> bool:
    if field.type == "text":
        return isinstance(value, str) and value.isascii()
    if field.type == "whole":
        return type(value) is int and abs(value) < 2**53
    least, largest = field.within or (-np.inf, np.inf)
    return isinstance(value, (int, float)) and (least <= value <= largest or (field.within is None and value != value))


def results_columns(rows: Sequence[Row]) -> dict[str, Any]:
    """Rows as the datasets of a results file."""
    found = {name: [row[name] for row in rows] for name in rows[0]}
    return {name: values if isinstance(values[0], str) else np.array(values) for name, values in found.items()}
