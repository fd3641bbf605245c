"""``mccgr cluster``"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from mccgr_cli.cli import options
from mccgr_cli.cli.options import MatrixInput, Output
from mccgr_cli.settings import NORMALIZATIONS, ClusterSettings, RowSettings

if TYPE_CHECKING:
    from collections.abc import Callable

    from mccgr_cli.cli.job import Caller
    from mccgr_cli.files.container import Contents
    from mccgr_cli.files.readers import Loaded

ROWS = {
    "default": "none",
    "values": NORMALIZATIONS,
    "help": "Normalization of each row. none: values as they are. l1: sum 1. l2: length 1. sqrt: square root of every "
    "value. hellinger: l1, then sqrt. log: mean 10, then log(1 + x). tfidf: for word counts; repeated words and words "
    "of many texts count less, then l2.",
}


@options.command
@options.gathered("clusters", ClusterSettings)
@options.output
@options.matrix("FACTORS")
@options.gathered("rows", RowSettings, only=("normalize",), changed={"normalize": ROWS})
def command(matrix: MatrixInput, clusters: ClusterSettings, rows: RowSettings, output: Output) -> None:
    """Cluster the samples by their coefficients W.

    FACTORS is a file from factorize or transform, or a checkpoint of factorize; without it, standard input is read. You
    can also give a matrix: then k-means clusters its rows, as a baseline to compare with, and --k is required.
    --transpose, --label-key and --normalize are for matrices only. For a fair comparison, give the --normalize that
    factorize used ('mccgr info' shows it): the default of this command is none.

    \b
    Examples:
      mccgr cluster X.factors.h5
      mccgr cluster X.factors.h5 --assign max -o clusters.h5
      mccgr cluster X.h5 --k 5 --normalize sqrt -o baseline.h5
      mccgr factorize X.h5 --k 5 | mccgr cluster -o clusters.h5
    """
    cluster(matrix, clusters, rows.normalize, output)


def cluster(
    matrix: MatrixInput, clusters: ClusterSettings, normalize: str, output: Output, caller: Caller | None = None
) -> None:
    """Cluster the samples of a file and write a clusters file."""
    from mccgr_cli.cli.job import Job
    from mccgr_cli.workflow import stages

    parameters = options.parameters(matrix, clusters, normalize=normalize)
    with Job("cluster", output, parameters, derived=(matrix.source, "clusters"), caller=caller) as job:
        loaded = job.load(matrix.source, ("factors", "clusters", "matrix"), matrix)
        contents = stages.cluster(loaded, normalize, clusters)
        for line in describe(contents):
            job.reporter.note(line)
        job.write(contents)


def clustered(loaded: Loaded, note: Callable[[str], None]) -> Loaded:
    """Clusters of factors, as ``mccgr cluster`` makes them by default; a file that has clusters already stays."""
    from mccgr_cli.workflow import stages

    if loaded.contents.kind == "clusters":
        return loaded
    contents = stages.cluster(loaded, "none", ClusterSettings())
    first, *doubts = describe(contents)
    for line in (f"{loaded.name} holds factors, clustered first as by 'mccgr cluster'; {first}", *doubts):
        note(line)
    return replace(loaded, contents=replace(contents, provenance=loaded.contents.provenance))


def describe(clusters: Contents) -> list[str]:
    """A line with the number and sizes of the clusters, and one if a cluster is too large."""
    assignments = clusters["assignments"]
    doubtful = doubt(assignments, clusters.attributes["cluster_k"])
    return [sizes(assignments), *([] if doubtful is None else [doubtful])]


def sizes(assignments: Any) -> str:
    import numpy as np

    ids, counts = np.unique(assignments, return_counts=True)
    listed = " ".join(str(count) for count in counts[:20]) + (" ..." if len(ids) > 20 else "")
    return f"clusters: {len(ids)} of {len(assignments)} samples, sizes {listed}"


def doubt(assignments: Any, k: int) -> str | None:
    """A note about a cluster that is too large."""
    from mccgr_cli.core.parts import oversized

    largest = oversized(assignments, k)
    if largest is None:
        return None
    share = (assignments == largest).mean()
    return f"doubt: cluster {largest} has {share:.0%} of all samples; try another --k or --normalize"
