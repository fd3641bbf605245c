"""``mccgr graph``"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from mccgr_cli.cli import options
from mccgr_cli.cli.options import MatrixInput, Output, Resources
from mccgr_cli.settings import AUTO, GraphSettings, RowSettings, Settings

WITH_WEIGHTS = ("k", "method", "keep", "theta", "bandwidth", "seed")  # settings that change the graph
CHANGED: dict[str, dict[str, Any]] = {
    "method": {
        "values": ("mccgr", "grnmf"),
        "help": "Method of the factorization. mccgr: noisy features count less. grnmf: all features count equally.",
    },
    "k": {
        "default": None,
        "help": "Number of components (clusters) of the factorization.",
        "default_text": "none: all features count equally, and --normalize auto is hellinger",
    },
}


@options.command
@options.gathered("settings", Settings, WITH_WEIGHTS, changed=CHANGED)
@options.output
@options.gathered("rows", RowSettings)
@options.matrix("MATRIX")
@options.gathered("graph", GraphSettings)
@options.resources("memory", "scheduler")
def command(
    matrix: MatrixInput,
    settings: Settings,
    graph: GraphSettings,
    rows: RowSettings,
    resources: Resources,
    output: Output,
) -> None:
    """Build the nearest-neighbour graph that factorize uses.

    Several runs of 'mccgr factorize --graph' can use the file. MATRIX is any file that factorize reads. Give the same
    --k and --method to both commands. The normalization of the rows is kept in the file, and factorize uses it too.

    \b
    Examples:
      mccgr graph X.h5 --k 5 -o A.h5
      mccgr graph X.h5 --k 5 --weight shared --normalize l2 -o A.h5
      mccgr factorize X.h5 --k 5 --graph "$(mccgr graph X.h5 --k 5)"
    """
    from mccgr_cli.cli.job import Job
    from mccgr_cli.cli.samples import note_choice, prepared
    from mccgr_cli.core.graph import graph_health
    from mccgr_cli.workflow import factorization, stages
    from mccgr_cli.workflow.choice import without_graph

    for_any_k = settings.k is None
    if for_any_k:
        settings, graph = without_graph(replace(settings, k=1, method="grnmf"), graph)
        rows = replace(rows, normalize="hellinger" if rows.normalize == AUTO else rows.normalize)
    parameters = options.parameters(matrix, settings, graph, rows)
    parameters = {name: value for name, value in parameters.items() if name not in unused()}
    with Job("graph", output, parameters, derived=(matrix.source, "graph"), resources=resources) as job:
        with prepared(job, matrix, rows, settings, graph) as samples:
            X, names = samples.X, samples.loaded.contents.names()
            factorization.check_components(settings.k, X.shape)
            settled = samples.settled
            if settled.graph.symmetry == "union":  # then every sample has at least this many edges
                job.require_space(12.0 * X.shape[0] * min(settled.graph.most_neighbors(X.shape[0]), X.shape[0] - 1))
            contents = stages.make_graph(
                X, settled.settings, settled.graph, settled.normalize, names, job.reporter.searched
            )
        note_choice(job, settled.choice)
        if for_any_k:
            del contents.attributes["k"], contents.attributes["method"]
        job.reporter.note(f"graph: {graph_health(contents['A'])}")
        if for_any_k:
            job.reporter.note("without --k this is not the graph that factorize builds; give the --k of factorize")
        job.write(contents)


def unused() -> set[str]:
    """Settings of a factorization that do not change its graph."""
    return set(Settings.__dataclass_fields__) - set(WITH_WEIGHTS)
