"""The sections of tables and charts: scores, convergence, feature weights, and the neighbour graph."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import numpy as np

from mccgr_cli.catalog import HISTORY, SILENCED
from mccgr_cli.core.metrics import Scores
from mccgr_cli.core.profiles import Profiles
from mccgr_cli.output.curves import FeatureWeights, convergence
from mccgr_cli.output.report.charts import draw
from mccgr_cli.output.report.cluster_sheets import largest_shares
from mccgr_cli.output.report.clusters import Findings
from mccgr_cli.output.text import plural
from mccgr_cli.workflow.top_features import COMPONENTS, top_features

MOST_CELLS = 10_000  # a larger confusion matrix becomes a list
TOP_CLUSTERS = 3
MOST_NAMES = 12  # features that are named at once
MOST_SILENCED = 2000  # silenced features that are named at all
COMPONENT_FEATURES = 8
TERMS = {"objective": "Objective", "data": "Data term", "graph": "Graph term", "sigma": "Bandwidth σ"}
VISUAL_WORD = re.compile(r"word [0-9]+ \([0-9a-f]{8}\)")  # as mccgr extract names them


def scores_section(scores: Scores) -> dict[str, Any]:
    """For each class its samples in each cluster, or in the largest clusters if the whole table would be too large."""
    is_matrix = scores.confusion.size <= MOST_CELLS
    matched = dict(zip(scores.matches, scores.clusters, strict=False))
    rows = []
    for name, counts in zip(scores.classes, scores.confusion, strict=True):
        total, own = int(counts.sum()), matched.get(name)
        columns = range(len(counts)) if is_matrix else np.argsort(-counts, kind="stable")[:TOP_CLUSTERS].tolist()
        cells = [(scores.clusters[c], int(counts[c])) for c in columns if is_matrix or counts[c]]
        rows.append({"name": name, "total": total, "cells": cells, "matched": own})
    classes = dict(zip(scores.clusters, scores.matches, strict=False))  # of matched clusters
    return {"scores": scores, "rows": rows, "is_matrix": is_matrix, "classes": classes}


def convergence_section(findings: Findings) -> dict[str, Any]:
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
    return {"facts": facts, "charts": [draw(chart) for chart in convergence(history)]}


def features_section(findings: Findings, profiles: Profiles) -> dict[str, Any]:
    """Lists of silenced features begin with the lightest. There is no drawing if all weights are equal."""
    weights = FeatureWeights(findings.contents["rho"])
    pairs = zip(weights.order.tolist(), weights.values.tolist(), strict=True)
    listed = [(j, f"{weight:.2f}" if weight >= SILENCED else f"{weight:.1e}") for j, weight in pairs]
    lightest = listed[len(listed) - weights.silenced :][::-1]
    return {
        "weights": weights,
        "threshold": f"{SILENCED:g}",
        "drawing": None if weights.all_equal else draw(weights.chart()),
        "heaviest": listed[:MOST_NAMES],
        "lightest": lightest[:MOST_NAMES],
        "all_silenced": [j for j, _ in lightest[:MOST_SILENCED]] if len(lightest) > MOST_NAMES else [],
        "are_visual_words": VISUAL_WORD.fullmatch(findings.feature(0)) is not None,
        "components": list(components(findings, profiles)),
    }


def components(findings: Findings, profiles: Profiles) -> Iterator[dict[str, Any]]:
    """For each row of H: its share, the clusters with the largest shares of it, and its distinctive features."""
    W, _ = findings.coefficients
    overall = profiles.shares(W.mean(axis=0))
    by_cluster = np.stack([profiles.shares(findings.mean(cluster)) for cluster in findings.clusters])
    for r, group in enumerate(top_features(findings.contents, COMPONENT_FEATURES, COMPONENTS)):
        largest = largest_shares(by_cluster[:, r], TOP_CLUSTERS)
        clusters = [(findings.clusters[c].number, share) for c, share in largest]
        features = [feature.number for feature in group.features]
        yield {"share": float(overall[r]), "clusters": clusters, "features": features}


def graph_section(findings: Findings) -> dict[str, Any] | None:
    """Counts of edges, of samples without neighbours, and of connected components (an isolated sample is one)."""
    names = ("edges", "isolated", "components")
    counts = {name: findings.contents.attributes.get(f"graph_{name}") for name in names}
    return counts if all(isinstance(count, int) for count in counts.values()) else None
