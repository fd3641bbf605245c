"""The nearest-neighbour graph that keeps similar samples together."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse
from scipy.sparse.csgraph import connected_components

from mccgr_cli.axes import coordinates
from mccgr_cli.blocks import (
    Array,
    BlockSource,
    Matrix,
    MemoryBlocks,
    chunks,
    moments,
    threads_for_blocks,
    transposed_times,
)
from mccgr_cli.clustering import kmeans
from mccgr_cli.neighbours import Search, nearest
from mccgr_cli.normalize import normalize, weigh_features
from mccgr_cli.settings import GraphSettings

# Samples whose mean distance sets the width of the heat kernel, and edges weighed together.
WIDTH_SAMPLE = 2000
EDGE_BLOCK = 1 << 14
EVENNESS = 0.1  # of the principal axes: between as long as they are (0) and all alike (1)
DENSE_GRAPH = 2000  # samples up to which eigenvectors are found densely
PARTS_RESTARTS = 10


def build_graph(
    X: Matrix,
    settings: GraphSettings,
    counts: Array | None = None,
    on_search: Callable[[Search], None] | None = None,
) -> sparse.csr_array[Any]:
    """The weighted adjacency A (n, n): symmetric, non-negative, nothing on the diagonal.

    ``counts`` (d,) says how much each feature counts in a distance; by default all count alike. ``on_search`` is
    told how the neighbours were found.
    """
    n = X.shape[0]
    placed = place(X, settings.axes_for(), counts) if n > 1 else X
    neighbors = min(settings.neighbors, n - 1)
    if neighbors < 1:
        return sparse.csr_array((n, n), dtype=np.float64)
    metric = settings.metric or ("cosine" if settings.weight == "cosine" else "euclidean")
    found = nearest(placed, neighbors, metric, settings.search)
    if on_search is not None:
        on_search(found.search)
    rows, columns = found.rows, found.columns
    # Both directions get the same weight, so that the larger and the smaller of the two are union and mutual.
    weights = edge_weights(X if settings.weight == "histogram" else placed, rows, columns, settings)
    directed = sparse.csr_array((np.maximum(weights, 0), (rows, columns)), shape=(n, n))  # a cosine may be below 0
    join = directed.maximum if settings.symmetry == "union" else directed.minimum
    A = sparse.csr_array(join(directed.T.tocsr()))
    A.eliminate_zeros()
    A.sort_indices()
    return A


@threads_for_blocks()
def place(X: Matrix, axes: int, counts: Array | None) -> Matrix:
    """Where neighbours are sought: on the principal axes of the features, or among the rows."""
    if axes:
        source = MemoryBlocks(X)
        scale = None if counts is None else np.sqrt(counts)
        return coordinates(source, moments(source), axes, EVENNESS, scale)
    return X if counts is None else weigh_features(X, counts)


def edge_weights(X: Matrix, rows: Array, columns: Array, settings: GraphSettings) -> Array:
    if settings.weight == "binary":
        return np.ones(len(rows))
    if settings.weight == "shared":
        return overlap(rows, columns, X.shape[0])
    if settings.weight == "cosine":
        X = normalize(X.copy(), "l2")
    weights = np.empty(len(rows))
    for part in chunks(len(rows), EDGE_BLOCK):
        weights[part] = compare(X[rows[part]], X[columns[part]], settings.weight)
    if settings.weight != "heat":
        return weights
    width = settings.heat_width or mean_distance(X)
    return np.exp(-weights / (2 * width**2)) if width > 0 else np.ones(len(rows))


def overlap(rows: Array, columns: Array, n: int) -> Array:
    """Of two samples, each with its neighbours: how many both have, over how many either has (Jaccard)."""
    near = sparse.csr_array((np.ones(len(rows)), (rows, columns)), shape=(n, n)) + sparse.eye_array(n, format="csr")
    sizes = np.asarray(near.sum(axis=1)).ravel()
    both = np.empty(len(rows))
    for part in chunks(len(rows), EDGE_BLOCK):
        both[part] = compare(near[rows[part]], near[columns[part]], "cosine")
    shares: Array = both / (sizes[rows] + sizes[columns] - both)
    return shares


def compare(left: Any, right: Any, measure: str) -> Array:
    """Row by row: squared distance (heat), sum of minima (histogram) or inner product (cosine)."""
    if measure == "histogram":
        compared = np.minimum(left, right) if isinstance(left, np.ndarray) else left.minimum(right)
    elif measure == "heat":
        gap = left - right
        compared = gap * gap
    else:
        compared = left * right
    return np.asarray(compared.sum(axis=1, dtype=np.float64)).ravel()


def mean_distance(X: Matrix) -> float:
    """Over all pairs of samples, or of an even selection of them when they are many."""
    from sklearn.metrics import pairwise_distances

    sample = X[np.linspace(0, X.shape[0] - 1, min(X.shape[0], WIDTH_SAMPLE)).astype(int)]
    return float(pairwise_distances(sample).mean())


@dataclass(frozen=True)
class GraphHealth:
    """What to know before trusting a graph."""

    samples: int
    edges: int
    isolated: int
    components: int

    def __str__(self) -> str:
        return (
            f"{self.samples} samples, {self.edges} edges, isolated samples: {self.isolated}, "
            f"connected components: {self.components}"
        )


def examine(A: sparse.csr_array[Any]) -> GraphHealth:
    components, _ = connected_components(A, directed=False)
    isolated = int(np.count_nonzero(A.sum(axis=1) == 0))
    return GraphHealth(A.shape[0], int(np.count_nonzero(A.data)) // 2, isolated, int(components))


@threads_for_blocks()  # which of many isolated parts come first is decided by rounding, and it by threads
def parts(A: sparse.csr_array[Any], k: int, seed: int) -> Array:
    """The part, of k, that each sample falls into when few and light edges are cut, (n,).

    A. Ng, M. Jordan, Y. Weiss: On spectral clustering: analysis and an algorithm. NIPS 14, 2001.
    """
    n = A.shape[0]
    if n <= k:
        return np.arange(n)
    degrees = np.asarray(A.sum(axis=1), dtype=np.float64).ravel()
    scale = 1 / np.sqrt(np.where(degrees > 0, degrees, 1))
    even = sparse.csr_array(A * scale[:, None] * scale[None, :], dtype=np.float64)
    if n <= DENSE_GRAPH or 4 * k >= n:
        vectors = np.linalg.eigh(even.toarray())[1][:, -k:]
    else:
        from scipy.sparse.linalg import eigsh

        start = np.random.default_rng(0).random(n)
        vectors = eigsh(even, k=k, which="LA", v0=start, ncv=min(n, max(4 * k, 20)))[1]
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return kmeans(vectors / np.maximum(lengths, np.finfo(float).tiny), k, PARTS_RESTARTS, seed)


@threads_for_blocks()
def explained(source: BlockSource, part: Array) -> Array:
    """Of the variance of each feature the share that lies between the parts: the adjusted R^2, at least 0, (d,)."""
    n, known = source.shape[0], moments(source)
    member = np.eye(int(part.max()) + 1)[part]
    sizes = member.sum(axis=0)
    sums = transposed_times(source, member) - known.means[:, None] * sizes  # about the mean: small beside it, perhaps
    between = (sums**2 / np.maximum(sizes, 1)).sum(axis=1)
    spread = known.spread(n)
    within = np.divide(spread - between, spread, out=np.ones_like(spread), where=spread > 0)
    shares: Array = 1 - within * (n - 1) / max(n - np.count_nonzero(sizes), 1)
    return np.clip(shares, 0, 1)
