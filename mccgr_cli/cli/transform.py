"""``mccgr transform``"""

from __future__ import annotations

import click

from mccgr_cli.cli import options, types
from mccgr_cli.cli.options import MatrixInput, Output, Resources


@options.command
@click.argument("factors", metavar="FACTORS", type=types.INPUT)
@options.output
@options.matrix("MATRIX")
@options.resources("memory")
def command(factors: str, matrix: MatrixInput, resources: Resources, output: Output) -> None:
    """Compute the coefficients of new samples on a learnt basis.

    FACTORS is a file from factorize (or clusters made from one, or a checkpoint). MATRIX has new samples with the same
    features. If both files name their features, features are matched by name. The feature weights and the normalization
    of FACTORS are used. The neighbour graph is not used. Without MATRIX, standard input is the matrix; FACTORS may be -
    for standard input.

    \b
    Examples:
      mccgr transform X.factors.h5 new.h5 -o W.h5
      mccgr transform X.factors.h5 new.h5 -o - | mccgr cluster --assign max -o new.clusters.h5
    """
    from mccgr_cli.cli.job import Job
    from mccgr_cli.workflow import stages
    from mccgr_cli.workflow.placement import place

    parameters = options.parameters(matrix, factors=factors)
    with Job("transform", output, parameters, derived=(matrix.source, "coefficients"), resources=resources) as job:
        learnt = job.load(factors, ("factors", "clusters"))
        new = job.load_matrix(matrix)
        normalization, idf = stages.rows_like(learnt, new, new.contents["X"].shape[1])
        X = place(new, job.room(None, None), normalization, idf=idf)
        job.note_if_on_disk(X)
        contents = stages.transform_matrix(learnt, new, X)
        job.reporter.note(f"coefficients: {contents['W'].shape[0]} samples on {contents['W'].shape[1]} components")
        job.write(contents)
