"""The figure of a ranking: each criterion by the number of components, with the recommended number."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from mccgr_cli.blocks.protocol import Array
from mccgr_cli.catalog import RANK_CRITERIA
from mccgr_cli.errors import DataError
from mccgr_cli.files.readers import Loaded
from mccgr_cli.output.plots.canvas import GREY, Note, legend_beside, new_figure, stroke, whole_numbers
from mccgr_cli.settings import Drawing

MOST_K = 1 << 31
MARGIN = 0.5  # of the k axis, beyond the first and the last k


def criteria(given: Sequence[Loaded], drawing: Drawing, note: Note) -> Figure:
    """One panel for each group of criteria, all with the same k axis."""
    (one,) = given
    contents = one.contents
    ks = np.asarray(contents["k"])
    best = contents.attributes.get("recommended")
    if len(np.unique(ks)) != len(ks):
        raise DataError(one.name, "it has a number of components twice", "the file is damaged")
    allowed = span_of(contents.attributes.get("bracket"))
    figure = new_figure(drawing, 6.4, 7.0)
    titles = list(dict.fromkeys(criterion.panel for criterion in RANK_CRITERIA))
    panels = figure.subplots(len(titles), 1, sharex=True)
    order = np.argsort(ks)
    for axes, title in zip(panels, titles, strict=True):
        shown = [criterion for criterion in RANK_CRITERIA if criterion.panel == title]
        for number, one_criterion in enumerate(shown):
            name, label = one_criterion.name, one_criterion.label
            errors = np.asarray(contents[f"{name}_error"])[order] if one_criterion.has_error else None
            draw(axes, number, label, ks[order], np.asarray(contents[name])[order], errors)
        if isinstance(best, int) and ks.min() <= best <= ks.max():
            axes.axvline(best, color=GREY, linestyle=":", linewidth=1.2, zorder=0)
        if shown[0].name == "heldout" and allowed is not None:
            axes.axvspan(*allowed, color=GREY, alpha=0.12, linewidth=0, zorder=0, label="allowed by prediction")
        axes.set_ylabel(title)
        if len(axes.get_legend_handles_labels()[1]) > 1:
            legend_beside(figure, axes)
    panels[-1].set(xlabel="number of components k", xlim=(ks.min() - MARGIN, ks.max() + MARGIN))
    whole_numbers(panels[-1].xaxis)
    if isinstance(best, int):
        panels[0].set_title(f"recommended: k = {best}", loc="left")
    figure.align_ylabels(panels)
    return figure


def span_of(bracket: Any) -> tuple[float, float] | None:
    """The part of the k axis that the held-out error allows, if the file says it."""
    if not (isinstance(bracket, list) and len(bracket) == 2 and all(type(end) is int for end in bracket)):
        return None
    least, most = bracket
    return (least - MARGIN, most + MARGIN) if 0 < least <= most < MOST_K else None


def draw(axes: Axes, number: int, label: str, ks: Array, values: Array, errors: Array | None) -> None:
    known = np.isfinite(values)
    style = stroke(number)
    axes.plot(ks[known], values[known], label=label, **style)
    if errors is not None:
        sizes = np.where(np.isfinite(errors[known]), np.abs(errors[known]), 0)
        axes.errorbar(ks[known], values[known], sizes, fmt="none", ecolor=style["color"], elinewidth=1, capsize=2)
