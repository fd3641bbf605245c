"""The section on clusters: for each its samples, the most typical first, and its distinctive features."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from mccgr_cli.blocks.protocol import Array
from mccgr_cli.output.curves import MARKERS
from mccgr_cli.output.report.clusters import FIRST, LAST, Cluster, Findings
from mccgr_cli.output.report.distinctive import Feature, Profiles
from mccgr_cli.output.report.template import base64

if TYPE_CHECKING:
    from mccgr_cli.images.thumbnails import Thumbnail

FIRST_NAMES = 12  # instead of FIRST, where samples are shown without images
TOP_FEATURES = 10
TOP_COMPONENTS = 3
LEAST_SHARE = 0.05  # of a component that is named
EXACT = 2**53  # a browser rounds larger whole numbers

Images = Mapping[int, "Thumbnail"]  # by sample


@dataclass(frozen=True)
class Item:
    """A sample on the page."""

    place: int  # among all samples on the page
    name: str
    label: str | None  # its class
    is_odd: bool  # not of the class that its cluster is matched with
    certainty: float | None
    image: Thumbnail | None


@dataclass(frozen=True)
class Sheet:
    cluster: Cluster
    start: int  # place of its first sample among all on the page
    first: list[Item]  # the most typical samples
    hidden: int  # samples between first and last, which the script adds when the reader asks for them
    last: list[Item]  # the least certain samples
    components: list[tuple[int, float]] | None  # the largest ones and their shares; None without factors
    features: list[Feature]  # the most distinctive ones


def cluster_sheets(findings: Findings, images: Images | None, profiles: Profiles | None) -> list[Sheet]:
    """What the page shows of each cluster."""
    sheets, start = [], 0
    for cluster in findings.clusters:
        shown = cluster.shown.tolist()
        first, last = ends(len(shown), images is not None)
        visible = [*range(first), *range(len(shown) - last, len(shown))]
        items = [item(findings, cluster, start + place, shown[place], images) for place in visible]
        components, features = None, []
        if profiles is not None:
            mean = findings.mean(cluster)
            components = largest_shares(profiles.shares(mean), TOP_COMPONENTS)
            features = profiles.distinctive(mean, TOP_FEATURES)
        hidden = len(shown) - first - last
        sheets.append(Sheet(cluster, start, items[:first], hidden, items[first:], components, features))
        start += len(shown)
    return sheets


def ends(count: int, with_images: bool) -> tuple[int, int]:
    """How many samples are seen at once from the beginning and from the end: all, if there are few."""
    first = FIRST if with_images else FIRST_NAMES
    return (count, 0) if count <= first + LAST else (first, LAST)


def item(findings: Findings, cluster: Cluster, place: int, sample: int, images: Images | None) -> Item:
    label = findings.truth[sample] if findings.truth is not None else None
    is_odd = label is not None and label != cluster.matched
    certainty = None if findings.certainty is None else float(findings.certainty[sample])
    image = images[sample] if images is not None else None
    return Item(place, findings.name(sample), label, is_odd, certainty, image)


def largest_shares(shares: Array, most: int) -> list[tuple[int, float]]:
    """Numbers and values of the largest shares, without those that hardly count."""
    largest = np.argsort(-shares, kind="stable")[:most].tolist()
    return [(i, float(shares[i])) for i in largest if shares[i] >= LEAST_SHARE]


def hidden_images(findings: Findings, images: Images) -> dict[int, list[str]]:
    """For the script: the images that no element shows yet, by the place of their cluster."""
    found: dict[int, list[str]] = {}
    for place, cluster in enumerate(findings.clusters):
        first, last = ends(len(cluster.shown), True)
        found[place] = [base64(images[int(i)].data) for i in cluster.shown[first : len(cluster.shown) - last]]
    return {place: some for place, some in found.items() if some}


def sample_data(findings: Findings, points: Array | None, with_images: bool) -> dict[str, Any]:
    """For the script: all about the samples, in the order in which they are on the page."""
    order = findings.order.tolist()
    classes: dict[str | None, int] = {}
    if findings.scores is not None:
        classes |= {name: i for i, name in enumerate(findings.scores.classes)}
    data: dict[str, Any] = {
        "noun": "image" if with_images else "sample",
        "with_images": with_images,
        "names": [findings.name(i) for i in order],
        "clusters": [
            {
                "number": c.number if abs(c.number) < EXACT else str(c.number),
                "count": len(c.shown),
                "size": c.size,
                "look": c.look,
                "matched": classes.get(c.matched),
                "mostly": classes.get(c.mostly),
            }
            for c in findings.clusters
        ],
        "ends": [FIRST if with_images else FIRST_NAMES, LAST],
        "markers": list(MARKERS.values()),
    }
    if findings.certainty is not None:
        data["certainty"] = [round(value, 2) + 0.0 for value in findings.certainty[order].tolist()]
    if findings.truth is not None:
        data["classes"] = list(classes)
        data["class"] = [classes[findings.truth[i]] for i in order]
    if points is not None:
        data["x"], data["y"] = points.T.tolist()
    return data
