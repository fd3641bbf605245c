"""``mccgr experiment``"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mccgr_cli.cli import computing, options, types
from mccgr_cli.settings import (
    BASELINES,
    METHODS,
    NORMALIZATION,
    NORMALIZATIONS,
    SWEPT,
    WEIGHTS,
    GraphSettings,
    Settings,
)

if TYPE_CHECKING:
    from mccgr_cli.files.readers import Loaded
    from mccgr_cli.workflow.experiment import Plan

EVERYTHING = (*METHODS, *BASELINES)


@click.command()
@options.matrix_input("MATRIX")
@computing.preset
@click.option(
    "--methods",
    type=types.Words(EVERYTHING, everything="all"),
    metavar="NAME,...",
    default="all",
    show_default=True,
    help=f"What to compare, of {', '.join(EVERYTHING)}; all of them by default.",
)
@click.option(
    "--k",
    "ks",
    type=types.Numbers(min=1, max=10_000),
    metavar="N,...",
    required=True,
    help="Numbers of classes to draw and of clusters to make: 2-10 or 2,5,10.",
)
@click.option(
    "--runs",
    type=types.Whole(min=1, max=100_000),
    metavar="N",
    default=50,
    show_default=True,
    help="Random draws of classes for each --k.",
)
@computing.sweep("--strength", Settings.strength, types.number("strength"), "Weight of the graph (mccgr, grnmf).")
@computing.sweep("--alpha", None, types.number("alpha"), "The same in the paper's way, instead of --strength.")
@computing.sweep("--keep", Settings.keep, types.number("keep"), "What the weights of features leave (mccgr, mcc).")
@computing.sweep("--theta", None, types.number("theta"), "The same in the paper's way, instead of --keep.")
@computing.sweep("--neighbors", GraphSettings.neighbors, types.number("neighbors"), "Of each sample (mccgr, grnmf).")
@computing.sweep("--weight", GraphSettings.weight, click.Choice(WEIGHTS), "Of an edge (mccgr, grnmf).")
@computing.sweep("--normalize", NORMALIZATION, click.Choice(NORMALIZATIONS), "What to do to the rows first.")
@computing.start(files=False)
@computing.course
@computing.graph_search
@computing.graph_features
@computing.kmeans_restarts("--cluster-restarts", 10)
@options.jobs
@options.scheduler
@options.seed
@options.output
@options.verbosity
def command(**given: Any) -> None:
    """Compare methods on random draws of classes, as the paper does.

    For every --k and run, so many classes of MATRIX are drawn; all methods factorize their samples from the same
    start, that of mccgr with its graph; k-means clusters the coefficients; and the clusters are compared with the
    classes. k-means on the samples themselves, and on samples with the weights that mcc gives the features, is
    compared too. Options that take several values try each of them.

    What is done is kept in FILE.part as it comes: the same command goes on where a killed one was, and ends with the
    same results, whatever --jobs or --scheduler. 'mccgr table' and 'mccgr plot' show them.

    \b
    Examples:
      mccgr experiment X.h5 --k 2-10 --runs 50 -o results.h5
      mccgr experiment X.h5 --methods mccgr --k 2 --alpha 1,10,100,1000,10000 -o alpha.h5
      mccgr experiment X.h5 --preset paper --k 2-10 -o paper.h5
      mccgr experiment X.h5 --k 2-10 -o results.h5 --scheduler tcp://host:8786
    """
    from mccgr_cli.cli import keep
    from mccgr_cli.cli.job import Job
    from mccgr_cli.errors import DataError, ParameterError
    from mccgr_cli.files.container import Contents
    from mccgr_cli.files.journal import Journal
    from mccgr_cli.workflow import experiment

    if given["output"] == "-":
        raise ParameterError("-o -", "an experiment needs a file beside which it can keep what it has done", "name one")
    given = options.told_once(given)
    plan = make_plan(given)
    job = Job(given, "results")
    matrix = job.load(given["source"], ("matrix",))
    if "labels" not in matrix.contents:
        raise DataError(matrix.name, "no labels to draw classes by", "name them with --label-key")
    X, labels = matrix.contents["X"].load(), matrix.contents["labels"]
    experiment.check(plan, X, labels)
    trials = plan.trials()
    journal = Journal(beside(job.paths[0]), identity(given, matrix), given["overwrite"])
    try:
        for name in [name for name, rows in journal.done.items() if not experiment.are_rows(rows)]:
            del journal.done[name]
        before = list(journal.done.values())
        left = [trial for trial in trials if trial.name not in journal.done]
        if before:
            job.reporter.note(f"going on after {len(before)} of {len(trials)} trials")
        with job.crew(len(left)) as workers, job.reporter.comparing(plan, len(trials), before) as show:
            keep(f"what is done is kept in {journal.path}; the same command goes on")
            for number, rows in workers.as_done(experiment.perform, left, (X, labels, plan), None):
                if rows is None:
                    what = f"the trial {left[number].name} ended its process whenever it was tried"
                    fewer = "give fewer --jobs" if given["scheduler"] is None else "let fewer workers share it"
                    raise DataError("worker processes", what, f"there may be too little memory; {fewer}")
                journal.add(left[number].name, rows)
                show(rows)
        rows = [row for trial in trials for row in journal.done[trial.name]]
        job.write(Contents("results", experiment.columns(rows), {"runs": plan.runs, "seed": plan.seed}))
        journal.remove()
    finally:
        journal.close()


def make_plan(given: dict[str, Any]) -> Plan:
    from mccgr_cli.workflow.experiment import Plan

    swept = {name: given[name] for name in SWEPT}
    for name in ("alpha", "theta"):
        swept[name] = swept[name] or (None,)
    first = {name: values[0] for name, values in swept.items()}
    fixed = {**given, **first, "k": 1, "method": "mccgr"}
    settings, graph = options.chosen(Settings, fixed), options.chosen(GraphSettings, fixed)
    fixed_by_plan = {"methods": given["methods"], "ks": given["ks"], "runs": given["runs"], "seed": given["seed"]}
    return Plan(settings=settings, graph=graph, restarts=given["cluster_restarts"], **fixed_by_plan, **swept)


def identity(given: dict[str, Any], matrix: Loaded) -> str:
    """What must be the same for results to belong together."""
    from mccgr_cli import __version__
    from mccgr_cli.files.readers import split_inner

    about = {name: value for name, value in given.items() if name not in (*options.MANNERS, "source")}
    of_file = split_inner(given["source"])[1]
    text = json.dumps([__version__, matrix.sha256, of_file, about], sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()


def beside(path: Path) -> Path:
    return path.with_name(f"{path.name}.part")
