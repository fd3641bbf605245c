"""The parts of the page on how the result came about: convergence, features, the graph, and every command."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import numpy as np

from mccgr_cli.output.report import charts
from mccgr_cli.output.report.findings import Cluster, Findings, Profiles
from mccgr_cli.output.report.markup import Markup, tag
from mccgr_cli.output.report.overview import TOP_CLUSTERS, cluster_link, counted, folded, inputs_of, scrolling, section
from mccgr_cli.settings import HISTORY, SILENCED

MOST_NAMES = 12  # features that are named at once
MOST_SILENCED = 2000  # that are named at all
MOST_STEPS = 100  # commands that led to a file
COMPONENT_FEATURES = 8


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

VISUAL_WORD = re.compile(r"word [0-9]+ \([0-9a-f]{8}\)")  # as mccgr extract names them


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
    if VISUAL_WORD.fullmatch(findings.feature(0)):
        lede += " A word is a kind of patch that images show; the letters behind its number tell codebooks apart."
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
    this = facts([("File", tag("span", findings.given.name)), ("SHA-256", checksum(findings.given.sha256))])
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
