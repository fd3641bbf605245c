"""``mccgr graph``"""

from __future__ import annotations

from typing import Any

import click

from mccgr_cli.cli import options
from mccgr_cli.settings import GraphSettings


@click.command()
@options.matrix_input
@options.graph
@options.preprocessing
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
    from mccgr_cli import stages
    from mccgr_cli.cli.files import Destination, with_provenance
    from mccgr_cli.cli.progress import Reporter
    from mccgr_cli.graph import examine
    from mccgr_cli.readers import load

    reporter = Reporter(given["quiet"], given["verbose"])
    destination = Destination(given["output"], given["source"], "graph", given["overwrite"])
    loaded = load(given["source"], transpose=given["transpose"], label_key=given["label_key"])
    X = stages.prepare(loaded.contents, given["normalize"], given["dtype"])
    contents = stages.make_graph(X, options.chosen(GraphSettings, given))
    if "sample_names" in loaded.contents:
        contents.datasets["sample_names"] = loaded.contents["sample_names"]
    reporter.note(f"graph: {examine(contents['A'])}")
    destination.write(with_provenance(contents, "graph", given, [loaded]), reporter)
