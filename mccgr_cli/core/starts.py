"""Starting points W and H of a factorization.

The size of W at the start matters: WH does not change when W grows and H shrinks by the same factor, but the graph term
does, and multiplicative updates change that factor only slowly. In every start W therefore has the size of uniform
numbers in [0, 1), as in the paper, so that alpha has the same meaning for all of them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from mccgr_cli.blocks.products import transposed_times
from mccgr_cli.blocks.protocol import Array, BlockSource
from mccgr_cli.core.parts import parts_of
from mccgr_cli.core.principal_axes import PASSES, leading_axes, nonzero
from mccgr_cli.system.phases import phase

SHARE = 0.05  # membership of a sample in the parts of the graph that it does not belong to


def random_start(source: BlockSource, k: int, mean: float, rng: np.random.Generator) -> tuple[Array, Array]:
    """Uniform random W (n, k) and H (k, d) above 0; H is scaled so that WH has the mean of X."""
    n, d = source.shape
    H = (4 * mean / k) * (rng.random((k, d)) + 1e-4)
    W = rng.random((n, k)) + 1e-4
    return W, H


def nndsvd_start(source: BlockSource, k: int, mean: float, rng: np.random.Generator) -> tuple[Array, Array]:
    """The non-negative parts of the leading singular vectors (NNDSVDar).

    C. Boutsidis, E. Gallopoulos: SVD based initialization: a head start for nonnegative matrix
    factorization. Pattern Recognition 41(4), 2008. A multiplicative update never changes a 0, so zeros become
    small random values (variant "ar").
    """
    n, d = source.shape
    with phase("finding a start", "rows", (PASSES + 1) * n):
        axes = leading_axes(source, min(k, n, d), rng)
        S, V = axes.sizes, axes.directions
        U = axes.project(source, nonzero(S))
    W, H = np.zeros((n, k)), np.zeros((k, d))
    for r in range(len(S)):
        left, right = U[:, r], V[r]
        if left.sum() < 0:  # the sign of a pair is arbitrary; this makes the first pair positive
            left, right = -left, -right
        positive = np.maximum(left, 0), np.maximum(right, 0)
        negative = np.maximum(-left, 0), np.maximum(-right, 0)
        x, y = max(positive, negative, key=lambda pair: np.linalg.norm(pair[0]) * np.linalg.norm(pair[1]))
        W[:, r], H[r] = x, S[r] * y
    for factor in (H, W):
        zeros = factor <= 1e-6 * factor.max()  # includes zeros with rounding errors
        factor[zeros] = factor.mean() / 100 * (rng.random(int(zeros.sum())) + 1e-4)
    sizes = 2 * W.mean(axis=0)  # uniform numbers in [0, 1) have the mean 1/2
    return W / sizes, H * sizes[:, None]


def graph_start(
    source: BlockSource, k: int, A: sparse.csr_array[Any], rng: np.random.Generator, merged: bool = False
) -> tuple[Array, Array]:
    """The start from parts of the graph, which depend on a random number."""
    with phase("dividing the graph"):
        return parts_start(source, k, parts_of(A, k, int(rng.integers(2**31)), merged=merged))


def parts_start(source: BlockSource, k: int, part: Array) -> tuple[Array, Array]:
    """W has the memberships of the samples in k parts, H the means of the parts."""
    member = np.eye(k)[part]
    H = transposed_times(source, member).T / np.maximum(member.sum(axis=0), 1)[:, None]
    H += H.mean() / 1000  # a 0 could not change
    W = (member + SHARE) / (1 + k * SHARE)
    size = 2 * W.mean()
    return W / size, H * size
