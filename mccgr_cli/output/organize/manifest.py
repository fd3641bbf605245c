"""What was put into an organized folder, and from where: a file of lines in the folder, each a JSON object.

The whole plan is in the manifest before the first image is touched. What of it is done can be seen from the files
themselves. So a run that was killed can be continued and taken back. A manifest may come from elsewhere and is checked:
its names stay inside the organized folder, and those of images inside the folder of images that it names.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from mccgr_cli.errors import DataError
from mccgr_cli.files.atomic_write import temporary_path
from mccgr_cli.output.organize.names import FOLDER, LONGEST_NAME

NAME = ".mccgr-organize.jsonl"
FORMAT = "mccgr organize 1"
LARGEST = 1 << 30  # bytes
WAYS = ("link", "hardlink", "copy", "move")


@dataclass(frozen=True)
class Heading:
    """The first line."""

    format: str
    device: int  # of the organized folder, to recognize it: a manifest from elsewhere has other numbers
    inode: int
    made: bool  # whether organize made the folder


@dataclass(frozen=True)
class Run:
    """Images of one folder that were organized in one way. Its entries follow."""

    images: str  # an absolute path
    beside: str  # the same, relative to the organized folder: both may have been moved together
    by: str  # one of WAYS


@dataclass(frozen=True)
class Folder:
    """The folder of a cluster."""

    name: str
    cluster: int
    title: str
    made: bool


@dataclass(frozen=True)
class Entry:
    """One image."""

    source: str  # its path in the folder of images
    folder: str
    name: str
    sample: str  # its name in the clusters file
    target: str  # of a symbolic link
    size: int  # of the image in bytes
    mtime: int  # when it was changed, in nanoseconds

    @property
    def temporary(self) -> str:
        """A name for a copy that is moved back. It is always the same, so that what a killed run left is found."""
        return f".{self.size:x}.{self.mtime:x}.mccgr.tmp"


KINDS: dict[str, type] = {"heading": Heading, "run": Run, "folder": Folder, "entry": Entry}


@dataclass
class Manifest:
    heading: Heading
    folders: dict[str, Folder] = field(default_factory=dict)
    entries: list[tuple[Run, Entry]] = field(default_factory=list)
    is_own: bool = True  # whether this user made it for the folder in which it lies

    def runs(self) -> list[Run]:
        return list(dict.fromkeys(run for run, _ in self.entries))

    def encode(self) -> bytes:
        """The lines of the file. A manifest of somebody else does not become our own when we add to it."""
        heading = self.heading if self.is_own else replace(self.heading, device=0, inode=0)
        lines: list[object] = [heading, *self.folders.values()]
        for run in self.runs():
            lines += [run, *(entry for its, entry in self.entries if its == run)]
        kinds = {kind: name for name, kind in KINDS.items()}
        return b"".join(json.dumps({kinds[type(line)]: vars(line)}).encode() + b"\n" for line in lines)


def heading_for(folder: int, made: bool) -> Heading:
    status = os.fstat(folder)
    return Heading(FORMAT, status.st_dev, status.st_ino, made)


def write_manifest(manifest: Manifest, folder: int) -> None:
    """Write the manifest into an open folder, completely or not at all."""
    temporary = temporary_name()
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        with os.fdopen(os.open(temporary, flags, 0o644, dir_fd=folder), "wb") as file:
            file.write(manifest.encode())
            file.flush()
            os.fsync(file.fileno())
        os.rename(temporary, NAME, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary, dir_fd=folder)
        raise
    with contextlib.suppress(OSError):  # not every system can sync a folder
        os.fsync(folder)


def temporary_name() -> str:
    """A name in the organized folder. If a run is killed, the next one that locks the manifest removes the file."""
    return temporary_path(Path(NAME)).name


# Reading


def read_manifest(folder: int, out: str) -> Manifest | None:
    """The manifest in an open folder; None if there is none."""
    where = f"{out.rstrip('/')}/{NAME}"
    try:
        handle = os.open(NAME, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=folder)
    except FileNotFoundError:
        return None
    except OSError as fault:
        what = "is a link" if fault.errno == errno.ELOOP else f"cannot be read: {str(fault.strerror).lower()}"
        raise DataError(where, what, "move it away if mccgr did not make it") from None
    with os.fdopen(handle, "rb") as file:
        status = os.fstat(handle)
        if not stat.S_ISREG(status.st_mode) or status.st_size > LARGEST:
            raise DataError(where, "is no regular file, or too large", "move it away if mccgr did not make it")
        manifest = decode(file.read(LARGEST), where)
    of_this_folder = heading_for(folder, manifest.heading.made) == manifest.heading
    manifest.is_own = of_this_folder and status.st_uid == os.geteuid() and not status.st_mode & 0o022
    return manifest


def decode(content: bytes, where: str) -> Manifest:
    """Read and check the lines of a manifest."""
    lines = [parsed(line, where, number) for number, line in enumerate(content.splitlines(), 1)]
    if not lines or not isinstance(lines[0], Heading) or lines[0].format != FORMAT:
        raise unusable(where, 1)
    manifest, run = Manifest(lines[0]), None
    for number, line in enumerate(lines[1:], 2):
        if isinstance(line, Folder) and line.name.startswith(FOLDER):
            manifest.folders[line.name] = line
        elif isinstance(line, Run):
            run = line
        elif isinstance(line, Entry) and run is not None and line.folder in manifest.folders:
            manifest.entries.append((run, line))
        else:
            raise unusable(where, number)
    return manifest


def parsed(line: bytes, where: str, number: int) -> object:
    try:
        found = json.loads(line)
        ((kind, values),) = found.items()
        made = KINDS[kind](**values)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        raise unusable(where, number) from None
    if not all(map(is_allowed, typed_values(made))):
        raise unusable(where, number)
    return made


def unusable(where: str, number: int) -> DataError:
    what = f"line {number} is not what mccgr writes"
    return DataError(where, what, "the file is damaged or comes from elsewhere; nothing was changed")


def typed_values(line: Any) -> Iterator[tuple[str, str, Any]]:
    """Yield the names of the fields with their types and values."""
    return ((one.name, str(one.type), getattr(line, one.name)) for one in fields(line))


def is_allowed(typed: tuple[str, str, Any]) -> bool:
    """Whether a value can be used without harm."""
    name, kind, value = typed
    if kind != "str":
        return type(value).__name__ == kind and abs(value) < 1 << 64
    if not isinstance(value, str) or not is_possible(value):
        return False
    return {"by": value in WAYS, "images": is_absolute(value), "source": is_inside(value), "name": is_name(value)}.get(
        name, True
    )


def is_possible(text: str) -> bool:
    """Whether it can be written as bytes."""
    try:
        os.fsencode(text)
    except UnicodeEncodeError:
        return False
    return "\0" not in text


def is_name(text: str) -> bool:
    """Whether it is the name of something in a folder."""
    return text not in ("", ".", "..") and "/" not in text and len(os.fsencode(text)) <= LONGEST_NAME


def is_inside(path: str) -> bool:
    """Whether a path stays inside the folder to which it is relative."""
    return all(map(is_name, path.split("/")))


def is_absolute(path: str) -> bool:
    return path.startswith("/") and path == os.path.normpath(path)
