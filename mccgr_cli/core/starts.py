"""Where a factorization starts from.

The size of W at the start matters: WH does not change when W grows and H shrinks by the same factor, but the
graph term does, and multiplicative updates move that factor only slowly. Every start therefore has W of the
size of uniform numbers in [0, 1), as in the paper, so that alpha means the same for all of them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from mccgr_cli.blocks.products import transposed_times
from mccgr_cli.blocks.protocol import Array, BlockSource
from mccgr_cli.core.graph import parts
from mccgr_cli.core.principal_axes import divisor, leading_axes

SHARE = 0.05  # of a sample in each part of the graph that it is not in, at the start


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
    axes = leading_axes(source, min(k, n, d), rng)
    S, V = axes.sizes, axes.directions
    U = axes.places(source, divisor(S))
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


def graph_start(source: BlockSource, k: int, A: sparse.csr_array[Any], rng: np.random.Generator) -> tuple[Array, Array]:
    """The parts that the graph falls into: W says which, H is the mean of each."""
    part = parts(A, k, int(rng.integers(2**31)))
    member = np.eye(k)[part]
    H = transposed_times(source, member).T / np.maximum(member.sum(axis=0), 1)[:, None]
    H += H.mean() / 1000  # what is 0 could not move
    W = (member + SHARE) / (1 + k * SHARE)
    size = 2 * W.mean()
    return W / size, H * size
