"""Outlier scores: how isolated a sample is, compared with its neighbours.

The score is the local outlier factor of M. M. Breunig, H.-P. Kriegel, R. T. Ng, J. Sander: LOF: identifying
density-based local outliers, SIGMOD 2000. It is computed among landmarks: samples as points on principal axes.

The radius r_o of a landmark o is the distance of its m-th neighbour. The spacing s_p of a sample p is the mean of
max(r_o, |p - o|) over its m nearest landmarks o. Its score is the mean of s_p / s_o: about 1 if p is as isolated as its
neighbours, 2 if it is twice as isolated.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from mccgr_cli.blocks.protocol import Array, BlockSource
from mccgr_cli.blocks.threads import threads_for_blocks
from mccgr_cli.core.landmarks import SAME, Landmarks
from mccgr_cli.core.neighbours import nearest
from mccgr_cli.core.neighbours.distances import half_squares
from mccgr_cli.core.neighbours.exact import neighbours_among
from mccgr_cli.core.principal_axes import block_points
from mccgr_cli.system.phases import phase

MOST_COMPARED = 10_000  # landmarks that samples are compared with; of more, evenly spaced ones
FEWEST_NEIGHBOURS, MOST_NEIGHBOURS = 10, 20  # m; between them, half the mean number of samples of a cluster
LEAST_SPACING = 0.01  # relative to the mean spacing: copies of a sample have none, and would make scores infinite
SAME_PLACE = 1e-5  # distance up to which a sample and a landmark count as the same sample
BATCH = 1 << 14  # samples that are scored together
DIGITS = 4  # of a score, after the point


@dataclass(frozen=True)
class Density:
    """How densely landmarks lie."""

    landmarks: Array  # (q,) which of the landmarks these are
    points: Array  # (q, r)
    radii: Array  # (q,)
    spacings: Array  # (q,)
    neighbors: int  # m, less than q

    def score(self, points: Array) -> Array:
        """The scores of samples (n,).

        A sample at the place of a landmark is taken for that old sample, and is not its own neighbour. So old samples
        keep their scores.
        """
        m = self.neighbors
        columns, squares = neighbours_among(self.points, points, m + 1)
        itself = np.sqrt(squares[:, :1]) <= SAME_PLACE
        columns = np.where(itself, columns[:, 1:], columns[:, :m])
        squares = np.where(itself, squares[:, 1:], squares[:, :m])
        spacings = np.maximum(self.radii[columns], np.sqrt(squares)).mean(axis=1)
        return factors(spacings, self.spacings, columns)


def factors(own: Array, spacings: Array, columns: Array) -> Array:
    """The mean of s_p / s_o over the neighbours o, rounded; ``spacings`` are those of all landmarks."""
    least = max(LEAST_SPACING * float(spacings.mean()), SAME)
    score = np.maximum(own, least) * (1 / np.maximum(spacings, least))[columns].mean(axis=1)
    return np.asarray(np.round(score, DIGITS))


def neighbours_for(samples: int, k: int) -> int:
    """The number of neighbours m among these samples, if there are k clusters."""
    return min(samples - 1, int(np.clip(samples // (2 * k), FEWEST_NEIGHBOURS, MOST_NEIGHBOURS)))


@threads_for_blocks()
def learn_density(source: BlockSource, landmarks: Landmarks, k: int) -> tuple[Density | None, Array]:
    """The density of landmarks, and the scores of all samples (n,). A single sample has no density, and the score 1."""
    n, p = source.shape[0], len(landmarks.points)
    if p < 2:
        return None, np.ones(n)
    chosen = np.linspace(0, p - 1, min(p, MOST_COMPARED)).astype(np.int64)
    scores = np.empty(n)
    with phase("scoring outliers", "samples", n if p < n else n - len(chosen)):
        density, own = density_of(chosen, landmarks.points[chosen], neighbours_for(len(chosen), k))
        if p < n:
            for where, points in batches(source, landmarks):
                scores[where] = density.score(points)
        elif len(chosen) < n:
            others = np.setdiff1d(np.arange(n), chosen)
            scores[others] = density.score(landmarks.points[others])
    scores[landmarks.samples[chosen]] = own
    return density, scores


@threads_for_blocks()
def score_new(source: BlockSource, landmarks: Landmarks, density: Density | None) -> Array:
    """The scores of new samples; 1 if there was only one old sample."""
    points = landmarks.projection.points(source)
    return np.ones(len(points)) if density is None else density.score(points)


def density_of(landmarks: Array, points: Array, neighbors: int) -> tuple[Density, Array]:
    """The density of these landmarks, and their scores."""
    columns = nearest(points, neighbors, "euclidean", "exact").columns.reshape(-1, neighbors)
    distances = np.sqrt(2 * half_squares(points, points, columns))
    radii = distances[:, -1]
    spacings = np.maximum(radii[columns], distances).mean(axis=1)
    return Density(landmarks, points, radii, spacings, neighbors), factors(spacings, spacings, columns)


def batches(source: BlockSource, landmarks: Landmarks) -> Iterator[tuple[slice, Array]]:
    """All samples as points, some at a time, in one pass: there may be no memory for all of them."""
    projection = landmarks.projection
    shared = (projection.right.astype(source.dtype, copy=False), projection.offset)
    start, found, count = 0, [], 0
    for where, partial in source.map(block_points, shared=shared):
        found.append(partial.rows[0].copy())  # a source may reuse its memory
        count += len(found[-1])
        if count >= BATCH or where.stop == source.shape[0]:
            yield slice(start, where.stop), np.concatenate(found)
            start, found, count = where.stop, [], 0
