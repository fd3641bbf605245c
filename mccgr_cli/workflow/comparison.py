"""Compare the results of an experiment: means, ranks, and tests of differences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mccgr_cli.blocks.protocol import Array
from mccgr_cli.errors import DataError, ParameterError
from mccgr_cli.settings import METHODS, SWEPT


@dataclass(frozen=True)
class Comparison:
    """One score of all variants (a method with its settings), by k."""

    score: str
    ks: list[int]
    variants: list[str]
    values: list[list[Array]]  # by k and variant: the scores of all runs, in their order
    runs: list[list[int]]  # by k: the runs that all variants have

    @property
    def means(self) -> Array:
        return np.array([[cell.mean() for cell in row] for row in self.values])

    @property
    def deviations(self) -> Array:
        return np.array([[cell.std(ddof=1) if len(cell) > 1 else 0.0 for cell in row] for row in self.values])

    def best(self) -> Array:
        """By k and variant: whether the mean is the best of its row, rounded to three digits as in the table."""
        shown = np.round(self.means, 3)
        return np.asarray(shown == shown.max(axis=1, keepdims=True))

    def mean_ranks(self) -> Array:
        """By variant: the mean over k of its rank (1 is best)."""
        from scipy.stats import rankdata

        return np.asarray(rankdata(-self.means, axis=1).mean(axis=0))

    def p_values(self, reference: str) -> dict[str, float]:
        """Wilcoxon's signed-rank test of one variant against each other over all runs: p values corrected by Holm."""
        from scipy.stats import wilcoxon

        mine = self.variants.index(reference)
        raw = {}
        for other, name in enumerate(self.variants):
            if other != mine:
                gaps = np.concatenate([row[mine] - row[other] for row in self.values])
                raw[name] = float(wilcoxon(gaps).pvalue) if gaps.any() else 1.0
        return holm(raw)


def holm(p_values: Mapping[str, float]) -> dict[str, float]:
    """P values corrected for multiple tests.

    S. Holm: A simple sequentially rejective multiple test procedure. Scandinavian Journal of Statistics 6(2), 1979.

    >>> holm({"a": 0.01, "b": 0.04, "c": 0.03})
    {'a': 0.03, 'c': 0.06, 'b': 0.06}
    """
    corrected, largest = {}, 0.0
    for tests, name in zip(range(len(p_values), 0, -1), sorted(p_values, key=p_values.__getitem__), strict=True):
        largest = max(largest, min(1.0, tests * p_values[name]))
        corrected[name] = largest
    return corrected


def compare(results: Mapping[str, Any], score: str, where: str = "results") -> Comparison:
    """A table of one score, from the columns of a results file."""
    names = variant_names(results)
    variants = list(dict.fromkeys(names))
    ks = sorted({int(k) for k in results["k"]})
    found: dict[tuple[int, str], dict[int, float]] = {}
    for name, k, run, value in zip(names, results["k"], results["run"], results[score], strict=True):
        cell = found.setdefault((int(k), name), {})
        if int(run) in cell:
            raise DataError(where, f"has run {run} of {name} for k={k} twice", "the file is damaged")
        cell[int(run)] = float(value)
    values, runs = [], []
    for k in ks:
        cells = [found.get((k, variant), {}) for variant in variants]
        shared = sorted(set.intersection(*(set(cell) for cell in cells)))
        if not shared:
            raise DataError(where, f"has no run of k={k} that all methods share", "the file is damaged")
        values.append([np.array([cell[run] for run in shared]) for cell in cells])
        runs.append(shared)
    return Comparison(score, ks, variants, values, runs)


def variant_names(results: Mapping[str, Any]) -> list[str]:
    """For every row, its method with those settings that vary for this method."""
    methods = list(results["method"])
    varied: dict[str, list[str]] = {}
    for method in dict.fromkeys(methods):
        mine = [index for index, name in enumerate(methods) if name == method]
        varied[method] = [name for name in SWEPT if len({setting_as_text(results[name][index]) for index in mine}) > 1]
    names = []
    for index, method in enumerate(methods):
        values = ((name, setting_as_text(results[name][index])) for name in varied[method])
        names.append(" ".join([method, *(f"{name}={value}" for name, value in values if value)]))
    return names


def setting_as_text(value: Any) -> str:
    """A setting as text: as short as exact, and empty if the method does not use it."""
    if isinstance(value, str):
        return value
    short = f"{value:g}"
    return "" if np.isnan(value) else short if float(short) == value else repr(float(value))


def choose_reference(variants: Sequence[str], wanted: str | None) -> str | None:
    """The variant to test against the others: the one of this name, or the first of this method."""
    matching = [name for name in variants if (wanted or METHODS[0]) in (name, name.split()[0])]
    if wanted is not None and not matching:
        raise ParameterError("--against", f"{wanted} was not compared", f"choose one of {', '.join(variants)}")
    return matching[0] if matching else None
