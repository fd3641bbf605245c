"""Scores of the agreement between clusters and classes, from their contingency table."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from mccgr_cli.blocks.protocol import Array


@dataclass(frozen=True)
class Scores:
    """Agreement of clusters with classes, and the contingency table."""

    accuracy: float  # fraction of samples in the cluster matched with their class
    nmi: float  # mutual information over the larger of the two entropies, as in the paper
    ari: float  # Rand index adjusted for chance
    purity: float  # fraction of samples in the majority class of their cluster
    confusion: Array  # (classes, clusters)
    classes: list[str]
    clusters: list[int]  # first those matched with a class, in the order of the classes
    matches: list[str]  # the class that each of these first clusters was matched with


def evaluate(labels: Sequence[object], assignments: Array, known: Mapping[int, str] | None = None) -> Scores:
    """Compare the clusters (n,) of samples with their classes. The numbers of clusters and classes may differ.

    ``known``: the class of each cluster, if other samples have decided it; otherwise the best matching is found. It is
    not used if none of these classes occurs.
    """
    from scipy.optimize import linear_sum_assignment  # slow to import

    class_names = sorted({str(label) for label in labels}, key=numbers_first)
    codes = {name: code for code, name in enumerate(class_names)}
    classes = np.array([codes[str(label)] for label in labels])
    cluster_ids, clusters = np.unique(assignments, return_inverse=True)
    table = np.zeros((len(class_names), len(cluster_ids)), dtype=np.int64)
    np.add.at(table, (classes, clusters), 1)

    if applies(known, class_names):
        places = {int(cluster): column for column, cluster in enumerate(cluster_ids)}
        pairs = [(codes[name], places[c]) for c, name in (known or {}).items() if name in codes and c in places]
        rows, columns = np.array(sorted(pairs), dtype=int).reshape(-1, 2).T
    else:
        rows, columns = linear_sum_assignment(table, maximize=True)  # Kuhn-Munkres
    matched = int(table[rows, columns].sum())
    order = np.concatenate([columns, np.setdiff1d(np.arange(len(cluster_ids)), columns)])
    table = table[:, order]
    n = len(classes)
    return Scores(
        accuracy=matched / n,
        nmi=normalized_mutual_information(table),
        ari=adjusted_rand_index(table),
        purity=float(table.max(axis=0).sum()) / n,
        confusion=table,
        classes=class_names,
        clusters=[int(cluster_ids[column]) for column in order],
        matches=[class_names[row] for row in rows],
    )


def applies(known: Mapping[int, str] | None, classes: Sequence[str]) -> bool:
    """Whether a correspondence of clusters and classes is about these classes."""
    return bool(set((known or {}).values()) & set(classes))


def numbers_first(name: str) -> tuple[bool, float, str]:
    """Sort key: numbers by value, before words."""
    try:
        number = float(name)
    except ValueError:
        number = math.nan
    return (True, 0.0, name) if math.isnan(number) else (False, number, name)  # NaN has no order


def agreement(first: Array, second: Array) -> float:
    """The normalized mutual information of two clusterings (n,) of the same samples."""
    table = np.zeros((int(first.max()) + 1, int(second.max()) + 1))
    np.add.at(table, (first, second), 1)
    return normalized_mutual_information(table)


def normalized_mutual_information(table: Array) -> float:
    """MI / max(H(classes), H(clusters)); 1 when both are a single group."""
    joint = table / table.sum()
    by_class, by_cluster = joint.sum(axis=1), joint.sum(axis=0)
    largest = max(entropy(by_class), entropy(by_cluster))
    if largest == 0:
        return 1.0
    information = entropy(by_class) + entropy(by_cluster) - entropy(joint)
    return float(min(max(information / largest, 0.0), 1.0))


def entropy(shares: Array) -> float:
    positive = shares[shares > 0]
    return float(-(positive * np.log(positive)).sum()) + 0.0


def adjusted_rand_index(table: Array) -> float:
    """(index - expected) / (maximum - expected) over pairs of samples (Hubert and Arabie 1985)."""

    def pairs(counts: Array) -> int:
        return sum(count * (count - 1) // 2 for count in counts.ravel().tolist())

    together, by_class, by_cluster = pairs(table), pairs(table.sum(axis=1)), pairs(table.sum(axis=0))
    expected = by_class * by_cluster / max(pairs(table.sum(keepdims=True)), 1)
    largest = (by_class + by_cluster) / 2
    return 1.0 if largest == expected else float((together - expected) / (largest - expected))


def separation(points: Array, part: Array) -> float:
    """How far clusters are apart, from -1 to 1: the mean over samples of (b - a) / max(a, b).

    a is the squared distance to the mean of the sample's own cluster, b that to the nearest mean of another cluster: a
    simple form of the silhouette (P. J. Rousseeuw: Silhouettes. Journal of Computational and Applied Mathematics 20,
    1987).
    """
    _, part, sizes = np.unique(part, return_inverse=True, return_counts=True)
    if len(sizes) < 2:
        return 0.0
    means = np.zeros((len(sizes), points.shape[1]))
    np.add.at(means, part, points)
    means /= sizes[:, None]
    gaps = (points**2).sum(axis=1)[:, None] - 2 * points @ means.T + (means**2).sum(axis=1)
    own = np.maximum(gaps[np.arange(len(part)), part], 0)
    gaps[np.arange(len(part)), part] = np.inf
    other = np.maximum(gaps.min(axis=1), 0)
    largest = np.maximum(own, other)
    return float(np.divide(other - own, largest, out=np.zeros_like(own), where=largest > 0).mean())
