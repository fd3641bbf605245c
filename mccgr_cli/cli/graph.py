"""``mccgr graph``"""

from __future__ import annotations

from typing import Any

import click

from mccgr_cli.cli import computing, options
from mccgr_cli.settings import GraphSettings


@click.command()
@options.matrix_input("MATRIX")
@computing.graph
@computing.preprocessing
@options.memory
@options.scheduler
@options.output
@options.verbosity
def command(**given: Any) -> None:
    """Build the nearest-neighbour graph of the samples.

    The file can be given to several runs of 'mccgr factorize --graph'. MATRIX is anything that factorize
    reads; give the same --normalize to both.

    \b
    Examples:
      mccgr graph X.h5 --neighbors 5 -o A.h5
      mccgr graph X.h5 --weight heat --normalize l2 -o A.h5
      mccgr factorize X.h5 --k 5 --graph "$(mccgr graph X.h5)"
    """
    from mccgr_cli.cli.job import Job
    from mccgr_cli.core.graph import examine
    from mccgr_cli.workflow import stages

    settings = options.chosen(GraphSettings, {**given, "graph_features": "plain"})
    job = Job(given, "graph")
    with job.samples(None, settings) as (matrix, X):
        names = matrix.contents.names()
        if settings.symmetry == "union":  # every sample has at least so many edges
            job.expect(12.0 * X.shape[0] * min(settings.neighbors, X.shape[0] - 1))
        contents = stages.make_graph(X, settings, given["normalize"], names, job.reporter.searched)
    job.reporter.note(f"graph: {examine(contents['A'])}")
    job.write(contents)
