"""Factorize from Python: what ``mccgr factorize`` does, for a matrix in memory.

Everything that can be chosen has the names, bounds and defaults of the command line.
"""

from __future__ import annotations

import re
import reprlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields
from numbers import Integral, Real
from typing import Any, TypeVar

import numpy as np
from scipy import sparse

from mccgr_cli.blocks.from_file import blocks_of
from mccgr_cli.blocks.protocol import Matrix
from mccgr_cli.blocks.rows import normalize as normalize_rows
from mccgr_cli.core.solver import Factors, Start, Step, check_solver
from mccgr_cli.errors import ArgumentError, DataError, ParameterError
from mccgr_cli.files.readers.checks import as_real
from mccgr_cli.files.values import check_values
from mccgr_cli.settings import NORMALIZATION, NUMBERS, WORDS, GraphSettings, Settings
from mccgr_cli.workflow import stages

Chosen = TypeVar("Chosen", Settings, GraphSettings)


def factorize(
    X: Any,
    k: int,
    *,
    normalize: str = NORMALIZATION,
    method: str = Settings.method,
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
    neighbors: int = GraphSettings.neighbors,
    weight: str = GraphSettings.weight,
    symmetry: str = GraphSettings.symmetry,
    metric: str | None = GraphSettings.metric,
    heat_width: float | None = GraphSettings.heat_width,
    axes: int | None = GraphSettings.axes,
    search: str = GraphSettings.search,
    graph_features: str = GraphSettings.graph_features,
    on_step: Callable[[Step], None] | None = None,
) -> Factors:
    """X ~ WH with X (n, d) non-negative, W (n, k) and H (k, d): as ``mccgr factorize``, to the last bit.

    X is an array or a scipy sparse matrix, with samples in rows, and stays as it is. Single precision is kept. Rows are
    normalized first, so W and H factorize the normalized rows. The arguments are the options of the command, which
    ``mccgr factorize --help`` explains; ``init`` may be a pair (W, H), and ``graph`` an adjacency (n, n), symmetric
    and non-negative, to take instead of building one. ``on_step`` is called with a :class:`Step` after every iteration.

    What cannot be used raises :class:`mccgr_cli.errors.ArgumentError`, which is a ValueError and a TypeError.
    """
    start = init if isinstance(init, (tuple, list)) else None
    given = {**locals(), "init": init if start is None else Settings.init}
    with as_arguments():
        settings, graph_settings = chosen(Settings, given), chosen(GraphSettings, given)
        rows = prepare(as_matrix(X), check("normalize", normalize))
        return run(rows, settings, graph_settings, graph, start, on_step)[0]


def run(
    X: Matrix,
    settings: Settings,
    graph_settings: GraphSettings,
    graph: Any = None,
    start: Start | None = None,
    on_step: Callable[[Step], None] | None = None,
) -> tuple[Factors, stages.Graph | None]:
    """The factors of rows that are normalized already, and the graph they were found with."""
    check_solver(settings)
    source, starts = blocks_of(X), None
    if start is not None:
        if settings.restarts > 1:
            raise ParameterError("--restarts", "every start from the same factors would be the same", "leave it out")
        if len(start) != 2:
            raise ParameterError("--init", f"{len(start)} arrays to start from", "give a pair (W, H)")
        W, H = (as_matrix(factor, "--init") for factor in start)
        starts = [stages.check_start(W, H, settings.k, X.shape, "--init")]
    if graph is not None:
        graph = stages.check_graph(as_matrix(graph, "--graph", some=False), X.shape[0], "--graph")
    A = stages.choose_graph(source, settings, graph_settings, graph)
    return stages.factorize(source, settings, A, starts, on_step), A


# What was given


def as_matrix(X: Any, where: str = "X", some: bool = True) -> Matrix:
    """A non-negative matrix, checked; the caller's own where nothing had to be changed, unless it is sparse."""
    require_sound(X, where)
    X = as_real(sparse.csr_array(X, copy=True) if sparse.issparse(X) else np.asarray(X), where)
    check_values(blocks_of(X), where, some)
    return X


def require_sound(X: Any, where: str) -> None:
    """Refuse a sparse matrix whose indices lead out of it: scipy follows them, wherever that is in memory."""
    if sparse.issparse(X) and X.format in ("csr", "csc", "bsr"):
        try:  # on another that shares its arrays: the check may replace them
            type(X)((X.data, X.indices, X.indptr), shape=X.shape).check_format(full_check=True)
        except ValueError as fault:
            raise DataError(where, f"not a sound sparse matrix: {fault}", "build it anew") from None


def prepare(X: Matrix, how: str) -> Matrix:
    """Rows normalized, in a copy."""
    return X if how == "none" else normalize_rows(X.copy(), how)


def chosen(kind: type[Chosen], given: Mapping[str, Any]) -> Chosen:
    """The settings of one kind among everything that was given, checked."""
    return kind(**{field.name: check(field.name, given[field.name], field.default) for field in fields(kind)})


def check(name: str, value: Any, default: Any = ...) -> Any:
    """The value of an option, if it is one, as a type of Python's own."""
    where, words = f"--{name.replace('_', '-')}", WORDS.get(name, ())
    if (value is None and default is None) or (isinstance(value, str) and value in words):
        return value
    if name not in NUMBERS:
        raise ParameterError(where, f"{reprlib.repr(value)} is none of {', '.join(words)}", "give one of them")
    bounds = NUMBERS[name]
    number = isinstance(value, Integral if bounds.whole else Real) and not isinstance(value, bool)
    if number and bounds.least <= value <= bounds.most:
        return int(value) if bounds.whole else float(value)
    ends = f"from {bounds.least:g} to {bounds.most:g}" if bounds.most < np.inf else f"of at least {bounds.least:g}"
    what = f"{reprlib.repr(value)} is not a {'whole ' if bounds.whole else ''}number {ends}"
    raise ParameterError(where, f"none of {', '.join(words)}, and {what}" if words else what)


@contextmanager
def as_arguments(names: Mapping[str, str] | None = None) -> Iterator[None]:
    """Tell faults by the names of arguments, where the command line has options: those in ``names`` have others."""
    try:
        yield
    except ArgumentError:
        raise
    except (DataError, ParameterError) as fault:
        raise ArgumentError(*(in_python(part, names) for part in fault.told)) from None


def in_python(text: str, names: Mapping[str, str] | None = None) -> str:
    """What is said about options, said about arguments.

    >>> in_python("--heat-width: not used", {})
    'heat_width: not used'
    """

    def argument(flag: re.Match[str]) -> str:
        name = flag[1].replace("-", "_")
        return (names or {}).get(name, name)

    return re.sub(r"--([a-z][a-z-]*)", argument, text)
