"""From coefficients (or any matrix) to clusters."""

from __future__ import annotations

import warnings

import numpy as np

from mccgr_cli.blocks.protocol import Array, Matrix


def kmeans(samples: Matrix, k: int, restarts: int, seed: int) -> Array:
    """The best of ``restarts`` runs of k-means, (n,); fewer than k clusters when fewer rows are distinct."""
    from sklearn.cluster import KMeans  # slow to import
    from sklearn.exceptions import ConvergenceWarning

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # fewer distinct rows than k: the caller can see
        assignments: Array = KMeans(n_clusters=k, n_init=restarts, random_state=seed).fit_predict(samples)
    return assignments.astype(np.int64)


def largest_coefficient(W: Array) -> Array:
    """The component that each sample uses most, (n,), with H scaled away beforehand if that is wanted."""
    return np.asarray(W.argmax(axis=1), dtype=np.int64)
