"""What the script of the page gets, as JSON: all about the samples, and images that no element shows yet."""

from __future__ import annotations

import os.path
from base64 import b64encode
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from mccgr_cli.blocks.protocol import Array
from mccgr_cli.output.cluster_names import class_looks
from mccgr_cli.output.colours import COLOURS, MARKERS
from mccgr_cli.output.report.cluster_sheets import FIRST_NAMES, Images, ends
from mccgr_cli.output.report.clusters import FIRST, LAST, Findings
from mccgr_cli.output.report.duplicates import DuplicateGroup

EXACT = 2**53  # a browser rounds larger whole numbers


def sample_data(
    findings: Findings, points: Array | None, with_images: bool, duplicates: Sequence[DuplicateGroup] | None
) -> dict[str, Any]:
    """All about the samples on the page, in the order in which they are on the page."""
    order = findings.order.tolist()
    classes: dict[str | None, int] = {}
    if findings.scores is not None:
        classes |= {name: i for i, name in enumerate(findings.scores.classes)}
    data: dict[str, Any] = {
        "noun": "image" if with_images else "sample",
        "with_images": with_images,
        "names": [findings.name(i) for i in order],
        "samples": order,  # their numbers in the file
        "total": findings.samples,  # also of those that are not on the page
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
        "colours": len(COLOURS),
    }
    data["full_names"] = full_names(findings, data["names"])
    if findings.certainty is not None:
        data["certainty"] = two_decimals(findings.certainty[order])
    if findings.outlier is not None:
        data["outlier"] = two_decimals(findings.outlier[order])
    if findings.truth is not None and findings.scores is not None:
        looks = class_looks(findings.scores)
        data["classes"], data["class_looks"] = list(classes), [looks[name] for name in findings.scores.classes]
        data["class"] = [classes[findings.truth[i]] for i in order]
    if points is not None:
        data["x"], data["y"] = points.T.tolist()
    if duplicates is not None:
        data["duplicates"] = [[one.samples, round(one.similarity, 4), one.exact] for one in duplicates]
    return data


def two_decimals(values: Array) -> list[float]:
    return [round(value, 2) + 0.0 for value in values.tolist()]


def full_names(findings: Findings, shown: list[str]) -> dict[int, str] | None:
    """Names that the page does not show as they are, by place; None if the samples have no names."""
    names = findings.contents.datasets.get("sample_names")
    if names is None:
        return None
    both = enumerate(zip(shown, findings.order.tolist(), strict=True))
    return {place: str(names[i]) for place, (name, i) in both if name != names[i]}


def other_samples(findings: Findings) -> dict[str, Any] | None:
    """Names and clusters of the samples that are not on the page, in the order of the file; None if all are."""
    others = np.flatnonzero(findings.places < 0)
    if not len(others):
        return None
    names = findings.contents.datasets.get("sample_names")
    places = findings.cluster_places[others]
    kind = next(kind for kind in ("<u1", "<u2", "<u4") if len(findings.clusters) <= np.iinfo(kind).max)
    return {
        "names": None if names is None else list(front_coded(str(names[i]) for i in others.tolist())),
        "bytes": np.dtype(kind).itemsize,  # of each number in ``clusters``
        "clusters": b64encode(places.astype(kind).tobytes()).decode(),
    }


def front_coded(names: Iterable[str]) -> Iterable[int | str]:
    """Of each name, how many of its first letters are those of the name before, and its other letters.

    Letters are counted as a browser counts them: those beyond 16 bits twice.

    >>> list(front_coded(["cats/1.png", "cats/23.png", "dogs/1.png"]))
    [0, 'cats/1.png', 5, '23.png', 0, 'dogs/1.png']
    """
    before = ""
    for name in names:
        shared = os.path.commonprefix((before, name))  # noqa: RUF071 - letter by letter is what is wanted
        yield len(shared) + sum(letter > "\uffff" for letter in shared)
        yield name[len(shared) :]
        before = name


def hidden_images(findings: Findings, images: Images) -> dict[int, list[bytes]]:
    """The images that no element shows yet, by the place of their cluster."""
    found = {}
    for place, cluster in enumerate(findings.clusters):
        first, last = ends(len(cluster.shown), True)
        found[place] = [images[int(i)].data for i in cluster.shown[first : len(cluster.shown) - last]]
    return {place: some for place, some in found.items() if some}
