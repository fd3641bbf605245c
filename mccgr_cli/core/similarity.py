"""How similar samples are, and the most similar ones.

The similarity of two samples is the cosine of the angle between the square roots of their features,

    s(x, y) = sum_j sqrt(x_j y_j) / sqrt(sum_j x_j  sum_j y_j),

which is from 0 to 1 (A. Bhattacharyya: On a measure of divergence between two multinomial populations. Sankhya 7,
1946). The roots keep a few large features from deciding everything. Rows with the normalization ``NORMALIZATION`` have
unit length, and s is their inner product. All functions here expect such rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from mccgr_cli.blocks.products import block_times
from mccgr_cli.blocks.protocol import Array, BlockSource, Matrix, Partial, chunks, sum_over_blocks
from mccgr_cli.blocks.rows import row_sizes
from mccgr_cli.blocks.threads import threads_for_blocks
from mccgr_cli.core.graph import compare_by_blocks, compare_pairs, principal_coordinates
from mccgr_cli.core.neighbours import ROOM, NeighbourPairs, Search, nearest, row_groups

NORMALIZATION = "hellinger"
QUERIES = 256  # samples that are compared with all others in one pass over X
# Candidates are sought on principal axes. Half-even axes find crops of an image better than the similarity itself.
AXES, EVENNESS = 128, 0.5
LEAST_AXES = 32  # with fewer, the rows themselves are compared


@dataclass(frozen=True)
class Neighbours:
    """Samples by number, and similar samples: the most similar first for each."""

    samples: Array
    neighbours: Array
    similarities: Array
    search: Search = field(default_factory=Search)


@threads_for_blocks()
def most_similar(source: BlockSource, queries: Matrix, most: int, own: Sequence[int | None]) -> Neighbours:
    """The samples that are most similar to each of ``queries`` (q, d).

    ``own`` has the number of each query among the samples, or None: a sample is not its own neighbour. Samples that
    have nothing in common with a query are left out. Of equally similar samples, the first ones come first.
    """
    found: list[tuple[Array, Array, Array]] = []
    for some in chunks(queries.shape[0], QUERIES):
        similar = np.empty((source.shape[0], some.stop - some.start), source.dtype)
        right = queries[some].T
        right = np.ascontiguousarray(right.toarray() if hasattr(right, "toarray") else right)
        sum_over_blocks(source, block_times, shared=(right.astype(source.dtype, copy=False),), into=(similar,))
        for number, values in zip(range(some.start, some.stop), similar.T, strict=True):
            itself = own[number]
            if itself is not None:
                values[itself] = 0
            chosen = largest(values, most)
            found.append((np.full(len(chosen), number), chosen, values[chosen].astype(np.float64)))
    samples, neighbours, similarities = (np.concatenate(parts) for parts in zip(*found, strict=True))
    return Neighbours(samples, neighbours, np.minimum(similarities, 1))


def largest(values: Array, most: int) -> Array:
    """Where the largest values above 0 are, the largest first; the first of equal ones."""
    limit = np.partition(values, -most)[-most] if most < len(values) else 0
    chosen = np.flatnonzero((values >= limit) & (values > 0))
    return chosen[np.argsort(-values[chosen], kind="stable")][:most]


def most_similar_of_all(source: BlockSource, most: int) -> Neighbours:
    """The samples that are most similar to every sample."""
    used = nonempty(source)
    if len(used) < 2:
        return Neighbours(np.empty(0, dtype=int), np.empty(0, dtype=int), np.empty(0))
    most = min(most, len(used) - 1)
    if source.whole is None:
        found = nearest(source, most, "cosine")
        samples, neighbours = found.rows, found.columns
    else:
        whole = source.whole if len(used) == source.shape[0] else source.whole[used]
        found = nearest(whole, most, "euclidean")  # of unit rows, the nearest are the most similar
        samples, neighbours = used[found.rows], used[found.columns]
    similarities = pair_similarities(source, samples, neighbours)
    order = np.lexsort((neighbours, -similarities.round(12), samples))
    samples, neighbours, similarities = samples[order], neighbours[order], similarities[order]
    common = similarities > 0
    return Neighbours(samples[common], neighbours[common], similarities[common], found.search)


@threads_for_blocks()
def pair_similarities(source: BlockSource, samples: Array, others: Array) -> Array:
    """The similarities of pairs of samples."""
    if len(samples) == 0:
        return np.empty(0)
    if source.whole is not None:
        found = compare_pairs(source.whole, samples, source.whole, others, "cosine")
    else:
        order = np.argsort(samples, kind="stable")
        found = np.empty(len(samples))
        pairs = NeighbourPairs(samples[order], others[order], Search())
        found[order] = compare_by_blocks(source, pairs, "cosine", row_groups(source, ROOM))
    return np.clip(found, 0, 1)


def candidate_pairs(source: BlockSource, samples: Array, count: int) -> tuple[Array, Search]:
    """Pairs (m, 2) of these samples that may be near-duplicates: each sample with the ``count`` nearest to it.

    The first of a pair has the smaller number; pairs are in order. Samples without features are left out.
    """
    samples = np.intersect1d(samples, nonempty(source))
    count = min(count, len(samples) - 1)
    if count < 1:
        return np.empty((0, 2), dtype=int), Search()
    if min(source.shape[0] - 1, source.shape[1]) < LEAST_AXES:
        points = source.take(slice(0, source.shape[0]))
    else:
        points = principal_coordinates(source, AXES, None, EVENNESS)
    found = nearest(points if len(samples) == len(points) else points[samples], count, "euclidean")
    ends = np.sort(np.stack([samples[found.rows], samples[found.columns]], axis=1), axis=1)
    return np.unique(ends, axis=0), found.search


def nonempty(source: BlockSource) -> Array:
    """The numbers of the samples that are not 0 in every feature."""
    sizes = np.empty(source.shape[0])
    sum_over_blocks(source, block_sizes, into=(sizes,))
    return np.flatnonzero(sizes)


def block_sizes(X_b: Matrix) -> Partial:
    return Partial(rows=(row_sizes(X_b, "l2"),))
