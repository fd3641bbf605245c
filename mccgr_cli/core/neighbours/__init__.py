"""The nearest other samples of every sample: an exact search, or an approximate one for very many samples.

Begin with :func:`nearest`. ``exact`` searches in memory, ``streamed`` in a source, ``approximate`` uses faiss.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import sparse

from mccgr_cli.blocks.in_memory import is_matrix
from mccgr_cli.blocks.protocol import Array, BlockSource, Matrix
from mccgr_cli.blocks.rows import normalize, row_sizes
from mccgr_cli.core.neighbours.approximate import approximate_neighbours, check_search, has_faiss
from mccgr_cli.core.neighbours.exact import by_intersection, exact_neighbours
from mccgr_cli.core.neighbours.streamed import ROOM, row_groups, streamed_neighbours
from mccgr_cli.system.phases import phase

__all__ = ["LARGEST_EXACT", "ROOM", "NeighbourPairs", "Search", "check_search", "nearest", "row_groups"]

LARGEST_EXACT = 50_000  # samples up to which the search is exact by default
FINDING = "finding neighbours"


@dataclass(frozen=True)
class Search:
    """How neighbours were searched."""

    exact: bool = True
    recall: float | None = None  # of the approximate search, if there was one
    why: str = ""  # why the search was exact although an approximate one was wanted

    def __str__(self) -> str:
        if not self.exact:
            return f"approximate, recall {self.recall:.3f}"
        return f"exact, as {self.why}" if self.why else "exact"


@dataclass(frozen=True)
class NeighbourPairs:
    """Pairs of a sample (row) and one of its neighbours (column)."""

    rows: Array
    columns: Array
    search: Search


def nearest(
    X: Matrix | BlockSource, neighbors: int, metric: str, search: str = "auto", groups: Sequence[slice] | None = None
) -> NeighbourPairs:
    """Find the nearest other samples of every sample.

    Parameters
    ----------
    metric
        ``euclidean``, ``cosine``, or ``histogram`` (the larger the sum of minima, the nearer). With the last two an
        empty sample has no neighbours.
    search
        ``exact``, ``approximate``, or ``auto``: approximate for many samples if faiss is installed.
    groups
        The rows of a source that are held in memory together (:func:`row_groups`).
    """
    check_search(search)
    fast = search == "approximate" or (search == "auto" and X.shape[0] > LARGEST_EXACT and has_faiss())
    if not is_matrix(X):
        groups = groups or row_groups(X, ROOM)
        with phase(FINDING, "rows", len(groups) * X.shape[0]):
            table = streamed_neighbours(X, neighbors, metric, groups)
        rows, which = np.nonzero(table >= 0)
        return NeighbourPairs(rows, table[rows, which], Search(why=why_not_faiss(X, metric) if fast else ""))
    searched = np.arange(X.shape[0])
    if metric != "euclidean":
        searched = np.flatnonzero(row_sizes(X, "l2"))
        X = X[searched]
        neighbors = min(neighbors, len(searched) - 1)
    if neighbors < 1:
        return NeighbourPairs(np.empty(0, dtype=int), np.empty(0, dtype=int), Search())
    if metric == "cosine":  # for unit rows both metrics give the same order
        X = normalize(X, "l2")
    how = Search(why=why_not_faiss(X, metric) if fast else "")
    columns: Array | None = None
    with phase(FINDING, "samples"):
        if fast and not how.why:
            columns, recall = approximate_neighbours(X, neighbors)
            how = Search(False, recall)
            if columns is None:
                how = Search(True, recall, f"an approximate search had a recall of only {recall:.3f}")
        if columns is None:
            columns = by_intersection(X, neighbors) if metric == "histogram" else exact_neighbours(X, neighbors)
    return NeighbourPairs(np.repeat(searched, neighbors), searched[columns.ravel()], how)


def why_not_faiss(X: Matrix | BlockSource, metric: str) -> str:
    """Why faiss cannot search these samples; empty if it can."""
    if not is_matrix(X):
        return "the approximate search needs a matrix in memory"
    if metric == "histogram":
        return "the approximate search has no histogram intersection"
    return "the approximate search takes no sparse matrix" if sparse.issparse(X) else ""
