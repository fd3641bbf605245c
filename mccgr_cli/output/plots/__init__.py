"""Figures of what is in files, as bytes of an image. matplotlib is imported here and nowhere else.

Begin with ``choose``, which finds the figure that suits the files, and ``render``, which draws it.
``settings.FIGURES`` lists all figures.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module

from mccgr_cli.catalog import FIGURES
from mccgr_cli.core.profiles import GroupValues
from mccgr_cli.errors import ParameterError
from mccgr_cli.files.readers import KINDS, Loaded
from mccgr_cli.output.plots.canvas import Note, encode, our_look
from mccgr_cli.output.plots.results import default_figure, select
from mccgr_cli.settings import Drawing

__all__ = ["choose", "render", "select"]


def choose(name: str | None, loaded: Sequence[Loaded]) -> str:
    """The figure that was asked for, or the one that suits the first file; refused if a file has no such figure."""
    for one in loaded:
        kind = one.contents.kind
        fitting = [figure for figure, about in FIGURES.items() if kind in about.kinds]
        if name is None:
            name = default_figure(one) if kind == "results" else fitting[0]
        if name not in fitting:
            what = f"{one.name} holds {KINDS[kind][0]}, which have no figure {name}"
            raise ParameterError("--figure", what, f"choose {' or '.join(fitting)}")
    assert name is not None
    if len(loaded) > 1 and not FIGURES[name].of_several:
        raise ParameterError("FILE", f"{len(loaded)} files, and {name} shows one", "name one file")
    return name


def render(
    name: str,
    loaded: Sequence[Loaded],
    drawing: Drawing,
    form: str,
    dpi: int | None = None,
    note: Note = lambda _: None,
    values: GroupValues | None = None,
) -> bytes:
    """Draw a figure. The same files and choices give the same bytes.

    Parameters
    ----------
    name : a key of ``settings.FIGURES``
    form : svg, png or pdf
    dpi : resolution of a PNG
    note : called with what the user should know
    values : of the matrix in the clusters, for a figure that takes a matrix
    """
    module, _, function = FIGURES[name].drawn_by.partition(".")
    draw = getattr(import_module(f"{__package__}.{module}"), function)
    with our_look():
        figure = draw(loaded, drawing, note, *([] if values is None else [values]))
        source = " ".join(f"sha256:{one.sha256}" for one in loaded)
        return encode(figure, form, dpi, source, note, may_grow=drawing.size is None)
