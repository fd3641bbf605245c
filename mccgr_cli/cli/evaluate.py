"""``mccgr evaluate``"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from mccgr_cli.cli import options
from mccgr_cli.cli.help import GroupedOption
from mccgr_cli.cli.options import Output
from mccgr_cli.cli.progress import Reporter
from mccgr_cli.errors import one_line

if TYPE_CHECKING:
    from mccgr_cli.core.metrics import Scores


@options.command
@options.file_argument("sources", "CLUSTERS", nargs=-1)
@options.labels("CLUSTERS")
@options.output_format("table", "json", "csv")
@click.option(
    "--no-header",
    is_flag=True,
    cls=GroupedOption,
    help="With --format csv: leave out the first line, which names the columns.",
)
@options.gathered("output", Output, only=("quiet",))
def command(sources: tuple[str, ...], labels: str | None, style: str, no_header: bool, output: Output) -> None:
    """Compare clusters with the true classes.

    CLUSTERS is a file from cluster, predict or factorize, or the folder of mccgr run; without it, standard input is
    read. Factors are clustered first, as by 'mccgr cluster'.

    Prints the accuracy (clusters are matched with classes by the Hungarian algorithm), the normalized mutual
    information (NMI, divided by the larger entropy, as in the paper), the adjusted Rand index (ARI), the purity, and
    the number of samples of each class in each cluster. If CLUSTERS is from predict, a cluster keeps the class that it
    has among the old samples.

    json and csv print one line for each file. It has the scores, the file, the matrix that the history begins with, k,
    method, normalize, strength or alpha, seed, objective, iterations, seconds and converged. What is not known, or was
    not given, is null or empty.

    \b
    Examples:
      mccgr evaluate X.factors.clusters.h5
      mccgr evaluate clusters.h5 --labels classes.txt --format json
      mccgr factorize X.h5 --k 5 | mccgr evaluate
      mccgr cluster X.factors.h5 | mccgr evaluate --format csv
      mccgr evaluate run-*.h5 --format csv
    """
    if style != "csv":
        options.refuse_given(("no_header",), f"--format {style} has no header", "leave it out")
    evaluate(sources, labels, style, Reporter(output.quiet, output.verbose), header=not no_header)


@dataclass(frozen=True)
class Judged:
    """The scores of the clusters in a file, and how these clusters were made."""

    scores: Scores
    facts: dict[str, Any]

    @property
    def row(self) -> dict[str, Any]:
        return summary(self.scores) | self.facts


def evaluate(sources: Sequence[str], labels: str | None, style: str, reporter: Reporter, header: bool = True) -> None:
    """Print the scores of clusters files."""
    from mccgr_cli.cli.job import show

    results = [judge(source, labels, reporter.note) for source in sources]
    show(as_csv(results, header) if style == "csv" else FORMATS[style](results))


def judge(source: str, labels: str | None, note: Callable[[str], None]) -> Judged:
    from mccgr_cli.cli.cluster import clustered
    from mccgr_cli.core import metrics
    from mccgr_cli.errors import DataError
    from mccgr_cli.files.readers import clusters_file, load
    from mccgr_cli.files.readers.labels import true_classes
    from mccgr_cli.output.run_facts import run_facts
    from mccgr_cli.workflow.checkpoints import as_factors, with_checkpoints

    kinds = ("clusters", "factors")
    loaded = as_factors(load(clusters_file(source), kinds=with_checkpoints(kinds)), kinds)
    for line in loaded.notes:
        note(line)
    loaded = clustered(loaded, note)
    truth = true_classes(loaded, labels, note)
    if truth is None:
        raise DataError(loaded.name, "no labels to compare the clusters with", "give them with --labels FILE")
    known = loaded.contents.correspondence()
    if metrics.applies(known, truth):
        note(f"{loaded.name}: the class of each cluster is that of the samples it was learnt from")
    scores = metrics.evaluate(truth, loaded.contents["assignments"], known)
    return Judged(scores, run_facts(loaded.contents, loaded.name))


def summary(scores: Scores) -> dict[str, Any]:
    return {
        "accuracy": scores.accuracy,
        "nmi": scores.nmi,
        "ari": scores.ari,
        "purity": scores.purity,
        "samples": int(scores.confusion.sum()),
        "classes": len(scores.classes),
        "clusters": len(scores.clusters),
    }


def as_json(results: Sequence[Judged]) -> str:
    """One line for each result."""
    return "\n".join(json.dumps({**one.row, "confusion": confusion(one.scores)}) for one in results)


def confusion(scores: Scores) -> dict[str, Any]:
    return {
        "classes": scores.classes,
        "clusters": scores.clusters,
        "matches": scores.matches,
        "counts": scores.confusion.tolist(),
    }


def as_csv(results: Sequence[Judged], header: bool) -> str:
    from mccgr_cli.cli.tables import csv_text

    return csv_text(results[0].row if header else None, [one.row.values() for one in results])


def as_tables(results: Sequence[Judged]) -> str:
    """A table for each result, below its name if there are several."""
    names = [f"{one_line(one.facts['file'])}\n" if len(results) > 1 else "" for one in results]
    return "\n\n".join(name + as_table(one.scores) for name, one in zip(names, results, strict=True))


def as_table(scores: Scores) -> str:
    from mccgr_cli.cli.tables import aligned

    figures = [
        [name, f"{value:.4f}" if isinstance(value, float) else str(value)] for name, value in summary(scores).items()
    ]
    counts = [
        [name, *(str(count) for count in row)]
        for name, row in zip(scores.classes, scores.confusion.tolist(), strict=True)
    ]
    header = ["class \\ cluster", *(str(cluster) for cluster in scores.clusters)]
    return aligned(figures) + "\n\n" + aligned([header, *counts])


FORMATS = {"table": as_tables, "json": as_json}
