"""Multiplicative updates for the Kullback-Leibler divergence (``kl``).

Reference
---------
D. D. Lee, H. S. Seung: Algorithms for non-negative matrix factorization. NIPS 13, 2001.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from mccgr_cli.blocks.protocol import Array, BlockSource, Matrix, Partial, chunks, sweep
from mccgr_cli.core.methods.base import Terms, Update, quotient, relative_fall

# Non-zeros of a sparse block whose (WH)_ij are worked out together.
NONZERO_BLOCK = 1 << 16

# Of the steps for new samples: how many, and the relative change at which they stop.
MOST_ROUNDS = 500
SMALLEST_CHANGE = 1e-6


class DivergenceUpdate(Update):
    """D(X, WH) = sum_ij x_ij ln(x_ij / (WH)_ij) - x_ij + (WH)_ij.

    H <- H * (W'R) / (column sums of W),  W <- W * (RH') / (row sums of H),  R = X / (WH) taken anew for each.
    A pass over X does the step for W and, with the new W, leaves W'R behind for the next step for H.
    """

    kept = (*Update.kept, "pulled", "divergence")
    divergence = 0.0

    def start(self) -> Terms:
        self._sweep(update=False)
        return Terms(self.divergence, 0.0, float("nan"), 0.0)

    def step(self) -> Terms:
        before = self.divergence
        self.H *= quotient(self.pulled, self.W.sum(axis=0, dtype=np.float64)[:, None])
        self._sweep(update=True)
        return Terms(self.divergence, 0.0, float("nan"), relative_fall(before, self.divergence))

    def comparable_objective(self) -> float:
        return self.divergence

    def _sweep(self, update: bool) -> None:
        basis = self.H.astype(self.source.dtype)
        self.pulled, divergence = sweep(self.source, pull_rows, (self.W,), (basis, update), into=(self.W,))
        self.divergence = float(divergence)


def pull_rows(X_b: Matrix, W_b: Array, basis: Array, update: bool) -> Partial:
    """The step for a block of W (if ``update``), then its share of W'(X / WH) and of the divergence."""
    if update:
        step = ratio(X_b, fitted(X_b, W_b, basis)) @ basis.T
        W_b = W_b * quotient(step, basis.sum(axis=1))
    fit = fitted(X_b, W_b, basis)
    return Partial((W_b.T @ ratio(X_b, fit), divergence(X_b, fit, W_b, basis)), (W_b,))


def fitted(X_b: Matrix, W_b: Array, basis: Array) -> Array:
    """(WH)_ij, kept off zero: the whole block, or for a sparse one just where X has values."""
    if sparse.issparse(X_b):
        rows = np.repeat(np.arange(X_b.shape[0]), np.diff(X_b.indptr))
        fit = np.empty(X_b.nnz, dtype=X_b.dtype)
        columns = np.ascontiguousarray(basis.T)
        for part in chunks(X_b.nnz, NONZERO_BLOCK):
            np.einsum("ek,ek->e", W_b[rows[part]], columns[X_b.indices[part]], out=fit[part])
    else:
        fit = W_b @ basis
    # floor: x / 0; its square root leaves room for the products that follow
    np.maximum(fit, np.sqrt(np.finfo(fit.dtype).tiny), out=fit)
    return fit


def ratio(X_b: Matrix, fit: Array) -> Matrix:
    if sparse.issparse(X_b):
        return sparse.csr_array((X_b.data / fit, X_b.indices, X_b.indptr), shape=X_b.shape)
    quotients: Array = X_b / fit
    return quotients


def divergence(X_b: Matrix, fit: Array, W_b: Array, basis: Array) -> float:
    from scipy.special import kl_div  # slow to import

    values: Any = X_b.data if sparse.issparse(X_b) else X_b
    total = float(kl_div(values, fit).sum(dtype=np.float64))
    if total == -np.inf:  # ln(x / WH) of the smallest x there are: as good as 0, and what counts there is WH
        total = float(kl_div(np.where(values < np.finfo(fit.dtype).tiny * fit, 0, values), fit).sum(dtype=np.float64))
    if sparse.issparse(X_b):  # where x is 0 its term is (WH)_ij alone
        everywhere = W_b.sum(axis=0, dtype=np.float64) @ basis.sum(axis=1, dtype=np.float64)
        total += max(0.0, float(everywhere - fit.sum(dtype=np.float64)))
    return max(0.0, total)  # rounding may take it below


def divergence_coefficients(source: BlockSource, H: Array, rho: Array) -> Array:
    """The W that fits X ~ WH best for a basis that stays as it is; every rho is 1."""
    W = np.empty((source.shape[0], len(H)), dtype=source.dtype)
    sweep(source, fit_rows, shared=(H.astype(source.dtype),), into=(W,))
    return W


def fit_rows(X_b: Matrix, basis: Array) -> Partial:
    """The coefficients of a block for a basis that stays as it is."""
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
