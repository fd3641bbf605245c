"""The nearest-neighbour graph that keeps similar samples together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from mccgr_cli.blocks.in_memory import as_source, is_matrix
from mccgr_cli.blocks.products import moments, transposed_times
from mccgr_cli.blocks.protocol import Array, BlockSource, Matrix, Partial, chunks, sweep
from mccgr_cli.blocks.rows import transformed, unit_rows, weigh_features
from mccgr_cli.blocks.threads import threads_for_blocks
from mccgr_cli.core.kmeans import kmeans
from mccgr_cli.core.neighbours import LARGEST_EXACT, ROOM, Found, Search, nearest, row_groups
from mccgr_cli.core.principal_axes import coordinates
from mccgr_cli.settings import GraphSettings

# Samples whose mean distance sets the width of the heat kernel, and edges weighed together.
WIDTH_SAMPLE = 2000
EDGE_BLOCK = 1 << 14
EVENNESS = 0.1  # of the principal axes: between as long as they are (0) and all alike (1)
DENSE_GRAPH = 2000  # samples up to which eigenvectors are found densely
MANY = 200_000  # samples from which on memory matters more than a few steps
PARTS_RESTARTS = 10


def build_graph(
    X: Matrix | BlockSource,
    settings: GraphSettings,
    counts: Array | None = None,
    on_search: Callable[[Search], None] | None = None,
    room: int = ROOM,
) -> sparse.csr_array[Any]:
    """The weighted adjacency A (n, n): symmetric, non-negative, nothing on the diagonal.

    ``counts`` (d,) says how much each feature counts in a distance; by default all count alike. ``on_search`` is
    told how the neighbours were found. ``room``: bytes for the rows that are held at a time, where X is not in memory;
    the fewer, the more passes over X.
    """
    n = X.shape[0]
    neighbors = min(settings.neighbors, n - 1)
    if neighbors < 1:
        return sparse.csr_array((n, n), dtype=np.float64)
    X, groups = brought(X, room)
    placed = place(X, settings.axes_for(), counts)
    metric = settings.metric or ("cosine" if settings.weight == "cosine" else "euclidean")
    found = nearest(placed, neighbors, metric, settings.search, groups)
    if on_search is not None:
        on_search(found.search)
    # Both directions get the same weight, so that the larger and the smaller of the two are union and mutual.
    weights = edge_weights(X if settings.weight == "histogram" else placed, found, settings, groups)
    weights = np.maximum(weights, 0)  # a cosine may be below
    directed = sparse.csr_array((weights, (found.rows, found.columns)), shape=(n, n))
    join = directed.maximum if settings.symmetry == "union" else directed.minimum
    A = sparse.csr_array(join(directed.T.tocsr()))
    A.eliminate_zeros()
    A.sort_indices()
    return A


def brought(X: Matrix | BlockSource, room: int) -> tuple[Matrix | BlockSource, Sequence[slice]]:
    """X itself, if it is in memory or there is room for it; or the source, and the rows to hold at a time."""
    if is_matrix(X):
        return X, ()
    if X.whole is not None:
        return X.whole, ()
    groups = row_groups(X, room)
    return (X.take(groups[0]), ()) if len(groups) == 1 else (X, groups)


def place(X: Matrix | BlockSource, axes: int, counts: Array | None) -> Matrix | BlockSource:
    """Where neighbours are sought: on the principal axes of the features, or among the rows."""
    if axes:
        return on_axes(X, axes, counts)
    return X if counts is None else transformed(X, weigh_features, counts)


@threads_for_blocks()
def on_axes(X: Matrix | BlockSource, axes: int, counts: Array | None) -> Array:
    """(n, axes), in single precision where samples are many."""
    source = as_source(X)
    scale = None if counts is None else np.sqrt(counts)
    dtype = "float32" if source.shape[0] > LARGEST_EXACT else "float64"
    return coordinates(source, moments(source), axes, EVENNESS, scale, dtype)


def edge_weights(X: Matrix | BlockSource, found: Found, settings: GraphSettings, groups: Sequence[slice]) -> Array:
    if settings.weight == "binary":
        return np.ones(len(found.rows))
    if settings.weight == "shared":
        return overlap(found.rows, found.columns, X.shape[0])
    if settings.weight == "cosine":
        X = transformed(X, unit_rows)
    if is_matrix(X):
        weights = compare_pairs(X, found.rows, X, found.columns, settings.weight)
    else:
        weights = compare_by_blocks(X, found, settings.weight, groups)
    if settings.weight != "heat":
        return weights
    width = settings.heat_width or mean_distance(X)
    if width == 0:
        return np.ones(len(weights))
    with np.errstate(over="ignore"):  # infinitely far apart: no edge
        return np.exp(-weights / (2 * width**2))


def overlap(rows: Array, columns: Array, n: int) -> Array:
    """Of two samples, each with its neighbours: how many both have, over how many either has (Jaccard)."""
    near = sparse.csr_array((np.ones(len(rows)), (rows, columns)), shape=(n, n)) + sparse.eye_array(n, format="csr")
    sizes = np.asarray(near.sum(axis=1)).ravel()
    both = compare_pairs(near, rows, near, columns, "cosine")
    shares: Array = both / (sizes[rows] + sizes[columns] - both)
    return shares


def compare_pairs(X: Matrix, rows: Array, others: Matrix, columns: Array, measure: str) -> Array:
    """Some rows of X with as many others, as :func:`compare` does."""
    compared = np.empty(len(rows))
    for part in chunks(len(rows), EDGE_BLOCK):
        compared[part] = compare(X[rows[part]], others[columns[part]], measure)
    return compared


@threads_for_blocks()
def compare_by_blocks(source: BlockSource, found: Found, measure: str, groups: Sequence[slice]) -> Array:
    """Along the edges that were found: those that lead to a group take a pass."""
    rows, columns = found.rows, found.columns
    which = np.arange(len(rows)) - np.searchsorted(rows, rows)  # of the edges of its row, as they come in this order
    ends = np.full((source.shape[0], int(which.max(initial=0)) + 1), -1)
    ends[rows, which] = columns
    compared = np.zeros(ends.shape)
    for where in groups:
        shared = (source.take(where), where.start, measure)
        sweep(source, block_edges, (ends, compared), shared, into=(compared,))
    along: Array = compared[rows, which]
    return along


def block_edges(X_b: Matrix, ends_b: Array, compared_b: Array, others: Matrix, first: int, measure: str) -> Partial:
    """What is known of the edges of the block, and of those that lead to the others, which start with ``first``."""
    compared = compared_b.copy()
    rows, which = np.nonzero((ends_b >= first) & (ends_b < first + others.shape[0]))
    compared[rows, which] = compare_pairs(X_b, rows, others, ends_b[rows, which] - first, measure)
    return Partial(rows=(compared,))


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


def mean_distance(X: Matrix | BlockSource) -> float:
    """Over all pairs of samples, or of an even selection of them when they are many."""
    from sklearn.metrics import pairwise_distances

    n = X.shape[0]
    index = np.linspace(0, n - 1, min(n, WIDTH_SAMPLE)).astype(int)
    return float(pairwise_distances(X[index] if is_matrix(X) else some_rows(X, index)).mean())


def some_rows(source: BlockSource, index: Array) -> Matrix:
    """Few rows of X, from all over it, in one pass."""
    chosen = np.zeros(source.shape[0], dtype=bool)
    chosen[index] = True
    kept = np.empty(source.shape[0], dtype=object)
    sweep(source, block_chosen, (chosen,), into=(kept,))
    rows = kept[index].tolist()
    return sparse.vstack(rows, format="csr") if sparse.issparse(rows[0]) else np.vstack(rows)


def block_chosen(X_b: Matrix, chosen_b: Array) -> Partial:
    """Of each sample its row, (1, d), or nothing if it is not chosen."""
    kept = np.empty(X_b.shape[0], dtype=object)
    for i in np.flatnonzero(chosen_b):
        kept[i] = X_b[[i]]
    return Partial(rows=(kept,))


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
    from scipy.sparse.csgraph import connected_components  # slow to import

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
    weights = A.data * np.repeat(scale, np.diff(A.indptr))
    weights *= scale[A.indices]
    even = sparse.csr_array((weights, A.indices, A.indptr), shape=A.shape)
    if n <= DENSE_GRAPH or 4 * k >= n:
        vectors = np.linalg.eigh(even.toarray())[1][:, -k:]
    else:
        from scipy.sparse.linalg import eigsh

        start = np.random.default_rng(0).random(n)
        beyond = 2 * k if n > MANY else 4 * k  # vectors that take part, each as long as there are samples
        vectors = eigsh(even, k=k, which="LA", v0=start, ncv=min(n, max(beyond + 1, 20)))[1]
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    vectors /= np.maximum(lengths, np.finfo(float).tiny)
    return kmeans(vectors, k, PARTS_RESTARTS, seed)


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
