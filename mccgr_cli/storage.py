"""Bytes to where they are wanted: a file that appears whole or not at all, or a stream."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import BinaryIO

from mccgr_cli.errors import OutputError
from mccgr_cli.interrupts import uninterrupted


def check_destination(path: Path, overwrite: bool) -> None:
    """Refuse before anything is computed what could not be written after it."""
    with writing(str(path)):
        if path.is_dir():
            raise OutputError(str(path), "is a folder", "name a file in it with -o")
        if not path.parent.is_dir():
            raise OutputError(str(path), f"there is no folder {path.parent}", "make it first")
        if not os.access(path.parent, os.W_OK | os.X_OK):
            raise OutputError(str(path), f"no leave to write to the folder {path.parent}", REMEDIES[errno.EACCES])
        if os.path.lexists(path):
            if not overwrite:
                raise already_there(path)
            if path.exists() and not path.is_file():
                raise OutputError(str(path), "is not a regular file", "name another, or stream with -o -")


def write_files(
    contents: Mapping[Path, bytes], overwrite: bool, when_written: Callable[[], None] = lambda: None
) -> None:
    """Write each path whole or not at all: into temporary files beside them, which are renamed when all are there.

    An interrupt may come until the first is renamed; later ones come to nothing until ``when_written`` has returned.
    A file that has got its name keeps it if another cannot get its own, as when another run takes it in that moment.
    """
    staged = []
    for path in contents:
        check_destination(path, overwrite)
        with writing(str(path)):
            target = path.resolve()  # what a link leads to is replaced, not the link
        staged.append((path, target.with_name(f".{target.name[:50]}.{secrets.token_hex(4)}.tmp"), target))
    try:
        for path, temporary, _ in staged:
            with writing(str(path)):
                write_synced(temporary, contents[path])
        with uninterrupted():
            for path, temporary, target in staged:
                with writing(str(path)):
                    publish(temporary, target, overwrite)
            when_written()
    except BaseException:
        with uninterrupted():
            for _, temporary, _ in staged:
                with contextlib.suppress(OSError):
                    temporary.unlink(missing_ok=True)
        raise


def write_synced(path: Path, content: bytes) -> None:
    with path.open("xb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def publish(temporary: Path, target: Path, overwrite: bool) -> None:
    """Give a file that is whole the name that it shall have."""
    if overwrite:
        if target.exists():
            temporary.chmod(target.stat().st_mode & 0o7777)
        temporary.replace(target)
    else:
        rename_exclusively(temporary, target)
    sync_folder(target.parent)


def write_stream(content: bytes, stream: BinaryIO) -> None:
    rest = memoryview(content)
    with writing("standard output"):
        while rest:  # with PYTHONUNBUFFERED a stream may take only a part at a time
            rest = rest[stream.write(rest) :]
        stream.flush()


def already_there(path: Path) -> OutputError:
    return OutputError(str(path), "exists already", "choose another name with -o, or give --overwrite")


def rename_exclusively(temporary: Path, path: Path) -> None:
    try:
        os.link(temporary, path)  # unlike rename, fails when another run was first
        temporary.unlink()
    except FileExistsError:
        raise already_there(path) from None
    except OSError:  # a file system without hard links
        if path.exists():
            raise already_there(path) from None
        temporary.replace(path)


def sync_folder(folder: Path) -> None:
    with contextlib.suppress(OSError):  # not every system can
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


REMEDIES = {
    errno.ENOSPC: "free some space or choose another place",
    errno.EDQUOT: "free some space or choose another place",
    errno.EFBIG: "raise the limit on file sizes or choose another place",
    errno.ENOENT: "make the folder first",
    errno.EACCES: "choose another place with -o",
    errno.EROFS: "choose another place with -o",
    errno.ENAMETOOLONG: "choose a shorter name with -o",
}


@contextlib.contextmanager
def writing(where: str) -> Iterator[None]:
    """What the system says about an output, in our words."""
    try:
        yield
    except RuntimeError:  # what Python calls links that lead in a circle, before 3.13
        raise OutputError(where, "a link that leads nowhere", "choose another name with -o") from None
    except BrokenPipeError:
        what = "closed before the whole result was written"
        raise OutputError(where, what, "the command after the pipe may have failed") from None
    except OSError as fault:
        reason = (fault.strerror or str(fault)).lower()
        raise OutputError(where, f"cannot write: {reason}", REMEDIES.get(fault.errno or 0, "")) from None
