"""What may be done to the rows of X before it is factorized."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
from scipy import sparse

from mccgr_cli.blocks.in_memory import is_matrix
from mccgr_cli.blocks.protocol import Array, BlockSource, Matrix, Partial


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


def unit_rows(X: Matrix) -> Matrix:
    """A copy of X with rows of unit length."""
    return normalize(X.copy(), "l2")


def row_sizes(X: Matrix, how: str) -> Array:
    """The sum (``l1``) or the length (``l2``) of every row."""
    if how == "l1":
        return np.asarray(X.sum(axis=1, dtype=np.float64)).ravel()
    squares: Array
    if sparse.issparse(X):
        squares = np.asarray(X.power(2).sum(axis=1, dtype=np.float64)).ravel()
    else:
        squares = np.einsum("ij,ij->i", X, X, dtype=np.float64)
    sizes: Array = np.sqrt(squares)
    limits = np.finfo(X.dtype)
    small = np.flatnonzero(squares < limits.tiny / limits.eps)  # some squares may have been too small for a number
    if len(small):
        sizes[small] = small_lengths(X[small])
    return sizes


def small_lengths(X: Matrix) -> Array:
    """The lengths of rows, each measured in units of its largest value."""
    X = X.astype(np.float64)
    largest: Any = X.max(axis=1)
    units = np.maximum(largest.toarray().ravel() if sparse.issparse(X) else largest, np.finfo(X.dtype).tiny)
    scale_rows(X, 1 / units)
    squares: Any = (X * X).sum(axis=1)
    lengths: Array = units * np.sqrt(np.asarray(squares).ravel())
    return lengths


def weigh_features(X: Matrix, weights: Array) -> Matrix:
    """A copy of X in which the squares of every feature count by its weight, (d,)."""
    weighted = X * np.sqrt(weights)[None, :]
    return weighted.tocsr() if sparse.issparse(weighted) else weighted


class Transformed:
    """A source whose rows something is done to whenever they are visited: a function at module level that keeps their
    shape and leaves them as they are for others."""

    def __init__(self, source: BlockSource, function: Callable[..., Matrix], *arguments: Any) -> None:
        self._source, self._function, self._arguments = source, function, arguments
        self.shape: tuple[int, int] = source.shape
        self.dtype: np.dtype[Any] = self.take(slice(0, 1)).dtype
        self.whole: Matrix | None = None

    def map(
        self, function: Callable[..., Partial], rows: Sequence[Array | None] = (), shared: Sequence[Any] = ()
    ) -> Iterator[tuple[slice, Partial]]:
        return self._source.map(partial(call_on, function, self._function, self._arguments), rows, shared)

    def take(self, where: slice) -> Matrix:
        return self._function(self._source.take(where), *self._arguments)


def call_on(
    function: Callable[..., Partial],
    change: Callable[..., Matrix],
    given: tuple[Any, ...],
    X_b: Matrix,
    *others: Any,
) -> Partial:
    return function(change(X_b, *given), *others)


def transformed(X: Matrix | BlockSource, function: Callable[..., Matrix], *arguments: Any) -> Matrix | BlockSource:
    """What the function makes of a matrix at once, and of a source when it is visited."""
    return function(X, *arguments) if is_matrix(X) else Transformed(X, function, *arguments)


def scale_rows(X: Matrix, factors: Array) -> None:
    if sparse.issparse(X):
        X.data *= np.repeat(factors, np.diff(X.indptr)).astype(X.dtype)
    else:
        X *= factors[:, None].astype(X.dtype)
