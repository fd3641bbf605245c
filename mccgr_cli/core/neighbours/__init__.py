"""The nearest other samples of every sample: exactly, or nearly so where samples are very many."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import sparse

from mccgr_cli.blocks.in_memory import is_matrix
from mccgr_cli.blocks.protocol import Array, BlockSource, Matrix
from mccgr_cli.blocks.rows import normalize, row_sizes
from mccgr_cli.core.neighbours.approximate import approximately, check_search, has_library
from mccgr_cli.core.neighbours.exact import by_intersection, exactly
from mccgr_cli.core.neighbours.streamed import ROOM, by_blocks, row_groups

__all__ = ["LARGEST_EXACT", "ROOM", "Found", "Search", "check_search", "nearest", "row_groups"]

LARGEST_EXACT = 50_000  # samples up to which the search is exact unless it is told


@dataclass(frozen=True)
class Search:
    """How neighbours were found: exactly, or with a recall; exactly after all, where a fast search would not do."""

    exact: bool = True
    recall: float | None = None  # of the fast search, if there was one
    why: str = ""  # it would not do

    def __str__(self) -> str:
        if not self.exact:
            return f"approximate, recall {self.recall:.3f}"
        return f"exact, as {self.why}" if self.why else "exact"


@dataclass(frozen=True)
class Found:
    """Pairs of a sample and one of its neighbours."""

    rows: Array
    columns: Array
    search: Search


def nearest(
    X: Matrix | BlockSource,
    neighbors: int,
    metric: str,
    search: str = "auto",
    groups: Sequence[slice] | None = None,
) -> Found:
    """Every sample paired with its nearest other samples.

    ``metric``: euclidean, cosine, or histogram: the larger the sum of minima, the nearer. An empty sample has no
    cosine and nothing in common with others, and so no neighbours. ``groups``: of the rows of a source, those that are
    held at a time (:func:`row_groups`).
    """
    check_search(search)
    fast = search == "approximate" or (search == "auto" and X.shape[0] > LARGEST_EXACT and has_library())
    if not is_matrix(X):
        table = by_blocks(X, neighbors, metric, groups or row_groups(X, ROOM))
        rows, which = np.nonzero(table >= 0)
        return Found(rows, table[rows, which], Search(why=beyond_the_library(X, metric) if fast else ""))
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
    if fast:
        how = Search(why=beyond_the_library(X, metric))
        if not how.why:
            columns, recall = approximately(X, neighbors)
            how = Search(False, recall)
            if columns is None:
                how = Search(True, recall, f"a fast search had recall {recall:.3f} only")
    if columns is None:
        columns = by_intersection(X, neighbors) if metric == "histogram" else exactly(X, neighbors)
    return Found(np.repeat(searched, neighbors), searched[columns.ravel()], how)


def beyond_the_library(X: Matrix | BlockSource, metric: str) -> str:
    """Why the library for fast searches has nothing for these samples; nothing if it has."""
    if not is_matrix(X):
        return "the fast search takes no matrix that is not in memory"
    if metric == "histogram":
        return "the fast search knows no histogram intersection"
    return "the fast search takes no sparse matrix" if sparse.issparse(X) else ""
