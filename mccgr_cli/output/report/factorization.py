"""The sections on the factorization: convergence, feature weights, and the neighbour graph."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from mccgr_cli.output.curves import FeatureWeights, convergence, feature_weights
from mccgr_cli.output.report.charts import Drawing, draw
from mccgr_cli.output.report.cluster_sheets import largest_shares
from mccgr_cli.output.report.clusters import Findings
from mccgr_cli.output.report.distinctive import Profiles
from mccgr_cli.output.report.scores import TOP_CLUSTERS
from mccgr_cli.output.text import plural
from mccgr_cli.settings import HISTORY, SILENCED

MOST_NAMES = 12  # features that are named at once
MOST_SILENCED = 2000  # silenced features that are named at all
COMPONENT_FEATURES = 8
TERMS = {"objective": "Objective", "data": "Data term", "graph": "Graph term", "sigma": "Bandwidth σ"}
VISUAL_WORD = re.compile(r"word [0-9]+ \([0-9a-f]{8}\)")  # as mccgr extract names them


@dataclass(frozen=True)
class ConvergenceSection:
    facts: list[tuple[str, str | None]]
    charts: list[Drawing]


def convergence_section(findings: Findings) -> ConvergenceSection:
    contents = findings.contents
    history = {name: contents[f"history/{name}"] for name in HISTORY}
    last = {name: float(values[-1]) for name, values in history.items()}
    count, converged = len(history["objective"]) - 1, contents.attributes.get("converged")
    ended = None
    if isinstance(converged, (bool, int)):
        ended = "yes" if converged else f"no, stopped after {plural(count, 'iteration')}"
    facts = [
        ("Converged", ended),
        ("Iterations", f"{count:,}"),
        ("Time", f"{last['seconds']:,.2f} s" if np.isfinite(last["seconds"]) else None),
        *((name, f"{last[term]:.6g}") for term, name in TERMS.items() if np.isfinite(last[term])),
    ]
    return ConvergenceSection(facts, [draw(chart) for chart in convergence(history)])


@dataclass(frozen=True)
class Component:
    """A row of H."""

    share: float
    clusters: list[tuple[int, float]]  # those with the largest shares of it
    features: list[int]  # the most distinctive ones


@dataclass(frozen=True)
class FeaturesSection:
    weights: FeatureWeights
    drawing: Drawing | None  # None if all weights are equal
    are_visual_words: bool
    components: list[Component]
    threshold: str = f"{SILENCED:g}"

    @property
    def heaviest(self) -> list[tuple[int, str]]:
        return [self.weighted(place) for place in range(min(MOST_NAMES, len(self.weights.order)))]

    @property
    def lightest(self) -> list[tuple[int, str]]:
        """Silenced features, the lightest first."""
        return [self.weighted(-1 - place) for place in range(min(MOST_NAMES, self.weights.silenced))]

    @property
    def all_silenced(self) -> list[int]:
        """Nothing if ``lightest`` has all of them."""
        count = self.weights.silenced
        return self.weights.order[::-1][: min(count, MOST_SILENCED)].tolist() if count > MOST_NAMES else []

    def weighted(self, place: int) -> tuple[int, str]:
        weight = float(self.weights.values[place])
        return int(self.weights.order[place]), f"{weight:.2f}" if weight >= SILENCED else f"{weight:.1e}"


def features_section(findings: Findings, profiles: Profiles) -> FeaturesSection:
    weights = feature_weights(findings.contents["rho"])
    drawing = None if weights.all_equal else draw(weights.chart())
    are_visual_words = VISUAL_WORD.fullmatch(findings.feature(0)) is not None
    return FeaturesSection(weights, drawing, are_visual_words, components(findings, profiles))


def components(findings: Findings, profiles: Profiles) -> list[Component]:
    W, _ = findings.coefficients
    overall = profiles.shares(W.mean(axis=0))
    by_cluster = np.stack([profiles.shares(findings.mean(cluster)) for cluster in findings.clusters])
    found = []
    for r, unit in enumerate(np.eye(W.shape[1])):
        clusters = largest_shares(by_cluster[:, r], TOP_CLUSTERS)
        features = profiles.distinctive(unit, COMPONENT_FEATURES)
        named = [(findings.clusters[c].number, share) for c, share in clusters]
        found.append(Component(float(overall[r]), named, [feature.number for feature in features]))
    return found


@dataclass(frozen=True)
class GraphSection:
    edges: int
    isolated: int  # samples without neighbours
    components: int  # connected components; an isolated sample is one


def graph_section(findings: Findings) -> GraphSection | None:
    attributes = findings.contents.attributes
    edges, isolated, parts = (attributes.get(f"graph_{name}") for name in ("edges", "isolated", "components"))
    if not (isinstance(edges, int) and isinstance(isolated, int) and isinstance(parts, int)):
        return None
    return GraphSection(edges, isolated, parts)
