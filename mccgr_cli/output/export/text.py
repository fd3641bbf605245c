"""Tables for spreadsheets and R, and Matrix Market."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
from scipy import sparse
from scipy.io import mmwrite

from mccgr_cli import __version__
from mccgr_cli.blocks.protocol import chunks
from mccgr_cli.errors import ParameterError
from mccgr_cli.output.export.gather import Export
from mccgr_cli.system.memory import available, in_words

MOST_CELLS = 100_000_000  # of a table
CELL_BYTES = 20.0
ROWS = 1000  # of a sparse matrix that are dense at a time
FORMULA = ("=", "+", "-", "@", "\t", "\r")  # how a cell begins that spreadsheets take for a formula


class Lines:
    """csv quotes what holds a character of its line end: with CRLF, all that other readers may take for one."""

    def __init__(self, file: Any) -> None:
        self._file = file

    def write(self, line: str) -> None:
        self._file.write(line.removesuffix("\r\n") + "\n")


def as_csv(export: Export, what: str, delimiter: str = ",") -> bytes:
    """Numbers have all the digits that it takes to read them back to the bit, in single and in double precision."""
    buffer = io.BytesIO()
    file = io.TextIOWrapper(buffer, encoding="utf-8", newline="", write_through=True)
    writer = csv.writer(Lines(file), delimiter=delimiter, lineterminator="\r\n")
    writer.writerows(TABLES[what](export) if what in TABLES else matrix_rows(export, what))
    return buffer.getvalue()


def as_tsv(export: Export, what: str) -> bytes:
    return as_csv(export, what, "\t")


def as_mtx(export: Export, what: str) -> bytes:
    """Sparse by its entries, dense by its columns; without names, for which there is no place."""
    values = export.contents[what]
    if values.ndim != 2:
        raise ParameterError("--what", f"{what} is a list, and Matrix Market holds matrices", "choose .csv or .npy")
    buffer = io.BytesIO()
    comment = f"{what}, by mccgr {__version__}\n{export.provenance()}"
    # All digits of a number in single precision, of which scipy would write those that tell it from its neighbours.
    mmwrite(buffer, values.astype(np.float64), comment=comment, symmetry="general")
    return buffer.getvalue()


# The rows of each table


def assignments(export: Export) -> Iterator[list[Any]]:
    labels = export.contents.labels_as_text()
    columns = [named(export, "n"), export.contents["assignments"].tolist()]
    if labels is not None:
        columns.append(warned(export, labels, "label"))
    yield ["sample", "cluster", "label"][: len(columns)]
    yield from map(list, zip(*columns, strict=True))


def rho(export: Export) -> Iterator[list[Any]]:
    yield ["feature", "weight"]
    yield from map(list, zip(named(export, "d"), export.contents["rho"].tolist(), strict=True))


def edges(export: Export) -> Iterator[list[Any]]:
    """Each edge once."""
    A = sparse.triu(sparse.csr_array(export.contents["A"]), format="coo")
    names = named(export, "n")
    yield ["source", "target", "weight"]
    for row, column, weight in zip(A.row.tolist(), A.col.tolist(), A.data.tolist(), strict=True):
        yield [names[row], names[column], weight]


TABLES = {"assignments": assignments, "rho": rho, "A": edges}


def matrix_rows(export: Export, what: str) -> Iterator[list[Any]]:
    """A header, and the rows with a name before each if they have one: then the corner is empty, as R and pandas do."""
    matrix = export.contents[what]
    cells = matrix.shape[0] * matrix.shape[1]
    if cells > min(MOST_CELLS, available() / CELL_BYTES):
        remedy = ".npz and .h5ad hold it as it is" if sparse.issparse(matrix) else ".npy and .npz hold it as it is"
        about = f"a table of {matrix.shape[0]} x {matrix.shape[1]} numbers, some {in_words(CELL_BYTES * cells)}"
        raise ParameterError(f"{what} as text", about, remedy)
    if what == "W":
        columns = export.components()
    elif "feature_names" in export.contents:
        columns = named(export, "d")
    else:  # numbers alone would be taken for a sample
        columns = [f"feature_{number}" for number in range(matrix.shape[1])]
    if what != "H" and "sample_names" not in export.contents:
        yield columns
        yield from dense_rows(matrix)
    else:
        names = export.components() if what == "H" else named(export, "n")
        yield ["", *columns]
        yield from ([name, *values] for name, values in zip(names, dense_rows(matrix), strict=True))


def dense_rows(matrix: Any) -> Iterator[list[float]]:
    for rows in chunks(matrix.shape[0], ROWS):
        some = matrix[rows]
        yield from (row.tolist() for row in (some.toarray() if sparse.issparse(some) else some))


# Names


def named(export: Export, letter: str) -> list[str]:
    return warned(export, export.names(letter), {"n": "sample", "d": "feature"}[letter])


def warned(export: Export, names: Iterable[str], of: str) -> list[str]:
    """The names as they are: another spelling would be another name. Who opens them in a spreadsheet should know."""
    names = list(names)
    odd = [name for name in dict.fromkeys(names) if name.startswith(FORMULA) and not is_number(name)]
    if odd:
        count = f"{len(odd)} {of} name{'s' if len(odd) > 1 else ''} that spreadsheets take for formulas"
        export.note(f"{count}, first {odd[0]!r}: import that column as text")
    return names


def is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
