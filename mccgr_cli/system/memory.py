"""How much memory there is, and whether it is enough."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

from mccgr_cli.errors import DataError, MccgrError

if sys.platform != "win32":
    import resource

LEAST = 6e8  # for libraries to work at all: with less, some end the process, or ask for memory for ever
MOST_CREDIBLE = 1000  # times the bytes that a file holds of it, that something in it takes in memory

UNITS = ("B", "kB", "MB", "GB", "TB", "PB")


def in_words(amount: float) -> str:
    """
    >>> in_words(8e9), in_words(1_234_567), in_words(12)
    ('8 GB', '1.23 MB', '12 B')
    """
    power = 0
    while amount >= 999.5 and power + 1 < len(UNITS):
        amount, power = amount / 1000, power + 1
    return f"{amount:.3g} {UNITS[power]}"


def available() -> int:
    """Bytes that this process can have; a batch system may allow fewer than are free."""
    return min([free_on_machine(), *left_by_limits(), *left_by_shell()])


def require(amount: float, where: str, what: str = "it", held: float | None = None) -> None:
    """Refuse to read what there is no memory for: files can declare anything, whatever they have ``held`` so far."""
    free = available()
    if amount > free:
        credible = held is None or amount <= MOST_CREDIBLE * held
        remedy = "use a larger machine, or store it as HDF5 by rows" if credible else "the file may be damaged"
        raise DataError(where, f"{what} takes {in_words(amount)} of memory, and {in_words(free)} are free", remedy)


def require_least() -> None:
    """Refuse limits within which the libraries themselves would fail."""
    left = min(left_by_shell(), default=LEAST)
    if left < LEAST:
        what = f"leaves {in_words(left)} of memory to this process, and libraries take {in_words(LEAST)}"
        raise MccgrError("ulimit", what, "raise it")


def left_by_shell(status: Path = Path("/proc/self/statm")) -> Iterator[int]:
    """What ``ulimit -v`` and ``ulimit -d`` have left."""
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
    """What each control group that the process is in has left: its limit less what is used and not a cache of files."""
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
                    yield max(0, int(limit) - int(used) + cached - shared)  # what is shared cannot be dropped


def amount_of(path: Path, name: str) -> int:
    return sum(int(line.split()[1]) for line in lines_of(path) if line.startswith(name))


def lines_of(path: Path) -> Iterator[str]:
    try:
        with path.open() as file:
            yield from file
    except OSError:
        return
