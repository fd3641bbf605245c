"""How much memory this process may use, and whether that is enough."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

from mccgr_cli.errors import DataError, MccgrError

if sys.platform != "win32":
    import resource

MINIMUM_BYTES = 6e8  # bytes that the libraries need: with less, some end the process or never stop asking for memory
MOST_CREDIBLE = 1000  # an array in memory may be at most this many times larger than its bytes in a file
UNITS = ("B", "kB", "MB", "GB", "TB", "PB")


def format_bytes(amount: float) -> str:
    """A number of bytes with a unit.

    >>> format_bytes(8e9), format_bytes(1_234_567), format_bytes(12)
    ('8 GB', '1.23 MB', '12 B')
    """
    power = 0
    while amount >= 999.5 and power + 1 < len(UNITS):
        amount, power = amount / 1000, power + 1
    return f"{amount:.3g} {UNITS[power]}"


def available_memory() -> int:
    """Bytes that this process can still use; a batch system may allow less than is free."""
    return min([free_on_machine(), *left_by_limits(), *left_by_shell()])


def require_memory(amount: float, where: str, what: str = "it", held: float | None = None) -> None:
    """Raise an error unless ``amount`` bytes are free. Call this before reading: a file can declare any size.

    ``where`` and ``what`` name the file and the thing in it. ``held`` are the bytes that it takes in the file, if
    known: an ``amount`` far above them suggests a damaged file.
    """
    free = available_memory()
    if amount > free:
        credible = held is None or amount <= MOST_CREDIBLE * held
        remedy = "use a larger machine, or store it as HDF5 by rows" if credible else "the file may be damaged"
        raise DataError(
            where, f"{what} takes {format_bytes(amount)} of memory, and {format_bytes(free)} are free", remedy
        )


def require_minimum() -> None:
    """Raise an error if ``ulimit`` leaves too little memory for the libraries."""
    left = min(left_by_shell(), default=MINIMUM_BYTES)
    if left < MINIMUM_BYTES:
        what = (
            f"leaves {format_bytes(left)} of memory to this process, and libraries take {format_bytes(MINIMUM_BYTES)}"
        )
        raise MccgrError("ulimit", what, "raise it")


def limit_growth(room: float, status: Path = Path("/proc/self/statm")) -> None:
    """Let this process use at most ``room`` bytes more than now; where the system cannot tell, there is no limit."""
    pages = next(lines_of(status), "").split()
    if sys.platform == "win32" or len(pages) < 6:
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    limit = int(pages[5]) * resource.getpagesize() + int(room)
    if soft == resource.RLIM_INFINITY or limit < soft:
        resource.setrlimit(resource.RLIMIT_DATA, (limit, hard))


def left_by_shell(status: Path = Path("/proc/self/statm")) -> Iterator[int]:
    """Bytes left of the limits set by ``ulimit -v`` and ``ulimit -d``."""
    pages = next(lines_of(status), "").split()
    if sys.platform == "win32" or len(pages) < 6:
        return
    for limit, used in ((resource.RLIMIT_AS, pages[0]), (resource.RLIMIT_DATA, pages[5])):
        allowed, _ = resource.getrlimit(limit)
        if allowed != resource.RLIM_INFINITY:
            yield max(0, allowed - int(used) * resource.getpagesize())


def free_on_machine() -> int:
    for line in lines_of(Path("/proc/meminfo")):
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def left_by_limits(root: Path = Path("/sys/fs/cgroup"), own: Path = Path("/proc/self/cgroup")) -> Iterator[int]:
    """Bytes left in each control group of this process: the limit, less what is used and is no file cache."""
    for line in lines_of(own):
        _, controllers, path = line.strip().split(":", 2)
        if controllers == "":
            folder, names = root, ("memory.max", "memory.current", "file ", "shmem ")
        elif "memory" in controllers.split(","):
            names = "memory.limit_in_bytes", "memory.usage_in_bytes", "total_cache ", "total_shmem "
            folder = root / "memory"
        else:
            continue
        place = folder / path.lstrip("/")
        for group in (place, *place.parents):
            if folder in (group, *group.parents):
                limit, used = (next(lines_of(group / name), "max").strip() for name in names[:2])
                if limit.isdigit() and used.isdigit():
                    cached, shared = (amount_of(group / "memory.stat", name) for name in names[2:])
                    yield max(0, int(limit) - int(used) + cached - shared)  # shared memory cannot be dropped


def amount_of(path: Path, name: str) -> int:
    return sum(int(line.split()[1]) for line in lines_of(path) if line.startswith(name))


def lines_of(path: Path) -> Iterator[str]:
    try:
        with path.open() as file:
            yield from file
    except OSError:
        return
