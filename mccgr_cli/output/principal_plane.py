"""Samples in the plane in which their coefficients vary most."""

from __future__ import annotations

import numpy as np

from mccgr_cli.blocks.protocol import Array
from mccgr_cli.errors import DataError


def require_plane(W: Array, where: str) -> None:
    """Refuse coefficients that do not spread the samples over a plane; ``where`` names them in the message."""
    if min(W.shape) < 2:
        what = f"W is {W.shape[0]} x {W.shape[1]}, which spans no plane"
        raise DataError(where, what, "factorize with --k 2 or more")
    if np.ptp(W, axis=0).max() == 0:
        raise DataError(where, "all samples have the same coefficients", "factorize again, with another start")


def principal_plane(W: Array) -> tuple[Array, Array]:
    """The samples on the first two principal components of W (n, 2), and the shares of variance of these (2,)."""
    scale = np.abs(W).max() or 1  # squares stay finite
    centred = W / scale
    centred -= centred.mean(axis=0)
    variances, directions = np.linalg.eigh(centred.T @ centred)
    plane = directions[:, :-3:-1]
    plane = plane * np.sign(plane[np.abs(plane).argmax(axis=0), np.arange(2)])  # eigenvectors have no sign of their own
    return centred @ plane * scale, np.maximum(variances[:-3:-1], 0) / np.maximum(variances, 0).sum()
