"""What the lines and columns of a table hold: a header, names, labels, values. Judged by its first lines."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice, pairwise

from mccgr_cli.errors import DataError
from mccgr_cli.files.readers.arrays import shown
from mccgr_cli.files.readers.dialect import HEAD, is_number, is_text, looks_like_number

LABEL_COLUMNS = ("label", "labels")  # names of the first or last column of a table that holds labels
# Names of columns that number or name the rows. Those of the second kind may also be features, such as words.
NUMBERING = re.compile(r"|id|index|unnamed: ?\d+", re.IGNORECASE)
NAMING = re.compile(
    r"(row|sample|cell|gene|image|file|feature|barcode|symbol)?[ ._-]?(ids?|names?|index)"
    r"|row|samples?|cells?|genes?|images?|files?|barcodes?|symbols?",
    re.IGNORECASE,
)
WHOLE = re.compile(r"-?\d+(\.0*)?")
YEARS = range(1500, 2200)
SHOWN = 3  # fields of a line in a message
FEW = 8  # increasing numbers by chance: the more there are, the less likely


@dataclass(frozen=True)
class Layout:
    """What the columns of a table hold. They count from 0 here and from 1 in messages."""

    header: list[str] | None
    width: int
    names: int | None  # the column of row names
    labels: int | None  # the column of labels
    labels_are_guessed: bool = True
    unused: tuple[int, ...] = ()  # other columns that name or number the rows
    blank: tuple[int, ...] = ()  # columns at the end that are empty
    doubt: str = ""  # why line 1 may not be what it was taken for

    def columns(self) -> list[str]:
        return self.header or [str(i + 1) for i in range(self.width)]

    def title(self, column: int) -> str:
        return f"{column + 1} ({self.header[column]!r})" if self.header else f"{column + 1}"

    def text_columns(self) -> list[int]:
        """Columns that hold no values."""
        return [column for column in (self.names, self.labels, *self.unused, *self.blank) if column is not None]

    def description(self, unlabelled: int | None) -> str:
        """What was taken for names and labels. ``unlabelled``: a sample without the label that was expected."""
        row_names, labels = (
            "none" if column is None else f"column {self.title(column)}" for column in (self.names, self.labels)
        )
        if unlabelled is not None:
            labels = f"none ({labels} has none for sample {unlabelled})"
        left_out = f"; left out: column {', '.join(map(self.title, self.unused))}" if self.unused else ""
        header = "none" if self.header is None else "line 1"
        return f"row names: {row_names}; labels: {labels}{left_out}; column names: {header}{self.doubt}"


def find_layout(
    records: Iterator[tuple[int, list[str]]], label_key: str | None, has_header: bool | None, where: str
) -> Layout:
    """Find header, names and labels. ``has_header``: what the user knows of the first line."""
    head = [record for _, record in islice(records, HEAD)]
    if not head:
        raise DataError(where, "empty file", "it should have one line of numbers per sample")
    first, rows = head[0], head[1:]
    if has_header is None:
        has_header, doubt = judge_first(first, rows, label_key)
    else:
        doubt = ""
    header, data = (first, rows) if has_header else (None, head)
    blank = blank_columns(header, data)
    if header and data and len(data[0]) == len(header) + 1:  # R does not name the column of names
        header = [*header, ""] if blank else ["", *header]
    width = len(header or first)
    known = width - len(blank)
    leads = is_naming(0, header, data)
    if label_key is None:
        labels = usual_labels((header or [])[:known], leads)
    else:
        labels = find_column(header, width, label_key, where)
    columns = [] if known < 2 else range(known) if header else [int(labels == 0)]  # only titles tell of later ones
    naming = [i for i in columns if i != labels and is_naming(i, header, data, labels == 0)]
    naming.sort(key=lambda column: not any(is_text(row[column]) for row in data if column < len(row)))
    names, unused = (naming[0], tuple(sorted(naming[1:]))) if naming else (None, ())
    return Layout(header, width, names, labels, label_key is None, unused, blank, doubt)


# The first line


def judge_first(first: list[str], rows: list[list[str]], label_key: str | None) -> tuple[bool, str]:
    """Whether the first line is a header, and how to say that this is doubtful."""
    texts = [field for field in first if is_text(field)]
    if texts and (label_key in texts or not any(map(looks_like_number, first))):
        return True, ""
    if not rows:
        return False, ""
    below = rows[0]
    if any(is_text(above) and looks_like_number(field) for above, field in zip(first, below, strict=False)):
        return True, ""
    if any(is_title(field) for field in texts) and not any(is_title(field) for field in below):
        return True, ""
    if first[0] == "" and len(first) > 1:  # an empty corner over names, or over the row numbers that pandas writes
        counts = numbers_columns([row[0] for row in rows]) and (len(rows) > 1 or numbers_columns(first[1:]))
        if is_text(below[0]) or counts:
            return True, ""
    if not texts and len(rows) > 1 and all(len(row) == len(first) + 1 and row[-1] for row in rows):
        return True, ""
    columns = [i for i, field in enumerate(below[: len(first)]) if looks_like_number(field) and first[i]]
    titles = [first[i] for i in columns]
    certain, possible = chance_of_header(titles, [[row[i] for i in columns if i < len(row)] for row in rows])
    if first[0] == "" and 0 not in columns:  # over other row numbers
        certain = (certain or possible) and WHOLE.fullmatch(below[0]) is not None
        possible = False
    shown_titles = f"{', '.join(titles[:SHOWN])}{', ...' if len(titles) > SHOWN else ''}"
    if certain:
        return True, f" ({shown_titles}; if these are values, give --header no)"
    return False, f" (if {shown_titles} in line 1 are names, give --header yes)" if possible else ""


def is_title(field: str) -> bool:
    """Whether a word is a usual title of a column of names or labels."""
    usual = field.lower() in LABEL_COLUMNS or NUMBERING.fullmatch(field) or NAMING.fullmatch(field)
    return field != "" and bool(usual)


def chance_of_header(first: list[str], rows: list[list[str]]) -> tuple[bool, bool]:
    """Whether numbers in the first line are certainly, or possibly, names: years, positions, wavelengths."""
    if len(first) < 2 or not is_sorted(first):
        return False, False
    years = all(WHOLE.fullmatch(field) and int(float(field)) in YEARS for field in first)
    below = any(is_number(field) and float(field) in YEARS for row in rows for field in row)
    following = len(first) > 2 and is_counting(first) and not any(map(is_counting, rows))
    positions = numbers_columns(first) and not any(map(numbers_columns, rows))
    is_whole = all(map(WHOLE.fullmatch, first)) and all(any(map(is_fraction, row)) for row in rows)
    unlike = is_whole and len(first) > 2 and len(rows) > 2  # all other lines have fractions
    alone = not any(map(is_sorted, rows))
    certain = (
        (years and (following or not below))
        or (positions and len(first) > 2)
        or unlike
        or (alone and len(first) >= FEW)
    )
    return certain, years or numbers_columns(first) or (alone and len(first) > 2)


def numbers_columns(fields: list[str]) -> bool:
    """Whether these are 0, 1, 2, ... or 1, 2, 3, ..."""
    return any(fields == [str(i + start) for i in range(len(fields))] for start in (0, 1))


def is_counting(fields: list[str]) -> bool:
    """Whether each field is the whole number after the one before."""
    return all(map(WHOLE.fullmatch, fields)) and all(float(b) - float(a) == 1 for a, b in pairwise(fields))


def is_fraction(field: str) -> bool:
    return looks_like_number(field) and WHOLE.fullmatch(field) is None


def is_sorted(fields: list[str]) -> bool:
    """Whether all fields are numbers, each larger or each smaller than the one before."""
    if not all(map(is_number, fields)):
        return False
    values = [float(field) for field in fields]
    steps = [after - before for before, after in pairwise(values)]
    return all(step > 0 for step in steps) or all(step < 0 for step in steps)


# The columns


def blank_columns(header: list[str] | None, data: list[list[str]]) -> tuple[int, ...]:
    """Columns at the end without name and values, from separators at the end of all lines."""
    width = max(map(len, data), default=0)
    blank = width
    while (
        blank > 1
        and (header is None or "".join(header[blank - 1 : blank]) == "")
        and all(len(row) == width and row[blank - 1] == "" for row in data)
    ):
        blank -= 1
    return tuple(range(blank, width))


def is_naming(column: int, header: list[str] | None, data: list[list[str]], after_labels: bool = False) -> bool:
    """Whether a column names or numbers the rows."""
    fields = [row[column] for row in data if column < len(row)]
    leads = column == int(after_labels)
    if leads and ((fields and is_text(fields[0])) or (header is not None and header[column] == "")):
        return True
    if header is None or not fields:
        return False
    numbering, naming = (pattern.fullmatch(header[column]) is not None for pattern in (NUMBERING, NAMING))
    if leads and numbering and all(map(WHOLE.fullmatch, fields)):
        return True
    differ = len(set(fields)) == len(fields) > (1 if leads else 2)
    return (numbering or naming) and (all(map(is_text, fields)) or (differ and all(map(WHOLE.fullmatch, fields))))


def usual_labels(header: list[str], named: bool) -> int | None:
    """The column of labels, if its name says so and it is the first or last: elsewhere the name may be a feature."""
    ends = sorted({0, len(header) - 1, *([1] if named else [])}) if len(header) > 1 else []
    found = [column for column in ends if header[column].strip().lower() in LABEL_COLUMNS]
    return found[0] if len(found) == 1 else None


def find_column(header: list[str] | None, width: int, key: str, where: str) -> int:
    """The column of that name or, if there is none, of that number from 1."""
    for columns in (header or [], [str(i + 1) for i in range(width)]):
        if key in columns:
            return columns.index(key)
    remedy = f"it has {shown(header)}" if header else "there is no header line: give a column's number, from 1"
    raise DataError(where, f"no column {key!r}", remedy)
