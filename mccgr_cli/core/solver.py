"""Initialise, iterate, stop; and new samples. Silent: whoever wants to watch passes ``on_step``."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from scipy import sparse

from mccgr_cli.blocks.products import Moments, block_moments, moments
from mccgr_cli.blocks.protocol import Array, BlockSource, Matrix, Partial, sweep
from mccgr_cli.blocks.threads import threads_for_blocks
from mccgr_cli.catalog import HISTORY, SILENCED
from mccgr_cli.core.methods import METHODS
from mccgr_cli.core.methods.base import (
    GraphTerm,
    Loss,
    Problem,
    QuadraticUpdate,
    SquaredError,
    Terms,
    Update,
    residual_squares,
)
from mccgr_cli.core.methods.correntropy import Correntropy
from mccgr_cli.core.starts import graph_start, nndsvd_start, random_start
from mccgr_cli.errors import DataError, ParameterError
from mccgr_cli.settings import Settings

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


def shortfall(factors: Factors, settings: Settings) -> str | None:
    """What a run that did not converge lacks, and what to raise."""
    if factors.converged:
        return None
    if factors.rho.max() < SILENCED:
        by_errors = "--keep" if settings.theta is None else "--theta"
        return f"nothing was fitted: raise {by_errors if isinstance(settings.bandwidth, str) else '--bandwidth'}"
    return f"not converged after --iterations {settings.iterations}"


@dataclass(frozen=True)
class Best:
    """Of the starts so far."""

    objective: float  # by which they are compared
    factors: Factors


@dataclass(frozen=True)
class Progress:
    """A run between two iterations: with the same X and settings, all it takes to go on as if it had never ended."""

    restart: int
    history: dict[str, Array]  # of this start
    quiet: int  # iterations in a row that changed little
    update: dict[str, Any]  # see Update.state
    random: dict[str, Any]  # state of the generator that later starts come from
    alpha: float | None  # what the first start found
    best: Best | None


OnPause: TypeAlias = Callable[[Callable[[], Progress]], None]


@threads_for_blocks()
def solve(
    source: BlockSource,
    settings: Settings,
    graph: sparse.csr_array[Any] | None = None,
    starts: Sequence[Start] | None = None,
    on_step: Callable[[Step], None] | None = None,
    resumed: Progress | None = None,
    on_pause: OnPause | None = None,
) -> Factors:
    """Factorize X; of several starts, the one that ended with the lowest objective.

    ``on_pause`` is called between iterations with a function that tells the progress. From that, ``resumed`` goes on.
    """
    known = moments(source)
    if not np.isfinite(known.squares).all() or (known.mean > 0 and known.squares.max() == 0):
        raise DataError("X", f"its squares do not fit into {source.dtype}", "rescale it, for instance to a mean of 1")
    rng = np.random.default_rng(settings.seed)
    best: Best | None = None
    alpha: float | None = None
    first = 0
    left: Iterable[Start] = starts or choose_starts(source, settings, known, graph, rng, settings.restarts)
    if resumed is not None:
        rng.bit_generator.state = resumed.random
        best, alpha, first = resumed.best, resumed.alpha, resumed.restart
        later = choose_starts(source, settings, known, graph, rng, settings.restarts - first - 1)
        left = itertools.chain([(resumed.update["W"], resumed.update["H"])], later)

    def pause(course: Course) -> None:
        if on_pause is not None:
            on_pause(lambda: course.progress(rng, best))

    for restart, (W, H) in enumerate(left, first):
        update = make_update(source, settings, graph, known, W, H, alpha)
        course = Course(update, settings, restart, on_step)
        if resumed is not None and restart == first:
            course.restore(resumed)
        else:
            course.start()
        pause(course)
        while not course.ended:
            course.step()
            pause(course)
        factors = course.factors()
        alpha = factors.alpha  # the same for all of them
        objective = update.comparable_objective()
        if best is None or objective < best.objective:
            best = Best(objective, factors)
    assert best is not None
    return best.factors


@threads_for_blocks()
def begin(source: BlockSource, settings: Settings, graph: sparse.csr_array[Any] | None = None) -> list[Start]:
    """The W and H that runs begin with."""
    rng = np.random.default_rng(settings.seed)
    return list(choose_starts(source, settings, moments(source), graph, rng, settings.restarts))


def choose_starts(
    source: BlockSource,
    settings: Settings,
    known: Moments,
    graph: sparse.csr_array[Any] | None,
    rng: np.random.Generator,
    count: int,
) -> Iterator[Start]:
    for _ in range(count):
        if settings.init == "graph" and graph is not None:
            yield graph_start(source, settings.k, graph, rng)
        else:
            make = random_start if settings.init == "random" else nndsvd_start
            yield make(source, settings.k, known.mean, rng)


def uses_graph(settings: Settings) -> bool:
    weight = settings.strength if settings.alpha is None else settings.alpha
    return METHODS[settings.method].graph and weight > 0


def check_solver(settings: Settings) -> None:
    if METHODS[settings.method].own_update is not None and settings.solver != Settings.solver:
        what = f"{settings.method} has an update of its own, and takes no {settings.solver} steps"
        raise ParameterError("--solver", what, "leave it out")


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


class Course:
    """The iterations from one start: what there was to see of each, and when they end."""

    def __init__(
        self, update: Update, settings: Settings, restart: int, on_step: Callable[[Step], None] | None
    ) -> None:
        self.update, self.settings, self.restart, self.on_step = update, settings, restart, on_step
        self.began = time.perf_counter()
        self.steps: list[Step] = []
        self.quiet = 0

    @property
    def ended(self) -> bool:
        return len(self.steps) > self.settings.iterations or self.quiet >= PATIENCE

    def start(self) -> None:
        self._record(self.update.start())

    def step(self) -> None:
        previous, step = self.steps[-1], self._record(self.update.step())
        still = not self.update.warming_up and has_settled(step, previous, self.settings.tolerance)
        self.quiet = self.quiet + 1 if still else 0

    def _record(self, terms: Terms) -> Step:
        seconds, number = time.perf_counter() - self.began, len(self.steps)
        step = Step(number, terms.objective, terms.data, terms.graph, terms.sigma, terms.change, seconds, self.restart)
        if not np.isfinite(step.objective):
            raise DataError("X", f"the objective is {step.objective}: numbers overflow", "rescale X to a mean of 1")
        self.steps.append(step)
        if self.on_step is not None:
            self.on_step(step)
        return step

    @property
    def history(self) -> dict[str, Array]:
        return {name: np.array([getattr(step, name) for step in self.steps]) for name in HISTORY}

    @property
    def alpha(self) -> float:
        graph = self.update.graph if isinstance(self.update, QuadraticUpdate) else None
        return (graph.alpha or 0.0) if graph is not None else 0.0

    def factors(self) -> Factors:
        W, H, rho = self.update.W, self.update.H.astype(self.update.W.dtype), self.update.rho
        fits = rho.max() > ALL_SILENCED  # else nothing moves because nothing is fitted
        return Factors(W, H, rho, self.history, converged=bool(fits and self.quiet >= PATIENCE), alpha=self.alpha)

    def progress(self, rng: np.random.Generator, best: Best | None) -> Progress:
        state, random = self.update.state(), dict(rng.bit_generator.state)
        return Progress(self.restart, self.history, self.quiet, state, random, self.alpha, best)

    def restore(self, progress: Progress) -> None:
        try:
            self.update.restore(progress.update)
        except KeyError as missing:
            raise DataError("checkpoint", f"without {missing}, on which the next step depends", "run it anew") from None
        rows = zip(*(progress.history[name].tolist() for name in HISTORY), strict=True)
        named = (dict(zip(HISTORY, row, strict=True)) for row in rows)
        self.steps = [Step(i, **row, change=0.0, restart=self.restart) for i, row in enumerate(named)]
        self.quiet = progress.quiet
        self.began -= self.steps[-1].seconds


def has_settled(step: Step, previous: Step, tolerance: float) -> bool:
    """Neither the objective nor the bandwidth it is measured with still moves."""
    moved = abs(step.sigma - previous.sigma)  # nan without a bandwidth
    return abs(step.change) <= tolerance and not moved > tolerance * step.sigma


@threads_for_blocks()
def transform(source: BlockSource, H: Array, rho: Array, method: str) -> Array:
    """W of new samples for the loss that H was learnt with; neighbours play no part."""
    return METHODS[method].coefficients(source, H, rho)


@threads_for_blocks()
def squared_errors(source: BlockSource, W: Array, H: Array) -> Array:
    """sum_i (x_ij - (WH)_ij)^2 of every feature, (d,)."""
    (errors,) = sweep(source, block_errors, (W,), (H.astype(np.float64),))
    return np.maximum(errors, 0)


def block_errors(X_b: Matrix, W_b: Array, basis: Array) -> Partial:
    if not sparse.issparse(X_b):
        return residual_squares(X_b, W_b, basis, np.arange(X_b.shape[1]))
    W_b = W_b.astype(np.float64)  # expanded, as the product of factors is dense
    crossed = (W_b.T @ W_b) @ basis - 2 * (X_b.T @ W_b).T
    return Partial((block_moments(X_b).sums[1] + np.einsum("kj,kj->j", basis, crossed),))
