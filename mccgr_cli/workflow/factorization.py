"""From X to factors: learn the weights of the features, choose the neighbour graph, factorize."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np
from scipy import sparse

from mccgr_cli.blocks.in_memory import as_source
from mccgr_cli.blocks.products import moments
from mccgr_cli.blocks.protocol import Array, BlockSource, Matrix
from mccgr_cli.blocks.rows import take_rows
from mccgr_cli.core.graph import build_graph
from mccgr_cli.core.methods import METHODS
from mccgr_cli.core.neighbours import Search, check_search
from mccgr_cli.core.parts import Spectrum, explained_variance, parts_of
from mccgr_cli.core.solver import Factors, OnPause, Progress, Start, Step, solve, uses_graph
from mccgr_cli.errors import DataError, ParameterError
from mccgr_cli.settings import GraphSettings, Settings
from mccgr_cli.system.phases import phase

Graph: TypeAlias = "sparse.csr_array[Any]"  # an adjacency (n, n)

WEIGHING_STEPS = 20  # enough iterations to learn feature weights for a neighbour search
WEIGHING_SAMPLES, WEIGHING_SAMPLES_PER_CLUSTER = 10_000, 100  # that show which features matter
WEIGHING_VALUES = 1 << 26  # of these samples if they are dense, so that they fit into memory
LEAST_DEVIATION = 1e-4  # of a feature, relative to the largest: what varies less has no larger weight
HALF_WEIGHT = 0.1  # a feature with this fraction of the mean explained share gets the weight 1/2


def choose_graph(
    X: Matrix | BlockSource,
    settings: Settings,
    graph_settings: GraphSettings,
    given: Graph | None = None,
    on_search: Callable[[Search], None] | None = None,
    ks: Sequence[int] = (),
    plain: PlainGraph | None = None,
) -> Graph | None:
    """The neighbour graph for a factorization: ``given``, or built from X; None if the method uses no graph.

    Methods with feature weights build it twice: first with all features (and some of the samples, if they are many),
    then with those features that differ between the parts of the first graph. ``on_search`` receives how the
    neighbours were found. ``ks``: several numbers of components that share the graph, instead of ``settings.k``.
    ``plain``: the first graph, if it has been built already.
    """
    if not uses_graph(settings):
        return None
    if given is not None:
        return given
    check_search(graph_settings.search)
    ks = ks or (settings.k,)
    graph_settings = replace(graph_settings, axes=graph_settings.axes_for(max(ks)))
    features = graph_settings.graph_features if METHODS[settings.method].weighted else "plain"
    weights: Array | None = None
    with phase("weighing features", "iterations", WEIGHING_STEPS if features == "weighted" else 0):
        if features == "weighted":
            weights = learn_weights(X, settings)
        elif features == "explained":
            plain = plain or PlainGraph(X, graph_settings, max(ks))
            weights = np.mean([plain.weights(k, settings) for k in ks], axis=0)
    return build_graph(X, graph_settings, weights, on_search)


class PlainGraph:
    """A graph of all features, of some samples if they are many: its parts show which features matter."""

    def __init__(self, X: Matrix | BlockSource, graph_settings: GraphSettings, most: int) -> None:
        self.samples = some_samples(X, most)
        self.A = build_graph(self.samples, replace(graph_settings, axes=graph_settings.axes_for(most)))
        self.spectrum = Spectrum(self.A, most)

    def weights(self, k: int, settings: Settings) -> Array:
        """The feature weights (d,) if its k parts are the classes."""
        part = parts_of(self.A, k, settings.seed, merged=settings.init == "merged", spectrum=self.spectrum)
        return weights_by_parts(self.samples, part)


def learns_from_parts(settings: Settings, graph_settings: GraphSettings) -> bool:
    """Whether a :class:`PlainGraph` is needed."""
    is_weighted = uses_graph(settings) and METHODS[settings.method].weighted
    return is_weighted and graph_settings.graph_features == "explained"


def learn_weights(X: Matrix | BlockSource, settings: Settings) -> Array:
    """The feature weights (d,) after a few iterations without a graph."""
    few: dict[str, Any] = {"method": "mcc", "solver": "multiplicative", "init": "nndsvd"}
    return factorize(X, replace(settings, iterations=WEIGHING_STEPS, restarts=1, **few)).rho


def some_samples(X: Matrix | BlockSource, k: int) -> Matrix | BlockSource:
    """X, or evenly spaced rows of it if they are many: enough to see which features matter."""
    source = as_source(X)
    n, count = source.shape[0], weighing_samples(source, k)
    return X if n <= count else take_rows(source, np.linspace(0, n - 1, count).astype(int))


def weighing_samples(source: BlockSource, k: int) -> int:
    """The number of samples that show which features matter."""
    n, d = source.shape
    least = WEIGHING_SAMPLES_PER_CLUSTER * k
    is_sparse = sparse.issparse(source.take(slice(0, 1)))
    fitting = WEIGHING_SAMPLES if is_sparse else min(WEIGHING_SAMPLES, WEIGHING_VALUES // d)
    return min(n, max(least, fitting))


def weights_by_parts(X: Matrix | BlockSource, part: Array) -> Array:
    """The feature weights (d,) if the parts are the classes: s / (s + c mean(s)) / v, c = HALF_WEIGHT.

    s is the share of a feature's variance that lies between the parts, v its standard deviation. Features that differ
    between the parts get nearly equal weights in units of v; features that do not are noise, or about something else.
    """
    source = as_source(X)
    shares, deviations = explained_variance(source, part), np.sqrt(moments(source).spread(source.shape[0]))
    if not shares.any() or not deviations.any():
        return np.ones(len(shares))
    weights = shares / (shares + HALF_WEIGHT * shares.mean())
    return np.asarray(weights / np.maximum(deviations / deviations.max(), LEAST_DEVIATION))


def check_graph(given: Any, samples: int, where: str) -> Graph:
    """The adjacency as a CSR array, if it is symmetric and has this number of samples."""
    A: Graph = sparse.csr_array(given)
    if A.shape[0] != samples:
        raise DataError(where, f"a graph of {A.shape[0]} samples for a matrix of {samples}", "build it again")
    if A.nnz and abs(A - A.T).max() > 1e-6 * A.max():
        raise DataError(where, "the graph is not symmetric", "build it again with 'mccgr graph'")
    if A.diagonal().any():  # a sample is no neighbour of itself
        A = sparse.csr_array(A - sparse.diags_array(A.diagonal()))
        A.eliminate_zeros()
    return A


def check_components(k: int, shape: tuple[int, int]) -> None:
    if k > min(shape):
        what = f"{k} components are more than a {shape[0]} x {shape[1]} matrix has room for"
        raise ParameterError("--k", what, f"give at most {min(shape)}")


def check_start(W: Array, H: Array, k: int, shape: tuple[int, int], where: str) -> Start:
    """W and H, if a factorization of a matrix of this shape can start from them."""
    needed = (shape[0], k), (k, shape[1])
    if (W.shape, H.shape) != needed:
        what = f"W {W.shape} and H {H.shape} where {needed[0]} and {needed[1]} are needed"
        raise DataError(where, what, "start from factors of this matrix with this k")
    if W.max() == 0 or H.max() == 0:
        raise DataError(where, "its factors are 0, and updates cannot change that", "start from other factors")
    return W, H


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
    check_components(settings.k, X.shape)
    factors = solve(as_source(X), settings, graph, starts, on_step, resumed, on_pause)
    if not all(part.min() >= 0 and part.max() < np.inf for part in (factors.W, factors.H, factors.rho)):  # or NaN
        raise DataError("X", "its factors have numbers that overflow", "rescale X to a mean of 1")
    return factors
