"""Clusters of samples, from their coefficients or any other matrix."""

from __future__ import annotations

import numpy as np
from scipy import sparse

from mccgr_cli.blocks.in_memory import MemoryBlocks
from mccgr_cli.blocks.protocol import Array, Matrix, Partial, sum_over_blocks
from mccgr_cli.blocks.threads import threads_for_blocks
from mccgr_cli.system.phases import advance, phase

MOST_STEPS = 300
BLOCK_ROWS = 4096  # samples that are assigned together, in one thread
LEAST_MOVE = 1e-4  # k-means ends when its centres move less, squared and relative to the variance of the features


@threads_for_blocks()
def kmeans(samples: Matrix, k: int, restarts: int, seed: int) -> Array:
    """The clusters of the best of ``restarts`` runs of k-means, (n,); fewer than k if fewer rows are distinct.

    The steps are Lloyd's; the first centres are chosen as by D. Arthur, S. Vassilvitskii: k-means++, SODA 2007.
    """
    rng = np.random.default_rng(seed)
    points = centred(samples)
    source, squares = MemoryBlocks(points, BLOCK_ROWS), squared_lengths(points)
    best, least = np.empty(0, np.int64), np.inf
    with phase("k-means", "runs", restarts):
        for _ in range(restarts):
            part, gap = one_run(source, squares, k, rng)
            if gap < least or not len(best):
                best, least = part, gap
            advance(1, "runs")
    return best


def one_run(source: MemoryBlocks, squares: Array, k: int, rng: np.random.Generator) -> tuple[Array, float]:
    """The clusters (n,) of one run, and the sum of the squared distances to their centres."""
    points: Matrix = source.whole
    centres = first_centres(points, squares, k, rng)
    part, gaps = np.empty(len(squares), np.int64), np.empty(len(squares))
    least = LEAST_MOVE * float(squares.sum()) / max(points.shape[0] * points.shape[1], 1)
    for _ in range(MOST_STEPS):
        before = part.copy()
        shared = (centres.astype(points.dtype), squared_lengths(centres) / 2)
        sums, counts = sum_over_blocks(source, assign_block, (squares,), shared, into=(part, gaps))
        if np.array_equal(part, before):
            break
        moved = sums / np.maximum(counts, 1)[:, None]
        empty = np.flatnonzero(counts == 0)
        if len(empty):  # their new centres are the samples that are farthest from theirs
            moved[empty] = dense_rows(points, np.argsort(-gaps, kind="stable")[: len(empty)])
        move, centres = float(((moved - centres) ** 2).sum()), moved
        if move <= least and not len(empty):
            break
    return part, float(gaps.sum())


def assign_block(X_b: Matrix, squares_b: Array, centres: Array, halves: Array) -> Partial:
    """The nearest centres and the squared distances to them; the sums and numbers of samples by centre."""
    nearness = np.asarray(X_b @ centres.T) - halves
    part = nearness.argmax(axis=1)
    rows = np.arange(len(part))
    member = np.zeros(nearness.shape, X_b.dtype)
    member[rows, part] = 1
    gaps = np.maximum(squares_b - 2 * nearness[rows, part], 0)
    return Partial(((X_b.T @ member).T, np.bincount(part, minlength=len(centres))), (part, gaps))


def first_centres(points: Matrix, squares: Array, k: int, rng: np.random.Generator) -> Array:
    """At most k different samples, far from each other: each is the best of several random candidates."""
    candidates = 2 + int(np.log(k))
    chosen = [int(rng.integers(len(squares)))]
    gaps = distances_to(points, squares, np.array(chosen))[0]
    while len(chosen) < min(k, len(squares)) and gaps.max() > 0:
        limits = np.cumsum(gaps)
        tried = np.searchsorted(limits, rng.random(candidates) * limits[-1], side="right")
        tried = np.minimum(tried, len(squares) - 1)
        found = np.minimum(gaps, distances_to(points, squares, tried))
        best = int(found.sum(axis=1).argmin())
        chosen.append(int(tried[best]))
        gaps = found[best]
        gaps[chosen] = 0  # but for rounding
    return dense_rows(points, np.array(chosen))


def distances_to(points: Matrix, squares: Array, index: Array) -> Array:
    """The squared distances of all samples to the samples ``index``, (len(index), n). ``squares`` are those to 0."""
    products = points[index] @ points.T
    found = squares + squares[index][:, None] - 2 * (products.toarray() if sparse.issparse(products) else products)
    return np.where(found > np.finfo(points.dtype).eps * squares.max() * 16, found, 0)  # equal, but for rounding


def centred(samples: Matrix) -> Matrix:
    """The samples about their mean, in units of the largest value; sparse samples are not moved."""
    largest = float(abs(samples).max()) or 1.0
    scaled = samples / largest
    if sparse.issparse(scaled):
        return sparse.csr_array(scaled)
    scaled -= scaled.mean(axis=0)
    return scaled


def squared_lengths(points: Matrix) -> Array:
    squares = points.multiply(points) if sparse.issparse(points) else points * points
    return np.asarray(squares.sum(axis=1, dtype=np.float64)).ravel()


def dense_rows(points: Matrix, index: Array) -> Array:
    rows = points[index]
    return np.asarray(rows.toarray() if sparse.issparse(rows) else rows, dtype=np.float64)


def largest_coefficient(W: Array) -> Array:
    """The component with the largest coefficient of each sample, (n,)."""
    return np.asarray(W.argmax(axis=1), dtype=np.int64)
