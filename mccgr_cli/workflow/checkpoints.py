"""Checkpoints: the state of a factorization as the contents of a file, from which another process continues."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from mccgr_cli import __version__
from mccgr_cli.blocks.protocol import BlockSource
from mccgr_cli.catalog import HISTORY
from mccgr_cli.core.solver import PATIENCE, Best, Factors, Progress
from mccgr_cli.errors import DataError
from mccgr_cli.files.container import Contents
from mccgr_cli.files.provenance import Input
from mccgr_cli.files.readers import Loaded, split_inner, suffix_of
from mccgr_cli.settings import Settings

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


def checkpoint_contents(checkpoint: Checkpoint) -> Contents:
    progress, run = checkpoint.progress, checkpoint.run
    update = progress.update.items()
    datasets: dict[str, Any] = {name if name in ("W", "H") else STATE + name: value for name, value in update}
    datasets |= history_datasets("history", progress.history)
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
    return Progress(restart, history, quiet, state, random, alpha, best)


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
