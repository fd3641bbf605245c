"""``mccgr rank``"""

from __future__ import annotations

import csv
import io
import json
import math
from typing import TYPE_CHECKING, Any

import click

from mccgr_cli.cli import computing, options, types
from mccgr_cli.settings import NORMALIZATION, GraphSettings, Settings

if TYPE_CHECKING:
    from mccgr_cli.files.readers import Loaded
    from mccgr_cli.workflow.ranking import Ranking

HEADINGS = {
    "k": "k",
    "runs": "runs",
    "reproducibility": "least cluster",
    "reproducibility_error": "±",
    "agreement": "agreement",
    "cophenetic": "cophenetic",
    "dispersion": "dispersion",
    "heldout": "held-out error",
    "heldout_error": "±",
    "silhouette": "silhouette",
}


@click.command()
@options.matrix_input("MATRIX")
@computing.preset
@click.option(
    "--k",
    "ks",
    type=types.Numbers(min=1, max=10_000),
    metavar="N,...",
    required=True,
    help="Numbers of components to try: 2-15 or 2,4,8. What 1 predicts is worked out in any case.",
)
@click.option(
    "--runs",
    type=types.Whole(min=2, max=10_000),
    metavar="N",
    default=20,
    show_default=True,
    help="Factorizations for each --k, each of other samples.",
)
@click.option(
    "--share",
    type=types.Number(min=0.1, max=1),
    metavar="SHARE",
    default=0.8,
    show_default=True,
    help="Of the samples that each run draws; at 1 runs differ only by their starts.",
)
@click.option(
    "--samples",
    type=types.Whole(min=2),
    metavar="N",
    default=3000,
    show_default=True,
    help="Of more samples than this, use so many, drawn at random.",
)
@computing.objective
@computing.normalization(NORMALIZATION)
@computing.start(files=False)
@computing.course
@computing.graph
@computing.graph_features
@options.jobs
@options.scheduler
@options.seed
@options.output_format("table", "json", "csv", "k")
@click.option("-o", "--output", type=types.FILE, metavar="FILE", help="Keep the criteria in FILE too; - is stdout.")
@click.option("--overwrite", is_flag=True, help="Replace the output if it exists.")
@options.verbosity
def command(**given: Any) -> None:
    """Find out how many components a matrix has.

    For every --k: how well clusters are found again when some samples are left out (least cluster: of the cluster
    that is found worst; agreement: adjusted Rand index of two runs; cophenetic correlation and dispersion of the
    consensus), how well entries of MATRIX that are hidden from the fit are predicted (held-out error, and the standard
    error of its difference from the least), and the silhouette of the clusters. Runs that are copies of others count
    once.

    Prediction says which k are possible: those that predict most of what can be predicted, and no worse than others.
    Of these, the k whose clusters are most reproducible is recommended; 1, where no k predicts better than that.

    \b
    Examples:
      mccgr rank X.h5 --k 2-15
      mccgr rank X.h5 --k 2-15 -o ranks.h5 && mccgr plot ranks.h5 -o ranks.svg
      mccgr factorize X.h5 --k "$(mccgr rank X.h5 --k 2-15 --format k)"
    """
    from mccgr_cli.blocks.rows import normalize
    from mccgr_cli.cli.job import Job, show
    from mccgr_cli.workflow import ranking, stages

    given = options.told_once(given)
    plan = make_plan(given)
    job = Job(given, stage=None)
    matrix: Loaded = job.load(given["source"], ("matrix",))
    X = stages.prepare(matrix, "none", "float64")
    whole = X.shape[0]
    X = normalize(ranking.draw_samples(X, given["samples"], given["seed"]), given["normalize"])
    ranking.check(plan, X.shape)
    if X.shape[0] < whole:
        job.reporter.note(f"{X.shape[0]} of {whole} samples are used, drawn at random (--samples)")
    pieces = plan.pieces()
    outcomes: list[Any] = [None] * len(pieces)
    with job.crew(len(pieces)) as workers, job.reporter.counting("pieces") as count:
        count("ranking", 0, len(pieces))
        for done, (number, outcome) in enumerate(workers.as_done(ranking.perform, pieces, (X, plan), None), 1):
            outcomes[number] = outcome
            count("ranking", done, len(pieces))
    found = ranking.conclude(pieces, outcomes, X, plan)
    for k, why in sorted(found.failures.items()):
        job.reporter.note(f"k={k}: a run failed: {why}")
    if not job.to_stdout:
        show(FORMATS[given["style"]](found))
    if given["output"] is not None:
        job.write(ranking.ranks_contents(found, plan, X.shape[0], given["normalize"]))


def make_plan(given: dict[str, Any]) -> Any:
    from mccgr_cli.workflow.ranking import Plan

    settings = options.chosen(Settings, {**given, "k": 1})
    plan = {name: given[name] for name in ("ks", "runs", "share", "seed")}
    return Plan(settings=settings, graph=options.chosen(GraphSettings, given), **plan)


def as_rows(found: Ranking) -> list[dict[str, Any]]:
    """By k; what is not known is None."""
    values = [column.tolist() for column in found.columns.values()]
    rows = [dict(zip(found.columns, row, strict=True)) for row in zip(*values, strict=True)]
    return [{name: None if math.isnan(value) else value for name, value in row.items()} for row in rows]


def as_table(found: Ranking) -> str:
    from mccgr_cli.cli.tables import aligned

    best = found.recommendation
    rows = [list(HEADINGS.values())]
    for row in as_rows(found):
        cells = [written(value) for value in row.values()]
        rows.append([f"{cells[0]}{' *' if row['k'] == best.k else ''}", *cells[1:]])
    return f"{aligned(rows)}\n\nk = {best.k}: {best.reasons}"


def written(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:.3f}" if isinstance(value, float) else str(value)


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
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([*found.columns, "recommended"])
    for row in as_rows(found):
        shown = ["" if value is None else value for value in row.values()]
        writer.writerow([*shown, int(row["k"] == found.recommendation.k)])
    return text.getvalue().rstrip("\n")


def as_number(found: Ranking) -> str:
    return str(found.recommendation.k)


FORMATS = {"table": as_table, "json": as_json, "csv": as_csv, "k": as_number}
