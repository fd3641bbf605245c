"""Figures of an experiment: scores by the number of clusters or by a parameter, and the iterations that runs need."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from scipy.special import stdtrit

from mccgr_cli.blocks.protocol import Array
from mccgr_cli.errors import DataError, ParameterError
from mccgr_cli.files.container import RESULTS
from mccgr_cli.files.readers import Loaded
from mccgr_cli.output.plots import canvas
from mccgr_cli.output.text import number_format
from mccgr_cli.settings import SWEPT, Drawing
from mccgr_cli.workflow.comparison import setting_as_text

SCORES = {"accuracy": "accuracy", "nmi": "NMI"}
QUANTITIES = ("alpha", "strength", "theta", "keep", "neighbors")  # parameters that may be on a logarithmic axis
MOST_LINES = 16
MOST_TICKS = 10
BAND = 0.15  # opacity of an interval; paler if there are more than BANDS, which overlap
BANDS = 4

Table = dict[str, Array]


def select(file: Loaded, only: Sequence[tuple[str, tuple[str, ...]]]) -> Loaded:
    """Results of only the runs whose columns have one of the wanted values."""
    if only and file.contents.kind != "results":
        raise ParameterError("--only", f"{file.name} holds no results of an experiment", "leave it out")
    for name, wanted in only:
        if name not in RESULTS:
            raise ParameterError("--only", f"results have no column {name!r}", f"they have {', '.join(RESULTS)}")
        column = np.asarray(file.contents[name])
        keep = np.zeros(len(column), dtype=bool)
        for value in wanted:
            same = column == (value if RESULTS[name].type == "text" else as_number(value))
            if not same.any():
                there = ", ".join(setting_as_text(value) for value in distinct(column)[:MOST_LINES])
                raise ParameterError("--only", f"{file.name} has no run with {name}={value}", f"it has {there}")
            keep |= same
        datasets = {name: np.asarray(values)[keep] for name, values in file.contents.datasets.items()}
        file = replace(file, contents=replace(file.contents, datasets=datasets))
    return file


def as_number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return np.nan  # equals no value


def table_of(file: Loaded) -> Table:
    return {name: np.asarray(values) for name, values in file.contents.datasets.items()}


def distinct(values: Array) -> Array:
    """The different values, sorted, without nan, which means that a parameter does not apply."""
    found = np.unique(values)
    return found if found.dtype.kind == "U" else found[~np.isnan(found)]


def swept(table: Table) -> str | None:
    """The first parameter that has several values with one method."""
    runs = methods(table).values()
    return next((name for name in SWEPT if any(len(distinct(table[name][own])) > 1 for own in runs)), None)


def default_figure(file: Loaded) -> str:
    """Scores if K varies, or a sweep if another parameter varies, or iterations."""
    table = table_of(file)
    if len(distinct(table["k"])) > 1:
        return "scores"
    return "sweep" if swept(table) else "iterations"


def methods(table: Table) -> dict[str, Array]:
    """The runs of each method, as masks, in the order of the file."""
    return {method: table["method"] == method for method in dict.fromkeys(table["method"].tolist())}


def lines(table: Table, along: str, where: str) -> dict[str, Array]:
    """The runs of each line by its label: one line for each method and each value of other columns that vary."""
    found: dict[str, Array] = {}
    for method, own in methods(table).items():
        varied = [name for name in ("k", *SWEPT) if name != along and len(np.unique(table[name][own])) > 1]
        runs = np.flatnonzero(own)
        if varied:
            runs = runs[np.lexsort([table[name][runs] for name in reversed(varied)])]
        for run in runs:
            values = [(name, table[name][run]) for name in varied]
            parts = [
                f"{'K' if name == 'k' else name} = {setting_as_text(value)}" for name, value in values if value == value
            ]
            found.setdefault(", ".join([method, *parts]), np.zeros(len(own), dtype=bool))[run] = True
    if len(found) > MOST_LINES:
        remedy = "choose some of them, for instance with --only k=5 --only method=mccgr"
        raise DataError(where, f"{len(found)} lines are too many for one figure", remedy)
    return found


def scores(loaded: Sequence[Loaded], drawing: Drawing, note: canvas.Note) -> Figure:
    """Accuracy and NMI by the number of clusters."""
    (one,) = loaded
    table = table_of(one)
    if len(distinct(table["k"])) < 2:
        what = f"K is {table['k'][0]} in all runs, and scores are drawn against K"
        raise DataError(one.name, what, f"draw --figure {default_figure(one)}, or run several --k")
    return score_panels(one, table, "k", "number of clusters K", drawing)


def sweep(loaded: Sequence[Loaded], drawing: Drawing, note: canvas.Note) -> Figure:
    """Accuracy and NMI by the parameter that varies; methods without it are horizontal lines."""
    (one,) = loaded
    table = table_of(one)
    along = swept(table)
    if along is None:
        remedy = f"draw --figure {default_figure(one)}, or run several --alpha"
        raise DataError(one.name, "no parameter varies in it", remedy)
    return score_panels(one, table, along, along, drawing)


def score_panels(file: Loaded, table: Table, along: str, label: str, drawing: Drawing) -> Figure:
    placed = np.zeros(len(table[along]), dtype=bool)  # the runs with a place on the x axis
    for own in methods(table).values():
        if along == "k" or len(distinct(table[along][own])) > 1:
            placed |= own & np.isin(table[along], distinct(table[along]))
    places = np.unique(table[along][placed]).tolist()
    position = dict(zip(places, range(len(places)) if isinstance(places[0], str) else places, strict=True))
    drawn = lines(table, along, file.name)
    opacity = BAND * min(1, BANDS / len(drawn))
    counts: set[int] = set()
    figure = canvas.new_figure(drawing, 9.4, 3.6)
    panels = figure.subplots(1, len(SCORES))
    for axes, (score, title) in zip(panels, SCORES.items(), strict=True):
        for number, (name, runs) in enumerate(drawn.items()):
            xs = np.unique(table[along][runs & placed]).tolist()
            groups = [table[score][runs & (table[along] == x)] for x in xs] or [table[score][runs]]
            counts |= {len(group) for group in groups}
            draw_line(axes, number, name, [position[x] for x in xs], groups, opacity)
        axes.set(xlabel=label, ylabel=title)
        scale_parameter(axes, position, along in QUANTITIES)
    many = str(max(counts)) if len(counts) == 1 else f"{min(counts)} to {max(counts)}"
    canvas.legend_beside(
        figure, panels[-1], "single runs" if counts == {1} else f"mean of {many} runs\nand its 95 % interval"
    )
    return figure


def draw_line(axes: Axes, i: int, label: str, xs: Sequence[float], groups: Sequence[Array], opacity: float) -> None:
    """The means of the groups at xs and their 95 % confidence intervals, by Student's t; without xs a horizontal line.

    The mean of a single value has no interval.
    """
    label, style = canvas.legend_name(label), canvas.stroke(i)
    means = np.array([group.mean() for group in groups])
    counts = [len(group) for group in groups]
    deviations = [group.std(ddof=1) if len(group) > 1 else 0 for group in groups]
    halves = np.array([stdtrit(max(n - 1, 1), 0.975) * s / np.sqrt(n) for n, s in zip(counts, deviations, strict=True)])
    low, high = np.clip([means - halves, means + halves], 0, 1)
    if xs:
        axes.plot(xs, means, label=label, **style)
        axes.fill_between(xs, low, high, color=style["color"], alpha=opacity, linewidth=1 if len(xs) == 1 else 0)
    else:
        axes.axhline(means[0], label=label, color=style["color"], linestyle=style["linestyle"])
        axes.axhspan(low[0], high[0], color=style["color"], alpha=opacity, linewidth=0)


def scale_parameter(axes: Axes, position: dict[Any, float], logarithmic: bool) -> None:
    places = np.array(list(position.values()), dtype=float)
    positive = places[places > 0]
    if logarithmic and places.min() >= 0 and positive.max() >= 10 * positive.min():
        canvas.log_scale(axes, "x", places)
    if len(places) <= MOST_TICKS:
        number = number_format(places)
        axes.set_xticks(places, [value if isinstance(value, str) else number(value) for value in position])
    elif not logarithmic:
        canvas.whole_numbers(axes.xaxis)


def iterations(loaded: Sequence[Loaded], drawing: Drawing, note: canvas.Note) -> Figure:
    """The share of runs whose objective has settled, by method and number of iterations."""
    (one,) = loaded
    table = table_of(one)
    iterated = table["iterations"] > 0
    if not iterated.any():
        raise DataError(one.name, "none of its runs iterated", "run an experiment with a method besides k-means")
    figure = canvas.new_figure(drawing, 6.8, 3.6)
    axes = figure.subplots()
    found = {method: own & iterated for method, own in methods(table).items() if (own & iterated).any()}
    for number, (method, own) in enumerate(found.items()):
        settled = np.sort(table["settled"][own])
        shares = 100 * np.arange(1, len(settled) + 1) / len(settled)
        xs, ys = [0, *settled, table["iterations"].max()], [0, *shares, 100]
        style = {**canvas.stroke(number), "markevery": (1 + number, max(len(xs) // 6, 1))}
        label = f"{canvas.legend_name(method)} ({np.count_nonzero(table['converged'][own])} of {len(settled)})"
        axes.step(xs, ys, where="post", label=label, **style)
    text = "iterations until the objective stays\nwithin 1 % of its last value"
    axes.set(xlabel=text, ylabel="share of runs (%)", xlim=0, ylim=(0, 102))
    canvas.whole_numbers(axes.xaxis)
    canvas.legend_beside(figure, axes, "method (runs that converged)")
    return figure
