"""How a program wrote a table: what separates its fields, and how its numbers look."""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, TextIO

from mccgr_cli.errors import DataError

# How programs write a missing value. Such a field is neither a number nor text that could be a header.
MISSING = frozenset(("", "na", "n/a", "null", "none", "?", "#n/a"))
HEAD = 50  # lines by which a table is judged
SEPARATORS = (",", ";", "\t", " ")
SEPARATOR_NAMES = {",": "commas", ";": "semicolons", "\t": "tabs", " ": "spaces"}
STATED = re.compile(r"\"?sep=(.)\"?\s*", re.IGNORECASE)  # a first line for Excel

# 1,234.5 and 1.234,5, also with other marks between thousands
GROUP = "[ \u00a0\u202f']"
ENGLISH = re.compile(rf"[+-]?[1-9]\d{{0,2}}(?:(?:,|{GROUP})\d{{3}})+(?:\.\d*)?", re.ASCII)
EUROPEAN = re.compile(
    rf"(?=[+-]?,?\d)[+-]?(?:[1-9]\d{{0,2}}(?:(?:\.|{GROUP})\d{{3}})+|\d+)?(?:,\d*)?(?:[eE][+-]?\d+)?", re.ASCII
)
PLAIN = r"[+-]?\d+(?:\.\d*)?(?:[eE][+-]?\d+)?"
# Rows of such numbers, by whether the comma is decimal.
ROWS = {
    is_decimal: re.compile(rf"(?:{form})(?:\t(?:{form}))*", re.ASCII)
    for is_decimal, form in ((True, EUROPEAN.pattern), (False, f"{ENGLISH.pattern}|{PLAIN}"))
}


@dataclass(frozen=True)
class Dialect:
    """What separates the fields, and how many lines come before the table."""

    separator: str
    skipped: int = 0

    def lines(self, file: TextIO) -> Iterator[str]:
        """All lines that have a value. Spreadsheets write separators for rows that look empty."""
        file.seek(0)
        nothing = self.separator + '"\r\n\t '
        return (line for line in trimmed(islice(file, self.skipped, None), self.separator) if line.strip(nothing))

    def records(self, file: TextIO) -> Iterator[tuple[int, list[str]]]:
        """The fields of every line that has a value, with the number of the line, from 1."""
        file.seek(0)
        reader = fields_of(islice(file, self.skipped, None), self.separator)
        for record in reader:
            fields = [field.strip() for field in record]
            if any(fields):
                yield reader.line_num + self.skipped, fields


def trimmed(lines: Iterable[str], separator: str) -> Iterable[str]:
    """Lines without spaces at their ends, if spaces separate the fields."""
    return (f"{line.strip()}\n" for line in lines) if separator == " " else lines


def fields_of(lines: Iterable[str], separator: str) -> Any:
    """A reader of the fields of lines. Several spaces count as one: programs align columns with them."""
    return csv.reader(trimmed(lines, separator), delimiter=separator, skipinitialspace=separator == " ")


def find_dialect(file: TextIO, path: Path) -> Dialect:
    """What the first line states, or the separator that makes most sense of the first lines."""
    file.seek(0)
    stated = STATED.fullmatch(file.readline())
    if stated:
        return Dialect(stated[1], 1)
    usual = "\t" if ".tsv" in (suffix.lower() for suffix in path.suffixes[-2:]) else ","
    file.seek(0)
    head = list(islice((line for line in file if line.strip()), HEAD))
    return Dialect(max((usual, *SEPARATORS), key=lambda separator: sense(head, separator)))


def sense(head: list[str], separator: str) -> float:
    """The fraction of lines with the usual number of fields, times the fraction of fields that are numbers."""
    try:
        records = [[field.strip() for field in record] for record in fields_of(head, separator) if record]
    except csv.Error:  # a field that is too long
        return 0.0
    widths = Counter(map(len, records[1:] or records))
    width, count = widths.most_common(1)[0] if widths else (0, 0)
    if width < 2:
        return 0.0
    fields = [field for record in records[1:] or records for field in record]
    numbers = sum(map(looks_like_number, fields))
    if separator == " " and 2 * numbers <= len(fields):  # words
        return 0.0
    return count / sum(widths.values()) * (1 + numbers) / (1 + len(fields))


# Numbers


def is_number(field: str) -> bool:
    try:
        float(field)
    except ValueError:
        return False
    return field.isascii() and "_" not in field  # Python takes more for a number than numpy does


def looks_like_number(field: str) -> bool:
    """Whether a field is a number, perhaps with a decimal comma or marks between thousands."""
    return is_number(field) or is_marked(field)


def is_marked(field: str) -> bool:
    return bool(field[-1:].isdigit() and (ENGLISH.fullmatch(field) or EUROPEAN.fullmatch(field)))


def is_text(field: str) -> bool:
    return field.lower() not in MISSING and not looks_like_number(field)


@dataclass(frozen=True)
class Marks:
    """What the comma means in the numbers of a table."""

    plain: dict[int, str | None]  # what to replace, so that numbers become plain
    description: str


REMOVED = dict.fromkeys(map(ord, " \u00a0\u202f'"))
THOUSANDS = Marks({**REMOVED, ord(","): None}, "commas between thousands")
DECIMALS = Marks({**REMOVED, ord("."): None, ord(","): "."}, "decimal commas")


class Evidence:
    """What numbers say about the comma. 1,5 and 1,234,567 decide; 1,234 alone does not."""

    def __init__(self) -> None:
        self._seen: dict[bool, tuple[str, str]] = {}  # by whether the comma is decimal: a number that shows it

    def is_known(self, fields: Sequence[str]) -> bool:
        """Whether all fields are numbers of a kind that has been seen already."""
        row = "\t".join(fields)
        return any(is_decimal in self._seen and form.fullmatch(row) for is_decimal, form in ROWS.items())

    def add(self, place: str, number: str) -> None:
        if any(map(str.isdigit, number)):  # not nan
            english = is_number(number) or ENGLISH.fullmatch(number) is not None
            european = EUROPEAN.fullmatch(number) is not None
            if english != european:
                self._seen.setdefault(european, (place, number))

    def marks(self, separator: str, where: str) -> Marks:
        if len(self._seen) == 2:
            (first, comma), (second, point) = self._seen[True], self._seen[False]
            what = f"{comma!r} in {first} has a decimal comma, and {point!r} in {second} has none"
            raise DataError(where, what, "write all numbers in one way: 1234.5")
        return DECIMALS if True in self._seen or (not self._seen and separator == ";") else THOUSANDS
