"""The ways of clustering that ``python -m benchmarks suite`` compares. Each knows k, the number of classes.

A way returns the cluster of each sample, sometimes two of them from the same factors.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

import mccgr_cli
from benchmarks.datasets import DataSet
from mccgr_cli.blocks.in_memory import MemoryBlocks
from mccgr_cli.blocks.protocol import Array, Matrix
from mccgr_cli.blocks.rows import normalize
from mccgr_cli.core.eigenvectors import leading_eigenvectors
from mccgr_cli.core.graph import build_graph
from mccgr_cli.core.kmeans import largest_coefficient
from mccgr_cli.core.parts import explained_variance, normalized_edges
from mccgr_cli.core.principal_axes import make_unit
from mccgr_cli.core.solver import Factors
from mccgr_cli.settings import ClusterSettings, GraphSettings, RowSettings, Settings, by_preset
from mccgr_cli.workflow import factorization, stages

RESTARTS = 10  # of k-means as a way of its own
RESTARTS_OF_CAI = 20  # of k-means on the coefficients, in the demo of GNMF
NEIGHBOURS = 10  # of scikit-learn's spectral clustering


@dataclass(frozen=True)
class Way:
    names: tuple[str, ...]  # one for each result
    cluster: Callable[[DataSet, int], tuple[Array, ...]]  # from a set and a seed
    simple: bool = False  # a way without mccgr, beside which it must not fall short
    for_texts: bool = False  # only for texts


# Rows


def rows_by(X: Matrix, how: str) -> Matrix:
    """A copy with normalized rows."""
    return normalize(X.copy(), how)


def tf_idf(X: Matrix) -> Matrix:
    """Unit rows in which words of many texts count less."""
    from sklearn.feature_extraction.text import TfidfTransformer

    return TfidfTransformer().fit_transform(X)


def unit_rows(data: DataSet) -> Matrix:
    return tf_idf(data.X) if data.is_text else rows_by(data.X, "l2")


# Simple ways


def kmeans(samples: Matrix, k: int, restarts: int, seed: int) -> Array:
    """That of scikit-learn."""
    from sklearn.cluster import KMeans

    return np.asarray(KMeans(k, n_init=restarts, random_state=seed).fit_predict(samples))


def by_kmeans(data: DataSet, seed: int, rows: str) -> tuple[Array]:
    X = tf_idf(data.X) if rows == "tf-idf" else rows_by(data.X, rows)
    return (kmeans(X, data.k, RESTARTS, seed),)


def by_spectral_clustering(data: DataSet, seed: int) -> tuple[Array]:
    from sklearn.cluster import SpectralClustering

    affinity: dict[str, Any] = {"affinity": "nearest_neighbors", "n_neighbors": min(NEIGHBOURS, data.X.shape[0] - 1)}
    return (SpectralClustering(data.k, **affinity, random_state=seed).fit_predict(unit_rows(data)),)


def by_nmf(data: DataSet, seed: int) -> tuple[Array]:
    from sklearn.decomposition import NMF

    W = NMF(data.k, init="nndsvda", random_state=seed).fit_transform(rows_by(data.X, "l2"))
    return (kmeans(W, data.k, RESTARTS, seed),)


def by_grnmf_of_cai(data: DataSet, seed: int) -> tuple[Array]:
    """GRNMF as in the code of its authors: k-means on W, after the lengths of the rows of H are moved into W."""
    factors = factorize(unit_rows(data), by_preset("paper", Settings, k=data.k, method="grnmf", seed=seed))
    W = factors.W * np.linalg.norm(factors.H, axis=1)
    return (kmeans(W, data.k, RESTARTS_OF_CAI, seed),)


def factorize(rows: Matrix, settings: Settings) -> Factors:
    """Factors of rows that are normalized already, with the graph of the paper."""
    A = factorization.choose_graph(rows, settings, by_preset("paper", GraphSettings))
    return factorization.factorize(rows, settings, A)


# The graph alone


def by_parts_of_graph(data: DataSet, seed: int, weighted: bool) -> tuple[Array]:
    """The spectral clusters of the graph that version 0.1 builds by default, or of the same graph without weights.

    Every setting is written out, because defaults change.
    """
    settings = Settings(
        k=data.k, method="mccgr", keep=0.5, bandwidth="adaptive", solver="multiplicative", tolerance=1e-3, seed=seed
    )
    graph = GraphSettings(
        neighbors=5, weight="shared", metric="euclidean", axes=max(50, 4 * data.k), evenness=0.1, search="exact"
    )
    rows, weights = rows_by(data.X, "hellinger"), None
    if weighted:
        first = build_graph(rows, graph, factorization.learn_weights(rows, settings))
        shares = explained_variance(MemoryBlocks(rows), plain_spectral_clusters(first, data.k, seed))
        weights = shares / (shares + 0.1 * shares.mean())
    return (plain_spectral_clusters(build_graph(rows, graph, weights), data.k, seed),)


def plain_spectral_clusters(A: Matrix, k: int, seed: int) -> Array:
    """A. Ng, M. Jordan, Y. Weiss: On spectral clustering: analysis and an algorithm. NIPS 14, 2001."""
    return kmeans(make_unit(leading_eigenvectors(normalized_edges(A), k)[1]), k, RESTARTS, seed)


# Ways of mccgr


def by_preset_paper(data: DataSet, seed: int) -> tuple[Array]:
    """``mccgr run --preset paper``"""
    rows = rows_by(data.X, by_preset("paper", RowSettings).normalize)
    factors = factorize(rows, by_preset("paper", Settings, k=data.k, seed=seed))
    return (assigned(factors, by_preset("paper", ClusterSettings, k=data.k, seed=seed), False),)


def by_defaults(data: DataSet, seed: int, method: str) -> tuple[Array, Array]:
    """``mccgr factorize`` and ``mccgr cluster``; and the component with the largest coefficient."""
    factors = mccgr_cli.factorize(data.X, data.k, method=method, seed=seed)
    clusters = assigned(factors, ClusterSettings(k=data.k, seed=seed), Settings(k=data.k).is_orthogonal)
    return clusters, largest_coefficient(factors.W)


def assigned(factors: Factors, chosen: ClusterSettings, components_are_clusters: bool) -> Array:
    k, assign = chosen.k or factors.W.shape[1], chosen.assign or stages.assignment_of(components_are_clusters)
    return stages.assign_clusters(factors.W, k, assign, chosen.restarts, chosen.seed)


OURS = "mccgr"
MCCGR = Way((OURS, "mccgr, largest coefficient"), partial(by_defaults, method="mccgr"))
GRNMF = Way(("grnmf", "grnmf, largest coefficient"), partial(by_defaults, method="grnmf"))
WAYS = [
    Way(("k-means, raw rows",), partial(by_kmeans, rows="none"), simple=True),
    Way(("k-means, unit rows",), partial(by_kmeans, rows="l2"), simple=True),
    Way(("k-means, hellinger",), partial(by_kmeans, rows="hellinger"), simple=True),
    Way(("k-means, tf-idf",), partial(by_kmeans, rows="tf-idf"), simple=True, for_texts=True),
    Way(("spectral clustering",), by_spectral_clustering, simple=True),
    Way(("NMF",), by_nmf, simple=True),
    Way(("GRNMF, Cai",), by_grnmf_of_cai, simple=True),
    Way(("parts of the graph of 0.1",), partial(by_parts_of_graph, weighted=True)),
    Way(("mccgr, `--preset paper`",), by_preset_paper),
    GRNMF,
    MCCGR,
]
NOISE_WAYS = [Way(("parts of an unweighted graph",), partial(by_parts_of_graph, weighted=False)), GRNMF, MCCGR]


def cluster(way: Way, data: DataSet, seed: int) -> tuple[Array, ...]:
    """The results of a way. Warnings (a graph in several pieces, too few iterations) are no results."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return way.cluster(data, seed)
