"""Checkpoints: the state of a factorization as the contents of a file, from which another process continues."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from mccgr_cli import __version__
from mccgr_cli.blocks.protocol import BlockSource
from mccgr_cli.catalog import HISTORY
from mccgr_cli.core.graph import graph_health
from mccgr_cli.core.solver import PATIENCE, Best, Factors, Progress
from mccgr_cli.errors import DataError, ParameterError
from mccgr_cli.fields import checked, settings_of
from mccgr_cli.files.container import Contents
from mccgr_cli.files.provenance import Input
from mccgr_cli.files.readers import Loaded, split_inner, suffix_of
from mccgr_cli.settings import INITS, Settings
from mccgr_cli.workflow.stages import factors_contents

STATE = "state/"  # the group of what a solver must know beside W and H


@dataclass(frozen=True)
class Run:
    """What a run computes, and from which files."""

    parameters: dict[str, Any]  # values of the options that say what to compute
    output: str | None  # where the result goes
    inputs: list[Input]  # X first

    def same_as(self, other: Run) -> bool:
        """Whether both runs have the same result."""
        return self._identity() == other._identity()

    def _identity(self) -> str:
        """What decides the result. A file may be moved, but its suffix and the dataset decide how it is read."""
        path, inner = split_inner(str(self.parameters.get("source")))
        about = {**self.parameters, "source": [suffix_of(Path(path)), inner]}
        return json.dumps([about, [one.sha256 for one in self.inputs]], sort_keys=True)


@dataclass(frozen=True)
class Checkpoint:
    """A run that can continue."""

    run: Run
    progress: Progress
    A: sparse.csr_array[Any] | None
    choice: str | None = None  # how the normalization was chosen
    names: Mapping[str, Any] = field(default_factory=dict)  # labels, names of samples and features, and idf


def checkpoint_contents(checkpoint: Checkpoint) -> Contents:
    progress, run = checkpoint.progress, checkpoint.run
    update = progress.update.items()
    datasets: dict[str, Any] = {name if name in ("W", "H") else STATE + name: value for name, value in update}
    datasets |= {"rho": progress.rho, **history_datasets("history", progress.history), **checkpoint.names}
    if checkpoint.A is not None:
        datasets["A"] = checkpoint.A
    attributes: dict[str, Any] = {
        "restart": progress.restart,
        "quiet": progress.quiet,
        "random": json.dumps(progress.random),
        "run": json.dumps({**vars(run), "inputs": [vars(one) for one in run.inputs], "version": __version__}),
    }
    if checkpoint.choice is not None:
        attributes["choice"] = checkpoint.choice
    if progress.alpha is not None:
        attributes["alpha"] = progress.alpha
    if progress.best is not None:
        best = progress.best.factors
        datasets |= {"best/W": best.W, "best/H": best.H, "best/rho": best.rho}
        datasets |= history_datasets("best/history", best.history)
        attributes |= {"best_objective": progress.best.objective, "best_converged": best.converged}
        attributes["best_alpha"] = best.alpha
    return Contents("checkpoint", datasets, attributes)


def history_datasets(folder: str, history: Mapping[str, Any]) -> dict[str, Any]:
    return {f"{folder}/{name}": history[name] for name in HISTORY}


def read_run(file: Loaded) -> Run:
    """The run that a checkpoint belongs to."""
    try:
        stored = json.loads(file.contents.attributes["run"])
        version = stored.pop("version")
        run = Run(dict(stored["parameters"]), stored["output"], [Input(**one) for one in stored["inputs"]])
        if not run.inputs:
            raise ValueError
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError):
        raise damaged(file) from None
    if version != __version__:
        what = f"of a run of mccgr {version}, and this is {__version__}"
        raise DataError(file.name, what, "continue with that version, or start the run again")
    return run


def read_progress(file: Loaded, settings: Settings, X: BlockSource) -> Progress:
    """The state in a checkpoint, if it fits these settings and this matrix."""
    contents, (n, d) = file.contents, X.shape
    try:
        about = dict(contents.attributes)
        state = {name.removeprefix(STATE): value for name, value in contents.datasets.items() if name.startswith(STATE)}
        state |= {"W": contents["W"], "H": contents["H"]}
        best = read_best(contents, about, X.dtype)
        random = json.loads(about["random"])
        np.random.default_rng().bit_generator.state = random
        alpha = float(about["alpha"]) if "alpha" in about else None
        restart, quiet = int(about["restart"]), int(about["quiet"])
        history = {name: contents[f"history/{name}"] for name in HISTORY}
        fits = alpha is None or 0 <= alpha < np.inf
        fits &= 0 <= restart < settings.restarts and 0 <= quiet <= PATIENCE and (restart == 0 or best is not None)
        fits &= contents["W"].shape == (n, settings.k) and contents["H"].shape == (settings.k, d)
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError, RecursionError):
        raise damaged(file) from None
    if not fits:
        raise damaged(file)
    return Progress(restart, history, quiet, state, contents["rho"], random, alpha, best)


def with_checkpoints(kinds: Sequence[str]) -> tuple[str, ...]:
    """The kinds of files to read where these are accepted: a checkpoint stands for factors (:func:`as_factors`)."""
    return (*kinds, "checkpoint") if "factors" in kinds else tuple(kinds)


def as_factors(file: Loaded, kinds: Sequence[str]) -> Loaded:
    """The W and H that the run in a checkpoint has now, if the checkpoint itself is not among these kinds."""
    if file.contents.kind != "checkpoint" or "checkpoint" in kinds:
        return file
    notes = (*file.notes, f"{file.name}: {position(file.contents)}")
    return replace(file, contents=factors_so_far(file), notes=notes)


def position(checkpoint: Contents) -> str:
    """Where a run is, in words."""
    restart = checkpoint.attributes.get("restart")
    start = f" of start {restart + 1}" if isinstance(restart, int) and restart > 0 else ""
    return f"checkpoint after {len(checkpoint['history/objective']) - 1} iterations{start}"


def factors_so_far(file: Loaded) -> Contents:
    """The contents of the factors file that the run in a checkpoint would write now, but without landmarks."""
    contents, parameters = file.contents, read_run(file).parameters
    about, A = contents.attributes, contents.datasets.get("A")
    try:
        given = {name: parameters[name] for name in settings_of(Settings)}
        settings = checked(Settings, {**given, "init": given["init"] if given["init"] in INITS else INITS[0]})
        history = {name: contents[f"history/{name}"] for name in HISTORY}
        H = contents["H"].astype(contents["W"].dtype)
        factors = Factors(contents["W"], H, contents["rho"], history, converged=False, alpha=float(about["alpha"]))
        normalization = str(parameters["normalize"])
        health = None if A is None else graph_health(sparse.csr_array(A))
    except (KeyError, TypeError, ValueError, ParameterError):
        raise damaged(file) from None
    names, choice, idf = contents.names(), about.get("choice"), contents.datasets.get("idf")
    found = factors_contents(factors, settings, normalization, names, health, choice, idf)
    return replace(found, attributes={**found.attributes, "ended_by": "checkpoint"}, provenance=contents.provenance)


def read_best(contents: Contents, about: Mapping[str, Any], dtype: np.dtype[Any]) -> Best | None:
    if "best/W" not in contents:
        return None
    history = {name: contents[f"best/history/{name}"] for name in HISTORY}
    W, H = (np.asarray(contents[f"best/{name}"], dtype=dtype) for name in ("W", "H"))
    converged, alpha = bool(about["best_converged"]), float(about["best_alpha"])
    factors = Factors(W, H, contents["best/rho"], history, converged, alpha)
    return Best(float(about["best_objective"]), factors)


def damaged(file: Loaded) -> DataError:
    return DataError(file.name, "a checkpoint that is damaged or was changed", "run the command again without it")
