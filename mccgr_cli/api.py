"""``factorize`` for Python: what ``mccgr factorize`` does, for a matrix in memory.

Arguments have the names, bounds and defaults of the options.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
from scipy import sparse

from mccgr_cli.blocks.from_file import blocks_of
from mccgr_cli.blocks.protocol import Array, Matrix
from mccgr_cli.blocks.rows import normalize as normalize_rows
from mccgr_cli.core.solver import Factors, Start, Step, check_solver, uses_graph
from mccgr_cli.errors import ArgumentError, DataError, ParameterError
from mccgr_cli.fields import checked
from mccgr_cli.files.readers.checks import as_real
from mccgr_cli.files.values import check_values
from mccgr_cli.settings import GraphSettings, RowSettings, Settings
from mccgr_cli.workflow import factorization
from mccgr_cli.workflow.choice import Settled, settle, without_graph


def factorize(
    X: Any,
    k: int,
    *,
    normalize: str = RowSettings.normalize,
    method: str = Settings.method,
    form: str | None = Settings.form,
    strength: float = Settings.strength,
    alpha: float | None = Settings.alpha,
    keep: float = Settings.keep,
    theta: float | None = Settings.theta,
    bandwidth: str | float = Settings.bandwidth,
    solver: str = Settings.solver,
    iterations: int = Settings.iterations,
    tolerance: float = Settings.tolerance,
    init: str | Start = Settings.init,
    restarts: int = Settings.restarts,
    seed: int = Settings.seed,
    ridge: float = Settings.ridge,
    graph: Any = None,
    neighbors: int | None = GraphSettings.neighbors,
    weight: str = GraphSettings.weight,
    symmetry: str = GraphSettings.symmetry,
    metric: str | None = GraphSettings.metric,
    heat_width: float | None = GraphSettings.heat_width,
    axes: int | None = GraphSettings.axes,
    evenness: float | None = GraphSettings.evenness,
    search: str = GraphSettings.search,
    graph_features: str = GraphSettings.graph_features,
    on_step: Callable[[Step], None] | None = None,
) -> Factors:
    """Factorize X ~ WH, with the same result to the last bit as ``mccgr factorize``.

    An argument that cannot be used raises an ArgumentError, which is a ValueError and a TypeError.

    Parameters
    ----------
    X : array or scipy sparse matrix of shape (n, d)
        Non-negative, with samples in rows. It is not changed. Single precision is kept.
    normalize : str
        Normalization of the rows. W and H factorize the normalized rows.
    init : str or pair of arrays (W, H)
        Starting point.
    graph : array or sparse matrix of shape (n, n), optional
        Symmetric, non-negative adjacency to use instead of building a neighbour graph.
    on_step : callable, optional
        Called with a :class:`Step` after every iteration.
    k and all others
        The options that ``mccgr factorize --help`` explains.

    Returns
    -------
    Factors
        W (n, k), H (k, d), the feature weights rho (d,), and the history of the run.
    """
    start = init if isinstance(init, (tuple, list)) else None
    values = {**locals(), "init": init if start is None else Settings.init, "dtype": None}
    with as_arguments():
        settings, graph_settings = checked(Settings, values), checked(GraphSettings, values)
        rows, settled = settled_rows(X, settings, graph_settings, checked(RowSettings, values), graph)
        return run(rows, settled.settings, settled.graph, graph, start, on_step)[0]


def settled_rows(
    X: Any, settings: Settings, graph_settings: GraphSettings, rows: RowSettings, graph: Any = None
) -> tuple[Matrix, Settled]:
    """Normalized rows, and the settings: chosen where they were left open."""
    X = as_matrix(X)
    if graph is not None or not uses_graph(settings):
        settings, graph_settings = without_graph(settings, graph_settings)
    settled = settle(blocks_of(X), settings, rows.normalize, graph_settings)
    return prepare(X, settled.normalize, settled.idf), settled


def run(
    X: Matrix,
    settings: Settings,
    graph_settings: GraphSettings,
    graph: Any = None,
    start: Start | None = None,
    on_step: Callable[[Step], None] | None = None,
) -> tuple[Factors, factorization.Graph | None]:
    """Factorize rows that are normalized already. Returns the factors and the graph."""
    check_solver(settings)
    source, starts = blocks_of(X), None
    if start is not None:
        if settings.restarts > 1:
            raise ParameterError("--restarts", "every start from the same factors would be the same", "leave it out")
        if len(start) != 2:
            raise ParameterError("--init", f"{len(start)} arrays to start from", "give a pair (W, H)")
        W, H = (as_matrix(factor, "--init") for factor in start)
        starts = [factorization.check_start(W, H, settings.k, X.shape, "--init")]
    if graph is not None:
        graph = factorization.check_graph(as_matrix(graph, "--graph", some=False), X.shape[0], "--graph")
    A = factorization.choose_graph(source, settings, graph_settings, graph)
    return factorization.factorize(source, settings, A, starts, on_step), A


# Arguments


def as_matrix(X: Any, where: str = "X", some: bool = True) -> Matrix:
    """A checked non-negative matrix. A dense matrix is copied only if its type must change; a sparse one always."""
    require_sound(X, where)
    X = as_real(sparse.csr_array(X, copy=True) if sparse.issparse(X) else np.asarray(X), where)
    check_values(blocks_of(X), where, some)
    return X


def require_sound(X: Any, where: str) -> None:
    """Refuse a sparse matrix with indices outside its shape: scipy would read other memory."""
    if sparse.issparse(X) and X.format in ("csr", "csc", "bsr"):
        try:  # on another that shares its arrays: the check may replace them
            type(X)((X.data, X.indices, X.indptr), shape=X.shape).check_format(full_check=True)
        except ValueError as fault:
            raise DataError(where, f"not a sound sparse matrix: {fault}", "build it again") from None


def prepare(X: Matrix, how: str, idf: Array | None = None) -> Matrix:
    """A copy with normalized rows."""
    return X if how == "none" else normalize_rows(X.copy(), how, idf)


@contextmanager
def as_arguments(names: Mapping[str, str] | None = None) -> Iterator[None]:
    """Errors name arguments instead of options; ``names`` has arguments that are called differently."""
    try:
        yield
    except ArgumentError:
        raise
    except (DataError, ParameterError) as fault:
        raise ArgumentError(*(in_python(part, names or {}) for part in fault.parts)) from None


def in_python(text: str, names: Mapping[str, str]) -> str:
    """Replace options by arguments in a message.

    >>> in_python("--heat-width: not used", {})
    'heat_width: not used'
    """

    def argument(flag: re.Match[str]) -> str:
        name = flag[1].replace("-", "_")
        return names.get(name, name)

    return re.sub(r"--([a-z][a-z-]*)", argument, text)
