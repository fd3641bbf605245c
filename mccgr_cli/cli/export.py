"""``mccgr export``"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import click

from mccgr_cli.catalog import EXPORT_FORMATS, EXPORTED
from mccgr_cli.cli import options, types
from mccgr_cli.cli.help import GroupedOption
from mccgr_cli.cli.options import MatrixInput, Output
from mccgr_cli.errors import ParameterError
from mccgr_cli.fields import basic_option

if TYPE_CHECKING:
    from mccgr_cli.cli.job import Caller

HOLD_ONE = [name for name, form in EXPORT_FORMATS.items() if not form.holds_all]
TAKE_OTHERS = [name for name, form in EXPORT_FORMATS.items() if form.takes_others]


@dataclass(frozen=True)
class Exported:
    """What goes into the exported file."""

    what: str | None = basic_option(
        None,
        "Part of FILE to export, for formats that hold one thing (.csv, .tsv, .npy, .mtx). W: coefficients. H: basis. "
        "assignments: cluster and label of each sample. rho: feature weights. X: matrix. A: edges of the graph.",
        values=EXPORTED,
        default_text="assignments if FILE has clusters, W if it has factors, otherwise X or A",
    )
    with_matrix: str | None = basic_option(
        None,
        "Add this matrix, from which FILE was made, to .h5ad or .mat. --transpose and --label-key say how to read it.",
        flags=("--matrix",),
        type=types.INPUT,
        metavar="MATRIX",
    )
    with_graph: str | None = basic_option(
        None, "Add this graph of the samples to .h5ad or .mat.", flags=("--graph",), type=types.INPUT, metavar="GRAPH"
    )
    into: str | None = basic_option(
        None,
        "Add the results to this .h5ad file instead of writing a new one. Everything else in it stays as it is. "
        "Samples are joined by their names.",
        type=types.FILE,
        metavar="H5AD",
    )


@options.command
@options.output
@options.gathered("exported", Exported)
@click.option(
    "--format",
    "form",
    cls=GroupedOption,
    type=click.Choice(list(EXPORT_FORMATS)),
    default_text="the suffix of the output, or csv",
    help="Format of the output.",
)
@options.matrix("FILE")
def command(matrix: MatrixInput, exported: Exported, form: str | None, output: Output) -> None:
    """Write the contents of a file for other programs.

    FILE is any file that mccgr makes, the folder of mccgr run (its clusters), or a matrix in any format that mccgr
    reads; without it, standard input is read. The suffix of the output decides the format. .csv and .tsv are tables
    with names: the cluster and label of every sample, W, H, the weights of the features, X, or the edges of a graph.
    .npy and .mtx (Matrix Market) hold numbers only. .npz (numpy), .mat (MATLAB) and .h5ad (AnnData, scanpy) hold
    everything in FILE, with names, parameters and history. Sparse matrices stay sparse. Values are the same to the bit,
    and the same input gives the same bytes.

    Clusters and classes count from 0, except in .mat, where they count from 1 as usual in MATLAB, and the classes are
    called gnd. Names go into tables unchanged. You are warned of names that a spreadsheet would take for formulas.

    --into adds factors and clusters to the .h5ad file that they were made from: columns mccgr_cluster,
    mccgr_certainty and mccgr_outlier of obs, W in obsm, H in varm, weights in var, the settings in uns. The file is
    replaced only when the new one is complete.

    \b
    Examples:
      mccgr export X.factors.clusters.h5 -o clusters.csv
      mccgr export X.factors.h5 --what H -o H.csv
      mccgr export X.factors.clusters.h5 -o X.mat
      mccgr export X.factors.clusters.h5 --into cells.h5ad
      mccgr export X.factors.clusters.h5 --matrix X.h5 --graph X.graph.h5 -o X.h5ad
      mccgr export X.factors.h5 --what rho --format tsv -o - | sort -k 2 -g | head
    """
    from mccgr_cli.files.readers import clusters_file

    export(replace(matrix, source=clusters_file(matrix.source)), exported, form, output)


def export(
    matrix: MatrixInput, exported: Exported, form: str | None, output: Output, caller: Caller | None = None
) -> None:
    """Write the contents of a file in the format of another program."""
    from mccgr_cli.cli.job import Job

    if exported.into is not None:
        add_into(matrix, exported, form, output)
        return
    form = options.choose_format(output.path, form, list(EXPORT_FORMATS))
    refuse_unused(exported, form)
    others = {kind: name for kind, name in (("matrix", exported.with_matrix), ("graph", exported.with_graph)) if name}
    about = {"source": matrix.source, "what": exported.what, "matrix": exported.with_matrix}
    parameters: dict[str, Any] = {**options.parameters(matrix), **about, "graph": exported.with_graph, "form": form}
    with Job("export", output, parameters, readable=EXPORT_FORMATS[form].is_text, caller=caller) as job:
        from mccgr_cli.files.container import SCHEMA
        from mccgr_cli.files.provenance import lineage
        from mccgr_cli.output import export as formats

        kinds = [kind for kind in SCHEMA if kind not in ("checkpoint", *others)]
        loaded = job.load(matrix.source, kinds, matrix if "matrix" in kinds else None)
        added = {kind: job.load(name, (kind,), matrix if kind == "matrix" else None) for kind, name in others.items()}
        made = lineage("export", parameters, job.inputs)
        contents = formats.gather(loaded, added.get("matrix"), added.get("graph"), made, job.reporter.note)
        what = formats.choose(exported.what, contents, form)
        if job.has_default_name:
            job.write_beside(matrix.source, what, f".{form}")
        job.write_bytes(formats.render(contents, what, form))


def add_into(matrix: MatrixInput, exported: Exported, form: str | None, output: Output) -> None:
    """Add factors or clusters to an AnnData file that exists."""
    from mccgr_cli.cli.job import Job

    options.refuse_given(
        ("path", "what", "with_matrix", "transpose", "label_key", "header"), "has no effect with --into", "leave it out"
    )
    if form not in (None, "h5ad") or exported.into in (None, "", "-"):
        raise ParameterError("--into", "adds to an AnnData file", "name an .h5ad file, and leave out --format")
    parameters = {"source": matrix.source, "into": exported.into, "graph": exported.with_graph}
    with Job("export", replace(output, path=exported.into, overwrite=True), parameters) as job:
        from mccgr_cli.files.provenance import lineage
        from mccgr_cli.output import export as formats
        from mccgr_cli.output.export import into_h5ad

        loaded = job.load(matrix.source, ("factors", "clusters"))
        graph = None if exported.with_graph is None else job.load(exported.with_graph, ("graph",))
        made = lineage("export", parameters, job.inputs)
        contents = formats.gather(loaded, None, graph, made, job.reporter.note)
        with into_h5ad.opened_target(exported.into) as target:
            if not output.overwrite:
                into_h5ad.refuse_existing(target)
            found = into_h5ad.additions(contents, target)
            with job.changed_copy(into_h5ad.size_of(found)) as copy:
                into_h5ad.add(copy, found, target)
        job.reporter.note(f"{exported.into}: added {', '.join(found)}")


def refuse_unused(exported: Exported, form: str) -> None:
    """Refuse options that would have no effect."""
    for name, value, formats in (
        ("what", exported.what, HOLD_ONE),
        ("matrix", exported.with_matrix, TAKE_OTHERS),
        ("graph", exported.with_graph, TAKE_OTHERS),
    ):
        if value is not None and form not in formats:
            held = f"a .{form} file holds everything" if name == "what" else f"a .{form} file has no place for it"
            raise ParameterError(f"--{name}", held, f"leave it out, or choose .{' or .'.join(formats)}")
