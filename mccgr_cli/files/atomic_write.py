"""Bytes to where they are wanted: a file that appears whole or not at all, or a stream.

A run that will write a file NAME holds a lock meanwhile, ``.NAME.mccgr.lock`` beside it, and writes at last
``.NAME.HEX.mccgr.tmp``, which is renamed to NAME when it is whole. Neither outlives the run, unless that is killed:
then nobody holds the lock, and the next run that writes to the folder removes both.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import re
import secrets
import shutil
import socket
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import BinaryIO

from mccgr_cli.errors import OutputError
from mccgr_cli.system.locks import lock
from mccgr_cli.system.memory import in_words
from mccgr_cli.system.signals import uninterrupted

LOCK, TEMPORARY = ".mccgr.lock", ".mccgr.tmp"
LONGEST_NAME = 100  # of what stands for a name in those of other files, which have a limit
LOCK_TRIES, LOCK_PAUSE = 10, 0.03  # seconds: somebody may be looking whether it is locked


class Claim:
    """The right to write a file until it is released, or the process ends: no other run has it meanwhile."""

    def __init__(self, path: Path, overwrite: bool) -> None:
        check_destination(path, overwrite)
        with writing(str(path)):
            target = path.resolve()
            remove_what_killed_runs_left(target.parent)
            self._path = lock_path(target)
            self._file = open_locked(self._path, path)
        try:
            check_destination(path, overwrite)  # again: another run may have written it just now
        except BaseException:
            self.release()
            raise

    def release(self) -> None:
        with uninterrupted():
            if self._file is not None:
                remove(self._path)
                self._file.close()
                self._file = None


def lock_path(target: Path) -> Path:
    return target.with_name(f".{short_name(target)}{LOCK}")


def open_locked(path: Path, wanted: Path) -> BinaryIO | None:
    """The lock of an output that is ``wanted``, held; None where there are no locks: then the first to finish wins."""
    for _ in range(LOCK_TRIES):
        file = open_lock(path)
        got = lock(file)
        if got and os.fstat(file.fileno()).st_nlink:  # else who had it has removed it
            with contextlib.suppress(OSError):  # for people, and to know it again
                file.truncate(0)
                file.write(f"process {os.getpid()} on {socket.gethostname()}".encode())
            return file
        holder = "" if got else file_head(file)
        file.close()
        if got is None:
            remove(path)
            return None
        time.sleep(LOCK_PAUSE)
    what = "another run is writing it" + (f" ({holder})" if holder else "")
    raise OutputError(str(wanted), what, "wait for it, or choose another name with -o")


def open_lock(path: Path) -> BinaryIO:
    """Not what a link of that name leads to."""

    def opener(name: str, flags: int) -> int:
        return os.open(name, flags | getattr(os, "O_NOFOLLOW", 0), 0o666)

    try:
        return open(path, "a+b", buffering=0, opener=opener)
    except PermissionError:  # left by a killed run of somebody else
        return open(path, "rb", opener=opener)


def file_head(file: BinaryIO) -> str:
    file.seek(0)
    return file.read(200).decode(errors="replace")


def remove_what_killed_runs_left(folder: Path) -> None:
    """Their locks, which nobody holds any more, and what they had written so far."""
    names: list[str] = []
    with contextlib.suppress(OSError), os.scandir(folder) as entries:  # some let us write, and not look
        names += [entry.name for entry in entries if entry.name.startswith(".") and ".mccgr." in entry.name]
    for name in names:
        if name.endswith(LOCK):
            path = folder / name
            with contextlib.suppress(OSError), path.open("rb") as file:
                # Not all file systems tell machines of each other's locks: those of others are left to them.
                of_ours = file_head(file).endswith(f" on {socket.gethostname()}")
                if of_ours and lock(file) and os.fstat(file.fileno()).st_nlink:
                    for temporary in filter(temporary_pattern(name.removesuffix(LOCK)).fullmatch, names):
                        remove(folder / temporary)
                    remove(path)


def temporary_path(target: Path) -> Path:
    return target.with_name(f".{short_name(target)}.{secrets.token_hex(4)}{TEMPORARY}")


def temporary_pattern(stem: str) -> re.Pattern[str]:
    return re.compile(re.escape(stem) + r"\.[0-9a-f]{8}" + re.escape(TEMPORARY), re.DOTALL)


def short_name(target: Path) -> str:
    """What stands for the name of a file in those of the files beside it."""
    name = os.fsencode(target.name)
    if len(name) <= LONGEST_NAME:
        return target.name
    return f"{target.name[: LONGEST_NAME // 8]}~{hashlib.sha256(name).hexdigest()[:16]}"


def remove(path: Path) -> None:
    with contextlib.suppress(OSError):
        path.unlink(missing_ok=True)


def check_space(path: Path, size: float) -> None:
    """Refuse what there is no room for on the disk."""
    with writing(str(path)):
        folder = path.resolve().parent
        free = shutil.disk_usage(folder).free
    if size > free:
        what = f"it takes {in_words(size)}, and {in_words(free)} are free in {folder}"
        raise OutputError(str(path), what, REMEDIES[errno.ENOSPC])


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
    contents: Mapping[Path, bytes],
    overwrite: bool,
    when_written: Callable[[], None] = lambda: None,
    later: Callable[[], AbstractContextManager[None]] = uninterrupted,
) -> None:
    """Write each path whole or not at all: into temporary files beside them, which are renamed when all are there.

    An interrupt may come until the first is renamed; ``later`` says what becomes of those that come until
    ``when_written`` has returned: nothing, as the result stands, or they wait. A file that has got its name keeps it if
    another cannot get its own, as when another run takes it in that moment.
    """
    staged = []
    for path in contents:
        check_destination(path, overwrite)
        with writing(str(path)):
            target = path.resolve()  # what a link leads to is replaced, not the link
        staged.append((path, temporary_path(target), target))
    for folder in {target.parent for _, _, target in staged}:
        here = [path for path, _, target in staged if target.parent == folder]
        check_space(here[0], sum(len(contents[path]) for path in here))
    try:
        for path, temporary, _ in staged:
            with writing(str(path)):
                write_synced(temporary, contents[path])
        with later():
            for path, temporary, target in staged:
                with writing(str(path)):
                    publish(temporary, target, overwrite)
            when_written()
    except BaseException:
        with later():
            for _, temporary, _ in staged:
                remove(temporary)
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
