"""The exact search where X is not in memory: groups of its rows that are, each compared with all blocks.

The samples of a block ask which of the group are nearest, so that what is found has a row for each of them, as the
results of blocks have; what earlier groups gave comes along and is improved on.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Protocol

import numpy as np
from scipy import sparse

from mccgr_cli.blocks.protocol import Array, BlockSource, Matrix, Partial, chunks, sweep
from mccgr_cli.blocks.rows import Transformed, row_sizes, unit_rows
from mccgr_cli.blocks.threads import threads_for_blocks
from mccgr_cli.core.neighbours.distances import (
    Candidates,
    ProductDistances,
    below,
    beside,
    half_squares,
    least,
    product_distances,
)
from mccgr_cli.core.neighbours.exact import EXTRA, SEARCH_BYTES, differences, uncommon

ROOM = 256 << 20  # bytes that the rows held at a time take, unless it is told
DENSE_VALUE = 12  # bytes: in double precision, and about the mean in single
SPARSE_VALUE = 32  # bytes: with its index, among the rows and among the columns
DOUBLE_BYTES = 8 << 20  # of rows that are looked at together in double precision


def row_groups(source: BlockSource, room: int) -> list[slice]:
    """Consecutive rows, as many as there is room for, at least one. To learn how large sparse ones are takes a pass."""
    n, d = source.shape
    sizes = np.full(n, DENSE_VALUE * d)
    if sparse.issparse(source.take(slice(0, 1))):
        sweep(source, block_stored, into=(sizes,))
        sizes = SPARSE_VALUE * (sizes + 1)
    before = np.concatenate([[0], np.cumsum(sizes)])
    borders = [0]
    while borders[-1] < n:
        first = borders[-1]
        last = int(np.searchsorted(before, before[first] + room, side="right")) - 1
        borders.append(max(first + 1, last))
    return [slice(first, last) for first, last in pairwise(borders)]


def block_stored(X_b: Matrix) -> Partial:
    return Partial(rows=(np.diff(X_b.indptr),))


@threads_for_blocks()
def by_blocks(source: BlockSource, neighbors: int, metric: str, groups: Sequence[slice]) -> Array:
    """The nearest others of every sample, the nearest first, (n, neighbors); -1 where there are too few.

    One pass for each group.
    """
    n = source.shape[0]
    if metric == "cosine":  # on unit rows both metrics order alike
        source = Transformed(source, unit_rows)
    columns, values = np.full((n, neighbors), -1), np.full((n, neighbors), np.inf)
    for where in groups:
        rows = source.take(where)
        group = Group(rows, where.start, present(rows, metric))
        search: GroupSearch = by_intersection(group) if metric == "histogram" else by_distance(group)
        shared = (search, metric, neighbors)
        sweep(source, block_nearest, (np.arange(n), columns, values), shared, into=(columns, values))
    return columns


def present(X: Matrix, metric: str) -> Array:
    """Which samples have a place: all, or, if it is by their direction or by what they share, those that have any."""
    return np.ones(X.shape[0], dtype=bool) if metric == "euclidean" else row_sizes(X, "l2") > 0


@dataclass(frozen=True)
class Group:
    """Consecutive rows of X."""

    rows: Matrix
    first: int  # number of the first of them
    present: Array  # (r,) whether they can be neighbours

    def part(self, where: slice) -> Group:
        return Group(self.rows[where], self.first + where.start, self.present[where])

    def bar(self, values: Array, numbers: Array) -> Array:
        """``values`` for samples with these numbers, with inf for themselves and for what can be no neighbour."""
        own = numbers - self.first
        here = np.flatnonzero((own >= 0) & (own < self.rows.shape[0]))
        values[here, own[here]] = np.inf
        values[:, ~self.present] = np.inf
        return values


class GroupSearch(Protocol):
    """A search among the samples of a group."""

    @property
    def group(self) -> Group: ...

    def nearest(self, asking: Matrix, numbers: Array, limit: Array, neighbors: int) -> Candidates:
        """To every sample, with its number, the nearest of the group that are nearer than its ``limit``.

        Columns are numbers of samples. There may be others that are farther away.
        """
        ...


def block_nearest(
    X_b: Matrix, numbers_b: Array, columns_b: Array, values_b: Array, search: GroupSearch, metric: str, neighbors: int
) -> Partial:
    """The nearest of those known and those in the group."""
    columns, values = columns_b.copy(), values_b.copy()
    asking = np.flatnonzero(present(X_b, metric))
    for part in chunks(len(asking), max(1, SEARCH_BYTES // (8 * search.group.rows.shape[0]))):
        some = asking[part]
        known = Candidates(columns_b[some], values_b[some], np.full(len(some), np.inf))
        found = search.nearest(X_b[some], numbers_b[some], values_b[some, -1], neighbors)
        best = beside([known, found]).first(neighbors)  # -1, where there are too few, comes before what is barred
        columns[some], values[some] = best.columns, best.values
    return Partial(rows=(columns, values))


@dataclass(frozen=True)
class ByIntersection:
    """By what histograms have in common."""

    group: Group
    features: Matrix | None  # X', if X is sparse
    sums: Array

    def nearest(self, asking: Matrix, numbers: Array, limit: Array, neighbors: int) -> Candidates:
        apart = uncommon(asking, self.group.rows, self.features, self.sums)
        return least(self.group.bar(apart, numbers), neighbors + EXTRA, self.group.first)


def by_intersection(group: Group) -> ByIntersection:
    rows = group.rows.astype(np.float64)
    features = rows.T.tocsr() if sparse.issparse(rows) else None
    return ByIntersection(replace(group, rows=rows), features, row_sizes(rows, "l1"))


@dataclass(frozen=True)
class ByDistance:
    """By products first, and by true differences in the end.

    Where the rounding of products might have hidden a neighbour they are done again in double precision; where that may
    not be enough, by differences.
    """

    group: Group
    compared: ProductDistances

    def nearest(self, asking: Matrix, numbers: Array, limit: Array, neighbors: int) -> Candidates:
        samples, own = self.compared.alike(asking)
        found = least(self.group.bar(self.compared.to(samples, own), numbers), neighbors + EXTRA)
        settled = settle(found, asking, self.group, neighbors)
        farthest = settled.values[:, -1] if settled.values.shape[1] == neighbors else np.inf
        scaled = np.minimum(farthest, limit) * self.compared.scale**2
        unsure = np.flatnonzero(~self.compared.sure(own, found.beyond, scaled))
        if len(unsure):
            surely = in_double if self.compared.samples.dtype == np.float32 else by_differences
            better = surely(self.group, asking[unsure], numbers[unsure], limit[unsure], neighbors)
            settled.columns[unsure], settled.values[unsure] = better.columns, better.values
        return settled


def by_distance(group: Group) -> ByDistance:
    """Dense samples are compared in single precision first."""
    rows = group.rows
    dtype = "float64" if sparse.issparse(rows) else "float32"
    return ByDistance(group, product_distances(rows, dtype, widest=rows.shape[1]))


def settle(found: Candidates, asking: Matrix, group: Group, neighbors: int) -> Candidates:
    """The nearest candidates by their true distances."""
    halves = half_squares(asking, group.rows, found.columns)
    halves[np.isinf(found.values)] = np.inf
    return Candidates(found.columns + group.first, halves, found.beyond).first(neighbors)


def in_double(group: Group, asking: Matrix, numbers: Array, limit: Array, neighbors: int) -> Candidates:
    found = []
    for where in chunks(group.rows.shape[0], max(1, DOUBLE_BYTES // (8 * group.rows.shape[1]))):
        part = group.part(where)
        again = ByDistance(part, product_distances(part.rows, "float64", threads=1))
        found.append(again.nearest(asking, numbers, limit, neighbors))
    return beside(found).first(neighbors)


def by_differences(group: Group, asking: Matrix, numbers: Array, limit: Array, neighbors: int) -> Candidates:
    found = []
    for where in chunks(asking.shape[0], max(1, SEARCH_BYTES // (8 * asking.shape[1]))):
        some = asking[where]
        halves = group.bar(differences(some, group.rows) / 2, numbers[where])
        found.append(settle(least(halves, neighbors + EXTRA), some, group, neighbors))
    return below(found)
