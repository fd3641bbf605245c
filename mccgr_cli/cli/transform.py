"""``mccgr transform``"""

from __future__ import annotations

from typing import Any

import click

from mccgr_cli.cli import options


@click.command()
@click.argument("factors", metavar="FACTORS")
@options.matrix_input
@options.output
@options.verbosity
def command(**given: Any) -> None:
    """Find the coefficients of new samples on a learnt basis.

    FACTORS is a file made by factorize, MATRIX new samples with the same features. Feature weights and
    normalization are those that the basis was learnt with; the graph plays no part.

    \b
    Examples:
      mccgr transform X.factors.h5 new.h5 -o W.h5
      mccgr transform X.factors.h5 new.h5 -o - | mccgr cluster - --assign max -o new.clusters.h5
    """
    from mccgr_cli import stages
    from mccgr_cli.cli.files import Destination, with_provenance
    from mccgr_cli.cli.progress import Reporter
    from mccgr_cli.readers import load

    reporter = Reporter(given["quiet"], given["verbose"])
    destination = Destination(given["output"], given["source"], "coefficients", given["overwrite"])
    factors = load(given["factors"], kinds=("factors", "clusters"))
    matrix = load(given["source"], transpose=given["transpose"], label_key=given["label_key"])
    contents = stages.transform_matrix(factors.contents, matrix.contents, matrix.name)
    reporter.note(f"coefficients: {contents['W'].shape[0]} samples on {contents['W'].shape[1]} components")
    destination.write(with_provenance(contents, "transform", given, [factors, matrix]), reporter)
