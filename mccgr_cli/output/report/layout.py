"""Samples in a plane, near each other where their coefficients are alike."""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np
from threadpoolctl import threadpool_limits

from mccgr_cli.blocks.protocol import Array
from mccgr_cli.blocks.rows import unit_rows
from mccgr_cli.errors import DataError

MOST_NEIGHBOURLY = 5000  # samples up to which t-SNE takes less than a minute
LEAST_NEIGHBOURLY = 10
PERPLEXITY, STEPS = 30.0, 500
GRID = 9999  # coordinates are whole numbers up to this


@dataclass(frozen=True)
class Layout:
    points: Array  # (n, 2) whole numbers, the same scale both ways, up to GRID
    method: str  # a name
    meaning: str  # what near and far mean in it


def lay_out(W: Array, by_direction: bool) -> Layout:
    """By t-SNE, or beyond some thousand samples by the first two principal components.

    The rows are what was clustered: those of W as they are for k-means; of unit length where a cluster is the largest
    coefficient, which does not depend on their lengths. One thread: sums in another order would end elsewhere.
    """
    if min(W.shape) < 2:
        raise DataError("W", f"{W.shape[0]} x {W.shape[1]}, which spans no plane")
    rows = np.asarray(W, dtype=np.float64)
    if by_direction:
        rows = np.asarray(unit_rows(rows))
    rows = rows / (np.abs(rows).max() or 1)
    if np.ptp(rows, axis=0).max() == 0:
        raise DataError("W", "all samples have the same coefficients")
    with threadpool_limits(1):
        if LEAST_NEIGHBOURLY <= len(rows) <= MOST_NEIGHBOURLY:
            found = neighbourly(rows)
            if np.isfinite(found).all():  # which too many equal rows may prevent
                return Layout(on_grid(found), "t-SNE", NEIGHBOURLY)
        points, shares = principal_plane(rows)
    told = " and ".join(f"{100 * share:.0f} %" for share in shares)
    return Layout(on_grid(points), "principal components", LINEAR.format(told))


NEIGHBOURLY = (
    "Samples with similar coefficients lie together; distances between groups, and the sizes of groups, mean little."
)
LINEAR = "The plane in which the coefficients vary most; its two directions have {} of their variance."


def neighbourly(rows: Array) -> Array:
    from sklearn.manifold import TSNE  # slow to import

    perplexity = min(PERPLEXITY, (len(rows) - 1) / 3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # of many equal rows
        found = TSNE(perplexity=perplexity, init="pca", max_iter=STEPS, random_state=0, n_jobs=1).fit_transform(rows)
    return np.asarray(found, dtype=np.float64)


def principal_plane(rows: Array) -> tuple[Array, Array]:
    """Coordinates, and the shares of variance."""
    centred = rows - rows.mean(axis=0)
    variances, directions = np.linalg.eigh(centred.T @ centred)
    plane = directions[:, :-3:-1]
    plane = plane * np.sign(plane[np.abs(plane).argmax(axis=0), np.arange(2)])  # a sign of our own choice
    return centred @ plane, np.maximum(variances[:-3:-1], 0) / np.maximum(variances, 0).sum()


def on_grid(points: Array) -> Array:
    points = points - points.min(axis=0)
    return np.round(points * (GRID / (points.max() or 1))).astype(int)
