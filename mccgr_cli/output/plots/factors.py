"""Figures of a factorization: how it converged, what weighs how much, what the basis and the samples look like."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from mccgr_cli.blocks.protocol import Array
from mccgr_cli.core.metrics import evaluate, numbers_first
from mccgr_cli.errors import DataError, ParameterError
from mccgr_cli.files.container import Contents
from mccgr_cli.files.readers import Loaded
from mccgr_cli.output.plots.canvas import (
    GREY,
    Note,
    legend_beside,
    legend_width,
    log_scale,
    new_figure,
    shade,
    shorten,
    stroke,
    whole_numbers,
    with_power,
)
from mccgr_cli.settings import SILENCED, Drawing
from mccgr_cli.workflow.stages import require

FEW_ITERATIONS = 20
MOST_FEATURES = 20  # that are named
TINY = 1e-9  # no weight is shown smaller
MOST_TILES = 144  # components of a basis
MOST_GROUPS = 20  # that have a colour and a marker each
MOST_VECTORS = 5000  # points that a vector format holds one by one


def convergence(given: Sequence[Loaded], drawing: Drawing, note: Note) -> Figure:
    """The objective after every iteration: in its terms, or that of several runs beside each other."""
    for one in given:
        require(one, "history/objective")
        lost = np.count_nonzero(~np.isfinite(one.contents["history/objective"]))
        if lost:
            raise DataError(one.name, f"{lost} values of its objective are not finite", "factorize again")
    return terms(given[0], drawing) if len(given) == 1 else several_runs(given, drawing)


def terms(given: Loaded, drawing: Drawing) -> Figure:
    history = {name: given.contents[f"history/{name}"] for name in ("objective", "data", "graph", "sigma")}
    has_sigma = bool(np.isfinite(history["sigma"]).all())
    figure = new_figure(drawing, 6.4, 4.4 if has_sigma else 3.4)
    rows = figure.subplots(1 + has_sigma, sharex=True, squeeze=False, height_ratios=[3, 1][: 1 + has_sigma])[:, 0]
    lines = {"objective": history["objective"]}
    if history["graph"].any():
        lines |= {"data term": history["data"], "graph term": history["graph"]}
    for number, (label, values) in enumerate(lines.items()):
        draw_run(rows[0], number, label, values)
    rows[0].set_ylabel("objective")
    scale_values(rows[0], *lines.values())
    if len(lines) > 1:
        legend_beside(figure, rows[0])
    if has_sigma:
        rows[1].plot(history["sigma"], color=GREY)
        rows[1].set_ylabel("bandwidth σ")
        scale_values(rows[1], history["sigma"])  # as long as all features weigh alike, it is huge
    label_iterations(rows[-1], len(history["objective"]))
    figure.align_ylabels()
    return figure


def several_runs(given: Sequence[Loaded], drawing: Drawing) -> Figure:
    figure = new_figure(drawing, 6.4, 3.4)
    axes = figure.subplots()
    runs = [one.contents["history/objective"] for one in given]
    if min(run[-1] for run in runs) > 0:
        runs = [run / run[-1] for run in runs]
        axes.set_ylabel("objective / its last value")
    else:
        axes.set_ylabel("objective")
    for number, (label, run) in enumerate(zip(file_labels([one.name for one in given]), runs, strict=True)):
        draw_run(axes, number, label, run)
    scale_values(axes, np.concatenate(runs))
    legend_beside(figure, axes)
    label_iterations(axes, max(len(run) for run in runs))
    return figure


def draw_run(axes: Axes, number: int, label: str, values: Array) -> None:
    axes.plot(values, label=label, markevery=(0.03 * number, 0.15), **stroke(number))


def scale_values(axes: Axes, leading: Array, *others: Array) -> None:
    """Logarithmic if the leading values never are 0 and that shows more."""
    values = np.concatenate([leading, *others])
    positive = values[values > 0]
    if leading.min() > 0 and positive.max() > 10 * positive.min():
        log_scale(axes, "y", positive)


def label_iterations(axes: Axes, count: int) -> None:
    """If there are many, logarithmic from the first on, as most happens at the beginning; 0 is the start."""
    axes.set_xlabel("iteration")
    if count > FEW_ITERATIONS:
        log_scale(axes, "x", np.arange(2))
    else:
        whole_numbers(axes.xaxis)


def file_labels(names: Sequence[str]) -> list[str]:
    """Names of files without folders and suffixes, as far as that tells them apart."""
    for brief in (lambda name: Path(name).name.partition(".")[0], lambda name: Path(name).name, str):
        labels = [shorten(brief(name)) for name in names]
        if len(set(labels)) == len(names):
            break
    return labels


def weights(given: Sequence[Loaded], drawing: Drawing, note: Note) -> Figure:
    """All feature weights in order, and the features that weigh least by name."""
    (one,) = given
    require(one, "rho")
    rho = one.contents["rho"]
    if rho.min() == rho.max():
        method = one.contents.attributes.get("method", "its method")
        raise DataError(one.name, f"{method} weighs all features alike", "factorize with --method mccgr or mcc")
    order = np.argsort(-rho, kind="stable")
    silenced = int(np.count_nonzero(rho < SILENCED))
    named = order[-MOST_FEATURES:]
    figure = new_figure(drawing, 7.6, 3.8)
    all_of_them, least = figure.subplots(1, 2, width_ratios=[3, 2])

    for first, last, number, label in (
        (0, len(rho) - silenced, 0, f"{len(rho) - silenced} others"),
        (len(rho) - silenced, len(rho), 1, f"{silenced} silenced (weight < {SILENCED:g})"),
    ):
        style = {**shade(number), "linestyle": "none", "markersize": 3, "rasterized": len(rho) > MOST_VECTORS}
        all_of_them.plot(np.arange(first, last) + 1, rho[order[first:last]], label=label, **style)
    all_of_them.set(xlabel="features, the heaviest first", ylabel="weight ρ", ylim=(-0.03, max(1.03, rho.max())))
    whole_numbers(all_of_them.xaxis)
    all_of_them.legend(loc="lower left", bbox_to_anchor=(0, 1), borderaxespad=0, ncols=2, handlelength=1)

    names = one.contents.datasets.get("feature_names")
    places, shown = np.arange(len(named))[::-1], np.maximum(rho[named], TINY)
    for number, which in enumerate((rho[named] >= SILENCED, rho[named] < SILENCED)):
        least.plot(shown[which], places[which], linestyle="none", **shade(number))
    labels = [shorten(names[j]) if names is not None else f"feature {j}" for j in named]
    least.set_yticks(places, labels, fontsize=8 if len(named) > 12 else 9)
    least.axvline(SILENCED, color=GREY, linestyle=":")
    bounds = min(shown.min(), SILENCED) / 2, max(shown.max(), 1) * 2
    log_scale(least, "x", np.array(bounds))
    clipped = f" ({with_power(TINY)} or less as {with_power(TINY)})" if rho.min() < TINY else ""
    least.set(xlabel=f"weight ρ{clipped}", xlim=bounds)
    least.set_title(f"the {len(named)} lightest" if len(named) < len(rho) else "all of them", loc="left")
    return figure


def basis(given: Sequence[Loaded], drawing: Drawing, note: Note) -> Figure:
    """Every component as an image."""
    (one,) = given
    require(one, "H")
    H = one.contents["H"]  # (k, d)
    height, width = drawing.shape or square(H.shape[1], one.name, drawing.order, note)
    if height * width != H.shape[1]:
        what = f"{height}x{width} is {height * width} pixels, and {one.name} has {H.shape[1]} features"
        raise ParameterError("--shape", what, "give the height and width of the images")
    shown = min(len(H), MOST_TILES)
    if shown < len(H):
        note(f"basis: the first {shown} of {len(H)} components")
    gap = math.ceil(0.2 * min(height, width))  # holds the number of the component below
    columns = min(math.ceil(math.sqrt(shown * (height + gap) / (width + gap))), shown)
    rows = math.ceil(shown / columns)
    mosaic = np.full((rows * (height + gap), columns * (width + gap) - gap), np.nan)
    corners = [(i // columns * (height + gap) + gap, i % columns * (width + gap)) for i in range(shown)]
    for component, (top, left) in zip(H, corners, strict=False):
        image = component.reshape((height, width), order=drawing.order)
        mosaic[top : top + height, left : left + width] = image / max(image.max(), np.finfo(H.dtype).tiny)

    figure = new_figure(drawing, 6.4, min(max(6.4 * mosaic.shape[0] / mosaic.shape[1] + 0.3, 1.5), 9))
    axes = figure.subplots()
    axes.imshow(mosaic, cmap="gray", vmin=0, vmax=1, interpolation="none")
    axes.set_axis_off()
    inch = min(figure.get_size_inches() / np.array(mosaic.shape[::-1]))  # of a pixel
    for number, (top, left) in enumerate(corners):
        size = min(9, 0.7 * 72 * gap * inch)
        axes.text(left - 0.5, top - 0.5 - gap * 0.15, str(number), fontsize=size, va="bottom")
    figure.supxlabel("each component from 0 (black) to its largest value (white)", fontsize=9, wrap=True)
    return figure


def square(features: int, where: str, order: str, note: Note) -> tuple[int, int]:
    """The shape of square images, if the features can be the pixels of such."""
    side = math.isqrt(features)
    if side * side != features:
        what = f"missing, and the {features} features of {where} are not the pixels of a square"
        raise ParameterError("--shape", what, "give HEIGHTxWIDTH, if they are pixels")
    lines = {"C": "row by row", "F": "column by column"}[order]
    note(f"basis: taken as images of {side}x{side} pixels, {lines}; --shape and --order say otherwise")
    return side, side


def embedding(given: Sequence[Loaded], drawing: Drawing, note: Note) -> Figure:
    """The samples in the plane in which their coefficients vary most, by class and by cluster."""
    (one,) = given
    require(one, "W")
    points, shares = principal_plane(one)
    panels = groupings(one.contents)
    height = 4.0
    figure = new_figure(drawing, sum(3.8 + groups.width(height) for groups in panels), height)
    for axes, groups in zip(figure.subplots(1, len(panels), squeeze=False)[0], panels, strict=True):
        draw_groups(figure, axes, points, groups)
        axes.set_aspect("equal", adjustable="datalim")
        for which, name, share in zip("xy", ("PC 1", "PC 2"), shares, strict=True):
            axes.set(**{f"{which}label": f"{name} of W ({100 * share:.1f} % of variance)"})
    return figure


def principal_plane(given: Loaded) -> tuple[Array, Array]:
    """The samples in the plane of the first two principal components of W, and the shares of variance there."""
    W = given.contents["W"].astype(np.float64)
    if min(W.shape) < 2:
        what = f"W is {W.shape[0]} x {W.shape[1]}, which spans no plane"
        raise DataError(given.name, what, "factorize with --k 2 or more")
    centred = W - W.mean(axis=0)
    _, lengths, directions = np.linalg.svd(centred, full_matrices=False)
    if lengths[0] == 0:
        raise DataError(given.name, "all samples have the same coefficients", "factorize again, with another start")
    plane = directions[:2]
    plane = plane * np.sign(plane[np.arange(2), np.abs(plane).argmax(axis=1)])[:, None]  # a sign of our own choice
    return centred @ plane.T, (lengths**2 / (lengths**2).sum())[:2]


@dataclass(frozen=True)
class Groups:
    """What samples are told apart by."""

    what: str
    names: dict[int, str]  # by the numbers that decide how a group looks
    numbers: Array  # (n,) the group of each sample

    @property
    def have_colours(self) -> bool:
        """Whether there are so few that each can have a colour and a marker of its own."""
        return len(self.names) <= MOST_GROUPS

    def width(self, height: float) -> float:
        """Inches that their names take beside a figure of this height."""
        names = list(self.names.values())
        return legend_width(names if self.have_colours else [max(names, key=len)], height) if self.what else 0


def groupings(contents: Contents) -> list[Groups]:
    """By class, by cluster, or by both; a cluster then looks like the class that it is matched with."""
    labels, assignments = contents.labels_as_text(), contents.datasets.get("assignments")
    if labels is None:
        if assignments is None:
            return [Groups("", {0: "samples"}, np.zeros(len(contents["W"]), dtype=int))]
        ids, numbers = np.unique(assignments, return_inverse=True)
        return [Groups("cluster", {i: str(cluster) for i, cluster in enumerate(ids)}, numbers)]
    place = {name: i for i, name in enumerate(sorted(set(labels), key=numbers_first))}
    classes = Groups("class", {i: name for name, i in place.items()}, np.array([place[label] for label in labels]))
    if assignments is None:
        return [classes]
    scores = evaluate(labels, assignments)
    matched = dict(zip(scores.clusters, scores.matches, strict=False))
    number = {
        cluster: place[matched[cluster]] if cluster in matched else i for i, cluster in enumerate(scores.clusters)
    }
    names = {number[c]: f"{c} ({matched[c]})" if c in matched else str(c) for c in scores.clusters}
    return [classes, Groups("cluster", names, np.array([number[cluster] for cluster in assignments]))]


def draw_groups(figure: Figure, axes: Axes, points: Array, groups: Groups) -> None:
    size, rasterized = 20 if len(points) < 2000 else 8, len(points) > MOST_VECTORS
    style: dict[str, Any] = {"s": size, "alpha": 0.75, "linewidths": 0, "rasterized": rasterized}
    if not groups.have_colours:
        drawn = axes.scatter(points[:, 0], points[:, 1], c=groups.numbers, cmap="cividis", **{**style, "alpha": 1})
        numbers = sorted(groups.names)
        ticks = [numbers[place] for place in np.linspace(0, len(numbers) - 1, 10).round().astype(int)]
        bar = figure.colorbar(drawn, ax=axes, label=groups.what, ticks=ticks)
        bar.set_ticklabels([shorten(groups.names[tick]) for tick in ticks])
        return
    for number in sorted(groups.names):
        own = points[groups.numbers == number]
        axes.scatter(own[:, 0], own[:, 1], label=shorten(groups.names[number]), **shade(number), **style)
    if groups.what:
        legend_beside(figure, axes, groups.what, handle=1)
