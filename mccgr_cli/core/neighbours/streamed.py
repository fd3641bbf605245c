"""The exact search if X is not in memory: groups of its rows are held in memory, each compared with all blocks.

The samples of a block are compared with the rows of the group, so the result has one row per sample, as results of
blocks have. The neighbours found in earlier groups are passed along and improved.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from scipy import sparse

from mccgr_cli.blocks.protocol import Array, BlockSource, Matrix, Partial, chunks, sum_over_blocks
from mccgr_cli.blocks.rows import TransformedBlocks, row_sizes, unit_rows
from mccgr_cli.blocks.threads import threads_for_blocks
from mccgr_cli.core.neighbours import distances
from mccgr_cli.core.neighbours.distances import EXTRA, SEARCH_BYTES, Candidates, Group, ProductDistances, smallest
from mccgr_cli.core.neighbours.intersection import IntersectionSearch

ROOM = 256 << 20  # bytes of memory for the rows of a group, by default
DENSE_VALUE = 12  # bytes per value: in double precision, and centred in single precision
SPARSE_VALUE = 32  # bytes per value: with its index, by rows and by columns
DOUBLE_BYTES = 8 << 20  # of rows that are compared together in double precision


def row_groups(source: BlockSource, room: int) -> list[slice]:
    """Groups of consecutive rows that fit into ``room`` bytes, at least one row each. A sparse X takes one pass."""
    n, d = source.shape
    sizes = np.full(n, DENSE_VALUE * d)
    if sparse.issparse(source.take(slice(0, 1))):
        sum_over_blocks(source, values_per_row, into=(sizes,))
        sizes = SPARSE_VALUE * (sizes + 1)
    before = np.concatenate([[0], np.cumsum(sizes)])
    borders = [0]
    while borders[-1] < n:
        first = borders[-1]
        last = int(np.searchsorted(before, before[first] + room, side="right")) - 1
        borders.append(max(first + 1, last))
    return [slice(first, last) for first, last in pairwise(borders)]


def values_per_row(X_b: Matrix) -> Partial:
    return Partial(rows=(np.diff(X_b.indptr),))


@threads_for_blocks()
def streamed_neighbours(source: BlockSource, neighbors: int, metric: str, groups: Sequence[slice]) -> Array:
    """The nearest others of every sample, the nearest first, (n, neighbors); -1 if there are too few.

    Makes one pass over X for each group.
    """
    n = source.shape[0]
    if metric == "cosine":  # for unit rows both metrics give the same order
        source = TransformedBlocks(source, unit_rows)
    columns, values = np.full((n, neighbors), -1), np.full((n, neighbors), np.inf)
    for where in groups:
        rows = source.take(where)
        group = Group(rows, where.start, present(rows, metric))
        search = IntersectionSearch.among(group) if metric == "histogram" else DistanceSearch.among(group)
        shared = (search, metric, neighbors)
        sum_over_blocks(source, block_nearest, (np.arange(n), columns, values), shared, into=(columns, values))
    return columns


def present(X: Matrix, metric: str) -> Array:
    """Which samples can have neighbours: all, or for metrics without a distance from 0 all but empty ones."""
    return np.ones(X.shape[0], dtype=bool) if metric == "euclidean" else row_sizes(X, "l2") > 0


def block_nearest(
    X_b: Matrix,
    numbers_b: Array,
    columns_b: Array,
    values_b: Array,
    search: IntersectionSearch | DistanceSearch,
    metric: str,
    neighbors: int,
) -> Partial:
    """The nearest among the neighbours known so far and the rows of the group."""
    columns, values = columns_b.copy(), values_b.copy()
    queries = np.flatnonzero(present(X_b, metric))
    for where in chunks(len(queries), max(1, SEARCH_BYTES // (8 * search.group.rows.shape[0]))):
        some = queries[where]
        known = Candidates(columns_b[some], values_b[some], np.full(len(some), np.inf))
        found = search.nearest(X_b[some], numbers_b[some], values_b[some, -1], neighbors)
        best = distances.merge_columns([known, found]).first(neighbors)  # -1 (too few) comes before excluded rows
        columns[some], values[some] = best.columns, best.values
    return Partial(rows=(columns, values))


@dataclass(frozen=True)
class DistanceSearch:
    """A search among the rows of a group: by products first, then by exact differences.

    Where the rounding of products might have hidden a neighbour, products are repeated in double precision. Where that
    is not enough, all differences are computed.
    """

    group: Group
    compared: ProductDistances

    @classmethod
    def among(cls, group: Group) -> DistanceSearch:
        """Dense samples are compared in single precision first."""
        dtype = "float64" if sparse.issparse(group.rows) else "float32"
        return cls(group, distances.product_distances(group.rows, dtype, widest=group.rows.shape[1]))

    def nearest(self, queries: Matrix, numbers: Array, limit: Array, neighbors: int) -> Candidates:
        """The nearest rows of the group for samples with these numbers, if they are nearer than ``limit``.

        Columns are numbers of samples. Rows that are farther away may be missing.
        """
        samples, own = self.compared.prepared(queries)
        found = smallest(self.group.exclude(self.compared.to_all(samples, own), numbers), neighbors + EXTRA)
        result = settle(found, queries, self.group, neighbors)
        farthest = result.values[:, -1] if result.values.shape[1] == neighbors else np.inf
        scaled = np.minimum(farthest, limit) * self.compared.scale**2
        doubtful = np.flatnonzero(~self.compared.is_certain(own, found.beyond, scaled))
        if len(doubtful):
            again = in_double if self.compared.samples.dtype == np.float32 else by_differences
            better = again(self.group, queries[doubtful], numbers[doubtful], limit[doubtful], neighbors)
            result.columns[doubtful], result.values[doubtful] = better.columns, better.values
        return result


def settle(found: Candidates, queries: Matrix, group: Group, neighbors: int) -> Candidates:
    """The nearest candidates by their exact distances."""
    halves = distances.half_squares(queries, group.rows, found.columns)
    halves[np.isinf(found.values)] = np.inf
    return Candidates(found.columns + group.first, halves, found.beyond).first(neighbors)


def in_double(group: Group, queries: Matrix, numbers: Array, limit: Array, neighbors: int) -> Candidates:
    found = []
    for where in chunks(group.rows.shape[0], max(1, DOUBLE_BYTES // (8 * group.rows.shape[1]))):
        part = group.part(where)
        search = DistanceSearch(part, distances.product_distances(part.rows, "float64", threads=1))
        found.append(search.nearest(queries, numbers, limit, neighbors))
    return distances.merge_columns(found).first(neighbors)


def by_differences(group: Group, queries: Matrix, numbers: Array, limit: Array, neighbors: int) -> Candidates:
    found = []
    for where in chunks(queries.shape[0], max(1, SEARCH_BYTES // (8 * queries.shape[1]))):
        some = queries[where]
        halves = group.exclude(distances.differences(some, group.rows) / 2, numbers[where])
        found.append(settle(smallest(halves, neighbors + EXTRA), some, group, neighbors))
    return distances.stack_rows(found)
