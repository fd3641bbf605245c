"""How much memory there is, and how much a run takes beside X."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from mccgr_cli.blocks import Size
from mccgr_cli.errors import DataError, MccgrError
from mccgr_cli.settings import GraphSettings, Settings

if sys.platform != "win32":
    import resource

USABLE = 0.8  # of what is free: others want some too, and X is not all that is read

ARRAYS, COORDINATE_ARRAYS = 5.0, 10.0  # as large as W, in double precision
EDGE_BYTES = 50.0  # for each neighbour of each sample, while the graph is put together
PLACES = 3.5  # copies in single precision of the samples on their axes while neighbours are sought

OWN = 4.5e8  # of the process itself: libraries, and the blocks that they work on (python -m benchmarks.estimates)

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


@dataclass(frozen=True)
class Room:
    """The memory that a command may use for X and all that comes with it."""

    limit: float
    given: bool  # by the user
    settings: Settings | None
    graph: GraphSettings | None  # None where no graph is built
    checkpoints: int = 0  # that are in memory: one that is put together, and one that the run goes on from

    def beside(self, size: Size) -> dict[str, float]:
        """Bytes that are in memory wherever X is, by what takes them."""
        n, k = size.samples, self.settings.k if self.settings is not None else 0
        arrays = COORDINATE_ARRAYS if self.settings is not None and self.settings.solver == "coordinate" else ARRAYS
        each = 8.0 + (arrays - 1) * size.itemsize  # a start has double precision
        taken = {"the factors": each * (n + size.features) * k}
        if self.graph is not None:
            taken["the graph"] = EDGE_BYTES * n * self.graph.neighbors
            taken["the search for neighbours"] = PLACES * 4.0 * n * self.graph.axes_for(k)
        if self.checkpoints:
            taken["a checkpoint"] = self.checkpoints * self.kept(size)
        return taken

    def kept(self, size: Size) -> float:
        """Bytes of a checkpoint."""
        n, settings = size.samples, self.settings
        if settings is None:
            return 0.0
        factors = size.itemsize * (n + size.features) * settings.k
        copies = (3 if settings.solver == "coordinate" else 1) + (settings.restarts > 1)
        edges = 2.0 * n * self.graph.neighbors if self.graph is not None else 0.0
        return copies * factors + 12 * edges

    def needed(self, size: Size) -> float:
        taken = self.beside(size)
        search = taken.pop("the search for neighbours", 0.0)  # before there are factors
        return taken.pop("the graph", 0.0) + max(search, sum(taken.values()))

    def taken(self, size: Size, in_file: bool) -> float:
        """What the run will take in all, beside what any run does."""
        return self.needed(size) + (0.0 if in_file else size.bytes * self.copies())

    def stays(self, size: Size) -> bool:
        """Whether X is to be left in its file, as it does not fit into memory with the rest."""
        self.check_rest(size)
        return self.taken(size, in_file=False) > self.limit

    def copies(self) -> float:
        """Of X in memory: neighbours that are sought among the rows themselves take some more, in single precision."""
        if self.graph is None or self.graph.axes_for(self.settings.k if self.settings is not None else 0):
            return 1.0
        return 2.0 if self.graph.metric == "cosine" or self.graph.weight == "cosine" else 1.5

    def check_rest(self, size: Size) -> None:
        """An error if there is too little memory wherever X is."""
        if self.needed(size) > self.limit:
            what = ", ".join(f"{name} {in_words(taken)}" for name, taken in self.beside(size).items() if taken)
            raise MccgrError(self.have, f"too little even without X: {what}", self.remedy(size))

    def check_whole(self, size: Size, where: str) -> None:
        """An error if X is in memory, as it cannot stay in its file, and the rest does not fit beside it."""
        if not self.given and self.stays(size):
            what = f"takes {in_words(size.bytes)} and the rest {in_words(self.needed(size))}, which does not fit"
            rows = "store it as HDF5 by rows, which can stay in its file"
            raise MccgrError(self.have, f"{where} {what}", f"{rows}; or {self.remedy(size)}")

    @property
    def have(self) -> str:
        return f"--memory {in_words(self.limit)}" if self.given else f"{in_words(self.limit)} of free memory"

    def remedy(self, size: Size) -> str:
        """What would make it fit."""
        remedies = ["give more --memory" if self.given else "use a larger machine"]
        single = replace(size, itemsize=4)
        if size.itemsize > 4 and self.taken(single, in_file=True) <= self.limit:
            remedies.append("--dtype float32")
        remedies.append("a smaller --k" if self.graph is None else "a smaller --k, or fewer --axes")
        return ", ".join(remedies)


def amount_of(path: Path, name: str) -> int:
    return sum(int(line.split()[1]) for line in lines_of(path) if line.startswith(name))


def lines_of(path: Path) -> Iterator[str]:
    try:
        with path.open() as file:
            yield from file
    except OSError:
        return
