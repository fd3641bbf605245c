"""Put a file into a folder without overwriting anything, without following planted links, and without losing it.

A :class:`Spot` is a name in an open folder, so nothing can lead it elsewhere later. Nothing here replaces a file: a
name that is taken is a ``FileExistsError``.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import stat
from collections.abc import Iterator
from dataclasses import dataclass

PIECE = 1 << 20  # bytes that are compared at a time
# What systems say where a file system has no hard links, or does not allow one to this file.
NO_HARD_LINKS = (errno.EPERM, errno.EACCES, errno.EOPNOTSUPP, errno.ENOTSUP, errno.ENOSYS, errno.EMLINK)
FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC


@dataclass(frozen=True)
class Spot:
    """A place where a file is or will be."""

    name: str
    folder: int | None = None  # an open folder; without it, the name is a path

    def status(self) -> os.stat_result | None:
        """Of the file, or of the link, that is there; None if there is none."""
        try:
            return os.stat(self.name, dir_fd=self.folder, follow_symlinks=False)
        except (FileNotFoundError, NotADirectoryError):
            return None

    def remove(self) -> None:
        os.unlink(self.name, dir_fd=self.folder)

    def open(self, flags: int) -> int:
        return os.open(self.name, flags | os.O_CLOEXEC, 0o600, dir_fd=self.folder)


def open_folder(name: str, inside: int | None = None, create: bool = False) -> int:
    """Open a folder. One inside another must not be a link. ``create``: make it if it is not there."""
    if create:
        with contextlib.suppress(FileExistsError):
            os.mkdir(name, dir_fd=inside)
    return os.open(name, FOLDER | (0 if inside is None else os.O_NOFOLLOW), dir_fd=inside)


@contextlib.contextmanager
def opened_folder(name: str, inside: int | None = None, create: bool = False) -> Iterator[int]:
    """An open folder, until the end of the block."""
    folder = open_folder(name, inside, create)
    try:
        yield folder
    finally:
        os.close(folder)


@contextlib.contextmanager
def opened_below(root: str, path: str) -> Iterator[Spot]:
    """The spot of a path inside a folder. Missing folders are made; links are not followed."""
    os.makedirs(root, exist_ok=True)
    *folders, name = path.split("/")
    with contextlib.ExitStack() as stack:
        inside = stack.enter_context(opened_folder(root))
        for folder in folders:
            inside = stack.enter_context(opened_folder(folder, inside, create=True))
        yield Spot(name, inside)


def is_regular(status: os.stat_result | None) -> bool:
    return status is not None and stat.S_ISREG(status.st_mode)


def hard_link(source: Spot, dest: Spot) -> None:
    folders = {"src_dir_fd": source.folder, "dst_dir_fd": dest.folder}
    os.link(source.name, dest.name, **folders, follow_symlinks=False)


def rename(source: Spot, dest: Spot) -> None:
    """Rename a file. Another file could take the name in between: only for file systems without hard links."""
    if dest.status() is not None:
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), dest.name)
    os.rename(source.name, dest.name, src_dir_fd=source.folder, dst_dir_fd=dest.folder)


def copy(source: Spot, dest: Spot, temporary: Spot, durable: bool = False) -> None:
    """Copy a file with its times and permissions. It gets its name when it is complete; ``durable``: on the disk."""
    try:
        write_copy(source, temporary, durable)
        try:
            hard_link(temporary, dest)
        except FileExistsError:
            raise
        except OSError:
            rename(temporary, dest)
        if durable and dest.folder is not None:
            with contextlib.suppress(OSError):  # not every system can sync a folder
                os.fsync(dest.folder)
    finally:
        with contextlib.suppress(FileNotFoundError):
            temporary.remove()


def write_copy(source: Spot, copy: Spot, durable: bool) -> None:
    with (
        os.fdopen(source.open(os.O_RDONLY | os.O_NONBLOCK), "rb") as old,
        os.fdopen(copy.open(os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW), "wb") as new,
    ):
        status = os.fstat(old.fileno())
        if not is_regular(status):
            raise OSError(errno.EINVAL, "not a regular file", source.name)
        shutil.copyfileobj(old, new, PIECE)
        new.flush()
        after = os.fstat(old.fileno())
        unchanged = (status.st_size, status.st_mtime_ns) == (after.st_size, after.st_mtime_ns)
        if not unchanged or os.fstat(new.fileno()).st_size != status.st_size:
            raise OSError(errno.EIO, "the image was changed while it was copied", source.name)
        copy_attributes(old.fileno(), new.fileno())
        os.fchmod(new.fileno(), stat.S_IMODE(status.st_mode) & 0o777)
        os.utime(new.fileno(), ns=(status.st_atime_ns, status.st_mtime_ns))
        if durable:
            os.fsync(new.fileno())


def copy_attributes(old: int, new: int) -> None:
    """Copy what else file systems keep of a file, as far as the other file system can."""
    if hasattr(os, "listxattr"):
        with contextlib.suppress(OSError):
            for name in os.listxattr(old):
                with contextlib.suppress(OSError):
                    os.setxattr(new, name, os.getxattr(old, name))


def move(source: Spot, dest: Spot, temporary: Spot) -> None:
    """Move a file. The source is removed only after the whole file is at its new place.

    If it is there already, because an earlier move was killed, only the source is removed.
    """
    with contextlib.suppress(FileNotFoundError):
        temporary.remove()  # left by a killed run
    there = dest.status()
    if there is None:
        if not transfer(source, dest, temporary):
            return
    elif not is_same(source, dest):
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), dest.name)
    try:
        source.remove()
    except OSError:
        if there is None:
            dest.remove()
        raise


def transfer(source: Spot, dest: Spot, temporary: Spot) -> bool:
    """Put a file to its new place. Returns whether it is still at the old one."""
    try:
        hard_link(source, dest)  # unlike rename, this fails if the name is taken
        return True
    except FileExistsError:
        raise
    except OSError as fault:
        if fault.errno not in (errno.EXDEV, *NO_HARD_LINKS):
            raise
        if fault.errno != errno.EXDEV:
            try:
                rename(source, dest)
                return False
            except OSError as fault:
                if fault.errno != errno.EXDEV:
                    raise
    copy(source, dest, temporary, durable=True)
    return True


def is_same(first: Spot, second: Spot) -> bool:
    """Whether two regular files are one file, or have the same bytes."""
    one, other = first.status(), second.status()
    if one is None or other is None or not (is_regular(one) and is_regular(other)):
        return False
    if os.path.samestat(one, other):
        return True
    if one.st_size != other.st_size:
        return False
    with (
        os.fdopen(first.open(os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as old,
        os.fdopen(second.open(os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as new,
    ):
        while (piece := old.read(PIECE)) == new.read(PIECE):
            if not piece:
                return True
    return False
