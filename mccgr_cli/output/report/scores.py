"""The section on scores: how the clusters compare with the true classes."""

from __future__ import annotations

from typing import Any

import numpy as np

from mccgr_cli.core.metrics import Scores

MOST_CELLS = 10_000  # a larger confusion matrix becomes a list
TOP_CLUSTERS = 3
SHADES = 10  # page.css: heat1 to heat10


def scores_section(scores: Scores) -> dict[str, Any]:
    """For each class its samples in each cluster, or in the largest clusters if the whole table would be too large."""
    is_matrix = scores.confusion.size <= MOST_CELLS
    matched = dict(zip(scores.matches, scores.clusters, strict=False))
    rows = []
    for name, counts in zip(scores.classes, scores.confusion, strict=True):
        total, own = int(counts.sum()), matched.get(name)
        columns = range(len(counts)) if is_matrix else np.argsort(-counts, kind="stable")[:TOP_CLUSTERS].tolist()
        found = [(scores.clusters[c], int(counts[c])) for c in columns if is_matrix or counts[c]]
        cells = [(cluster, count, cell_style(count / total, cluster == own)) for cluster, count in found]
        rows.append({"name": name, "total": total, "cells": cells, "matched": own})
    classes = dict(zip(scores.clusters, scores.matches, strict=False))  # of matched clusters
    return {"scores": scores, "rows": rows, "is_matrix": is_matrix, "classes": classes}


def cell_style(share: float, is_matched: bool) -> str:
    shade = f"heat{max(round(SHADES * share), 1)}" if share > 0 else ""
    return " ".join(filter(None, ("matched" if is_matched else "", shade)))
