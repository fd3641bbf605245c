"""Where a factorization starts from.

The size of W at the start matters: WH does not change when W grows and H shrinks by the same factor, but the
graph term does, and multiplicative updates move that factor only slowly. Every start therefore has W of the
size of uniform numbers in [0, 1), as in the paper, so that alpha means the same for all of them.
"""

from __future__ import annotations

import numpy as np

from mccgr_cli.blocks import Array, BlockSource, times, transposed_times

# Of the randomised SVD behind nndsvd: extra directions and passes that sharpen them.
OVERSAMPLE = 10
POWER_PASSES = 4


def random_start(source: BlockSource, k: int, mean: float, rng: np.random.Generator) -> tuple[Array, Array]:
    """Uniform W (n, k) and H (k, d), never 0; H scaled so that WH has the mean of X."""
    n, d = source.shape
    H = (4 * mean / k) * (rng.random((k, d)) + 1e-4)
    W = rng.random((n, k)) + 1e-4
    return W, H


def nndsvd_start(source: BlockSource, k: int, mean: float, rng: np.random.Generator) -> tuple[Array, Array]:
    """The non-negative parts of the leading singular vectors, with zeros filled so that they can move.

    C. Boutsidis, E. Gallopoulos: SVD based initialization: a head start for nonnegative matrix
    factorization. Pattern Recognition 41(4), 2008. A multiplicative update never leaves 0, so zeros become
    small random values (their variant "ar").
    """
    n, d = source.shape
    U, S, V = leading_singular_vectors(source, min(k, n, d), rng)
    W, H = np.zeros((n, k)), np.zeros((k, d))
    for r in range(len(S)):
        left, right = U[:, r], V[r]
        if left.sum() < 0:  # the sign of a pair is arbitrary; the first pair is then all positive
            left, right = -left, -right
        positive = np.maximum(left, 0), np.maximum(right, 0)
        negative = np.maximum(-left, 0), np.maximum(-right, 0)
        x, y = max(positive, negative, key=lambda pair: np.linalg.norm(pair[0]) * np.linalg.norm(pair[1]))
        W[:, r], H[r] = x, S[r] * y
    for factor in (H, W):
        zeros = factor <= 1e-6 * factor.max()  # what rounding left of zeros could not move either
        factor[zeros] = factor.mean() / 100 * (rng.random(int(zeros.sum())) + 1e-4)
    sizes = 2 * W.mean(axis=0)  # uniform numbers in [0, 1) have the mean 1/2
    return W / sizes, H * sizes[:, None]


def leading_singular_vectors(source: BlockSource, rank: int, rng: np.random.Generator) -> tuple[Array, Array, Array]:
    """Randomised SVD by passes over blocks (Halko, Martinsson, Tropp 2011): U (n, r), S (r,), V (r, d)."""
    n, d = source.shape
    width = min(rank + OVERSAMPLE, n, d)
    directions = rng.standard_normal((d, width))
    for _ in range(POWER_PASSES):
        basis, _ = np.linalg.qr(times(source, directions))
        directions, _ = np.linalg.qr(transposed_times(source, basis))
    basis, _ = np.linalg.qr(times(source, directions))
    left, S, V = np.linalg.svd(transposed_times(source, basis).T, full_matrices=False)
    return (basis @ left)[:, :rank], S[:rank], V[:rank]
