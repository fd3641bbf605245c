"""The parts of the page on the whole result: summary, scores and map; and what all parts are made with."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import PurePath
from typing import Any

import numpy as np

from mccgr_cli.core.metrics import Scores
from mccgr_cli.output.report.findings import Findings
from mccgr_cli.output.report.layout import Layout
from mccgr_cli.output.report.markup import Markup, tag

MOST_CELLS = 10_000  # of a confusion matrix that is shown whole
TOP_CLUSTERS = 3
HEAT = 10  # shades


def counted(number: int, noun: str) -> str:
    """
    >>> counted(1, "image"), counted(1200, "image")
    ('1 image', '1,200 images')
    """
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def percent(share: float) -> str:
    return f"{100 * share:.1f}\u2009%"


def section(identity: str, title: str, *children: Any, lede: Any = None) -> Markup:
    heading = tag("h2", title, id=f"{identity}-title")
    told = tag("p", lede, class_="lede") if lede else None
    return tag("section", heading, told, *children, id=identity, aria_labelledby=f"{identity}-title")


def folded(summary: Any, *children: Any, class_: str | None = None) -> Markup:
    return tag("details", tag("summary", summary), *children, class_=class_)


def bar(share: float) -> Markup:
    """A length from nothing (0) to all (1)."""
    width = f"{100 * min(max(share, 0.0), 1.0):.3g}"
    inside = tag("rect", width=width, height=4)
    return tag("svg", inside, class_="bar", viewBox="0 0 100 4", preserveAspectRatio="none", aria_hidden="true")


# Summary


def default_title(findings: Findings) -> str:
    """What was clustered: the first thing that the history of the file names, or the file itself."""
    name = next(sources(findings.contents.provenance), findings.given.name)
    return f"Clusters of {PurePath(name).stem or name}" if name != "-" else "Clusters"


def sources(provenance: Any) -> Iterator[str]:
    """Names of the inputs of which no inputs are known, the first one first."""
    for given in inputs_of(provenance):
        before = list(sources(given.get("provenance")))
        yield from before
        if not before and given.get("name"):
            yield str(given["name"])


def inputs_of(provenance: Any) -> list[dict[str, Any]]:
    inputs = provenance.get("inputs") if isinstance(provenance, dict) else None
    return [given for given in inputs if isinstance(given, dict)] if isinstance(inputs, list) else []


def summary(findings: Findings, noun: str) -> Markup:
    """One sentence."""
    attributes = findings.contents.attributes
    found = f"{counted(findings.samples, noun)} in {counted(len(findings.clusters), 'cluster')}"
    if "W" not in findings.contents:
        how = ", found by k-means on the samples themselves"
    elif attributes.get("cluster_assign") == "max":
        how = f", each the largest coefficient in factors by {attributes.get('method', 'an unnamed method')}"
    else:
        how = f", found by k-means on the coefficients of {attributes.get('method', 'an unnamed method')}"
    score = ""
    if findings.scores is not None:
        scores = findings.scores
        among = counted(len(scores.classes), "class").replace("classs", "classes")
        score = f"; against {among}, accuracy is {percent(scores.accuracy)} and NMI {scores.nmi:.3f}"
    return tag("p", f"{found}{how}{score}.", class_="summary")


# Scores

MEANINGS = (
    ("accuracy", "Accuracy", "share of samples in the cluster matched with their class"),
    ("nmi", "NMI", "mutual information over the larger of the two entropies"),
    ("ari", "ARI", "agreement on pairs of samples; 0 is chance"),
    ("purity", "Purity", "share of samples in the majority class of their cluster"),
)


def scores_section(scores: Scores) -> Markup:
    figures = [
        tag("div", tag("dt", name), tag("dd", f"{getattr(scores, key):.3f}", class_="figure"), tag("dd", meaning))
        for key, name, meaning in MEANINGS
    ]
    rows, columns = scores.confusion.shape
    whole = rows * columns <= MOST_CELLS
    lede = (
        "How the clusters compare with the true classes. Clusters are matched with classes one to one, so that as many "
    )
    lede += "samples as possible agree."
    table = confusion(scores) if whole else largest(scores)
    return section("scores", "Scores", tag("dl", figures, class_="figures"), table, lede=lede)


def confusion(scores: Scores) -> Markup:
    """Classes in rows, clusters in columns; the shade is the share of the class."""
    totals = scores.confusion.sum(axis=1)
    matched = dict(zip(scores.clusters, scores.matches, strict=False))
    head = [
        tag("td", "class \\ cluster"),
        *(tag("th", cluster_link(c, matched.get(c)), scope="col") for c in scores.clusters),
    ]
    head.append(tag("th", "all", scope="col", class_="total"))
    body = []
    for name, row, total in zip(scores.classes, scores.confusion.tolist(), totals.tolist(), strict=True):
        cells = [
            tag("td", count or None, class_=cell_class(count / total, matched.get(cluster) == name))
            for cluster, count in zip(scores.clusters, row, strict=True)
        ]
        body.append(tag("tr", tag("th", name, scope="row"), cells, tag("td", total, class_="total")))
    sums = [tag("td", count) for count in scores.confusion.sum(axis=0).tolist()]
    foot = tag("tr", tag("th", "all", scope="row"), sums, tag("td", int(totals.sum()), class_="total"))
    parts = tag("thead", tag("tr", head)), tag("tbody", body), tag("tfoot", foot)
    table = tag("table", tag("caption", "Samples by class and cluster"), *parts, class_="confusion")
    about = "Classes are rows, clusters columns. The shade is the share of the class; an outline marks matched pairs."
    return Markup(tag("p", about, class_="help") + scrolling(table, "Confusion matrix"))


def cell_class(share: float, matched: bool) -> str | None:
    names = ["matched"] if matched else []
    if share > 0:
        names.append(f"heat{max(round(HEAT * share), 1)}")
    return " ".join(names) or None


def cluster_link(number: int, title: str | None = None) -> Markup:
    told = f"cluster {number}, matched with {title}" if title is not None else f"cluster {number}"
    return tag("a", number, href=f"#cluster-{number}", title=told)


def scrolling(table: Markup, label: str) -> Markup:
    """A box of its own, which scrolls by keyboard too."""
    return tag("div", table, class_="scroll", tabindex=0, role="region", aria_label=label)


def largest(scores: Scores) -> Markup:
    """In place of a matrix that nobody could read: where most of each class is."""
    matched = dict(zip(scores.matches, scores.clusters, strict=False))
    body = []
    for name, row in zip(scores.classes, scores.confusion, strict=True):
        first = [int(c) for c in np.argsort(-row, kind="stable")[:TOP_CLUSTERS] if row[c]]
        parts = [[", " if i else None, cluster_link(scores.clusters[c]), f" ({row[c]})"] for i, c in enumerate(first)]
        own = cluster_link(matched[name]) if name in matched else "none"
        body.append(
            tag("tr", tag("th", name, scope="row"), tag("td", int(row.sum())), tag("td", own), tag("td", parts))
        )
    head = [tag("th", text, scope="col") for text in ("class", "samples", "matched cluster", "largest clusters")]
    about = f"{len(scores.classes)} classes and {len(scores.clusters)} clusters are too many for a table of all pairs."
    table = tag("table", tag("caption", about), tag("thead", tag("tr", head)), tag("tbody", body), class_="listing")
    return scrolling(table, "Classes and their clusters")


# Map


def map_section(findings: Findings, layout: Layout | str, noun: str) -> Markup:
    """``layout`` may be the reason why there is none."""
    if isinstance(layout, str):
        return section("map", "Map", tag("p", layout, class_="absent-note"))
    shown = len(findings.order)
    part = "" if shown == findings.samples else f" {shown:,} of the {findings.samples:,} are shown."
    lede = f"Each mark is a {noun}, placed by {layout.method} of its coefficients W. {layout.meaning}{part}"
    choices = [tag("button", "cluster", type="button", data_colour="cluster", aria_pressed="true")]
    if findings.truth is not None:
        choices.append(tag("button", "class", type="button", data_colour="class", aria_pressed="false"))
    colour = tag("div", tag("span", "Colour by"), choices, class_="choice", role="group", aria_label="Colour by")
    every = [tag("button", name, type="button", data_every=name) for name in ("all", "none")]
    show = tag("div", tag("span", "Show"), every, class_="choice", role="group", aria_label="Show")
    canvas = tag(
        "canvas",
        *("The map needs a browser that can draw; the table below has the same in words.",),
        id="canvas",
        tabindex=0,
        role="application",
        aria_roledescription="map",
        aria_label=f"Map of {shown} {noun}s in {len(findings.clusters)} clusters",
        aria_describedby="map-help",
    )
    card = tag("div", id="card", class_="card", hidden=True, aria_hidden="true")
    stage = tag("div", canvas, tag("canvas", id="overlay", aria_hidden="true"), card, class_="stage")
    usage = "Point at a mark to see it, click to open its cluster. With the keyboard: arrow keys go from mark to mark, "
    usage += "Enter opens the cluster."
    reading = tag("p", id="reading", class_="reading", role="status", aria_live="polite")
    legend = tag("div", id="legend", class_="legend", role="group", aria_label="Groups on the map")
    tools = tag("div", colour, show if len(findings.clusters) > 1 else None, class_="tools")
    drawn = tag("div", tools, tag("div", stage, legend, class_="map"), reading, class_="needs-script")
    without = "The map is drawn by a script; the table has the same in words."
    instead = tag("p", without, class_="absent-note needs-no-script")
    return section(
        *("map", "Map", drawn, tag("p", usage, id="map-help", class_="help needs-script"), instead, in_words(findings)),
        lede=lede,
    )


def in_words(findings: Findings) -> Markup:
    """The map as a table: which clusters are near each other, and how tight they are."""
    W, exponent = findings.coefficients
    means = np.stack([W[cluster.members].mean(axis=0) for cluster in findings.clusters])
    rows = []
    for place, cluster in enumerate(findings.clusters):
        far = np.linalg.norm(means - means[place], axis=1)
        far[place] = np.inf
        near = int(far.argmin())
        alone = len(findings.clusters) == 1
        sure = None if findings.certainty is None else f"{np.median(findings.certainty[cluster.members]):.2f}"
        width = np.linalg.norm(W[cluster.members] - means[place], axis=1).mean()
        cells = [
            tag("th", cluster_link(cluster.number, cluster.matched), scope="row"),
            tag("td", f"{cluster.size:,}"),
            tag("td", f"{at_scale(width, exponent):.3g}"),
            tag("td", None if alone else cluster_link(findings.clusters[near].number)),
            tag("td", None if alone else f"{at_scale(far[near], exponent):.3g}"),
            tag("td", sure),
        ]
        rows.append(tag("tr", cells))
    names = (
        "cluster",
        "samples",
        "mean distance from its mean",
        "nearest cluster",
        "at a distance of",
        "median certainty",
    )
    head = tag("tr", [tag("th", name, scope="col") for name in names])
    table = tag("table", tag("caption", "Distances between rows of W."), tag("thead", head), tag("tbody", rows))
    return folded("The map in words", scrolling(table, "The map in words"))


def at_scale(value: float, exponent: int) -> float:
    with np.errstate(over="ignore"):  # inf, then
        return float(np.ldexp(value, exponent))
