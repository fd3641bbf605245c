"""Charts as SVG: where lines and ticks go. ``templates/chart.html`` draws them."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from mccgr_cli.blocks.protocol import Array
from mccgr_cli.output.curves import Chart
from mccgr_cli.output.text import number_format

MOST_POINTS = 400  # of a line: it has no more pixels
LARGEST = 1e300  # larger values are drawn here; the axis reaches beyond it and stays finite
MARGIN = 0.04  # of the y axis

Place = Callable[[Array], Array]  # from values to coordinates
Ticks = list[tuple[float, str]]  # coordinates and texts

# Coordinates of the drawing, and within it of the axes, around which is room for ticks and labels.
FRAME = {"width": 440, "height": 260, "left": 78, "right": 428, "top": 12, "bottom": 216}
LEFT, RIGHT, TOP, BOTTOM = (FRAME[side] for side in ("left", "right", "top", "bottom"))


def draw(chart: Chart) -> dict[str, Any]:
    """What the template draws: the paths (their styles and outlines) and the ticks of both axes."""
    lines = [np.where(np.isfinite(line.values), line.values, np.nan).clip(-LARGEST, LARGEST) for line in chart.lines]
    x, x_ticks = x_axis(chart, max(map(len, lines)))
    y, y_ticks = y_axis(chart, np.concatenate(lines))
    paths = [(one.style, outline(values, x, y)) for one, values in zip(chart.lines, lines, strict=True)]
    return {"chart": chart, "paths": paths, "x_ticks": x_ticks, "y_ticks": y_ticks}


def outline(values: Array, x: Place, y: Place) -> str:
    """The path of a line, without points that nobody could see. A single point becomes a dot: a very short line."""
    xs = x(np.arange(len(values)))
    kept = np.arange(len(values))
    if len(values) > MOST_POINTS:
        kept = np.unique(np.searchsorted(xs, np.linspace(xs[0], xs[-1], MOST_POINTS)).clip(0, len(values) - 1))
    heights = np.clip(y(values[kept]), TOP, BOTTOM)
    parts, command = [], "M"
    for across, height in zip(xs[kept], heights, strict=True):
        if math.isfinite(height):
            parts.append(f"{command}{across:.1f} {height:.1f}")
        command = "L" if math.isfinite(height) else "M"
    return "".join(parts) + ("h.1" if len(parts) == 1 else "")


def x_axis(chart: Chart, count: int) -> tuple[Place, Ticks]:
    """The axis of the values 0, 1, ... of a line, which are shown as ``chart.first``, ``chart.first`` + 1, ..."""
    most, scale = max(count - 1, 1), np.log1p if chart.log_x else np.asarray
    if chart.log_x:
        values = [0, *(10**power for power in range(len(str(most))))]
    else:
        rough = even_ticks(chart.first, chart.first + most, 4 if chart.first else 5)
        values = sorted({max(round(tick), chart.first) for tick in rough})

    def place(given: Array) -> Array:
        return LEFT + (RIGHT - LEFT) * scale(given) / scale(most)

    return place, with_texts(place, values, chart.first)


def y_axis(chart: Chart, values: Array) -> tuple[Place, Ticks]:
    values = values[np.isfinite(values)]
    height = BOTTOM - TOP
    if chart.log_y:
        positive = values[values > 0]
        high = math.log10(positive.max())
        low = max(math.log10(positive.min()), high - 12)
        low, high = low - MARGIN * (high - low), high + MARGIN * (high - low)

        def logarithmic(given: Array) -> Array:
            logs = np.log10(np.fmax(given, 10.0**low))
            return np.where(np.isnan(given), np.nan, BOTTOM - height * (logs - low) / (high - low))

        return logarithmic, with_texts(logarithmic, power_ticks(low, high))
    low, high = (float(values.min()), float(values.max())) if len(values) else (0.0, 0.0)
    if chart.span is not None:
        low, high = chart.span[0], min(chart.span[1], LARGEST)
    margin = MARGIN * (high - low) or abs(high) * 0.1 or 1.0
    low, high = low if chart.span is not None else low - margin, high + margin

    def linear(given: Array) -> Array:
        return BOTTOM - height * (given - low) / (high - low)

    return linear, with_texts(linear, even_ticks(low, high))


def with_texts(place: Place, values: list[float] | list[int], first: int = 0) -> Ticks:
    ticks = np.array(values, dtype=float)
    text = number_format(ticks)
    return [(float(at), text(value)) for at, value in zip(place(ticks - first), values, strict=True)]


def even_ticks(low: float, high: float, about: int = 5) -> list[float]:
    """Round numbers within bounds.

    >>> even_ticks(0, 1), even_ticks(3, 47)
    ([0.0, 0.2, 0.4, 0.6, 0.8, 1.0], [10.0, 20.0, 30.0, 40.0])
    """
    rough = (high - low) / about
    unit = 10.0 ** math.floor(math.log10(rough))
    step = min((unit * factor for factor in (1, 2, 5, 10)), key=lambda size: abs(size - rough))
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [float(f"{i * step:.12g}") for i in range(first, last + 1)]


def power_ticks(low: float, high: float) -> list[float]:
    """Powers of ten between 10^low and 10^high; multiples of them where powers are few."""
    found: list[float] = []
    for factors in ((1,), (1, 3), (1, 2, 5)):
        exponents = range(math.floor(low), math.ceil(high) + 1)
        found = [f * 10.0**p for p in exponents for f in factors if low <= p + math.log10(f) <= high]
        if len(found) >= 3:
            break
    return found[:: math.ceil(len(found) / 6)] if found else []
