"""``mccgr export``"""

from __future__ import annotations

from typing import Any

import click

from mccgr_cli.cli import options, types
from mccgr_cli.errors import ParameterError
from mccgr_cli.settings import EXPORT_FORMATS, EXPORTED

OF_ONE = [name for name, form in EXPORT_FORMATS.items() if not form.holds_all]
WITH_OTHERS = [name for name, form in EXPORT_FORMATS.items() if form.takes_others]


@click.command()
@options.matrix_input("FILE")
@click.option(
    "--what",
    type=click.Choice(EXPORTED),
    help="Of a file with several, what goes into .csv, .tsv, .npy or .mtx, which hold one thing.  [default: "
    "assignments of clusters, W of factors, else X or A]",
)
@click.option(
    "--matrix",
    type=types.FILE,
    metavar="MATRIX",
    help="Put this X, from which FILE was made, into .h5ad or .mat too; --transpose and --label-key are about it.",
)
@click.option("--graph", type=types.FILE, metavar="GRAPH", help="Put this graph of the samples into .h5ad or .mat too.")
@click.option(
    "--format",
    "form",
    type=click.Choice(EXPORT_FORMATS),
    help=f"Where -o does not say it by its suffix.  [default: {next(iter(EXPORT_FORMATS))}]",
)
@options.output
@options.verbosity
def command(**given: Any) -> None:
    """Write what is in a file for other programs.

    FILE is any file that mccgr makes (or a matrix in any format that it reads), or - for standard input. The suffix of
    the output says its format. .csv and .tsv are tables with names: the cluster and the label of every sample, W, H,
    the weights of the features, X, or the edges of a graph. .npy and .mtx (Matrix Market) are numbers alone. .npz
    (numpy), .mat (MATLAB) and .h5ad (AnnData, scanpy) hold all that is in FILE, with names, parameters and history;
    sparse stays sparse. Values are the same to the bit, and the same input gives the same bytes.

    Clusters and classes count from 0, but in .mat from 1, as MATLAB does; there the classes are called gnd. Names go
    into tables as they are, also those that a spreadsheet takes for formulas, of which you are told.

    \b
    Examples:
      mccgr export X.factors.clusters.h5 -o clusters.csv
      mccgr export X.factors.h5 --what H -o H.csv
      mccgr export X.factors.clusters.h5 -o X.mat
      mccgr export X.factors.clusters.h5 --matrix X.h5 --graph X.graph.h5 -o X.h5ad
      mccgr export X.factors.h5 --what rho --format tsv -o - | sort -k 2 -g | head
    """
    from mccgr_cli.cli.job import Job, derived_path

    form = options.chosen_format(given["output"], given["form"], tuple(EXPORT_FORMATS))
    refuse_unused(form)
    if [given["source"], given["matrix"], given["graph"]].count("-") > 1:
        raise ParameterError("FILE", "standard input can be read only once", "name files")
    job = Job(given, stage=None, readable=EXPORT_FORMATS[form].is_text)

    from mccgr_cli.files.container import SCHEMA
    from mccgr_cli.files.provenance import lineage
    from mccgr_cli.output import export as exporting

    added = [kind for kind in ("matrix", "graph") if given[kind] is not None]
    kinds = [kind for kind in SCHEMA if kind not in ("checkpoint", *added)]
    loaded = job.load(given["source"], kinds)
    others = {kind: job.load(given[kind], (kind,)) for kind in added}
    made = lineage("export", job.parameters(), job.inputs)
    export = exporting.gather(loaded, others.get("matrix"), others.get("graph"), made, job.reporter.note)
    what = exporting.choose(given["what"], export, form)
    if job.announce:
        job.aim(derived_path(given["source"], what, f".{form}"))
    job.deliver(exporting.render(export, what, form))


def refuse_unused(form: str) -> None:
    """Refuse options that would come to nothing."""
    context = click.get_current_context()
    for name, formats in (("what", OF_ONE), ("matrix", WITH_OTHERS), ("graph", WITH_OTHERS)):
        if context.params[name] is not None and form not in formats:
            held = f"a .{form} file holds all there is" if name == "what" else f"a .{form} file has no place for it"
            raise ParameterError(f"--{name}", held, f"leave it out, or choose .{' or .'.join(formats)}")
