"""How well ``MCCGR.predict`` finds the clusters of samples that were not there when it was fitted."""

from __future__ import annotations

import numpy as np

import mccgr_cli
from benchmarks.datasets import DataSet

SHARE = 0.2  # of the samples are held out
SCORES = ("training", "training, by the others", "held out", "kept")


def held_out(data: DataSet, seed: int) -> dict[str, float]:
    """Shares of samples: right when fitted, right when predicted, and fitted samples that keep their cluster.

    A sample is right if its class is the most frequent one among the training samples of its cluster. A training sample
    has a part in this itself; "by the others" is without that part, as for a new sample.
    """
    order = np.random.default_rng(seed).permutation(len(data.labels))
    count = round(SHARE * len(order))
    new, old = np.sort(order[:count]), np.sort(order[count:])
    model = mccgr_cli.MCCGR(n_components=data.k, random_state=seed).fit(data.X[old])
    clusters, labels = model.labels_, data.labels[old]
    counts = np.zeros((clusters.max() + 1, data.labels.max() + 1), dtype=int)  # of classes in clusters
    np.add.at(counts, (clusters, labels), 1)
    majority = counts.argmax(axis=1)
    others = counts[clusters]
    others[np.arange(len(old)), labels] -= 1
    found = (
        majority[clusters] == labels,
        others.argmax(axis=1) == labels,
        majority[model.predict(data.X[new])] == data.labels[new],
        model.predict(data.X[old]) == clusters,
    )
    return {name: float(one.mean()) for name, one in zip(SCORES, found, strict=True)}
