"""Distances between samples, fast and rounded or slow and sure, and the least of them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import sparse

from mccgr_cli.blocks import Array, Matrix, MemoryBlocks, chunks, moments
from mccgr_cli.normalize import row_sizes

GAP_BYTES = 8 << 20  # of differences between samples at a time
SUMMED = 256  # terms of a product at a time
LEAST_GROUP = 4  # distances, of which only the least is looked at first


@dataclass(frozen=True)
class ProductDistances:
    """Half the squared distances of samples, as products: |x|^2 / 2 + |y|^2 / 2 - xy.

    Dense samples are taken about their mean, scaled by a power of 2 so that no length is above 1, and kept as
    [x, h, 1] with h = |x|^2 / 2: the product of [-x, 1, h] with [y, h, 1] is the whole of it.
    """

    samples: Matrix  # (n, d + 2), or X itself if it is sparse
    halves: Array  # (n,) h in double precision
    rounding: float  # how far a product may be off, of h_x + h_y
    scale: float = 1.0
    features: Matrix = None  # X', if X is sparse

    def of(self, index: Array) -> Array:
        """From the samples ``index`` to all, and from none to itself."""
        if self.features is None:
            halves = product(mirrored(self.samples[index]), self.samples)
        else:
            halves = -(self.samples[index] @ self.features).toarray()
            halves += self.halves[index, None]
            halves += self.halves
        halves[np.arange(len(index)), index] = np.inf
        return halves

    def error(self, index: Array, half: Array) -> Array:
        """How far off the products of the samples ``index`` may be with any other that is nearer than ``half``."""
        own = self.halves[index]
        other = (np.sqrt(own) + np.sqrt(half)) ** 2  # the largest h so near
        lost = 8 * self.samples.shape[1] * float(np.finfo(self.samples.dtype).tiny)  # what is too small for a number
        bound: Array = self.rounding * (own + other) + lost
        return bound


def rounding(dtype: str, terms: int, width: int) -> float:
    """A bound on the error of products, of h_x + h_y, if each sums so many terms.

    A sum of m products is off by at most m u sum |products|, in whatever order it is taken, and here the last sum is
    at most 2 (h_x + h_y). To round x, y and h to begin with adds a few u; so does, in double precision, the sum that
    is h, and those that the products are compared with.
    """
    u = float(np.finfo(dtype).eps) / 2
    return 2 * u * (terms + 8) + 8 * float(np.finfo(np.float64).eps) * (width + 8)


def mirrored(samples: Array) -> Array:
    """[-x, 1, h] of [x, h, 1]."""
    turned = -samples
    turned[:, -2], turned[:, -1] = 1, samples[:, -2]
    return turned


def product(left: Array, right: Array) -> Array:
    """left right', summed by parts: each is a shorter sum, and so off by less."""
    first, *others = chunks(left.shape[1], SUMMED)
    total: Array = left[:, first] @ right[:, first].T
    part = np.empty_like(total) if others else total
    for some in others:
        total += np.matmul(left[:, some], right[:, some].T, out=part)
    return total


def product_distances(X: Matrix, dtype: str) -> ProductDistances:
    if sparse.issparse(X):  # about no mean, with which it would be dense
        X = sparse.csr_array(X, dtype=dtype)
        width = 2 * int(np.diff(X.indptr).max())
        return ProductDistances(X, row_sizes(X, "l2") ** 2 / 2, rounding(dtype, width, width), features=X.T.tocsr())
    source = MemoryBlocks(X)
    means = moments(source).means
    halves = np.concatenate([found for _, found in source.map(block_halves, shared=(means,))])
    scale = float(2.0 ** -np.frexp(np.sqrt(2 * halves.max()))[1])
    halves *= scale**2
    width = X.shape[1] + 2
    samples = np.empty((X.shape[0], width), dtype)
    for where, centred in source.map(block_centred, shared=(means, scale, dtype)):
        samples[where, :-2] = centred
    samples[:, -2], samples[:, -1] = halves, 1
    terms = min(width, SUMMED) + width // SUMMED
    return ProductDistances(samples, halves, rounding(dtype, terms, width), scale)


def block_halves(X_b: Array, means: Array) -> Array:
    centred = X_b - means
    halves: Array = np.einsum("ij,ij->i", centred, centred) / 2
    return halves


def block_centred(X_b: Array, means: Array, scale: float, dtype: str) -> Array:
    return ((X_b - means) * scale).astype(dtype)


def half_squares(X: Matrix, index: Array, columns: Array) -> Array:
    """|x - y|^2 / 2 of each sample ``index`` and its ``columns``, by differences in double precision."""
    halves = np.empty(columns.shape)
    width = X.shape[1] if not sparse.issparse(X) else 4 * X.nnz / X.shape[0] + 1
    for part in chunks(len(index), max(1, int(GAP_BYTES / (8 * columns.shape[1] * width)))):
        if sparse.issparse(X):
            gap = X[columns[part].ravel()].astype(np.float64) - X[np.repeat(index[part], columns.shape[1])]
            halves[part] = gap.power(2).sum(axis=1).reshape(-1, columns.shape[1]) / 2
        else:
            gap = np.subtract(X[columns[part]], X[index[part], None], dtype=np.float64)
            halves[part] = np.einsum("ijk,ijk->ij", gap, gap) / 2
    return halves


# The least of many distances


@dataclass(frozen=True)
class Candidates:
    """Of every row the columns of its least values, these values, and the least of those left out."""

    columns: Array  # (r, count)
    values: Array  # (r, count)
    beyond: Array  # (r,)

    def least(self, count: int) -> Candidates:
        if self.values.shape[1] <= count:
            return self
        order = np.argpartition(self.values, count, axis=1)[:, : count + 1]
        values = np.take_along_axis(self.values, order, 1)
        columns = np.take_along_axis(self.columns, order[:, :count], 1)
        return Candidates(columns, values[:, :count], np.minimum(self.beyond, values[:, count]))

    def first(self, count: int) -> Array:
        """The columns of the least values in their order; of equal values, the first column first."""
        order = np.lexsort((self.columns, self.values), axis=1)[:, :count]
        return np.take_along_axis(self.columns, order, 1)


def join(several: list[Candidates], count: int) -> Candidates:
    columns, values = (np.hstack([getattr(one, name) for one in several]) for name in ("columns", "values"))
    return Candidates(columns, values, np.min([one.beyond for one in several], axis=0)).least(count)


def least(values: Array, count: int, start: int = 0) -> Candidates:
    """The ``count`` least values of every row. Columns count from ``start``.

    They are sought in groups of columns, as many as values are sought: those with the least minima. Minima of whole
    lines are taken much faster than a line is sorted.
    """
    rows, width = values.shape
    columns = np.broadcast_to(np.arange(width), values.shape)
    beyond = np.full(rows, np.inf)
    size = int(np.sqrt(width / count))  # as many in the groups that are opened as there are groups
    if size >= LEAST_GROUP:
        groups = width // size
        whole = groups * size
        minima = values[:, :whole].reshape(rows, size, groups).min(axis=1)
        opened = np.argpartition(minima, count, axis=1)[:, : count + 1]
        beyond = minima[np.arange(rows), opened[:, count]]
        columns = (opened[:, :count, None] + groups * np.arange(size)).reshape(rows, -1)
        columns = np.hstack([columns, np.broadcast_to(np.arange(whole, width), (rows, width - whole))])
        values = np.take_along_axis(values, columns, 1)
    return Candidates(columns + start, values, beyond).least(count)
