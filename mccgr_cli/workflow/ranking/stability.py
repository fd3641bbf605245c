"""Whether the same clusters are found again when some samples are left out.

Runs are an array (r, n): the cluster of every sample in every run, or ABSENT if the run did not draw the sample.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
from scipy.cluster.hierarchy import average, cophenet, fcluster
from scipy.spatial.distance import squareform

from mccgr_cli.blocks.protocol import Array

ABSENT = -1
SAME_START = 0.05  # relative difference below which two starts are equal: NNDSVD fills zeros with random values


class Consensus:
    """For two samples, the share of the runs with both that put them into one cluster; and a tree by average linkage.

    S. Monti, P. Tamayo, J. Mesirov, T. Golub: Consensus clustering. Machine Learning 52, 2003.
    """

    def __init__(self, runs: Array) -> None:
        present = (runs != ABSENT).astype(np.float32)
        drawn = present.T @ present  # by pair: the number of runs with both
        together = np.zeros_like(drawn)
        for run in runs:
            together += (run[:, None] == run) & (run != ABSENT)
        shares = np.divide(together, drawn, out=np.zeros_like(together), where=drawn > 0)
        self.shares, self.known = squareform(shares, checks=False), squareform(drawn, checks=False) > 0
        if self.known.any():  # pairs that no run drew get the mean
            self.shares[~self.known] = self.shares[self.known].mean()
        self.tree = average(1 - self.shares)

    def cophenetic(self) -> float:
        """The correlation of the distances 1 - consensus with the heights in the tree; NaN if one of them is constant.

        J.-P. Brunet, P. Tamayo, T. R. Golub, J. P. Mesirov: Metagenes and molecular pattern discovery using matrix
        factorization. PNAS 101(12), 2004.
        """
        distances, heights = 1 - self.shares[self.known], cophenet(self.tree)[self.known]
        if len(distances) < 2 or np.ptp(distances) == 0 or np.ptp(heights) == 0:
            return float("nan")
        return float(np.corrcoef(distances, heights)[0, 1])

    def dispersion(self) -> float:
        """4 mean (c - 1/2)^2 over all pairs, with c their consensus: 1 if all runs agree about all pairs.

        H. Kim, H. Park: Sparse non-negative matrix factorizations via alternating non-negativity-constrained least
        squares. Bioinformatics 23(12), 2007; here without the pairs of a sample with itself.
        """
        known = self.shares[self.known].astype(np.float64)
        return float(4 * ((known - 0.5) ** 2).mean()) if len(known) else float("nan")

    def clusters(self, k: int) -> Array:
        """The cluster of each sample (n,), from cutting the tree into k parts."""
        return np.asarray(fcluster(self.tree, k, "maxclust"), dtype=np.int64) - 1


def contingency_tables(runs: Array, k: int) -> list[Array]:
    """For every two runs, the number of shared samples by cluster in one and cluster in the other, (k, k)."""
    found = []
    for one, other in itertools.combinations(runs, 2):
        both = (one != ABSENT) & (other != ABSENT)
        found.append(np.bincount(one[both] * k + other[both], minlength=k * k).reshape(k, k))
    return found


def reproducibility(runs: Array, k: int) -> tuple[float, float]:
    """How well the least reproducible cluster of a run is found in another run: the mean over runs, and its error.

    For a cluster it is (p - q) / (1 - q): p is the share of its pairs of samples that are together in the other run, q
    the share of all pairs that are together there, which is what chance gives. It is the prediction strength of R.
    Tibshirani and G. Walther (Journal of Computational and Graphical Statistics 14(3), 2005) between runs, corrected
    for chance. One cluster that is divided differently in each run makes it low. With fewer than k clusters it is 0.
    The standard error is that of the jackknife over runs.
    """
    count = len(runs)
    values = np.zeros((count, count))
    for (one, other), table in zip(itertools.combinations(range(count), 2), contingency_tables(runs, k), strict=True):
        values[one, other] = values[other, one] = (least_reproducible(table) + least_reproducible(table.T)) / 2
    mean = float(values.sum()) / (count * (count - 1))
    if count < 3:
        return mean, float("nan")
    without = (values.sum() - 2 * values.sum(axis=1)) / ((count - 1) * (count - 2))
    return mean, float(np.sqrt((count - 1) * without.var()))


def least_reproducible(table: Array) -> float:
    """The least reproducibility of the clusters in the rows of a contingency table, by those in its columns."""
    sizes, others = table.sum(axis=1), table.sum(axis=0)
    n = int(sizes.sum())
    chance = pairs(others).sum() / max(n * (n - 1) / 2, 1)
    large = sizes > 1
    if (sizes == 0).any() or not large.any() or chance >= 1:
        return 0.0
    shares = pairs(table[large]).sum(axis=1) / pairs(sizes[large])
    return float(min((shares.min() - chance) / (1 - chance), 1.0))


def pairs(counts: Array) -> Array:
    return np.asarray(counts * (counts - 1) / 2)


def signature(W: Array, rows: Array) -> Array:
    """A random projection (n, 2) of WW', which identifies a start W whatever the order of its components."""
    directions = np.random.default_rng(0).standard_normal((int(rows.max()) + 1, 2))[rows]
    return np.asarray(W @ (W.T @ directions))


def distinct_runs(starts: Sequence[tuple[Array, Array]]) -> list[int]:
    """The numbers of the runs that are not copies of earlier ones. A start is the samples drawn and their signature.

    Copies have the same result for any data, so their agreement is no evidence.
    """
    kept: list[int] = []
    for number, (rows, start) in enumerate(starts):
        earlier = [starts[one][1] for one in kept if np.array_equal(rows, starts[one][0])]
        if not any(np.linalg.norm(start - other) <= SAME_START * np.linalg.norm(other) for other in earlier):
            kept.append(number)
    return kept
