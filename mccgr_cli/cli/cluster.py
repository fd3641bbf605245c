"""``mccgr cluster``"""

from __future__ import annotations

from typing import Any

import click

from mccgr_cli.cli import computing, options, types
from mccgr_cli.settings import CLUSTER_RESTARTS


@click.command()
@options.matrix_input("FACTORS")
@click.option("--k", type=types.number("k"), metavar="N", help="Number of clusters.  [default: the components]")
@computing.assignment
@computing.kmeans_restarts("--restarts", CLUSTER_RESTARTS)
@computing.normalization("none")
@options.seed
@options.output
@options.verbosity
def command(**given: Any) -> None:
    """Cluster the samples by their coefficients W.

    FACTORS is a file made by factorize or transform, or - for standard input. Given a matrix instead, the
    samples themselves are clustered: the k-means baseline. --transpose, --label-key and --normalize are for
    matrices.

    \b
    Examples:
      mccgr cluster X.factors.h5
      mccgr cluster X.factors.h5 --assign max -o clusters.h5
      mccgr cluster X.h5 --k 5 --normalize sqrt -o baseline.h5
    """
    from mccgr_cli.cli.job import Job
    from mccgr_cli.workflow import stages

    job = Job(given, "clusters")
    loaded = job.load(given["source"], ("factors", "clusters", "matrix"))
    chosen = (given[name] for name in ("normalize", "assign", "k", "restarts", "seed"))
    contents = stages.cluster(loaded, *chosen)
    job.reporter.note(describe(contents["assignments"]))
    job.write(contents)


def describe(assignments: Any) -> str:
    import numpy as np

    ids, sizes = np.unique(assignments, return_counts=True)
    listed = " ".join(str(size) for size in sizes[:20]) + (" ..." if len(sizes) > 20 else "")
    return f"clusters: {len(ids)} of {len(assignments)} samples, sizes {listed}"
