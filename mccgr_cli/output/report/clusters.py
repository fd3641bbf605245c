"""What the page shows of a clustering: its clusters, and which samples are typical of them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from mccgr_cli.blocks.protocol import Array
from mccgr_cli.core.metrics import Scores, evaluate
from mccgr_cli.core.typicality import LEAD, SILHOUETTE, VOTES, below_one, typicality
from mccgr_cli.files.container import Contents
from mccgr_cli.files.readers import Loaded
from mccgr_cli.output.cluster_names import NamedCluster, named_clusters
from mccgr_cli.output.text import name_of, shorten

MOST_OUTLIERS = 60
ORDINARY = 1.0  # the outlier score of a sample that is as isolated as its neighbours
FIRST, LAST = 24, 6  # samples of a cluster that are seen at once: the most typical and the least certain
LONGEST_NAME = 300
IMAGE_FEATURE = re.compile(r"(word|feature) [+-]?[0-9]+ \([0-9a-f]{8}\)")  # as mccgr extract names them


@dataclass(frozen=True)
class Cluster(NamedCluster):
    members: Array  # all of its samples, the most typical first
    shown: Array  # the samples on the page, in the same order

    @property
    def size(self) -> int:
        return len(self.members)


@dataclass(frozen=True)
class Findings:
    given: Loaded
    clusters: list[Cluster]
    truth: list[str] | None  # the class of every sample
    scores: Scores | None
    certainty: Array | None  # (n,) finite, at most 1

    @property
    def contents(self) -> Contents:
        return self.given.contents

    @property
    def samples(self) -> int:
        return len(self.contents["assignments"])

    @property
    def certainty_kind(self) -> str:
        """What the certainty is: LEAD, SILHOUETTE or VOTES."""
        attributes = self.contents.attributes
        computed = LEAD if attributes.get("cluster_assign") == "max" else SILHOUETTE
        return str(attributes.get("certainty_kind", VOTES if "certainty" in self.contents else computed))

    @cached_property
    def coefficients(self) -> tuple[Array, int]:
        """W divided by a power of two, so that squares and sums are finite; and the exponent of that power."""
        return below_one(self.contents["W"])

    def mean(self, cluster: Cluster) -> Array:
        """The mean row of ``coefficients`` of a cluster."""
        return np.asarray(self.coefficients[0][cluster.members].mean(axis=0))

    @cached_property
    def order(self) -> Array:
        """The samples on the page: cluster after cluster, the most typical first."""
        return np.concatenate([cluster.shown for cluster in self.clusters])

    @cached_property
    def places(self) -> Array:
        """(n,) the place of every sample in ``order``; -1 for samples that are not on the page."""
        found = np.full(self.samples, -1)
        found[self.order] = np.arange(len(self.order))
        return found

    @cached_property
    def cluster_places(self) -> Array:
        """(n,) the place of every sample's cluster in ``clusters``."""
        return np.unique(self.contents["assignments"], return_inverse=True)[1]

    @property
    def outlier(self) -> Array | None:
        """(n,) how isolated every sample is: about 1 if it is as isolated as its neighbours, more if it is more so."""
        return self.contents.datasets.get("outlier")

    def name(self, sample: int) -> str:
        return name_of(self.contents, "sample", sample, LONGEST_NAME)

    @property
    def features_are_numbers(self) -> bool:
        """Whether the features were computed from images by mccgr: visual words, or outputs of a network."""
        names = self.contents.datasets.get("feature_names", [""])
        return IMAGE_FEATURE.fullmatch(str(names[0])) is not None

    def feature(self, number: int, most: int = LONGEST_NAME) -> str:
        return name_of(self.contents, "feature", number, most)


def find(given: Loaded, truth: list[str] | None, most: int) -> Findings:
    """Decide what the page shows of a file.

    Parameters
    ----------
    truth : the class of every sample
    most : about how many samples to show; each cluster gets its share, and its most and least typical samples are shown
    """
    contents = given.contents
    assignments = contents["assignments"]
    isolated = most_isolated(contents.datasets.get("outlier"))
    scores = None
    if truth is not None:
        short = dict(zip(truth, shortened(truth), strict=True))
        known = {cluster: short.get(name, name) for cluster, name in contents.correspondence().items()}
        truth = [short[name] for name in truth]
        scores = evaluate(truth, assignments, known)
    certainty, distance = None, np.zeros(len(assignments))
    if "W" in contents:
        W, _ = below_one(contents["W"])
        certainty, distance = typicality(W, assignments, contents.attributes.get("cluster_assign"))
    certainty = contents.datasets.get("certainty", certainty)  # files of 0.1 have none
    clusters = []
    for cluster in named_clusters(assignments, scores):
        members = np.flatnonzero(assignments == cluster.number)
        keys = (members, distance[members], *([] if certainty is None else [-certainty[members]]))
        members = members[np.lexsort(keys)]
        some = spread(members, max(len(members) * most // len(assignments), FIRST + LAST))
        shown = members[np.isin(members, some) | np.isin(members, isolated)]
        clusters.append(Cluster(**vars(cluster), members=members, shown=shown))
    return Findings(given, clusters, truth, scores, certainty)


def most_isolated(outlier: Array | None) -> Array:
    """The samples with the highest outlier scores, the highest first, as far as they are more than ordinary."""
    if outlier is None:
        return np.zeros(0, dtype=int)
    first = np.argsort(-outlier, kind="stable")[:MOST_OUTLIERS]
    return first[outlier[first] > ORDINARY]


def shortened(classes: Sequence[str]) -> list[str]:
    """Short names of classes; different classes keep different names."""
    known: dict[str, str] = {}
    taken: set[str] = set()
    for name in dict.fromkeys(classes):
        short = shorten(name, LONGEST_NAME)
        known[name] = f"{short} ({len(known)})" if short in taken else short
        taken.add(short)
    return [known[name] for name in classes]


def spread(members: Array, quota: int) -> Array:
    """At most ``quota`` members: the first, the last, and some at equal steps between them."""
    if len(members) <= quota:
        return members
    between = np.linspace(FIRST, len(members) - LAST - 1, quota - FIRST - LAST).round().astype(int)
    return members[np.r_[:FIRST, between, len(members) - LAST : len(members)]]
