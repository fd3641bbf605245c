"""``mccgr factorize``"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mccgr_cli.catalog import SILENCED
from mccgr_cli.cli import options, types
from mccgr_cli.cli.checkpointing import (
    Checkpointing,
    checkpointing,
    keeper_for,
    refuse_what_resume_decides,
)
from mccgr_cli.cli.help import GroupedOption
from mccgr_cli.cli.options import MatrixInput, Output, Resources
from mccgr_cli.cli.time_limit import end_if_stopped, finished, limited, watching_time, with_default_file
from mccgr_cli.errors import MccgrError, ParameterError
from mccgr_cli.fields import GRAPH, settings_of
from mccgr_cli.settings import AUTO, INITS, NORMALIZATIONS, GraphSettings, RowSettings, Settings
from mccgr_cli.system.phases import phase

if TYPE_CHECKING:
    from mccgr_cli.blocks.protocol import BlockSource
    from mccgr_cli.cli.checkpointing import Keeper
    from mccgr_cli.cli.job import Caller, Job
    from mccgr_cli.cli.samples import Samples
    from mccgr_cli.core.graph import GraphHealth
    from mccgr_cli.core.solver import Factors, Start
    from mccgr_cli.files.container import Contents
    from mccgr_cli.files.readers import Loaded
    from mccgr_cli.workflow.factorization import Graph

INIT = {
    "type": types.WordOrFile(INITS),
    "metavar": f"[{'|'.join(INITS)}|FILE]",
    "help": f"{settings_of(Settings)['init'].help} FILE: factors from an earlier run.",
}


@dataclass(frozen=True)
class Factorization:
    """What ``mccgr factorize`` computes."""

    matrix: MatrixInput
    settings: Settings
    graph: GraphSettings
    rows: RowSettings
    graph_file: str | None = None

    @property
    def starts_from_file(self) -> bool:
        return self.settings.init not in INITS

    @property
    def parameters(self) -> dict[str, Any]:
        return options.parameters(self.matrix, self.settings, self.graph, self.rows, graph_file=self.graph_file)


@options.command
@options.gathered("settings", Settings, changed={"init": INIT})
@options.gathered("rows", RowSettings)
@options.output
@options.preset
@options.matrix("MATRIX", unless="resume")
@click.option(
    "--graph",
    "graph_file",
    cls=GroupedOption,
    group=GRAPH,
    type=types.INPUT,
    help="Use a graph that 'mccgr graph' made, instead of building one. Other graph options have no effect then.",
)
@options.gathered("graph", GraphSettings)
@options.resources("memory", "scheduler", "time_limit")
@checkpointing
def command(
    matrix: MatrixInput,
    settings: Settings,
    graph: GraphSettings,
    rows: RowSettings,
    graph_file: str | None,
    resources: Resources,
    checkpointing: Checkpointing,
    output: Output,
) -> None:
    """Factorize a non-negative matrix: X ~ WH.

    MATRIX has samples in rows. It is an HDF5 file (FILE::/dataset names a dataset), an .h5ad, .mat, .npy, .npz, .mtx,
    .csv or .tsv file. Without it, standard input is read: HDF5, or one line with a file name. The neighbour graph is
    built from the rows, unless --graph names a file.

    \b
    Examples:
      mccgr factorize X.h5 --alpha 100 --k 5
      mccgr factorize COIL20.mat --k 20 --normalize l2 -o factors.h5
      mccgr factorize counts.h5ad --k 8 --method kl --label-key cell_type
      mccgr factorize X.h5 -k 5 | mccgr cluster | mccgr evaluate
      mccgr factorize X.h5 -k 5 -o - | mccgr evaluate --format json
      mccgr factorize large.h5 --k 10 --memory 4GB
      mccgr factorize large.h5 --k 10 --scheduler tcp://node1:8786
      mccgr factorize large.h5 --k 10 --checkpoint run.h5
      mccgr factorize --resume run.h5
      mccgr factorize large.h5 --k 10 --time-limit 30m
    """
    request = Factorization(matrix, settings, graph, rows, graph_file)
    if checkpointing.resume is not None:
        refuse_what_resume_decides(request.parameters)
    with limited(resources.time_limit):
        factorize(request, resources, checkpointing, output)


def factorize(
    request: Factorization,
    resources: Resources,
    checkpointing: Checkpointing,
    output: Output,
    caller: Caller | None = None,
) -> None:
    """Factorize a matrix file and write a factors file."""
    from mccgr_cli.cli.job import Job
    from mccgr_cli.cli.samples import note_choice, prepared
    from mccgr_cli.core.landmarks import size_of_landmarks
    from mccgr_cli.core.solver import check_solver, uses_graph
    from mccgr_cli.workflow import factorization, stages
    from mccgr_cli.workflow.choice import without_graph
    from mccgr_cli.workflow.prediction import learn_for_prediction

    settings, source, resumes = request.settings, request.matrix.source, checkpointing.resume is not None
    check_start_option(request, resumes)
    check_solver(settings)
    with Job(
        "factorize", output, request.parameters, derived=(source, "factors"), resources=resources, caller=caller
    ) as job:
        checkpointing = with_default_file(job, checkpointing, source)
        keeper = keeper_for(job, checkpointing, source)
        builds = uses_graph(settings) and request.graph_file is None
        graph_file = None if resumes or request.graph_file is None else job.load(request.graph_file, ("graph",))
        rows, graph = request.rows, request.graph
        if graph_file is not None:
            rows, settings = made_with(graph_file, rows), started_from(graph_file, settings)
        if not builds:
            settings, graph = without_graph(settings, graph)
        with prepared(job, request.matrix, rows, settings, graph, builds, checkpointing.copies) as samples:
            X, settled = samples.X, samples.settled
            settings, graph = settled.settings, settled.graph
            factorization.check_components(settings.k, X.shape)
            size = X.dtype.itemsize * settings.k * (X.shape[0] + X.shape[1])
            job.require_space(size + size_of_landmarks(*X.shape, settings.k))
            starts = None if resumes else load_start(job, request, X)
            given_graph = None if graph_file is None else use_graph(job, request, graph_file, samples)
            kept = keeper.restored(settings, X) if keeper is not None else None
            if kept is None:
                note_estimate(job, X, settings, graph if builds else None, samples.memory)
                A = factorization.choose_graph(X, settings, graph, given_graph, job.reporter.searched)
                choice = note_choice(job, settled.choice)
            else:
                A, choice = kept.A, kept.choice
            health = note_health(job, A, settings.k)
            names = samples.loaded.contents.names()
            learnt = {} if settled.idf is None else {"idf": settled.idf}
            with (
                job.reporter.watching(settings.iterations, settings.restarts) as on_step,
                keeper.watching(A, choice, {**names, **learnt}) if keeper is not None else watching_time() as on_pause,
            ):
                resumed = kept.progress if kept is not None else None
                factors = factorization.factorize(X, settings, A, starts, on_step, resumed, on_pause)
                learn = partial(learn_for_prediction, X, factors.rho, settings.k, graph.evenness)
                predicting = finished(learn, factors.stopped)
        job.reporter.note(describe(factors, settings))
        contents = stages.factors_contents(factors, settings, settled.normalize, names, health, choice, settled.idf)
        write(job, keeper, contents, factors, predicting)


def write(
    job: Job, keeper: Keeper | None, contents: Contents, factors: Factors, predicting: tuple[Any, ...] | None
) -> None:
    """Write a factors file with what prediction needs, unless there was no time to learn it."""
    from mccgr_cli.workflow.prediction import with_landmarks

    if predicting is None:
        job.reporter.note("no time for landmarks and outlier scores; the continued run has them")
    else:
        contents = with_landmarks(contents, *predicting)
    with keeper.finishing(factors.stopped) if keeper is not None else nullcontext():
        job.write(contents)
    end_if_stopped(job, keeper, factors)


def check_start_option(request: Factorization, resumes: bool) -> None:
    init = request.settings.init
    if request.starts_from_file and not resumes and not Path(init).exists():
        raise ParameterError("--init", f"{init} is not one of {', '.join(INITS)}, and not a file", "check its name")
    if request.starts_from_file and request.settings.restarts > 1:
        raise ParameterError("--restarts", f"every start from {init} would be the same", "leave it out")


def note_health(job: Job, A: Graph | None, k: int) -> GraphHealth | None:
    """Say what there is to know of the graph."""
    from mccgr_cli.core.graph import graph_health

    if A is None:
        return None
    with phase("checking the graph"):
        health = graph_health(A)
    job.reporter.note(f"graph: {health}")
    if health.components > max(2 * k, health.samples // 10):
        many = f"the graph falls into {health.components} pieces"
        job.reporter.note(f"doubt: {many}, and nothing connects them; raise --neighbors")
    return health


def load_start(job: Job, request: Factorization, X: BlockSource) -> list[Start] | None:
    """The factors that --init FILE names."""
    from mccgr_cli.workflow import factorization, stages

    if not request.starts_from_file:
        return None
    file = job.load(request.settings.init, ("factors", "clusters"))
    stages.require_datasets(file, "W", "H")
    return [factorization.check_start(file.contents["W"], file.contents["H"], request.settings.k, X.shape, file.name)]


def made_with(file: Loaded, rows: RowSettings) -> RowSettings:
    """The normalization that a graph was made with, unless the user gave another."""
    stored = file.contents.attributes.get("normalize")
    return replace(rows, normalize=stored) if rows.normalize == AUTO and stored in NORMALIZATIONS else rows


def started_from(file: Loaded, settings: Settings) -> Settings:
    """The start for which a graph was made, unless the user gave another."""
    stored = file.contents.attributes.get("init")
    return replace(settings, init=stored) if settings.init == AUTO and stored in ("graph", "merged") else settings


def use_graph(job: Job, request: Factorization, file: Loaded, samples: Samples) -> Graph | None:
    """The graph in a file, if the method uses one."""
    from mccgr_cli.core.solver import uses_graph
    from mccgr_cli.workflow import factorization

    used = uses_graph(request.settings)
    for note in doubts(file.contents.attributes, request.settings, samples.settled.normalize, used):
        job.reporter.note(note)
    return factorization.check_graph(file.contents["A"], samples.X.shape[0], file.name) if used else None


def doubts(graph: dict[str, Any], settings: Settings, normalize: str, used: bool) -> Iterator[str]:
    """Reasons why the given graph may not be what the user wants."""
    if not used:
        weight = f"--strength {settings.strength:g}" if settings.alpha is None else f"--alpha {settings.alpha:g}"
        yield f"--graph: not used by --method {settings.method} {weight}"
        return
    if graph.get("k", settings.k) != settings.k:
        yield f"--graph: built for --k {graph['k']}, used with --k {settings.k}"
    if graph.get("normalize", normalize) != normalize:
        yield f"--graph: built with --normalize {graph['normalize']}, used with --normalize {normalize}"


def note_estimate(job: Job, X: BlockSource, settings: Settings, graph: GraphSettings | None, memory: float) -> None:
    """Say how much time and memory a long run will take."""
    from mccgr_cli.system.memory import format_bytes
    from mccgr_cli.workflow.estimate import LONG_SEARCH, estimate, is_worthwhile
    from mccgr_cli.workflow.placement import OWN

    if job.output.quiet or job.resources.scheduler is not None or not is_worthwhile(X, settings):
        return
    try:
        with phase("estimating the time"):
            found = estimate(X, settings, graph)
    except MccgrError:  # a fault in a sample of the rows may not be one in all of them
        return
    job.reporter.note(f"estimate: {found}, {format_bytes(memory + OWN)} of memory")
    if found.graph > LONG_SEARCH and found.could_be_fast:
        job.reporter.note("--search approximate finds nearly all neighbours in a fraction of the time")


def describe(factors: Factors, settings: Settings) -> str:
    from mccgr_cli.core.solver import why_not_converged

    last = {name: values[-1] + 0.0 for name, values in factors.history.items()}  # not -0
    parts = [
        f"objective {last['objective']:.6g} (data {last['data']:.6g}, graph {last['graph']:.6g})",
        f"{factors.iterations} iterations in {last['seconds']:.2f} s",
        why_not_converged(factors, settings) or "converged",
    ]
    silenced = int((factors.rho < SILENCED).sum())
    if silenced:
        parts.append(f"{silenced} of {len(factors.rho)} features silenced")
    return "factors: " + ", ".join(parts)
