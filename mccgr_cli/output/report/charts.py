"""Charts as SVG. Colours come from the style of the page, so that they follow its theme."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from mccgr_cli.blocks.protocol import Array
from mccgr_cli.output.report.markup import Markup, tag
from mccgr_cli.settings import SILENCED

WIDTH, HEIGHT = 440, 260  # units of the drawing, which is scaled to the page
LEFT, RIGHT, TOP, BOTTOM = 78, 12, 12, 44  # margins for ticks and labels
MOST_POINTS = 400  # of a line: more than it has pixels show nothing
FEW_ITERATIONS = 20
MARKERS = {  # by their numbers: outlines within 12 x 12, also drawn by the script of the page
    0: "M6 1.5a4.5 4.5 0 1 0 0 9a4.5 4.5 0 1 0 0-9z",
    1: "M2 2h8v8h-8z",
    2: "M6 1.2l5 9h-10z",
    3: "M6 .6l5.4 5.4l-5.4 5.4l-5.4-5.4z",
    4: "M6 10.8l5-9h-10z",
    5: "M4.2 1h3.6v3.2h3.2v3.6h-3.2v3.2h-3.6v-3.2h-3.2v-3.6h3.2z",
    6: "M3.2.8l2.8 2.8l2.8-2.8l2.4 2.4l-2.8 2.8l2.8 2.8l-2.4 2.4l-2.8-2.8l-2.8 2.8l-2.4-2.4l2.8-2.8l-2.8-2.8z",
    7: "M1.2 6l9-5v10z",
    8: "M10.8 6l-9-5v10z",
}
LARGEST = 1e300  # value with a place of its own: axes reach beyond it, and are finite
COLOURS = 8  # variables --c0 to --c7 of the style


def marker(look: int) -> Markup:
    """The sign of a group: 8 colours and 9 outlines, so that the first 72 differ."""
    outline = tag("path", d=MARKERS[look % len(MARKERS)])
    return tag("svg", outline, class_=f"marker c{look % COLOURS}", viewBox="0 0 12 12", aria_hidden="true")


@dataclass(frozen=True)
class Scale:
    """From values to places, with ticks."""

    place: Callable[[Array], Array]
    ticks: list[tuple[float, str]]  # places and texts


@dataclass(frozen=True)
class Line:
    name: str
    values: Array
    style: int = 0


def drawable(values: Array) -> Array:
    return np.where(np.isfinite(values), np.clip(values, -LARGEST, LARGEST), np.nan)


def chart(title: str, story: str, lines: Sequence[Line], x: Scale, y: Scale, labels: tuple[str, str]) -> Markup:
    """Lines over 0, 1, 2, ...; values that are not finite leave a gap."""
    grid, texts = [], []
    for place, text in y.ticks:
        grid.append(tag("path", d=f"M{LEFT} {place:.1f}H{WIDTH - RIGHT}"))
        texts.append(tag("text", text, x=LEFT - 8, y=f"{place + 4:.1f}", text_anchor="end"))
    for place, text in x.ticks:
        grid.append(tag("path", d=f"M{place:.1f} {HEIGHT - BOTTOM}v4"))
        texts.append(tag("text", text, x=f"{place:.1f}", y=HEIGHT - BOTTOM + 18, text_anchor="middle"))
    across, up = (LEFT + WIDTH - RIGHT) / 2, (TOP + HEIGHT - BOTTOM) / 2
    texts.append(tag("text", labels[0], x=across, y=HEIGHT - 6, text_anchor="middle", class_="label"))
    turned = f"translate(12 {up}) rotate(-90)"
    texts.append(tag("text", labels[1], transform=turned, text_anchor="middle", class_="label"))
    drawn = [tag("path", d=path_of(line.values, x, y), class_=f"line line{line.style}") for line in lines]
    key = [tag("li", swatch(line.style), line.name) for line in lines] if len(lines) > 1 else []
    image = tag(
        "svg",
        *(tag("title", title), tag("desc", story)),
        *(tag("g", grid, class_="grid"), tag("g", drawn), tag("g", texts, class_="ticks")),
        viewBox=f"0 0 {WIDTH} {HEIGHT}",
        role="img",
        class_="chart",
    )
    caption = tag("figcaption", tag("strong", title), tag("ul", key, class_="key") if key else None)
    return tag("figure", caption, image)


def swatch(style: int) -> Markup:
    return tag("svg", tag("path", d="M0 5h24", class_=f"line line{style}"), viewBox="0 0 24 10", aria_hidden="true")


def path_of(values: Array, x: Scale, y: Scale) -> str:
    """Of many values those that can be told apart on the axis. A lone one is a dot: a line of no length."""
    xs = x.place(np.arange(len(values)))
    kept = np.arange(len(values))
    if len(values) > MOST_POINTS:
        kept = np.unique(np.searchsorted(xs, np.linspace(xs[0], xs[-1], MOST_POINTS)).clip(0, len(values) - 1))
    parts, begun = [], False
    for place, value in zip(xs[kept], values[kept], strict=True):
        if not math.isfinite(value):
            begun = False
            continue
        height = float(np.clip(y.place(np.array([value])), TOP, HEIGHT - BOTTOM)[0])
        parts.append(f"{'L' if begun else 'M'}{place:.1f} {height:.1f}")
        begun = True
    return "".join(parts) + ("h0" if len(parts) == 1 else "")


def upwards(*values: Array, least: float | None = None) -> Scale:
    """Logarithmic if that shows more and all of the first values can be shown so."""
    together = np.concatenate(values)
    together = together[np.isfinite(together)]
    if not len(together):
        together = np.zeros(1)
    leading, positive = values[0][np.isfinite(values[0])], together[together > 0]
    span = HEIGHT - BOTTOM - TOP
    if least is None and len(leading) and leading.min() > 0 and positive.max() > 10 * positive.min():
        ends = math.log10(max(positive.min(), positive.max() * 1e-12)), math.log10(positive.max())
        margin = 0.04 * (ends[1] - ends[0])
        low, high = ends[0] - margin, ends[1] + margin

        def logarithmic(given: Array) -> Array:
            logs = np.log10(np.maximum(given, 10.0**low))
            return np.asarray(HEIGHT - BOTTOM - span * (logs - low) / (high - low))

        return with_ticks(logarithmic, power_ticks(low, high))
    low, high = (float(together.min()) if least is None else least), float(together.max())
    margin = 0.04 * (high - low) or abs(high) * 0.1 or 1.0
    low, high = low - (margin if least is None else 0), high + margin

    def linear(given: Array) -> Array:
        return HEIGHT - BOTTOM - span * (given - low) / (high - low)

    return with_ticks(linear, even_ticks(low, high))


def with_ticks(place: Callable[[Array], Array], ticks: Sequence[float]) -> Scale:
    places = place(np.array(ticks, dtype=float))
    return Scale(place, [(float(at), number(value)) for at, value in zip(places, ticks, strict=True)])


def iterations(count: int) -> Scale:
    """From 0; if there are many, by powers of ten, as most happens at the beginning."""
    span = WIDTH - RIGHT - LEFT
    if count <= FEW_ITERATIONS:
        ticks = sorted({round(tick) for tick in even_ticks(0, max(count - 1, 1))})
        return with_ticks(lambda given: LEFT + span * given / max(count - 1, 1), ticks)
    ticks = [0, *(10**power for power in range(len(str(count - 1))))]
    return with_ticks(lambda given: LEFT + span * np.log1p(given) / math.log(count), ticks)


def ranks(count: int) -> Scale:
    span = WIDTH - RIGHT - LEFT
    ticks = sorted({max(round(tick), 1) for tick in even_ticks(1, max(count, 2), 4)})
    scale = with_ticks(lambda given: LEFT + span * (given - 1) / max(count - 1, 1), ticks)
    return Scale(lambda given: LEFT + span * given / max(count - 1, 1), scale.ticks)


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
    """Powers of ten, and where these are few, 2 and 5 times as much."""
    found: list[float] = []
    for factors in ((1,), (1, 3), (1, 2, 5)):
        powers = range(math.floor(low), math.ceil(high) + 1)
        found = [f * 10.0**p for p in powers for f in factors if low <= math.log10(f * 10.0**p) <= high]
        if len(found) >= 3:
            break
    return found[:: math.ceil(len(found) / 6)] if found else []


def number(value: float) -> str:
    """
    >>> number(0), number(1500), number(0.25), number(2e7), number(1e-9)
    ('0', '1,500', '0.25', '2e7', '1e-9')
    """
    if value == 0:
        return "0"
    if 1e-4 <= abs(value) < 1e6:
        return f"{value:,.10g}" if abs(value) >= 1000 else f"{value:.4g}"
    mantissa, _, exponent = f"{value:.3g}".partition("e")
    return f"{mantissa}e{int(exponent)}" if exponent else mantissa


def convergence(history: dict[str, Array]) -> list[Markup]:
    """The objective and its terms; and the bandwidth, where the method has one."""
    count = len(history["objective"])
    lines = [Line("objective", drawable(history["objective"]))]
    if np.nan_to_num(history["graph"]).any():
        lines += [Line("data term", drawable(history["data"]), 1), Line("graph term", drawable(history["graph"]), 2)]
    x, y = iterations(count), upwards(*(line.values for line in lines))
    first, last = history["objective"][0], history["objective"][-1]
    story = f"Line chart of {count - 1} iterations; the objective goes from {first:.6g} to {last:.6g}."
    drawn = [chart("Objective", story, lines, x, y, ("iteration", "objective"))]
    sigma = history["sigma"]
    if np.isfinite(sigma).any():
        known = sigma[np.isfinite(sigma)]
        story = f"Line chart of {count - 1} iterations; the bandwidth goes from {known[0]:.4g} to {known[-1]:.4g}."
        line = Line("σ", drawable(sigma), 3)
        drawn.append(chart("Bandwidth", story, [line], x, upwards(line.values), ("iteration", "σ")))
    return drawn


def weights(rho: Array) -> Markup:
    """All weights in order, the heaviest first."""
    values = drawable(np.sort(rho)[::-1])
    silenced = int((rho < SILENCED).sum())
    story = (
        f"The weights of {len(rho)} features from {values[0]:.3g} down to {values[-1]:.3g}; {silenced} are silenced."
    )
    y = upwards(values, np.ones(1), least=0.0)
    return chart("Weights of the features", story, [Line("weight", values)], ranks(len(rho)), y, ("rank", "weight ρ"))
