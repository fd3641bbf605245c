"""What a clustering found: which samples are typical of their cluster, which are not, and what sets clusters apart."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from scipy.spatial.distance import cdist

from mccgr_cli.blocks.protocol import Array, chunks
from mccgr_cli.core.metrics import Scores, evaluate
from mccgr_cli.files.container import Contents
from mccgr_cli.files.readers import Loaded
from mccgr_cli.output.text import name_of, shorten

FIRST, LAST = 24, 6  # samples of a cluster that are seen at once: the most typical and the least certain
LONGEST_NAME = 300
ROWS = 4096  # samples that are compared with all means at a time


@dataclass(frozen=True)
class Cluster:
    number: int  # as in the file
    members: Array  # all of its samples, the most typical first
    shown: Array  # those on the page, in the same order
    look: int  # decides on its colour and marker: those of the class that it is matched with
    matched: str | None = None  # with this class
    classes: tuple[tuple[str, int], ...] = ()  # of its samples, the most frequent first

    @property
    def size(self) -> int:
        return len(self.members)

    @property
    def mostly(self) -> str | None:
        """The class of most of its samples: the matched one, where that is as frequent as any."""
        if not self.classes:
            return None
        counts = dict(self.classes)
        as_frequent = self.matched is not None and counts.get(self.matched) == self.classes[0][1]
        return self.matched if as_frequent else self.classes[0][0]

    @property
    def purity(self) -> float | None:
        return self.classes[0][1] / self.size if self.classes else None


@dataclass(frozen=True)
class Findings:
    given: Loaded
    clusters: list[Cluster]
    truth: list[str] | None  # the class of every sample
    scores: Scores | None
    certainty: Array | None  # (n,) NaN-free, at most 1

    @property
    def contents(self) -> Contents:
        return self.given.contents

    @property
    def samples(self) -> int:
        return len(self.contents["assignments"])

    @cached_property
    def coefficients(self) -> tuple[Array, int]:
        """W with values below 1, whose squares and sums are finite, and the power of two to multiply them by."""
        return below_one(self.contents["W"])

    def mean(self, cluster: Cluster) -> Array:
        """The mean row of ``coefficients`` of a cluster."""
        return np.asarray(self.coefficients[0][cluster.members].mean(axis=0))

    @cached_property
    def order(self) -> Array:
        """The samples on the page: cluster after cluster, the most typical first."""
        return np.concatenate([cluster.shown for cluster in self.clusters])

    def name(self, sample: int) -> str:
        return name_of(self.contents, "sample", sample, LONGEST_NAME)

    def feature(self, number: int) -> str:
        return name_of(self.contents, "feature", number, LONGEST_NAME)


def find(given: Loaded, truth: list[str] | None, most: int) -> Findings:
    """At most about so many samples are shown; of each cluster its share, the extremes among them."""
    contents = given.contents
    assignments = contents["assignments"]
    if truth is not None:
        truth = shortened(truth)
    numbers = np.unique(assignments)
    scores = evaluate(truth, assignments) if truth is not None else None
    W, certainty, distance = contents.datasets.get("W"), None, np.zeros(len(assignments))
    if W is not None:
        certainty, distance = typicality(below_one(W)[0], assignments, contents.attributes.get("cluster_assign"))
    clusters = []
    for place, number in enumerate(numbers):
        members = np.flatnonzero(assignments == number)
        sure = np.zeros(len(members)) if certainty is None else certainty[members]
        members = members[np.lexsort((members, distance[members], -sure))]
        quota = max(len(members) * most // len(assignments), FIRST + LAST)
        cluster = Cluster(int(number), members, spread(members, quota), place)
        if truth is not None and scores is not None:
            cluster = with_classes(cluster, truth, scores)
        clusters.append(cluster)
    return Findings(given, clusters, truth, scores, certainty)


def below_one(values: Array) -> tuple[Array, int]:
    """In double precision, and the power of two that was divided by, which changes no digit."""
    exponent = int(np.frexp(values.max(initial=0).astype(np.float64))[1])
    return np.ldexp(values.astype(np.float64), -exponent), exponent


def shortened(classes: Sequence[str]) -> list[str]:
    """Classes that were different stay so."""
    known: dict[str, str] = {}
    taken: set[str] = set()
    for name in dict.fromkeys(classes):
        short = shorten(name, LONGEST_NAME)
        known[name] = f"{short} ({len(known)})" if short in taken else short
        taken.add(short)
    return [known[name] for name in classes]


def typicality(W: Array, assignments: Array, assign: object = None) -> tuple[Array | None, Array]:
    """How certain it is that a sample belongs to its cluster (n,), and how far it is from the cluster's mean (n,).

    The certainty is (b - a) / max(a, b) with a the distance of its row of W to the mean of its own cluster and b to
    the nearest other mean: the simplified silhouette (Vendramin, Campello and Hruschka 2010). 1: at its own mean;
    0: between two; below 0: nearer to another. Where clusters are the largest coefficients, it is (a - b) / a
    with a the largest and b the next. None if there is but one cluster.
    """
    numbers, place = np.unique(assignments, return_inverse=True)
    sizes = np.bincount(place)
    means = np.stack([np.bincount(place, column) for column in W.T], axis=1) / sizes[:, None]
    own, other = np.empty(len(W)), np.full(len(W), np.inf)
    for rows in chunks(len(W), ROWS):
        far = cdist(W[rows], means)
        index = np.arange(len(far)), place[rows]
        own[rows] = far[index]
        far[index] = np.inf
        other[rows] = far.min(axis=1)
    if assign == "max" and W.shape[1] > 1 and (W.argmax(axis=1) == assignments).all():
        next_largest, largest = np.partition(W, -2, axis=1)[:, -2:].T
        return ratio(largest - next_largest, largest), own
    if len(numbers) == 1:
        return None, own
    return ratio(other - own, np.maximum(own, other)), own


def ratio(part: Array, whole: Array) -> Array:
    """0 where both are."""
    return np.divide(part, whole, out=np.zeros(len(part)), where=whole > 0)


def with_classes(cluster: Cluster, truth: Sequence[str], scores: Scores) -> Cluster:
    names, counts = np.unique([truth[i] for i in cluster.members], return_counts=True)
    order = np.argsort(-counts, kind="stable")
    place = scores.clusters.index(cluster.number)
    matched = scores.matches[place] if place < len(scores.matches) else None
    look = scores.classes.index(matched) if matched is not None else place
    classes = tuple((str(names[i]), int(counts[i])) for i in order)
    return replace(cluster, look=look, matched=matched, classes=classes)


def spread(members: Array, quota: int) -> Array:
    """So many of them: the first, the last, and evenly from between."""
    if len(members) <= quota:
        return members
    between = np.linspace(FIRST, len(members) - LAST - 1, quota - FIRST - LAST).round().astype(int)
    return members[np.r_[:FIRST, between, len(members) - LAST : len(members)]]
