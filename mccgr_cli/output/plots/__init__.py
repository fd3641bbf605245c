"""Figures of what is in files, as bytes of an image. matplotlib is imported here and nowhere else."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from matplotlib.figure import Figure

from mccgr_cli.errors import ParameterError
from mccgr_cli.files.readers import KINDS, Loaded
from mccgr_cli.output.plots import curves, factors, ranks, results
from mccgr_cli.output.plots.canvas import Note, encode, our_look
from mccgr_cli.output.plots.results import default_figure, select
from mccgr_cli.settings import FIGURES_OF_FACTORS, FIGURES_OF_RANKS, FIGURES_OF_RESULTS, Drawing

FIGURES: dict[str, Callable[[Sequence[Loaded], Drawing, Note], Figure]] = {
    "convergence": curves.convergence,
    "weights": curves.weights,
    "basis": factors.basis,
    "embedding": factors.embedding,
    "scores": results.scores,
    "sweep": results.sweep,
    "iterations": results.iterations,
    "criteria": ranks.criteria,
}
__all__ = ["choose", "render", "select"]
OF_KIND = {
    "factors": FIGURES_OF_FACTORS,
    "clusters": FIGURES_OF_FACTORS,
    "results": FIGURES_OF_RESULTS,
    "ranks": FIGURES_OF_RANKS,
}


def choose(name: str | None, given: Sequence[Loaded]) -> str:
    """The figure that was asked for, if it can be drawn from these files, else the one that suits them."""
    first = given[0]
    if name is None:
        kind = first.contents.kind
        name = default_figure(first) if kind == "results" else OF_KIND[kind][0]
    for one in given:
        kind = one.contents.kind
        if name not in OF_KIND[kind]:
            what = f"{one.name} holds {KINDS[kind][0]}, of which there is no figure {name}"
            raise ParameterError("--figure", what, f"choose {' or '.join(OF_KIND[kind])}")
    if len(given) > 1 and name != "convergence":
        raise ParameterError("FILE", f"{len(given)} files, and {name} shows one", "name one file")
    return name


def render(
    name: str, given: Sequence[Loaded], drawing: Drawing, form: str, dpi: int | None = None, note: Note = lambda _: None
) -> bytes:
    """Draw a figure; the same files and choices give the same bytes. ``note`` is told what the user should know."""
    with our_look():
        figure = FIGURES[name](given, drawing, note)
        return encode(figure, form, dpi, source=" ".join(f"sha256:{one.sha256}" for one in given), note=note)
