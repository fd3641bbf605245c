"""``mccgr plot``"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import click

from mccgr_cli.catalog import FIGURE_FORMATS, FIGURES
from mccgr_cli.cli import options, types
from mccgr_cli.cli.help import GroupedOption
from mccgr_cli.cli.options import MatrixInput, Output
from mccgr_cli.errors import MccgrError
from mccgr_cli.fields import basic_option
from mccgr_cli.settings import Drawing

EXTENTS = {
    "shape": {"type": types.Extent(types.Whole(min=1))},
    "size": {"type": types.Extent(types.Number(min=1, max=40))},
}


class Only(click.ParamType):  # type: ignore[type-arg]
    """A column and the values wanted of it."""

    name = "only"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        column, equals, values = str(value).partition("=")
        if not equals:
            self.fail(f"{value!r} is not of the form COLUMN=VALUE", param, ctx)
        return column.strip(), tuple(part.strip() for part in values.split(","))


@dataclass(frozen=True)
class FigureMatrix:
    """The matrix that clusters were made from, for figures that show its values."""

    matrix: str | None = basic_option(
        None,
        "The matrix that FILE was made from, for --figure dots. Rows are normalized as they were factorized.",
        type=types.INPUT,
        metavar="MATRIX",
        default_text="dots show what the factors give",
    )
    transpose: bool = basic_option(False, "Samples are the columns of MATRIX, not the rows.")


@options.command
@options.file_argument("sources", "FILE", nargs=-1)
@click.option(
    "--figure",
    cls=GroupedOption,
    type=click.Choice(list(FIGURES)),
    default_text="convergence for factors; criteria for a file from rank; for a file from experiment, scores if there "
    "are several k, otherwise sweep if an option was varied, otherwise iterations",
    help="Figure to draw.",
)
@options.output
@click.option(
    "--format",
    "form",
    cls=GroupedOption,
    type=click.Choice(FIGURE_FORMATS),
    default_text="the suffix of the output, or svg",
    help="Format of the figure.",
)
@click.option(
    "--only",
    cls=GroupedOption,
    type=Only(),
    multiple=True,
    metavar="COLUMN=VALUE,...",
    help="Use only some runs of an experiment, for example --only k=5 --only method=mccgr,l2. COLUMN is k, run, method "
    "or an option that was varied.",
)
@options.gathered("drawing", Drawing, changed=EXTENTS)
@options.gathered("given", FigureMatrix)
@click.option(
    "--dpi",
    cls=GroupedOption,
    type=types.Whole(min=20, max=2400),
    default_text="150",
    help="Resolution of a PNG.",
)
def command(
    sources: tuple[str, ...],
    figure: str | None,
    only: tuple[tuple[str, tuple[str, ...]], ...],
    drawing: Drawing,
    given: FigureMatrix,
    dpi: int | None,
    form: str | None,
    output: Output,
) -> None:
    """Draw what is in a file.

    \b
    Of a file from factorize or cluster, a checkpoint, or the folder of mccgr run:
      convergence  the objective in each iteration; several FILEs are compared
      weights      the weights of the features, with the names of the lowest
      basis        the components as images
      embedding    the samples on two principal components of W, by class and cluster
      dots         the top features of each cluster, as in mccgr top: the larger the dot, the more samples have the
                   feature; the darker, the stronger it is (factors are clustered first)
    Of a file from experiment (bands are 95 % confidence intervals of the mean):
      scores       accuracy and NMI by the number of clusters
      sweep        accuracy and NMI by the option that was varied
      iterations   number of iterations until the objective was stable
    Of a file from rank:
      criteria     the criteria by the number of components

    The suffix of the output decides the format: .svg, .png or .pdf. The same input gives the same bytes. Needs
    matplotlib: pip install 'mccgr-cli[plot]'.

    \b
    Examples:
      mccgr plot X.factors.h5
      mccgr plot l2.factors.h5 mccgr.factors.h5 -o convergence.pdf
      mccgr plot X.factors.clusters.h5 --figure embedding -o embedding.png --dpi 300
      mccgr plot faces.factors.h5 --figure basis --shape 112x92 --order F -o basis.png
      mccgr plot X.factors.clusters.h5 --matrix X.h5 --figure dots -o dots.svg
      mccgr plot ranks.h5 -o ranks.svg
      mccgr plot results.h5 --figure sweep --only k=5 -o alpha.svg
    """
    from mccgr_cli.cli.cluster import clustered
    from mccgr_cli.cli.cluster_values import with_matrix
    from mccgr_cli.cli.job import Job
    from mccgr_cli.files.readers import clusters_file

    form = options.choose_format(output.path, form, FIGURE_FORMATS)
    parameters = options.parameters(drawing, given, figure=figure, only=only, dpi=dpi)
    with Job("plot", output, parameters) as job:
        loaded = [
            job.load(source, ("factors", "clusters", "results", "ranks")) for source in map(clusters_file, sources)
        ]
        with needing_matplotlib():
            from mccgr_cli.output import plots
        loaded = [plots.select(one, only) for one in loaded]
        figure = plots.choose(figure, loaded)
        refuse_unused(figure, form)
        if job.has_default_name:
            job.write_beside(clusters_file(sources[0]), figure, f".{form}")
        if FIGURES[figure].takes_matrix:
            loaded = [clustered(one, job.reporter.note) for one in loaded]
        values = None
        if given.matrix is not None:
            loaded[0], values = with_matrix(job, loaded[0], MatrixInput(given.matrix, given.transpose))
        job.write_bytes(plots.render(figure, loaded, drawing, form, dpi, job.reporter.note, values))


def refuse_unused(figure: str, form: str) -> None:
    """Refuse options that would have no effect."""
    unused = [] if form == "png" else ["dpi"]
    unused += [] if figure == "basis" else ["shape", "order"]
    unused += [] if figure == "dots" else ["count"]
    unused += [] if FIGURES[figure].takes_matrix else ["matrix", "transpose"]
    options.refuse_given(unused, f"has no effect on {figure} as {form}", "leave it out")


@contextmanager
def needing_matplotlib() -> Iterator[None]:
    """Say what to do if matplotlib is not there, and let it keep to itself what it thinks of its caches."""
    logging.getLogger("matplotlib").setLevel(logging.ERROR)
    try:
        yield
    except ModuleNotFoundError as fault:
        if fault.name != "matplotlib":
            raise
        remedy = "install it with pip install 'mccgr-cli[plot]'"
        raise MccgrError("matplotlib", "not installed, and figures are drawn with it", remedy) from None
