"""Find images in a folder or on a list."""

from __future__ import annotations

import codecs
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from mccgr_cli.errors import DataError
from mccgr_cli.files.folders import (
    SampleFile,
    Skipped,
    by_suffix,
    check_labels,
    count_of,
    name_as_text,
    require_folder,
    suffix_of,
    walk,
)
from mccgr_cli.images import plugins

SUFFIXES = (
    *(".jpg", ".jpeg", ".jpe", ".jfif", ".png", ".apng", ".tif", ".tiff", ".bmp", ".gif", ".webp"),
    *(".ppm", ".pgm", ".pbm", ".pnm", ".jp2", ".j2k", ".jpx"),
    *plugins.FORMAT_OF,  # if they can be read here
)


@dataclass
class Collection:
    """The images found in a folder or on a list, and what was left out."""

    images: list[SampleFile] = field(default_factory=list)
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
    root = require_folder(folder, "images")
    for path in walk(root, found.skipped):
        name = name_as_text(path.as_posix())
        if plugins.needed_for(path.suffix.lower()) is not None:
            found.unreadable.append(name)
        elif path.suffix.lower() not in SUFFIXES:
            found.ignored.append(name)
        else:
            found.images.append(SampleFile.below(root, path, labelled))
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
    check_labels({image.name: image.label for image in found.images}, folder, "image")
    used = {image.label for image in found.images}
    if None not in used:
        folders = (path.name for path in sorted(root.iterdir()) if not path.name.startswith(".") and path.is_dir())
        found.empty = [name for name in map(name_as_text, folders) if name not in used]
    return found


def unreadable_files(names: Sequence[str]) -> list[tuple[str, str]]:
    """Images that cannot be read here, by suffix, with what to install for them."""
    by_remedy: dict[str, list[str]] = {}
    for name in names:
        by_remedy.setdefault(str(plugins.needed_for(suffix_of(name))), []).append(name)
    return [(f"{by_suffix(some)} file{'' if len(some) == 1 else 's'}", remedy) for remedy, some in by_remedy.items()]


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
        images.append(SampleFile(path, name_as_text(path), name_as_text(below[0]) if labelled and below else None))
    check_labels({image.name: image.label for image in images}, "standard input", "image")
    return Collection(images)
