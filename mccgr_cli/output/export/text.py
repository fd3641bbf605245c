"""Tables for spreadsheets and R, and Matrix Market."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy import sparse
from scipy.io import mmwrite

from mccgr_cli import __version__
from mccgr_cli.blocks.protocol import chunks
from mccgr_cli.errors import ParameterError
from mccgr_cli.output.export import NOUNS, Export
from mccgr_cli.output.text import plural
from mccgr_cli.system.memory import available_memory, format_bytes

MOST_CELLS = 100_000_000  # of a table
CELL_BYTES = 20.0
ROWS = 1000  # of a sparse matrix that are made dense at a time
FORMULA = ("=", "+", "-", "@", "\t", "\r")  # a spreadsheet takes a cell that begins like this for a formula

Rows = Iterator[list[Any]]


class UnixLines:
    """Write lines that end with CRLF with LF instead.

    With CRLF as line end, csv quotes cells that hold either character, which other readers may take for a line end.
    """

    def __init__(self, file: Any) -> None:
        self._file = file

    def write(self, line: str) -> None:
        self._file.write(line.removesuffix("\r\n") + "\n")


def as_csv(export: Export, what: str, delimiter: str = ",") -> bytes:
    """A table. Numbers have all digits that are needed to read back the same bits."""
    buffer = io.BytesIO()
    file = io.TextIOWrapper(buffer, encoding="utf-8", newline="", write_through=True)
    writer = csv.writer(UnixLines(file), delimiter=delimiter, lineterminator="\r\n")
    writer.writerows(TABLES[what](export) if what in TABLES else matrix_rows(export, what))
    return buffer.getvalue()


def as_tsv(export: Export, what: str) -> bytes:
    return as_csv(export, what, "\t")


def as_mtx(export: Export, what: str) -> bytes:
    """Matrix Market: entries of a sparse matrix, columns of a dense one. It has no place for names."""
    values = export.contents[what]
    if values.ndim != 2:
        raise ParameterError("--what", f"{what} is a list, and Matrix Market holds matrices", "choose .csv or .npy")
    buffer = io.BytesIO()
    comment = f"{what}, by mccgr {__version__}\n{export.provenance()}"
    # In double precision, because of single precision scipy writes too few digits.
    mmwrite(buffer, values.astype(np.float64), comment=comment, symmetry="general")
    return buffer.getvalue()


def assignments(export: Export) -> Rows:
    """One row per sample. New samples also have a class, if the old samples had classes."""
    contents = export.contents
    labels, classes = contents.labels_as_text(), contents.correspondence()
    columns = {"sample": names(export, "n"), "cluster": contents["assignments"].tolist()}
    columns |= {name: contents[name].tolist() for name in ("certainty", "outlier") if name in contents}
    if classes:
        of_samples = [classes.get(cluster, "") for cluster in columns["cluster"]]
        columns["class"] = checked(export, of_samples, "class")
    if labels is not None:
        columns["label"] = checked(export, labels, "label")
    yield list(columns)
    yield from map(list, zip(*columns.values(), strict=True))


def rho(export: Export) -> Rows:
    yield ["feature", "weight"]
    yield from map(list, zip(names(export, "d"), export.contents["rho"].tolist(), strict=True))


def edges(export: Export) -> Rows:
    """Each edge once."""
    A = sparse.triu(sparse.csr_array(export.contents["A"]), format="coo")
    samples = names(export, "n")
    yield ["source", "target", "weight"]
    for row, column, weight in zip(A.row.tolist(), A.col.tolist(), A.data.tolist(), strict=True):
        yield [samples[row], samples[column], weight]


TABLES = {"assignments": assignments, "rho": rho, "A": edges}


def matrix_rows(export: Export, what: str) -> Rows:
    """A header, and rows that begin with their name if they have one; then the corner is empty, as in R and pandas."""
    matrix = export.contents[what]
    cells = matrix.shape[0] * matrix.shape[1]
    if cells > min(MOST_CELLS, available_memory() / CELL_BYTES):
        remedy = ".npz and .h5ad hold it as it is" if sparse.issparse(matrix) else ".npy and .npz hold it as it is"
        about = f"a table of {matrix.shape[0]} x {matrix.shape[1]} numbers, some {format_bytes(CELL_BYTES * cells)}"
        raise ParameterError(f"{what} as text", about, remedy)
    if what == "W":
        columns = export.components()
    elif "feature_names" in export.contents:
        columns = names(export, "d")
    else:  # a reader would take a header of numbers for a sample
        columns = [f"feature_{number}" for number in range(matrix.shape[1])]
    if what != "H" and "sample_names" not in export.contents:
        yield columns
        yield from dense_rows(matrix)
    else:
        yield ["", *columns]
        row_names = export.components() if what == "H" else names(export, "n")
        yield from ([name, *values] for name, values in zip(row_names, dense_rows(matrix), strict=True))


def dense_rows(matrix: Any) -> Iterator[list[float]]:
    for rows in chunks(matrix.shape[0], ROWS):
        some = matrix[rows]
        yield from (some.toarray() if sparse.issparse(some) else some).tolist()


def names(export: Export, dim: str) -> list[str]:
    return checked(export, export.names(dim), f"{NOUNS[dim]} name")


def checked(export: Export, texts: list[str], noun: str) -> list[str]:
    """The texts unchanged, because another spelling is another name; a note says if spreadsheets would change them."""
    odd = [text for text in dict.fromkeys(texts) if text.startswith(FORMULA) and not is_number(text)]
    if odd:
        count = f"{plural(len(odd), noun)} that spreadsheets take for formulas"
        export.note(f"{count}, first {odd[0]!r}: import that column as text")
    return texts


def is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
