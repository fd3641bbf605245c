"""The directions in which samples differ most, found by passes over blocks."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mccgr_cli.blocks.products import Moments, narrow_product, times
from mccgr_cli.blocks.protocol import Array, BlockSource, Matrix, Partial, sweep

# Of the randomised SVD: extra directions and passes that sharpen them.
OVERSAMPLE = 10
PASSES = 5


@dataclass(frozen=True)
class Axes:
    """The leading singular vectors of Y = (X - shift) * scale, whose rows are never formed."""

    sizes: Array  # (r,) singular values
    directions: Array  # (r, d) right singular vectors
    shift: Array  # (d,)
    scale: Array  # (d,)

    def places(self, source: BlockSource, lengths: Array, dtype: str = "float64") -> Array:
        """Every sample on the axes, (n, r), in these units: Y V / lengths."""
        right = self.scale[:, None] * self.directions.T / lengths
        places = times(source, right, dtype)
        places -= (self.shift @ right).astype(dtype)
        return places


def leading_axes(
    source: BlockSource, rank: int, rng: np.random.Generator, shift: Array | None = None, scale: Array | None = None
) -> Axes:
    """One pass over X for each time that Y'Y sharpens some random directions; nothing is as long as there are samples.

    N. Halko, P.-G. Martinsson, J. A. Tropp: Finding structure with randomness. SIAM Review 53(2), 2011.
    """
    n, d = source.shape
    shift = np.zeros(d) if shift is None else shift
    scale = np.ones(d) if scale is None else scale
    directions = rng.standard_normal((d, min(rank + OVERSAMPLE, n, d)))
    for remaining in reversed(range(PASSES)):
        basis, _ = np.linalg.qr(directions)
        scaled = scale[:, None] * basis
        crossed, sums = sweep(source, block_there_and_back, shared=(scaled.astype(source.dtype), shift @ scaled))
        directions = scale[:, None] * (crossed - np.outer(shift, sums))  # Y'Y basis
        if not remaining:
            sizes, vectors = decomposed(basis, directions)
    return Axes(sizes[:rank], vectors[:rank], shift, scale)


def block_there_and_back(X_b: Matrix, right: Array, offset: Array) -> Partial:
    """X_b'Z_b and the sums of Z_b = X_b right - offset."""
    there = narrow_product(X_b, right)
    there -= offset.astype(there.dtype)
    return Partial((X_b.T @ there, there.sum(axis=0, dtype=np.float64)))


def decomposed(basis: Array, pulled: Array) -> tuple[Array, Array]:
    """Singular values and right vectors of Q'Y, with Q an orthonormal basis of Y ``basis``; ``pulled`` is Y'Y basis.

    Q = Y basis E L^(-1/2) where E L E' = basis'Y'Y basis. What is lost in rounding beside the largest is 0.
    """
    levels, E = np.linalg.eigh(basis.T @ pulled)
    known = levels > len(levels) * np.finfo(float).eps * max(levels[-1], np.finfo(float).tiny)
    _, sizes, vectors = np.linalg.svd((pulled @ E[:, known] / np.sqrt(levels[known])).T, full_matrices=False)
    missing = len(levels) - len(sizes)
    return np.pad(sizes, (0, missing)), np.pad(vectors, ((0, missing), (0, 0)))


def coordinates(
    source: BlockSource,
    known: Moments,
    axes: int,
    evenness: float,
    scale: Array | None = None,
    dtype: str = "float64",
) -> Array:
    """Every sample by its place on the leading principal axes of the scaled features, (n, axes), as a unit vector.

    ``evenness`` 0 leaves the axes as long as they are, 1 makes all equally long.
    """
    n, d = source.shape
    rng = np.random.default_rng(0)  # only the directions to begin with: the axes do not depend on them
    found = leading_axes(source, min(axes, n - 1, d), rng, known.means, scale)
    places = found.places(source, divisor(found.sizes) ** evenness, dtype)
    lengths = np.sqrt(np.einsum("ij,ij->i", places, places, dtype=np.float64))  # norm would copy them all
    places /= divisor(lengths)[:, None].astype(dtype)
    return places


def divisor(values: Array) -> Array:
    """To divide by: what is 0 then stays so."""
    least: Array = np.where(values > 0, values, 1)
    return least
