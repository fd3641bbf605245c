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
    rightly = [majority.get(cluster) for cluster in model.labels_.tolist()] == data.labels[old]
    predicted = [majority.get(cluster) for cluster in model.predict(data.X[new]).tolist()] == data.labels[new]
    kept = model.predict(data.X[old]) == model.labels_
    return {name: float(np.mean(one)) for name, one in zip(SCORES, (rightly, predicted, kept), strict=True)}


def majority_classes(clusters: Array, labels: Array) -> dict[int, int]:
    """The most frequent class of each cluster."""
    return {int(one): int(np.bincount(labels[clusters == one]).argmax()) for one in np.unique(clusters)}
