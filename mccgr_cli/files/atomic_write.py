"""Write files completely or not at all, or write to a stream.

A run that will write a file NAME holds the lock ``.NAME.mccgr.lock`` beside it. The result goes into
``.NAME.HEX.mccgr.tmp``, which is renamed to NAME when it is complete. Both disappear when the run ends. If the run is
killed, nobody holds the lock any more, and the next run that writes to the folder removes both.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import re
import secrets
import shlex
import shutil
import socket
import stat
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import BinaryIO

from mccgr_cli.errors import OutputError
from mccgr_cli.system.locks import try_lock
from mccgr_cli.system.memory import format_bytes
from mccgr_cli.system.signals import ignored_interrupts

LOCK, TEMPORARY = ".mccgr.lock", ".mccgr.tmp"
LONGEST_NAME = 100  # bytes of a file name that go into the names of its lock and temporary file
LOCK_TRIES, LOCK_PAUSE = 10, 0.03  # seconds: another process may hold it for a moment to see whether it is free
WRITABLE = stat.S_IWUSR | stat.S_IWGRP | stat.S_IWOTH
REMEDIES = {
    errno.ENOSPC: "free some space or choose another place",
    errno.EDQUOT: "free some space or choose another place",
    errno.EFBIG: "raise the limit on file sizes or choose another place",
    errno.ENOENT: "make the folder first",
    errno.EACCES: "choose another place, or allow writing there",
    errno.EROFS: "choose another place",
    errno.ENAMETOOLONG: "choose a shorter name with -o",
}


@contextlib.contextmanager
def output_errors(where: str) -> Iterator[None]:
    """Turn errors of the system about an output into an OutputError with a remedy."""
    try:
        yield
    except RuntimeError:  # Python before 3.13 raises this for links in a circle
        raise OutputError(where, "a link that leads nowhere", "choose another name with -o") from None
    except BrokenPipeError:
        what = "closed before the whole result was written"
        raise OutputError(where, what, "the command after the pipe may have failed") from None
    except OSError as fault:
        reason = (fault.strerror or str(fault)).lower()
        raise OutputError(where, f"cannot write: {reason}", REMEDIES.get(fault.errno or 0, "")) from None


# Before anything is computed


class OutputLock:
    """The right to write a file, until it is released or the process ends. Only one run at a time has it."""

    def __init__(self, path: Path, overwrite: bool) -> None:
        check_destination(path, overwrite)
        with output_errors(str(path)):
            target = path.resolve()
            remove_files_of_killed_runs(target.parent)
            self._path = lock_path(target)
            self._file = open_locked(self._path, path)
        try:
            check_destination(path, overwrite)  # again: another run may have written it just now
        except BaseException:
            self.release()
            raise

    def release(self) -> None:
        with ignored_interrupts():
            if self._file is not None:
                remove(self._path)
                self._file.close()
                self._file = None


def lock_path(target: Path) -> Path:
    return target.with_name(f".{short_name(target)}{LOCK}")


def open_locked(path: Path, output: Path) -> BinaryIO | None:
    """The lock file of an output, locked. None if the file system has no locks: then the first run to finish wins."""
    for _ in range(LOCK_TRIES):
        file = open_lock(path)
        locked = try_lock(file)
        if locked and os.fstat(file.fileno()).st_nlink:  # else its last holder has just removed it
            with contextlib.suppress(OSError):  # for people, and for remove_files_of_killed_runs
                file.truncate(0)
                file.write(f"process {os.getpid()} on {socket.gethostname()}".encode())
            return file
        holder = "" if locked else file_head(file)
        file.close()
        if locked is None:
            remove(path)
            return None
        time.sleep(LOCK_PAUSE)
    what = "another run is writing it" + (f" ({holder})" if holder else "")
    raise OutputError(str(output), what, "wait for it, or choose another name with -o")


def open_lock(path: Path) -> BinaryIO:
    """Open a lock file, but never what a symbolic link of that name points to."""

    def opener(name: str, flags: int) -> int:
        return os.open(name, flags | getattr(os, "O_NOFOLLOW", 0), 0o666)

    try:
        return open(path, "a+b", buffering=0, opener=opener)
    except PermissionError:  # left by a killed run of another user
        return open(path, "rb", opener=opener)


def file_head(file: BinaryIO) -> str:
    file.seek(0)
    return file.read(200).decode(errors="replace")


def remove_files_of_killed_runs(folder: Path) -> None:
    """Remove locks that nobody holds any more, and the temporary files that belong to them."""
    names: list[str] = []
    with contextlib.suppress(OSError), os.scandir(folder) as entries:  # some folders can be written but not listed
        names += [entry.name for entry in entries if entry.name.startswith(".") and ".mccgr." in entry.name]
    for name in (name for name in names if name.endswith(LOCK)):
        path = folder / name
        with contextlib.suppress(OSError), path.open("rb") as file:
            # On some file systems a machine does not see the locks of others: leave their files alone.
            of_this_machine = file_head(file).endswith(f" on {socket.gethostname()}")
            if of_this_machine and try_lock(file) and os.fstat(file.fileno()).st_nlink:
                stem = re.escape(name.removesuffix(LOCK))
                temporary = re.compile(rf"{stem}\.[0-9a-f]{{8}}{re.escape(TEMPORARY)}", re.DOTALL)
                for left in filter(temporary.fullmatch, names):
                    remove(folder / left)
                remove(path)


def temporary_path(target: Path) -> Path:
    return target.with_name(f".{short_name(target)}.{secrets.token_hex(4)}{TEMPORARY}")


def short_name(target: Path) -> str:
    """The name of a file; a hash instead if it is too long to add to it."""
    name = os.fsencode(target.name)
    if len(name) <= LONGEST_NAME:
        return target.name
    return f"{target.name[: LONGEST_NAME // 8]}~{hashlib.sha256(name).hexdigest()[:16]}"


def remove(path: Path) -> None:
    with contextlib.suppress(OSError):
        path.unlink(missing_ok=True)


def check_space(path: Path, size: float) -> None:
    """An error if the disk has less than ``size`` bytes free."""
    with output_errors(str(path)):
        folder = path.resolve().parent
        free = shutil.disk_usage(folder).free
    if size > free:
        what = f"it takes {format_bytes(size)}, and {format_bytes(free)} are free in {folder}"
        raise OutputError(str(path), what, REMEDIES[errno.ENOSPC])


def check_destination(path: Path, overwrite: bool) -> None:
    """An error if the file could not be written."""
    with output_errors(str(path)):
        if path.is_dir():
            raise OutputError(str(path), "is a folder", "name a file in it with -o")
        if not path.parent.is_dir():
            raise OutputError(str(path), f"there is no folder {path.parent}", "make it first")
        if not os.access(path.parent, os.W_OK | os.X_OK):
            what = f"no permission to write to the folder {path.parent}"
            raise OutputError(str(path), what, REMEDIES[errno.EACCES])
        if os.path.lexists(path):
            if not overwrite:
                raise already_there(path)
            if path.exists() and not path.is_file():
                raise OutputError(str(path), "is not a regular file", "name another, or stream with -o -")


def already_there(path: Path) -> OutputError:
    return OutputError(str(path), "exists already", "choose another name with -o, or give --overwrite")


# The result


def write_files(
    contents: Mapping[Path, bytes],
    overwrite: bool,
    when_written: Callable[[], None] = lambda: None,
    later: Callable[[], AbstractContextManager[None]] = ignored_interrupts,
) -> None:
    """Write each file completely or not at all.

    All contents go into temporary files, which are renamed when all of them are complete. If a file cannot be renamed,
    because another run has just taken the name, those renamed before it stay. After the last one, ``when_written`` is
    called. The context ``later`` holds from the first rename until then: by default interrupts are ignored in it.
    """
    staged = []
    for path in contents:
        check_destination(path, overwrite)
        with output_errors(str(path)):
            target = path.resolve()  # replace what a link points to, not the link
        staged.append((path, temporary_path(target), target))
    for folder in {target.parent for _, _, target in staged}:
        here = [path for path, _, target in staged if target.parent == folder]
        check_space(here[0], sum(len(contents[path]) for path in here))
    try:
        for path, temporary, _ in staged:
            with output_errors(str(path)), temporary.open("xb") as file:
                file.write(contents[path])
                file.flush()
                os.fsync(file.fileno())
        with later():
            for path, temporary, target in staged:
                with output_errors(str(path)):
                    publish(temporary, target, overwrite)
            when_written()
    except BaseException:
        with later():
            for _, temporary, _ in staged:
                remove(temporary)
        raise


@contextlib.contextmanager
def changed_copy(path: Path, extra: float, when_written: Callable[[], None] = lambda: None) -> Iterator[Path]:
    """A copy of a file, to be changed in the block. At the end it replaces the file, as in :func:`write_files`.

    ``extra``: bytes by which the copy will be longer. The file is not read into memory.
    """
    with output_errors(str(path)):
        target = path.resolve()  # change what a link points to, not the link
        before = stamp(target)
        if not target.stat().st_mode & WRITABLE or not os.access(target, os.W_OK):
            raise OutputError(str(path), "is read-only", f"allow writing it: chmod u+w {shlex.quote(str(path))}")
    check_space(path, before[0] + extra)
    temporary = temporary_path(target)
    try:
        with output_errors(str(path)):
            os.close(os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))  # nobody else may read it yet
            shutil.copyfile(target, temporary)
        yield temporary
        with output_errors(str(path)):
            with temporary.open("rb+") as file:
                os.fsync(file.fileno())
            if stamp(target) != before:
                raise OutputError(str(path), "another program has changed it meanwhile", "run the command again")
        with ignored_interrupts():
            with output_errors(str(path)):
                publish(temporary, target, overwrite=True)
            when_written()
    except BaseException:
        with ignored_interrupts():
            remove(temporary)
        raise


def stamp(path: Path) -> tuple[int, int, int]:
    """What changes when a file is changed or replaced: its length, its time and its identity."""
    about = path.stat()
    return about.st_size, about.st_mtime_ns, about.st_ino


def publish(temporary: Path, target: Path, overwrite: bool) -> None:
    """Give a complete file its name."""
    if overwrite:
        if target.exists():
            about = target.stat()
            with contextlib.suppress(OSError):  # only root may give files away
                os.chown(temporary, about.st_uid, about.st_gid)
            temporary.chmod(about.st_mode & 0o7777)
        temporary.replace(target)
    else:
        rename_exclusively(temporary, target)
    with contextlib.suppress(OSError):  # not every system can sync a folder
        handle = os.open(target.parent, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def rename_exclusively(temporary: Path, path: Path) -> None:
    try:
        os.link(temporary, path)  # unlike rename, this fails if another run was first
        temporary.unlink()
    except FileExistsError:
        raise already_there(path) from None
    except OSError:  # a file system without hard links
        if path.exists():
            raise already_there(path) from None
        temporary.replace(path)


def write_stream(content: bytes, stream: BinaryIO) -> None:
    rest = memoryview(content)
    with output_errors("standard output"):
        while rest:  # with PYTHONUNBUFFERED a stream may take only a part at a time
            rest = rest[stream.write(rest) :]
        stream.flush()
