"""``mccgr cluster``"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mccgr_cli.cli import options
from mccgr_cli.cli.options import MatrixInput, Output
from mccgr_cli.settings import NORMALIZATIONS, ClusterSettings, RowSettings

if TYPE_CHECKING:
    from mccgr_cli.cli.job import Caller

ROWS = {
    "default": "none",
    "values": NORMALIZATIONS,
    "help": "Normalization of each row. none: values as they are. l1: sum 1. l2: length 1. sqrt: square root of every "
    "value. hellinger: l1, then sqrt. log: mean 10, then log(1 + x).",
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
        contents = stages.cluster(loaded, normalize, clusters.assign, clusters.k, clusters.restarts, clusters.seed)
        job.reporter.note(describe(contents["assignments"]))
        note = doubt(contents["assignments"], contents.attributes["cluster_k"])
        if note is not None:
            job.reporter.note(note)
        job.write(contents)


def describe(assignments: Any) -> str:
    import numpy as np

    ids, sizes = np.unique(assignments, return_counts=True)
    listed = " ".join(str(size) for size in sizes[:20]) + (" ..." if len(sizes) > 20 else "")
    return f"clusters: {len(ids)} of {len(assignments)} samples, sizes {listed}"


def doubt(assignments: Any, k: int) -> str | None:
    """A note about a cluster that is too large."""
    from mccgr_cli.core.parts import oversized

    largest = oversized(assignments, k)
    if largest is None:
        return None
    share = (assignments == largest).mean()
    return f"doubt: cluster {largest} has {share:.0%} of all samples; try another --k or --normalize"
