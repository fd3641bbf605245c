"""The exact search: blocks of samples, each compared with all samples."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from scipy import sparse

from mccgr_cli.blocks.in_memory import MemoryBlocks
from mccgr_cli.blocks.protocol import Array, Matrix, chunks
from mccgr_cli.blocks.rows import row_sizes
from mccgr_cli.blocks.threads import threads_for_blocks
from mccgr_cli.core.neighbours.distances import (
    Candidates,
    ProductDistances,
    below,
    beside,
    half_squares,
    least,
    mirrored,
    product,
    product_distances,
)

SEARCH_BYTES = 64 << 20  # of distances at a time, in each thread
SETTLED_ROWS = 1000  # whose candidates are looked at together
LEAST_BLOCKS = 8  # that cores can share
EXTRA = 5  # candidates beyond the neighbours asked for, so that rounding rarely decides
MUTUAL = 128  # features from which on it pays to multiply two samples only once, for both


@threads_for_blocks()
def exactly(X: Matrix, neighbors: int) -> Array:
    """The nearest others of every sample, the nearest first, (n, neighbors)."""
    n, d = X.shape
    everyone = np.arange(n)
    if sparse.issparse(X) or d < MUTUAL:
        return nearest_of(X, everyone, neighbors)
    compared = product_distances(X, "float32")
    candidates = mutual_candidates(compared.samples, min(neighbors + EXTRA, n - 1))
    known = candidates.columns, candidates.beyond
    columns, sure = gathered(
        numbered(everyone, SETTLED_ROWS).map(block_settled, known, shared=(X, compared, neighbors))
    )
    del compared
    unsure = np.flatnonzero(~sure)
    if len(unsure):
        columns[unsure] = nearest_of(X, unsure, neighbors, "float64")
    return columns


@threads_for_blocks()
def nearest_of(X: Matrix, index: Array, neighbors: int, dtype: str = "float32") -> Array:
    """The nearest others of some samples, (r, neighbors).

    They are first compared in single precision, if they are dense. Where rounding might have hidden a neighbour, they
    are compared again in double precision, and where that may not be enough, as samples are much nearer to each other
    than to their mean, by differences.
    """
    if sparse.issparse(X):
        dtype = "float64"
    rows = rows_to_compare(X.shape[0], np.dtype(dtype).itemsize)
    compared = product_distances(X, dtype)
    columns, sure = gathered(numbered(index, rows).map(block_compared, shared=(X, compared, neighbors)))
    del compared
    unsure = np.flatnonzero(~sure)
    if len(unsure) and dtype == "float32":
        columns[unsure] = nearest_of(X, index[unsure], neighbors, "float64")
    elif len(unsure):
        rows = max(1, min(rows, SEARCH_BYTES // (8 * X.shape[1])))
        (columns[unsure],) = gathered(numbered(index[unsure], rows).map(block_by_differences, shared=(X, neighbors)))
    return columns


def rows_to_compare(n: int, itemsize: int) -> int:
    """With all samples at a time: as many as there is room for, and few enough for all cores."""
    return max(1, min(SEARCH_BYTES // (itemsize * n), -(-n // LEAST_BLOCKS)))


def numbered(index: Array, rows: int) -> MemoryBlocks:
    """Blocks of the numbers of samples, (r, 1)."""
    return MemoryBlocks(index[:, None], rows)


def gathered(blocks: Iterator[tuple[slice, tuple[Array, ...]]]) -> list[Array]:
    """What is found for each block, one below the other."""
    return [np.concatenate(parts) for parts in zip(*(found for _, found in blocks), strict=True)]


def mutual_candidates(samples: Array, count: int) -> Candidates:
    """The nearest others of every sample by products. Those of two blocks serve the samples of both."""
    n = len(samples)
    size = min(-(-n // LEAST_BLOCKS), int(np.sqrt(SEARCH_BYTES / 2 / samples.itemsize)))  # two: a product and a part
    blocks = chunks(n, size)
    pairs = np.transpose(np.triu_indices(len(blocks)))
    best: list[list[Candidates]] = [[] for _ in blocks]
    for where, found in MemoryBlocks(pairs, 1).map(block_mutual, shared=(samples, blocks, count)):
        for block, candidates in zip(pairs[where.start], found, strict=False):
            best[block] = [beside([*best[block], candidates]).least(count)]
    return below([one for (one,) in best])


def block_mutual(pair_b: Array, samples: Array, blocks: list[slice], count: int) -> list[Candidates]:
    """Candidates for the samples of one block among those of another, and the other way round."""
    one, other = (blocks[block] for block in pair_b[0])
    halves = product(mirrored(samples[one]), samples[other])
    if one == other:
        np.fill_diagonal(halves, np.inf)
        return [least(halves, count, one.start)]
    return [least(halves, count, other.start), least(halves.T, count, one.start)]


def block_settled(
    index_b: Array, columns_b: Array, beyond_b: Array, X: Matrix, compared: ProductDistances, neighbors: int
) -> tuple[Array, Array]:
    """The nearest candidates by their true distances, and whether it is sure that no other sample is nearer."""
    index = index_b[:, 0]
    halves = half_squares(X[index], X, columns_b) * compared.scale**2
    nearest = Candidates(columns_b, halves, beyond_b).first(neighbors)
    return nearest.columns, compared.sure(compared.halves[index], beyond_b, nearest.values[:, -1])


def block_compared(index_b: Array, X: Matrix, compared: ProductDistances, neighbors: int) -> tuple[Array, Array]:
    found = least(compared.of(index_b[:, 0]), min(neighbors + EXTRA, X.shape[0] - 1))
    return block_settled(index_b, found.columns, found.beyond, X, compared, neighbors)


def block_by_differences(index_b: Array, X: Matrix, neighbors: int) -> tuple[Array]:
    index = index_b[:, 0]
    squares = differences(X[index], X)
    squares[np.arange(len(index)), index] = np.inf
    return (least(squares, neighbors + EXTRA).first(neighbors).columns,)


def differences(asking: Matrix, X: Matrix) -> Array:
    """|x - y|^2 of every x of ``asking`` and every y of X."""
    from scipy.spatial.distance import cdist  # slow to import

    rows = chunks(X.shape[0], max(1, SEARCH_BYTES // (8 * X.shape[1])))
    asking = dense(asking)
    return np.hstack([cdist(asking, dense(X[some]), "sqeuclidean") for some in rows])


def dense(X: Matrix) -> Array:
    rows: Array = X.toarray() if sparse.issparse(X) else X
    return rows


# By what histograms have in common


@threads_for_blocks()
def by_intersection(X: Matrix, neighbors: int) -> Array:
    """The others with which a sample has the largest sum of minima, the largest first, (n, neighbors)."""
    n = X.shape[0]
    blocks = numbered(np.arange(n), rows_to_compare(n, 8))
    X = X.astype(np.float64)
    features = X.T.tocsr() if sparse.issparse(X) else None
    (columns,) = gathered(blocks.map(block_intersection, shared=(X, features, row_sizes(X, "l1"), neighbors)))
    return columns


def block_intersection(index_b: Array, X: Matrix, features: Matrix | None, sums: Array, neighbors: int) -> tuple[Array]:
    index = index_b[:, 0]
    apart = uncommon(X[index], X, features, sums)
    apart[np.arange(len(index)), index] = np.inf
    return (least(apart, neighbors + EXTRA).first(neighbors).columns,)


def uncommon(asking: Matrix, X: Matrix, features: Matrix | None, sums: Array) -> Array:
    """The less, for every x of ``asking``, the larger its sum of minima with the y of X.

    A sum of minima is half of both sums less the distance |x - y|_1; that of x is the same for all. ``features`` is X',
    if that is sparse, and ``sums`` are those of its rows.
    """
    if features is None:
        from scipy.spatial.distance import cdist

        apart: Array = cdist(asking, X, "cityblock")
        apart -= sums
        return apart
    return -np.array([common_with(asking[[i]], features) for i in range(asking.shape[0])], dtype=np.float64)


def common_with(sample: Matrix, features: Matrix) -> Array:
    """Sums of minima (n,) over the features that the one sample has."""
    shared = features[sample.indices]
    minima = np.minimum(shared.data, np.repeat(sample.data, np.diff(shared.indptr)))
    return np.bincount(shared.indices, weights=minima, minlength=features.shape[1])
