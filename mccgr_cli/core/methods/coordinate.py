"""Coordinate descent with extrapolation: the objective of the multiplicative updates in far fewer passes over X.

References
----------
A. Cichocki, A.-H. Phan: Fast local algorithms for large scale nonnegative matrix and tensor factorizations. IEICE
Transactions E92-A(3), 2009 (component by component, "HALS").
N. Gillis, F. Glineur: Accelerated multiplicative updates and hierarchical ALS algorithms for nonnegative matrix
factorization. Neural Computation 24(4), 2012 (several rounds for each pass over X).
A. M. S. Ang, N. Gillis: Accelerating nonnegative matrix factorization algorithms using extrapolation. Neural
Computation 31(2), 2019.
B. O'Donoghue, E. Candes: Adaptive restart for accelerated gradient schemes. Foundations of Computational
Mathematics 15, 2015.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from mccgr_cli.blocks.in_memory import MemoryBlocks
from mccgr_cli.blocks.products import Products
from mccgr_cli.blocks.protocol import Array, Matrix, Partial, chunks
from mccgr_cli.core.methods.base import (
    GraphTerm,
    Problem,
    QuadraticUpdate,
    cross_products,
    fitting,
    limited_growth,
    unfit,
)

ROUNDS = 6  # over the components for each pass over X: these work on small matrices
NEAR = 0.1  # fewer rounds are enough if they reduce the error to this fraction
GRAPH_STEPS = 10  # at most, between two passes
SMALLEST_STEP = 0.1  # graph steps end when they are shorter than this fraction of the first
# Extrapolation (Ang and Gillis): its first length, the growth of the length and of its limit, and how it shrinks.
FIRST, GROWTH, LIMIT_GROWTH, SHRINKAGE = 0.5, 1.05, 1.01, 1.5
HALVINGS = 10  # of a step for W that raised the objective
ROUNDING = 100  # an increase of the objective by this many units in the last place is rounding
TILE = 4096  # rows of W, or features of H, that are worked on together so that they stay in the cache


@dataclass(frozen=True)
class Point:
    """The factors of one iteration, with P = W'X, G = W'W and alpha A W."""

    W: Array
    H: Array
    P: Array
    G: Array
    pull: Array | None


KEPT_OF_POINT = ("W", "H", "P", "G")  # saved in checkpoints; alpha A W of an earlier point is not needed


class CoordinateUpdate(QuadraticUpdate):
    """H_r <- max(0, H_r + (P_r - (G H)_r) / G_rr),
    W_r <- max(0, W_r + (N_r - (W S)_r - alpha (L W)_r) / (S_rr + 2 alpha u)),  N = X(rho*H)', S = (rho*H)H'

    in rounds over the components r, each moved to its minimum while the others are fixed.

    2 alpha u bounds the Laplacian L from above. So blocks of samples do not depend on each other, and one pass over X
    is enough. Where the graph dominates, the bound makes steps tiny. There W takes several steps along the graph
    before each pass. They use an estimate of N: that of the last pass, corrected for the change of H as if X were WH.
    Both factors are also extrapolated. If the objective rises, the step is repeated from its start without graph steps
    and extrapolation, which cannot raise it.

    Without a graph the lengths of the columns of W have no meaning. If the weight of the graph is relative to the data,
    they must not change. In both cases the columns of W keep their lengths.
    """

    kept = (*QuadraticUpdate.kept, "extrapolation", "limit", "lengths")

    def __init__(self, problem: Problem, W: Array, H: Array) -> None:
        super().__init__(problem, W, H)
        self.extrapolation, self.limit = FIRST, 1.0
        self.lengths = column_lengths(self.W) if problem.graph is None or problem.keeps_scale else None
        self.previous: Point | None = None
        self.numerator = np.zeros_like(self.W)  # N of the last pass
        self.weighted = np.zeros_like(self.H)  # the rho*H of the last pass
        self.rounding = ROUNDING * float(np.finfo(self.source.dtype).eps)

    def state(self) -> dict[str, Any]:
        state = super().state()
        if self.graph is not None:
            state |= {"numerator": self.numerator, "weighted": self.weighted}
        if self.previous is not None:
            state |= {f"previous/{name}": getattr(self.previous, name) for name in KEPT_OF_POINT}
        return state

    def restore(self, state: dict[str, Any]) -> None:
        super().restore(state)
        if self.lengths is not None and self.lengths.min() < 0:
            raise unfit("a length below 0")
        if self.graph is not None:
            self.numerator = fitting(state, "numerator", self.numerator)
            self.weighted = fitting(state, "weighted", self.weighted)
        if "previous/W" in state:
            parts = {name: fitting(state, f"previous/{name}", getattr(self, name)) for name in KEPT_OF_POINT}
            self.previous = Point(**parts, pull=None)

    def improve(self, rho: Array, before: float) -> None:
        here, highest = Point(self.W, self.H, self.P, self.G, self.neighbour_sum), before * (1 + self.rounding)
        extrapolates = self.previous is not None
        self.take_step(rho, here, self.previous)
        if self.objective > highest:
            if extrapolates:
                self.limit, self.extrapolation = self.extrapolation, self.extrapolation / SHRINKAGE
            self.take_step(rho, here, None)
            self.shorten_step(here, highest)
        elif extrapolates:
            self.extrapolation = min(self.limit, self.extrapolation * GROWTH)
            self.limit = min(1.0, self.limit * LIMIT_GROWTH)
        self.previous = here

    def take_step(self, rho: Array, here: Point, previous: Point | None) -> None:
        """One step from ``here``, extrapolated if there is a ``previous`` point."""
        W, P, G, H = here.W, here.P, here.G, here.H
        if previous is not None:
            length = self.extrapolation
            W = W + W.dtype.type(length) * (W - previous.W)  # some values may be negative; P and G are still those of W
            P = P + length * (P - previous.P)
            G = (W.T @ W).astype(np.float64)
            H = np.maximum(H + length * (H - previous.H), 0)
        H = fitted_basis(H, P, G, self.products)
        extrapolated = H
        if previous is not None:
            extrapolated = np.maximum(H + length * (H - here.H), 0)
            W = np.maximum(W, 0)
        weighted = rho * extrapolated
        gram = (weighted @ extrapolated.T).astype(W.dtype)
        target = bound = None
        if self.graph is not None:
            growth, bound = self.lost_growth(here), 2 * self.graph.degrees
            steps = graph_steps_for(gram, bound)
            if previous is not None and steps:
                expected = self.numerator + here.W @ (extrapolated @ (weighted - self.weighted).T).astype(W.dtype)
                W = take_graph_steps(W, expected, gram, self.graph, growth, steps, self.products)
            target = self.graph.target(W, growth)
        self.step_for_W(W, target, bound, weighted, gram)
        self.choose_basis(extrapolated, H)
        self.reset_lengths()
        self._measure()

    def step_for_W(self, W: Array, target: Array | None, bound: Array | None, weighted: Array, gram: Array) -> None:
        """The pass over X; ``target`` and ``bound`` are those of the graph."""
        self.W = np.empty_like(W)
        self.P, self.G = np.empty_like(self.P), np.empty_like(self.G)
        into: tuple[Array, ...] = (self.W,)
        if target is not None:  # graph steps need N
            self.numerator, self.weighted = np.empty_like(W), weighted
            into = (self.W, self.numerator)
        shared = (np.ascontiguousarray(weighted.T, dtype=W.dtype), gram, rounds_for(gram, bound), self.products)
        self.pass_over_X(descend_rows, (W, target, bound), shared, into)

    def choose_basis(self, *candidates: Array) -> None:
        """Take the basis with the lower objective. P and G give the errors of any basis."""

        def value(H: Array) -> float:
            self.H = H
            return self.loss.value(self._expanded_errors())

        self.H = min(candidates, key=value)

    def lost_growth(self, here: Point) -> Array | None:
        """alpha w'Lw / w'w (k,), by which the graph shrinks the columns of W; None if their lengths may change."""
        if self.lengths is None or self.graph is None or here.pull is None:
            return None
        squares = np.einsum("ik,ik->k", here.W, here.W, dtype=np.float64)
        lost = np.einsum("ik,ik->k", self.graph.degrees[:, None] * here.W - here.pull, here.W, dtype=np.float64)
        growth = np.divide(lost, squares, out=np.zeros_like(lost), where=squares > 0)
        return np.asarray(growth, dtype=here.W.dtype)

    def reset_lengths(self) -> None:
        """Scale the columns of W back to their lengths. WH does not change."""
        if self.lengths is None:
            return
        now = column_lengths(self.W)
        alive = (now > np.sqrt(np.finfo(self.W.dtype).tiny)) & (self.lengths > 0)
        scale = np.divide(self.lengths, now, out=np.ones_like(now), where=alive)
        self.W *= scale.astype(self.W.dtype)
        self.P *= scale[:, None]
        self.G *= scale[:, None] * scale
        self.H = self.H / scale[:, None]
        if self.graph is not None:
            self.numerator /= scale.astype(self.W.dtype)
            self.weighted = self.weighted / scale[:, None]

    def shorten_step(self, here: Point, highest: float) -> None:
        """Go back towards ``here`` until the objective is low enough: fixed lengths can make a good step too long."""
        W, P = self.W, self.P
        for share in (*0.5 ** np.arange(1, HALVINGS + 1), 0.0):
            if self.objective <= highest:
                return
            self.W = here.W + W.dtype.type(share) * (W - here.W)
            self.P = here.P + share * (P - here.P)
            self.G = (self.W.T @ self.W).astype(np.float64)
            self.H = fitted_basis(here.H, self.P, self.G, self.products)
            self.reset_lengths()
            self._measure()


def column_lengths(W: Array) -> Array:
    return np.asarray(np.sqrt(np.einsum("ik,ik->k", W, W, dtype=np.float64)))


def graph_steps_for(gram: Array, bound: Array) -> int:
    """Number of accelerated steps: twice the root of the graph's weight relative to that of the data, but limited."""
    data, graph = float(np.diag(gram).mean()), float(bound.mean())
    return GRAPH_STEPS if data * GRAPH_STEPS**2 <= 4 * graph else int(2 * np.sqrt(graph / data))


def take_graph_steps(
    W: Array, numerator: Array, gram: Array, graph: GraphTerm, growth: Array | None, steps: int, products: Products
) -> Array:
    """Accelerated steps towards min over W >= 0 of tr(W gram W') - 2 tr(W numerator') + alpha tr(W'LW)."""

    def step_for_block(A_b: Matrix, ahead_b: Array, here_b: Array, numerator_b: Array, u_b: Array, ahead: Array) -> Any:
        """The new rows, how far they turn back (if positive), and the squared length of the step."""
        target = A_b @ ahead
        diagonal = u_b[:, None]
        target += (diagonal if growth is None else diagonal + limited_growth(growth, u_b)) * ahead_b
        target += numerator_b
        new_b = descended(ahead_b, target, gram, 2 * u_b, 1, products)
        step_b = new_b - here_b
        return new_b, float(np.vdot(ahead_b - new_b, step_b)), float(np.vdot(step_b, step_b))

    here, ahead = W, W
    momentum, first = 1.0, 0.0
    for _ in range(steps):
        new = np.empty_like(W)
        turning = squares = 0.0
        blocks = graph.row_blocks.map(step_for_block, (ahead, here, numerator, graph.degrees), (ahead,))
        for where, (new_b, turning_b, squares_b) in blocks:
            new[where] = new_b
            turning += turning_b
            squares += squares_b
        if turning > 0:  # the direction turns: restart (O'Donoghue and Candes)
            momentum = 1.0
        following = (1 + np.sqrt(1 + 4 * momentum**2)) / 2
        ahead = new - here
        ahead *= W.dtype.type((momentum - 1) / following)
        ahead += new
        np.maximum(ahead, 0, out=ahead)
        here, momentum = new, following
        first = first or squares
        if squares <= SMALLEST_STEP**2 * first:
            break
    return here


def fitted_basis(H: Array, P: Array, G: Array, products: Products) -> Array:
    """H after rounds over its components, some features at a time."""

    def descend_columns(target_b: Array, H_b: Array) -> Array:
        return descended(H_b, target_b, G, None, ROUNDS, products)

    new = np.empty_like(H)
    for where, rows in MemoryBlocks(P.T, TILE).map(descend_columns, (H.T,)):
        new[:, where] = rows.T
    return new


def descend_rows(
    X_b: Matrix,
    W_b: Array,
    target_b: Array | None,
    bound_b: Array | None,
    weighted: Array,
    gram: Array,
    rounds: int,
    products: Products,
) -> Partial:
    """The step for a block: W'X and W'W of the new W, W itself, and with a graph N.

    ``target_b`` and ``bound_b`` are those of the graph; ``weighted`` is (rho*H)', ``gram`` is (rho*H)H'.
    """
    numerator = products.narrow(X_b, weighted)
    target = numerator if target_b is None else numerator + target_b
    new = descended(W_b, target, gram, bound_b, rounds, products)
    return cross_products(X_b, new, products, *((new,) if target_b is None else (new, numerator)))


def rounds_for(gram: Array, bound: Array | None) -> int:
    """Number of rounds that are needed: a round reduces an error by the ratio of off-diagonal to diagonal terms."""
    if bound is None:
        return ROUNDS
    own = np.diag(gram)
    left = float(((gram.sum(axis=1) - own) / np.maximum(own + bound.mean(), np.finfo(gram.dtype).tiny)).max())
    return ROUNDS if left >= 1 else int(np.clip(np.ceil(np.log(NEAR) / np.log(max(left, NEAR))), 1, ROUNDS))


def descended(W: Array, target: Array, gram: Array, bound: Array | None, rounds: int, products: Products) -> Array:
    """min over W >= 0 of tr(W gram W') - 2 tr(W target') + sum_i bound_i ||w_i||^2, approximately.

    Does some rounds over the columns of W (m, k). A column with hardly any effect on the value does not change.
    """
    kernels = products.module()
    if kernels is not None:  # many short calls of numpy in several threads would wait for each other
        compiled: Array = kernels.descended(W, target, gram, bound, rounds)
        return compiled
    new = np.empty_like(W)
    for rows in chunks(len(W), TILE):
        F = np.array(W[rows].T, order="C")
        descend(F, np.array(target[rows].T, order="C"), gram, None if bound is None else bound[rows], rounds)
        new[rows] = F.T
    return new


def descend(F: Array, target: Array, gram: Array, bound: Array | None, rounds: int) -> None:
    """As :func:`descended`, in place for F = W' and target', where each component is contiguous."""
    own = np.diag(gram)
    others = gram - np.diag(own)
    sizes = own[:, None] if bound is None else own[:, None] + bound
    limits = np.finfo(sizes.dtype)
    smallest = max(limits.tiny, float(sizes.max()) * limits.eps**2)
    inverse = 1 / np.maximum(sizes, smallest)
    target *= inverse
    if bound is None:
        others *= inverse
    rest = np.empty_like(F[0])
    moving = np.flatnonzero(sizes.max(axis=1) > smallest)
    for _ in range(rounds):
        for r in moving:
            np.dot(others[r], F, out=rest)
            if bound is not None:
                rest *= inverse[r]
            np.subtract(target[r], rest, out=rest)
            np.maximum(rest, 0, out=F[r])
