"""Tables: .csv and .tsv files with or without header, names of rows and labels, as many programs write them.

``dialect`` finds what separates fields, ``layout`` what each column holds.
"""

from __future__ import annotations

import csv
import shlex
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import BinaryIO, TextIO

import numpy as np

from mccgr_cli.blocks.protocol import Array
from mccgr_cli.errors import DataError
from mccgr_cli.files.encodings import WESTERN
from mccgr_cli.files.readers.arrays import Found, NamedLabels, shown
from mccgr_cli.files.readers.dialect import SEPARATOR_NAMES, Dialect, Evidence, Marks, find_dialect, is_text
from mccgr_cli.files.readers.dialect import looks_like_number as is_number
from mccgr_cli.files.readers.layout import LABEL_COLUMNS, Layout, find_layout
from mccgr_cli.files.readers.text import counted, filled, load_text, opened_text

WORDS_OF_TEXT, MOST_LETTERS = 4, 60  # words of a field that is a text, and letters of it in a message
UNKNOWN_LABELS = frozenset(("", "na", "nan", "#n/a", "null"))  # how programs write that a sample has no label


def read_table(path: Path, inner: str | None, label_key: str | None, where: str, *, has_header: bool | None) -> Found:
    """Read numbers with numpy's fast parser. If it fails, a second, slow reading finds the line and column."""
    if inner:
        raise DataError(where, "a table holds one matrix", f"leave out ::{inner}")
    with opened_text(path, where) as file:
        dialect = find_dialect(file, path)
        layout = find_layout(dialect.records(file), label_key, has_header, where)
        marks = None
        try:
            values, text = read_values(file, dialect, layout)
        except ValueError:
            marks = find_marks(file, dialect, layout, where)
            try:
                values, text = read_marked(file, dialect, layout, marks, where)
            except ValueError as fault:
                raise DataError(where, f"not a table of numbers ({fault})", "check its quotes") from None
        encoding = file.encoding
    for column in layout.blank:
        if any(text[column]):
            what = f"column {column + 1} has no name, but a value in row {[*map(bool, text[column])].index(True)}"
            raise DataError(where, what, "name the column or remove it")
    found: Found = {"X": np.delete(values, list(text), axis=1) if text else values}
    if layout.names is not None:
        found["sample_names"] = text[layout.names]
    unlabelled = None
    if layout.labels is not None:
        labels = text[layout.labels]
        if layout.labels_are_guessed:
            unlabelled = next((i for i, label in enumerate(labels) if label.lower() in UNKNOWN_LABELS), None)
        if unlabelled is None:
            found["labels"] = filled(labels, "sample", 0, where)
            found["labels_are_guessed"] = layout.labels_are_guessed
    if layout.header is not None:
        found["feature_names"] = [name for i, name in enumerate(layout.header) if i not in text]
    notes = (
        []
        if dialect.separator == ","
        else [f"separated by {SEPARATOR_NAMES.get(dialect.separator, dialect.separator)}"]
    )
    notes += [marks.description] if marks is not None else []
    notes += ["text of Windows (cp1252)"] if encoding == WESTERN else []
    found["about"] = "; ".join([layout.description(unlabelled), *notes])
    return found


def read_values(file: TextIO, dialect: Dialect, layout: Layout) -> tuple[Array, dict[int, list[str]]]:
    """The values of all columns, and the fields of those that hold no values, which become zeros."""
    text: dict[int, list[str]] = {column: [] for column in layout.text_columns()}
    converters = {column: partial(gather, fields) for column, fields in text.items()}
    lines = dialect.lines(file)
    if layout.header is not None:
        next(csv.reader(lines, delimiter=dialect.separator), None)
    separator = None if dialect.separator == " " else dialect.separator  # None: any number of spaces
    options = {"delimiter": separator, "converters": converters, "quotechar": '"'}
    return load_text(lines, layout.width, **options), text


def gather(fields: list[str], field: str) -> float:
    fields.append(field.strip())
    return 0.0


def read_marked(
    file: TextIO, dialect: Dialect, layout: Layout, marks: Marks, where: str
) -> tuple[Array, dict[int, list[str]]]:
    """The same where numbers have decimal commas, or marks between thousands."""
    text: dict[int, list[str]] = {column: [] for column in layout.text_columns()}

    def lines() -> Iterator[str]:
        for _, record in data_records(file, dialect, layout, where):
            for column, fields in text.items():
                fields.append(record[column])
                record[column] = "0"
            yield "\t".join(record).translate(marks.plain)

    return load_text(lines(), layout.width, delimiter="\t"), text


def read_table_labels(path: Path | BinaryIO, inner: str | None, where: str) -> NamedLabels:
    """The column ``inner`` of a table, or the only one, or the one called label, or the one beside the names."""
    with opened_text(path, where) as file:
        dialect = find_dialect(file, path if isinstance(path, Path) else Path())
        layout = find_layout(dialect.records(file), inner, None, where)
        header = [title.strip().lower() for title in layout.header or []]
        column, named = layout.labels, layout.names
        if column is None and inner is None:
            column = next((i for i, title in enumerate(header) if title in LABEL_COLUMNS), None)
        if column is None and layout.width == 2 and named == 0:
            column = 1
        if column is None and layout.width > 1:
            what = "several columns, any of which may hold the labels"
            raise DataError(where, what, f"name one with FILE::COLUMN: {shown(layout.columns())}")
        rows = [record for _, record in data_records(file, dialect, layout, where)]
    labels = [row[column or 0] for row in rows]
    # in a single column, a first line of text is a header only if its name says so or numbers follow
    titled = header[:1] and (header[0] in LABEL_COLUMNS or is_number(labels[0] if labels else ""))
    if inner is None and layout.width == 1 and layout.header and not titled:
        labels.insert(0, layout.header[0])
    labels = filled(labels, "sample", 0, where)
    if named is None or column is None:
        return NamedLabels(None, labels)
    by_title = not layout.header or layout.header[column] == inner or header[column] in LABEL_COLUMNS
    first = None if by_title or layout.header is None else (layout.header[named], layout.header[column])
    return NamedLabels([row[named] for row in rows], labels, first)


def data_records(file: TextIO, dialect: Dialect, layout: Layout, where: str) -> Iterator[tuple[int, list[str]]]:
    """The records below the header. A record that is not as wide as the table is an error."""
    for index, (line, record) in enumerate(dialect.records(file)):
        if index == 0 and layout.header:
            continue
        if len(record) != layout.width:
            what = f"line {line}: {counted(len(record), 'field')} where the first line has {layout.width}"
            raise DataError(where, what, "every line needs the same number")
        yield line, record


def find_marks(file: TextIO, dialect: Dialect, layout: Layout, where: str) -> Marks:
    """What the comma means in the numbers; an error about the first field that is none."""
    text, evidence = set(layout.text_columns()), Evidence()
    for line, record in data_records(file, dialect, layout, where):
        if evidence.is_known([field for column, field in enumerate(record) if column not in text]):
            continue
        for column, field in enumerate(record):
            if column in text:
                continue
            place = f"line {line}, column {layout.title(column)}"
            if is_number(field):
                evidence.add(place, field)
            elif not is_text(field):
                raise DataError(where, f"{place}: no value ({field!r})", "remove or impute missing values")
            else:
                start = field if len(field) <= MOST_LETTERS else f"{field[:MOST_LETTERS]}..."
                what = f"{place}: {start!r} is not a number"
                raise DataError(where, what, remedy_for(column, record, layout))
    return evidence.marks(dialect.separator, where)


def remedy_for(column: int, record: list[str], layout: Layout) -> str:
    """What to do about a column of words. A field of several words, in any column, shows that the table holds texts."""
    texts = next((number for number, field in enumerate(record) if len(field.split()) >= WORDS_OF_TEXT), None)
    if texts is None:
        return f"remove the column, or give --label-key {layout.columns()[column]} if it holds labels"
    named = "" if layout.header else "name the columns in a first line, and "
    title = layout.header[texts] if layout.header else "NAME"
    return f"for texts, {named}give --text-field {shlex.quote(title)} to mccgr run, extract or predict"
