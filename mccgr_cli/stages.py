"""The stages between files: from the contents of one kind of file to those of the next.

What a command does apart from reading, showing and writing is here, for whoever else needs it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from typing import Any

import numpy as np
from scipy import sparse

from mccgr_cli import clustering
from mccgr_cli.blocks import Array, Matrix, MemoryBlocks
from mccgr_cli.container import FACTORS, HISTORY, Contents
from mccgr_cli.errors import DataError, ParameterError
from mccgr_cli.graph import build_graph
from mccgr_cli.methods import METHODS
from mccgr_cli.normalize import normalize
from mccgr_cli.settings import GraphSettings, Settings
from mccgr_cli.solver import Factors, Step, solve
from mccgr_cli.transform import transform

ASSIGNMENTS = ("kmeans", "max")


def prepare(matrix: Contents, how: str, dtype: str | None = None) -> Matrix:
    """X in the precision asked for, its rows normalized. The contents give their X away."""
    X: Matrix = matrix.datasets.pop("X")
    if dtype is not None:
        X = X.astype(dtype, copy=False)
    return normalize(X, how)


def make_graph(X: Matrix, settings: GraphSettings) -> Contents:
    attributes = {name: value for name, value in asdict(settings).items() if value is not None}
    return Contents("graph", {"A": build_graph(X, settings)}, attributes)


def check_graph(graph: Contents, samples: int, where: str) -> sparse.csr_array[Any]:
    """The adjacency in a graph file, if it can serve for so many samples."""
    A: sparse.csr_array[Any] = sparse.csr_array(graph["A"])
    if A.shape[0] != samples:
        raise DataError(where, f"a graph of {A.shape[0]} samples for a matrix of {samples}", "build it anew")
    if A.nnz and not (np.isfinite(A.data).all() and A.data.min() >= 0):
        raise DataError(where, "negative or non-finite edge weights", "build it anew with 'mccgr graph'")
    if abs(A - A.T).max() > 1e-6 * max(abs(A).max(), 1e-300):
        raise DataError(where, "the graph is not symmetric", "build it anew with 'mccgr graph'")
    return A


def check_start(start: Contents, settings: Settings, shape: tuple[int, int], where: str) -> tuple[Array, Array]:
    W, H = start["W"], start["H"]
    needed = (shape[0], settings.k), (settings.k, shape[1])
    if (W.shape, H.shape) != needed:
        what = f"W {W.shape} and H {H.shape} where {needed[0]} and {needed[1]} are needed"
        raise DataError(where, what, "start from factors of this matrix with this k")
    for name, factor in (("W", W), ("H", H)):
        if not (np.isfinite(factor).all() and factor.min() >= 0):
            raise DataError(where, f"negative or non-finite values in /{name}", "start from something else")
    if settings.restarts > 1:
        raise ParameterError("--restarts", f"every start from {where} would be the same", "leave it out")
    return W, H


def uses_graph(settings: Settings) -> bool:
    return METHODS[settings.method].graph and settings.alpha > 0


def factorize(
    X: Matrix,
    settings: Settings,
    graph: sparse.csr_array[Any] | None = None,
    start: tuple[Array, Array] | None = None,
    on_step: Callable[[Step], None] | None = None,
) -> Factors:
    if settings.k > min(X.shape):
        what = f"{settings.k} components are more than a {X.shape[0]} x {X.shape[1]} matrix has room for"
        raise ParameterError("--k", what, f"give at most {min(X.shape)}")
    return solve(MemoryBlocks(X), settings, graph, start, on_step)


def factors_contents(factors: Factors, settings: Settings, how: str, names: dict[str, Any]) -> Contents:
    history = {f"history/{name}": factors.history[name] for name in HISTORY}
    return Contents(
        "factors",
        {"W": factors.W, "H": factors.H, "rho": factors.rho, **history, **names},
        {**asdict(settings), "normalize": how, "converged": factors.converged},
    )


def cluster(contents: Contents, assign: str, k: int | None, restarts: int, seed: int, where: str) -> Contents:
    """Clusters of the coefficients in a factors file, or of the samples in a matrix file: the baseline."""
    if contents.kind == "matrix" and (k is None or assign == "max"):
        missing = "--k" if k is None else "--assign"
        raise ParameterError(missing, f"{where} is a matrix, not factors", "give --k and leave --assign out")
    samples = contents["X"] if contents.kind == "matrix" else contents["W"]
    k = k or samples.shape[1]
    if k > samples.shape[0]:
        raise ParameterError("--k", f"{k} clusters for {samples.shape[0]} samples", "give fewer")
    if assign == "max":
        assignments = clustering.largest_coefficient(samples)
    else:
        assignments = clustering.kmeans(samples, k, restarts, seed)
    carried = {name: contents[name] for name in FACTORS if name in contents}
    return Contents("clusters", {"assignments": assignments, **carried, **contents.names()}, dict(contents.attributes))


def transform_matrix(factors: Contents, matrix: Contents, where: str) -> Contents:
    """New samples on the basis of a factors file, normalized as the samples were that it was learnt from."""
    names = matrix.names()
    X = prepare(matrix, str(factors.attributes.get("normalize", "none")))
    H = factors["H"]
    if X.shape[1] != H.shape[1]:
        what = f"{X.shape[1]} features where the basis has {H.shape[1]}"
        raise DataError(where, what, "describe the new samples by the same features")
    W = transform(MemoryBlocks(X), H, factors["rho"], str(factors.attributes.get("method", "l2")))
    learnt = {name: factors[name] for name in FACTORS if name != "W"}
    if "feature_names" in factors:
        names["feature_names"] = factors["feature_names"]
    return Contents("factors", {"W": W, **learnt, **names}, dict(factors.attributes))
