"""``mccgr transform``"""

from __future__ import annotations

from typing import Any

import click

from mccgr_cli.cli import options, types


@click.command()
@click.argument("factors", metavar="FACTORS", type=types.FILE)
@options.matrix_input("MATRIX")
@options.memory
@options.output
@options.verbosity
def command(**given: Any) -> None:
    """Find the coefficients of new samples on a learnt basis.

    FACTORS is a file made by factorize (or clusters made from one), MATRIX new samples with the same features,
    which are matched by name if both files name them. Feature weights and normalization are those that the basis
    was learnt with; the graph plays no part.

    \b
    Examples:
      mccgr transform X.factors.h5 new.h5 -o W.h5
      mccgr transform X.factors.h5 new.h5 -o - | mccgr cluster - --assign max -o new.clusters.h5
    """
    from mccgr_cli.cli.job import Job
    from mccgr_cli.workflow import stages
    from mccgr_cli.workflow.placement import place

    job = Job(given, "coefficients")
    factors = job.load(given["factors"], ("factors", "clusters"))
    room = job.room(None, None)
    matrix = job.load(given["source"], ("matrix",))
    X = place(matrix, room, stages.learnt_with(factors)[1])
    job.note_stay(X)
    contents = stages.transform_matrix(factors, matrix, X)
    job.reporter.note(f"coefficients: {contents['W'].shape[0]} samples on {contents['W'].shape[1]} components")
    job.write(contents)
