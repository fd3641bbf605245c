"""Figures of the factors: the basis as images, and the samples in the plane in which they vary most."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from mccgr_cli.blocks.protocol import Array
from mccgr_cli.core.metrics import numbers_first
from mccgr_cli.errors import ParameterError
from mccgr_cli.files.container import Contents
from mccgr_cli.files.readers import Loaded
from mccgr_cli.output.cluster_names import class_looks, named_clusters, own_scores
from mccgr_cli.output.curves import principal_plane, require_plane
from mccgr_cli.output.plots import canvas
from mccgr_cli.output.plots.canvas import Note, legend_name
from mccgr_cli.settings import Drawing
from mccgr_cli.workflow.stages import require_datasets

MOST_TILES = 144  # components of a basis
MOST_GROUPS = 60  # more groups share a colour scale


def basis(loaded: Sequence[Loaded], drawing: Drawing, note: Note) -> Figure:
    """Every component as an image; a square one if the user gives no shape."""
    (one,) = loaded
    require_datasets(one, "H")
    H = one.contents["H"]  # (k, d)
    side = math.isqrt(H.shape[1])
    height, width = drawing.shape or (side, side)
    if drawing.shape is None and side * side != H.shape[1]:
        what = f"missing, and the {H.shape[1]} features of {one.name} are not the pixels of a square"
        raise ParameterError("--shape", what, "give HEIGHTxWIDTH if the features are pixels")
    if drawing.shape is None:
        lines = {"C": "row by row", "F": "column by column"}[drawing.order]
        note(f"basis: shown as images of {side}x{side} pixels, {lines}; --shape and --order change this")
    if height * width != H.shape[1]:
        what = f"{height}x{width} is {height * width} pixels, and {one.name} has {H.shape[1]} features"
        raise ParameterError("--shape", what, "give the height and width of the images")
    shown = min(len(H), MOST_TILES)
    if shown < len(H):
        note(f"basis: the first {shown} of {len(H)} components")
    gap = math.ceil(0.2 * min(height, width))  # between images, with room for the number of a component
    columns = min(math.ceil(math.sqrt(shown * (height + gap) / (width + gap))), shown)
    rows = math.ceil(shown / columns)
    mosaic = np.full((rows * (height + gap), columns * (width + gap) - gap), np.nan)
    corners = [(i // columns * (height + gap) + gap, i % columns * (width + gap)) for i in range(shown)]
    for component, (top, left) in zip(H, corners, strict=False):
        image = component.reshape((height, width), order=drawing.order)
        mosaic[top : top + height, left : left + width] = image / max(image.max(), np.finfo(H.dtype).tiny)

    figure = canvas.new_figure(drawing, 6.4, min(max(6.4 * mosaic.shape[0] / mosaic.shape[1] + 0.3, 1.5), 9))
    axes = figure.subplots()
    axes.imshow(mosaic, cmap="gray", vmin=0, vmax=1, interpolation="none")
    axes.set_axis_off()
    inch = min(figure.get_size_inches() / np.array(mosaic.shape[::-1]))  # of a pixel
    for number, (top, left) in enumerate(corners):
        size = min(9, 0.7 * 72 * gap * inch)
        axes.text(left - 0.5, top - 0.5 - gap * 0.15, str(number), fontsize=size, va="bottom")
    figure.supxlabel("each component from 0 (black) to its largest value (white)", fontsize=9, wrap=True)
    return figure


def embedding(loaded: Sequence[Loaded], drawing: Drawing, note: Note) -> Figure:
    """The samples in the plane in which their coefficients vary most, by class and by cluster."""
    (one,) = loaded
    require_datasets(one, "W")
    W = one.contents["W"].astype(np.float64)
    require_plane(W, one.name)
    points, shares = principal_plane(W)
    panels = groupings(one.contents)
    height = 4.0
    figure = canvas.new_figure(drawing, sum(3.8 + groups.width(height) for groups in panels), height)
    for axes, groups in zip(figure.subplots(1, len(panels), squeeze=False)[0], panels, strict=True):
        draw_groups(figure, axes, points, groups)
        axes.set_aspect("equal", adjustable="datalim")
        for which, name, share in zip("xy", ("principal component 1", "principal component 2"), shares, strict=True):
            axes.set(**{f"{which}label": f"{name} of W ({100 * share:.1f} % of variance)"})
    return figure


@dataclass(frozen=True)
class Groups:
    """Groups of samples, each with its own colour and marker."""

    what: str
    names: dict[int, str]  # by the numbers that decide on colour and marker
    numbers: Array  # (n,) the group of each sample

    @property
    def have_colours(self) -> bool:
        """Whether the groups are few enough for colours and markers; else they share a colour scale."""
        return len(self.names) <= MOST_GROUPS

    def width(self, height: float) -> float:
        """The approximate width of their legend beside a figure of this height, in inches; 0 if they have none."""
        names = self.names.values() if self.have_colours else [max(self.names.values(), key=len)]
        longest = max(len(legend_name(name)) for name in names)
        columns = canvas.legend_columns(len(names), height)
        return columns * (canvas.LEGEND_HANDLE + canvas.LETTER * longest) if self.what else 0


def groupings(contents: Contents) -> list[Groups]:
    """Groups by class, by cluster, or by both; then a class looks like the cluster that it is matched with."""
    labels = contents.labels_as_text()
    if "assignments" not in contents:
        if labels is None:
            return [Groups("", {0: "samples"}, np.zeros(len(contents["W"]), dtype=int))]
        return [class_groups(labels, {name: i for i, name in enumerate(sorted(set(labels), key=numbers_first))})]
    scores = own_scores(contents)
    places = np.unique(contents["assignments"], return_inverse=True)[1]
    clusters = named_clusters(contents["assignments"], scores)
    of_clusters = Groups("cluster", {cluster.look: cluster.title for cluster in clusters}, places)
    return [class_groups(labels, class_looks(scores)), of_clusters] if labels and scores else [of_clusters]


def class_groups(labels: Sequence[str], looks: dict[str, int]) -> Groups:
    """Groups by class, in the order of ``looks``."""
    return Groups("class", {look: name for name, look in looks.items()}, np.array([looks[label] for label in labels]))


def draw_groups(figure: Figure, axes: Axes, points: Array, groups: Groups) -> None:
    size, rasterized = 20 if len(points) < 2000 else 8, len(points) > canvas.MOST_VECTORS
    style: dict[str, Any] = {"s": size, "alpha": 0.75, "linewidths": 0, "rasterized": rasterized}
    if not groups.have_colours:
        drawn = axes.scatter(points[:, 0], points[:, 1], c=groups.numbers, cmap="cividis", **{**style, "alpha": 1})
        numbers = sorted(groups.names)
        ticks = [numbers[place] for place in np.linspace(0, len(numbers) - 1, 10).round().astype(int)]
        bar = figure.colorbar(drawn, ax=axes, label=groups.what, ticks=ticks)
        bar.set_ticklabels([legend_name(groups.names[tick]) for tick in ticks])
        return
    for number, name in groups.names.items():
        own = points[groups.numbers == number]
        axes.scatter(own[:, 0], own[:, 1], label=legend_name(name), **canvas.shade(number), **style)
    if groups.what:
        canvas.legend_beside(figure, axes, groups.what, handle=1)
