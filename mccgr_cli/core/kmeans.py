"""Clusters of samples, from their coefficients or any other matrix."""

from __future__ import annotations

import warnings

import numpy as np

from mccgr_cli.blocks.protocol import Array, Matrix
from mccgr_cli.blocks.threads import threads_for_blocks


def kmeans(samples: Matrix, k: int, restarts: int, seed: int) -> Array:
    """The clusters of the best of ``restarts`` runs of k-means, (n,); fewer than k if fewer rows are distinct."""
    from sklearn.cluster import KMeans  # slow to import
    from sklearn.exceptions import ConvergenceWarning

    with warnings.catch_warnings(), threads_for_blocks():
        warnings.simplefilter("ignore", ConvergenceWarning)  # fewer distinct rows than k: visible in the result
        assignments: Array = KMeans(n_clusters=k, n_init=restarts, random_state=seed).fit_predict(samples)
    return assignments.astype(np.int64)


def largest_coefficient(W: Array) -> Array:
    """The component with the largest coefficient of each sample, (n,)."""
    return np.asarray(W.argmax(axis=1), dtype=np.int64)
