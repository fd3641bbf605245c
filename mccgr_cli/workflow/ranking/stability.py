"""Whether the same clusters come out again when some samples are left out.

Runs are rows of an array (r, n): the cluster of every sample, or ABSENT where the run did not draw it.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
from scipy.cluster.hierarchy import average, cophenet, fcluster
from scipy.spatial.distance import squareform

from mccgr_cli.blocks.protocol import Array
from mccgr_cli.core.metrics import adjusted_rand_index

ABSENT = -1
ALIKE = 0.05  # relative difference below which two starts are the same: what fills the zeros of singular vectors


def consensus(runs: Array) -> tuple[Array, Array]:
    """Of the runs that drew both of two samples, the share that put them together, and how many these are, (n, n).

    S. Monti, P. Tamayo, J. Mesirov, T. Golub: Consensus clustering. Machine Learning 52, 2003.
    """
    n = runs.shape[1]
    together, drawn = np.zeros((n, n), dtype=np.float32), np.zeros((n, n), dtype=np.float32)
    for run in runs:
        there = (run != ABSENT).astype(np.float32)
        drawn += np.outer(there, there)
        for cluster in np.unique(run[run != ABSENT]):
            members = np.flatnonzero(run == cluster)
            together[np.ix_(members, members)] += 1
    return np.divide(together, drawn, out=np.zeros_like(together), where=drawn > 0), drawn


class Consensus:
    """The consensus of some runs, and the tree that joins the samples that are together most."""

    def __init__(self, runs: Array) -> None:
        shares, drawn = consensus(runs)
        self.shares, self.known = squareform(shares, checks=False), squareform(drawn, checks=False) > 0
        if self.known.any():  # what was never drawn together counts as all the others do on average
            self.shares[~self.known] = self.shares[self.known].mean()
        self.tree = average(1 - self.shares)

    def cophenetic(self) -> float:
        """The correlation of distances 1 - consensus with heights in the tree; nan where one of them does not vary.

        J.-P. Brunet, P. Tamayo, T. R. Golub, J. P. Mesirov: Metagenes and molecular pattern discovery using matrix
        factorization. PNAS 101(12), 2004.
        """
        distances, heights = 1 - self.shares[self.known], cophenet(self.tree)[self.known]
        if len(distances) < 2 or np.ptp(distances) == 0 or np.ptp(heights) == 0:
            return float("nan")
        return float(np.corrcoef(distances, heights)[0, 1])

    def dispersion(self) -> float:
        """4 mean (c - 1/2)^2 over pairs: 1 if all runs agree about all pairs.

        H. Kim, H. Park: Sparse non-negative matrix factorizations via alternating non-negativity-constrained least
        squares. Bioinformatics 23(12), 2007; here without the pairs of a sample with itself.
        """
        known = self.shares[self.known].astype(np.float64)
        return float(4 * ((known - 0.5) ** 2).mean()) if len(known) else float("nan")

    def clusters(self, k: int) -> Array:
        """The tree cut into k, (n,)."""
        return np.asarray(fcluster(self.tree, k, "maxclust"), dtype=np.int64) - 1


def tables(runs: Array, k: int) -> list[Array]:
    """For every two runs, how many of the samples that both drew are in each cluster of the one and of the other."""
    found = []
    for one, other in itertools.combinations(runs, 2):
        both = (one != ABSENT) & (other != ABSENT)
        found.append(np.bincount(one[both] * k + other[both], minlength=k * k).reshape(k, k))
    return found


def agreement(found: Sequence[Array]) -> float:
    """The mean adjusted Rand index of two runs."""
    return float(np.mean([adjusted_rand_index(table) for table in found])) if found else float("nan")


def reproducibility(runs: Array, k: int) -> tuple[float, float]:
    """How well the least reproducible cluster of a run is found in another, on average over pairs of runs.

    Of the pairs of samples in a cluster of one run, the share p that is together in the other, above what chance gives:
    (p - q) / (1 - q), where q is the share of all pairs that is together there. The prediction strength of Tibshirani
    and Walther (Journal of Computational and Graphical Statistics 14(3), 2005) between runs, corrected for chance.
    A cluster that is cut here in one place and there in another makes it low, however many others are firm. Where there
    are fewer clusters than k, it is 0. With its standard error, by leaving out one run after the other.
    """
    count = len(runs)
    if count < 2:
        return float("nan"), float("nan")
    values = np.zeros((count, count))
    for (one, other), table in zip(itertools.combinations(range(count), 2), tables(runs, k), strict=True):
        values[one, other] = values[other, one] = (least_found(table) + least_found(table.T)) / 2
    mean = float(values.sum()) / (count * (count - 1))
    if count < 3:
        return mean, float("nan")
    without = (values.sum() - 2 * values.sum(axis=1)) / ((count - 1) * (count - 2))
    return mean, float(np.sqrt((count - 1) * without.var()))


def least_found(table: Array) -> float:
    """Of the clusters in the rows, how well the one is found in the columns that is found least."""
    sizes, others = table.sum(axis=1), table.sum(axis=0)
    n = int(sizes.sum())
    chance = pairs(others).sum() / max(n * (n - 1) / 2, 1)
    large = sizes > 1
    if (sizes == 0).any() or not large.any() or chance >= 1:
        return 0.0
    shares = pairs(table[large]).sum(axis=1) / pairs(sizes[large])
    return float(min((shares.min() - chance) / (1 - chance), 1.0))


def pairs(counts: Array) -> Array:
    counted: Array = counts * (counts - 1) / 2
    return counted


def trace(W: Array, rows: Array) -> Array:
    """What tells one start W of these samples from another, in whatever order its components are, (n, 2)."""
    directions = np.random.default_rng(0).standard_normal((int(rows.max()) + 1, 2))[rows]
    found: Array = W @ (W.T @ directions)
    return found


def distinct(starts: Sequence[tuple[Array, Array]]) -> list[int]:
    """The numbers of the runs that are no copies of earlier ones; a start is the samples drawn and their trace.

    A copy of a run has the same outcome, whatever the data: that they agree says nothing.
    """
    kept: list[int] = []
    for number, (rows, mark) in enumerate(starts):
        if not any(is_copy(rows, mark, *starts[earlier]) for earlier in kept):
            kept.append(number)
    return kept


def is_copy(rows: Array, mark: Array, other_rows: Array, other: Array) -> bool:
    if not np.array_equal(rows, other_rows):
        return False
    return bool(np.linalg.norm(mark - other) <= ALIKE * np.linalg.norm(other))
