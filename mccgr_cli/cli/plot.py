"""``mccgr plot``"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import click

from mccgr_cli.cli import options, types
from mccgr_cli.errors import MccgrError, ParameterError
from mccgr_cli.settings import FIGURE_FORMATS, FIGURES, ORDERS, Drawing


class Only(click.ParamType):  # type: ignore[type-arg]
    """A column and the values wanted of it."""

    name = "only"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        column, equals, values = str(value).partition("=")
        if not equals:
            self.fail(f"{value!r} is not of the form COLUMN=VALUE", param, ctx)
        return column.strip(), tuple(part.strip() for part in values.split(","))


@click.command()
@click.argument("sources", metavar="FILE...", nargs=-1, required=True, type=types.FILE)
@click.option(
    "--figure",
    type=click.Choice(FIGURES),
    help="What to draw.  [default: convergence of factors; of results, scores if there is more than one K, else the "
    "sweep of what varies, else iterations; criteria of ranks]",
)
@click.option(
    "--only",
    type=Only(),
    multiple=True,
    metavar="COLUMN=VALUE,...",
    help="Of results, only the runs with one of these values, as --only k=5 --only method=mccgr,l2.",
)
@click.option(
    "--shape",
    type=types.Extent(types.Whole(min=1)),
    metavar="HEIGHTxWIDTH",
    help="Of the images in a basis, in pixels.  [default: square, if the number of features is]",
)
@click.option(
    "--order",
    type=click.Choice(ORDERS),
    default=Drawing.order,
    show_default=True,
    help="Features are the pixels row by row (C) or column by column (F), as in many MATLAB files.",
)
@click.option("--title", metavar="TEXT", help="Above the figure.  [default: none]")
@click.option(
    "--size",
    type=types.Extent(types.Number(min=1, max=40)),
    metavar="WIDTHxHEIGHT",
    help="In inches.  [default: what suits the figure]",
)
@click.option("--dpi", type=types.Whole(min=20, max=2400), metavar="N", help="Of a PNG.  [default: 150]")
@click.option(
    "--format",
    "form",
    type=click.Choice(FIGURE_FORMATS),
    help="Where -o does not say it by its suffix.  [default: svg]",
)
@options.output
@options.verbosity
def command(**given: Any) -> None:
    """Draw what is in a file.

    Of a file made by factorize (or cluster): convergence, the objective after every iteration, which several FILEs
    show beside each other; weights of the features, with the names of the lightest; basis, the components as
    images; embedding, the samples in the plane of the first two principal components of W, by class and cluster.
    Of a file made by experiment: scores, accuracy and NMI by the number of clusters; sweep, the same by the
    parameter that was varied; iterations, how soon runs settled. Bands are 95 % confidence intervals of the mean.
    Of a file made by rank: criteria, by the number of components, with the one that is recommended.

    The suffix of the output says its format: .svg, .png or .pdf. The same input gives the same bytes. Needs
    matplotlib, which pip install 'mccgr-cli[plot]' brings.

    \b
    Examples:
      mccgr plot X.factors.h5
      mccgr plot l2.factors.h5 mccgr.factors.h5 -o convergence.pdf
      mccgr plot X.factors.clusters.h5 --figure embedding -o embedding.png --dpi 300
      mccgr plot faces.factors.h5 --figure basis --shape 112x92 --order F -o basis.png
      mccgr plot ranks.h5 -o ranks.svg
      mccgr plot results.h5 --figure sweep --only k=5 -o alpha.svg
    """
    from mccgr_cli.cli.job import Job, derived_path

    sources = given["sources"]
    if sources.count("-") > 1:
        raise ParameterError("FILE", "standard input can be read only once", "name files")
    job = Job(given, stage=None)
    form = options.chosen_format(given["output"], given["form"], FIGURE_FORMATS)
    loaded = [job.load(source, ("factors", "clusters", "results", "ranks")) for source in sources]
    with needing_matplotlib():
        from mccgr_cli.output import plots
    loaded = [plots.select(one, given["only"]) for one in loaded]
    figure = plots.choose(given["figure"], loaded)
    refuse_unused(figure, form)
    if job.announce:
        job.aim(derived_path(sources[0], figure, f".{form}"))
    drawing = options.chosen(Drawing, given)
    job.deliver(plots.render(figure, loaded, drawing, form, given["dpi"], job.reporter.note))


def refuse_unused(figure: str, form: str) -> None:
    """Refuse options that would come to nothing."""
    context = click.get_current_context()
    uses = {"dpi": form == "png", "shape": figure == "basis", "order": figure == "basis"}
    for name, used in uses.items():
        if not used and context.get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE:
            raise ParameterError(f"--{name}", f"comes to nothing in {figure} as {form}", "leave it out")


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
