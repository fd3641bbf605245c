"""Rows of X: their normalization, some of them, and sources that change their rows when they are visited."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
from scipy import sparse

from mccgr_cli.blocks.in_memory import is_matrix
from mccgr_cli.blocks.protocol import Array, BlockSource, Matrix, Partial, sum_over_blocks
from mccgr_cli.settings import TFIDF

LOG_MEAN = 10.0  # mean of a row before the logarithm


def normalize(X: Matrix, how: str, idf: Array | None = None) -> Matrix:
    """Normalize the rows of X in place. Rows of zeros stay zero.

    ``l1``: unit sum, ``l2``: unit length, ``sqrt``: square root of every value, ``hellinger``: ``l1``, then ``sqrt``
    (which gives unit length), ``log``: mean LOG_MEAN, then log(1 + x), ``tfidf``: 1 + log(x) for counts x above 1, then
    every feature times its ``idf`` (d,), then ``l2``, ``none``: no change. ``idf`` is what :func:`idf_for` learnt from
    all rows; None: learn it from X.
    """
    if how == TFIDF:
        weights = idf_of(np.asarray(containing(X).sums[0]), X.shape[0]) if idf is None else idf
        counts: Any = X.data if sparse.issparse(X) else X
        repeated = counts > 1
        counts[repeated] = 1 + np.log(counts[repeated])
        scale_features(X, weights)
        return normalize(X, "l2")
    if how == "hellinger":
        return normalize(normalize(X, "l1"), "sqrt")
    if how == "log":
        normalize(X, "l1")
        logged: Any = X.data if sparse.issparse(X) else X
        logged *= LOG_MEAN * X.shape[1]
        np.log1p(logged, out=logged)
        return X
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
    small = np.flatnonzero(squares < limits.tiny / limits.eps)  # squares may have underflowed
    if len(small):
        sizes[small] = small_lengths(X[small])
    return sizes


def small_lengths(X: Matrix) -> Array:
    """The lengths of rows whose squares underflow: each row is measured in units of its largest value."""
    X = X.astype(np.float64)
    largest: Any = X.max(axis=1)
    units = np.maximum(largest.toarray().ravel() if sparse.issparse(X) else largest, np.finfo(X.dtype).tiny)
    scale_rows(X, 1 / units)
    squares: Any = (X * X).sum(axis=1)
    lengths: Array = units * np.sqrt(np.asarray(squares).ravel())
    return lengths


def idf_for(how: str, source: BlockSource) -> Array | None:
    """The inverse document frequencies (d,) that the normalization ``how`` needs, by one pass over X; None: none."""
    if how != TFIDF:
        return None
    (counts,) = sum_over_blocks(source, containing)
    return idf_of(counts, source.shape[0])


def containing(X_b: Matrix) -> Partial:
    """In how many rows of a block each feature is above 0."""
    if sparse.issparse(X_b):
        return Partial((np.bincount(X_b.indices[X_b.data > 0], minlength=X_b.shape[1]),))
    return Partial((np.count_nonzero(X_b, axis=0),))


def idf_of(counts: Array, rows: int) -> Array:
    """Inverse document frequencies: ln((1 + rows) / (1 + counts)) + 1, at least 1 (as scikit-learn smooths them)."""
    idf: Array = np.log((1.0 + rows) / (1.0 + counts)) + 1.0
    return idf


def scale_features(X: Matrix, factors: Array) -> None:
    if sparse.issparse(X):
        X.data *= factors.astype(X.dtype)[X.indices]
    else:
        X *= factors.astype(X.dtype)


def weigh_features(X: Matrix, weights: Array) -> Matrix:
    """A copy of X with features scaled by the roots of ``weights`` (d,), so that squares have these weights."""
    weighted = X * np.sqrt(weights)[None, :]
    return weighted.tocsr() if sparse.issparse(weighted) else weighted


class TransformedBlocks:
    """A source whose rows are changed by a function whenever they are visited.

    The function is defined at module level, keeps the shape, and returns a new matrix.
    """

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
    function: Callable[..., Partial], change: Callable[..., Matrix], arguments: tuple[Any, ...], X_b: Matrix, *rest: Any
) -> Partial:
    return function(change(X_b, *arguments), *rest)


def transformed(X: Matrix | BlockSource, function: Callable[..., Matrix], *arguments: Any) -> Matrix | BlockSource:
    """Apply a function to X: at once to a matrix, at every visit to a source."""
    return function(X, *arguments) if is_matrix(X) else TransformedBlocks(X, function, *arguments)


def scale_rows(X: Matrix, factors: Array) -> None:
    if sparse.issparse(X):
        X.data *= np.repeat(factors, np.diff(X.indptr)).astype(X.dtype)
    else:
        X *= factors[:, None].astype(X.dtype)


def take_rows(
    source: BlockSource, index: Array, change: Callable[..., Matrix] | None = None, *arguments: Any
) -> Matrix:
    """The rows of X with these numbers, which increase; changed by a function, if one is given.

    One pass over X, if it is not in memory or the rows are changed.
    """
    if source.whole is not None and change is None:
        return source.whole[index]
    chosen, found = np.zeros(source.shape[0], dtype=bool), np.empty(source.shape[0], dtype=object)
    chosen[index] = True
    sum_over_blocks(source, chosen_of_block, (chosen,), (change, *arguments), into=(found,))
    rows = [block for block in found if block is not None]
    return sparse.csr_array(sparse.vstack(rows)) if sparse.issparse(rows[0]) else np.vstack(rows)


def chosen_of_block(X_b: Matrix, chosen_b: Array, change: Callable[..., Matrix] | None, *arguments: Any) -> Partial:
    """The chosen rows of a block, as one object in the first place of the block."""
    rows = np.full(X_b.shape[0], None, dtype=object)
    if chosen_b.any():
        rows[0] = X_b[chosen_b] if change is None else change(X_b[chosen_b], *arguments)
    return Partial(rows=(rows,))
