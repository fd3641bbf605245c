"""Tables: .csv and .tsv files with or without header, names of rows and labels."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TextIO

import numpy as np

from mccgr_cli.errors import DataError
from mccgr_cli.files.readers.arrays import Found, NamedLabels, shown
from mccgr_cli.files.readers.text import counted, filled, load_text, opened_text

# How programs write a missing value. Such a field is neither a number nor text that could be a header.
MISSING = frozenset(("", "na", "n/a", "null", "none", "?", "#n/a"))
NAME_COLUMNS = ("sample", "sample_name", "name", "id")  # of the first column of a table of labels that names samples
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


def read_table_labels(path: Path, inner: str | None, where: str) -> NamedLabels:
    """The column ``inner`` of a table, or the only one, or the one called label, or the one beside the names."""
    with opened_text(path, where) as file:
        layout = find_layout(file, path, inner, where)
        header = [title.strip().lower() for title in layout.header or []]
        column, named = layout.labels, layout.names
        if column is None and inner is None:
            column = next((i for i, title in enumerate(header) if title in LABEL_COLUMNS), None)
        if named is None and column != 0 and header and header[0] in NAME_COLUMNS:
            named = 0
        if column is None and layout.width == 2 and named == 0:
            column = 1
        if column is None and layout.width > 1:
            what = "several columns, any of which may hold the labels"
            raise DataError(where, what, f"name one with FILE::COLUMN: {shown(layout.columns())}")
        rows = [record for _, record in data_records(file, path, layout, where)]
    labels = [row[column or 0] for row in rows]
    # in a single column, a first line of text is a header only if numbers follow
    if inner is None and layout.width == 1 and layout.header and not (labels and is_number(labels[0])):
        labels.insert(0, layout.header[0])
    labels = filled(labels, "sample", 0, where)
    if named is None or column is None:
        return NamedLabels(None, labels)
    by_title = not layout.header or layout.header[column] == inner or header[column] in LABEL_COLUMNS
    first = None if by_title or layout.header is None else (layout.header[named], layout.header[column])
    return NamedLabels([row[named] for row in rows], labels, first)


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
