"""Criteria for k: are the same clusters found again without some samples, and are hidden entries predicted?

Runs are an array (r, n): the cluster of every sample in every run, or ABSENT if the run did not draw the sample.

S. Wold: Cross-validatory estimation of the number of components in factor and principal components models.
Technometrics 20(4), 1978. A. B. Owen, P. O. Perry: Bi-cross-validation of the SVD and the nonnegative matrix
factorization. Annals of Applied Statistics 3(2), 2009.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
from scipy import sparse
from scipy.cluster.hierarchy import average, cophenet, fcluster
from scipy.spatial.distance import squareform

from mccgr_cli.blocks.in_memory import MemoryBlocks
from mccgr_cli.blocks.products import moments
from mccgr_cli.blocks.protocol import Array, Matrix
from mccgr_cli.core.starts import nndsvd_start

ABSENT = -1
SAME_START = 0.05  # relative difference below which two starts are equal: NNDSVD fills zeros with random values
HIDDEN = 0.1  # fraction of the entries
MOST_ROWS, MOST_FEATURES = 1000, 2000  # of the dense part of X that is used
STEPS, TOLERANCE = 50, 1e-3  # a fit ends after these steps, or when its error falls by less
CHECK_EVERY = 5  # steps: measuring the error takes as long as half a step
ROUNDING = 1e-20  # relative error of squares: features that do not vary have this variance

Entries = tuple[Array, Array]  # rows and columns


# Stability


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
        np.divide(together, drawn, out=together, where=drawn > 0)
        self.known = squareform(drawn, checks=False) > 0
        del drawn  # as large as all pairs
        self.shares = squareform(together, checks=False)
        del together
        if self.known.any():  # pairs that no run drew get the mean
            self.shares[~self.known] = self.shares[self.known].mean()
        self.tree = average(1 - self.shares)

    def cophenetic(self) -> float:
        """The correlation of the distances 1 - consensus with the heights in the tree; NaN if one of them is constant.

        J.-P. Brunet, P. Tamayo, T. R. Golub, J. P. Mesirov: Metagenes and molecular pattern discovery using matrix
        factorization. PNAS 101(12), 2004.
        """
        distances, heights = 1 - self.shares[self.known].astype(np.float64), cophenet(self.tree)[self.known]
        if len(distances) < 2 or np.ptp(distances) == 0 or np.ptp(heights) == 0:
            return float("nan")
        distances -= distances.mean()
        heights -= heights.mean()
        return float(distances @ heights / (np.linalg.norm(distances) * np.linalg.norm(heights)))

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
    """A random projection (n, 2) of WW', which identifies a start W whatever the order of its components.

    It has single precision, so that a journal has few bytes.
    """
    directions = np.random.default_rng(0).standard_normal((int(rows.max()) + 1, 2))[rows]
    return np.asarray(W @ (W.T @ directions), dtype=np.float32)


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


# Hidden entries


def dense_part(X: Matrix, rng: np.random.Generator) -> Array:
    """X as a dense array; of a large X only random samples and the features with the largest variance."""
    n, d = X.shape
    if n > MOST_ROWS:
        X = X[np.sort(rng.choice(n, MOST_ROWS, replace=False))]
    if d > MOST_FEATURES:
        spread = moments(MemoryBlocks(X)).spread(X.shape[0])
        X = X[:, np.sort(np.argsort(-spread, kind="stable")[:MOST_FEATURES])]
    return np.asarray(X.toarray() if sparse.issparse(X) else X, dtype=np.float64)


def hide(shape: tuple[int, int], rng: np.random.Generator) -> Entries:
    """Random entries to hide, in their order."""
    n, d = shape
    chosen = np.sort(rng.choice(n * d, max(int(HIDDEN * n * d), 1), replace=False))
    return np.divmod(chosen, d)


def imputed(X: Array, hidden: Entries) -> tuple[Array, Array]:
    """A copy of X with hidden entries replaced by (row factor) x (column mean), and the column means.

    Neither depends on the hidden values.
    """
    known = X.copy()
    known[hidden] = 0
    seen = np.ones(X.shape)
    seen[hidden] = 0
    means: Array = known.sum(axis=0) / np.maximum(seen.sum(axis=0), 1)
    expected = seen @ means
    sizes = np.divide(known.sum(axis=1), expected, out=np.zeros(len(X)), where=expected > 0)
    known[hidden] = sizes[hidden[0]] * means[hidden[1]]
    return known, means


def heldout_errors(X: Array, hidden: Entries, ks: list[int], rho: Array, seed: list[int]) -> list[float]:
    """By k: the weighted squared error of the prediction, relative to that of predicting the feature means.

    All k start from leading components of the same start, in single precision.
    """
    filled, means = imputed(X, hidden)
    truth, weights = X[hidden], rho[hidden[1]]
    scale = float(weights @ np.square(truth - means[hidden[1]]))
    if scale <= ROUNDING * float(weights @ np.square(truth)):
        return [0.0 for _ in ks]
    W, H = nndsvd_start(MemoryBlocks(filled), max(ks), float(filled.mean()), np.random.default_rng(seed))
    unit = float(filled.max()) or 1.0  # so that squares fit into single precision
    filled, rho = (filled / unit).astype(np.float32), rho.astype(np.float32)
    W, H = W.astype(np.float32), (H / unit).astype(np.float32)
    guesses = (unit * predict(filled.copy(), hidden, W[:, :k], H[:k], rho) for k in ks)
    return [float(weights @ np.square(truth - guess)) / scale for guess in guesses]


def predict(filled: Array, hidden: Entries, W: Array, H: Array, rho: Array) -> Array:
    """The hidden entries of WH, where W and H minimize sum_ij rho_j (x_ij - (WH)_ij)^2 over the other entries.

    Each step fills the hidden entries of ``filled`` with those of WH, then improves W and H as if nothing were hidden.
    That never raises the sum (H. A. L. Kiers: Weighted least squares fitting using ordinary least squares algorithms.
    Psychometrika 62(2), 1997). One component after the other goes to its minimum (HALS).
    """
    places = np.ravel_multi_index(hidden, filled.shape)
    coefficients, H = W.T.copy(), H.copy()
    product, previous = np.empty_like(filled), np.inf
    entries, products = filled.reshape(-1), product.reshape(-1)  # views
    for step in range(STEPS):
        improve(H, coefficients @ coefficients.T, coefficients @ filled)
        weighted = rho * H
        improve(coefficients, weighted @ H.T, (filled @ weighted.T).T)
        np.matmul(coefficients.T, H, out=product)
        entries[places] = products[places]
        if step % CHECK_EVERY:
            continue
        error = float(np.square(filled - product).sum(axis=0, dtype=np.float64) @ rho)
        if previous - error <= TOLERANCE * error:
            break
        previous = error
    return np.asarray(products[places])


def improve(factor: Array, gram: Array, cross: Array) -> None:
    """Update every row r of a factor F in place: max(0, F_r + (cross - gram F)_r / gram_rr)."""
    for r in range(len(factor)):
        if gram[r, r] > 0:
            np.maximum(factor[r] + (cross[r] - gram[r] @ factor) / gram[r, r], 0, out=factor[r])
