"""The figure of the top features by cluster. ``output.dots`` decides what it shows."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import PathCollection
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from mccgr_cli.core.profiles import GroupValues
from mccgr_cli.errors import DataError
from mccgr_cli.files.readers import Loaded
from mccgr_cli.output.cluster_names import named_clusters, own_scores
from mccgr_cli.output.dots import Dots, feature_dots
from mccgr_cli.output.plots import canvas
from mccgr_cli.output.text import name_of
from mccgr_cli.settings import Drawing

SHADES = LinearSegmentedColormap.from_list("dots", ("#e3edf5", "#3a8ac2", "#062f51"))
ROW, COLUMN = 0.2, 0.3  # sizes of a cell in inches
LARGEST_DOT = 13.0  # points
SIZES = (0.25, 0.5, 1.0)  # in the legend
NARROW = 3  # letters of a cluster's name that stand side by side without turning it


def dots(loaded: Sequence[Loaded], drawing: Drawing, note: canvas.Note, values: GroupValues | None = None) -> Figure:
    """The top features of each cluster: in how many samples of every cluster they are, and how strong."""
    (one,) = loaded
    if "H" not in one.contents and values is None:
        raise DataError(one.name, "holds clusters of a matrix, without the factors", "give the matrix with --matrix")
    contents = one.contents
    clusters = named_clusters(contents["assignments"], own_scores(contents))
    shown = feature_dots(contents, clusters, values, drawing.count)
    if not shown.features:
        raise DataError(one.name, "no feature distinguishes its clusters", "factorize again, with another --k")
    if len(shown.clusters) < len(clusters):
        note(f"dots: the first {len(shown.clusters)} of {len(clusters)} clusters")
    titles = [canvas.legend_name(cluster.title) for cluster in shown.clusters]
    names = [name_of(contents, "feature", number, canvas.MOST_LETTERS) for number in shown.features]
    longest = max(map(len, titles))
    above = canvas.LETTER * longest if longest > NARROW else 0.1
    width = max(canvas.LETTER * max(map(len, names)) + COLUMN * len(titles) + 1.1, 4.2)
    figure = canvas.new_figure(drawing, width, ROW * len(names) + above + 1.5)
    axes = figure.subplots()
    drawn = draw_cells(axes, shown)
    name_cells(axes, titles, names, turned=longest > NARROW)
    height = figure.get_size_inches()[1]
    bar = figure.colorbar(drawn, ax=axes, shrink=min(1.6 / height, 0.8), anchor=(0, 1), aspect=10)
    bar.set_label(textwrap.fill(shown.meaning_of_colour, 24), fontsize=8)
    bar.outline.set_visible(False)
    handles = [
        Line2D([], [], linestyle="none", marker="o", color=canvas.GREY, markersize=LARGEST_DOT * share**0.5)
        for share in SIZES
    ]
    text = textwrap.fill(shown.meaning_of_size, max(int(width / canvas.LETTER) - 6, 30))
    entries = [f"{share:.0%}" for share in SIZES]
    figure.legend(handles, entries, loc="outside lower center", ncols=len(SIZES), title=text, title_fontsize=8)
    return figure


def draw_cells(axes: Axes, shown: Dots) -> PathCollection:
    """The dots, the signs of the clusters above them, and lines between the features of different clusters."""
    rows, columns = shown.means.shape
    y, x = np.mgrid[:rows, :columns]
    style: dict[str, Any] = {"cmap": SHADES, "vmin": 0, "vmax": shown.largest}
    area = LARGEST_DOT**2 * shown.fractions.ravel()
    edges: dict[str, Any] = {"edgecolors": canvas.GREY, "linewidths": 0.3}
    drawn = axes.scatter(x.ravel(), y.ravel(), s=area, c=shown.means.ravel(), **style, **edges)
    for place, cluster in enumerate(shown.clusters):
        axes.plot(place, -1, linestyle="none", clip_on=False, **canvas.shade(cluster.look))
    for row in np.flatnonzero(np.diff(shown.owners)):
        axes.axhline(row + 0.5, color="#c8c8c8", linewidth=0.6)
    axes.set(xlim=(-0.6, columns - 0.4), ylim=(rows - 0.4, -1.6))
    return drawn


def name_cells(axes: Axes, titles: list[str], names: list[str], turned: bool) -> None:
    axes.set_xlabel("cluster")
    axes.xaxis.set_label_position("top")
    axes.xaxis.tick_top()
    axes.set_xticks(range(len(titles)), titles, rotation=90 if turned else 0)
    axes.set_yticks(range(len(names)), names)
    axes.tick_params(length=0, pad=1)
    axes.grid(visible=False)
    for side in axes.spines.values():
        side.set_visible(False)
