"""Distances between samples, and the smallest of them.

Distances are first computed as matrix products, which is fast but has rounding errors with a known bound. Where the
bound leaves a doubt, they are computed as sums of squared differences.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import DTypeLike
from scipy import sparse

from mccgr_cli.blocks.in_memory import MemoryBlocks
from mccgr_cli.blocks.products import moments
from mccgr_cli.blocks.protocol import Array, Matrix, chunks
from mccgr_cli.blocks.rows import row_sizes

GAP_BYTES = 8 << 20  # of differences between samples that are computed together
SEARCH_BYTES = 64 << 20  # of distances that are computed together, in each thread
SUMMED = 256  # terms of a product that are summed at a time
LEAST_GROUP = 4  # smallest size of a group of columns in `smallest`
EXTRA = 5  # candidates in addition to the neighbours asked for, so that rounding rarely decides
TIE = 1e-9  # squared distances that differ by less than this fraction are equal


@dataclass(frozen=True)
class ProductDistances:
    """|x - y|^2 / 2 = |x|^2 / 2 + |y|^2 / 2 - xy, computed as matrix products.

    Dense samples are centred, scaled by a power of 2 so that no length is above 1, and stored as [x, h, 1] with
    h = |x|^2 / 2: the product of [-x, 1, h] with [y, h, 1] is half the squared distance.
    """

    samples: Matrix  # (n, d + 2), or X itself if it is sparse
    halves: Array  # (n,) h in double precision
    rounding: float  # bound on the error of a product, relative to h_x + h_y
    scale: float = 1.0
    means: Array | None = None  # (d,) of X, if it is dense
    features: Matrix = None  # X', if X is sparse

    def from_samples(self, index: Array) -> Array:
        """From the samples ``index`` to all samples; infinite to themselves."""
        halves = self.to_all(self.samples[index], self.halves[index])
        halves[np.arange(len(index)), index] = np.inf
        return halves

    def to_all(self, queries: Matrix, own: Array) -> Array:
        """From other samples, as returned by :meth:`prepared`, to all samples."""
        if self.features is None:
            return split_product(query_form(queries), self.samples)
        halves: Array = -(queries @ self.features).toarray()
        halves += own[:, None]
        halves += self.halves
        return halves

    def prepared(self, X: Matrix) -> tuple[Matrix, Array]:
        """Other samples in the form of these, and their h; h is infinite if it would overflow."""
        dtype = self.samples.dtype
        if self.means is None:
            samples = sparse.csr_array(X, dtype=dtype)
            return samples, row_sizes(samples, "l2") ** 2 / 2
        own = block_halves(X, self.means) * self.scale**2
        long = own > np.sqrt(float(np.finfo(dtype).max))
        samples = np.zeros((X.shape[0], self.samples.shape[1]), dtype)
        samples[~long, :-2] = block_centred(X[~long], self.means, self.scale, dtype)
        samples[~long, -2], samples[:, -1] = own[~long], 1
        own[long] = np.inf
        return samples, own

    def bound(self, own: Array, half: Array) -> Array:
        """Bound on the error of products of samples with h ``own`` and samples that are nearer than ``half``."""
        other = (np.sqrt(own) + np.sqrt(half)) ** 2  # the largest possible h of such a sample
        underflow = 8 * self.samples.shape[1] * float(np.finfo(self.samples.dtype).tiny)
        return np.asarray(self.rounding * (own + other) + underflow)

    def is_certain(self, own: Array, beyond: Array, farthest: Array) -> Array:
        """Whether no sample with a product of at least ``beyond`` can be nearer than ``farthest``."""
        error = self.bound(own, farthest)
        clear = (beyond > farthest + error) | (2 * error < TIE * farthest)
        return np.asarray(np.isinf(beyond) | (farthest == 0) | clear)


def rounding(dtype: str, terms: int, width: int) -> float:
    """A bound on the error of products of ``terms`` terms, relative to h_x + h_y.

    A sum of m products has an error of at most m u sum |products|, in any order, and here that sum is at most
    2 (h_x + h_y). Rounding x, y and h adds a few u, and so do, in double precision, the sum for h and the sums that
    the products are compared with.
    """
    u = float(np.finfo(dtype).eps) / 2
    return 2 * u * (terms + 8) + 8 * float(np.finfo(np.float64).eps) * (width + 8)


def query_form(samples: Array) -> Array:
    """[-x, 1, h] from [x, h, 1]."""
    queries = -samples
    queries[:, -2], queries[:, -1] = 1, samples[:, -2]
    return queries


def split_product(left: Array, right: Array) -> Array:
    """left right', computed as several shorter sums, which have smaller errors."""
    first, *others = chunks(left.shape[1], SUMMED)
    total: Array = left[:, first] @ right[:, first].T
    product = np.empty_like(total) if others else total
    for some in others:
        total += np.matmul(left[:, some], right[:, some].T, out=product)
    return total


def product_distances(X: Matrix, dtype: str, widest: int | None = None, threads: int | None = None) -> ProductDistances:
    """``widest``: the largest number of values of a sample, if a sparse X is compared with other samples."""
    if sparse.issparse(X):  # not centred, because then it would be dense
        X = sparse.csr_array(X, dtype=dtype)
        width = 2 * (widest or int(np.diff(X.indptr).max()))
        return ProductDistances(X, row_sizes(X, "l2") ** 2 / 2, rounding(dtype, width, width), features=X.T.tocsr())
    width = X.shape[1] + 2
    samples = np.empty((X.shape[0], width), dtype)
    means, halves, scale = centre(X, samples[:, :-2], threads)
    samples[:, -2], samples[:, -1] = halves, 1
    terms = min(width, SUMMED) + width // SUMMED
    return ProductDistances(samples, halves, rounding(dtype, terms, width), scale, means)


def centre(X: Array, into: Array, threads: int | None = None) -> tuple[Array, Array, float]:
    """Centre samples and scale them to lengths of at most 1. Returns the means, h of each sample, and the scale."""
    source = MemoryBlocks(X, threads=threads)
    means = moments(source).means
    halves = np.concatenate([found for _, found in source.map(block_halves, shared=(means,))])
    scale = float(2.0 ** -np.frexp(np.sqrt(2 * halves.max()))[1])
    for where, centred in source.map(block_centred, shared=(means, scale, into.dtype)):
        into[where] = centred
    return means, halves * scale**2, scale


def block_halves(X_b: Array, means: Array) -> Array:
    centred = X_b - means
    return np.asarray(np.einsum("ij,ij->i", centred, centred) / 2)


def block_centred(X_b: Array, means: Array, scale: float, dtype: DTypeLike) -> Array:
    return ((X_b - means) * scale).astype(dtype)


def half_squares(queries: Matrix, X: Matrix, columns: Array) -> Array:
    """|x - y|^2 / 2 in double precision, for each x of ``queries`` and the rows y of X that its ``columns`` name."""
    rows, count = columns.shape
    halves = np.empty(columns.shape)
    width = X.shape[1] if not sparse.issparse(X) else 4 * X.nnz / X.shape[0] + 1
    for some in chunks(rows, max(1, int(GAP_BYTES / (8 * count * width)))):
        if sparse.issparse(X):
            gap = X[columns[some].ravel()].astype(np.float64) - queries[np.repeat(np.arange(rows)[some], count)]
            halves[some] = gap.power(2).sum(axis=1).reshape(-1, count) / 2
        else:
            gap = np.subtract(X[columns[some]], queries[some, None], dtype=np.float64)
            halves[some] = np.einsum("ijk,ijk->ij", gap, gap) / 2
    return halves


def differences(queries: Matrix, X: Matrix) -> Array:
    """|x - y|^2 for every x of ``queries`` and every y of X."""
    from scipy.spatial.distance import cdist  # slow to import

    def dense(rows: Matrix) -> Matrix:
        return rows.toarray() if sparse.issparse(rows) else rows

    pieces = chunks(X.shape[0], max(1, SEARCH_BYTES // (8 * X.shape[1])))
    queries = dense(queries)
    return np.hstack([cdist(queries, dense(X[some]), "sqeuclidean") for some in pieces])


# The smallest of many distances


@dataclass(frozen=True)
class Group:
    """Consecutive rows of X, in memory."""

    rows: Matrix
    first: int  # number of the first row
    present: Array  # (r,) whether each can be a neighbour

    def part(self, where: slice) -> Group:
        return Group(self.rows[where], self.first + where.start, self.present[where])

    def exclude(self, values: Array, numbers: Array) -> Array:
        """Set ``values`` of the samples ``numbers`` to infinity for themselves and for rows that are not present."""
        own = numbers - self.first
        here = np.flatnonzero((own >= 0) & (own < self.rows.shape[0]))
        values[here, own[here]] = np.inf
        values[:, ~self.present] = np.inf
        return values


@dataclass(frozen=True)
class Candidates:
    """The columns of the smallest values of every row, these values, and the smallest value left out."""

    columns: Array  # (r, count)
    values: Array  # (r, count)
    beyond: Array  # (r,)

    def smallest(self, count: int) -> Candidates:
        """The smallest values, in any order."""
        if self.values.shape[1] <= count:
            return self
        order = np.argpartition(self.values, count, axis=1)[:, : count + 1]
        values = np.take_along_axis(self.values, order, 1)
        columns = np.take_along_axis(self.columns, order[:, :count], 1)
        return Candidates(columns, values[:, :count], np.minimum(self.beyond, values[:, count]))

    def first(self, count: int) -> Candidates:
        """The smallest values in ascending order; among equal values, the first column first."""
        order = np.lexsort((self.columns, self.values), axis=1)[:, :count]
        columns, values = (np.take_along_axis(array, order, 1) for array in (self.columns, self.values))
        return Candidates(columns, values, self.beyond)


def stack_rows(several: list[Candidates]) -> Candidates:
    """The candidates of different rows as one."""
    return Candidates(*(np.concatenate([getattr(one, name) for one in several]) for name in Candidates.__annotations__))


def merge_columns(several: list[Candidates]) -> Candidates:
    """Several candidates of the same rows as one."""
    columns, values = (np.hstack([getattr(one, name) for one in several]) for name in ("columns", "values"))
    return Candidates(columns, values, np.min([one.beyond for one in several], axis=0))


def smallest(values: Array, count: int, start: int = 0) -> Candidates:
    """The ``count`` smallest values of every row. Columns are numbered from ``start``.

    Columns are put into groups, and only the ``count`` groups with the smallest minima are searched. Computing minima
    is much faster than sorting.
    """
    rows, width = values.shape
    columns = np.broadcast_to(np.arange(width), values.shape)
    beyond = np.full(rows, np.inf)
    size = int(np.sqrt(width / count))  # so that as many values are searched as there are groups
    if size >= LEAST_GROUP:
        groups = width // size
        whole = groups * size
        minima = values[:, :whole].reshape(rows, size, groups).min(axis=1)
        opened = np.argpartition(minima, count, axis=1)[:, : count + 1]
        beyond = minima[np.arange(rows), opened[:, count]]
        columns = (opened[:, :count, None] + groups * np.arange(size)).reshape(rows, -1)
        columns = np.hstack([columns, np.broadcast_to(np.arange(whole, width), (rows, width - whole))])
        values = np.take_along_axis(values, columns, 1)
    return Candidates(columns + start, values, beyond).smallest(count)
