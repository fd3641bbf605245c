"""Coefficients of new samples on a basis that was learnt before."""

from __future__ import annotations

import numpy as np
from scipy.optimize import nnls

from mccgr_cli.blocks import Array, BlockSource, threads_for_blocks, times
from mccgr_cli.methods.divergence import fit_rows

# Rounds over the components, and the relative change at which they stop.
MOST_ROUNDS = 200
SMALLEST_CHANGE = 1e-9


@threads_for_blocks()
def transform(source: BlockSource, H: Array, rho: Array, method: str) -> Array:
    """W >= 0 that fits X ~ WH best for the loss that H was learnt with; neighbours play no part."""
    if method == "kl":
        W = np.empty((source.shape[0], len(H)), dtype=source.dtype)
        for where, W_b in source.map(fit_rows, shared=(H.astype(source.dtype),)):
            W[where] = W_b
        return W
    weighted = rho * H.astype(np.float64)
    return least_squares_rows(times(source, weighted.T), weighted @ H.T).astype(source.dtype)


def least_squares_rows(target: Array, gram: Array) -> Array:
    """argmin over W >= 0 of tr(W gram W')/2 - tr(W target').

    Rounds over the components, for all rows at once; rows that do not settle, as the basis is nearly dependent,
    are solved one by one.
    """
    W = np.zeros_like(target)
    used = np.flatnonzero(np.diag(gram) > 0)  # a component that is 0 everywhere explains nothing
    for _ in range(MOST_ROUNDS):
        moved = np.zeros(len(W))
        for r in used:
            new = np.maximum(W[:, r] + (target[:, r] - W @ gram[:, r]) / gram[r, r], 0)
            np.maximum(moved, np.abs(new - W[:, r]), out=moved)
            W[:, r] = new
        unsettled = np.flatnonzero(moved > SMALLEST_CHANGE * W.max(axis=1))
        if len(unsettled) == 0:
            return W
    values, vectors = np.linalg.eigh(gram)
    kept = values > np.finfo(float).eps * values[-1] * len(gram)
    root = np.sqrt(values[kept])[:, None] * vectors[:, kept].T  # root' root = gram
    for row in unsettled:
        W[row], _ = nnls(root, vectors[:, kept].T @ target[row] / np.sqrt(values[kept]))
    return W
