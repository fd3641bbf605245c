"""What all methods share: the terms of the objective, the graph term, and the update of W and H.

Notation (samples by features): X (n, d) ~ W H, coefficients W (n, k), basis H (k, d), graph A (n, n), weights of the
features rho (d,), weight of the graph alpha, degrees of the samples u (n,).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from scipy import sparse

from mccgr_cli.blocks.in_memory import DENSE_BLOCK_BYTES, MemoryBlocks
from mccgr_cli.blocks.products import Products, products_for, times
from mccgr_cli.blocks.protocol import Array, BlockSource, Matrix, Partial, chunks, sum_over_blocks
from mccgr_cli.core.methods.losses import Loss
from mccgr_cli.errors import DataError

NODE_BLOCK = 1 << 12  # samples of the graph that are worked on together
EDGE_BLOCK = 1 << 16  # edges that are worked on together
MOST_GROWTH = 4  # limit for the growth of a coefficient, relative to alpha u, if the lengths of columns are kept
LARGEST_DEGREE = {4: 1e32, 8: 1e250}  # by bytes of a number: limit for alpha u, so that products with W do not overflow


@dataclass(frozen=True)
class Terms:
    """The terms of the objective after a step."""

    data: float
    graph: float
    sigma: float  # bandwidth of the data term; NaN if the loss has none
    change: float  # relative decrease of the objective in the step, measured with this sigma before and after

    @property
    def objective(self) -> float:
        return self.data + self.graph


class GraphTerm:
    """alpha tr(W'LW) = alpha/2 sum_im A_im ||w_i - w_m||^2 with the Laplacian L = diag(u) - A.

    If alpha is None, :meth:`weigh` sets it to ``strength`` times the weight of the data in a step for W.
    """

    def __init__(
        self, A: sparse.csr_array[Any], alpha: float | None, dtype: np.dtype[Any], strength: float = 0.0
    ) -> None:
        self.alpha = alpha
        self._strength = strength
        self._plain = A
        self._dtype = dtype
        self.plain_degrees: Array = np.asarray(A.sum(axis=1), dtype=np.float64).ravel()  # u
        self._cancels = np.sqrt(np.finfo(dtype).eps)

    def weigh(self, rho: Array, H: Array) -> None:
        """Set alpha at the start, relative to the mean weight of the data over components and samples.

        The result does not change when X is scaled, or when W grows and H shrinks.
        """
        if self.alpha is None:
            mean_degree = float(self._plain.sum()) / self._plain.shape[0]
            data_weight = float(np.einsum("kj,kj,j->", H, H, rho)) / len(H)
            self.alpha = self._strength * data_weight / mean_degree if mean_degree > 0 else 0.0
        with np.errstate(over="ignore", invalid="ignore"):
            self.adjacency = (self._plain * self.alpha).astype(self._dtype)
            self.degrees: Array = np.asarray(self.adjacency.sum(axis=1)).ravel()  # alpha u
        if not self.degrees.max() <= LARGEST_DEGREE[self._dtype.itemsize]:  # also true for NaN
            what = f"edges of {self._plain.max():g} cannot be multiplied by alpha {self.alpha:g} in {self._dtype}"
            raise DataError("the graph", what, "lower --alpha or --strength, or scale the edges to 1")
        self.row_blocks = MemoryBlocks(self.adjacency, NODE_BLOCK)

    def pull(self, W: Array) -> Array:
        """alpha A W: the weighted sum of the neighbours' rows of W for each sample."""
        return times(self.row_blocks, W)

    def target(self, W: Array, growth: Array | None) -> Array:
        """alpha (A + U) W + growth*W, the graph's part of the target of a step with 2 alpha u in its denominator."""
        target = self.pull(W)
        target += self.degrees[:, None] * W
        if growth is not None:
            target += limited_growth(growth, self.degrees) * W
        return target

    def value(self, W: Array, neighbour_sum: Array) -> float:
        attraction = np.einsum("ik,ik->", W, neighbour_sum, dtype=np.float64)
        spread = np.einsum("ik,ik->i", W, W, dtype=np.float64) @ self.degrees
        if spread - attraction > self._cancels * spread:
            return float(spread - attraction)
        edges = self.adjacency.tocoo()  # the difference cancels for a smooth W: sum edge by edge
        total = 0.0
        for some in chunks(edges.nnz, EDGE_BLOCK):
            gap = (W[edges.row[some]] - W[edges.col[some]]).astype(np.float64)
            total += float(np.einsum("ek,ek,e->", gap, gap, edges.data[some]))
        return total / 2


def limited_growth(growth: Array, degrees: Array) -> Array:
    """``growth`` (k,) for samples with these alpha u (n,), limited to a multiple of alpha u, (n, k).

    The graph shrinks coefficients in proportion to alpha u. A coefficient that grew much more would diverge.
    """
    return np.asarray(np.minimum(growth, MOST_GROWTH * degrees[:, None]))


@dataclass(frozen=True)
class Problem:
    """X and the terms of the objective."""

    source: BlockSource
    squares: Array  # (d,) sum_i x_ij^2
    loss: Loss
    graph: GraphTerm | None = None
    keeps_scale: bool = False  # keep the columns of W at their lengths, so that the weight of the graph stays the same
    ridge: float = 0.0  # lambda of gdcls


class Update(ABC):
    """Holds the factors W and H, and improves them step by step."""

    kept: ClassVar[tuple[str, ...]] = ("W", "H")  # attributes saved in checkpoints, under these names

    def __init__(self, problem: Problem, W: Array, H: Array) -> None:
        self.source = problem.source
        self.W = np.array(W, dtype=self.source.dtype, order="C")  # (n, k)
        # (k, d), always float64: it is small, and comes from sums over all samples
        self.H = np.array(H, dtype=np.float64, order="C")

    @abstractmethod
    def start(self) -> Terms:
        """Evaluate the starting point."""

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
        """The weights of the features, (d,)."""
        return np.ones(self.H.shape[1])

    @property
    def warming_up(self) -> bool:
        """True while it is too early to converge."""
        return False

    @abstractmethod
    def comparable_objective(self) -> float:
        """The value for comparing restarts."""


def fitting(state: dict[str, Any], name: str, known: Any) -> Any:
    """An array or number of a saved state, in the type of the ``known`` one that it replaces, if it has its shape."""
    value = np.asarray(state.get(name, ""))
    if value.dtype.kind not in "fiub" or value.shape != np.shape(known):
        raise unfit(f"{name!r} is missing or has another shape")
    return value.astype(known.dtype, copy=False) if isinstance(known, np.ndarray) else type(known)(value)


def unfit(why: str) -> DataError:
    return DataError("checkpoint", f"it is damaged or was changed ({why})", "run the command again without it")


class QuadraticUpdate(Update):
    """e_j = xx_j - 2 sum_k H_kj P_kj + sum_k H_kj (G H)_kj,  P = W'X (k, d), G = W'W (k, k), xx_j = sum_i x_ij^2.

    For losses that depend on X only through the errors of the features e (d,). One pass over X gives P and G. The
    errors, the weights and the step for H then need no further pass.
    """

    kept = (*Update.kept, "P", "G", "errors", "steps")

    def __init__(self, problem: Problem, W: Array, H: Array) -> None:
        super().__init__(problem, W, H)
        self.squares, self.loss, self.graph = problem.squares, problem.loss, problem.graph
        self.errors: Array = problem.squares  # before anything is fitted
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
        self.pass_over_X(cross_products, (self.W,), (self.products,))
        self.errors = self._expanded_errors()
        self.loss.adapt(self.errors, 0)  # the bandwidth decides which errors must be exact
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
        """The objective with the current bandwidth."""
        return self.loss.value(self.errors) + self.graph_value

    @abstractmethod
    def improve(self, rho: Array, before: float) -> None:
        """Change H and W, and evaluate them; ``before`` is the objective before this step."""

    def pass_over_X(
        self, function: Any, rows: tuple[Array | None, ...], shared: tuple[Any, ...], into: tuple[Array, ...] = ()
    ) -> None:
        """One pass: ``function`` returns the sums W_b'X_b and W_b'W_b of the new W_b; its rows go ``into`` arrays."""
        self.P[:], self.G[:] = sum_over_blocks(self.source, function, rows, shared, into)

    def _terms(self, before: float) -> Terms:
        data = self.loss.value(self.errors)
        return Terms(data, self.graph_value, self.loss.sigma, relative_fall(before, data + self.graph_value))

    def comparable_objective(self) -> float:
        return self.loss.comparable_value(self.errors) + self.graph_value

    def _measure(self) -> None:
        self.errors = self._expanded_errors()
        # The expansion has an error of eps * xx_j or more (about 60 times that for float32 in CSR), hence the factor 8.
        slack = 8 * np.sqrt(np.finfo(self.source.dtype).eps) * self.squares
        columns = np.flatnonzero(self.loss.needs_exact(self.errors, slack))
        if len(columns):
            (exact,) = sum_over_blocks(self.source, residual_squares, (self.W,), (self.H[:, columns], columns))
            self.errors[columns] = exact
        self._measure_graph()

    def _measure_graph(self) -> None:
        self.neighbour_sum: Array | None = None
        self.graph_value = 0.0
        if self.graph is not None:
            self.neighbour_sum = self.graph.pull(self.W)
            self.graph_value = self.graph.value(self.W, self.neighbour_sum)

    def _expanded_errors(self) -> Array:
        self.GH = self.G @ self.H
        crossed = np.einsum("kj,kj->j", self.H, self.GH - 2 * self.P)
        return np.asarray(np.maximum(self.squares + crossed, 0))


class AlternatingUpdate(QuadraticUpdate):
    """Changes H first, then W in place, in one pass over X."""

    def improve(self, rho: Array, before: float) -> None:
        self.improve_basis()
        self.improve_coefficients(rho)
        self._measure()

    def improve_basis(self) -> None:
        """H <- H * (W'X) / (W'WH), the step of Lee and Seung. The weights of the features cancel.

        This overwrites P and GH, which the next pass computes again.
        """
        self.H *= quotient(self.P, self.GH)

    @abstractmethod
    def improve_coefficients(self, rho: Array) -> None:
        """Change W, and compute P and G of the new W (see :meth:`pass_over_X`)."""


def relative_fall(before: float, after: float) -> float:
    return 0.0 if before == 0 else (before - after) / before


# Block functions: at module level and with explicit arguments, so that they can be sent to other processes.


def cross_products(X_b: Matrix, W_b: Array, products: Products, *rows: Array) -> Partial:
    """W_b'X_b and W_b'W_b as sums; ``rows`` become the rows of the result."""
    return Partial((products.cross(W_b, X_b), W_b.T @ W_b), rows)


def residual_squares(X_b: Matrix, W_b: Array, basis: Array, columns: Array) -> Partial:
    """sum_i (x_ij - (WH)_ij)^2 for some columns j, without the expansion."""
    total = np.zeros(len(columns))
    height = max(1, DENSE_BLOCK_BYTES // (8 * len(columns)))
    for rows in chunks(len(W_b), height):
        block = X_b[rows][:, columns]
        residual: Array = W_b[rows].astype(np.float64) @ basis
        residual -= block.toarray() if sparse.issparse(block) else block
        total += np.einsum("ij,ij->j", residual, residual)
    return Partial((total,))


def quotient(numerator: Array, denominator: Array) -> Array:
    """numerator / denominator, written into the numerator. 0/0 is 1, so that a value without a gradient does not move.

    The result is finite: where the denominator is 0, so is the factor that is multiplied with it.
    """
    limits = np.finfo(numerator.dtype)
    numerator += limits.tiny
    denominator += limits.tiny
    with np.errstate(over="ignore"):
        numerator /= denominator
    np.minimum(numerator, np.sqrt(limits.max), out=numerator)
    return numerator
