"""Find images in a folder or on a list."""

from __future__ import annotations

import codecs
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from mccgr_cli.errors import DataError
from mccgr_cli.images import plugins

SUFFIXES = (
    *(".jpg", ".jpeg", ".jpe", ".jfif", ".png", ".apng", ".tif", ".tiff", ".bmp", ".gif", ".webp"),
    *(".ppm", ".pgm", ".pbm", ".pnm", ".jp2", ".j2k", ".jpx"),
    *plugins.FORMAT_OF,  # if they can be read here
)
NAMED = 3  # files that are ignored
DEEPEST = 100  # levels of folders


@dataclass(frozen=True)
class ImageFile:
    path: str  # to open it; may hold any bytes
    name: str  # to show and store it; always valid text
    label: str | None = None


@dataclass(frozen=True)
class Skipped:
    name: str
    reason: str


@dataclass
class Collection:
    """The images found in a folder or on a list, and what was left out."""

    images: list[ImageFile] = field(default_factory=list)
    skipped: list[Skipped] = field(default_factory=list)
    empty: list[str] = field(default_factory=list)  # folders of the first level without images
    ignored: list[str] = field(default_factory=list)  # files whose names are not those of images
    unreadable: list[str] = field(default_factory=list)  # images of formats that cannot be read here


def images_in_folder(folder: str, labelled: bool = True) -> Collection:
    """The images in a folder, ordered by name.

    Each folder of the first level is a category, which is the label of all images below it. If there are only images
    and no folders, images have no labels.
    """
    found = Collection()
    root = Path(folder)
    try:
        next(root.iterdir(), None)
    except OSError as fault:
        raise DataError(folder, reading_fault(fault), "name a folder of images") from None
    for path in walk(root, Path(), found, {}):
        label = name_as_text(path.parts[0]) if labelled and len(path.parts) > 1 else None
        found.images.append(ImageFile(str(root / path), name_as_text(path.as_posix()), label))
    if not found.images and found.skipped:
        first = found.skipped[0]
        raise DataError(folder, f"no image can be reached; {first.name}: {first.reason}")
    if not found.images and found.unreadable:
        files, remedy = next(iter(unreadable_files(found.unreadable)))
        raise DataError(folder, f"no image that can be read, but {files}", remedy)
    if not found.images:
        others = f"{count_of(len(found.ignored), 'file')}, none an image by its name"
        readable = " ".join(suffix for suffix in SUFFIXES if plugins.needed_for(suffix) is None)
        raise DataError(folder, others if found.ignored else "no image in it", f"mccgr reads {readable}")
    check_labels(found.images, folder)
    used = {image.label for image in found.images}
    if None not in used:
        folders = (path.name for path in sorted(root.iterdir()) if not path.name.startswith(".") and path.is_dir())
        found.empty = [name for name in map(name_as_text, folders) if name not in used]
    return found


def walk(root: Path, below: Path, found: Collection, visited: dict[tuple[int, int], Path]) -> Iterator[Path]:
    """Yield the paths of the images, relative to the root. Links are followed, but no folder is read twice."""
    reason = ""
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
        found.skipped.append(Skipped(name_as_text(below.as_posix()), name_as_text(reason)))
        return
    for name in names:
        if name.startswith("."):  # hidden files, among them those that macOS adds for each file
            continue
        path = below / name
        if name in folders:
            yield from walk(root, path, found, visited)
        elif plugins.needed_for(path.suffix.lower()) is not None:
            found.unreadable.append(name_as_text(path.as_posix()))
        elif path.suffix.lower() in SUFFIXES:
            yield path
        else:
            found.ignored.append(name_as_text(path.as_posix()))


def describe_ignored(names: Sequence[str]) -> str:
    """One line about files that are not images.

    >>> describe_ignored(["notes.txt", "x/a.mov", "b.MOV", "c.mov"])
    'ignored 4 files that are not images by their suffix (3 .mov, 1 .txt): notes.txt, x/a.mov, b.MOV, ...'
    """
    shown = ", ".join([*names[:NAMED], *(["..."] if len(names) > NAMED else [])])
    return f"ignored {count_of(len(names), 'file')} that are not images by their suffix ({by_suffix(names)}): {shown}"


def unreadable_files(names: Sequence[str]) -> list[tuple[str, str]]:
    """Images that cannot be read here, by suffix, with what to install for them."""
    by_remedy: dict[str, list[str]] = {}
    for name in names:
        by_remedy.setdefault(str(plugins.needed_for(suffix_of(name))), []).append(name)
    return [(f"{by_suffix(some)} file{'' if len(some) == 1 else 's'}", remedy) for remedy, some in by_remedy.items()]


def by_suffix(names: Sequence[str]) -> str:
    """How many files have which suffix, the most frequent first."""
    counts = Counter(suffix_of(name) or "without a suffix" for name in names)
    return ", ".join(f"{count} {suffix}" for suffix, count in sorted(counts.items(), key=lambda one: (-one[1], one[0])))


def suffix_of(name: str) -> str:
    return Path(name).suffix.lower()


def images_on_list(content: bytes, labelled: bool = True) -> Collection:
    """The images on a list: one path a line, or paths separated by zero bytes as ``find -print0`` writes them.

    Labels are as if :func:`find` were given the deepest folder that holds all of them.
    """
    content = content.removeprefix(codecs.BOM_UTF8)
    separator, ending = (b"\0", b"") if b"\0" in content else (b"\n", b"\r")
    paths = [os.fsdecode(line.rstrip(ending)) for line in content.split(separator) if line.strip()]
    if not paths:
        raise DataError("standard input", "the list names no images", "the command before the pipe may have failed")
    folders = [os.path.dirname(os.path.abspath(path)) for path in paths]  # noqa: PTH100, PTH120 - any bytes
    common = Path(os.path.commonpath(folders))
    images = []
    for path, folder in zip(paths, folders, strict=True):
        below = Path(folder).relative_to(common).parts
        images.append(ImageFile(path, name_as_text(path), name_as_text(below[0]) if labelled and below else None))
    check_labels(images, "standard input")
    return Collection(images)


def check_labels(images: Sequence[ImageFile], where: str) -> None:
    """Refuse a mixture of images with and without labels."""
    loose = [image.name for image in images if image.label is None]
    if 0 < len(loose) < len(images):
        what = f"{count_of(len(loose), 'image')} beside folders with {len(images) - len(loose)}, first {loose[0]}"
        raise DataError(where, what, "move them into a folder of their own, or give --no-labels")


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
