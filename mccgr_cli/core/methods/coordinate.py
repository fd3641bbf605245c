"""Coordinate steps with extrapolation: the objective of the multiplicative updates, in far fewer passes over X.

References
----------
A. Cichocki, A.-H. Phan: Fast local algorithms for large scale nonnegative matrix and tensor factorizations. IEICE
Transactions E92-A(3), 2009 (steps by components, "HALS").
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
from mccgr_cli.core.methods.base import GraphTerm, Problem, QuadraticUpdate, fitting, gather, restored, unfit

# Rounds over the components for each pass over X: they work on small matrices. Fewer do where they come this near.
ROUNDS = 6
NEAR = 0.1
# Steps along the graph between two passes, at most, and the share of the first one's length below which they end.
GRAPH_STEPS = 10
SMALLEST_STEP = 0.1
# Of the extrapolation (Ang and Gillis): its first length, how that and its limit grow, and how it shrinks.
FIRST, GROWTH, LIMIT_GROWTH, SHRINKAGE = 0.5, 1.05, 1.01, 1.5
HALVINGS = 10  # of a step for W that goes too far
ROUNDING = 100  # units in the last place by which an objective may rise unnoticed
TILE = 4096  # rows of W, or features of H, that are worked on together: with them a tile stays in the cache


@dataclass(frozen=True)
class Point:
    """Where a run was: its factors and what the pass over X told of them."""

    W: Array
    H: Array
    P: Array
    G: Array
    pull: Array | None


KEPT_OF_POINT = ("W", "H", "P", "G")  # nobody asks where the graph drew a point that is left


class CoordinateUpdate(QuadraticUpdate):
    """H and W by rounds over their components, each to its minimum while the others stay.

    H_r <- max(0, H_r + (P_r - (G H)_r) / G_rr)
    W_r <- max(0, W_r + (N_r - (W S)_r - alpha (L W)_r) / (S_rr + 2 alpha u)),  N = X(rho*H)', S = (rho*H)H'

    2 alpha u bounds the Laplacian from above, so that blocks of samples need nothing of each other and one pass over X
    still does. Where the graph dominates, though, this makes steps tiny. So there W takes several steps along the graph
    before each pass, with the N that is to be expected: that of the last pass, corrected for the change of H as if X
    were WH. Both factors are extrapolated too. If the objective rises for all that, the step is taken again from where
    it began, with neither, which cannot raise it.

    Without a graph the size of a component of W means nothing, and with one whose weight is relative to the data it
    must not change: then the columns of W keep the lengths that they began with.
    """

    kept = (*QuadraticUpdate.kept, "extrapolation", "limit", "lengths")

    def __init__(self, problem: Problem, W: Array, H: Array) -> None:
        super().__init__(problem, W, H)
        self.extrapolation, self.limit = FIRST, 1.0
        self.lengths = lengths(self.W) if problem.graph is None or problem.holds_scale else None
        self.previous: Point | None = None
        self.numerator = np.zeros_like(self.W)  # N of the last pass
        self.weighted = np.zeros_like(self.H)  # the rho*H that it was made with
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
        here, highest = self.point, before * (1 + self.rounding)
        extrapolates = self.previous is not None
        self.take_step(rho, here, self.previous)
        if self.objective > highest:
            if extrapolates:
                self.limit, self.extrapolation = self.extrapolation, self.extrapolation / SHRINKAGE
            self.take_step(rho, here, None)
            self.retreat(here, highest)
        elif extrapolates:
            self.extrapolation = min(self.limit, self.extrapolation * GROWTH)
            self.limit = min(1.0, self.limit * LIMIT_GROWTH)
        self.previous = here

    @property
    def point(self) -> Point:
        return Point(self.W, self.H, self.P, self.G, self.pull)

    def take_step(self, rho: Array, here: Point, previous: Point | None) -> None:
        """From ``here``, extrapolated if there is a ``previous`` point."""
        W, P, G, H = here.W, here.P, here.G, here.H
        if previous is not None:
            beyond = self.extrapolation
            W = W + W.dtype.type(beyond) * (W - previous.W)  # may be negative here and there: P and G are still its own
            P = P + beyond * (P - previous.P)
            G = (W.T @ W).astype(np.float64)
            H = np.maximum(H + beyond * (H - previous.H), 0)
        H = fitted_basis(H, P, G, self.products)
        further = H
        if previous is not None:
            further = np.maximum(H + beyond * (H - here.H), 0)
            W = np.maximum(W, 0)
        weighted = rho * further
        gram = (weighted @ further.T).astype(W.dtype)
        anchor = bound = None
        if self.graph is not None:
            growth, bound = self.growth_to_make_up_for(here), 2 * self.graph.degrees
            steps = graph_steps_for(gram, bound)
            if previous is not None and steps:
                expected = self.numerator + here.W @ (further @ (weighted - self.weighted).T).astype(W.dtype)
                W = along_graph(W, expected, gram, self.graph, growth, steps, self.products)
            anchor = self.graph.anchor(W, growth)
        self.pass_over(W, anchor, bound, weighted, gram)
        self.choose_basis(further, H)
        self.hold_lengths()
        self._measure()

    def pass_over(self, W: Array, anchor: Array | None, bound: Array | None, weighted: Array, gram: Array) -> None:
        self.W = np.empty_like(W)
        self.P, self.G = np.empty_like(self.P), np.empty_like(self.G)
        into: tuple[Array, ...] = (self.W,)
        if anchor is not None:  # steps along the graph will need it
            self.numerator, self.weighted = np.empty_like(W), weighted
            into = (self.W, self.numerator)
        shared = (np.ascontiguousarray(weighted.T, dtype=W.dtype), gram, rounds_for(gram, bound), self.products)
        self.sweep(descend_rows, (W, anchor, bound), shared, into)

    def choose_basis(self, *candidates: Array) -> None:
        """The one with the lower objective: the pass over X has told all that is needed of any basis."""

        def value(H: Array) -> float:
            self.H = H
            return self.loss.value(self._expanded_errors())

        self.H = min(candidates, key=value)

    def growth_to_make_up_for(self, here: Point) -> Array | None:
        """What the graph takes from the lengths of the columns of W, alpha w'Lw / w'w, (k,), if they are to be kept."""
        if self.lengths is None or self.graph is None or here.pull is None:
            return None
        squares = np.einsum("ik,ik->k", here.W, here.W, dtype=np.float64)
        lost = np.einsum("ik,ik->k", self.graph.degrees[:, None] * here.W - here.pull, here.W, dtype=np.float64)
        growth: Array = np.divide(lost, squares, out=np.zeros_like(lost), where=squares > 0)
        return growth.astype(here.W.dtype)

    def hold_lengths(self) -> None:
        """Give the columns of W their lengths back. WH stays as it is."""
        if self.lengths is None:
            return
        now = lengths(self.W)
        alive = (now > np.sqrt(np.finfo(self.W.dtype).tiny)) & (self.lengths > 0)
        scale = np.divide(self.lengths, now, out=np.ones_like(now), where=alive)
        self.W *= scale.astype(self.W.dtype)
        self.P *= scale[:, None]
        self.G *= scale[:, None] * scale
        self.H = self.H / scale[:, None]
        if self.graph is not None:
            self.numerator /= scale.astype(self.W.dtype)
            self.weighted = self.weighted / scale[:, None]

    def retreat(self, here: Point, highest: float) -> None:
        """Go back towards ``here`` as far as it takes: lengths that are kept can make the best of steps too long."""
        W, P = self.W, self.P
        for share in (*0.5 ** np.arange(1, HALVINGS + 1), 0.0):
            if self.objective <= highest:
                return
            self.W = here.W + W.dtype.type(share) * (W - here.W)
            self.P = here.P + share * (P - here.P)
            self.G = (self.W.T @ self.W).astype(np.float64)
            self.H = fitted_basis(here.H, self.P, self.G, self.products)
            self.hold_lengths()
            self._measure()


def lengths(W: Array) -> Array:
    found: Array = np.sqrt(np.einsum("ik,ik->k", W, W, dtype=np.float64))
    return found


def graph_steps_for(gram: Array, bound: Array) -> int:
    """Accelerated steps get far in twice the root of how much stronger the graph binds a sample than the data do."""
    own, bound_by_graph = float(np.diag(gram).mean()), float(bound.mean())
    enough = own * GRAPH_STEPS**2 <= 4 * bound_by_graph
    return GRAPH_STEPS if enough else int(2 * np.sqrt(bound_by_graph / own))


def along_graph(
    W: Array, numerator: Array, gram: Array, graph: GraphTerm, growth: Array | None, steps: int, products: Products
) -> Array:
    """Accelerated steps towards min over W >= 0 of tr(W gram W') - 2 tr(W numerator') + alpha tr(W'LW)."""
    here, ahead = W, W
    momentum, first = 1.0, 0.0
    for _ in range(steps):
        new = np.empty_like(W)
        turning = squares = 0.0
        rows = (ahead, here, numerator, graph.degrees)
        for where, found in graph.rows.map(step_along, rows, (ahead, gram, growth, products)):
            new[where] = found[0]
            turning += found[1]
            squares += found[2]
        if turning > 0:  # it goes back
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


def step_along(
    A_b: Matrix,
    ahead_b: Array,
    here_b: Array,
    numerator_b: Array,
    degrees_b: Array,
    ahead: Array,
    gram: Array,
    growth: Array | None,
    products: Products,
) -> tuple[Array, float, float]:
    """The step for some samples, how far it goes back on the one before, and the square of its length."""
    target = A_b @ ahead
    held = degrees_b[:, None]
    target += (held if growth is None else held + restored(growth, degrees_b)) * ahead_b
    target += numerator_b
    new = descended(ahead_b, target, gram, 2 * degrees_b, 1, products)
    step = new - here_b
    return new, float(np.vdot(ahead_b - new, step)), float(np.vdot(step, step))


def fitted_basis(H: Array, P: Array, G: Array, products: Products) -> Array:
    """H after rounds over its components, some features at a time."""
    columns = MemoryBlocks(P.T, TILE)
    new = np.empty_like(H)
    for where, rows in columns.map(descend_columns, (H.T,), (G, products)):
        new[:, where] = rows.T
    return new


def descend_columns(target_b: Array, H_b: Array, gram: Array, products: Products) -> Array:
    return descended(H_b, target_b, gram, None, ROUNDS, products)


def descend_rows(
    X_b: Matrix,
    W_b: Array,
    anchor_b: Array | None,
    bound_b: Array | None,
    weighted: Array,
    gram: Array,
    rounds: int,
    products: Products,
) -> Partial:
    """The step for a block: W'X and W'W of the new W, this, and with a graph N.

    ``weighted`` is (rho*H)', ``gram`` is (rho*H)H'.
    """
    numerator = products.narrow(X_b, weighted)
    if anchor_b is None:
        new = descended(W_b, numerator, gram, bound_b, rounds, products)
        return gather(X_b, new, products)._replace(rows=(new,))
    new = descended(W_b, numerator + anchor_b, gram, bound_b, rounds, products)
    return gather(X_b, new, products)._replace(rows=(new, numerator))


def rounds_for(gram: Array, bound: Array | None) -> int:
    """How many it takes: a round leaves of an error what components tell of each other beside what binds them."""
    if bound is None:
        return ROUNDS
    own = np.diag(gram)
    left = float(((gram.sum(axis=1) - own) / np.maximum(own + bound.mean(), np.finfo(gram.dtype).tiny)).max())
    return ROUNDS if left >= 1 else int(np.clip(np.ceil(np.log(NEAR) / np.log(max(left, NEAR))), 1, ROUNDS))


def descended(W: Array, target: Array, gram: Array, bound: Array | None, rounds: int, products: Products) -> Array:
    """Rounds over the columns r of W (m, k), towards

    min over W >= 0 of tr(W gram W') - 2 tr(W target') + sum_i bound_i ||w_i||^2.

    A column that as good as nothing depends on stays as it is.
    """
    kernels = products.module()
    if kernels is not None:  # many short calls of numpy from several threads would wait for each other
        compiled: Array = kernels.descended(W, target, gram, bound, rounds)
        return compiled
    new = np.empty_like(W)
    for rows in chunks(len(W), TILE):
        F = np.array(W[rows].T, order="C")
        descend(F, np.array(target[rows].T, order="C"), gram, None if bound is None else bound[rows], rounds)
        new[rows] = F.T
    return new


def descend(F: Array, target: Array, gram: Array, bound: Array | None, rounds: int) -> None:
    """The same for F = W' and target', in place: each component is then in one piece."""
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
