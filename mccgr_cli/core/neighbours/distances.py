"""Distances between samples, fast and rounded or slow and sure, and the least of them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import DTypeLike
from scipy import sparse

from mccgr_cli.blocks.in_memory import MemoryBlocks
from mccgr_cli.blocks.products import moments
from mccgr_cli.blocks.protocol import Array, Matrix, chunks
from mccgr_cli.blocks.rows import row_sizes

GAP_BYTES = 8 << 20  # of differences between samples at a time
SUMMED = 256  # terms of a product at a time
LEAST_GROUP = 4  # distances, of which only the least is looked at first
TIE = 1e-9  # of a squared distance: what differs by less is equal


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
    means: Array | None = None  # (d,) of X, if it is dense
    features: Matrix = None  # X', if X is sparse

    def of(self, index: Array) -> Array:
        """From the samples ``index`` to all, and from none to itself."""
        halves = self.to(self.samples[index], self.halves[index])
        halves[np.arange(len(index)), index] = np.inf
        return halves

    def to(self, samples: Matrix, own: Array) -> Array:
        """From some samples, kept as these are and with h ``own``, to all."""
        if self.features is None:
            return product(mirrored(samples), self.samples)
        halves: Array = -(samples @ self.features).toarray()
        halves += own[:, None]
        halves += self.halves
        return halves

    def alike(self, X: Matrix) -> tuple[Matrix, Array]:
        """Other samples, kept as these are, and their h: inf, and so never sure, where a square would be too large."""
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
        """How far off the products of samples with h ``own`` may be with any other that is nearer than ``half``."""
        other = (np.sqrt(own) + np.sqrt(half)) ** 2  # the largest h so near
        lost = 8 * self.samples.shape[1] * float(np.finfo(self.samples.dtype).tiny)  # what is too small for a number
        bound: Array = self.rounding * (own + other) + lost
        return bound

    def sure(self, own: Array, beyond: Array, farthest: Array) -> Array:
        """Whether none of the samples whose products are at least ``beyond`` is nearer than ``farthest``."""
        error = self.bound(own, farthest)
        sure: Array = np.isinf(beyond) | (farthest == 0) | (beyond > farthest + error) | (2 * error < TIE * farthest)
        return sure


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


def product_distances(X: Matrix, dtype: str, widest: int | None = None, threads: int | None = None) -> ProductDistances:
    """``widest``: how many values a sample has at most, if others than those of a sparse X are to be compared with."""
    if sparse.issparse(X):  # about no mean, with which it would be dense
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
    """Samples about their mean, no length above 1: that mean, half the squares of the lengths, and the scale."""
    source = MemoryBlocks(X, threads=threads)
    means = moments(source).means
    halves = np.concatenate([found for _, found in source.map(block_halves, shared=(means,))])
    scale = float(2.0 ** -np.frexp(np.sqrt(2 * halves.max()))[1])
    for where, centred in source.map(block_centred, shared=(means, scale, into.dtype)):
        into[where] = centred
    return means, halves * scale**2, scale


def block_halves(X_b: Array, means: Array) -> Array:
    centred = X_b - means
    halves: Array = np.einsum("ij,ij->i", centred, centred) / 2
    return halves


def block_centred(X_b: Array, means: Array, scale: float, dtype: DTypeLike) -> Array:
    return ((X_b - means) * scale).astype(dtype)


def half_squares(asking: Matrix, X: Matrix, columns: Array) -> Array:
    """|x - y|^2 / 2 of each x of ``asking`` and, for y, its ``columns`` of X, by differences in double precision."""
    rows, count = columns.shape
    halves = np.empty(columns.shape)
    width = X.shape[1] if not sparse.issparse(X) else 4 * X.nnz / X.shape[0] + 1
    for part in chunks(rows, max(1, int(GAP_BYTES / (8 * count * width)))):
        if sparse.issparse(X):
            gap = X[columns[part].ravel()].astype(np.float64) - asking[np.repeat(np.arange(rows)[part], count)]
            halves[part] = gap.power(2).sum(axis=1).reshape(-1, count) / 2
        else:
            gap = np.subtract(X[columns[part]], asking[part, None], dtype=np.float64)
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

    def first(self, count: int) -> Candidates:
        """The least values in their order; of equal values, the first column first."""
        order = np.lexsort((self.columns, self.values), axis=1)[:, :count]
        columns, values = (np.take_along_axis(array, order, 1) for array in (self.columns, self.values))
        return Candidates(columns, values, self.beyond)


def below(several: list[Candidates]) -> Candidates:
    """Of other rows."""
    return Candidates(*(np.concatenate([getattr(one, name) for one in several]) for name in Candidates.__annotations__))


def beside(several: list[Candidates]) -> Candidates:
    """Of the same rows."""
    columns, values = (np.hstack([getattr(one, name) for one in several]) for name in ("columns", "values"))
    return Candidates(columns, values, np.min([one.beyond for one in several], axis=0))


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
