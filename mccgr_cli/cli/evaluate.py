"""``mccgr evaluate``"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from mccgr_cli.cli import options

if TYPE_CHECKING:
    from mccgr_cli.core.metrics import Scores
    from mccgr_cli.files.readers import Loaded


def true_classes(loaded: Loaded, labels: str | None) -> list[str] | None:
    """The class of every sample from the file of --labels, or else from the file of clusters; None without labels."""
    from mccgr_cli.errors import DataError
    from mccgr_cli.files.readers import load_labels

    count = len(loaded.contents["assignments"])
    truth = load_labels(labels) if labels is not None else loaded.contents.labels_as_text()
    if truth is not None and len(truth) != count:
        what = f"{len(truth)} labels for {count} samples"
        raise DataError(labels or loaded.name, what, "give one label for each sample")
    return truth


@options.command
@options.file_argument("source", "CLUSTERS")
@options.labels("CLUSTERS")
@options.output_format("table", "json", "csv")
def command(source: str, labels: str | None, style: str) -> None:
    """Compare clusters with the true classes.

    CLUSTERS is a file from cluster, predict or factorize, or the folder of mccgr run; without it, standard input is
    read. Factors are clustered first, as by 'mccgr cluster'.

    Prints the accuracy (clusters are matched with classes by the Hungarian algorithm), the normalized mutual
    information (NMI, divided by the larger entropy, as in the paper), the adjusted Rand index (ARI), the purity, and
    the number of samples of each class in each cluster. If CLUSTERS is from predict, a cluster keeps the class that it
    has among the old samples.

    \b
    Examples:
      mccgr evaluate X.factors.clusters.h5
      mccgr evaluate clusters.h5 --labels classes.txt --format json
      mccgr factorize X.h5 --k 5 | mccgr evaluate
      mccgr cluster X.factors.h5 | mccgr evaluate --format csv
    """
    evaluate(source, labels, style)


def evaluate(source: str, labels: str | None, style: str) -> None:
    """Print the scores of a clusters file."""
    from mccgr_cli.cli.cluster import clustered
    from mccgr_cli.cli.job import show
    from mccgr_cli.cli.progress import say
    from mccgr_cli.core import metrics
    from mccgr_cli.errors import DataError
    from mccgr_cli.files.readers import clusters_file
    from mccgr_cli.workflow.checkpoints import load_with_checkpoints

    loaded = clustered(load_with_checkpoints(clusters_file(source), ("clusters", "factors"), say), say)
    truth = true_classes(loaded, labels)
    if truth is None:
        raise DataError(loaded.name, "no labels to compare the clusters with", "give them with --labels FILE")
    known = loaded.contents.correspondence()
    if metrics.applies(known, truth):
        say(f"{loaded.name}: the class of each cluster is that of the samples it was learnt from")
    show(FORMATS[style](metrics.evaluate(truth, loaded.contents["assignments"], known)))


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


def as_json(scores: Scores) -> str:
    table = {
        "classes": scores.classes,
        "clusters": scores.clusters,
        "matches": scores.matches,
        "counts": scores.confusion.tolist(),
    }
    return json.dumps({**summary(scores), "confusion": table})


def as_csv(scores: Scores) -> str:
    from mccgr_cli.cli.tables import csv_text

    return csv_text(summary(scores), [summary(scores).values()])


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


FORMATS = {"table": as_table, "json": as_json, "csv": as_csv}
