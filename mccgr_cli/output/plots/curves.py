"""Figures of curves: convergence and feature weights. ``output.curves`` decides what they show."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure

from mccgr_cli.catalog import HISTORY, SILENCED
from mccgr_cli.errors import DataError
from mccgr_cli.files.readers import Loaded
from mccgr_cli.output import curves
from mccgr_cli.output.plots import canvas
from mccgr_cli.output.text import file_labels, name_of, with_power
from mccgr_cli.settings import Drawing
from mccgr_cli.workflow.stages import require_datasets

MOST_NAMES = 20  # features that are named
SMALLEST_WEIGHT = 1e-9  # smaller weights are drawn here


def convergence(loaded: Sequence[Loaded], drawing: Drawing, note: canvas.Note) -> Figure:
    """The objective after every iteration: the terms of one run, or the objectives of several runs."""
    for one in loaded:
        require_datasets(one, "history/objective")
        lost = np.count_nonzero(~np.isfinite(one.contents["history/objective"]))
        if lost:
            raise DataError(one.name, f"{lost} values of its objective are not finite", "factorize again")
    if len(loaded) == 1:
        charts = curves.convergence({name: loaded[0].contents[f"history/{name}"] for name in HISTORY})
    else:
        names = file_labels([one.name for one in loaded], canvas.MOST_LETTERS)
        objectives = [one.contents["history/objective"] for one in loaded]
        charts = [curves.several_runs(dict(zip(names, objectives, strict=True)))]
    figure = canvas.new_figure(drawing, 6.4, 2.4 + len(charts))
    panels = figure.subplots(len(charts), sharex=True, squeeze=False, height_ratios=[3, 1][: len(charts)])[:, 0]
    for axes, chart in zip(panels, charts, strict=True):
        for i, line in enumerate(chart.lines):
            axes.plot(line.values, label=line.name, markevery=(0.03 * i, 0.15), **canvas.stroke(line.style))
        axes.set_ylabel(chart.labels[1])
        if chart.log_x:
            canvas.log_scale(axes, "x", np.arange(2))
        else:
            canvas.whole_numbers(axes.xaxis)
        if chart.log_y:
            values = np.concatenate([line.values for line in chart.lines])
            canvas.log_scale(axes, "y", values[(values > 0) & np.isfinite(values)])
        if len(chart.lines) > 1:
            canvas.legend_beside(figure, axes)
    panels[-1].set_xlabel(charts[-1].labels[0])
    figure.align_ylabels()
    return figure


def weights(loaded: Sequence[Loaded], drawing: Drawing, note: canvas.Note) -> Figure:
    """All feature weights in order; and the lightest features by name, on a logarithmic axis."""
    (one,) = loaded
    require_datasets(one, "rho")
    found = curves.FeatureWeights(one.contents["rho"])
    if found.all_equal:
        method = one.contents.attributes.get("method", "its method")
        raise DataError(one.name, f"{method} weighs all features alike", "factorize with --method mccgr or mcc")
    figure = canvas.new_figure(drawing, 7.6, 3.8)
    left, right = figure.subplots(1, 2, width_ratios=[3, 2])
    chart = found.chart()
    for line in chart.lines:
        places = np.arange(len(line.values)) + chart.first
        is_drawn = np.isfinite(line.values)
        style = {**canvas.shade(line.style), "linestyle": "none", "markersize": 3}
        rasterized = len(line.values) > canvas.MOST_VECTORS
        left.plot(places[is_drawn], line.values[is_drawn], label=line.name, rasterized=rasterized, **style)
    assert chart.span is not None
    left.set(xlabel=chart.labels[0], ylabel=chart.labels[1], ylim=(chart.span[0] - 0.03, chart.span[1] + 0.03))
    canvas.whole_numbers(left.xaxis)
    left.legend(loc="lower left", bbox_to_anchor=(0, 1), borderaxespad=0, ncols=2, handlelength=1)

    named, values = found.order[-MOST_NAMES:], found.values[-MOST_NAMES:]
    places, shown = np.arange(len(named))[::-1], np.maximum(values, SMALLEST_WEIGHT)  # the lightest at the bottom
    for look, chosen in enumerate((values >= SILENCED, values < SILENCED)):
        right.plot(shown[chosen], places[chosen], linestyle="none", **canvas.shade(look))
    labels = [name_of(one.contents, "feature", int(j), canvas.MOST_LETTERS) for j in named]
    right.set_yticks(places, labels, fontsize=8 if len(named) > 12 else 9)
    right.axvline(SILENCED, color=canvas.GREY, linestyle=":")
    bounds = min(shown.min(), SILENCED) / 2, max(shown.max(), 1) * 2
    canvas.log_scale(right, "x", np.array(bounds))
    least = with_power(SMALLEST_WEIGHT)
    clipped = f" ({least} or less as {least})" if values.min() < SMALLEST_WEIGHT else ""
    right.set(xlabel=f"weight ρ{clipped}", xlim=bounds)
    right.set_title(f"the {len(named)} lightest" if len(named) < len(found.order) else "all of them", loc="left")
    return figure
