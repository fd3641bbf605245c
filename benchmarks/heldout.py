"""How well ``MCCGR.predict`` finds the clusters of samples that were not there when it was fitted."""

from __future__ import annotations

import numpy as np

import mccgr_cli
from benchmarks.datasets import DataSet
from mccgr_cli.blocks.protocol import Array

SHARE = 0.2  # of the samples are held out
SCORES = ("training", "held out", "kept")


def held_out(data: DataSet, seed: int) -> dict[str, float]:
    """Shares of samples: right when fitted, right when predicted, and fitted samples that keep their cluster.

    A sample is right if its class is the most frequent one among the training samples of its cluster.
    """
    order = np.random.default_rng(seed).permutation(len(data.labels))
    count = round(SHARE * len(order))
    new, old = np.sort(order[:count]), np.sort(order[count:])
    model = mccgr_cli.MCCGR(n_components=data.k, random_state=seed).fit(data.X[old])
    majority = majority_classes(model.labels_, data.labels[old])
    right = classes_of(model.labels_, majority) == data.labels[old]
    right_when_predicted = classes_of(model.predict(data.X[new]), majority) == data.labels[new]
    kept = model.predict(data.X[old]) == model.labels_
    return {name: float(one.mean()) for name, one in zip(SCORES, (right, right_when_predicted, kept), strict=True)}


def majority_classes(clusters: Array, labels: Array) -> dict[int, int]:
    """The most frequent class of each cluster."""
    return {int(one): int(np.bincount(labels[clusters == one]).argmax()) for one in np.unique(clusters)}


def classes_of(clusters: Array, majority: dict[int, int]) -> Array:
    """The class that stands for the cluster of each sample."""
    return np.array([majority[cluster] for cluster in clusters.tolist()])
