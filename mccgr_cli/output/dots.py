"""The top features by cluster as dots: what ``plots.dots`` and the page both draw."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby

import numpy as np

from mccgr_cli.blocks.protocol import Array
from mccgr_cli.core.profiles import GroupValues, factor_values
from mccgr_cli.files.container import Contents
from mccgr_cli.output.cluster_names import NamedCluster
from mccgr_cli.workflow.top_features import top_features

MOST_CLUSTERS = 40  # that are drawn
MOST_FEATURES, EACH = 48, 5  # features that are drawn by default: of all clusters, and of one
LARGEST = 1e300  # larger means are drawn as this


@dataclass(frozen=True)
class Dots:
    """A row for each feature and a column for each cluster."""

    clusters: list[NamedCluster]
    features: list[int]  # the top features of the first cluster, then those of the next
    owners: list[int]  # (f,) the place of the cluster that the feature is a top feature of
    fractions: Array  # (f, g) of the samples of a cluster; the area of the dot
    means: Array  # (f, g) finite; the colour of the dot
    meaning_of_size: str
    meaning_of_colour: str

    @property
    def by_owner(self) -> list[tuple[int, list[int]]]:
        """The rows of each cluster that has some."""
        rows = groupby(range(len(self.owners)), key=self.owners.__getitem__)
        return [(owner, list(own)) for owner, own in rows]

    def cells(self, row: int) -> list[tuple[float, float]]:
        """The fraction and the mean of the feature in every cluster."""
        return list(zip(self.fractions[row].tolist(), self.means[row].tolist(), strict=True))

    @property
    def largest(self) -> float:
        """The mean with the strongest colour."""
        return float(self.means.max(initial=0)) or 1.0


def feature_dots(
    contents: Contents, clusters: list[NamedCluster], values: GroupValues | None = None, count: int | None = None
) -> Dots:
    """The top features of all clusters, at most ``count`` of each. A feature stands once, where its score is highest.

    Without the ``values`` of the matrix, the dots show WH, which is what the factors say of the matrix.
    """
    drawn = clusters[:MOST_CLUSTERS]
    count = count or max(min(EACH, MOST_FEATURES // len(drawn)), 1)
    groups = top_features(contents, count, values=values)[: len(drawn)]
    best: dict[int, tuple[float, int]] = {}
    for place, group in enumerate(groups):
        for feature in group.features:
            if feature.score > best.get(feature.number, (0.0, 0))[0]:
                best[feature.number] = feature.score, place
    rows = [
        (f.number, place) for place, group in enumerate(groups) for f in group.features if best[f.number][1] == place
    ]
    features, owners = [number for number, _ in rows], [place for _, place in rows]
    if values is not None:
        how = contents.attributes.get("normalize", "none")
        colour = "mean value" if how == "none" else f"mean value (rows normalized by {how})"
        size, shown = "share of the samples of the cluster with a value above 0", (values.fractions, values.means)
        fractions, means = (one[: len(drawn), features].T for one in shown)
    else:
        places = np.unique(contents["assignments"], return_inverse=True)[1]
        found = factor_values(contents["W"], contents["H"][:, features], places)
        fractions, means = (one[: len(drawn)].T for one in (found.fractions, found.means))
        size = "share of the samples of the cluster in which WH is above the mean of all samples"
        colour = "mean of WH, the values that the factors give"
    return Dots(drawn, features, owners, fractions, np.minimum(means, LARGEST), size, colour)
