"""What all figures share: their style, legends and axes, and how they become bytes. No pyplot, which keeps state."""

from __future__ import annotations

import io
import math
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullLocator

from mccgr_cli import __version__
from mccgr_cli.blocks.protocol import Array
from mccgr_cli.errors import ParameterError, one_line
from mccgr_cli.output.colours import COLOURS, MARKERS
from mccgr_cli.output.text import number_format, shorten
from mccgr_cli.settings import Drawing

# Dashes and markers distinguish lines in black and white too.
DASHES: tuple[Any, ...] = ("-", (0, (5, 1.5)), (0, (5, 1.5, 1, 1.5)), (0, (1, 1)), (0, (8, 1.5, 1, 1.5, 1, 1.5)))
GREY = "#767676"
GLYPHS = tuple(MARKERS)

LOOK: Any = {
    "font.size": 9,
    "axes.labelsize": 10,
    "axes.titlesize": 10,
    "figure.titlesize": 11,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#e4e4e4",
    "grid.linewidth": 0.6,
    "legend.frameon": False,
    "lines.linewidth": 1.5,
    "lines.markersize": 5,
    "text.parse_math": False,  # a $ in a name is a $
    "svg.fonttype": "none",  # text stays text
    "svg.hashsalt": "mccgr",  # the same figure, the same bytes
    "pdf.fonttype": 42,
}
MOST_LETTERS = 28
LEGEND_ROW, LEGEND_HANDLE, LETTER = 0.2, 0.35, 0.075  # sizes in inches
SLACK = 0.02  # of the size of a figure: the size of text depends on the resolution
MARGIN = 0.3  # inches around text that did not fit
DPI = 150  # of a PNG
DPI_WITHIN = 300  # of parts of a vector format that are pixels
MOST_PIXELS = 200_000_000
MOST_VECTORS = 5000  # more points become pixels in vector formats too

Note = Callable[[str], None]  # called with what the user should know


@contextmanager
def our_look() -> Iterator[None]:
    """Draw in our style, and restore the style of the user afterwards."""
    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(LOOK)
        yield


def new_figure(drawing: Drawing, width: float, height: float) -> Figure:
    figure = Figure(figsize=drawing.size or (width, height), layout="constrained")
    if drawing.title:
        figure.suptitle(one_line(drawing.title), wrap=True)
    return figure


def encode(figure: Figure, form: str, dpi: int | None, source: str, note: Note, may_grow: bool = False) -> bytes:
    """The figure as a file; ``source`` says in its metadata what it was drawn from.

    ``may_grow``: a figure whose text does not fit is made larger, once.
    """
    dots = dpi or (DPI if form == "png" else DPI_WITHIN)
    width, height = figure.get_size_inches()
    if form == "png" and width * height * dots**2 > MOST_PIXELS:
        what = f"{width * dots:.0f} x {height * dots:.0f} pixels are more than a figure needs"
        raise ParameterError("--dpi", what, "choose a lower one, or a smaller --size")
    made_by = f"mccgr {__version__}"
    metadata: Any = {
        "png": {"Software": made_by, "Source": source},
        "svg": {"Creator": made_by, "Source": source, "Date": None},
        "pdf": {"Creator": made_by, "Subject": source, "CreationDate": None},
    }[form]
    buffer = io.BytesIO()
    figure.set_dpi(dots)  # at which its text is measured below: hinting makes letters up to a tenth wider at others
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)  # for example if the font lacks a character
        figure.savefig(buffer, format=form, dpi=dots, metadata=metadata)
        drawn = figure.get_tightbbox()
        if max(-drawn.x0, -drawn.y0, drawn.x1 - width, drawn.y1 - height) >= SLACK * max(width, height):
            if may_grow:
                figure.set_size_inches(max(width, drawn.width) + MARGIN, max(height, drawn.height) + MARGIN)
                return encode(figure, form, dpi, source, note)
            what = f"{width:g} x {height:g} inches are too few for the text of the figure"
            raise ParameterError("--size", what, "choose a larger size")
    remarks = list(dict.fromkeys(str(one.message) for one in caught if issubclass(one.category, UserWarning)))
    for remark in remarks[:1]:
        note(f"matplotlib: {remark}" + (f" And {len(remarks) - 1} more." if remarks[1:] else ""))
    return buffer.getvalue()


def shade(number: int) -> dict[str, Any]:
    """Colour and marker of the group with this number."""
    return {"color": COLOURS[number % len(COLOURS)], "marker": GLYPHS[number % len(GLYPHS)]}


def stroke(number: int) -> dict[str, Any]:
    """Colour, marker and dashes of the line with this number."""
    return {**shade(number), "linestyle": DASHES[number % len(DASHES)]}


def legend_beside(figure: Figure, axes: Axes, title: str = "", handle: float = 2.8) -> None:
    """A legend to the right, in as many columns as fit its height."""
    entries = len(axes.get_legend_handles_labels()[1])
    axes.legend(
        loc="upper left",
        bbox_to_anchor=(1.01, 1),
        borderaxespad=0,
        title=title,
        alignment="left",
        handlelength=handle,
        ncols=legend_columns(entries, figure.get_size_inches()[1]),
    )


def legend_columns(entries: int, height: float) -> int:
    return math.ceil(entries / max(int((height - 0.8) / LEGEND_ROW), 1))


def legend_name(text: str) -> str:
    """A name that fits beside a figure."""
    return shorten(text, MOST_LETTERS)


def log_scale(axes: Axes, which: str, values: Array) -> None:
    """A logarithmic x or y axis; it begins with 0 if there are zeros among the values."""
    positive = values[values > 0]
    scale = {"linthresh": positive.min(), "linscale": 0.5} if values.min() == 0 else {}
    getattr(axes, f"set_{which}scale")("symlog" if scale else "log", **scale)
    axis = axes.xaxis if which == "x" else axes.yaxis
    if not scale:
        decades = math.log10(positive.max() / positive.min())
        axis.set_major_locator(LogLocator(subs=(1.0,) if decades > 2 else (1.0, 2.0, 5.0), numticks=6))
    text = number_format(values)
    axis.set_major_formatter(FuncFormatter(lambda value, _: text(value)))
    axis.set_minor_locator(NullLocator())
    if scale:
        axes.set(**{f"{which}lim": (-0.2 * scale["linthresh"], None)})


def whole_numbers(axis: Axis) -> None:
    axis.set_major_locator(MaxNLocator(integer=True, steps=[1, 2, 5, 10]))
