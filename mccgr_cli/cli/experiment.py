"""``mccgr experiment``"""

from __future__ import annotations

from dataclasses import MISSING, asdict, dataclass, fields
from typing import TYPE_CHECKING, Any

from mccgr_cli.cli import options, types
from mccgr_cli.cli.group import invocation
from mccgr_cli.cli.options import MatrixInput, Output, Resources
from mccgr_cli.cli.time_limit import limited
from mccgr_cli.fields import basic_option, option, settings_of, whole
from mccgr_cli.settings import BASELINES, METHODS, SWEPT, GraphSettings, RowSettings, Settings

if TYPE_CHECKING:
    from mccgr_cli.cli.job import Job
    from mccgr_cli.workflow.experiment import Plan

EVERYTHING = (*METHODS, *BASELINES)


def swept(kind: type, name: str) -> Any:
    """A field for several values of a setting of another dataclass."""
    setting = settings_of(kind)[name]
    default = {one.name: one.default for one in fields(kind)}[name]
    return option(
        setting.group,
        default,
        setting.help,
        type=types.Several(types.type_of(setting)),
        metavar="NAME,..." if isinstance(setting.values, tuple) else "NUMBER,...",
        instead_of=setting.instead_of,
    )


@dataclass(frozen=True)
class Sweeps:
    """Settings that an experiment tries with several values each."""

    normalize: tuple[str, ...] = swept(RowSettings, "normalize")
    strength: tuple[float, ...] = swept(Settings, "strength")
    alpha: tuple[float, ...] | None = swept(Settings, "alpha")
    keep: tuple[float, ...] = swept(Settings, "keep")
    theta: tuple[float, ...] | None = swept(Settings, "theta")
    neighbors: tuple[int, ...] | None = swept(GraphSettings, "neighbors")
    weight: tuple[str, ...] = swept(GraphSettings, "weight")


@dataclass(frozen=True)
class Comparison:
    """What an experiment compares, and how often."""

    ks: tuple[int, ...] = basic_option(
        MISSING,
        "Numbers of classes to draw, and of clusters to find: 2-10 or 2,5,10.",
        flags=("-k", "--k"),
        type=types.Numbers(min=1, max=10_000),
    )
    runs: int = basic_option(50, "Random draws of classes for each --k.", values=whole(1, 100_000))
    methods: tuple[str, ...] = basic_option(
        "all", f"Methods to compare: {', '.join(EVERYTHING)}, or all.", type=types.Words(EVERYTHING, everything="all")
    )
    cluster_restarts: int = basic_option(
        10, "Number of k-means runs on the coefficients. The tightest clusters are kept.", values=whole(1)
    )


@options.command
@options.gathered("comparison", Comparison)
@options.output
@options.gathered("settings", Settings, exclude=("method", *SWEPT), k=1)
@options.preset
@options.matrix("MATRIX")
@options.gathered("sweeps", Sweeps)
@options.gathered("graph", GraphSettings, exclude=SWEPT)
@options.resources("jobs", "scheduler", "time_limit")
def command(
    matrix: MatrixInput,
    comparison: Comparison,
    sweeps: Sweeps,
    settings: Settings,
    graph: GraphSettings,
    resources: Resources,
    output: Output,
) -> None:
    """Compare methods on random draws of classes, as in the paper.

    Each run draws --k classes of MATRIX. All methods factorize the samples of these classes from the same starting
    point, the one of the method mccgr. Clusters are found as mccgr cluster finds them, and are compared with the
    classes. There are two baselines: k-means on the samples, and k-means on the samples with the feature weights of
    mcc. Options that end in ",..." accept several values; every combination is tried.

    Finished runs are saved in FILE.part. After an interruption, give the same command again: it continues. The results
    do not depend on the interruption, --jobs or --scheduler. 'mccgr table' and 'mccgr plot' show them.

    \b
    Examples:
      mccgr experiment X.h5 --k 2-10 --runs 50 -o results.h5
      mccgr experiment X.h5 --methods mccgr --k 2 --alpha 1,10,100,1000,10000 -o alpha.h5
      mccgr experiment X.h5 --preset paper --k 2-10 -o paper.h5
      mccgr experiment X.h5 --k 2-10 -o results.h5 --scheduler tcp://host:8786
    """
    from mccgr_cli.cli.job import Job
    from mccgr_cli.errors import DataError, ParameterError
    from mccgr_cli.files.journal import identity_of
    from mccgr_cli.files.readers import split_inner
    from mccgr_cli.workflow import experiment

    if output.path == "-":
        raise ParameterError("-o -", "an experiment saves finished runs beside its output file", "name a file")
    plan = make_plan(comparison, sweeps, settings, graph)
    parameters = options.parameters(matrix, settings, graph, comparison, sweeps)
    del parameters["k"], parameters["method"]
    derived = matrix.source, "results"
    with (
        limited(resources.time_limit),
        Job("experiment", output, parameters, derived=derived, resources=resources, streams=False) as job,
    ):
        loaded = job.load_matrix(matrix)
        if "labels" not in loaded.contents:
            raise DataError(loaded.name, "no labels to draw classes by", "name them with --label-key")
        X, labels = loaded.contents["X"].load(), loaded.contents["labels"]
        experiment.check_plan(plan, X, labels)
        identity = identity_of({**parameters, "source": split_inner(matrix.source)[1]}, loaded.sha256)
        perform_trials(job, plan, X, labels, identity)


def perform_trials(job: Job, plan: Plan, X: Any, labels: Any, identity: str) -> None:
    """Run all trials that are not in the journal yet, then write the results."""
    from mccgr_cli.errors import DataError
    from mccgr_cli.files.container import Contents
    from mccgr_cli.files.journal import Journal, beside
    from mccgr_cli.workflow import experiment

    with Journal(beside(job.paths[0]), identity, job.output.overwrite) as journal:
        for name in [name for name, rows in journal.done.items() if not experiment.are_results(rows)]:
            del journal.done[name]
        trials, before = plan.trials(), list(journal.done.values())
        left = [trial for trial in trials if trial.name not in journal.done]
        invocation().leaves = f"finished runs are saved in {journal.path}; the same command continues"
        if before:
            job.reporter.note(f"continuing after {len(before)} of {len(trials)} trials")
        with job.workers(len(left)) as workers, job.reporter.comparing(plan, len(trials), before) as show:
            for number, rows in workers.as_completed(experiment.run_trial, left, (X, labels, plan), None):
                if rows is None:
                    what = f"the trial {left[number].name} ended its process each time it was tried"
                    fewer = "give fewer --jobs" if job.resources.scheduler is None else "use fewer workers"
                    raise DataError("worker processes", what, f"there may be too little memory; {fewer}")
                journal.add(left[number].name, rows)
                show(rows)
        rows = [row for trial in trials for row in journal.done[trial.name]]
        job.write(Contents("results", experiment.results_columns(rows), {"runs": plan.runs, "seed": plan.seed}))


def make_plan(comparison: Comparison, sweeps: Sweeps, settings: Settings, graph: GraphSettings) -> Plan:
    from mccgr_cli.workflow.experiment import Plan

    values: dict[str, Any] = asdict(sweeps)
    values |= {name: values[name] or (None,) for name in ("alpha", "theta", "neighbors")}
    return Plan(
        methods=comparison.methods,
        ks=comparison.ks,
        runs=comparison.runs,
        seed=settings.seed,
        settings=settings,
        graph=graph,
        restarts=comparison.cluster_restarts,
        **values,
    )
