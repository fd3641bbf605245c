"""The exact search in memory: blocks of samples are compared with all samples, in threads."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy import sparse

from mccgr_cli.blocks.in_memory import MemoryBlocks
from mccgr_cli.blocks.protocol import Array, Matrix, chunks
from mccgr_cli.blocks.threads import threads_for_blocks
from mccgr_cli.core.neighbours import distances
from mccgr_cli.core.neighbours.distances import EXTRA, SEARCH_BYTES, Candidates, Group, ProductDistances, smallest
from mccgr_cli.core.neighbours.intersection import IntersectionSearch
from mccgr_cli.system.phases import advance, expect

SETTLED_ROWS = 1000  # samples whose candidates are compared together
LEAST_BLOCKS, LEAST_ROWS = 8, 100  # so that all cores have work, unless the samples are few
MUTUAL = 128  # from this number of features on, each product of two samples is computed once and used for both


@threads_for_blocks()
def exact_neighbours(X: Matrix, neighbors: int) -> Array:
    """The nearest others of every sample, the nearest first, (n, neighbors)."""
    n, d = X.shape
    if sparse.issparse(X) or d < MUTUAL:
        return neighbours_of(X, np.arange(n), neighbors)
    columns, certain = mutual_search(X, neighbors)
    doubtful = np.flatnonzero(~certain)
    if len(doubtful):
        columns[doubtful] = neighbours_of(X, doubtful, neighbors, "float64")
    return columns


@threads_for_blocks()
def neighbours_of(X: Matrix, index: Array, neighbors: int, dtype: str = "float32") -> Array:
    """The nearest others of the samples ``index``, (r, neighbors).

    Dense samples are first compared in single precision. Where rounding might have hidden a neighbour, samples are
    compared again in double precision. Where that is not enough, because samples are much nearer to each other than to
    their mean, they are compared by differences.
    """
    if sparse.issparse(X):
        dtype = "float64"
    rows = rows_to_compare(X.shape[0], np.dtype(dtype).itemsize, X.shape[0])
    columns, certain = product_search(X, index, neighbors, dtype, rows)
    doubtful = np.flatnonzero(~certain)
    if len(doubtful) and dtype == "float32":
        columns[doubtful] = neighbours_of(X, index[doubtful], neighbors, "float64")
    elif len(doubtful):

        def compare(index_b: Array) -> tuple[Array]:
            squares = distances.differences(X[index_b], X)
            squares[np.arange(len(index_b)), index_b] = np.inf
            return (smallest(squares, neighbors + EXTRA).first(neighbors).columns,)

        rows = max(1, min(rows, SEARCH_BYTES // (8 * X.shape[1])))
        (columns[doubtful],) = by_blocks(index[doubtful], rows, compare)
    return columns


@threads_for_blocks()
def neighbours_among(X: Array, queries: Array, neighbors: int, dtype: str = "float32") -> tuple[Array, Array]:
    """The rows of X that are nearest to each of ``queries``, the nearest first, and the squared distances to them.

    Both are (r, neighbors). As in :func:`neighbours_of`, rows are compared again where rounding leaves a doubt.
    """
    compared = distances.product_distances(X, dtype)

    def compare(index_b: Array) -> tuple[Array, Array, Array]:
        samples, own = compared.prepared(queries[index_b])
        found = smallest(compared.to_all(samples, own), min(neighbors + EXTRA, X.shape[0]))
        halves = distances.half_squares(queries[index_b], X, found.columns)
        near = Candidates(found.columns, halves, found.beyond).first(neighbors)
        certain = compared.is_certain(own, found.beyond, near.values[:, -1] * compared.scale**2)
        return near.columns, 2 * near.values, certain

    rows = rows_to_compare(len(queries), compared.samples.itemsize, X.shape[0])
    columns, squares, certain = by_blocks(np.arange(len(queries)), rows, compare)
    doubtful = np.flatnonzero(~certain)
    if len(doubtful) and dtype == "float32":
        columns[doubtful], squares[doubtful] = neighbours_among(X, queries[doubtful], neighbors, "float64")
    return columns, squares


def rows_to_compare(samples: int, itemsize: int, others: int) -> int:
    """The number of samples per block: limited by memory, and small enough that all cores have work."""
    return max(1, min(SEARCH_BYTES // (itemsize * others), max(LEAST_ROWS, -(-samples // LEAST_BLOCKS))))


def by_blocks(index: Array, rows: int, function: Callable[..., tuple[Array, ...]], *arrays: Array) -> list[Array]:
    """Call ``function(index_b, *arrays_b)`` for blocks of sample numbers, and concatenate the results."""
    expect(len(index), "samples")
    found = []
    for where, result in MemoryBlocks(index[:, None], rows).map(
        lambda index_b, *arrays_b: function(index_b[:, 0], *arrays_b), arrays
    ):
        found.append(result)
        advance(where.stop - where.start, "samples")
    return [np.concatenate(results) for results in zip(*found, strict=True)]


def settled(
    index: Array, columns: Array, beyond: Array, X: Matrix, compared: ProductDistances, neighbors: int
) -> tuple[Array, Array]:
    """The nearest candidates by their exact distances, and whether it is certain that no other sample is nearer."""
    halves = distances.half_squares(X[index], X, columns) * compared.scale**2
    nearest = Candidates(columns, halves, beyond).first(neighbors)
    return nearest.columns, compared.is_certain(compared.halves[index], beyond, nearest.values[:, -1])


def product_search(X: Matrix, index: Array, neighbors: int, dtype: str, rows: int) -> list[Array]:
    """The nearest others of some samples by products, and whether they are certain."""
    compared = distances.product_distances(X, dtype)

    def compare(index_b: Array) -> tuple[Array, Array]:
        found = smallest(compared.from_samples(index_b), min(neighbors + EXTRA, X.shape[0] - 1))
        return settled(index_b, found.columns, found.beyond, X, compared, neighbors)

    return by_blocks(index, rows, compare)


def mutual_search(X: Matrix, neighbors: int) -> list[Array]:
    """As :func:`product_search` for all samples. The products of two blocks serve the samples of both."""
    n, count = X.shape[0], min(neighbors + EXTRA, X.shape[0] - 1)
    compared = distances.product_distances(X, "float32")
    samples = compared.samples
    size = min(-(-n // LEAST_BLOCKS), int(np.sqrt(SEARCH_BYTES / 2 / samples.itemsize)))  # split_product needs two
    blocks = chunks(n, size)
    pairs = np.transpose(np.triu_indices(len(blocks)))
    best: list[list[Candidates]] = [[] for _ in blocks]

    def compare(pair_b: Array) -> list[Candidates]:
        """Candidates for the samples of one block among those of another, and the reverse."""
        one, other = (blocks[block] for block in pair_b[0])
        halves = distances.split_product(distances.query_form(samples[one]), samples[other])
        if one == other:
            np.fill_diagonal(halves, np.inf)
            return [smallest(halves, count, one.start)]
        return [smallest(halves, count, other.start), smallest(halves.T, count, one.start)]

    def settle(index_b: Array, columns_b: Array, beyond_b: Array) -> tuple[Array, Array]:
        return settled(index_b, columns_b, beyond_b, X, compared, neighbors)

    expect(2 * n, "samples")  # compared here, and settled below
    for where, found in MemoryBlocks(pairs, 1).map(compare):
        advance(n * where.stop // len(pairs) - n * where.start // len(pairs), "samples")
        for block, candidates in zip(pairs[where.start], found, strict=False):
            best[block] = [distances.merge_columns([*best[block], candidates]).smallest(count)]
    candidates = distances.stack_rows([one for (one,) in best])
    return by_blocks(np.arange(n), SETTLED_ROWS, settle, candidates.columns, candidates.beyond)


@threads_for_blocks()
def by_intersection(X: Matrix, neighbors: int) -> Array:
    """The others with the largest sums of minima, the largest first, (n, neighbors)."""
    n = X.shape[0]
    search = IntersectionSearch.among(Group(X, 0, np.ones(n, dtype=bool)))

    def compare(index: Array) -> tuple[Array]:
        return (search.nearest(search.group.rows[index], index, None, neighbors).first(neighbors).columns,)

    (columns,) = by_blocks(np.arange(n), rows_to_compare(n, 8, n), compare)
    return columns
