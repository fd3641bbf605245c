"""The section on clusters: for each its samples, the most typical first, and its distinctive features."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from mccgr_cli.blocks.protocol import Array
from mccgr_cli.core.typicality import below_one
from mccgr_cli.output.report.clusters import FIRST, LAST, Cluster, Findings

if TYPE_CHECKING:
    from mccgr_cli.images.thumbnails import Thumbnail

FIRST_NAMES = 12  # instead of FIRST, where samples are shown without images
TOP_FEATURES = 10
TOP_COMPONENTS = 3
LEAST_SHARE = 0.05  # of a component that is named

Images = Mapping[int, "Thumbnail"]  # by sample


class Profiles:
    """Features that distinguish mixtures of components from the average sample, by p log(p / q).

    p is the profile of a mixture m of components, m H times the weights of the features, divided by its sum; q is the
    profile of the average sample. p log(p / q) is the part of a feature in the Kullback-Leibler divergence of the two:
    small for features that are strong everywhere, and for those that are weak in the mixture.
    """

    def __init__(self, W: Array, H: Array, rho: Array) -> None:
        """``W`` and all mixtures must have the same scale."""
        self.H = below_one(H)[0] * below_one(rho)[0]
        self.strength = self.H.sum(axis=1)  # (k,)
        self.average = self.profile(W.mean(axis=0))

    def profile(self, mixture: Array) -> Array:
        whole = mixture @ self.H
        return np.asarray(whole / (whole.sum() or 1))

    def distinctive(self, mixture: Array, most: int) -> list[tuple[int, float, float]]:
        """The features, their parts of the difference, and their strengths divided by those in the average sample."""
        p, q = self.profile(mixture), self.average
        both = (p > 0) & (q > 0)
        with np.errstate(over="ignore"):  # if q is tiny
            times = np.divide(p, q, out=np.ones(len(p)), where=both)
        score = np.zeros(len(p))
        score[both] = p[both] * (np.log(p[both]) - np.log(q[both]))
        best = np.argsort(-score, kind="stable")[:most]
        return [(int(j), float(score[j]), float(times[j])) for j in best if score[j] > 0]

    def shares(self, mixture: Array) -> Array:
        """The shares of the components in a mixture, by their contributions to the features."""
        parts = mixture * self.strength
        return np.asarray(parts / (parts.sum() or 1))


def cluster_sheets(findings: Findings, images: Images | None, profiles: Profiles | None) -> list[dict[str, Any]]:
    """What the page shows of each cluster."""
    sheets, start = [], 0
    for cluster in findings.clusters:
        shown = cluster.shown.tolist()
        first, last = ends(len(shown), images is not None)
        visible = [*range(first), *range(len(shown) - last, len(shown))]
        items = [item(findings, cluster, start + place, shown[place], images) for place in visible]
        sheet = {
            "cluster": cluster,
            "start": start,  # place of its first sample among all on the page
            "first": items[:first],  # the most typical samples
            "hidden": len(shown) - first - last,  # samples that the script adds when the reader asks for them
            "last": items[first:],  # the least certain samples
            "components": None,
        }
        if profiles is not None:
            mean = findings.mean(cluster)
            sheet["components"] = largest_shares(profiles.shares(mean), TOP_COMPONENTS)
            sheet["features"] = profiles.distinctive(mean, TOP_FEATURES)
        sheets.append(sheet)
        start += len(shown)
    return sheets


def ends(count: int, with_images: bool) -> tuple[int, int]:
    """How many samples are seen at once from the beginning and from the end: all, if there are few."""
    first = FIRST if with_images else FIRST_NAMES
    return (count, 0) if count <= first + LAST else (first, LAST)


def item(findings: Findings, cluster: Cluster, place: int, sample: int, images: Images | None) -> dict[str, Any]:
    label = findings.truth[sample] if findings.truth is not None else None
    return {
        "place": place,  # among all samples on the page
        "name": findings.name(sample),
        "label": label,  # its class
        "is_odd": label is not None and label != cluster.matched,
        "certainty": None if findings.certainty is None else float(findings.certainty[sample]),
        "image": images[sample] if images is not None else None,
    }


def largest_shares(shares: Array, most: int) -> list[tuple[int, float]]:
    """Numbers and values of the largest shares, without those that hardly count."""
    largest = np.argsort(-shares, kind="stable")[:most].tolist()
    return [(i, float(shares[i])) for i in largest if shares[i] >= LEAST_SHARE]
