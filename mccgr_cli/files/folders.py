"""The files in a folder of samples, their names as text, and what is said of those that are left out."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from mccgr_cli.errors import DataError

NAMED = 3  # files that are ignored
DEEPEST = 100  # levels of folders


@dataclass(frozen=True)
class SampleFile:
    """An image or a text in a file of its own."""

    path: str  # to open it; may hold any bytes
    name: str  # to show and store it; always valid text
    label: str | None = None

    @classmethod
    def below(cls, root: Path, path: Path, labelled: bool) -> SampleFile:
        """The file at ``path`` in a folder. The folder of the first level is its label."""
        label = name_as_text(path.parts[0]) if labelled and len(path.parts) > 1 else None
        return cls(str(root / path), name_as_text(path.as_posix()), label)


@dataclass(frozen=True)
class Skipped:
    """A file that cannot be used."""

    name: str
    reason: str


def walk(
    root: Path, skipped: list[Skipped], below: Path = Path(), visited: dict[tuple[int, int], Path] | None = None
) -> Iterator[Path]:
    """Yield the paths of all files that are not hidden, relative to the root, ordered by name.

    Links are followed, but no folder is read twice. Folders that cannot be read are added to ``skipped``.
    """
    reason, visited = "", {} if visited is None else visited
    try:
        status = (root / below).stat()
        names = sorted(path.name for path in (root / below).iterdir())
        folders = {name for name in names if (root / below / name).is_dir()}
        first = visited.setdefault((status.st_dev, status.st_ino), below)
        if first != below:
            same = f"the same folder as {first.as_posix()}"
            reason = "a link to the folder that it lies in" if first == Path() else same
        elif len(below.parts) > DEEPEST:
            reason = f"more than {DEEPEST} folders deep"
    except OSError as fault:
        reason = reading_fault(fault)
    if reason:
        skipped.append(Skipped(name_as_text(below.as_posix()), name_as_text(reason)))
        return
    for name in names:
        if name.startswith("."):  # hidden files, among them those that macOS adds for each file
            continue
        if name in folders:
            yield from walk(root, skipped, below / name, visited)
        else:
            yield below / name


def require_folder(folder: str, holds: str) -> Path:
    """The folder, if its contents can be listed."""
    root = Path(folder)
    try:
        next(root.iterdir(), None)
    except OSError as fault:
        raise DataError(folder, reading_fault(fault), f"name a folder of {holds}") from None
    return root


def check_labels(labels: Mapping[str, str | None], where: str, noun: str) -> None:
    """Refuse a mixture of samples with and without labels, which are given by the names of the samples."""
    loose = [name for name, label in labels.items() if label is None]
    if 0 < len(loose) < len(labels):
        what = f"{count_of(len(loose), noun)} beside folders with {len(labels) - len(loose)}, first {loose[0]}"
        raise DataError(where, what, "move them into a folder of their own, or give --no-labels")


def describe_ignored(names: Sequence[str], holds: str = "images") -> str:
    """One line about files that are not samples.

    >>> describe_ignored(["notes.txt", "x/a.mov", "b.MOV", "c.mov"])
    'ignored 4 files that are not images by their suffix (3 .mov, 1 .txt): notes.txt, x/a.mov, b.MOV, ...'
    """
    files = f"{count_of(len(names), 'file')} that are not {holds} by their suffix ({by_suffix(names)})"
    return f"ignored {files}: {first_names(names)}"


def first_names(names: Sequence[str]) -> str:
    """The first names, and dots if there are more."""
    return ", ".join([*names[:NAMED], *(["..."] if len(names) > NAMED else [])])


def by_suffix(names: Sequence[str]) -> str:
    """How many files have which suffix, the most frequent first."""
    counts = Counter(suffix_of(name) or "without a suffix" for name in names)
    return ", ".join(f"{count} {suffix}" for suffix, count in sorted(counts.items(), key=lambda one: (-one[1], one[0])))


def suffix_of(name: str) -> str:
    return Path(name).suffix.lower()


def name_as_text(name: str) -> str:
    """A file name as valid text: bytes that are not UTF-8 become escapes."""
    return os.fsencode(name).decode("utf-8", "backslashreplace")


def count_of(number: int, noun: str) -> str:
    """A number with its noun.

    >>> count_of(1, "image"), count_of(2, "image")
    ('1 image', '2 images')
    """
    return f"{number} {noun}{'' if number == 1 else 's'}"


def reading_fault(fault: Exception) -> str:
    reason = getattr(fault, "strerror", None) or str(fault)
    return f"cannot be read: {reason[:1].lower()}{reason[1:]}"
