"""Two further ways to the least squares fit: projected gradients (``pg``) and GD-CLS (``gdcls``).

References
----------
C.-J. Lin: Projected gradient methods for nonnegative matrix factorization. Neural Computation 19(10), 2007.
F. Shahnaz, M. W. Berry, V. P. Pauca, R. J. Plemmons: Document clustering using nonnegative matrix
factorization. Information Processing & Management 42(2), 2006 (the paper's "GS").
"""

from __future__ import annotations

import numpy as np

from mccgr_cli.blocks import Array, Matrix, narrow_product, times
from mccgr_cli.methods.base import Problem, QuadraticUpdate, Terms, gather

# Lin's settings: how far the gradient must fall in a subproblem, the factor of the step search, the share of
# the predicted decrease that must be reached, and the limits on both loops.
GRADIENT_FALL = 1e-3
STEP_FACTOR = 0.1
SUFFICIENT = 0.01
MOST_STEPS = 1000
MOST_TRIALS = 20


class ConstrainedLeastSquaresUpdate(QuadraticUpdate):
    """H by the multiplicative step, then W <- max(0, XH' (HH' + lambda I)^-1).

    ``ridge`` is lambda relative to the mean of the diagonal of HH', so that it has no units. The step for W
    cuts negative coefficients off after solving, so the objective may rise now and then.
    """

    def __init__(self, problem: Problem, W: Array, H: Array) -> None:
        super().__init__(problem, W, H)
        self.ridge = problem.ridge

    def improve_coefficients(self, rho: Array) -> None:
        gram = self.H @ self.H.T
        level = gram.trace() / len(gram)
        gram[np.diag_indices_from(gram)] += self.ridge * level if level > 0 else 1.0
        solver = np.linalg.solve(gram, self.H).T  # (d, k)
        self.sweep(regress_rows, shared=(np.ascontiguousarray(solver, dtype=self.source.dtype),))


def regress_rows(X_b: Matrix, W_b: Array, solver: Array) -> tuple[Array, Array, Array]:
    new = narrow_product(X_b, solver)
    return gather(X_b, np.maximum(new, 0, out=new))


class ProjectedGradientUpdate(QuadraticUpdate):
    """min ||X - WH||^2 over H >= 0, then over W >= 0, each by projected gradients to a falling tolerance.

    Each subproblem lives on small matrices; X is passed over twice, for XH' and for W'X.
    """

    def start(self) -> Terms:
        terms = super().start()
        gradient_H = self.G @ self.H - self.P
        gradient_W = self.W @ (self.H @ self.H.T) - times(self.source, self.H.T)
        steepness = float(np.hypot(np.linalg.norm(gradient_H), np.linalg.norm(gradient_W)))
        self._tolerance_H = self._tolerance_W = GRADIENT_FALL * steepness
        return terms

    def improve_basis(self) -> None:
        basis, steps = project_to_minimum(self.P.T, self.G, self.H.T, self._tolerance_H)
        self.H = np.ascontiguousarray(basis.T)
        if steps == 0:
            self._tolerance_H *= STEP_FACTOR

    def improve_coefficients(self, rho: Array) -> None:
        new, steps = project_to_minimum(times(self.source, self.H.T), self.H @ self.H.T, self.W, self._tolerance_W)
        self.W = new.astype(self.source.dtype)
        if steps == 0:
            self._tolerance_W *= STEP_FACTOR
        self.sweep(gather)


def project_to_minimum(target: Array, gram: Array, start: Array, tolerance: float) -> tuple[Array, int]:
    """argmin over F >= 0 of tr(F gram F')/2 - tr(F target'), and the number of steps it took.

    The step length is carried from step to step, and searched up or down by a constant factor until the
    objective falls enough (Lin's algorithm 4).
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
                return accepted, length  # one too far: the last good one
            accepted = moved
            length /= STEP_FACTOR
    return accepted, length
