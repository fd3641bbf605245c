"""The nearest other samples of every sample: exactly, or nearly so where samples are very many."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import sparse

from mccgr_cli.blocks import Array, Matrix
from mccgr_cli.neighbours.approximate import approximately, check_search, has_library
from mccgr_cli.neighbours.exact import by_intersection, exactly
from mccgr_cli.normalize import normalize, row_sizes

__all__ = ["Found", "Search", "check_search", "nearest"]

LARGEST_EXACT = 50_000  # samples up to which the search is exact unless it is told


@dataclass(frozen=True)
class Search:
    """How neighbours were found: exactly, or with a recall; exactly after all, where that was too low."""

    exact: bool = True
    recall: float | None = None

    def __str__(self) -> str:
        if self.recall is None:
            return "exact"
        if self.exact:
            return f"exact, as a fast search had recall {self.recall:.3f} only"
        return f"approximate, recall {self.recall:.3f}"


@dataclass(frozen=True)
class Found:
    """Pairs of a sample and one of its neighbours."""

    rows: Array
    columns: Array
    search: Search


def nearest(X: Matrix, neighbors: int, metric: str, search: str = "auto") -> Found:
    """Every sample paired with its nearest other samples.

    ``metric``: euclidean, cosine, or histogram: the larger the sum of minima, the nearer. An empty sample has no
    cosine and nothing in common with others, and so no neighbours.
    """
    check_search(search)
    searched = np.arange(X.shape[0])
    if metric != "euclidean":
        searched = np.flatnonzero(row_sizes(X, "l2"))
        X = X[searched]
        neighbors = min(neighbors, len(searched) - 1)
    how = Search()
    if neighbors < 1:
        return Found(np.empty(0, dtype=int), np.empty(0, dtype=int), how)
    if metric == "cosine":  # on unit rows both metrics order alike
        X = normalize(X, "l2")
    columns: Array | None = None
    if metric == "histogram":
        columns = by_intersection(X, neighbors)
    elif wants_approximate(X, search):
        columns, recall = approximately(X, neighbors)
        how = Search(columns is None, recall)
    if columns is None:
        columns = exactly(X, neighbors)
    return Found(np.repeat(searched, neighbors), searched[columns.ravel()], how)


def wants_approximate(X: Matrix, search: str) -> bool:
    if sparse.issparse(X):  # which the library does not take
        return False
    return search == "approximate" or (search == "auto" and X.shape[0] > LARGEST_EXACT and has_library())
