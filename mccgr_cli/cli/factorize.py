"""``mccgr factorize``"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mccgr_cli.cli import computing, options, types
from mccgr_cli.cli.resuming import LOADED, Keeper, Resumable
from mccgr_cli.errors import MccgrError, ParameterError
from mccgr_cli.settings import INITS, SILENCED, GraphSettings, Settings

if TYPE_CHECKING:
    from mccgr_cli.blocks.protocol import BlockSource
    from mccgr_cli.cli.job import Job
    from mccgr_cli.core.solver import Factors


@click.command(cls=Resumable)
@options.matrix_input("MATRIX")
@computing.preset
@computing.solver
@click.option("--graph", "graph_file", type=types.FILE, metavar="FILE", help="A graph made before by 'mccgr graph'.")
@computing.graph
@computing.graph_features
@computing.preprocessing
@options.memory
@options.scheduler
@options.checkpoints
@options.seed
@options.output
@options.verbosity
def command(**given: Any) -> None:
    """Factorize a non-negative matrix: X ~ WH.

    MATRIX is an HDF5 file (FILE::/dataset names a dataset), .h5ad, .mat, .npy, .npz, .mtx, .csv or .tsv
    file with samples in rows, or - for HDF5 on standard input. The graph is built from the rows unless
    --graph gives one.

    \b
    Examples:
      mccgr factorize X.h5 --alpha 100 --k 5
      mccgr factorize COIL20.mat --k 20 --normalize l2 -o factors.h5
      mccgr factorize counts.h5ad --k 8 --method kl --label-key cell_type
      mccgr factorize X.h5 --k 5 -o - | mccgr cluster - -o - | mccgr evaluate - --format json
      mccgr factorize large.h5 --k 10 --memory 4GB
      mccgr factorize large.h5 --k 10 --scheduler tcp://node1:8786
      mccgr factorize large.h5 --k 10 --checkpoint run.h5
      mccgr factorize --resume run.h5
    """
    from mccgr_cli.cli.job import Job
    from mccgr_cli.core.graph import examine
    from mccgr_cli.core.solver import check_solver, uses_graph
    from mccgr_cli.workflow import stages

    given = options.told_once(given)
    settings, graph_settings = options.chosen(Settings, given), options.chosen(GraphSettings, given)
    from_file = settings.init not in INITS
    if from_file and given["resume"] is None and not Path(settings.init).exists():
        raise ParameterError("--init", f"{settings.init} is none of {', '.join(INITS)} and no file", "check its name")
    if from_file and settings.restarts > 1:
        raise ParameterError("--restarts", f"every start from {settings.init} would be the same", "leave it out")
    check_solver(settings)
    job = Job(given, "factors")
    keeper = keeper_of(job)
    builds_graph = uses_graph(settings) and given["graph_file"] is None
    with job.samples(settings, graph_settings if builds_graph else None) as (matrix, X):
        job.expect(X.dtype.itemsize * settings.k * (X.shape[0] + X.shape[1]))
        starts = graph = None
        if from_file and given["resume"] is None:
            file = job.load(settings.init, ("factors", "clusters"))
            stages.require(file, "W", "H")
            starts = [stages.check_start(file.contents["W"], file.contents["H"], settings.k, X.shape, file.name)]
        if given["graph_file"] is not None and given["resume"] is None:
            file = job.load(given["graph_file"], ("graph",))
            for note in doubts(file.contents.attributes, given, uses_graph(settings)):
                job.reporter.note(note)
            if uses_graph(settings):
                graph = stages.check_graph(file.contents["A"], X.shape[0], file.name)
        kept = keeper.take_up(settings, X) if keeper is not None else None
        if kept is None:
            tell_what_it_takes(job, X, settings, graph_settings if builds_graph else None)
            A = stages.choose_graph(X, settings, graph_settings, graph, job.reporter.searched)
        else:
            A = kept.A
        health = None if A is None else examine(A)
        if health is not None:
            job.reporter.note(f"graph: {health}")
        with (
            job.reporter.watching(settings.iterations, settings.restarts) as on_step,
            keeper.watching(A) if keeper is not None else nullcontext() as on_pause,
        ):
            resumed = kept.progress if kept is not None else None
            factors = stages.factorize(X, settings, A, starts, on_step, resumed, on_pause)
    job.reporter.note(describe(factors, settings))
    with keeper.until_written() if keeper is not None else nullcontext():
        job.write(stages.factors_contents(factors, settings, given["normalize"], matrix.contents.names(), health))


def tell_what_it_takes(job: Job, X: BlockSource, settings: Settings, graph: GraphSettings | None) -> None:
    """Time and memory, of a run that may be long."""
    from mccgr_cli.system.memory import in_words
    from mccgr_cli.workflow.estimate import LONG, estimate, is_worthwhile
    from mccgr_cli.workflow.placement import OWN

    if job.given["quiet"] or job.given["scheduler"] is not None or not is_worthwhile(X, settings):
        return
    try:
        found = estimate(X, settings, graph)
    except MccgrError:  # what goes wrong with some of the rows need not with all
        return
    job.reporter.note(f"estimate: {found}, {in_words(job.takes + OWN)} of memory")
    if found.graph > LONG and found.could_be_fast:
        job.reporter.note("--search approximate finds nearly all neighbours in a fraction of the time")


def keeper_of(job: Job) -> Keeper | None:
    """Who keeps the state of the run, if somebody shall."""
    from mccgr_cli.files.readers import split_inner

    given, source = job.given, split_inner(job.given["source"])[0]
    path = given["checkpoint"] if given["resume"] is None else given["resume"]
    if path is None:
        by_user = click.get_current_context().get_parameter_source("checkpoint_every")
        if by_user is click.core.ParameterSource.COMMANDLINE:
            raise ParameterError("--checkpoint-every", "there is no --checkpoint", "give it, or leave this out")
        return None
    if path in ("", "-"):
        raise ParameterError("--checkpoint", "no file name", "name one")
    if source == "-" or Path(source).is_fifo():
        raise ParameterError("--checkpoint", f"{given['source']} cannot be read again", "give MATRIX as a file")
    return Keeper(job, Path(path), given["checkpoint_every"], click.get_current_context().meta.get(LOADED))


def doubts(graph: dict[str, Any], given: dict[str, Any], used: bool) -> Iterator[str]:
    """What may be wrong with giving this graph."""
    if not used:
        weight = "strength" if given["alpha"] is None else "alpha"
        yield f"--graph: not used by --method {given['method']} --{weight} {given[weight]:g}"
    elif graph.get("normalize", given["normalize"]) != given["normalize"]:
        yield f"--graph: built with --normalize {graph['normalize']}, used with --normalize {given['normalize']}"


def describe(factors: Factors, settings: Settings) -> str:
    from mccgr_cli.core.solver import shortfall

    last = {name: values[-1] for name, values in factors.history.items()}
    parts = [
        f"objective {last['objective']:.6g} (data {last['data']:.6g}, graph {last['graph']:.6g})",
        f"{factors.iterations} iterations in {last['seconds']:.2f} s",
    ]
    parts.append(shortfall(factors, settings) or "converged")
    silenced = int((factors.rho < SILENCED).sum())
    if silenced:
        parts.append(f"{silenced} of {len(factors.rho)} features silenced")
    return "factors: " + ", ".join(parts)
