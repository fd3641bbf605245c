"""The stages between files: each makes the contents of one kind of file from those of another.

A command only reads, shows and writes; its work is done here, so that other programs can use it too.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from typing import Any

import numpy as np

from mccgr_cli.blocks.from_file import blocks_of
from mccgr_cli.blocks.protocol import Array, BlockSource, Matrix
from mccgr_cli.blocks.rows import TransformedBlocks, idf_for
from mccgr_cli.catalog import HISTORY
from mccgr_cli.core import kmeans as clustering
from mccgr_cli.core.graph import GraphHealth
from mccgr_cli.core.methods import METHODS
from mccgr_cli.core.neighbours import Search
from mccgr_cli.core.solver import Factors, transform
from mccgr_cli.core.typicality import below_one, certainty_of
from mccgr_cli.errors import DataError, ParameterError
from mccgr_cli.files.container import DENSITY, FACTORS, LANDMARKS, LEARNT, Contents
from mccgr_cli.files.lazy_matrix import StoredMatrix
from mccgr_cli.files.readers import Loaded
from mccgr_cli.settings import NORMALIZATIONS, ORTHOGONAL, TFIDF, ClusterSettings, GraphSettings, Settings
from mccgr_cli.workflow.factorization import choose_graph

GRAPH_COUNTS = ("edges", "isolated", "components")  # of GraphHealth, stored with factors
TIME_LIMIT = "time limit"  # attribute ended_by: the factors are those that a run had then
NEIGHBORS = "outlier_neighbors"  # attribute: the number of neighbours in an outlier score
SAME_FEATURES = "describe the new samples by the same features; images with 'mccgr extract --codebook'"


def prepare(matrix: Loaded, normalization: str, dtype: str | None = None, idf: Array | None = None) -> Matrix:
    """Load X in this precision with normalized rows. The contents lose their X, so that there is only one copy."""
    return matrix.contents.datasets.pop("X").prepared_as(normalization, dtype, idf).load()


def make_graph(
    X: BlockSource,
    settings: Settings,
    graph: GraphSettings,
    normalization: str,
    names: dict[str, Any],
    on_search: Callable[[Search], None] | None = None,
) -> Contents:
    """A graph file: the graph that a factorization with these settings builds.

    It has the recall if the search was approximate. ``on_search`` receives how neighbours were found.
    """
    attributes = {name: value for name, value in asdict(graph).items() if value is not None}
    attributes |= {"k": settings.k, "method": settings.method, "seed": settings.seed, "normalize": normalization}
    attributes["init"] = settings.init

    def searched(search: Search) -> None:
        if not search.exact:
            attributes["recall"] = search.recall
        if on_search is not None:
            on_search(search)

    A = choose_graph(X, settings, graph, None, searched)
    sample_names = {name: names[name] for name in ("sample_names",) if name in names}
    return Contents("graph", {"A": A, **sample_names}, attributes)


def require_datasets(factors: Loaded, *names: str) -> None:
    """Refuse a clusters file without these datasets: it was made from a matrix, not from factors."""
    missing = [name for name in names if name not in factors.contents]
    if missing:
        what = f"clusters of a matrix, without the factors /{' /'.join(missing)}"
        raise DataError(factors.name, what, "name a file from mccgr factorize, or clusters made from one")


def factors_contents(
    factors: Factors,
    settings: Settings,
    normalization: str,
    names: dict[str, Any],
    graph: GraphHealth | None = None,
    choice: str | None = None,
    idf: Array | None = None,
) -> Contents:
    """A factors file. The graph is not stored, only its counts; ``choice`` is how the normalization was chosen."""
    history = {f"history/{name}": factors.history[name] for name in HISTORY}
    attributes = {name: value for name, value in asdict(settings).items() if value is not None}
    attributes |= {"alpha": factors.alpha, "normalize": normalization, "converged": factors.converged}
    if graph is not None:
        attributes |= {f"graph_{name}": getattr(graph, name) for name in GRAPH_COUNTS}
        attributes["form"] = ORTHOGONAL if settings.is_orthogonal else "paper"
    if choice is not None:
        attributes["choice"] = choice
    if factors.stopped:
        attributes["ended_by"] = TIME_LIMIT
    learnt = {} if idf is None else {"idf": idf}
    datasets = {"W": factors.W, "H": factors.H, "rho": factors.rho, **learnt, **history, **names}
    return Contents("factors", datasets, attributes)


def cluster(source: Loaded, normalization: str, clusters: ClusterSettings) -> Contents:
    """Clusters of the coefficients in a factors file, or of the samples in a matrix file (the baseline)."""
    contents, k, assign = source.contents, clusters.k, clusters.assign
    names, idf = contents.names(), None
    if contents.kind == "matrix":
        if k is None or assign == "max":
            missing = "--k" if k is None else "--assign"
            raise ParameterError(missing, f"{source.name} is a matrix, not factors", "give --k and not --assign")
        if normalization == TFIDF:  # which needs one more pass over X
            idf = idf_for(normalization, blocks_of(contents["X"].stream()))
        samples = prepare(source, normalization, idf=idf)
    else:
        require_datasets(source, "W")
        samples = contents["W"]
        if assign == "max" and k not in (None, samples.shape[1]):
            raise ParameterError("--k", f"the {samples.shape[1]} components are the clusters", "leave it out")
        if normalization != "none":
            raise ParameterError("--normalize", f"{source.name} holds factors, not a matrix", "leave it out")
    components, k = samples.shape[1], k or samples.shape[1]
    if assign is None:
        assign = assignment_of(contents.attributes.get("form") == ORTHOGONAL and k == components)
    assignments = assign_clusters(samples, k, assign, clusters.restarts, clusters.seed)
    known = (*FACTORS, *LEARNT, *LANDMARKS, *DENSITY, "outlier")
    kept = {name: contents[name] for name in known if name in contents}
    if idf is not None:
        kept["idf"] = idf
    chosen = {"cluster_k": k, "cluster_assign": assign, "cluster_restarts": clusters.restarts}
    chosen["cluster_seed"] = clusters.seed
    if contents.kind == "matrix":
        chosen["normalize"] = normalization
    certainty, kind = certainty_of(below_one(samples)[0] if "W" in contents else samples, assignments, assign)
    if certainty is not None:
        kept["certainty"], chosen["certainty_kind"] = certainty, kind
    return Contents("clusters", {"assignments": assignments, **kept, **names}, {**contents.attributes, **chosen})


def assignment_of(components_are_clusters: bool) -> str:
    """How samples are assigned to clusters by default."""
    return "max" if components_are_clusters else "kmeans"


def assign_clusters(samples: Matrix, k: int, assign: str, restarts: int, seed: int) -> Array:
    """The cluster of each sample (n,): by k-means, or by the largest coefficient if ``assign`` is "max"."""
    check_clusters(k, assign, samples.shape[0])
    return clustering.largest_coefficient(samples) if assign == "max" else clustering.kmeans(samples, k, restarts, seed)


def check_clusters(k: int, assign: str | None, samples: int) -> None:
    if k > samples and assign != "max":
        raise ParameterError("--k", f"{k} clusters for {samples} samples", "give fewer")


def learnt_with(factors: Loaded) -> tuple[str, str]:
    """The method that a basis was learnt by, and the normalization of the rows."""
    require_datasets(factors, "H", "rho")
    attributes = factors.contents.attributes
    method, normalization = attributes.get("method", "l2"), attributes.get("normalize", "none")
    if method not in METHODS or normalization not in NORMALIZATIONS:
        what = f"learnt by method {method!r} on rows normalized by {normalization!r}, which this mccgr does not know"
        raise DataError(factors.name, what, "update mccgr, or make the file again")
    return method, normalization


def learnt_idf(learnt: Loaded, normalization: str) -> Array | None:
    """The inverse document frequencies with which the rows of a file were normalized; None if they need none."""
    if normalization != TFIDF:
        return None
    if "idf" not in learnt.contents:
        raise DataError(learnt.name, "rows normalized by tfidf, without /idf", "make the file again")
    idf: Array = learnt.contents["idf"]
    return idf


def rows_like(factors: Loaded, matrix: Loaded, features: int) -> tuple[str, Array | None]:
    """How new samples with ``features`` are normalized, and the idf for it in the order of their features.

    Both are those of the old samples: nothing is learnt from new ones.
    """
    normalization = learnt_with(factors)[1]
    idf = learnt_idf(factors, normalization)
    if idf is not None:
        order = order_of_features(features, matrix.contents.names(), factors, matrix.name)
        idf = idf if order is None else idf[np.argsort(order)]
    return normalization, idf


def transform_matrix(factors: Loaded, matrix: Loaded, X: Matrix | StoredMatrix) -> Contents:
    """The coefficients of new samples on the basis H of a factors file; X is normalized as :func:`rows_like` says."""
    method, _ = learnt_with(factors)
    learnt, names = factors.contents, matrix.contents.names()
    W = transform(matched_blocks(factors, matrix, X), learnt["H"], learnt["rho"], method)
    known = (*FACTORS, *LEARNT, "feature_names")
    kept = {name: learnt[name] for name in known if name != "W" and name in learnt}
    return Contents("factors", {"W": W, **names, **kept}, attributes_for_new(learnt))


def attributes_for_new(learnt: Contents) -> dict[str, Any]:
    """The attributes that hold for new samples too: these have no graph, and other neighbours."""
    of_old = [*(f"graph_{name}" for name in GRAPH_COUNTS), NEIGHBORS]
    return {name: value for name, value in learnt.attributes.items() if name not in of_old}


def matched_blocks(factors: Loaded, matrix: Loaded, X: Matrix | StoredMatrix) -> BlockSource:
    """The blocks of new samples, with the features in the order of the basis."""
    order = order_of_features(X.shape[1], matrix.contents.names(), factors, matrix.name)
    return blocks_of(X) if order is None else TransformedBlocks(blocks_of(X), columns_of, order)


def order_of_features(features: int, names: dict[str, Any], factors: Loaded, where: str) -> list[int] | None:
    """The columns of X in the order of the basis; None if they are in this order already."""
    known, d = factors.contents.datasets.get("feature_names"), factors.contents["H"].shape[1]
    if features != d:
        raise DataError(where, f"{features} features where the basis has {d}", SAME_FEATURES)
    given = names.get("feature_names")
    if known is None or given is None or list(known) == list(given):
        return None
    place = {name: column for column, name in enumerate(given)}
    unknown = [name for name in known if name not in place]
    if unknown or len(place) < d:
        what = f"no feature {unknown[0]!r}, which {factors.name} has" if unknown else "two features of the same name"
        raise DataError(where, what, SAME_FEATURES)
    return [place[name] for name in known]


def columns_of(X: Matrix, order: list[int]) -> Matrix:
    return X[:, order]
