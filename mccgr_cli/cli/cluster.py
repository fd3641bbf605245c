"""``mccgr cluster``"""

from __future__ import annotations

from typing import Any

import click

from mccgr_cli.cli import options


@click.command()
@click.argument("source", metavar="FACTORS")
@click.option("--k", type=click.IntRange(min=1), metavar="N", help="Number of clusters.  [default: of components]")
@click.option(
    "--assign",
    type=click.Choice(["kmeans", "max"]),
    default="kmeans",
    show_default=True,
    help="By k-means on the coefficients, or to the component with the largest coefficient.",
)
@click.option(
    "--restarts",
    type=click.IntRange(min=1),
    metavar="N",
    default=20,
    show_default=True,
    help="Run k-means so many times and keep the tightest clusters.",
)
@options.seed
@options.output
@options.verbosity
def command(**given: Any) -> None:
    """Cluster the samples by their coefficients W.

    FACTORS is a file made by factorize or transform, or - for standard input. Given a matrix instead, the
    samples themselves are clustered: the k-means baseline.

    \b
    Examples:
      mccgr cluster X.factors.h5
      mccgr cluster X.factors.h5 --assign max -o clusters.h5
      mccgr cluster X.h5 --k 5 -o baseline.h5
    """
    from mccgr_cli import stages
    from mccgr_cli.cli.files import Destination, with_provenance
    from mccgr_cli.cli.progress import Reporter
    from mccgr_cli.readers import load

    reporter = Reporter(given["quiet"], given["verbose"])
    destination = Destination(given["output"], given["source"], "clusters", given["overwrite"])
    loaded = load(given["source"], kinds=("factors", "clusters", "matrix"))
    contents = stages.cluster(
        loaded.contents, given["assign"], given["k"], given["restarts"], given["seed"], loaded.name
    )
    reporter.note(describe(contents["assignments"]))
    destination.write(with_provenance(contents, "cluster", given, [loaded]), reporter)


def describe(assignments: Any) -> str:
    import numpy as np

    ids, sizes = np.unique(assignments, return_counts=True)
    listed = " ".join(str(size) for size in sizes[:20]) + (" ..." if len(sizes) > 20 else "")
    return f"clusters: {len(ids)} of {len(assignments)} samples, sizes {listed}"
