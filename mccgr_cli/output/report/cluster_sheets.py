"""The section on clusters: for each its samples, the most typical first, and its distinctive features."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from mccgr_cli.blocks.protocol import Array
from mccgr_cli.core.profiles import GroupValues, Profiles
from mccgr_cli.output.dots import Dots, feature_dots
from mccgr_cli.output.report.clusters import FIRST, LAST, Cluster, Findings
from mccgr_cli.workflow.top_features import top_features

if TYPE_CHECKING:
    from mccgr_cli.images.thumbnails import Thumbnail

FIRST_NAMES = 12  # instead of FIRST, where samples are shown without images
TOP_FEATURES = 10
TOP_COMPONENTS = 3
LEAST_SHARE = 0.05  # of a component that is named

Images = Mapping[int, "Thumbnail"]  # by sample


def dots_section(findings: Findings, with_images: bool, values: GroupValues | None) -> Dots | None:
    """The top features by cluster; None if they are unknown, or numbers that say nothing to a reader."""
    if not features_speak(findings, with_images) or ("H" not in findings.contents and values is None):
        return None
    dots = feature_dots(findings.contents, list(findings.clusters), values)
    return dots if dots.features else None


def features_speak(findings: Findings, with_images: bool) -> bool:
    """Whether the features have names from the user, or are at least all that there is to see of the samples."""
    return not findings.features_are_numbers and ("feature_names" in findings.contents or not with_images)


def cluster_sheets(
    findings: Findings, images: Images | None, profiles: Profiles | None, values: GroupValues | None = None
) -> list[dict[str, Any]]:
    """What the page shows of each cluster."""
    known = profiles is not None or values is not None
    groups = top_features(findings.contents, TOP_FEATURES, values=values) if known else []
    sheets, start = [], 0
    for place, cluster in enumerate(findings.clusters):
        shown = cluster.shown.tolist()
        first, last = ends(len(shown), images is not None)
        visible = [*range(first), *range(len(shown) - last, len(shown))]
        items = [item(findings, cluster, start + at, shown[at], images) for at in visible]
        sheet = {
            "cluster": cluster,
            "start": start,  # place of its first sample among all on the page
            "first": items[:first],  # the most typical samples
            "hidden": len(shown) - first - last,  # samples that the script adds when the reader asks for them
            "last": items[first:],  # the least certain samples
            "components": None,
            "features": groups[place].features if known else None,
        }
        if profiles is not None:
            sheet["components"] = largest_shares(profiles.shares(findings.mean(cluster)), TOP_COMPONENTS)
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
