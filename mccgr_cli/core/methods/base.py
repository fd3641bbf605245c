"""What every method shares: the terms it reports, the graph term, and the statistics of one pass over X.

Notation (samples by features): X (n, d) ~ W H, coefficients W (n, k), basis H (k, d), graph A (n, n).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from scipy import sparse

from mccgr_cli.blocks.in_memory import DENSE_BLOCK_BYTES, MemoryBlocks
from mccgr_cli.blocks.products import Products, products_for, times
from mccgr_cli.blocks.protocol import Array, BlockSource, Matrix, Partial, chunks, sweep
from mccgr_cli.errors import DataError

# Samples of the graph whose neighbours are summed together, and edges when the term is summed edge by edge.
NODE_BLOCK = 1 << 12
EDGE_BLOCK = 1 << 16
MOST_RESTORED = 4  # of what the graph may take from a coefficient, alpha u w, if the lengths of columns are kept
# By size of a number in bytes: what a sample's edges may weigh in all, so that products with W still fit.
LARGEST_DEGREE = {4: 1e32, 8: 1e250}


@dataclass(frozen=True)
class Terms:
    """The objective after a step, in its parts."""

    data: float
    graph: float
    sigma: float  # the bandwidth that the data term is measured with; nan where the loss has none
    change: float  # relative fall of the objective over the step, both ends measured with this sigma

    @property
    def objective(self) -> float:
        return self.data + self.graph


class GraphTerm:
    """alpha tr(W'LW) = alpha/2 sum_im A_im ||w_i - w_m||^2 with the Laplacian L = diag(u) - A.

    alpha, if it is not given, becomes ``strength`` times the data's own hold on W (see :meth:`weigh`).
    """

    def __init__(
        self, A: sparse.csr_array[Any], alpha: float | None, dtype: np.dtype[Any], strength: float = 0.0
    ) -> None:
        self.alpha = alpha
        self._strength = strength
        self._plain = A
        self._dtype = dtype
        self._cancels = np.sqrt(np.finfo(dtype).eps)

    def weigh(self, rho: Array, H: Array) -> None:
        """Fix alpha, at the start: as much as a step for W weighs the data, on average over components and samples.

        This does not change when X is scaled, or when W grows and H shrinks.
        """
        if self.alpha is None:
            joined = float(self._plain.sum()) / self._plain.shape[0]
            hold = float(np.einsum("kj,kj,j->", H, H, rho)) / len(H)
            self.alpha = self._strength * hold / joined if joined > 0 else 0.0
        with np.errstate(over="ignore", invalid="ignore"):
            self.adjacency = (self._plain * self.alpha).astype(self._dtype)
            self.degrees: Array = np.asarray(self.adjacency.sum(axis=1)).ravel()  # alpha u
        if not self.degrees.max() <= LARGEST_DEGREE[self._dtype.itemsize]:  # also true of NaN
            heaviest = self._plain.max()
            what = f"edges of {heaviest:g} cannot be weighed by alpha {self.alpha:g} in {self._dtype}"
            raise DataError("the graph", what, "lower --alpha or --strength, or scale the edges to 1")
        self.rows = MemoryBlocks(self.adjacency, NODE_BLOCK)

    def pull(self, W: Array) -> Array:
        """alpha A W: where its neighbours draw each sample."""
        return times(self.rows, W)

    def anchor(self, W: Array, growth: Array | None) -> Array:
        """alpha (A + U) W + growth*W: what draws W in a step with 2 alpha u in its denominator; ``growth`` is (k,)."""
        anchor = self.pull(W)
        anchor += self.degrees[:, None] * W
        if growth is not None:
            anchor += restored(growth, self.degrees) * W
        return anchor

    def value(self, W: Array, pull: Array) -> float:
        attracted = np.einsum("ik,ik->", W, pull, dtype=np.float64)
        spread = np.einsum("ik,ik->i", W, W, dtype=np.float64) @ self.degrees
        if spread - attracted > self._cancels * spread:
            return float(spread - attracted)
        return self._value_by_edges(W)

    def _value_by_edges(self, W: Array) -> float:
        """The same, without the cancellation that a smooth W brings."""
        edges = self.adjacency.tocoo()
        total = 0.0
        for part in chunks(edges.nnz, EDGE_BLOCK):
            gap = (W[edges.row[part]] - W[edges.col[part]]).astype(np.float64)
            total += float(np.einsum("ek,ek,e->", gap, gap, edges.data[part]))
        return total / 2


def restored(growth: Array, degrees: Array) -> Array:
    """``growth`` (k,) of the coefficients of samples with these alpha u, (n, k).

    The graph takes nothing from a sample without edges, and little where they are light. There a coefficient must not
    get much more back: it would grow without end.
    """
    limited: Array = np.minimum(growth, MOST_RESTORED * degrees[:, None])
    return limited


class Loss(ABC):
    """The data term as a function of the errors of the features, e_j = sum_i (x_ij - (WH)_ij)^2."""

    @property
    def sigma(self) -> float:
        """The bandwidth in force; nan for a loss that has none."""
        return float("nan")

    warming_up = False  # while the weights of the features are not those that the loss is about
    kept: ClassVar[tuple[str, ...]] = ()  # attributes that it has learnt

    def adapt(self, errors: Array, step: int) -> None:  # noqa: B027 (most losses have nothing to learn)
        """Learn the bandwidth from the errors before a step; 0 is the start."""

    @abstractmethod
    def weights(self, errors: Array) -> Array:
        """rho (d,): the slope of the loss in each error."""

    @abstractmethod
    def value(self, errors: Array) -> float: ...

    def comparable_value(self, errors: Array) -> float:
        """The value by which runs are compared that may have ended with different bandwidths."""
        return self.value(errors)

    @abstractmethod
    def doubtful(self, errors: Array, slack: Array) -> Array:
        """Which errors (a mask) must be known better than to within about ``slack`` * sqrt(eps)."""


class SquaredError(Loss):
    """sum_j e_j: every feature weighs the same."""

    def weights(self, errors: Array) -> Array:
        return np.ones_like(errors)

    def value(self, errors: Array) -> float:
        return float(errors.sum())

    def doubtful(self, errors: Array, slack: Array) -> Array:
        only_sum_matters: Array = (slack > errors.mean()) & (slack.sum() > errors.sum())
        return only_sum_matters


@dataclass(frozen=True)
class Problem:
    """What is to be factorized, and the parts of the objective."""

    source: BlockSource
    squares: Array  # (d,) sum_i x_ij^2
    loss: Loss
    graph: GraphTerm | None = None
    holds_scale: bool = False  # whether the graph is to weigh the same throughout, however W and H share their product
    ridge: float = 0.0  # of gdcls


class Update(ABC):
    """A method at work: it holds the factors and improves them step by step."""

    kept: ClassVar[tuple[str, ...]] = ("W", "H")  # attributes that the next step depends on

    def __init__(self, problem: Problem, W: Array, H: Array) -> None:
        self.source = problem.source
        self.W = np.array(W, dtype=self.source.dtype, order="C")  # (n, k)
        # (k, d), always float64: it is small, and sums over all samples meet in it
        self.H = np.array(H, dtype=np.float64, order="C")

    @abstractmethod
    def start(self) -> Terms:
        """Measure the starting point."""

    @abstractmethod
    def step(self) -> Terms:
        """One iteration: weights, then H, then W."""

    def state(self) -> dict[str, Any]:
        """Arrays and numbers with which :meth:`restore` lets another one of the same problem go on from here."""
        return {name: getattr(self, name) for name in self.kept if getattr(self, name) is not None}

    def restore(self, state: dict[str, Any]) -> None:
        """Go on from what :meth:`state` returned; an error if it does not fit the problem."""
        for name in self.kept:
            known = getattr(self, name, self.H)  # what only a step makes has the shape of H
            if known is not None:  # else a problem like this has no such thing
                setattr(self, name, fitting(state, name, known))

    @property
    def rho(self) -> Array:
        """The weight of every feature, (d,)."""
        return np.ones(self.H.shape[1])

    @property
    def warming_up(self) -> bool:
        """Whether it is too early for the run to have converged."""
        return False

    @abstractmethod
    def comparable_objective(self) -> float:
        """What restarts are compared by."""


def fitting(state: dict[str, Any], name: str, known: Any) -> Any:
    """An array or number of a saved state, in the type of the ``known`` one that it replaces, if it has its shape."""
    value = np.asarray(state.get(name, ""))
    if value.dtype.kind not in "fiub" or value.shape != np.shape(known):
        raise unfit(f"{name!r} is missing or has another shape")
    return value.astype(known.dtype, copy=False) if isinstance(known, np.ndarray) else type(known)(value)


def unfit(why: str) -> DataError:
    return DataError("checkpoint", f"it is damaged or was changed ({why})", "run the command again without it")


class QuadraticUpdate(Update):
    """Methods whose loss depends on X only through the errors of the features, e (d,).

    One pass over X leaves P = W'X (k, d) and G = W'W (k, k), and these give, with xx_j = sum_i x_ij^2,
        e_j = xx_j - 2 sum_k H_kj P_kj + sum_k H_kj (G H)_kj
    so neither the errors, nor the weights, nor the step for H looks at X again.
    """

    kept = (*Update.kept, "P", "G", "errors", "steps")

    def __init__(self, problem: Problem, W: Array, H: Array) -> None:
        super().__init__(problem, W, H)
        self.squares, self.loss, self.graph = problem.squares, problem.loss, problem.graph
        self.errors: Array = problem.squares  # until something is fitted
        self.products = products_for(self.source)
        self.steps = 0
        self.P = np.zeros(self.H.shape)
        self.G = np.zeros((len(self.H), len(self.H)))

    def state(self) -> dict[str, Any]:
        return super().state() | {name: getattr(self.loss, name) for name in self.loss.kept}

    def restore(self, state: dict[str, Any]) -> None:
        super().restore(state)
        for name in self.loss.kept:
            setattr(self.loss, name, fitting(state, name, getattr(self.loss, name)))
        if min(self.errors.min(), self.steps, *(getattr(self.loss, name) for name in self.loss.kept)) < 0:
            raise unfit("a number below 0")
        self.GH = self.G @ self.H
        if self.graph is not None:
            self.graph.weigh(self.rho, self.H)
        self._measure_graph()

    @property
    def rho(self) -> Array:
        return self.loss.weights(self.errors)

    @property
    def warming_up(self) -> bool:
        return self.loss.warming_up

    def start(self) -> Terms:
        self.sweep(gather, (self.W,), (self.products,))
        self.errors = self._expanded_errors()
        self.loss.adapt(self.errors, 0)  # which errors must be exact depends on the bandwidth, and it on them
        if self.graph is not None:
            self.graph.weigh(self.rho, self.H)
        self._measure()
        self.loss.adapt(self.errors, 0)
        return self._terms(before=0.0)

    def step(self) -> Terms:
        self.steps += 1
        self.loss.adapt(self.errors, self.steps)
        before = self.objective
        self.improve(self.loss.weights(self.errors), before)
        return self._terms(before)

    @property
    def objective(self) -> float:
        """With the bandwidth in force."""
        return self.loss.value(self.errors) + self.graph_value

    @abstractmethod
    def improve(self, rho: Array, before: float) -> None:
        """Change H and W, and measure them; ``before`` is the objective so far."""

    def sweep(
        self,
        kernel: Any,
        rows: tuple[Array | None, ...],
        shared: tuple[Any, ...] = (),
        into: tuple[Array, ...] = (),
    ) -> None:
        """The pass over X: ``kernel`` sums up W_b'X_b and W_b'W_b of the new W_b; its rows go ``into`` arrays."""
        self.P[:], self.G[:] = sweep(self.source, kernel, rows, shared, into)

    def _terms(self, before: float) -> Terms:
        data = self.loss.value(self.errors)
        return Terms(data, self.graph_value, self.loss.sigma, relative_fall(before, data + self.graph_value))

    def comparable_objective(self) -> float:
        return self.loss.comparable_value(self.errors) + self.graph_value

    def _measure(self) -> None:
        self.errors = self._expanded_errors()
        # The expansion is off by eps * xx_j or more (some 60 times that for float32 in CSR): slack leaves room.
        slack = 8 * np.sqrt(np.finfo(self.source.dtype).eps) * self.squares
        doubtful = np.flatnonzero(self.loss.doubtful(self.errors, slack))
        if len(doubtful):
            self.errors[doubtful] = self._exact_errors(doubtful)
        self._measure_graph()

    def _measure_graph(self) -> None:
        self.pull = None if self.graph is None else self.graph.pull(self.W)
        self.graph_value = 0.0
        if self.graph is not None and self.pull is not None:
            self.graph_value = self.graph.value(self.W, self.pull)

    def _expanded_errors(self) -> Array:
        self.GH = self.G @ self.H
        crossed = np.einsum("kj,kj->j", self.H, self.GH - 2 * self.P)
        errors: Array = np.maximum(self.squares + crossed, 0)
        return errors

    def _exact_errors(self, columns: Array) -> Array:
        (errors,) = sweep(self.source, residual_squares, (self.W,), (self.H[:, columns], columns))
        return errors


class AlternatingUpdate(QuadraticUpdate):
    """First H, then W in place, in one pass over X."""

    def improve(self, rho: Array, before: float) -> None:
        self.improve_basis()
        self.improve_coefficients(rho)
        self._measure()

    def improve_basis(self) -> None:
        """H <- H * (W'X) / (W'WH), the step of Lee and Seung: the weights of the features cancel.

        P and GH are used up: the pass that follows makes them anew.
        """
        self.H *= quotient(self.P, self.GH)

    @abstractmethod
    def improve_coefficients(self, rho: Array) -> None:
        """Change W and leave P and G of the new W behind (see :meth:`sweep`)."""


def relative_fall(before: float, after: float) -> float:
    return 0.0 if before == 0 else (before - after) / before


# Block functions: at module level and with explicit arguments, so that they can be sent to other processes.


def gather(X_b: Matrix, W_b: Array, products: Products) -> Partial:
    """What a pass leaves behind."""
    return Partial((products.cross(W_b, X_b), W_b.T @ W_b))


def residual_squares(X_b: Matrix, W_b: Array, basis: Array, columns: Array) -> Partial:
    """sum_i (x_ij - (WH)_ij)^2 for some columns j, the plain way."""
    total = np.zeros(len(columns))
    height = max(1, DENSE_BLOCK_BYTES // (8 * len(columns)))
    for rows in chunks(len(W_b), height):
        block = X_b[rows][:, columns]
        residual: Array = W_b[rows].astype(np.float64) @ basis
        residual -= block.toarray() if sparse.issparse(block) else block
        total += np.einsum("ij,ij->j", residual, residual)
    return Partial((total,))


def quotient(numerator: Array, denominator: Array) -> Array:
    """numerator / denominator, in place in the first; 0/0 is 1, so that what has no gradient stays put.

    The quotient is kept finite: it meets a factor that is 0, or as good as 0, where the denominator is.
    """
    limits = np.finfo(numerator.dtype)
    numerator += limits.tiny
    denominator += limits.tiny
    with np.errstate(over="ignore"):
        numerator /= denominator
    np.minimum(numerator, np.sqrt(limits.max), out=numerator)
    return numerator
