"""min ||X - WH||^2 by projected gradients (``pg``) and by GD-CLS (``gdcls``), and W of new samples.

References
----------
C.-J. Lin: Projected gradient methods for nonnegative matrix factorization. Neural Computation 19(10), 2007.
F. Shahnaz, M. W. Berry, V. P. Pauca, R. J. Plemmons: Document clustering using nonnegative matrix
factorization. Information Processing & Management 42(2), 2006 (the paper's "GS").
"""

from __future__ import annotations

import numpy as np

from mccgr_cli.blocks.products import Products, times
from mccgr_cli.blocks.protocol import Array, BlockSource, Matrix, Partial
from mccgr_cli.core.methods.base import AlternatingUpdate, Problem, Terms, cross_products
from mccgr_cli.errors import ParameterError

# pg, with Lin's settings:
GRADIENT_FALL = 1e-3  # factor by which the gradient must fall in a subproblem
STEP_FACTOR = 0.1  # of the search for a step length
SUFFICIENT = 0.01  # fraction of the predicted decrease that must be reached
MOST_STEPS = 1000
MOST_TRIALS = 20
ORDINARY_BITS = 16  # values of X up to 2^16, and down to 2^-16, need no unit of their own
# gdcls:
MOST_GROWN_BITS = 30  # growth of the basis, as a power of 2, after which it is scaled back
LEAST_EXPLAINED = 1e-6  # fraction of X that must be explained if the ridge is large
# New samples:
MOST_ROUNDS = 200  # over the components
SMALLEST_CHANGE = 1e-9  # relative change at which rounds stop


class ConstrainedLeastSquaresUpdate(AlternatingUpdate):
    """H <- H * (W'X) / (W'WH),  W <- max(0, XH' (HH' + lambda I)^-1).

    ``ridge`` is lambda relative to the mean diagonal of HH', so that it has no unit. The step for W sets negative
    coefficients to 0 after solving, so the objective may rise. It also shrinks W, and the next step for H grows H. A
    basis that has grown too far is scaled back by a power of 2; the next W is larger by the same factor.
    """

    kept = (*AlternatingUpdate.kept, "bits")

    def __init__(self, problem: Problem, W: Array, H: Array) -> None:
        super().__init__(problem, W, H)
        self.ridge = problem.ridge
        self.bits = largest_exponent(self.H)

    def improve(self, rho: Array, before: float) -> None:
        super().improve(rho, before)
        if self.errors.sum() >= (1 - LEAST_EXPLAINED) * self.squares.sum() and self.ridge > 1:
            raise ParameterError("--ridge", f"with {self.ridge:g} the basis explains nothing of X", "lower it")

    def improve_basis(self) -> None:
        super().improve_basis()
        grown = largest_exponent(self.H) - self.bits
        if abs(grown) > MOST_GROWN_BITS:
            self.H *= 2.0**-grown

    def improve_coefficients(self, rho: Array) -> None:
        gram = self.H @ self.H.T
        level = gram.trace() / len(gram)
        ridge = max(
            self.ridge, len(gram) * np.finfo(float).eps
        )  # without it a linearly dependent basis has no solution
        gram[np.diag_indices_from(gram)] += ridge * level if level > 0 else 1.0
        solver = np.linalg.solve(gram, self.H).T  # (d, k)
        shared = (np.ascontiguousarray(solver, dtype=self.source.dtype), self.products)
        self.pass_over_X(regress_rows, (), shared, into=(self.W,))


def largest_exponent(values: Array) -> int:
    """The smallest b with 2^b above all values."""
    return int(np.frexp(values.max())[1])


def regress_rows(X_b: Matrix, solver: Array, products: Products) -> Partial:
    new = products.narrow(X_b, solver)
    np.maximum(new, 0, out=new)
    return cross_products(X_b, new, products, new)


class ProjectedGradientUpdate(AlternatingUpdate):
    """min ||X - WH||^2 over H >= 0, then over W >= 0, each by projected gradients with a decreasing tolerance.

    Each subproblem uses small matrices. An iteration passes over X twice, for XH' and for W'X. An X with very large or
    very small values gets a unit, a power of 2: the gradient for W scales with X squared, that for H with X, so with
    one tolerance for both one of the factors would not move.
    """

    kept = (*AlternatingUpdate.kept, "tolerance_H", "tolerance_W")
    tolerance_H = tolerance_W = 0.0

    def __init__(self, problem: Problem, W: Array, H: Array) -> None:
        super().__init__(problem, W, H)
        bits = largest_exponent(np.sqrt(problem.squares.sum() / np.prod(self.source.shape, dtype=float)))
        self.unit = 2.0**bits if abs(bits) > ORDINARY_BITS else 1.0

    def start(self) -> Terms:
        terms = super().start()
        gradient_H = (self.G @ self.H - self.P) / self.unit
        target, gram = self._target_and_gram()
        gradient_W = self.W @ gram - target
        steepness = float(np.hypot(np.linalg.norm(gradient_H), np.linalg.norm(gradient_W)))
        self.tolerance_H = self.tolerance_W = GRADIENT_FALL * steepness
        return terms

    def improve_basis(self) -> None:
        target, start = self.P.T / self.unit, self.H.T / self.unit
        basis, steps = project_to_minimum(target, self.G, start, self.tolerance_H)
        self.H = np.ascontiguousarray(basis.T * self.unit)
        if steps == 0:
            self.tolerance_H *= STEP_FACTOR

    def improve_coefficients(self, rho: Array) -> None:
        new, steps = project_to_minimum(*self._target_and_gram(), self.W, self.tolerance_W)
        self.W = new.astype(self.source.dtype)
        if steps == 0:
            self.tolerance_W *= STEP_FACTOR
        self.pass_over_X(cross_products, (self.W,), (self.products,))

    def _target_and_gram(self) -> tuple[Array, Array]:
        """XH' and HH' in the unit of X."""
        basis = self.H / self.unit
        return times(self.source, basis.T) / self.unit, basis @ basis.T


def project_to_minimum(target: Array, gram: Array, start: Array, tolerance: float) -> tuple[Array, int]:
    """argmin over F >= 0 of tr(F gram F')/2 - tr(F target'), and the number of steps.

    Each step starts with the length of the last one, which grows or shrinks by a constant factor until the objective
    falls enough (Lin's algorithm 4).
    """
    F = np.asarray(start, dtype=np.float64)
    length = 1.0
    for steps in range(MOST_STEPS):
        gradient = F @ gram - target
        if np.linalg.norm(gradient[(gradient < 0) | (F > 0)]) <= tolerance:
            return F, steps
        F, length = _search_step(F, gradient, gram, length)
    return F, MOST_STEPS


def _search_step(F: Array, gradient: Array, gram: Array, length: float) -> tuple[Array, float]:
    accepted, shrinking = F, False
    for trial in range(MOST_TRIALS):
        moved = np.maximum(F - length * gradient, 0)
        step = moved - F
        slope = float(np.vdot(gradient, step))
        falls = (1 - SUFFICIENT) * slope + 0.5 * float(np.vdot(step @ gram, step)) < 0
        if trial == 0:
            shrinking = not falls
        if shrinking:
            if falls:
                return moved, length
            length *= STEP_FACTOR
        else:
            if not falls or np.array_equal(accepted, moved):
                return accepted, length  # the last step was too long, or made no difference
            accepted = moved
            length /= STEP_FACTOR
    return accepted, length


def least_squares_coefficients(source: BlockSource, H: Array, rho: Array) -> Array:
    """The W >= 0 that minimizes sum_j rho_j e_j for a fixed basis H."""
    weighted = rho * H.astype(np.float64)
    return least_squares_rows(times(source, weighted.T), weighted @ H.T).astype(source.dtype)


def least_squares_rows(target: Array, gram: Array) -> Array:
    """argmin over W >= 0 of tr(W gram W')/2 - tr(W target').

    Does rounds over the components for all rows at once. Rows that do not settle, because the basis is nearly linearly
    dependent, are solved one by one.
    """
    W = np.zeros_like(target)
    used = np.flatnonzero(np.diag(gram) > 0)  # without components that are 0 everywhere
    for _ in range(MOST_ROUNDS):
        moved = np.zeros(len(W))
        for r in used:
            new = np.maximum(W[:, r] + (target[:, r] - W @ gram[:, r]) / gram[r, r], 0)
            np.maximum(moved, np.abs(new - W[:, r]), out=moved)
            W[:, r] = new
        unsettled = np.flatnonzero(moved > SMALLEST_CHANGE * W.max(axis=1))
        if len(unsettled) == 0:
            return W
    from scipy.optimize import nnls  # slow to import

    values, vectors = np.linalg.eigh(gram)
    significant = values > np.finfo(float).eps * values[-1] * len(gram)
    root = np.sqrt(values[significant])[:, None] * vectors[:, significant].T  # root' root = gram
    for row in unsettled:
        W[row], _ = nnls(root, vectors[:, significant].T @ target[row] / np.sqrt(values[significant]))
    return W
