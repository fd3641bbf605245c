"""The parts of the neighbour graph: it is divided into k clusters with few and light edges between them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import sparse

from mccgr_cli.blocks.products import moments, transposed_times
from mccgr_cli.blocks.protocol import Array, BlockSource
from mccgr_cli.blocks.threads import threads_for_blocks
from mccgr_cli.core.kmeans import kmeans

PARTS_RESTARTS = 10  # of k-means in spectral clustering
SMOOTHING, LEAST_WEIGHT = 100, 1 / 6  # c of spectral coordinates; it is less where the k-th would count less than this
MUCH_HIGHER = 1.15  # modularity of parts that were merged, relative to that of a cut into k parts
MOST_LOSS, LITTLE_LOSS = 2.5, 0.03  # edges that these parts may lose, also relative; 3 % is added to both losses
FAIR_SHARES = 1.5  # a part of more than half of all samples, and of more than this many times n/k, deserves doubt


class Spectrum:
    """The leading eigenvectors of a graph: those for ``most`` parts, computed once, also serve for fewer parts."""

    def __init__(self, A: sparse.csr_array[Any], most: int = 0) -> None:
        self.A, self.most = A, most
        self.values, self.vectors = np.empty(0), np.empty((A.shape[0], 0))

    def leading(self, k: int) -> tuple[Array, Array]:
        """The eigenvalues and eigenvectors of :func:`normalized_edges` for k parts: there are more than k."""
        from mccgr_cli.core.eigenvectors import FEW, leading_eigenvectors

        n = self.A.shape[0]
        count = vectors_for(k, n)
        if count > len(self.values):
            known = component_vectors(self.A) if n > FEW else None
            computed = max(count, vectors_for(self.most, n))
            self.values, self.vectors = leading_eigenvectors(normalized_edges(self.A), computed, known)
        return self.values[:count], self.vectors[:, :count]


def vectors_for(k: int, n: int) -> int:
    """The number of eigenvectors that show k parts of n samples."""
    return min(k + k // 2 + 2, n - 1)


def parts_of(
    A: sparse.csr_array[Any],
    k: int,
    seed: int,
    restarts: int = PARTS_RESTARTS,
    merged: bool = False,
    spectrum: Spectrum | None = None,
) -> Array:
    """k parts of the graph, as the number of the part of each sample.

    ``merged``: the graph is cut into twice as many parts, and those with the largest share of common edges are merged.
    A large cluster, which spectral clustering would rather cut than separate two small ones, is put together again.

    Spectral clustering may cut off a few odd samples and leave most others in one part. If it does, the graph is cut
    into twice as many parts, which are merged again; this is kept if its modularity is much higher. But modularity is
    also higher if a large cluster is cut and small ones are merged. Such parts lose many more edges; they are not kept.

    ``spectrum``: the eigenvectors of A, if the graph is also divided into other numbers of parts.
    """
    spectrum = spectrum or Spectrum(A)
    if merged and 4 * k <= A.shape[0]:
        return in_order(merge_parts(A, spectral_clusters(A, 2 * k, seed, restarts, spectrum), k, shares_of_edges))
    part = spectral_clusters(A, k, seed, restarts, spectrum)
    if oversized(part, k) is not None and 4 * k <= len(part):
        merged_again = merge_parts(A, spectral_clusters(A, 2 * k, seed, restarts, spectrum), k, modularity_gains)
        is_higher = modularity(A, merged_again) > MUCH_HIGHER * max(0, modularity(A, part))
        if is_higher and lost_edges(A, merged_again) + LITTLE_LOSS <= MOST_LOSS * (lost_edges(A, part) + LITTLE_LOSS):
            part = merged_again
    return in_order(part)


def in_order(part: Array) -> Array:
    """The parts numbered in the order of their first samples, whatever rounding does."""
    _, first, part = np.unique(part, return_index=True, return_inverse=True)
    return np.asarray(np.argsort(np.argsort(first))[part])


def oversized(part: Array, k: int) -> int | None:
    """The number of a part with so many samples that it deserves doubt, or None."""
    sizes = np.bincount(part)
    largest = int(sizes.argmax())
    return largest if k > 1 and sizes[largest] > max(0.5, FAIR_SHARES / k) * len(part) else None


def modularity_gains(edges: Array, degrees: Array) -> Array:
    """For each two parts: the edges between them, beyond what their degrees explain."""
    return np.asarray(edges - np.outer(degrees, degrees))


def shares_of_edges(edges: Array, degrees: Array) -> Array:
    """For each two parts: the edges between them, as a fraction of all edges of the smaller part."""
    smaller = np.minimum.outer(degrees, degrees)
    return np.divide(edges, smaller, out=np.zeros_like(edges), where=smaller > 0)


def merge_parts(
    A: sparse.csr_array[Any], part: Array, k: int, gains_of: Callable[[Array, Array], Array] = modularity_gains
) -> Array:
    """Merge the two parts with the largest gain, until k parts are left."""
    names, part = np.unique(part, return_inverse=True)
    edges, _ = edges_between(A, part)
    group = np.arange(len(names))
    while len(edges) > k:
        gains = gains_of(edges, edges.sum(axis=1))
        np.fill_diagonal(gains, -np.inf)
        first, second = sorted(np.unravel_index(gains.argmax(), gains.shape))
        edges[first] += edges[second]
        edges[:, first] += edges[:, second]
        edges = np.delete(np.delete(edges, second, axis=0), second, axis=1)
        group[group == second] = first
        group[group > second] -= 1
    return group[part]


def lost_edges(A: sparse.csr_array[Any], part: Array) -> float:
    """The fraction of the edges of a part that leave it, as the mean over the parts."""
    edges, _ = edges_between(A, part)
    degrees = edges.sum(axis=1)
    kept = np.divide(np.diag(edges), degrees, out=np.ones(len(edges)), where=degrees > 0)
    return float(1 - kept.mean())


def modularity(A: sparse.csr_array[Any], part: Array) -> float:
    """The fraction of the weights of edges that lies inside parts, beyond what the degrees explain.

    M. E. J. Newman, M. Girvan: Finding and evaluating community structure in networks. Physical Review E 69, 2004.
    """
    edges, total = edges_between(A, part)
    return float(np.trace(edges) - (edges.sum(axis=1) ** 2).sum()) if total > 0 else 0.0


def edges_between(A: sparse.csr_array[Any], part: Array) -> tuple[Array, float]:
    """The weights of the edges between each two parts as fractions of all (parts, parts), and the sum of all."""
    member = np.eye(int(part.max()) + 1)[part]
    weights = member.T @ (A @ member)
    total = float(weights.sum())
    return weights / (total or 1.0), total


def spectral_clusters(
    A: sparse.csr_array[Any], k: int, seed: int, restarts: int = PARTS_RESTARTS, spectrum: Spectrum | None = None
) -> Array:
    """Spectral clustering: k parts of the graph with few and light edges between them. Returns the part of each sample.

    The coordinates of a sample are those of A. Ng, M. Jordan, Y. Weiss: On spectral clustering (NIPS 14, 2001), but
    there are more than k of them, and each is divided by 1 + c l, where l is its eigenvalue (normalized Laplacian).
    So it hardly matters whether a cluster is seen in the k-th coordinate or in the next.
    """
    n = A.shape[0]
    if n <= k:
        return np.arange(n)
    values, vectors = (spectrum or Spectrum(A)).leading(k)
    levels = np.clip(1 - values, 0, None)
    least = 1 / LEAST_WEIGHT - 1  # c l of the k-th
    vectors = vectors / (1 + levels * least / max(levels[k - 1], least / SMOOTHING))
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    vectors /= np.maximum(lengths, np.finfo(float).tiny)
    return kmeans(vectors, k, restarts, seed)


def component_vectors(A: sparse.csr_array[Any]) -> sparse.csc_array[Any]:
    """The vectors of the eigenvalue 1 of :func:`normalized_edges`: one per connected component, the largest first."""
    from scipy.sparse.csgraph import connected_components  # slow to import

    count, component = connected_components(A, directed=False)
    degrees = np.asarray(A.sum(axis=1), dtype=np.float64).ravel()
    sums = np.bincount(component, degrees, minlength=count)
    lengths = np.sqrt(degrees / np.where(sums > 0, sums, 1)[component])
    member = sparse.csc_array((lengths, (np.arange(len(degrees)), component)), shape=(len(degrees), count))
    order = np.argsort(-np.bincount(component), kind="stable")
    return member[:, order[sums[order] > 0]]


def normalized_edges(A: sparse.csr_array[Any]) -> sparse.csr_array[Any]:
    """a_im / sqrt(u_i u_m) with the degrees u. The normalized Laplacian is I minus this."""
    degrees = np.asarray(A.sum(axis=1), dtype=np.float64).ravel()
    scale = 1 / np.sqrt(np.where(degrees > 0, degrees, 1))
    weights = A.data * np.repeat(scale, np.diff(A.indptr))
    weights *= scale[A.indices]
    return sparse.csr_array((weights, A.indices, A.indptr), shape=A.shape)


@threads_for_blocks()
def explained_variance(source: BlockSource, part: Array) -> Array:
    """The adjusted R^2 of each feature: the fraction of its variance between the parts, at least 0, (d,)."""
    n, X_moments = source.shape[0], moments(source)
    member = np.eye(int(part.max()) + 1)[part]
    sizes = member.sum(axis=0)
    sums = transposed_times(source, member) - X_moments.means[:, None] * sizes  # centred
    between = (sums**2 / np.maximum(sizes, 1)).sum(axis=1)
    spread = X_moments.spread(n)
    within = np.divide(spread - between, spread, out=np.ones_like(spread), where=spread > 0)
    shares: Array = 1 - within * (n - 1) / max(n - np.count_nonzero(sizes), 1)
    return np.clip(shares, 0, 1)
