"""Text files: .csv and .tsv tables with or without header, row names and labels; lists of labels; Matrix Market."""

from __future__ import annotations

import csv
import gzip
import io
import warnings
import zlib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, TextIO

import numpy as np
from scipy import sparse

from mccgr_cli.blocks.protocol import Array
from mccgr_cli.errors import DataError
from mccgr_cli.files.readers.arrays import Found, refuse_names, shown
from mccgr_cli.system.memory import available_memory, format_bytes, require_memory

PIECE = 1 << 16  # bytes read at a time
FIELD_BYTES = 200  # memory for a field in the first lines of a table, which are split into text
SEPARATORS = (b",", b"\t", b" ", b"\n")
# How programs write a missing value. Such a field is neither a number nor text that could be a header.
MISSING = frozenset(("", "na", "n/a", "null", "none", "?", "#n/a"))
LABEL_COLUMNS = ("label", "labels")  # names of the first or last column of a table that holds labels


@dataclass(frozen=True)
class Layout:
    """What the columns of a table hold. They count from 0 here and from 1 in messages."""

    header: list[str] | None
    width: int
    names: int | None  # the column of row names
    labels: int | None  # the column of labels

    def columns(self) -> list[str]:
        return self.header or [str(i + 1) for i in range(self.width)]


def read_table(path: Path, inner: str | None, label_key: str | None, where: str) -> Found:
    """Read numbers with numpy's fast parser. If it fails, a second, slow reading finds the line and column."""
    if inner:
        raise DataError(where, "a table holds one matrix", f"leave out ::{inner}")
    with opened_text(path, where) as file:
        layout = find_layout(file, path, label_key, where)
        # The fields of these columns are collected here and become zeros.
        text: dict[int, list[str]] = {i: [] for i in (layout.names, layout.labels) if i is not None}
        converters = {column: partial(gather, fields) for column, fields in text.items()}
        try:
            values = load_text(file, layout.width, delimiter=delimiter(path), converters=converters, quotechar='"')
        except ValueError as fault:
            refuse_fault(file, path, layout, where)
            raise DataError(where, f"not a table of numbers ({fault})", "check its quotes") from None
    found: Found = {"X": np.delete(values, list(text), axis=1) if text else values}
    if layout.names is not None:
        found["sample_names"] = text[layout.names]
    if layout.labels is not None:
        found["labels"] = filled(text[layout.labels], "sample", 0, where)
    if layout.header is not None:
        found["feature_names"] = [name for i, name in enumerate(layout.header) if i not in text]
    return found


class NamedLabels(NamedTuple):
    """The label of every sample, and the names of the samples if the table has them."""

    names: list[str] | None
    labels: list[str]


def read_table_labels(path: Path, inner: str | None, where: str) -> list[str]:
    return read_named_labels(path, inner, where).labels


def read_named_labels(path: Path, inner: str | None, where: str) -> NamedLabels:
    """The column ``inner`` of a table, or the only one, or the one called label."""
    with opened_text(path, where) as file:
        layout = find_layout(file, path, inner, where)
        if layout.labels is None and layout.width > 1:
            what = "several columns, any of which may hold the labels"
            raise DataError(where, what, f"name one with FILE::COLUMN: {shown(layout.columns())}")
        rows = [record for _, record in data_records(file, path, layout, where)]
    labels = [row[layout.labels or 0] for row in rows]
    # in a single column, a first line of text is a header only if numbers follow
    if inner is None and layout.width == 1 and layout.header and not (labels and is_number(labels[0])):
        labels.insert(0, layout.header[0])
    names = None if layout.names is None else [row[layout.names] for row in rows]
    return NamedLabels(names, filled(labels, "sample", 0, where))


def read_label_lines(path: Path, inner: str | None, where: str) -> list[str]:
    """One label per line; blank lines at the end do not count."""
    if inner:
        raise DataError(where, "a list of labels has no columns", f"leave out ::{inner}")
    with opened_text(path, where) as file:
        lines = file.read().rstrip().splitlines()
    if not lines:
        raise DataError(where, "empty file", "it should have one label per line")
    return filled([line.strip() for line in lines], "line", 1, where)


def filled(labels: list[str], unit: str, first: int, where: str) -> list[str]:
    if "" in labels:
        what = f"{unit} {labels.index('') + first} has no label"
        raise DataError(where, what, "leave those samples out or give them a label")
    return labels


@contextmanager
def opened_text(source: Path | BinaryIO, where: str) -> Iterator[TextIO]:
    """Open text, gzipped or not, or what came down a pipe. Damaged bytes become one DataError."""
    try:
        with ExitStack() as stack:
            content: Any = stack.enter_context(source.open("rb")) if isinstance(source, Path) else source
            content.seek(0)
            if isinstance(source, Path) and source.suffix.lower() == ".gz":
                unpacked = stack.enter_context(gzip.GzipFile(fileobj=content))
                content = stack.enter_context(io.BufferedReader(Bounded(unpacked, where), PIECE))
            yield stack.enter_context(io.TextIOWrapper(content, encoding="utf-8-sig", newline=""))
    except UnicodeDecodeError as fault:
        raise DataError(where, f"not UTF-8 text (byte {fault.object[fault.start]:#04x})", "save it as UTF-8") from None
    except (gzip.BadGzipFile, EOFError, zlib.error) as fault:
        what = f"damaged or truncated gzip file ({fault})"
        raise DataError(where, what, "make, copy or download it again") from None
    except csv.Error as fault:
        raise DataError(where, f"not a table of text ({fault})", "check its quotes") from None


class Bounded(io.RawIOBase):
    """The unpacked bytes of a gzip file; an error if they are more than fits into memory, as a small file can hold."""

    def __init__(self, file: gzip.GzipFile, where: str) -> None:
        self._file, self._where = file, where
        self._most = available_memory()
        self._numbers = self._in_line = 0

    def readinto(self, buffer: Any) -> int:
        piece = self._file.read(len(buffer))
        found = sum(map(piece.count, SEPARATORS))
        self._numbers += found
        self._in_line = found if b"\n" in piece else self._in_line + found
        if max(self._file.tell(), 8 * self._numbers, FIELD_BYTES * self._in_line) > self._most:
            what = f"more text or numbers than fit into the free memory, {format_bytes(self._most)}"
            raise DataError(self._where, what, "use a larger machine, or store it as HDF5")
        buffer[: len(piece)] = piece
        return len(piece)

    def seek(self, offset: int, whence: int = 0) -> int:
        self._numbers = self._in_line = 0  # it is read again
        return self._file.seek(offset, whence)

    def tell(self) -> int:
        return self._file.tell()

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True


def delimiter(path: Path) -> str:
    return "\t" if ".tsv" in (suffix.lower() for suffix in path.suffixes[-2:]) else ","


def records(file: TextIO, path: Path) -> Iterator[tuple[int, list[str]]]:
    """The fields of every line that is not blank, with the number of the line, from 1."""
    reader = csv.reader(file, delimiter=delimiter(path))
    for record in reader:
        if record:
            yield reader.line_num, [field.strip() for field in record]


def data_records(file: TextIO, path: Path, layout: Layout, where: str) -> Iterator[tuple[int, list[str]]]:
    """The records below the header. A record that is not as wide as the table is an error."""
    file.seek(0)
    for index, (line, record) in enumerate(records(file, path)):
        if index == 0 and layout.header:
            continue
        if len(record) != layout.width:
            what = f"line {line}: {counted(len(record), 'field')} where the first line has {layout.width}"
            raise DataError(where, what, "every line needs the same number")
        yield line, record


# The first two lines


def find_layout(file: TextIO, path: Path, label_key: str | None, where: str) -> Layout:
    """Find header, names and labels by the first two lines. Afterwards the file is where the data begins."""
    beginning = records(file, path)
    _, first = next(beginning, (0, None))
    _, second = next(beginning, (0, None))
    if first is None:
        raise DataError(where, "empty file", "it should have one line of numbers per sample")
    if len(first) == 1 and ";" in first[0]:
        raise DataError(where, "its fields are separated by ';'", f"separate them by {delimiter(path)!r}")
    header = first if is_header(first, second, label_key) else None
    data = (first if header is None else second) or [""]
    if header and len(data) == len(header) + 1:  # R does not name the column of names
        header = ["", *header]
    width = len(header or first)
    named = is_text(data[0]) or (header is not None and header[0] == "")
    labels = usual_labels(header or [], named) if label_key is None else find_column(header, width, label_key, where)
    names = 0 if named and labels != 0 and width > 1 else None
    file.seek(0)
    if header:
        next(records(file, path))
    return Layout(header, width, names, labels)


def usual_labels(header: list[str], named: bool) -> int | None:
    """The column of labels, if its name says so and it is the first or last: elsewhere the name may be a feature."""
    ends = sorted({0, len(header) - 1, *([1] if named else [])}) if len(header) > 1 else []
    found = [column for column in ends if header[column].strip().lower() in LABEL_COLUMNS]
    return found[0] if len(found) == 1 else None


def is_header(first: list[str], second: list[str] | None, label_key: str | None) -> bool:
    if any(map(is_text, first)) and (label_key in first or not any(map(is_number, first))):
        return True
    if second is None:
        return False
    if any(is_text(above) and is_number(below) for above, below in zip(first, second, strict=False)):
        return True
    # an empty corner over names, or over the row numbers that pandas writes
    columns_by_number = first[1:] == [str(i) for i in range(len(first) - 1)]
    return first[0] == "" and len(first) > 1 and (is_text(second[0]) or columns_by_number)


def find_column(header: list[str] | None, width: int, key: str, where: str) -> int:
    """The column of that name or, if there is none, of that number from 1."""
    for columns in (header or [], [str(i + 1) for i in range(width)]):
        if key in columns:
            return columns.index(key)
    remedy = f"it has {shown(header)}" if header else "there is no header line: give a column's number, from 1"
    raise DataError(where, f"no column {key!r}", remedy)


def is_number(field: str) -> bool:
    try:
        float(field)
    except ValueError:
        return False
    return field.isascii() and "_" not in field  # Python takes more for a number than numpy does


def is_text(field: str) -> bool:
    return field.lower() not in MISSING and not is_number(field)


# The numbers


def load_text(file: TextIO, width: int, **options: Any) -> Array:
    """The rest of a file as numbers (lines, ``width``)."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about a file without lines: check_values refuses an empty matrix
        values = np.loadtxt(file, ndmin=2, encoding=None, comments=None, **options)
    if len(values) == 0:
        return np.empty((0, width))
    if values.shape[1] != width:
        raise ValueError(f"{counted(values.shape[1], 'column')} instead of {width}")
    return values


def gather(fields: list[str], field: str) -> float:
    fields.append(field.strip())
    return 0.0


def refuse_fault(file: TextIO, path: Path, layout: Layout, where: str) -> None:
    """Raise an error about the first field that is not a number."""
    for line, record in data_records(file, path, layout, where):
        for column, field in enumerate(record):
            if column in (layout.names, layout.labels) or is_number(field):
                continue
            title = f" ({layout.header[column]!r})" if layout.header else ""
            place = f"line {line}, column {column + 1}{title}"
            if not is_text(field):
                raise DataError(where, f"{place}: no value ({field!r})", "remove or impute missing values")
            remedy = f"remove the column, or give --label-key {layout.columns()[column]} if it holds labels"
            raise DataError(where, f"{place}: {field!r} is not a number", remedy)


def counted(count: int, noun: str) -> str:
    return f"{count} {noun}" + ("" if count == 1 else "s")


# Matrix Market. scipy.io.mmread crashes the process on some damaged files and reads wrong numbers from others.


def read_mtx(path: Path, inner: str | None, label_key: str | None, where: str) -> Found:
    refuse_names(inner, label_key, ".mtx", where)
    with opened_text(path, where) as file:
        try:
            return {"X": parse_mtx(file, where)}
        except (ValueError, OverflowError) as fault:
            what = f"not a readable .mtx file ({fault})"
            raise DataError(where, what, "it may be damaged or cut short") from None


def parse_mtx(file: TextIO, where: str) -> Any:
    banner, *words = file.readline().lower().split() or [""]
    if banner != "%%matrixmarket" or len(words) != 4:
        raise ValueError("its first line is not a Matrix Market header")
    _, layout, field, symmetry = words
    if field == "complex" or symmetry not in ("general", "symmetric"):
        raise DataError(where, f"a matrix that is {field} and {symmetry}", "NMF needs real numbers >= 0")
    size = next((line.split() for line in file if line.strip() and line[0] != "%"), [])
    if len(size) != {"coordinate": 3, "array": 2}.get(layout):
        raise ValueError("no line with its size")
    n, d, *entries = map(int, size)
    if min(n, d, *entries) < 0 or (symmetry == "symmetric" and n != d):
        raise ValueError(f"its size is {n} x {d}")
    require_memory(8.0 * (n + 3 * entries[0] if entries else n * d), where)
    if layout == "array":
        return fill_array(load_text(file, 1).ravel(), n, d, symmetry == "symmetric")
    table = load_text(file, 2 if field == "pattern" else 3, max_rows=entries[0] + 1)
    if len(table) != entries[0]:
        found = len(table) if len(table) < entries[0] else "more"
        raise ValueError(f"{found} entries where its header says {entries[0]}")
    rows, columns = table[:, 0] - 1, table[:, 1] - 1
    if len(table) and not (min(rows.min(), columns.min()) >= 0 and rows.max() < n and columns.max() < d):
        raise ValueError("an index outside its size")
    if np.any(rows != np.floor(rows)) or np.any(columns != np.floor(columns)):
        raise ValueError("an index that is not a whole number")
    values = np.ones(len(table)) if field == "pattern" else table[:, 2]
    if symmetry == "symmetric":
        mirrored = rows != columns
        rows, columns = np.append(rows, columns[mirrored]), np.append(columns, rows[mirrored])
        values = np.append(values, values[mirrored])
    return sparse.csr_array((values, (rows.astype(np.int64), columns.astype(np.int64))), shape=(n, d))


def fill_array(values: Array, n: int, d: int, symmetric: bool) -> Array:
    """A dense matrix from its columns; if it is symmetric, from their parts below the diagonal."""
    expected = n * (n + 1) // 2 if symmetric else n * d
    if len(values) != expected:
        raise ValueError(f"{len(values)} values instead of {expected}")
    if not symmetric:
        return values.reshape(d, n).T
    matrix = np.zeros((n, n))
    matrix[np.triu_indices(n)] = values  # the lower half by columns is the upper half by rows
    return matrix + np.triu(matrix, 1).T


def refuse_mtx_labels(path: Path, inner: str | None, where: str) -> list[str]:
    raise DataError(where, "a .mtx file holds no labels", "give a list of labels, one per line")
