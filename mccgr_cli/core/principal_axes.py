"""Principal axes: the directions in which samples differ most, computed in passes over the blocks of X."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from mccgr_cli.blocks.products import narrow_product, times
from mccgr_cli.blocks.protocol import Array, BlockSource, Matrix, Partial, sum_over_blocks
from mccgr_cli.blocks.rows import take_rows

OVERSAMPLE = 10  # extra directions of the randomized SVD
PASSES = 5  # over X; each improves the directions
DISTANCE_SHARE = 0.1  # of a typical length: the last axis of a projection


@dataclass(frozen=True)
class Axes:
    """The leading singular vectors of Y = (X - shift) * scale. Y itself is never computed."""

    sizes: Array  # (r,) singular values
    directions: Array  # (r, d) right singular vectors
    shift: Array  # (d,)
    scale: Array  # (d,)

    def project(self, source: BlockSource, lengths: Array, dtype: str = "float64") -> Array:
        """Y V / lengths, (n, r): the coordinates of the samples on the axes, in units of ``lengths``."""
        right = self.scale[:, None] * self.directions.T / lengths
        projected = times(source, right, dtype)
        projected -= (self.shift @ right).astype(dtype)
        return projected


def leading_axes(
    source: BlockSource, rank: int, rng: np.random.Generator, shift: Array | None = None, scale: Array | None = None
) -> Axes:
    """Randomized SVD: random directions are multiplied by Y'Y in each pass over X. No array has n rows.

    N. Halko, P.-G. Martinsson, J. A. Tropp: Finding structure with randomness. SIAM Review 53(2), 2011.
    """
    n, d = source.shape
    shift = np.zeros(d) if shift is None else shift
    scale = np.ones(d) if scale is None else scale
    directions = rng.standard_normal((d, min(rank + OVERSAMPLE, n, d)))
    for remaining in reversed(range(PASSES)):
        basis, _ = np.linalg.qr(directions)
        scaled = scale[:, None] * basis
        crossed, sums = sum_over_blocks(source, forth_and_back, shared=(scaled.astype(source.dtype), shift @ scaled))
        directions = scale[:, None] * (crossed - np.outer(shift, sums))  # Y'Y basis
        if not remaining:
            sizes, vectors = decomposed(basis, directions)
    return Axes(sizes[:rank], vectors[:rank], shift, scale)


def forth_and_back(X_b: Matrix, right: Array, offset: Array) -> Partial:
    """X_b'Z_b and the sums of Z_b = X_b right - offset."""
    Z_b = narrow_product(X_b, right)
    Z_b -= offset.astype(Z_b.dtype)
    return Partial((X_b.T @ Z_b, Z_b.sum(axis=0, dtype=np.float64)))


def decomposed(basis: Array, multiplied: Array) -> tuple[Array, Array]:
    """Singular values and right vectors of Q'Y; Q is an orthonormal basis of Y ``basis``, ``multiplied`` is Y'Y basis.

    Q = Y basis E L^(-1/2) where E L E' = basis'Y'Y basis. Values that are only rounding errors of the largest are 0.
    """
    levels, E = np.linalg.eigh(basis.T @ multiplied)
    known = levels > len(levels) * np.finfo(float).eps * max(levels[-1], np.finfo(float).tiny)
    _, sizes, vectors = np.linalg.svd((multiplied @ E[:, known] / np.sqrt(levels[known])).T, full_matrices=False)
    missing = len(levels) - len(sizes)
    return np.pad(sizes, (0, missing)), np.pad(vectors, ((0, missing), (0, 0)))


def coordinates(
    source: BlockSource, means: Array, axes: int, evenness: float, scale: Array | None = None, dtype: str = "float64"
) -> Array:
    """The samples on the leading principal axes of the scaled features, as unit vectors, (n, axes).

    ``means`` (d,) are those of X, ``scale`` (d,) are factors of the features. With ``evenness`` 0 the axes keep their
    own lengths, with 1 all have the same length.
    """
    n, d = source.shape
    rng = np.random.default_rng(0)  # only for the first directions: the axes do not depend on them
    found = leading_axes(source, min(axes, n - 1, d), rng, means, scale)
    return make_unit(found.project(source, nonzero(found.sizes) ** evenness, dtype))


@dataclass(frozen=True)
class Projection:
    """From rows x to unit vectors along x right - offset. It places new samples among those it was learnt from.

    The last axis has the same length c for all samples: unit vectors alone would forget how far a sample is from the
    mean, and then different samples could be at the same point.
    """

    right: Array  # (d, r)
    offset: Array  # (r,)

    def points(self, source: BlockSource) -> Array:
        """The samples as unit vectors in single precision, (n, r)."""
        points = np.empty((source.shape[0], self.right.shape[1]), np.float32)
        shared = (self.right.astype(source.dtype, copy=False), self.offset)
        sum_over_blocks(source, block_points, shared=shared, into=(points,))
        return points

    def chosen_points(self, source: BlockSource, index: Array) -> Array:
        """The points of the samples ``index`` only, (len(index), r)."""
        right = self.right.astype(source.dtype, copy=False)
        return np.asarray(take_rows(source, index, unit_points, right, self.offset))


def learn_projection(source: BlockSource, means: Array, axes: int, evenness: float, scale: Array) -> Projection:
    """The projection to the axes of :func:`coordinates`, which has the same parameters, and one axis more."""
    n, d = source.shape
    found = leading_axes(source, min(axes, n - 1, d), np.random.default_rng(0), means, scale)
    lengths = nonzero(found.sizes)
    right = np.zeros((d, len(lengths) + 1), np.float32)
    right[:, :-1] = scale[:, None] * found.directions.T / lengths**evenness
    typical = float(np.sqrt((found.sizes ** (2 - 2 * evenness)).sum() / n))  # length of a projected sample
    offset = means @ right.astype(np.float64)
    offset[-1] = -DISTANCE_SHARE * typical or -1.0
    return Projection(right, offset)


def block_points(X_b: Matrix, right: Array, offset: Array) -> Partial:
    return Partial(rows=(unit_points(X_b, right, offset),))


def unit_points(X_b: Matrix, right: Array, offset: Array) -> Array:
    return make_unit(narrow_product(X_b, right) - offset).astype(np.float32)


def make_unit(rows: Array) -> Array:
    """Scale rows to unit length, in place. Rows of zeros stay zero."""
    lengths = np.sqrt(np.einsum("ij,ij->i", rows, rows, dtype=np.float64))  # norm would copy the array
    rows /= nonzero(lengths)[:, None].astype(rows.dtype)
    return rows


def coordinates_of_few(X: Matrix, axes: int, evennesses: Sequence[float]) -> list[Array]:
    """The :func:`coordinates` of few samples, from their inner products (n, n); once for each evenness."""
    from mccgr_cli.core.eigenvectors import leading_eigenvectors

    n, d = X.shape
    products: Any = X @ X.T
    K = products.toarray() if sparse.issparse(products) else products
    centred = K - K.mean(axis=0) - K.mean(axis=1)[:, None] + K.mean()
    squares, vectors = leading_eigenvectors(centred, min(axes, n - 1, d))
    sizes = np.sqrt(np.where(squares > n * np.finfo(K.dtype).eps * squares[0], squares, 0))
    found = [vectors * (sizes / nonzero(sizes) ** evenness) for evenness in evennesses]
    return [points / nonzero(np.linalg.norm(points, axis=1))[:, None] for points in found]


def nonzero(values: Array) -> Array:
    """Divisors: 1 in place of 0, so that 0 / 0 becomes 0."""
    return np.where(values > 0, values, 1)
