"""Multiplicative updates for the Kullback-Leibler divergence (``kl``).

Reference
---------
D. D. Lee, H. S. Seung: Algorithms for non-negative matrix factorization. NIPS 13, 2001.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from mccgr_cli.blocks.protocol import Array, BlockSource, Matrix, Partial, chunks, sum_over_blocks
from mccgr_cli.core.methods.base import Terms, Update, quotient, relative_fall

NONZERO_BLOCK = 1 << 16  # values of a sparse block that are worked on together
MOST_ROUNDS = 500  # of the steps for new samples
SMALLEST_CHANGE = 1e-6  # relative change at which these steps stop


class DivergenceUpdate(Update):
    """D(X, WH) = sum_ij x_ij ln(x_ij / (WH)_ij) - x_ij + (WH)_ij.

    H <- H * (W'R) / (column sums of W),  W <- W * (RH') / (row sums of H),  R = X / (WH), computed for each step.
    A pass over X does the step for W, and computes W'R of the new W for the next step for H.
    """

    kept = (*Update.kept, "pulled", "divergence")  # pulled: W'R
    divergence = 0.0

    def start(self) -> Terms:
        self._pass_over_X(update=False)
        return Terms(self.divergence, 0.0, float("nan"), 0.0)

    def step(self) -> Terms:
        before = self.divergence
        self.H *= quotient(self.pulled, self.W.sum(axis=0, dtype=np.float64)[:, None])
        self._pass_over_X(update=True)
        return Terms(self.divergence, 0.0, float("nan"), relative_fall(before, self.divergence))

    def comparable_objective(self) -> float:
        return self.divergence

    def _pass_over_X(self, update: bool) -> None:
        basis = self.H.astype(self.source.dtype)
        self.pulled, divergence = sum_over_blocks(
            self.source, divergence_step, (self.W,), (basis, update), into=(self.W,)
        )
        self.divergence = float(divergence)


def divergence_step(X_b: Matrix, W_b: Array, basis: Array, update: bool) -> Partial:
    """The step for a block of W (if ``update``), then its part of W'(X / WH) and of the divergence."""
    if update:
        step = ratio(X_b, fitted(X_b, W_b, basis)) @ basis.T
        W_b = W_b * quotient(step, basis.sum(axis=1))
    fit = fitted(X_b, W_b, basis)
    return Partial((W_b.T @ ratio(X_b, fit), divergence(X_b, fit, W_b, basis)), (W_b,))


def fitted(X_b: Matrix, W_b: Array, basis: Array) -> Array:
    """(WH)_ij of the block, slightly above 0; for a sparse block only where X has values."""
    if sparse.issparse(X_b):
        rows = np.repeat(np.arange(X_b.shape[0]), np.diff(X_b.indptr))
        fit = np.empty(X_b.nnz, dtype=X_b.dtype)
        columns = np.ascontiguousarray(basis.T)
        for some in chunks(X_b.nnz, NONZERO_BLOCK):
            np.einsum("ek,ek->e", W_b[rows[some]], columns[X_b.indices[some]], out=fit[some])
    else:
        fit = W_b @ basis
    # So that x / (WH) is finite; the square root of the smallest number, so that products do not overflow either.
    np.maximum(fit, np.sqrt(np.finfo(fit.dtype).tiny), out=fit)
    return fit


def ratio(X_b: Matrix, fit: Array) -> Matrix:
    if sparse.issparse(X_b):
        return sparse.csr_array((X_b.data / fit, X_b.indices, X_b.indptr), shape=X_b.shape)
    return X_b / fit


def divergence(X_b: Matrix, fit: Array, W_b: Array, basis: Array) -> float:
    from scipy.special import kl_div  # slow to import

    values: Any = X_b.data if sparse.issparse(X_b) else X_b
    total = float(kl_div(values, fit).sum(dtype=np.float64))
    if total == -np.inf:  # ln(x / WH) of the smallest possible x: count them as 0
        total = float(kl_div(np.where(values < np.finfo(fit.dtype).tiny * fit, 0, values), fit).sum(dtype=np.float64))
    if sparse.issparse(X_b):  # a term with x = 0 is (WH)_ij
        everywhere = W_b.sum(axis=0, dtype=np.float64) @ basis.sum(axis=1, dtype=np.float64)
        total += max(0.0, float(everywhere - fit.sum(dtype=np.float64)))
    return max(0.0, total)  # rounding can make it negative


def divergence_coefficients(source: BlockSource, H: Array, rho: Array) -> Array:
    """The W that minimizes D(X, WH) for a fixed basis H; ``rho`` is not used."""
    W = np.empty((source.shape[0], len(H)), dtype=source.dtype)
    sum_over_blocks(source, fit_rows, shared=(H.astype(source.dtype),), into=(W,))
    return W


def fit_rows(X_b: Matrix, basis: Array) -> Partial:
    """The coefficients of a block for a fixed basis."""
    sums = basis.sum(axis=1)
    level = np.asarray(X_b.sum(axis=1)).reshape(-1, 1) / max(float(sums.sum()), np.finfo(basis.dtype).tiny)
    W_b = np.repeat(level, len(basis), axis=1).astype(X_b.dtype)
    for _ in range(MOST_ROUNDS):
        new = W_b * quotient(ratio(X_b, fitted(X_b, W_b, basis)) @ basis.T, sums.copy())
        moved = np.abs(new - W_b).max(axis=1)
        W_b = new
        if (moved <= SMALLEST_CHANGE * W_b.max(axis=1)).all():
            break
    return Partial(rows=(W_b,))
