"""Landmarks: the samples of a factorization as points, among which the cluster of a new sample is found.

A new sample belongs to the cluster of the nearest old samples. This holds for every method, because it needs only the
clusters of the old samples, not how they were found.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mccgr_cli.blocks.products import moments
from mccgr_cli.blocks.protocol import Array, BlockSource
from mccgr_cli.blocks.threads import threads_for_blocks
from mccgr_cli.core.graph import EVENNESS
from mccgr_cli.core.neighbours.exact import neighbours_among
from mccgr_cli.core.principal_axes import PASSES, Projection, learn_projection
from mccgr_cli.settings import axes_for
from mccgr_cli.system.phases import phase

MOST_LANDMARKS = 100_000  # of more samples, evenly spaced ones are landmarks
VOTERS = 5  # nearest landmarks that decide
SAME = 1e-7  # distance between two computations of the same point, because of rounding
DIGITS = 6  # of a certainty, after the point


@dataclass(frozen=True)
class Landmarks:
    """Old samples as points on principal axes. Silenced features do not count."""

    projection: Projection
    points: Array  # (p, r) in single precision
    samples: Array  # (p,) their numbers

    @threads_for_blocks()
    def predict(self, source: BlockSource, assignments: Array) -> tuple[Array, Array]:
        """The clusters of new samples, and how certain they are: see :meth:`vote`."""
        return self.vote(self.projection.points(source), assignments)

    def vote(self, points: Array, assignments: Array) -> tuple[Array, Array]:
        """The clusters of new samples that are at these points, and how certain they are (0 to 1).

        ``assignments`` are the clusters of all old samples. The nearest landmarks vote for their clusters; a vote has
        the weight 1 / squared distance. So a landmark at the same place decides alone, and old samples keep their
        clusters. The certainty is the share of the votes for the winner.
        """
        with phase("finding the nearest samples", "samples"):
            columns, squares = neighbours_among(self.points, points, min(VOTERS, len(self.points)))
        votes = assignments[self.samples][columns]
        weights = 1 / np.maximum(squares, SAME**2)
        totals = ((votes[:, :, None] == votes[:, None, :]) * weights[:, None, :]).sum(axis=2)
        winners = totals.argmax(axis=1)  # of equal clusters, that of the nearest landmark
        rows = np.arange(len(votes))
        return votes[rows, winners], np.round(totals[rows, winners] / weights.sum(axis=1), DIGITS)


@threads_for_blocks()
def learn_landmarks(source: BlockSource, rho: Array, k: int, evenness: float | None = None) -> Landmarks:
    """The landmarks of normalized samples with the feature weights rho (d,) and k components.

    ``evenness`` is that of the principal axes among which the neighbours of the graph were searched.
    """
    largest = rho.max()
    scale = np.sqrt(rho / largest) if largest > 0 else np.ones(len(rho))
    n = source.shape[0]
    with phase("learning landmarks", "rows", (PASSES + 2) * n):
        projection = learn_projection(
            source, moments(source).means, axes_for(k), EVENNESS if evenness is None else evenness, scale
        )
        if n <= MOST_LANDMARKS:
            return Landmarks(projection, projection.points(source), np.arange(n))
        samples = np.linspace(0, n - 1, MOST_LANDMARKS).astype(np.int64)
        return Landmarks(projection, projection.chosen_points(source, samples), samples)


def size_of_landmarks(samples: int, features: int, k: int) -> float:
    """The bytes of landmarks and outlier scores in a file, about."""
    return 4.0 * (min(samples, MOST_LANDMARKS) + features) * min(axes_for(k), samples, features) + 8.0 * samples
