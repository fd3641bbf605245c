"""The section on scores: how the clusters compare with the true classes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mccgr_cli.core.metrics import Scores

MOST_CELLS = 10_000  # a larger confusion matrix becomes a list
TOP_CLUSTERS = 3
SHADES = 10  # page.css: heat1 to heat10


@dataclass(frozen=True)
class ClassRow:
    """A class, and its samples in each cluster or in the largest ones."""

    name: str
    total: int
    cells: list[tuple[int, int, str]]  # cluster, samples, classes of style
    matched: int | None  # cluster


@dataclass(frozen=True)
class ScoresSection:
    scores: Scores
    rows: list[ClassRow]
    is_matrix: bool  # rather than a list of the largest clusters of each class

    @property
    def matched(self) -> dict[int, str]:
        """The class of each cluster that is matched with one."""
        return dict(zip(self.scores.clusters, self.scores.matches, strict=False))

    @property
    def totals(self) -> list[int]:
        return [int(count) for count in self.scores.confusion.sum(axis=0)]


def scores_section(scores: Scores) -> ScoresSection:
    is_matrix = scores.confusion.size <= MOST_CELLS
    matched = dict(zip(scores.matches, scores.clusters, strict=False))
    rows = []
    for name, counts in zip(scores.classes, scores.confusion, strict=True):
        total, own = int(counts.sum()), matched.get(name)
        columns = range(len(counts)) if is_matrix else np.argsort(-counts, kind="stable")[:TOP_CLUSTERS].tolist()
        found = [(scores.clusters[c], int(counts[c])) for c in columns if is_matrix or counts[c]]
        cells = [(cluster, count, cell_style(count / total, cluster == own)) for cluster, count in found]
        rows.append(ClassRow(name, total, cells, own))
    return ScoresSection(scores, rows, is_matrix)


def cell_style(share: float, is_matched: bool) -> str:
    shade = f"heat{max(round(SHADES * share), 1)}" if share > 0 else ""
    return " ".join(filter(None, ("matched" if is_matched else "", shade)))
