"""The stages between files: from the contents of one kind of file to those of the next.

What a command does apart from reading, showing and writing is here, for whoever else needs it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from scipy import sparse

from mccgr_cli.blocks.from_file import blocks_of
from mccgr_cli.blocks.in_memory import as_source
from mccgr_cli.blocks.protocol import Array, BlockSource, Matrix
from mccgr_cli.blocks.rows import Transformed
from mccgr_cli.core import kmeans as clustering
from mccgr_cli.core.graph import GraphHealth, build_graph, explained, parts
from mccgr_cli.core.methods import METHODS
from mccgr_cli.core.neighbours import Search, check_search
from mccgr_cli.core.solver import Factors, OnPause, Progress, Start, Step, solve, transform, uses_graph
from mccgr_cli.errors import DataError, ParameterError, one_line
from mccgr_cli.files.container import FACTORS, Contents
from mccgr_cli.files.lazy_matrix import StoredMatrix
from mccgr_cli.files.readers import Loaded
from mccgr_cli.settings import HISTORY, NORMALIZATIONS, Description, GraphSettings, Learning, Settings

Graph: TypeAlias = "sparse.csr_array[Any]"  # an adjacency (n, n)

WEIGHING_STEPS = 20  # after which the weights of the features are good enough to look for neighbours with
DOUBTFUL = 0.1  # share of the average of what parts explain, at which a feature counts half

if TYPE_CHECKING:  # what reads images is loaded only where there are images
    from mccgr_cli.images.codebook import Codebook
    from mccgr_cli.images.extract import Counts
    from mccgr_cli.images.find import Skipped


def prepare(matrix: Loaded, how: str, dtype: str | None = None) -> Matrix:
    """Load X in this precision with normalized rows. The contents lose their X, so that there is only one copy."""
    return matrix.contents.datasets.pop("X").prepared_as(how, dtype).load()


def words_contents(
    counts: Counts, X: Array, book: Codebook, learning: Learning | None, skipped: Sequence[Skipped]
) -> Contents:
    """The matrix of the words that images show, with what it takes to describe others in the same way."""
    datasets: dict[str, Any] = {"X": X, "codebook": book.words, "feature_names": book.feature_names()}
    datasets["sample_names"] = [image.name for image in counts.images]
    labels = [image.label for image in counts.images]
    if None not in labels:
        names, codes = np.unique(np.array(labels, dtype=object), return_inverse=True)
        datasets["label_names"], datasets["labels"] = names.tolist(), codes
    if skipped:
        datasets["skipped/names"] = [one.name for one in skipped]
        datasets["skipped/reasons"] = [one_line(one.reason) for one in skipped]
    attributes = {**asdict(book.description), "soft_width": book.width, "codebook_sha256": book.sha256()}
    if learning is not None:
        attributes |= {"sample": learning.sample, "seed": learning.seed}
        if learning.descriptors_per_image is not None:
            attributes["descriptors_per_image"] = learning.descriptors_per_image
    return Contents("matrix", datasets, attributes)


def read_codebook(given: Loaded) -> Codebook:
    """The words in a file of ``mccgr extract``, and how they describe."""
    from mccgr_cli.images.codebook import Codebook

    contents = given.contents
    if "codebook" not in contents:
        raise DataError(given.name, "holds no codebook", "name a file from mccgr extract")
    stored: dict[str, Any] = {name: contents.attributes.get(name) for name in Description.__dataclass_fields__}
    damaged = DataError(given.name, "its codebook is damaged or was changed", "extract it again")
    try:
        described = Description(**{**stored, "radii": tuple(stored["radii"] or ())})
        book = Codebook(contents["codebook"].astype(np.float32), described, contents.attributes.get("soft_width", 0.0))
        whole = book.is_sound() and book.sha256() == contents.attributes.get("codebook_sha256")
    except (TypeError, ValueError):  # attributes of another type
        raise damaged from None
    if not whole:
        raise damaged
    return book


def make_graph(
    X: Matrix | BlockSource,
    settings: GraphSettings,
    how: str,
    names: dict[str, Any],
    on_search: Callable[[Search], None] | None = None,
) -> Contents:
    """``on_search`` is told how the neighbours were found; the recall of approximate ones is kept."""
    searches: list[Search] = []
    A = build_graph(X, settings, None, searches.append)
    attributes = {name: value for name, value in asdict(settings).items() if value is not None}
    for search in searches:
        if not search.exact:
            attributes["recall"] = search.recall
        if on_search is not None:
            on_search(search)
    carried = {name: names[name] for name in ("sample_names",) if name in names}
    return Contents("graph", {"A": A, **carried}, {**attributes, "normalize": how})


def choose_graph(
    X: Matrix | BlockSource,
    settings: Settings,
    graph_settings: GraphSettings,
    given: Graph | None = None,
    on_search: Callable[[Search], None] | None = None,
) -> Graph | None:
    """The graph that was given, or one built from X; None where the method uses none.

    ``on_search`` is told how the neighbours in it were found.
    """
    if not uses_graph(settings):
        return None
    if given is not None:
        return given
    check_search(graph_settings.search)
    graph_settings = replace(graph_settings, axes=graph_settings.axes_for(settings.k))
    features = graph_settings.graph_features if METHODS[settings.method].weighted else "plain"
    counts = learn_weights(X, settings) if features != "plain" else None
    if features == "explained":
        part = parts(build_graph(X, graph_settings, counts), settings.k, settings.seed)
        counts = judge_features(X, part)
    return build_graph(X, graph_settings, counts, on_search)


def learn_weights(X: Matrix | BlockSource, settings: Settings) -> Array:
    """The weights of the features (d,) before there is a graph: a few steps without one."""
    few: dict[str, Any] = {
        "method": "mcc",
        "solver": "multiplicative",
        "iterations": WEIGHING_STEPS,
        "restarts": 1,
        "init": "nndsvd",
    }
    return factorize(X, replace(settings, **few)).rho


def judge_features(X: Matrix | BlockSource, part: Array) -> Array:
    """How much each feature is to count (d,) if samples belong together in these parts.

    Those that differ between the parts count, all nearly alike; those that do not are noise, or tell other things.
    """
    shares = explained(as_source(X), part)
    return shares / (shares + DOUBTFUL * shares.mean()) if shares.any() else np.ones(len(shares))


def check_graph(given: Any, samples: int, where: str) -> Graph:
    """An adjacency, if it can serve for so many samples."""
    A: Graph = sparse.csr_array(given)
    if A.shape[0] != samples:
        raise DataError(where, f"a graph of {A.shape[0]} samples for a matrix of {samples}", "build it anew")
    if A.nnz and abs(A - A.T).max() > 1e-6 * A.max():
        raise DataError(where, "the graph is not symmetric", "build it anew with 'mccgr graph'")
    return A


def check_start(W: Array, H: Array, k: int, shape: tuple[int, int], where: str) -> Start:
    """Factors, if they can serve as the start for a matrix of this shape."""
    needed = (shape[0], k), (k, shape[1])
    if (W.shape, H.shape) != needed:
        what = f"W {W.shape} and H {H.shape} where {needed[0]} and {needed[1]} are needed"
        raise DataError(where, what, "start from factors of this matrix with this k")
    if W.max() == 0 or H.max() == 0:
        raise DataError(where, "its factors are 0, from where no update moves", "start from something else")
    return W, H


def require(given: Loaded, *names: str) -> None:
    """Refuse clusters that were not made from factors where the factors are needed."""
    missing = [name for name in names if name not in given.contents]
    if missing:
        what = f"clusters of a matrix, without the factors /{' /'.join(missing)}"
        raise DataError(given.name, what, "name a file from mccgr factorize, or clusters made from one")


def factorize(
    X: Matrix | BlockSource,
    settings: Settings,
    graph: Graph | None = None,
    starts: Sequence[Start] | None = None,
    on_step: Callable[[Step], None] | None = None,
    resumed: Progress | None = None,
    on_pause: OnPause | None = None,
) -> Factors:
    """X ~ WH; see :func:`mccgr_cli.core.solver.solve`."""
    if settings.k > min(X.shape):
        what = f"{settings.k} components are more than a {X.shape[0]} x {X.shape[1]} matrix has room for"
        raise ParameterError("--k", what, f"give at most {min(X.shape)}")
    factors = solve(as_source(X), settings, graph, starts, on_step, resumed, on_pause)
    if not all(part.min() >= 0 and part.max() < np.inf for part in (factors.W, factors.H, factors.rho)):  # or NaN
        raise DataError("X", "its factors have numbers that overflow", "rescale X to a mean of 1")
    return factors


def factors_contents(
    factors: Factors, settings: Settings, how: str, names: dict[str, Any], graph: GraphHealth | None = None
) -> Contents:
    """``graph``: what is to be known of the one that was used, as it is not kept itself."""
    history = {f"history/{name}": factors.history[name] for name in HISTORY}
    chosen = {name: value for name, value in asdict(settings).items() if value is not None}
    return Contents(
        "factors",
        {"W": factors.W, "H": factors.H, "rho": factors.rho, **history, **names},
        {**chosen, "alpha": factors.alpha, "normalize": how, "converged": factors.converged, **told_of(graph)},
    )


OF_GRAPH = ("edges", "isolated", "components")


def told_of(graph: GraphHealth | None) -> dict[str, int]:
    """As attributes of factors."""
    return {} if graph is None else {f"graph_{name}": getattr(graph, name) for name in OF_GRAPH}


def cluster(given: Loaded, how: str, assign: str, k: int | None, restarts: int, seed: int) -> Contents:
    """Clusters of the coefficients in a factors file, or of the samples in a matrix file: the baseline."""
    contents = given.contents
    names = contents.names()
    if contents.kind == "matrix":
        if k is None or assign == "max":
            missing = "--k" if k is None else "--assign"
            raise ParameterError(missing, f"{given.name} is a matrix, not factors", "give --k and not --assign")
        samples = prepare(given, how)
    else:
        require(given, "W")
        samples = contents["W"]
        if assign == "max" and k not in (None, samples.shape[1]):
            raise ParameterError("--k", f"the {samples.shape[1]} components are the clusters", "leave it out")
        if how != "none":
            raise ParameterError("--normalize", f"{given.name} holds factors, not a matrix", "leave it out")
    k = k or samples.shape[1]
    assignments = assign_clusters(samples, k, assign, restarts, seed)
    carried = {name: contents[name] for name in FACTORS if name in contents}
    chosen = {"cluster_k": k, "cluster_assign": assign, "cluster_restarts": restarts, "cluster_seed": seed}
    return Contents("clusters", {"assignments": assignments, **carried, **names}, {**contents.attributes, **chosen})


def assign_clusters(samples: Matrix, k: int, assign: str, restarts: int, seed: int) -> Array:
    """The cluster of each sample, (n,)."""
    check_clusters(k, assign, samples.shape[0])
    return clustering.largest_coefficient(samples) if assign == "max" else clustering.kmeans(samples, k, restarts, seed)


def check_clusters(k: int, assign: str, samples: int) -> None:
    if k > samples and assign == "kmeans":
        raise ParameterError("--k", f"{k} clusters for {samples} samples", "give fewer")


def learnt_with(factors: Loaded) -> tuple[str, str]:
    """The method that a basis was learnt by, and how the rows were normalized."""
    require(factors, "H", "rho")
    attributes = factors.contents.attributes
    method, how = attributes.get("method", "l2"), attributes.get("normalize", "none")
    if method not in METHODS or how not in NORMALIZATIONS:
        what = f"learnt by method {method!r} on rows normalized by {how!r}, of which this mccgr knows nothing"
        raise DataError(factors.name, what, "update mccgr, or make the file again")
    return method, how


def transform_matrix(factors: Loaded, matrix: Loaded, X: Matrix | StoredMatrix) -> Contents:
    """New samples on the basis of a factors file. Rows of X are normalized as those that the basis was learnt from."""
    method, _ = learnt_with(factors)
    learnt, names = factors.contents, matrix.contents.names()
    order = order_of_features(X.shape[1], names, factors, matrix.name)
    source: BlockSource = blocks_of(X)
    if order is not None:
        source = Transformed(source, columns_of, order)
    W = transform(source, learnt["H"], learnt["rho"], method)
    carried = {name: learnt[name] for name in (*FACTORS, "feature_names") if name != "W" and name in learnt}
    about_others = [f"graph_{name}" for name in OF_GRAPH]  # new samples have no graph
    attributes = {name: value for name, value in learnt.attributes.items() if name not in about_others}
    return Contents("factors", {"W": W, **names, **carried}, attributes)


SAME_FEATURES = "describe the new samples by the same features; images with 'mccgr extract --codebook'"


def order_of_features(features: int, names: dict[str, Any], factors: Loaded, where: str) -> list[int] | None:
    """The columns of X in the order of the basis; None if they are in it."""
    known, d = factors.contents.datasets.get("feature_names"), factors.contents["H"].shape[1]
    if features != d:
        what = f"{features} features where the basis has {d}"
        raise DataError(where, what, SAME_FEATURES)
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
