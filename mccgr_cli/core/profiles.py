"""What sets groups of samples and components apart: their profiles over the features, and the values they have."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import sparse

from mccgr_cli.blocks.protocol import Array, BlockSource, Matrix, Partial, chunks, sum_over_blocks
from mccgr_cli.catalog import SILENCED
from mccgr_cli.core.typicality import below_one

ROWS = 10_000  # of WH that are computed at once


class Profiles:
    """Features that set mixtures of components apart from the average sample, by p log(p / q).

    p is the profile of a mixture m of components, m H times the weights of the features, divided by its sum; q is the
    profile of the average sample. p log(p / q) is the part of a feature in the Kullback-Leibler divergence of the two:
    small for features that are strong everywhere, and for those that are weak in the mixture. Silenced features are
    left out.
    """

    def __init__(self, H: Array, rho: Array, average: Array) -> None:
        """``average`` is the mixture of the average sample (k,). It and all mixtures must have the same scale."""
        self.H = below_one(H)[0] * np.where(rho < SILENCED, 0, below_one(rho)[0])
        self.strength = self.H.sum(axis=1)  # (k,)
        self.average = self.profile(average)

    def profile(self, mixture: Array) -> Array:
        whole = mixture @ self.H
        return np.asarray(whole / (whole.sum() or 1))

    def compared(self, mixture: Array) -> tuple[Array, Array, Array]:
        """Of every feature (d,): p log(p / q), p / q, and p."""
        p, q = self.profile(mixture), self.average
        both = (p > 0) & (q > 0)
        with np.errstate(over="ignore"):  # if q is tiny
            times = np.divide(p, q, out=np.ones(len(p)), where=both)
        score = np.zeros(len(p))
        score[both] = p[both] * (np.log(p[both]) - np.log(q[both]))
        return score, times, p

    def shares(self, mixture: Array) -> Array:
        """The shares of the components in a mixture, by their contributions to the features."""
        parts = mixture * self.strength
        return np.asarray(parts / (parts.sum() or 1))


@dataclass(frozen=True)
class GroupValues:
    """The values of X in groups of samples."""

    sizes: Array  # (g,) samples
    means: Array  # (g, d)
    fractions: Array  # (g, d) of the samples: those with a value above 0 (of WH: above its mean)

    def compared(self) -> Array:
        """(4, g, d): means in the group, means in all other groups (0 if there are none), and both of the fractions."""
        others = np.maximum(self.sizes.sum() - self.sizes, 1)[:, None]
        sums = [self.sizes[:, None] * of_groups for of_groups in (self.means, self.fractions)]
        means, fractions = (np.maximum(one.sum(axis=0) - one, 0) / others for one in sums)
        return np.stack([self.means, means, self.fractions, fractions])


def group_values(X: BlockSource, places: Array) -> GroupValues:
    """The means of all features in groups of samples, by one pass over X; ``places`` (n,) are the groups 0, 1, ..."""
    sizes = np.bincount(places)
    sums, counts = sum_over_blocks(X, block_sums, (places,), (len(sizes),))
    each = np.maximum(sizes, 1)[:, None]
    return GroupValues(sizes, sums / each, counts / each)


def factor_values(W: Array, H: Array, places: Array) -> GroupValues:
    """The same of WH, which factors have instead of X. ``H`` has the columns of the features that are wanted.

    Nearly all values of WH are above 0. So the fractions are those of samples with a value above the mean of all.
    """
    (W, power), (H, other) = below_one(W), below_one(H)
    sizes, mean = np.bincount(places), W.mean(axis=0) @ H
    sums, counts = np.zeros((2, len(sizes), H.shape[1]))
    for rows in chunks(len(W), ROWS):
        more, above = block_sums(W[rows] @ H - mean, places[rows], len(sizes)).sums
        sums, counts = sums + more, counts + above
    each = np.maximum(sizes, 1)[:, None]
    with np.errstate(over="ignore"):  # the means may be inf
        return GroupValues(sizes, np.ldexp(np.maximum(mean + sums / each, 0), power + other), counts / each)


def block_sums(X_b: Matrix, places_b: Array, groups: int) -> Partial:
    """By group and feature: the sum of the values, and how many are above 0."""
    member = sparse.csr_array((np.ones(len(places_b)), (places_b, np.arange(len(places_b)))), (groups, len(places_b)))
    sums, counts = member @ X_b, member @ (X_b > 0)
    return Partial(tuple(one.toarray() if sparse.issparse(one) else one for one in (sums, counts)))
