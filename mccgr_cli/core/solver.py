"""Factorizes X: chooses starting points, iterates, stops; and finds W of new samples.

Prints nothing. A caller that wants to see the iterations passes ``on_step``.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
from scipy import sparse

from mccgr_cli.blocks.products import Moments, block_moments, moments
from mccgr_cli.blocks.protocol import Array, BlockSource, Matrix, Partial, sum_over_blocks
from mccgr_cli.blocks.threads import threads_for_blocks
from mccgr_cli.catalog import HISTORY, SILENCED
from mccgr_cli.core.methods import METHODS
from mccgr_cli.core.methods.base import GraphTerm, Problem, QuadraticUpdate, Terms, Update, residual_squares
from mccgr_cli.core.methods.losses import Correntropy, Loss, SquaredError
from mccgr_cli.core.starts import graph_start, nndsvd_start, random_start
from mccgr_cli.errors import DataError, ParameterError
from mccgr_cli.settings import Settings
from mccgr_cli.system.phases import advance, phase

Start = tuple[Array, Array]  # W and H

PATIENCE = 3  # a run has converged when this many iterations in a row changed less than the tolerance
ALL_SILENCED = 1e-6  # if all weights are below this, no feature has any effect


@dataclass(frozen=True)
class Step:
    """The state of a run after an iteration (0 is the start)."""

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
    """X ~ W H, the weights of the features, and the history of the run."""

    W: Array  # (n, k)
    H: Array  # (k, d)
    rho: Array  # (d,)
    history: dict[str, Array]  # objective, data, graph, sigma, seconds: one value for the start and each step
    converged: bool
    alpha: float  # weight of the graph; 0 without a graph
    stopped: bool = False  # by the caller, before the run had ended

    @property
    def objective(self) -> float:
        return float(self.history["objective"][-1])

    @property
    def iterations(self) -> int:
        return len(self.history["objective"]) - 1


def why_not_converged(factors: Factors, settings: Settings) -> str | None:
    """Why a run did not converge, and which option to raise; None if it converged."""
    if factors.converged:
        return None
    if factors.stopped:
        return "stopped before it converged"
    if factors.rho.max() < SILENCED:
        by_errors = "--keep" if settings.theta is None else "--theta"
        return f"nothing was fitted: raise {by_errors if isinstance(settings.bandwidth, str) else '--bandwidth'}"
    return f"not converged after --iterations {settings.iterations}"


@dataclass(frozen=True)
class Best:
    """The best start so far."""

    objective: float  # Update.comparable_objective
    factors: Factors


@dataclass(frozen=True)
class Progress:
    """The state of a run between two iterations, from which it continues exactly with the same X and settings."""

    restart: int
    history: dict[str, Array]  # of this start
    quiet: int  # iterations in a row with little change
    update: dict[str, Any]  # see Update.state
    rho: Array  # weights of the features, for whoever looks at it
    random: dict[str, Any]  # state of the random generator for later starts
    alpha: float | None  # as set by the first start
    best: Best | None


OnPause: TypeAlias = Callable[[Callable[[], Progress]], bool]  # returns whether to stop


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
    """Factorize X, and return the factors of the start with the lowest objective.

    Parameters
    ----------
    source, settings, graph
        X in blocks, the settings, and A (n, n) for methods with a graph.
    starts
        W and H of each start; by default they are chosen as in ``settings``.
    on_step, on_pause
        Called after every iteration, and between iterations with a function that returns the :class:`Progress`. If
        ``on_pause`` returns True, the run stops there with the best factors so far.
    resumed
        The progress of an earlier run, to continue it.
    """
    with phase("measuring features", "rows", source.shape[0]):
        X_moments = checked_moments(source)
    rng = np.random.default_rng(settings.seed)
    best: Best | None = None
    alpha: float | None = None
    first = 0
    pending: Iterable[Start] = starts or choose_starts(source, settings, X_moments, graph, rng, settings.restarts)
    if resumed is not None:
        rng.bit_generator.state = resumed.random
        best, alpha, first = resumed.best, resumed.alpha, resumed.restart
        later = choose_starts(source, settings, X_moments, graph, rng, settings.restarts - first - 1)
        pending = itertools.chain([(resumed.update["W"], resumed.update["H"])], later)

    def stops() -> bool:
        return on_pause is not None and on_pause(lambda: run.progress(rng, best))

    for restart, (W, H) in enumerate(pending, first):
        with phase("preparing the iterations", "rows"):
            update = make_update(source, settings, graph, X_moments, W, H, alpha)
            run = SolverRun(update, settings, restart, on_step)
            if resumed is not None and restart == first:
                run.restore(resumed)
            else:
                run.start()
        stopped = stops()
        while not (stopped or run.ended):
            run.step()
            stopped = stops()
        factors = run.factors()
        alpha = factors.alpha  # the same for all starts
        objective = update.comparable_objective()
        if best is None or objective < best.objective:
            best = Best(objective, factors)
        if stopped and not (run.ended and restart == settings.restarts - 1):
            return replace(best.factors, stopped=True, converged=False)
    assert best is not None
    return best.factors


def checked_moments(source: BlockSource) -> Moments:
    found = moments(source)
    if not np.isfinite(found.squares).all() or (found.mean > 0 and found.squares.max() == 0):
        raise DataError("X", f"its squares do not fit into {source.dtype}", "rescale it, for instance to a mean of 1")
    return found


@threads_for_blocks()
def starting_points(source: BlockSource, settings: Settings, graph: sparse.csr_array[Any] | None = None) -> list[Start]:
    """W and H of all starts."""
    rng = np.random.default_rng(settings.seed)
    return list(choose_starts(source, settings, moments(source), graph, rng, settings.restarts))


def choose_starts(
    source: BlockSource, settings: Settings, X_moments: Moments, graph: Any, rng: np.random.Generator, count: int
) -> Iterator[Start]:
    for _ in range(count):
        if settings.starts_from_graph and graph is not None:
            yield graph_start(source, settings.k, graph, rng, settings.init == "merged")
        else:
            make = random_start if settings.init == "random" else nndsvd_start
            yield make(source, settings.k, X_moments.mean, rng)


def uses_graph(settings: Settings) -> bool:
    """Whether the method has a graph term with a positive weight."""
    weight = settings.strength if settings.alpha is None else settings.alpha
    return METHODS[settings.method].graph and weight > 0


def check_solver(settings: Settings) -> None:
    """Raise an error if the method does not have the chosen solver."""
    if METHODS[settings.method].own_update is not None and settings.solver != Settings.solver:
        what = f"{settings.method} has an update of its own, and cannot use {settings.solver}"
        raise ParameterError("--solver", what, "leave it out")
    if settings.form == "orthogonal" and settings.solver == "coordinate":
        raise ParameterError("--solver coordinate", "has no steps for --form orthogonal", "leave one of the two out")


def make_update(
    source: BlockSource,
    settings: Settings,
    graph: sparse.csr_array[Any] | None,
    X_moments: Moments,
    W: Array,
    H: Array,
    earlier_alpha: float | None = None,
) -> Update:
    """The update of a method; ``earlier_alpha`` was computed from ``settings.strength`` by an earlier start."""
    method = METHODS[settings.method]
    term = None
    if uses_graph(settings):
        if graph is None:
            raise ParameterError(settings.method, "needs a graph", "build one, or use a method without")
        alpha = earlier_alpha if settings.alpha is None else settings.alpha
        term = GraphTerm(graph, alpha, source.dtype, settings.strength)
    loss: Loss = SquaredError()
    if method.weighted:
        loss = Correntropy(settings.theta, settings.bandwidth, settings.keep, X_moments.spread(source.shape[0]))
    problem = Problem(source, X_moments.squares, loss, term, keeps_scale=settings.alpha is None, ridge=settings.ridge)
    orthogonal = term is not None and settings.is_orthogonal
    return method.update(settings.solver, orthogonal)(problem, W, H)


class SolverRun:
    """The iterations from one start: records them and decides when to stop."""

    def __init__(
        self, update: Update, settings: Settings, restart: int, on_step: Callable[[Step], None] | None
    ) -> None:
        self.update, self.settings, self.restart, self.on_step = update, settings, restart, on_step
        self.started = time.perf_counter()
        self.steps: list[Step] = []
        self.still_steps = 0

    @property
    def ended(self) -> bool:
        return len(self.steps) > self.settings.iterations or self.still_steps >= PATIENCE

    def start(self) -> None:
        self._record(self.update.start())

    def step(self) -> None:
        previous, step = self.steps[-1], self._record(self.update.step())
        still = not self.update.warming_up and has_settled(step, previous, self.settings.tolerance)
        self.still_steps = self.still_steps + 1 if still else 0

    def _record(self, terms: Terms) -> Step:
        seconds, number = time.perf_counter() - self.started, len(self.steps)
        step = Step(number, terms.objective, terms.data, terms.graph, terms.sigma, terms.change, seconds, self.restart)
        if not np.isfinite(step.objective):
            raise DataError("X", f"the objective is {step.objective}: numbers overflow", "rescale X to a mean of 1")
        self.steps.append(step)
        advance(1, "iterations")
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
        fits = rho.max() > ALL_SILENCED  # else nothing changes only because nothing is fitted
        return Factors(W, H, rho, self.history, converged=bool(fits and self.still_steps >= PATIENCE), alpha=self.alpha)

    def progress(self, rng: np.random.Generator, best: Best | None) -> Progress:
        state, random = self.update.state(), dict(rng.bit_generator.state)
        rho = self.update.rho
        return Progress(self.restart, self.history, self.still_steps, state, rho, random, self.alpha, best)

    def restore(self, progress: Progress) -> None:
        try:
            self.update.restore(progress.update)
        except KeyError as missing:
            raise DataError(
                "checkpoint", f"without {missing}, which the next step needs", "run from the start"
            ) from None
        rows = zip(*(progress.history[name].tolist() for name in HISTORY), strict=True)
        named = (dict(zip(HISTORY, row, strict=True)) for row in rows)
        self.steps = [Step(i, **row, change=0.0, restart=self.restart) for i, row in enumerate(named)]
        self.still_steps = progress.quiet
        self.started -= self.steps[-1].seconds


def has_settled(step: Step, previous: Step, tolerance: float) -> bool:
    """Whether neither the objective nor the bandwidth has changed by more than the tolerance."""
    moved = abs(step.sigma - previous.sigma)  # NaN without a bandwidth
    return abs(step.change) <= tolerance and not moved > tolerance * step.sigma


@threads_for_blocks()
def transform(source: BlockSource, H: Array, rho: Array, method: str) -> Array:
    """W of new samples for the loss of the method, given H and rho; without a graph."""
    with phase("computing coefficients", "rows"):
        return METHODS[method].coefficients(source, H, rho)


@threads_for_blocks()
def squared_errors(source: BlockSource, W: Array, H: Array) -> Array:
    """sum_i (x_ij - (WH)_ij)^2 of every feature, (d,)."""
    (errors,) = sum_over_blocks(source, block_errors, (W,), (H.astype(np.float64),))
    return np.maximum(errors, 0)


def block_errors(X_b: Matrix, W_b: Array, basis: Array) -> Partial:
    if not sparse.issparse(X_b):
        return residual_squares(X_b, W_b, basis, np.arange(X_b.shape[1]))
    W_b = W_b.astype(np.float64)  # expanded, because WH is dense
    crossed = (W_b.T @ W_b) @ basis - 2 * (X_b.T @ W_b).T
    return Partial((block_moments(X_b).sums[1] + np.einsum("kj,kj->j", basis, crossed),))
