"""The directions in which samples differ most, found by passes over blocks."""

from __future__ import annotations

import numpy as np

from mccgr_cli.blocks import Array, BlockSource, Moments, times, transposed_times

# Of the randomised SVD: extra directions and passes that sharpen them.
OVERSAMPLE = 10
POWER_PASSES = 4


def leading_singular_vectors(
    source: BlockSource, rank: int, rng: np.random.Generator, shift: Array | None = None, scale: Array | None = None
) -> tuple[Array, Array, Array]:
    """Of (X - shift) * scale, whose rows are never formed: U (n, r), S (r,), V (r, d).

    N. Halko, P.-G. Martinsson, J. A. Tropp: Finding structure with randomness. SIAM Review 53(2), 2011.
    """
    n, d = source.shape
    shift = np.zeros(d) if shift is None else shift
    scale = np.ones(d) if scale is None else scale

    def forth(right: Array) -> Array:
        scaled = scale[:, None] * right
        return times(source, scaled) - shift @ scaled

    def back(left: Array) -> Array:
        product: Array = scale[:, None] * (transposed_times(source, left) - np.outer(shift, left.sum(axis=0)))
        return product

    width = min(rank + OVERSAMPLE, n, d)
    directions = rng.standard_normal((d, width))
    for _ in range(POWER_PASSES):
        basis, _ = np.linalg.qr(forth(directions))
        directions, _ = np.linalg.qr(back(basis))
    basis, _ = np.linalg.qr(forth(directions))
    left, S, V = np.linalg.svd(back(basis).T, full_matrices=False)
    return (basis @ left)[:, :rank], S[:rank], V[:rank]


def coordinates(source: BlockSource, known: Moments, axes: int, evenness: float, scale: Array | None = None) -> Array:
    """Every sample by its place on the leading principal axes of the scaled features, (n, axes), as a unit vector.

    ``evenness`` 0 leaves the axes as long as they are, 1 makes all equally long.
    """
    n, d = source.shape
    rng = np.random.default_rng(0)  # only the directions to begin with: the axes do not depend on them
    U, S, _ = leading_singular_vectors(source, min(axes, n - 1, d), rng, known.means, scale)
    places: Array = U * S ** (1 - evenness)
    places /= np.maximum(np.linalg.norm(places, axis=1, keepdims=True), np.finfo(float).tiny)
    return places
