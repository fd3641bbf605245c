"""How certain it is that a sample belongs to its cluster."""

from __future__ import annotations

import numpy as np
from scipy import sparse

from mccgr_cli.blocks.protocol import Array, Matrix, chunks
from mccgr_cli.system.phases import advance, phase

ROWS = 4096  # samples that are compared with all cluster means at a time, at most
ROW_VALUES = 1 << 22  # of these samples, if they are dense
DIGITS = 6  # of a certainty, after the point
LEAD, SILHOUETTE, VOTES = "lead", "silhouette", "votes"  # what a certainty can be


def certainty_of(samples: Matrix, assignments: Array, assign: str) -> tuple[Array | None, str]:
    """The certainty of each sample as it is stored (n,), None with one cluster; and what it is: LEAD or SILHOUETTE.

    ``samples`` are what was clustered: coefficients, or the rows of a matrix.
    """
    certainty, _ = typicality(samples, assignments, assign)
    kind = LEAD if is_lead(samples, assignments, assign) else SILHOUETTE
    return (None if certainty is None else np.round(certainty, DIGITS) + 0.0), kind  # not -0


def typicality(samples: Matrix, assignments: Array, assign: object = None) -> tuple[Array | None, Array]:
    """How certain it is that a sample belongs to its cluster (n,), and its distance from the mean of the cluster (n,).

    The certainty is (b - a) / max(a, b): a is the distance of a sample from the mean of its own cluster, b the
    distance from the nearest other mean. This is the simplified silhouette (Vendramin, Campello and Hruschka 2010):
    1 at its own mean, 0 between two means, below 0 nearer to another mean. Where clusters are the largest
    coefficients, the certainty is (a - b) / a with a the largest coefficient and b the next. None with one cluster.
    """
    numbers, place = np.unique(assignments, return_inverse=True)
    means = cluster_means(samples, place)
    n, d = samples.shape
    own, other = np.empty(n), np.full(n, np.inf)
    with phase("measuring certainty", "samples", n):
        for rows in chunks(n, ROWS if sparse.issparse(samples) else max(1, min(ROWS, ROW_VALUES // d))):
            far = distances(samples[rows], means)
            index = np.arange(len(far)), place[rows]
            own[rows] = far[index]
            far[index] = np.inf
            other[rows] = far.min(axis=1)
            advance(len(far), "samples")
    if is_lead(samples, assignments, assign):
        next_largest, largest = np.partition(samples, -2, axis=1)[:, -2:].T
        return ratio(largest - next_largest, largest), own
    if len(numbers) == 1:
        return None, own
    return ratio(other - own, np.maximum(own, other)), own


def is_lead(samples: Matrix, assignments: Array, assign: object) -> bool:
    """Whether the clusters are the largest coefficients, so that a certainty is the lead of the largest one."""
    return assign == "max" and samples.shape[1] > 1 and bool((samples.argmax(axis=1) == assignments).all())


def cluster_means(samples: Matrix, place: Array) -> Array:
    """The mean of the samples at each place, (places, d), in double precision."""
    sizes = np.bincount(place)
    if not sparse.issparse(samples):
        return np.stack([np.bincount(place, column) for column in samples.T], axis=1) / sizes[:, None]
    member = sparse.csr_array((np.ones(len(place)), (place, np.arange(len(place)))), shape=(len(sizes), len(place)))
    return np.asarray((member @ samples).toarray() / sizes[:, None])


def distances(samples: Matrix, means: Array) -> Array:
    """The distance of each sample from each mean."""
    from scipy.spatial.distance import cdist  # slow to import

    if not sparse.issparse(samples):
        return np.asarray(cdist(samples, means))
    samples = samples.astype(np.float64)
    squares = np.asarray(samples.power(2).sum(axis=1)).reshape(-1, 1) + (means**2).sum(axis=1) - 2 * (samples @ means.T)
    return np.asarray(np.sqrt(np.maximum(squares, 0)))


def below_one(values: Array) -> tuple[Array, int]:
    """Values in double precision, divided by a power of two, which changes no digit; and the exponent of that power."""
    exponent = int(np.frexp(values.max(initial=0).astype(np.float64))[1])
    return np.ldexp(values.astype(np.float64), -exponent), exponent


def ratio(part: Array, whole: Array) -> Array:
    """0 where both are 0."""
    return np.divide(part, whole, out=np.zeros(len(part)), where=whole > 0)
