"""Scores by set, method and seed: kept in a CSV file while they are made, then shown as Markdown tables."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from benchmarks.timing import table
from mccgr_cli.blocks.protocol import Array

COLUMNS = ("set", "method", "seed", "score", "value")
NONE = "-"
DIGITS = 3  # that tables show; scores that are equal in them are ties
FEWEST_SETS = 6  # for a signed-rank test; with fewer, p cannot be below .05


class Scoreboard:
    """All scores. What is in the file already need not be measured again."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._scores: dict[tuple[str, str, int], dict[str, float]] = {}
        if path is not None and path.exists():
            with path.open(newline="") as file:
                for row in csv.DictReader(file):
                    known = self._scores.setdefault((row["set"], row["method"], int(row["seed"])), {})
                    known[row["score"]] = float(row["value"])

    def has(self, name: str, method: str, seed: int) -> bool:
        return (name, method, seed) in self._scores

    def add(self, name: str, method: str, seed: int, scores: dict[str, float]) -> None:
        self._scores[name, method, seed] = scores
        if self._path is None:
            return
        is_new = not self._path.exists()
        with self._path.open("a", newline="") as file:
            lines = csv.writer(file)
            if is_new:
                lines.writerow(COLUMNS)
            lines.writerows((name, method, seed, score, value) for score, value in scores.items())

    def means(self, score: str, methods: Sequence[str], sets: Sequence[str], seeds: int) -> Array:
        """The means over the seeds, (methods, sets). NaN where a seed is missing."""
        return np.array([[self._mean(score, name, method, seeds) for name in sets] for method in methods])

    def _mean(self, score: str, name: str, method: str, seeds: int) -> float:
        found = [self._scores.get((name, method, seed), {}).get(score, np.nan) for seed in range(seeds)]
        return float(np.mean(found))


def by_set(title: str, means: Array, methods: Sequence[str], sets: Sequence[str]) -> str:
    """One row for each method, one column for each set. The best of each column is bold."""
    best = [np.nanmax(column) if np.isfinite(column).any() else np.nan for column in means.T]
    is_best = means.round(DIGITS) == np.round(best, DIGITS)
    rows = [[method, *map(number, row, bold)] for method, row, bold in zip(methods, means, is_best, strict=True)]
    return table([title, *sets], rows)


def summary(
    scores: dict[str, Array], seconds: Array, methods: Sequence[str], sets: Sequence[str], simple: Sequence[bool]
) -> str:
    """Means, mean rank and worst shortfall. Methods that were not measured on all sets have no means and no rank."""
    nmi = scores["NMI"]
    ranks, best_simple = mean_ranks(nmi), np.nanmax(nmi[np.array(simple)], axis=0)
    rows = []
    for i, method in enumerate(methods):
        means = [number(float(values[i].mean())) for values in scores.values()]
        short = shortfall(best_simple - nmi[i], sets)
        rows.append([method, *means, number(ranks[i], digits=2), short, number(float(np.nansum(seconds[i])), digits=0)])
    heads = [f"mean {name}" for name in scores]
    return table(["method", *heads, "mean rank", "worst shortfall", "seconds"], rows)


def mean_ranks(means: Array) -> Array:
    """The mean over the sets of the rank of each method, 1 for the best; ties share the mean of their ranks."""
    from scipy.stats import rankdata

    complete = np.isfinite(means).all(axis=1)
    ranks = np.full(len(means), np.nan)
    if complete.any():
        ranks[complete] = rankdata(-means[complete].round(DIGITS), axis=0).mean(axis=1)
    return ranks


def shortfall(gaps: Array, sets: Sequence[str]) -> str:
    """The largest gap to the best simple way, and its set."""
    if not np.isfinite(gaps).any():
        return NONE
    worst = int(np.nanargmax(gaps))
    largest = round(float(gaps[worst]), DIGITS)
    return f"{number(largest)} ({sets[worst]})" if largest > 0 else "0"


def paired_tests(means: Array, methods: Sequence[str], ours: str) -> str:
    """Our method against every other, over the sets that both have: Wilcoxon's signed-rank test, two-sided."""
    mine = means[list(methods).index(ours)]
    rows = []
    for method, other in zip(methods, means, strict=True):
        gaps = (mine - other)[np.isfinite(mine - other)].round(DIGITS)
        if method != ours and len(gaps):
            counts = [int((np.sign(gaps) == sign).sum()) for sign in (1, 0, -1)]
            rows.append([method, f"{gaps.mean():+.3f}", f"{np.median(gaps):+.3f}", *counts, p_value(gaps)])
    return table([f"{ours} against", "mean difference", "median", "wins", "ties", "losses", "p"], rows)


def p_value(gaps: Array) -> str:
    from scipy.stats import wilcoxon

    if np.count_nonzero(gaps) < FEWEST_SETS:
        return NONE
    p = float(wilcoxon(gaps).pvalue)
    return "<.001" if p < 0.001 else f"{p:.3f}"


def number(value: float, bold: bool = False, digits: int = DIGITS) -> str:
    if not np.isfinite(value):
        return NONE
    return f"**{value:.{digits}f}**" if bold else f"{value:.{digits}f}"
