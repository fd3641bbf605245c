"""The paper's protocol: several methods, the same draws of classes and the same starts for all of them.

A trial is one draw of classes, under one normalization: everything in it is computed from the same samples, and a
trial depends on nothing but the matrix, the plan and its own number, so trials may be done in any order, anywhere.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import sparse
from threadpoolctl import threadpool_limits

from mccgr_cli.blocks.in_memory import MemoryBlocks
from mccgr_cli.blocks.protocol import Array, Matrix
from mccgr_cli.blocks.rows import normalize, weigh_features
from mccgr_cli.core.kmeans import kmeans
from mccgr_cli.core.methods import METHODS
from mccgr_cli.core.metrics import evaluate
from mccgr_cli.core.solver import Factors, Start, begin, uses_graph
from mccgr_cli.errors import ParameterError
from mccgr_cli.files.container import RESULTS, Field
from mccgr_cli.settings import BASELINES, SCORES, GraphSettings, Settings
from mccgr_cli.workflow import stages

WITHIN = 0.01  # of the last objective: how near it must stay for a run to count as settled

Row = dict[str, Any]


@dataclass(frozen=True)
class Plan:
    """What is compared: every method with every combination of the values that concern it."""

    methods: tuple[str, ...]
    ks: tuple[int, ...]
    runs: int
    seed: int
    settings: Settings  # what is not swept; its k and seed are the trial's
    graph: GraphSettings
    normalize: tuple[str, ...]
    alpha: tuple[float | None, ...]  # None: by strength
    strength: tuple[float, ...]
    theta: tuple[float | None, ...]  # None: by keep
    keep: tuple[float, ...]
    neighbors: tuple[int, ...]
    weight: tuple[str, ...]
    restarts: int  # of k-means

    def trials(self) -> list[Trial]:
        return [Trial(*one) for one in itertools.product(self.normalize, self.ks, range(self.runs))]

    def graphs(self) -> list[GraphSettings]:
        pairs = itertools.product(self.neighbors, self.weight)
        return [replace(self.graph, neighbors=neighbors, weight=weight) for neighbors, weight in pairs]

    def settings_of(self, method: str) -> list[Settings]:
        """Every combination of the values that matter to a method, with the first of those that do not."""
        has = METHODS[method]
        alphas = self.alpha if has.graph else self.alpha[:1]
        strengths = self.strength if has.graph and None in alphas else self.strength[:1]
        thetas = self.theta if has.weighted else self.theta[:1]
        keeps = self.keep if has.weighted and None in thetas else self.keep[:1]
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


def check(plan: Plan, X: Matrix, labels: Array) -> None:
    """Refuse what some trial could not do."""
    k, classes, features = max(plan.ks), len(np.unique(labels)), X.shape[1]
    if k > classes:
        raise ParameterError("--k", f"{k} classes are to be drawn of {classes}", f"give at most {classes}")
    if k > features:
        what = f"{k} components are more than {features} features have room for"
        raise ParameterError("--k", what, f"give at most {features}")


def draw(labels: Array, trial: Trial, seed: int) -> tuple[Array, int]:
    """The samples of k random classes, and a seed for everything else that is random in the trial."""
    rng = np.random.default_rng([seed, trial.k, trial.run])
    chosen = rng.choice(np.unique(labels), trial.k, replace=False)
    return np.flatnonzero(np.isin(labels, chosen)), int(rng.integers(2**31))


def perform(trial: Trial, X: Matrix, labels: Array, plan: Plan) -> list[Row]:
    """What every method makes of one draw; with one thread, as other trials use the other cores."""
    import sklearn.cluster  # noqa: F401 - its threads are limited only if they are there before the limit

    with threadpool_limits(limits=1):
        return list(Bench(trial, X, labels, plan).rows())


class Bench:
    """The samples of a trial, and what its methods share."""

    def __init__(self, trial: Trial, X: Matrix, labels: Array, plan: Plan) -> None:
        samples, self.seed = draw(labels, trial, plan.seed)
        self.trial, self.plan = trial, plan
        self.X = normalize(X[samples].astype(np.float64), trial.normalize)
        self.labels = labels[samples].tolist()
        self.graphs: dict[Hashable, sparse.csr_array[Any] | None] = {}
        self.starts: dict[Hashable, list[Start]] = {}

    def rows(self) -> Iterator[Row]:
        plan = self.plan
        graphs = plan.graphs()
        rho: Array | None = None
        for method in plan.methods:
            if method in BASELINES:
                continue
            for settings, graph in itertools.product(plan.settings_of(method), graphs):
                if graph != graphs[0] and not METHODS[method].graph:
                    continue
                factors, row = self.factorize(settings, graph)
                if method == "mcc" and rho is None:
                    rho = factors.rho
                yield row
        if "k-means" in plan.methods:
            yield self.scored("k-means", self.X)
        if "k-means-weighted" in plan.methods:
            if rho is None:
                rho = self.factorize(plan.settings_of("mcc")[0], graphs[0])[0].rho
            yield self.scored("k-means-weighted", weigh_features(self.X, rho))

    def shared_starts(self, settings: Settings, graph: GraphSettings) -> list[Start]:
        """The W and H that all methods begin with: those of mccgr with its graph, whatever that weighs."""
        settings = replace(settings, method="mccgr", alpha=None, strength=Settings.strength)
        key = what_graphs_depend_on(settings, graph)
        if key not in self.starts:
            A = self.choose_graph(settings, graph) if settings.init == "graph" else None
            self.starts[key] = begin(MemoryBlocks(self.X), settings, A)
        return self.starts[key]

    def choose_graph(self, settings: Settings, graph: GraphSettings) -> sparse.csr_array[Any] | None:
        """The graph that a method takes by itself, built once."""
        key = what_graphs_depend_on(settings, graph)
        if key not in self.graphs:
            self.graphs[key] = stages.choose_graph(self.X, settings, graph)
        return self.graphs[key]

    def factorize(self, settings: Settings, graph: GraphSettings) -> tuple[Factors, Row]:
        settings = replace(settings, k=self.trial.k, seed=self.seed)
        starts, A = self.shared_starts(settings, graph), self.choose_graph(settings, graph)
        began = time.perf_counter()
        factors = stages.factorize(self.X, settings, A, starts)
        seconds = time.perf_counter() - began
        about = {**told(settings, graph), **course(factors), "seconds": seconds}
        return factors, self.scored(settings.method, factors.W, about)

    def scored(self, method: str, samples: Matrix, about: Mapping[str, Any] | None = None) -> Row:
        scores = evaluate(self.labels, kmeans(samples, self.trial.k, self.plan.restarts, self.seed))
        return {
            **NOTHING,
            "k": self.trial.k,
            "run": self.trial.run,
            "method": method,
            "normalize": self.trial.normalize,
            **(about or {}),
            **{name: getattr(scores, name) for name in SCORES},
        }


NAN = float("nan")
NOTHING: Row = {
    **dict.fromkeys(("alpha", "strength", "theta", "keep", "seconds"), NAN),
    **dict.fromkeys(("neighbors", "iterations", "settled", "converged"), 0),
    "weight": "",
}


def what_graphs_depend_on(settings: Settings, graph: GraphSettings) -> Hashable:
    """Of what differs within a trial."""
    return graph, settings.method, uses_graph(settings), settings.keep, settings.theta


def told(settings: Settings, graph: GraphSettings) -> Row:
    """The settings that matter to a method."""
    method = METHODS[settings.method]
    row: Row = {}
    if method.graph:
        row |= {"neighbors": graph.neighbors, "weight": graph.weight}
        row |= {"strength": settings.strength} if settings.alpha is None else {"alpha": settings.alpha}
    if method.weighted:
        row |= {"keep": settings.keep} if settings.theta is None else {"theta": settings.theta}
    return row


def course(factors: Factors) -> Row:
    """How a run went: its length, and from where on its objective stayed near the last."""
    objective = factors.history["objective"]
    far = np.flatnonzero(np.abs(objective - objective[-1]) > WITHIN * abs(objective[-1]))
    settled = int(far[-1]) + 1 if len(far) else 0
    return {"iterations": factors.iterations, "settled": settled, "converged": int(factors.converged)}


def are_rows(found: Any) -> bool:
    """Whether these can be the results of a trial, as a results file holds them."""
    rows = isinstance(found, list) and len(found) > 0 and all(isinstance(row, dict) for row in found)
    if not rows or any(row.keys() != RESULTS.keys() for row in found):
        return False
    return all(fits(field, row[name]) for row in found for name, field in RESULTS.items())


def fits(field: Field, value: Any) -> bool:
    if field.type == "text":
        return isinstance(value, str) and value.isascii()
    if field.type == "whole":
        return type(value) is int and abs(value) < 2**53
    least, largest = field.within or (-np.inf, np.inf)
    return isinstance(value, (int, float)) and (least <= value <= largest or (field.within is None and value != value))


def columns(rows: Sequence[Row]) -> dict[str, Any]:
    """Rows as the datasets of a results file."""
    found = {name: [row[name] for row in rows] for name in rows[0]}
    return {name: values if isinstance(values[0], str) else np.array(values) for name, values in found.items()}
