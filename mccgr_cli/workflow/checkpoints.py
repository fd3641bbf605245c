"""The state of a run of the solver as the contents of a file, from which another process goes on."""

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
from mccgr_cli.core.solver import PATIENCE, Best, Factors, Progress
from mccgr_cli.errors import DataError
from mccgr_cli.files.container import Contents
from mccgr_cli.files.provenance import Input
from mccgr_cli.files.readers import Loaded, split_inner, suffix_of
from mccgr_cli.settings import HISTORY, Settings

STATE = "state/"  # the group of what a solver must know beside W and H


@dataclass(frozen=True)
class Run:
    """What is computed, and from what."""

    typed: dict[str, Any]  # options that say what to compute, as the user typed them
    parameters: dict[str, Any]  # what these came to
    inputs: list[Input]  # X first

    def same_as(self, other: Run) -> bool:
        """Whether the results of both are the same."""
        return self._identity() == other._identity()

    def _identity(self) -> str:
        """A matrix may have been moved meanwhile; but the same bytes, read in another way, are another matrix."""
        path, inner = split_inner(str(self.parameters.get("source")))
        about = {**self.parameters, "source": [suffix_of(Path(path)), inner]}
        return json.dumps([about, [given.sha256 for given in self.inputs]], sort_keys=True)


@dataclass(frozen=True)
class Checkpoint:
    """A run that can go on."""

    run: Run
    progress: Progress
    A: sparse.csr_array[Any] | None


def checkpoint_contents(checkpoint: Checkpoint) -> Contents:
    progress, run = checkpoint.progress, checkpoint.run
    datasets: dict[str, Any] = {stored_name(name): value for name, value in progress.update.items()}
    datasets |= of_history("history", progress.history)
    if checkpoint.A is not None:
        datasets["A"] = checkpoint.A
    attributes: dict[str, Any] = {
        "restart": progress.restart,
        "quiet": progress.quiet,
        "random": json.dumps(progress.random),
        "run": json.dumps({**vars(run), "inputs": [vars(given) for given in run.inputs], "version": __version__}),
    }
    if progress.alpha is not None:
        attributes["alpha"] = progress.alpha
    if progress.best is not None:
        best = progress.best.factors
        datasets |= {
            "best/W": best.W,
            "best/H": best.H,
            "best/rho": best.rho,
            **of_history("best/history", best.history),
        }
        attributes |= {
            "best_objective": progress.best.objective,
            "best_converged": best.converged,
            "best_alpha": best.alpha,
        }
    return Contents("checkpoint", datasets, attributes)


def stored_name(name: str) -> str:
    return name if name in ("W", "H") else STATE + name


def of_history(folder: str, history: Mapping[str, Any]) -> dict[str, Any]:
    return {f"{folder}/{name}": history[name] for name in HISTORY}


def read_run(given: Loaded) -> Run:
    """What the run in a checkpoint computes."""
    try:
        stored = json.loads(given.contents.attributes["run"])
        version = stored.pop("version")
        run = Run(dict(stored["typed"]), dict(stored["parameters"]), [Input(**one) for one in stored["inputs"]])
        if not run.inputs:
            raise ValueError
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError):
        raise damaged(given) from None
    if version != __version__:
        what = f"of a run of mccgr {version}, and this is {__version__}"
        raise DataError(given.name, what, "go on with that version, or run it anew")
    return run


def read_progress(given: Loaded, settings: Settings, X: BlockSource) -> Progress:
    """How far the run had got, if it is one with these settings on a matrix like this."""
    contents, (n, d) = given.contents, X.shape
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
        raise damaged(given) from None
    if not fits:
        raise damaged(given)
    return Progress(restart, history, quiet, state, random, alpha, best)


def read_best(contents: Contents, about: Mapping[str, Any], dtype: np.dtype[Any]) -> Best | None:
    if "best/W" not in contents:
        return None
    history = {name: contents[f"best/history/{name}"] for name in HISTORY}
    W, H = (np.asarray(contents[f"best/{name}"], dtype=dtype) for name in ("W", "H"))
    rho = contents["best/rho"]
    factors = Factors(W, H, rho, history, bool(about["best_converged"]), float(about["best_alpha"]))
    return Best(float(about["best_objective"]), factors)


def damaged(given: Loaded) -> DataError:
    return DataError(given.name, "a checkpoint that is damaged or was changed", "run the command anew without it")
