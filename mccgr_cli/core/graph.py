"""The neighbour graph: which samples are neighbours, and the weights of the edges between them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from mccgr_cli.blocks.in_memory import as_source, is_matrix
from mccgr_cli.blocks.products import moments
from mccgr_cli.blocks.protocol import Array, BlockSource, Matrix, Partial, chunks, sum_over_blocks
from mccgr_cli.blocks.rows import take_rows, transformed, unit_rows, weigh_features
from mccgr_cli.blocks.threads import threads_for_blocks
from mccgr_cli.core.kmeans import distances_to, squared_lengths
from mccgr_cli.core.neighbours import LARGEST_EXACT, ROOM, NeighbourPairs, Search, nearest, row_groups
from mccgr_cli.core.principal_axes import PASSES, coordinates
from mccgr_cli.settings import NEIGHBORS, GraphSettings
from mccgr_cli.system.phases import advance, expect, phase

WIDTH_SAMPLE = 2000  # samples whose mean distance is the width of the heat kernel
EDGE_BLOCK = 1 << 14  # edges that are weighted together
EVENNESS = 0.1  # of the principal axes, if none is chosen; 0: their own lengths, 1: equal lengths


def build_graph(
    X: Matrix | BlockSource,
    settings: GraphSettings,
    counts: Array | None = None,
    on_search: Callable[[Search], None] | None = None,
    room: int = ROOM,
) -> sparse.csr_array[Any]:
    """Build the neighbour graph.

    Parameters
    ----------
    counts
        The weights of the features in a distance, (d,); by default all are 1.
    on_search
        Called with the way in which the neighbours were found.
    room
        Bytes of memory for rows if X is not in memory. With fewer bytes there are more passes over X.

    Returns
    -------
    sparse.csr_array
        The weights of the edges A (n, n): symmetric, non-negative, with an empty diagonal.
    """
    n = X.shape[0]
    neighbors = min(settings.neighbors or NEIGHBORS[0], n - 1)
    if neighbors < 1:
        return sparse.csr_array((n, n), dtype=np.float64)
    groups: Sequence[slice] = ()  # rows of a source that are held in memory together
    if not is_matrix(X):
        if X.whole is not None:
            X = X.whole
        elif len(groups := row_groups(X, room)) == 1:
            X, groups = X.take(groups[0]), ()
    points = search_points(X, settings, settings.axes_for(), counts)
    metric = settings.metric or ("cosine" if settings.weight == "cosine" else "euclidean")
    found = nearest(points, neighbors, metric, settings.search, groups)
    if on_search is not None:
        on_search(found.search)
    # Both directions of an edge have the same weight, so the maximum is the union and the minimum is mutual.
    with phase("weighing edges", "edges"):
        weights = edge_weights(X if settings.weight == "histogram" else points, found, settings, groups)
        weights = np.maximum(weights, 0)  # a cosine may be negative
        directed = sparse.csr_array((weights, (found.rows, found.columns)), shape=(n, n))
        join = directed.maximum if settings.symmetry == "union" else directed.minimum
        A = sparse.csr_array(join(directed.T.tocsr()))
        A.eliminate_zeros()
        A.sort_indices()
    return A


def search_points(
    X: Matrix | BlockSource, settings: GraphSettings, axes: int, counts: Array | None
) -> Matrix | BlockSource:
    """The points among which neighbours are searched: samples on principal axes or, with 0 axes, the rows of X."""
    if axes:
        return principal_coordinates(X, axes, counts, EVENNESS if settings.evenness is None else settings.evenness)
    return X if counts is None else transformed(X, weigh_features, counts)


@threads_for_blocks()
def principal_coordinates(
    X: Matrix | BlockSource, axes: int, counts: Array | None, evenness: float = EVENNESS
) -> Array:
    """The samples on principal axes, (n, axes); in single precision if they are many."""
    source = as_source(X)
    scale = None if counts is None else np.sqrt(counts)
    dtype = "float32" if source.shape[0] > LARGEST_EXACT else "float64"
    with phase("finding principal axes", "rows", (PASSES + 2) * source.shape[0]):
        return coordinates(source, moments(source).means, axes, evenness, scale, dtype)


def edge_weights(
    X: Matrix | BlockSource, found: NeighbourPairs, settings: GraphSettings, groups: Sequence[slice]
) -> Array:
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
    with np.errstate(over="ignore"):  # an infinite distance gives no edge
        return np.exp(-weights / (2 * width**2))


def overlap(rows: Array, columns: Array, n: int) -> Array:
    """|N_i and N_m| / |N_i or N_m| for each edge, where N_i are sample i and its neighbours (Jaccard index)."""
    near = sparse.csr_array((np.ones(len(rows)), (rows, columns)), shape=(n, n)) + sparse.eye_array(n, format="csr")
    sizes = np.asarray(near.sum(axis=1)).ravel()
    both = compare_pairs(near, rows, near, columns, "cosine")
    return np.asarray(both / (sizes[rows] + sizes[columns] - both))


def compare_pairs(X: Matrix, rows: Array, others: Matrix, columns: Array, measure: str) -> Array:
    """Compare rows of X with the same number of rows of another matrix, as :func:`compare` does."""
    compared = np.empty(len(rows))
    expect(len(rows), "edges")
    for some in chunks(len(rows), EDGE_BLOCK):
        compared[some] = compare(X[rows[some]], others[columns[some]], measure)
        advance(some.stop - some.start, "edges")
    return compared


@threads_for_blocks()
def compare_by_blocks(source: BlockSource, found: NeighbourPairs, measure: str, groups: Sequence[slice]) -> Array:
    """Compare both ends of all edges, in one pass over X for each group of rows."""
    rows, columns = found.rows, found.columns
    which = np.arange(len(rows)) - np.searchsorted(rows, rows)  # number of an edge within its row
    ends = np.full((source.shape[0], int(which.max(initial=0)) + 1), -1)
    ends[rows, which] = columns
    compared = np.zeros(ends.shape)
    for where in groups:
        shared = (source.take(where), where.start, measure)
        sum_over_blocks(source, block_edges, (ends, compared), shared, into=(compared,))
    return np.asarray(compared[rows, which])


def block_edges(X_b: Matrix, ends_b: Array, compared_b: Array, others: Matrix, first: int, measure: str) -> Partial:
    """Add the edges from the block to ``others``, the rows of X from number ``first`` on."""
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


@threads_for_blocks()  # its rounding is in every weight of an edge
def mean_distance(X: Matrix | BlockSource) -> float:
    """The mean distance of all pairs of samples, or of evenly spaced samples if they are many."""
    n = X.shape[0]
    index = np.linspace(0, n - 1, min(n, WIDTH_SAMPLE)).astype(int)
    some = take_rows(as_source(X), index).astype(np.float64)
    return float(np.sqrt(distances_to(some, squared_lengths(some), np.arange(len(index)))).mean())


@dataclass(frozen=True)
class GraphHealth:
    """Numbers that show whether a graph is usable."""

    samples: int
    edges: int
    isolated: int
    components: int

    def __str__(self) -> str:
        return (
            f"{self.samples} samples, {self.edges} edges, isolated samples: {self.isolated}, "
            f"connected components: {self.components}"
        )


def graph_health(A: sparse.csr_array[Any]) -> GraphHealth:
    """Count the edges, isolated samples and connected components of a graph."""
    from scipy.sparse.csgraph import connected_components  # slow to import

    components, _ = connected_components(A, directed=False)
    isolated = int(np.count_nonzero(A.sum(axis=1) == 0))
    return GraphHealth(A.shape[0], int(np.count_nonzero(A.data)) // 2, isolated, int(components))
