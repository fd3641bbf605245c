"""``mccgr table``"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click

from mccgr_cli.catalog import SCORES
from mccgr_cli.cli import options, types
from mccgr_cli.cli.help import GroupedOption

if TYPE_CHECKING:
    from mccgr_cli.workflow.comparison import Comparison


@options.command
@options.file_argument("source", "RESULTS")
@click.option(
    "--score",
    "scores",
    cls=GroupedOption,
    type=types.Words(SCORES),
    default="accuracy,nmi",
    show_default=True,
    help=f"Scores to print, one table for each: {', '.join(SCORES)}.",
)
@click.option(
    "--against",
    cls=GroupedOption,
    metavar="NAME",
    default_text="mccgr, if it is in RESULTS",
    help="Test all other methods against this one.",
)
@options.output_format("table", "csv", "json", "markdown", "latex")
def command(source: str, scores: tuple[str, ...], against: str | None, style: str) -> None:
    """Print the results of an experiment as a table.

    One row for each number of classes, one column for each method. A cell has the mean and the standard deviation over
    the runs; the best mean of a row is marked. Below the cells: the mean rank of each method (1 is best), and a
    p-value for the difference between this method and the method that --against names (Wilcoxon signed-rank test over
    all runs, with Holm's correction).

    \b
    Examples:
      mccgr table results.h5
      mccgr table results.h5 --score nmi --format latex
      mccgr table results.h5 --against grnmf --format csv
    """
    from mccgr_cli.cli.job import show
    from mccgr_cli.files.readers import load
    from mccgr_cli.workflow.comparison import choose_reference, compare

    loaded = load(source, kinds=("results",))
    tables = [compare(loaded.contents.datasets, score, loaded.name) for score in scores]
    reference = choose_reference(tables[0].variants, against)
    if style == "json":
        show(json.dumps([as_object(table, reference) for table in tables]))
    elif style == "csv":
        show(as_csv(tables, reference))
    else:
        show("\n\n".join(FORMATS[style](table, reference) for table in tables))


def cells(table: Comparison) -> list[list[tuple[str, str, bool]]]:
    """Mean, standard deviation and whether it is the best mean, for every k and method."""
    return [
        [(f"{mean:.3f}", f"{deviation:.3f}", bool(best)) for mean, deviation, best in zip(*row, strict=True)]
        for row in zip(table.means, table.deviations, table.best(), strict=True)
    ]


def foot(table: Comparison, reference: str | None) -> list[tuple[str, list[str]]]:
    """Lines below the cells: means, ranks, p-values."""
    lines = [("mean", [f"{mean:.3f}" for mean in table.means.mean(axis=0)])]
    lines.append(("mean rank", [f"{rank:.2f}" for rank in table.mean_ranks()]))
    if reference is not None and len(table.variants) > 1:
        tested = table.p_values(reference)
        lines.append((f"p against {reference}", [format_p(tested.get(name)) for name in table.variants]))
    return lines


def format_p(p_value: float | None) -> str:
    if p_value is None:
        return ""
    return "<.001" if p_value < 0.001 else f"{p_value:.3f}"


def as_table(table: Comparison, reference: str | None) -> str:
    from mccgr_cli.cli.tables import aligned

    rows = [[table.score, *table.variants]]
    for k, row in zip(table.ks, cells(table), strict=True):
        rows.append([f"k={k}", *(f"{'*' if best else ''}{mean} ±{deviation}" for mean, deviation, best in row)])
    rows += [[name, *values] for name, values in foot(table, reference)]
    return f"{aligned(rows)}\n* best of its row; {describe_runs(table)}"


def describe_runs(table: Comparison) -> str:
    numbers = [len(runs) for runs in table.runs]
    ends = dict.fromkeys((min(numbers), max(numbers)))
    return f"mean and standard deviation of {' to '.join(map(str, ends))} {'run' if max(ends) == 1 else 'runs'}"


def as_markdown(table: Comparison, reference: str | None) -> str:
    lines = [f"| {table.score} | {' | '.join(table.variants)} |", "|---" * (len(table.variants) + 1) + "|"]
    for k, row in zip(table.ks, cells(table), strict=True):
        marked = (f"{f'**{mean}**' if best else mean} ± {deviation}" for mean, deviation, best in row)
        lines.append(f"| {k} | {' | '.join(marked)} |")
    lines += [f"| {name} | {' | '.join(values)} |" for name, values in foot(table, reference)]
    return "\n".join(lines)


def as_latex(table: Comparison, reference: str | None) -> str:
    lines = [rf"\begin{{tabular}}{{l{'c' * len(table.variants)}}}", r"\hline"]
    lines.append(f"$K$ & {' & '.join(map(escape_latex, table.variants))} " + r"\\ \hline")
    for k, row in zip(table.ks, cells(table), strict=True):
        marked = (
            (r"\textbf{" + mean + "}" if best else mean) + rf" $\pm$ {deviation}" for mean, deviation, best in row
        )
        lines.append(f"{k} & {' & '.join(marked)} " + r"\\")
    lines.append(r"\hline")
    for name, values in foot(table, reference):
        shown = (f"${value}$" if value.startswith("<") else value for value in values)
        lines.append(f"{escape_latex(name)} & {' & '.join(shown)} " + r"\\")
    lines += [r"\hline", r"\end{tabular}"]
    return f"% {table.score}: {describe_runs(table)}\n" + "\n".join(lines)


def escape_latex(text: str) -> str:
    return text.replace("_", r"\_").replace("%", r"\%")


def as_object(table: Comparison, reference: str | None) -> dict[str, Any]:
    return {
        "score": table.score,
        "k": table.ks,
        "methods": table.variants,
        "runs": [len(runs) for runs in table.runs],
        "mean": table.means.tolist(),
        "deviation": table.deviations.tolist(),
        "mean_rank": table.mean_ranks().tolist(),
        "against": reference,
        "p": table.p_values(reference) if reference is not None else {},
    }


def as_csv(tables: list[Comparison], reference: str | None) -> str:
    """One line for every score, k and method."""
    from mccgr_cli.cli.tables import csv_text

    rows: list[list[object]] = []
    for table in tables:
        tested = table.p_values(reference) if reference is not None else {}
        for k, row, runs in zip(table.ks, cells(table), table.runs, strict=True):
            for name, (mean, deviation, best) in zip(table.variants, row, strict=True):
                rows.append([table.score, k, name, mean, deviation, len(runs), int(best), tested.get(name, "")])
    return csv_text(["score", "k", "method", "mean", "deviation", "runs", "best", "p"], rows)


FORMATS = {"table": as_table, "markdown": as_markdown, "latex": as_latex}
