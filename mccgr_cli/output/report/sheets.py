"""The part of the page on each cluster: its images or samples, the most typical first, and what sets it apart."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from mccgr_cli.output.report.charts import marker
from mccgr_cli.output.report.course import mean_of
from mccgr_cli.output.report.findings import FIRST, LAST, Cluster, Feature, Findings, Profiles
from mccgr_cli.output.report.markup import Markup, readable, tag
from mccgr_cli.output.report.overview import bar, counted, folded, percent, section

FEW = 2000  # samples up to which a browser lays all of them out at once
TOP_FEATURES = 10
SEEN = {True: FIRST, False: 12}  # most typical ones at once, with images and without
TOP_CLASSES = 5
TOP_COMPONENTS = 3
TIMES = "\N{MULTIPLICATION SIGN}"
EXACT = 2**53  # whole numbers below it are the same in a browser
PREFIX = "data:image/webp;base64,"


class ImageFile(Protocol):
    """A WebP, or why there is none."""

    @property
    def data(self) -> bytes: ...
    @property
    def width(self) -> int: ...
    @property
    def height(self) -> int: ...
    @property
    def fault(self) -> str | None: ...


Images = dict[int, ImageFile]  # by sample


def clusters_section(findings: Findings, images: Images | None, profiles: Profiles | None) -> Markup:
    noun = "image" if images is not None else "sample"
    chips = [
        tag("li", tag("a", marker(c.look), str(c.number), tag("small", f"{c.size:,}"), href=f"#cluster-{c.number}"))
        for c in findings.clusters
    ]
    index = tag("nav", tag("ul", chips, class_="chips"), aria_label="Clusters")
    parts, start = [], 0
    for cluster in findings.clusters:
        parts.append(cluster_part(findings, cluster, start, images, profiles))
        start += len(cluster.shown)
    return section("clusters", "Clusters", index, *parts, lede=how_ordered(findings, noun))


def how_ordered(findings: Findings, noun: str) -> str:
    if findings.certainty is None and "W" not in findings.contents:
        why = f"The file holds no coefficients, so there is no saying which {noun}s are typical"
        return f"{why}: they are in the order of the file."
    if findings.certainty is None:
        return (
            f"The most typical {noun}s first: those nearest to the mean. There is no other cluster to mistake it for."
        )
    where = "below" if noun == "image" else "beside"
    told = f"The most typical {noun}s first, the least certain last. The line {where} each is its certainty: "
    if findings.contents.attributes.get("cluster_assign") == "max":
        return f"{told}by how much its largest coefficient exceeds the next, as a share of it."
    return f"{told}full if it lies at the mean of its cluster, empty if it lies as near to another."


def cluster_part(
    findings: Findings, cluster: Cluster, start: int, images: Images | None, profiles: Profiles | None
) -> Markup:
    """``start`` is the place of its first sample among all on the page."""
    identity = f"cluster-{cluster.number}"
    noun = "image" if images is not None else "sample"
    mostly = None if cluster.mostly in (None, cluster.matched) else "mostly "
    name = tag("span", mostly, cluster.mostly, class_="matched-class") if cluster.mostly is not None else None
    heading = tag("h3", marker(cluster.look), f"Cluster {cluster.number}", name, id=f"{identity}-title", tabindex=-1)
    facts = [counted(cluster.size, noun), *about_classes(cluster)]
    about = tag("p", [tag("span", fact) for fact in facts], class_="about")
    rest: list[Any] = []
    if profiles is not None:
        mixture = mean_of(findings, cluster)
        found = profiles.distinctive(mixture, TOP_FEATURES)
        told = [made_of(profiles.shares(mixture)), feature_table(findings, found)]
        rest.append(folded("Distinctive features", *told) if images is not None else tag("div", *told, class_="apart"))
    sheet = sheets(findings, cluster, start, images)
    lazy = "lazy" if len(findings.order) > FEW else None
    if images is None and rest:
        body = tag("div", tag("div", sheet), rest, class_=f"{lazy} beside" if lazy else "beside")
    else:
        body = tag("div", sheet, rest, class_=lazy)
    return tag("section", heading, about, body, id=identity, class_="cluster", aria_labelledby=f"{identity}-title")


def about_classes(cluster: Cluster) -> list[str]:
    if not cluster.classes:
        return []
    told = [f"purity {percent(cluster.purity or 0)}"]
    if cluster.matched != cluster.mostly:
        told.append(f"matched with {'no class' if cluster.matched is None else cluster.matched}")
    counts = [f"{count:,} {name}" for name, count in cluster.classes[:TOP_CLASSES]]
    more = len(cluster.classes) - TOP_CLASSES
    return [*told, ", ".join(counts) + (f" and {more} more classes" if more > 0 else "")]


def sheets(findings: Findings, cluster: Cluster, start: int, images: Images | None) -> list[Markup]:
    """The first and the last of a cluster; what is between becomes elements when it is asked for."""
    count = len(cluster.shown)
    first, last = ends(count, images is not None)
    kind = "sheet" if images is not None else "list"
    items = [
        item(findings, cluster, start + place, int(cluster.shown[place]), images)
        for place in (*range(first), *range(count - last, count))
    ]
    parts = [tag("ul", items[:first], class_=kind, data_first=start)]
    hidden = count - first - last
    if hidden:
        more = tag(
            "button",
            f"Show {hidden:,} more",
            type="button",
            class_="more",
            data_from=start + first,
            data_to=start + count - last,
        )
        parts.append(tag("p", more, tag("span", "Least certain") if last else None, class_="between"))
    if last:
        parts.append(tag("ul", items[first:], class_=kind))
    if count < cluster.size:
        parts.append(tag("p", f"{cluster.size - count:,} more are not on this page.", class_="absent-note"))
    return parts


def ends(count: int, with_images: bool) -> tuple[int, int]:
    """How many are seen at once from the beginning and from the end: all, if a few more are all."""
    return (count, 0) if count <= SEEN[with_images] + LAST else (SEEN[with_images], LAST)


def item(findings: Findings, cluster: Cluster, place: int, sample: int, images: Images | None) -> Markup:
    name = findings.name(sample)
    label = findings.truth[sample] if findings.truth is not None else None
    odd = label is not None and label != cluster.matched
    sure = None if findings.certainty is None else float(findings.certainty[sample])
    caption = None if label is None else tag("span", label, class_="class odd" if odd else "class")
    certainty = None if sure is None else bar(sure)
    if images is None:
        number = None if sure is None else tag("span", f"{sure:.2f}", class_="number")
        return tag("li", tag("span", name, class_="name"), caption, certainty, number)
    image = images[sample]
    if image.fault is None:
        source = Markup(PREFIX + base64.b64encode(image.data).decode())
        seen = tag("img", src=source, alt=name, width=image.width, height=image.height, decoding="async")
    else:
        seen = tag("span", name, class_="no-image")
    told = describe(name, label, odd, sure)
    tile = tag(
        "button",
        tag("span", seen, class_="frame"),
        certainty,
        caption,
        type="button",
        class_="tile",
        data_i=place,
        title=told,
    )
    return tag("li", tile)


def describe(name: str, label: str | None, odd: bool, sure: float | None) -> str:
    parts = [name]
    if label is not None:
        parts.append(f"class {label}" + (", not that of the cluster" if odd else ""))
    if sure is not None:
        parts.append(f"certainty {sure:.2f}")
    return "; ".join(parts)


def made_of(shares: Any) -> Markup:
    first = [int(r) for r in np.argsort(-shares, kind="stable")[:TOP_COMPONENTS] if shares[r] >= 0.05]
    told = ", ".join(f"{r} ({shares[r]:.0%})" for r in first) or "none"
    return tag("p", f"Made of component{'s' if len(first) > 1 else ''} {told}.", class_="made-of")


def feature_table(findings: Findings, found: Sequence[Feature]) -> Markup:
    if not found:
        return tag("p", "No feature sets it apart from the average.", class_="absent-note")
    rows = [
        tag(
            "tr",
            tag("th", findings.feature(one.number), scope="row"),
            tag("td", bar(one.score / found[0].score), class_="wide"),
            tag("td", f"{TIMES} {one.times:.3g}"),
        )
        for one in found
    ]
    head = tag(
        "tr",
        tag("th", "feature", scope="col"),
        tag("th", "part in the difference", scope="col"),
        tag("th", "strength", scope="col"),
    )
    about = f"What sets it apart from the average sample, the most telling first; {TIMES} 2: twice as strong as there."
    return tag("table", tag("caption", about), tag("thead", head), tag("tbody", rows), class_="features")


def image_data(findings: Findings, images: Images) -> list[list[str]]:
    """For each cluster, the images that are no elements yet."""
    found = []
    for cluster in findings.clusters:
        first, last = ends(len(cluster.shown), True)
        hidden = [images[int(sample)] for sample in cluster.shown[first : len(cluster.shown) - last]]
        found.append([base64.b64encode(one.data).decode() for one in hidden])
    return found


def sample_data(findings: Findings, points: Any, with_images: bool) -> dict[str, Any]:
    """What the script of the page knows of the samples, in the order in which they are on it."""
    order = findings.order
    data: dict[str, Any] = {
        "noun": "image" if with_images else "sample",
        "with_images": with_images,
        "names": [readable(findings.name(int(i))) for i in order],
        "clusters": [
            {
                "number": c.number if abs(c.number) < EXACT else str(c.number),
                "count": len(c.shown),
                "size": c.size,
                "look": c.look,
                "matched": class_place(findings, c.matched),
                "mostly": class_place(findings, c.mostly),
            }
            for c in findings.clusters
        ],
        "ends": [SEEN[with_images], LAST],
    }
    if findings.certainty is not None:
        data["certainty"] = [round(float(value), 2) + 0.0 for value in findings.certainty[order]]
    if findings.truth is not None and findings.scores is not None:
        place = {name: i for i, name in enumerate(findings.scores.classes)}
        data["classes"] = [readable(name) for name in findings.scores.classes]
        data["class"] = [place[findings.truth[i]] for i in order]
    if points is not None:
        data["x"], data["y"] = points[:, 0].tolist(), points[:, 1].tolist()
    return data


def class_place(findings: Findings, name: str | None) -> int | None:
    return None if findings.scores is None or name is None else findings.scores.classes.index(name)
