"""``mccgr factorize``"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from mccgr_cli.cli import options
from mccgr_cli.settings import INITS, GraphSettings, Settings

if TYPE_CHECKING:
    from mccgr_cli.solver import Factors


@click.command()
@options.matrix_input
@options.solver
@click.option("--graph", "graph_file", metavar="FILE", help="A graph made before by 'mccgr graph'.")
@options.graph
@options.preprocessing
@options.seed
@options.output
@options.verbosity
def command(**given: Any) -> None:
    """Factorize a non-negative matrix: X ~ WH.

    MATRIX is an HDF5 file (FILE::/dataset names a dataset), .h5ad, .mat, .npy, .npz, .mtx, .csv or .tsv
    file with samples in rows, or - for HDF5 on standard input. The graph is built from the rows unless
    --graph gives one.

    \b
    Examples:
      mccgr factorize X.h5 --alpha 100 --k 5
      mccgr factorize COIL20.mat --k 20 --normalize l2 -o factors.h5
      mccgr factorize counts.h5ad --k 8 --method kl --label-key cell_type
      mccgr factorize X.h5 --k 5 -o - | mccgr cluster - -o - | mccgr evaluate - --format json
    """
    from mccgr_cli import stages
    from mccgr_cli.cli.files import Destination, with_provenance
    from mccgr_cli.cli.info import shape_of
    from mccgr_cli.cli.progress import Reporter
    from mccgr_cli.graph import examine
    from mccgr_cli.readers import load

    reporter = Reporter(given["quiet"], given["verbose"])
    destination = Destination(given["output"], given["source"], "factors", given["overwrite"])
    settings = options.chosen(Settings, given)

    inputs = [load(given["source"], transpose=given["transpose"], label_key=given["label_key"])]
    names = inputs[0].contents.names()
    X = stages.prepare(inputs[0].contents, given["normalize"], given["dtype"])
    reporter.detail(f"matrix: {shape_of(X)}")
    start = A = None
    if settings.init not in INITS:
        inputs.append(load(settings.init, kinds=("factors", "clusters")))
        start = stages.check_start(inputs[-1].contents, settings, X.shape, inputs[-1].name)
    if not stages.uses_graph(settings):
        if given["graph_file"]:
            reporter.note(f"--graph: not used by --method {settings.method} --alpha {settings.alpha:g}")
    elif given["graph_file"]:
        inputs.append(load(given["graph_file"], kinds=("graph",)))
        A = stages.check_graph(inputs[-1].contents, X.shape[0], inputs[-1].name)
    else:
        A = stages.make_graph(X, options.chosen(GraphSettings, given))["A"]
        reporter.note(f"graph: {examine(A)}")

    with reporter.watching(settings.iterations, settings.restarts) as on_step:
        factors = stages.factorize(X, settings, A, start, on_step)
    reporter.note(describe(factors))
    contents = stages.factors_contents(factors, settings, given["normalize"], names)
    destination.write(with_provenance(contents, "factorize", given, inputs), reporter)


def describe(factors: Factors) -> str:
    last = {name: values[-1] for name, values in factors.history.items()}
    parts = [
        f"objective {last['objective']:.6g} (data {last['data']:.6g}, graph {last['graph']:.6g})",
        f"{factors.iterations} iterations in {last['seconds']:.2f} s",
        "converged" if factors.converged else "stopped before it converged",
    ]
    silenced = int((factors.rho < 0.01).sum())
    if silenced:
        parts.append(f"{silenced} of {len(factors.rho)} features silenced")
    return "factors: " + ", ".join(parts)
