"""What may be done to the rows of X before it is factorized."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from mccgr_cli.blocks import Array, Matrix


def normalize(X: Matrix, how: str) -> Matrix:
    """Rows to unit sum (``l1``) or length (``l2``), the square root of every value (``sqrt``), or both (``hellinger``).

    X is changed in place. A row of zeros stays one. ``hellinger`` is the square root of unit sums, of unit length then.
    """
    if how == "hellinger":
        return normalize(normalize(X, "l1"), "sqrt")
    if how == "sqrt":
        values: Any = X.data if sparse.issparse(X) else X
        np.sqrt(values, out=values)
    elif how in ("l1", "l2"):
        scale_rows(X, 1 / np.maximum(row_sizes(X, how), np.finfo(X.dtype).tiny))
    return X


def row_sizes(X: Matrix, how: str) -> Array:
    """The sum (``l1``) or the length (``l2``) of every row."""
    if how == "l1":
        return np.asarray(X.sum(axis=1, dtype=np.float64)).ravel()
    squares: Array
    if sparse.issparse(X):
        squares = np.asarray(X.power(2).sum(axis=1, dtype=np.float64)).ravel()
    else:
        squares = np.einsum("ij,ij->i", X, X, dtype=np.float64)
    return np.sqrt(squares)


def weigh_features(X: Matrix, weights: Array) -> Matrix:
    """A copy of X in which the squares of every feature count by its weight, (d,)."""
    weighted = X * np.sqrt(weights)[None, :]
    return weighted.tocsr() if sparse.issparse(weighted) else weighted


def scale_rows(X: Matrix, factors: Array) -> None:
    if sparse.issparse(X):
        X.data *= np.repeat(factors, np.diff(X.indptr)).astype(X.dtype)
    else:
        X *= factors[:, None].astype(X.dtype)
