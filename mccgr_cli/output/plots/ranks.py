"""The figure of a ranking: each criterion by the number of components, with the recommended number."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure

from mccgr_cli.catalog import RANK_CRITERIA
from mccgr_cli.errors import DataError
from mccgr_cli.files.readers import Loaded
from mccgr_cli.output.plots import canvas
from mccgr_cli.settings import Drawing

MOST_K = 1 << 31
MARGIN = 0.5  # of the k axis, beyond the first and the last k


def criteria(loaded: Sequence[Loaded], drawing: Drawing, note: canvas.Note) -> Figure:
    """One panel for each group of criteria, all with the same k axis."""
    (one,) = loaded
    contents = one.contents
    ks = np.asarray(contents["k"])
    best, bracket = (contents.attributes.get(name) for name in ("recommended", "bracket"))
    if len(np.unique(ks)) != len(ks):
        raise DataError(one.name, "it has a number of components twice", "the file is damaged")
    allowed = None  # the part of the k axis that the held-out error allows, if the file says it
    if isinstance(bracket, list) and len(bracket) == 2 and all(type(end) is int for end in bracket):
        least, most = bracket
        allowed = (least - MARGIN, most + MARGIN) if 0 < least <= most < MOST_K else None
    figure = canvas.new_figure(drawing, 6.4, 7.0)
    titles = list(dict.fromkeys(criterion.panel for criterion in RANK_CRITERIA))
    panels = figure.subplots(len(titles), 1, sharex=True)
    order = np.argsort(ks)
    for axes, title in zip(panels, titles, strict=True):
        shown = [criterion for criterion in RANK_CRITERIA if criterion.panel == title]
        for number, one_criterion in enumerate(shown):
            values, style = np.asarray(contents[one_criterion.name]), canvas.stroke(number)
            known = order[np.isfinite(values[order])]
            axes.plot(ks[known], values[known], label=one_criterion.label, **style)
            if one_criterion.has_error:
                errors = np.abs(np.nan_to_num(contents[f"{one_criterion.name}_error"], posinf=0, neginf=0))[known]
                style = {"fmt": "none", "ecolor": style["color"], "elinewidth": 1, "capsize": 2}
                axes.errorbar(ks[known], values[known], errors, **style)
        if isinstance(best, int) and ks.min() <= best <= ks.max():
            axes.axvline(best, color=canvas.GREY, linestyle=":", linewidth=1.2, zorder=0)
        if shown[0].name == "heldout" and allowed is not None:
            axes.axvspan(*allowed, color=canvas.GREY, alpha=0.12, linewidth=0, zorder=0, label="allowed by prediction")
        axes.set_ylabel(title)
        if len(axes.get_legend_handles_labels()[1]) > 1:
            canvas.legend_beside(figure, axes)
    panels[-1].set(xlabel="number of components k", xlim=(ks.min() - MARGIN, ks.max() + MARGIN))
    canvas.whole_numbers(panels[-1].xaxis)
    if isinstance(best, int):
        doubt = "" if contents.attributes.get("firm", True) else " (in doubt)"
        panels[0].set_title(f"recommended: k = {best}{doubt}", loc="left")
    figure.align_ylabels(panels)
    return figure
