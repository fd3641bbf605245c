"""The parts of the page on the whole: summary, scores, map, the course of the run, and where it came from."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import PurePath
from typing import Any

import numpy as np

from mccgr_cli.metrics import Scores
from mccgr_cli.report import charts
from mccgr_cli.report.findings import Cluster, Findings, Profiles
from mccgr_cli.report.layout import Layout
from mccgr_cli.report.markup import Markup, tag
from mccgr_cli.settings import HISTORY, SILENCED

MOST_CELLS = 10_000  # of a confusion matrix that is shown whole
MOST_NAMES = 12  # features that are named at once
MOST_SILENCED = 2000  # that are named at all
MOST_STEPS = 100  # commands that led to a file
TOP_CLUSTERS = 3
COMPONENT_FEATURES = 8
HEAT = 10  # shades


def counted(number: int, noun: str) -> str:
    """
    >>> counted(1, "picture"), counted(1200, "picture")
    ('1 picture', '1,200 pictures')
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


# Course of the run


def facts(pairs: list[tuple[str, Any]]) -> Markup:
    told = [
        tag("div", tag("dt", name), tag("dd", value), class_="wide" if isinstance(value, Markup) else None)
        for name, value in pairs
        if value is not None
    ]
    return tag("dl", told, class_="facts")


def checksum(value: Any) -> Markup:
    return tag("code", str(value))


def convergence_section(findings: Findings) -> Markup:
    contents = findings.contents
    history = {name: contents[f"history/{name}"] for name in HISTORY}
    count, attributes = len(history["objective"]) - 1, contents.attributes
    converged = attributes.get("converged")
    ended = None
    if isinstance(converged, (bool, int)):
        ended = "yes" if converged else f"no, stopped after {counted(count, 'iteration')}"
    seconds = float(history["seconds"][-1])
    known = [
        ("Converged", ended),
        ("Iterations", f"{count:,}"),
        ("Time", f"{seconds:,.2f} s" if np.isfinite(seconds) else None),
        *((name.capitalize(), f"{history[key][-1]:.6g}") for key, name in LAST_TERMS if np.isfinite(history[key][-1])),
    ]
    drawn = tag("div", charts.convergence(history), class_="charts")
    lede = (
        "What was minimized, after every iteration: how badly the factors fit the data, and how much neighbours differ."
    )
    return section("convergence", "Convergence", facts(known), drawn, lede=lede)


LAST_TERMS = (("objective", "objective"), ("data", "data term"), ("graph", "graph term"), ("sigma", "bandwidth σ"))


# Features


def weights_section(findings: Findings, profiles: Profiles) -> Markup:
    rho = findings.contents["rho"]
    order = np.argsort(-rho, kind="stable")
    silenced = [int(j) for j in order[::-1] if rho[j] < SILENCED]
    known = [("Features", f"{len(rho):,}"), ("Silenced", f"{len(silenced):,}")]
    if rho.min() == rho.max():
        lede: Any = f"All features weigh alike ({rho[0]:.3g}): nothing was silenced."
        return section("features", "Features", facts(known), components(findings, profiles), lede=lede)
    lede = "The weight that each feature has in the loss, learnt from how well the factors explain it. Features below "
    lede += f"{SILENCED:g} count as silenced: they have no say in the result."
    heaviest = weight_list(findings, [int(j) for j in order[:MOST_NAMES]])
    lists = [tag("div", tag("h3", "Heaviest"), heaviest)]
    if silenced:
        named = weight_list(findings, silenced[:MOST_NAMES])
        more = None
        if len(silenced) > MOST_NAMES:
            cut = f", the lightest {MOST_SILENCED:,} of them" if len(silenced) > MOST_SILENCED else ""
            names = tag("ul", [tag("li", findings.feature(j)) for j in silenced[:MOST_SILENCED]], class_="names")
            more = folded(f"All {len(silenced):,} silenced features{cut}", names)
        lists.append(tag("div", tag("h3", "Silenced"), named, more))
    drawn = tag("div", charts.weights(rho), tag("div", lists, class_="columns"), class_="charts")
    return section("features", "Features", facts(known), drawn, components(findings, profiles), lede=lede)


def weight_list(findings: Findings, features: list[int]) -> Markup:
    rho = findings.contents["rho"]
    told = [
        tag("li", tag("span", findings.feature(j), class_="name"), tag("span", weight(rho[j]), class_="number"))
        for j in features
    ]
    return tag("ul", told, class_="weights")


def weight(value: float) -> str:
    return f"{value:.2f}" if value >= SILENCED else f"{value:.1e}"


def components(findings: Findings, profiles: Profiles) -> Markup:
    """The rows of H: which features set each apart, and which clusters are made of it."""
    W, _ = findings.coefficients
    k = W.shape[1]
    use = profiles.shares(W.mean(axis=0))
    by_cluster = np.stack([profiles.shares(mean_of(findings, cluster)) for cluster in findings.clusters])
    rows = []
    for r in range(k):
        found = profiles.distinctive(np.eye(k)[r], COMPONENT_FEATURES)
        first = [
            int(c) for c in np.argsort(-by_cluster[:, r], kind="stable")[:TOP_CLUSTERS] if by_cluster[c, r] >= 0.05
        ]
        told = [
            [", " if i else None, cluster_link(findings.clusters[c].number), f" ({by_cluster[c, r]:.0%})"]
            for i, c in enumerate(first)
        ]
        names = ", ".join(findings.feature(one.number) for one in found) or "none: it is like the average"
        cells = tag("td", f"{use[r]:.1%}"), tag("td", told), tag("td", names, class_="prose")
        rows.append(tag("tr", tag("th", r, scope="row"), *cells))
    heads = ("component", "share", "clusters made of it", "distinctive features")
    head = tag("tr", [tag("th", name, scope="col") for name in heads])
    table = tag("table", tag("thead", head), tag("tbody", rows), class_="listing")
    return folded(f"The {counted(k, 'component')} of the basis", scrolling(table, "Components"))


def mean_of(findings: Findings, cluster: Cluster) -> Any:
    """To the scale of ``findings.coefficients``."""
    return findings.coefficients[0][cluster.members].mean(axis=0)


# Graph


def graph_section(findings: Findings) -> Markup | None:
    attributes = findings.contents.attributes
    edges, isolated, parts = (attributes.get(f"graph_{name}") for name in ("edges", "isolated", "components"))
    if not (isinstance(edges, int) and isinstance(isolated, int) and isinstance(parts, int)):
        return None
    degree = f"{2 * edges / findings.samples:.1f}"
    known = [("Edges", f"{edges:,}"), ("Neighbours on average", degree), ("Isolated samples", f"{isolated:,}")]
    known.append(("Connected components", f"{parts:,}"))
    advice = [tag("p", text) for text in graph_advice(isolated, parts, len(findings.clusters))]
    lede = "The nearest-neighbour graph pulls the coefficients of neighbours together."
    return section("graph", "Graph", facts(known), tag("div", advice, class_="prose"), lede=lede)


def graph_advice(isolated: int, parts: int, clusters: int) -> Iterator[str]:
    if isolated:
        has = "sample has" if isolated == 1 else "samples have"
        yield f"{isolated:,} {has} no neighbour: of these the graph says nothing, and the data alone place them."
    larger = parts - isolated
    if larger == 1:
        yield (
            "All other samples are joined by paths of neighbours."
            if isolated
            else "All samples are joined by paths of neighbours."
        )
    elif larger > clusters:
        yield (
            f"It falls into {larger:,} parts of two samples or more, which are more than the "
            f"{counted(clusters, 'cluster')}: nothing pulls together the parts that share a cluster. More neighbours "
            "would join them."
        )
    elif larger > 1:
        yield f"It falls into {larger:,} parts of two samples or more, which nothing pulls together."


# Provenance


def provenance_section(findings: Findings) -> Markup:
    steps = list(steps_of(findings.contents.provenance))[-MOST_STEPS:]
    told: list[Any] = []
    if steps:
        copy = tag("button", "Copy the commands", type="button", id="copy", class_="needs-script")
        told = [tag("ol", [step_item(step) for step in steps], class_="steps"), tag("p", copy)]
    else:
        told.append(tag("p", "The file does not say how it was made.", class_="absent-note"))
    attributes = [(str(name), shown_value(value)) for name, value in sorted(findings.contents.attributes.items())]
    parameters = folded("Parameters", facts(list(attributes))) if attributes else None
    this = facts([("File", findings.given.name), ("SHA-256", checksum(findings.given.sha256))])
    return section("provenance", "Provenance", this, *told, parameters, lede="Every command that led to this page.")


def shown_value(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:g}"
    return ", ".join(map(shown_value, value)) if isinstance(value, list) else str(value)


def steps_of(provenance: Any) -> Iterator[dict[str, Any]]:
    """The first one first."""
    for given in inputs_of(provenance):
        yield from steps_of(given.get("provenance"))
    if isinstance(provenance, dict) and "command_line" in provenance:
        yield provenance


def step_item(step: dict[str, Any]) -> Markup:
    inputs = [(str(given.get("name")), checksum(given.get("sha256"))) for given in inputs_of(step)]
    parts: list[Any] = []
    for title, pairs in (
        ("Inputs", inputs),
        ("Parameters", pairs_of(step.get("parameters"))),
        ("Versions", pairs_of(step.get("versions"))),
    ):
        if pairs:
            parts.append([tag("h3", title), facts(list(pairs))])
    line = tag("pre", tag("code", step.get("command_line")), tabindex=0)
    time = tag("p", str(step.get("time", "")), class_="time")
    return tag("li", time, line, folded("Inputs, parameters, versions", parts) if parts else None)


def pairs_of(value: Any) -> list[tuple[str, Any]]:
    if not isinstance(value, dict):
        return []
    return [(str(name), shown_value(one)) for name, one in sorted(value.items()) if one is not None]
