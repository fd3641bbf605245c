"""Texts in one file: a JSON object on each line (.jsonl), or a column of a table (.csv, .tsv)."""

from __future__ import annotations

import codecs
import csv
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

from mccgr_cli.errors import DataError
from mccgr_cli.files.encodings import WESTERN
from mccgr_cli.files.folders import reading_fault
from mccgr_cli.texts.read import EMPTY, HEAD, Text, encoding_of

LINES, TABLES = (".jsonl", ".ndjson"), (".csv", ".tsv")
SEPARATORS = (",", ";", "\t")
PIECE = 1 << 20  # bytes
USUAL = {"text": "text", "label": "label", "name": "id"}  # fields that need not be named
MOST_SHOWN = 20  # fields in a message


@dataclass(frozen=True)
class Fields:
    """The fields of a text, its label and its name, in any case. None: the usual ones, where they are there."""

    text: str | None = None
    label: str | None = None
    name: str | None = None

    def found_in(self, known: list[str], where: str) -> Fields:
        """The fields by name, or None where there is none; an error about what was asked for and is not there."""
        found: dict[str, str | None] = {}
        for role, usual in USUAL.items():
            asked = getattr(self, role)
            found[role] = field_called(asked or usual, known)
            if (asked is not None or role == "text") and found[role] is None:
                option = {"text": "--text-field", "label": "--label-field", "name": "--id-field"}[role]
                shown = ", ".join(known[:MOST_SHOWN]) + (", ..." if len(known) > MOST_SHOWN else "")
                remedy = f"name one with {option}: {shown}" if known else "it has no fields"
                raise DataError(where, f"no field {asked or usual!r}", remedy)
        return Fields(**found)


def field_called(name: str, known: list[str]) -> str | None:
    """The field of this name, or the only one that differs from it in upper and lower case."""
    if name in known:
        return name
    alike = [one for one in known if one.casefold() == name.casefold()]
    return alike[0] if len(alike) == 1 else None


def read_records(path: str, fields: Fields, limit: int) -> Iterator[Text]:
    """The texts in a file, one at a time. A file that is not what its suffix says is an error."""
    encoding = find_encoding(path)
    try:
        with Path(path).open(encoding=encoding, errors="replace", newline="") as file:
            is_lines = path.lower().endswith(LINES)
            records = json_records(file, path, limit) if is_lines else table_records(file, path, fields, limit)
            chosen: Fields | None = None
            for number, record in records:
                chosen = fields.found_in(list(record), path) if chosen is None else chosen
                yield text_of(record, chosen, number, limit, encoding == WESTERN)
    except OSError as fault:
        raise DataError(path, reading_fault(fault)) from None


def find_encoding(path: str) -> str:
    """UTF-8, what a byte-order mark says, or Windows-1252 if it is not UTF-8."""
    try:
        with Path(path).open("rb") as file:
            encoding = encoding_of(file.read(HEAD))
            if encoding is None:
                raise DataError(path, "holds zero bytes, so it is no text", "name a file of texts")
            if encoding != "utf-8":
                return encoding
            file.seek(0)
            decoder = codecs.getincrementaldecoder("utf-8")()
            while piece := file.read(PIECE):
                decoder.decode(piece)
            decoder.decode(b"", final=True)
    except UnicodeDecodeError:
        return WESTERN
    except OSError as fault:
        raise DataError(path, reading_fault(fault)) from None
    return encoding


def json_records(file: TextIO, where: str, limit: int) -> Iterator[tuple[int, dict[str, Any]]]:
    """The objects in a file with one on each line, with the numbers of the lines from 1."""
    number = 0
    while line := file.readline(2 * limit + PIECE):
        number += 1
        if not line.endswith("\n") and len(line) == 2 * limit + PIECE:
            raise DataError(where, f"line {number} is much longer than --max-text {limit}", "give a larger --max-text")
        if not line.strip():
            continue
        try:
            record = json.loads(line)
        except (ValueError, RecursionError) as fault:
            why = getattr(fault, "msg", "nested too deeply, or a number is too long")
            raise DataError(where, f"line {number} is not JSON: {why}", "mend or remove it") from None
        if not isinstance(record, dict):
            what = f"line {number} is not an object with fields"
            raise DataError(where, what, 'every line needs the form {"text": "..."}')
        yield number, record


def table_records(file: TextIO, where: str, fields: Fields, limit: int) -> Iterator[tuple[int, dict[str, Any]]]:
    """The rows of a table with a header, with the numbers of their first lines."""
    before = csv.field_size_limit(min(2 * limit + PIECE, 2**31 - 1))
    try:
        reader = csv.reader(file, delimiter=find_separator(file, where, fields.text or USUAL["text"]), strict=True)
        header = [name.strip() for name in next(reader, [])]
        twice = next((name for name in header if name and header.count(name) > 1), None)
        if twice is not None:
            raise DataError(where, f"two columns are called {twice!r}", "rename one of them")
        number = reader.line_num + 1
        for row in reader:
            if any(row[len(header) :]):
                what = f"line {reader.line_num} has {len(row)} fields, the header {len(header)}"
                raise DataError(where, what, "put texts that contain the separator in quotes")
            if row:
                yield number, dict(zip(header, row, strict=False))
            number = reader.line_num + 1
    except csv.Error as fault:
        raise DataError(where, f"line {reader.line_num}: {fault}", "check its quotes, or give --max-text") from None
    finally:
        csv.field_size_limit(before)


def find_separator(file: TextIO, where: str, column: str) -> str:
    """What separates the fields: what makes the name of the column of texts a field of the header, or most fields."""
    header = file.readline(PIECE)
    file.seek(0)
    usual = "\t" if where.lower().endswith(".tsv") else ","
    names = {
        one: [name.strip() for name in next(csv.reader([header], delimiter=one), [])] for one in (usual, *SEPARATORS)
    }
    return max(names, key=lambda one: (field_called(column, names[one]) is not None, len(names[one])))


def text_of(record: dict[str, Any], fields: Fields, number: int, limit: int, is_western: bool) -> Text:
    content, label, name = (record.get(field or "") for field in (fields.text, fields.label, fields.name))
    about = as_words(name) or f"line {number}", as_words(label)
    if content is None:
        return Text(*about, fault=f"no {fields.text!r}" if fields.text not in record else EMPTY)
    if not isinstance(content, str):
        return Text(*about, fault=f"its {fields.text!r} is not text")
    if not content.strip():
        return Text(*about, fault=EMPTY)
    if len(content) > limit:
        return Text(*about, fault=f"larger than --max-text {limit}")
    return Text(*about, content, is_western=is_western)


def as_words(value: Any) -> str | None:
    """A label or a name as valid text; None if there is none."""
    if value is None or value == "" or isinstance(value, (dict, list)):
        return None
    return str(value).strip().encode(errors="replace").decode()
