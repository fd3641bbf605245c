"""Initialise, iterate, stop; and new samples. Silent: whoever wants to watch passes ``on_step``."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from mccgr_cli.blocks import Array, BlockSource, Moments, moments, threads_for_blocks
from mccgr_cli.errors import DataError, ParameterError
from mccgr_cli.initialize import graph_start, nndsvd_start, random_start
from mccgr_cli.methods import METHODS
from mccgr_cli.methods.base import GraphTerm, Loss, Problem, QuadraticUpdate, SquaredError, Terms, Update
from mccgr_cli.methods.correntropy import Correntropy
from mccgr_cli.settings import HISTORY, Settings

Start = tuple[Array, Array]  # W and H

# A run has converged when this many iterations in a row changed less than the tolerance.
PATIENCE = 3
ALL_SILENCED = 1e-6  # the largest weight below which no feature has a say


@dataclass(frozen=True)
class Step:
    """What there is to see of a run after an iteration (0 is the start)."""

    iteration: int
    objective: float
    data: float
    graph: float
    sigma: float
    change: float
    seconds: float
    restart: int = 0


@dataclass(frozen=True)
class Factors:
    """X ~ W H, the weight of every feature, and how the run went."""

    W: Array  # (n, k)
    H: Array  # (k, d)
    rho: Array  # (d,)
    history: dict[str, Array]  # objective, data, graph, sigma, seconds: one entry for the start and each step
    converged: bool
    alpha: float  # weight of the graph, 0 without one

    @property
    def objective(self) -> float:
        return float(self.history["objective"][-1])

    @property
    def iterations(self) -> int:
        return len(self.history["objective"]) - 1


@threads_for_blocks()
def solve(
    source: BlockSource,
    settings: Settings,
    graph: sparse.csr_array[Any] | None = None,
    starts: Sequence[Start] | None = None,
    on_step: Callable[[Step], None] | None = None,
) -> Factors:
    """Factorize X; of several starts, the one that ended with the lowest objective."""
    known = moments(source)
    if not np.isfinite(known.squares).all() or (known.mean > 0 and known.squares.max() == 0):
        raise DataError("X", f"its squares do not fit into {source.dtype}", "rescale it, for instance to a mean of 1")
    rng = np.random.default_rng(settings.seed)
    best: tuple[float, Factors] | None = None
    alpha: float | None = None
    for restart, (W, H) in enumerate(starts or choose_starts(source, settings, known, graph, rng)):
        update = make_update(source, settings, graph, known, W, H, alpha)
        factors = iterate(update, settings, restart, on_step)
        alpha = factors.alpha  # the same for all of them
        objective = update.comparable_objective()
        if best is None or objective < best[0]:
            best = objective, factors
    assert best is not None
    return best[1]


@threads_for_blocks()
def begin(source: BlockSource, settings: Settings, graph: sparse.csr_array[Any] | None = None) -> list[Start]:
    """The W and H that runs begin with."""
    return list(choose_starts(source, settings, moments(source), graph, np.random.default_rng(settings.seed)))


def choose_starts(
    source: BlockSource,
    settings: Settings,
    known: Moments,
    graph: sparse.csr_array[Any] | None,
    rng: np.random.Generator,
) -> Iterator[Start]:
    for _ in range(settings.restarts):
        if settings.init == "graph" and graph is not None:
            yield graph_start(source, settings.k, graph, rng)
        else:
            make = random_start if settings.init == "random" else nndsvd_start
            yield make(source, settings.k, known.mean, rng)


def uses_graph(settings: Settings) -> bool:
    weight = settings.strength if settings.alpha is None else settings.alpha
    return METHODS[settings.method].graph and weight > 0


def make_update(
    source: BlockSource,
    settings: Settings,
    graph: sparse.csr_array[Any] | None,
    known: Moments,
    W: Array,
    H: Array,
    found_alpha: float | None = None,
) -> Update:
    """``found_alpha`` is what ``settings.strength`` came to in a run before."""
    method = METHODS[settings.method]
    term = None
    if uses_graph(settings):
        if graph is None:
            raise ParameterError(settings.method, "needs a graph", "build one, or use a method without")
        term = GraphTerm(
            graph, found_alpha if settings.alpha is None else settings.alpha, source.dtype, settings.strength
        )
    loss: Loss = SquaredError()
    if method.weighted:
        loss = Correntropy(settings.theta, settings.bandwidth, settings.keep, known.spread(source.shape[0]))
    problem = Problem(source, known.squares, loss, term, holds_scale=settings.alpha is None, ridge=settings.ridge)
    return method.update(settings.solver)(problem, W, H)


def iterate(update: Update, settings: Settings, restart: int, on_step: Callable[[Step], None] | None) -> Factors:
    began = time.perf_counter()
    steps: list[Step] = []

    def record(terms: Terms) -> Step:
        seconds = time.perf_counter() - began
        step = Step(len(steps), terms.objective, terms.data, terms.graph, terms.sigma, terms.change, seconds, restart)
        if not np.isfinite(step.objective):
            raise DataError("X", f"the objective is {step.objective}: numbers overflow", "rescale X to a mean of 1")
        steps.append(step)
        if on_step is not None:
            on_step(step)
        return step

    previous = record(update.start())
    quiet = 0
    while len(steps) <= settings.iterations and quiet < PATIENCE:
        step = record(update.step())
        still = not update.warming_up and has_settled(step, previous, settings.tolerance)
        quiet = quiet + 1 if still else 0
        previous = step
    history = {name: np.array([getattr(step, name) for step in steps]) for name in HISTORY}
    W, H = update.W, update.H.astype(update.W.dtype)
    rho = update.rho
    fits = rho.max() > ALL_SILENCED  # else nothing moves because nothing is fitted
    alpha = update.graph.alpha if isinstance(update, QuadraticUpdate) and update.graph is not None else None
    return Factors(W, H, rho, history, converged=bool(fits and quiet >= PATIENCE), alpha=alpha or 0.0)


def has_settled(step: Step, previous: Step, tolerance: float) -> bool:
    """Neither the objective nor the bandwidth it is measured with still moves."""
    moved = abs(step.sigma - previous.sigma)  # nan without a bandwidth
    return abs(step.change) <= tolerance and not moved > tolerance * step.sigma


@threads_for_blocks()
def transform(source: BlockSource, H: Array, rho: Array, method: str) -> Array:
    """W of new samples for the loss that H was learnt with; neighbours play no part."""
    return METHODS[method].coefficients(source, H, rho)
