"""Find texts in a folder."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from mccgr_cli.errors import DataError
from mccgr_cli.files.folders import (
    SampleFile,
    Skipped,
    check_labels,
    count_of,
    name_as_text,
    require_folder,
    suffix_of,
    walk,
)
from mccgr_cli.texts.read import Text, UnusableText, is_text_file, read_text

SUFFIXES = (".txt", ".text", ".md", ".markdown", ".rst", ".tex", ".eml")
NO_SUFFIX = ("", *(f".{digit}" for digit in range(10)))  # as in articles called 12, or x.1: their contents decide


@dataclass
class Collection:
    """The texts found in a folder, and what was left out."""

    texts: list[SampleFile] = field(default_factory=list)
    skipped: list[Skipped] = field(default_factory=list)
    ignored: list[str] = field(default_factory=list)  # files that are not texts by their names


def texts_in_folder(folder: str, labelled: bool = True) -> Collection:
    """The texts in a folder, ordered by name.

    Each folder of the first level is a category, which is the label of all texts below it.
    """
    found = Collection()
    root = require_folder(folder, "texts")
    for path in walk(root, found.skipped):
        if may_be_text(root / path):
            found.texts.append(SampleFile.below(root, path, labelled))
        else:
            found.ignored.append(name_as_text(path.as_posix()))
    if not found.texts:
        others = f"{count_of(len(found.ignored), 'file')}, none a text by its name"
        remedy = f"mccgr reads {' '.join(SUFFIXES)}, and files without a suffix"
        raise DataError(folder, others if found.ignored else "no text in it", remedy)
    check_labels({text.name: text.label for text in found.texts}, folder, "text")
    return found


def may_be_text(path: Path) -> bool:
    """Whether a file is a text by its name; or by its contents, if its name says nothing."""
    suffix = suffix_of(str(path))
    return suffix in SUFFIXES or ((suffix in NO_SUFFIX or suffix[1:].isdecimal()) and is_text_file(str(path)))


def read_files(files: list[SampleFile], limit: int) -> Iterator[Text]:
    """The texts in files with at most ``limit`` bytes, one at a time."""
    for file in files:
        try:
            content, is_western = read_text(file.path, limit)
        except UnusableText as fault:
            yield Text(file.name, file.label, fault=str(fault))
        else:
            yield Text(file.name, file.label, content, is_western=is_western)
