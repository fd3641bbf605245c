"""``mccgr rank``"""

from __future__ import annotations

import json
import math
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from mccgr_cli.catalog import RANK_DECIMALS, RANK_HEADINGS
from mccgr_cli.cli import options, types
from mccgr_cli.cli.group import invocation
from mccgr_cli.cli.options import MatrixInput, Output, Resources
from mccgr_cli.cli.time_limit import limited
from mccgr_cli.fields import Bounds, basic_option, whole
from mccgr_cli.settings import GraphSettings, RowSettings, Settings
from mccgr_cli.system.phases import phase

if TYPE_CHECKING:
    from mccgr_cli.blocks.protocol import Matrix
    from mccgr_cli.cli.job import Caller, Job
    from mccgr_cli.files.journal import Journal
    from mccgr_cli.files.readers import Loaded
    from mccgr_cli.workflow.ranking import Plan, Ranking


@dataclass(frozen=True)
class Trials:
    """The numbers of components to try, and how often."""

    ks: tuple[int, ...] | None = basic_option(
        None,
        "Numbers of components to try: 2-15 or 2,4,8. The prediction of k = 1 is always computed.",
        flags=("-k", "--k"),
        type=types.Numbers(min=1, max=10_000),
        default_text="2-10,12,15,20,25,30,40,50, but no number above 5 that is more than a tenth of the samples",
    )
    runs: int = basic_option(
        20, "Factorizations for each --k, each on another random part of the samples.", values=whole(2, 10_000)
    )
    share: float = basic_option(
        0.8,
        "Fraction of the samples that each run draws. At 1, runs differ only by their starts.",
        values=Bounds(0.1, 1),
        metavar="FRACTION",
    )
    samples: int = basic_option(
        3000, "Maximum number of samples. If there are more, this many are drawn at random.", values=whole(2)
    )


KEPT = {
    "path": {
        "help": "Also save the criteria in FILE (HDF5), for 'mccgr plot'. -: write HDF5 to standard output instead of "
        "the table.",
        "default_text": "",
    }
}


@options.command
@options.gathered("trials", Trials)
@options.gathered("output", Output, changed=KEPT)
@options.output_format("table", "json", "csv", "k")
@options.gathered("settings", Settings, k=1)
@options.gathered("rows", RowSettings, only=("normalize",))
@options.preset
@options.matrix("MATRIX")
@options.gathered("graph", GraphSettings)
@options.resources("jobs", "memory", "scheduler", "time_limit")
def command(
    matrix: MatrixInput,
    trials: Trials,
    settings: Settings,
    graph: GraphSettings,
    rows: RowSettings,
    style: str,
    resources: Resources,
    output: Output,
) -> None:
    """Recommend a number of components for a matrix.

    For every --k the table has these columns. least cluster: stability of the least stable cluster, when some samples
    are left out. agreement: adjusted Rand index between runs. cophenetic, dispersion: how clearly the runs agree on
    which samples belong together. held-out error: error of the prediction of hidden entries of MATRIX. silhouette:
    separation of the clusters. The columns ± have standard errors. Runs that are identical count as one run.

    The recommendation has two steps. First, the held-out error decides which k are possible: those that predict almost
    as well as the best k. Second, the column 'least cluster' decides among them: the k with the highest value is
    recommended. If no k predicts better than k = 1, the recommendation is k = 1: the data show no
    structure.

    With -o FILE, finished tasks are saved in FILE.part. After an interruption, give the same command again: it
    continues. The result does not depend on the interruption, --jobs or --scheduler.

    \b
    Examples:
      mccgr rank X.h5
      mccgr rank X.h5 --k 2-15
      mccgr rank X.h5 --k 2-15 -o ranks.h5 && mccgr plot ranks.h5 -o ranks.svg
      mccgr factorize X.h5 --k "$(mccgr rank X.h5 --k 2-15 --format k)"
    """
    with limited(resources.time_limit):
        rank(matrix, trials, settings, graph, rows.normalize, style, resources, output)


def rank(
    matrix: MatrixInput,
    trials: Trials,
    settings: Settings,
    graph: GraphSettings,
    normalize: str,
    style: str | None,
    resources: Resources,
    output: Output,
    caller: Caller | None = None,
) -> None:
    """Recommend a number of components; print the criteria in this style, and write them if there is an output."""
    from mccgr_cli.cli.job import Job, show
    from mccgr_cli.files.journal import identity_of
    from mccgr_cli.files.readers import split_inner
    from mccgr_cli.workflow import ranking
    from mccgr_cli.workflow.texts import normalization_for

    parameters = options.parameters(matrix, settings, graph, trials, normalize=normalize)
    del parameters["k"]
    with Job("rank", output, parameters, resources=resources, caller=caller) as job:
        loaded = job.load_matrix(matrix)
        normalize = normalization_for(loaded, normalize)
        whole = loaded.contents["X"].shape[0]
        X = load_samples(job, loaded, trials.samples, settings.seed)
        ks = trials.ks or ranking.usual_ks(X.shape, trials.share)
        plan = ranking.Plan(ks, trials.runs, trials.share, settings.seed, settings, graph)
        ranking.check_plan(plan, X.shape)
        job.parameters["ks"] = ks
        identity = identity_of({**job.parameters, "source": split_inner(matrix.source)[1]}, loaded.sha256)
        with open_journal(job, identity) as journal:
            X, plan, settled = ranking.settled(X, plan, normalize)
            if settled.choice is not None:
                job.reporter.note(f"{settled.choice}, for k = {plan.settings.k}")
            if X.shape[0] < whole:
                job.reporter.note(f"{X.shape[0]} of {whole} samples are used, drawn at random (--samples)")
            found = do_tasks(job, X, plan, journal)
            if style is not None and not job.to_stdout:
                show(FORMATS[style](found))
            if output.path is not None:
                job.write(ranking.ranks_contents(found, plan, X.shape[0], settled.normalize))


def load_samples(job: Job, loaded: Loaded, most: int, seed: int) -> Matrix:
    """The samples to rank by: all, or ``most`` of more. The others stay in the file, if it is HDF5 by rows."""
    from mccgr_cli.blocks.from_file import blocks_of
    from mccgr_cli.system.processes import usable_cores
    from mccgr_cli.workflow import ranking
    from mccgr_cli.workflow.ranking.room import Room

    raw = loaded.contents.datasets.pop("X").prepared_as("none", "float64")
    resources, used = job.resources, min(raw.shape[0], most)
    if resources.memory is not None:
        room = Room(resources.memory, raw.size)
        room.check(used, "" if job.caller is None else "give --k")
        wanted = usable_cores() if resources.jobs is None else resources.jobs
        jobs = room.jobs(used, wanted)
        if resources.scheduler is None and jobs < wanted:
            job.resources = replace(resources, jobs=jobs)
            job.reporter.note(f"--jobs {jobs}: more processes do not fit into --memory")
        if not raw.in_file and raw.size.bytes > resources.memory:
            job.reporter.note(f"{loaded.name}: loaded whole; only HDF5 by rows can stay on disk")
    return raw.load() if used == raw.shape[0] else ranking.draw_samples(blocks_of(raw.stream()), used, seed)


def open_journal(job: Job, identity: str) -> AbstractContextManager[Journal | None]:
    """Where finished tasks are saved: beside the output, if that is a file."""
    from mccgr_cli.files.journal import Journal, beside

    if not job.paths or job.to_stdout:
        return nullcontext()
    return Journal(beside(job.paths[0]), identity, job.output.overwrite)


def do_tasks(job: Job, X: Matrix, plan: Plan, journal: Journal | None) -> Ranking:
    """The criteria for every k, computed by the workers of the job. Tasks in the journal are not repeated."""
    from mccgr_cli.workflow import ranking
    from mccgr_cli.workflow.ranking import saved

    tasks, outcomes = plan.tasks(), {}
    if journal is None:
        invocation().leaves = "nothing was written; -o FILE saves finished tasks"
    else:
        invocation().leaves = f"finished tasks are saved in {journal.path}; the same command continues"
        found = {task: saved.from_json(task, journal.done.get(task.name), X.shape, plan) for task in tasks}
        outcomes = {task: outcome for task, outcome in found.items() if outcome is not None}
    left = [task for task in tasks if task not in outcomes]
    if outcomes:
        job.reporter.note(f"continuing after {len(outcomes)} of {len(tasks)} tasks")
    with job.workers(len(left)) as workers, job.reporter.counting("tasks") as count:
        count("ranking", len(outcomes), len(tasks))
        for number, outcome in workers.as_completed(ranking.run_task, left, (X, plan), None):
            outcomes[left[number]] = outcome
            if journal is not None and (value := saved.to_json(outcome)) is not None:
                journal.add(left[number].name, value)
            count("ranking", len(outcomes), len(tasks))
    with phase("comparing the runs"):
        ranked = ranking.combine(tasks, [outcomes[task] for task in tasks], X, plan)
    for k, why in sorted(ranked.failures.items()):
        job.reporter.note(f"k={k}: a run failed: {why}")
    return ranked


def as_rows(found: Ranking) -> list[dict[str, Any]]:
    """One row for each k; unknown values are None."""
    values = [column.tolist() for column in found.columns.values()]
    rows = [dict(zip(found.columns, row, strict=True)) for row in zip(*values, strict=True)]
    return [{name: None if math.isnan(value) else value for name, value in row.items()} for row in rows]


def as_table(found: Ranking) -> str:
    from mccgr_cli.cli.tables import aligned

    best = found.recommendation
    rows = [list(RANK_HEADINGS.values())]
    for row in as_rows(found):
        cells = [format_value(value) for value in row.values()]
        rows.append([f"{cells[0]}{' *' if row['k'] == best.k else ''}", *cells[1:]])
    return f"{aligned(rows)}\n\nk = {best.k}: {best.reasons}"


def format_value(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:.{RANK_DECIMALS}f}" if isinstance(value, float) else str(value)


def as_json(found: Ranking) -> str:
    best = found.recommendation
    about = {
        "recommended": best.k,
        "reasons": best.reasons,
        "firm": best.firm,
        "by_stability": best.by_stability or None,
        "by_heldout": best.by_heldout or None,
        "by_silhouette": best.by_silhouette or None,
        "bracket": list(best.bracket) if best.bracket[1] else None,
    }
    return json.dumps({**about, "criteria": as_rows(found)}, allow_nan=False)


def as_csv(found: Ranking) -> str:
    from mccgr_cli.cli.tables import csv_text

    rows = [
        [*("" if value is None else value for value in row.values()), int(row["k"] == found.recommendation.k)]
        for row in as_rows(found)
    ]
    return csv_text([*found.columns, "recommended"], rows)


def as_number(found: Ranking) -> str:
    return str(found.recommendation.k)


FORMATS = {"table": as_table, "json": as_json, "csv": as_csv, "k": as_number}
