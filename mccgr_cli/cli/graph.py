"""``mccgr graph``"""

from __future__ import annotations

from mccgr_cli.cli import options
from mccgr_cli.cli.options import MatrixInput, Output, Resources
from mccgr_cli.settings import GraphSettings, RowSettings

AXES = {"axes": {"default_text": "0 with --metric histogram, otherwise 50"}}


@options.command
@options.output
@options.gathered("rows", RowSettings)
@options.matrix("MATRIX")
@options.gathered("graph", GraphSettings, changed=AXES, graph_features="plain")
@options.resources("memory", "scheduler")
def command(matrix: MatrixInput, graph: GraphSettings, rows: RowSettings, resources: Resources, output: Output) -> None:
    """Build the nearest-neighbour graph of the samples.

    Several runs of 'mccgr factorize --graph' can use the file. MATRIX is any file that factorize reads. Give the same
    --normalize to both commands.

    \b
    Examples:
      mccgr graph X.h5 --neighbors 5 -o A.h5
      mccgr graph X.h5 --weight heat --normalize l2 -o A.h5
      mccgr factorize X.h5 --k 5 --graph "$(mccgr graph X.h5)"
    """
    from mccgr_cli.cli.job import Job
    from mccgr_cli.core.graph import graph_health
    from mccgr_cli.workflow import stages

    parameters = options.parameters(matrix, graph, rows)
    del parameters["graph_features"]
    with Job("graph", output, parameters, derived=(matrix.source, "graph"), resources=resources) as job:
        with job.samples(matrix, rows, None, graph) as (loaded, X, _):
            names = loaded.contents.names()
            if graph.symmetry == "union":  # then every sample has at least this many edges
                job.require_space(12.0 * X.shape[0] * min(graph.neighbors, X.shape[0] - 1))
            contents = stages.make_graph(X, graph, rows.normalize, names, job.reporter.searched)
        job.reporter.note(f"graph: {graph_health(contents['A'])}")
        job.write(contents)
