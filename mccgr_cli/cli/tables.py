"""Plain text for the terminal."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from typing import Any

from mccgr_cli.errors import one_line


def aligned(rows: Sequence[Sequence[str]]) -> str:
    """Columns side by side: the first to the left, the others, which are figures, to the right.

    >>> print(aligned([["a", "1"], ["bb", "10"]]))
    a    1
    bb  10
    """
    cells = [[one_line(cell) for cell in row] for row in rows]
    widths = [max(len(cell) for cell in column) for column in zip(*cells, strict=True)]
    return "\n".join(
        "  ".join([row[0].ljust(widths[0]), *(c.rjust(w) for c, w in zip(row[1:], widths[1:], strict=True))])
        for row in cells
    )


def pairs(facts: Iterable[tuple[object, object]]) -> str:
    """Names and values side by side, both to the left."""
    cells = [(one_line(str(name)), one_line(str(value))) for name, value in facts]
    width = max(len(name) for name, _ in cells)
    return "\n".join(f"  {name.ljust(width)}  {value}".rstrip() for name, value in cells)


def csv_text(header: Iterable[object] | None, rows: Iterable[Iterable[object]]) -> str:
    """Rows below a header, if there is one.

    >>> csv_text(["a", "b"], [[1, "x,y"]])
    'a,b\\n1,"x,y"'
    """
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([*([] if header is None else [header]), *rows])
    return text.getvalue().rstrip("\n")


def shape_of(value: Any) -> str:
    """Shape and type of a dataset in a few words."""
    if not hasattr(value, "shape"):
        return f"{len(value)} names"
    shape = " x ".join(str(length) for length in value.shape)
    values = getattr(value, "nnz", None)
    stored = "" if values is None else f", sparse, {values} non-zeros"
    return f"{shape} {value.dtype}{stored}"
