"""Where X is during a run, in memory or in its file: how much memory the run takes, and what fits."""

from __future__ import annotations

from dataclasses import dataclass, replace

from mccgr_cli.blocks.protocol import Matrix, Size
from mccgr_cli.errors import MccgrError
from mccgr_cli.files.lazy_matrix import LazyMatrix, StoredMatrix
from mccgr_cli.files.readers import Loaded
from mccgr_cli.settings import GraphSettings, Settings
from mccgr_cli.system.memory import in_words

USABLE = 0.8  # of what is free: others want some too, and X is not all that is read

ARRAYS, COORDINATE_ARRAYS = 5.0, 10.0  # as large as W, in double precision
EDGE_BYTES = 50.0  # for each neighbour of each sample, while the graph is put together
PLACES = 3.5  # copies in single precision of the samples on their axes while neighbours are sought

OWN = 4.5e8  # of the process itself: libraries, and the blocks that they work on (python -m benchmarks.estimates)


def place(
    matrix: Loaded, room: Room, how: str, dtype: str | None = None, keep_in_file: bool = False
) -> Matrix | StoredMatrix:
    """Decide whether X is loaded or stays in its file.

    Parameters
    ----------
    matrix
        A matrix file. Its contents lose their X, so that there is only one copy.
    room
        The memory for X and everything beside it.
    how, dtype
        Normalization of the rows, and precision (None: that of the file).
    keep_in_file
        Leave X in its file even if it fits, as workers of a cluster will read it.

    Returns
    -------
    Matrix or StoredMatrix
        What :func:`mccgr_cli.blocks.from_file.blocks_of` makes blocks of; its values are checked.

    Raises
    ------
    MccgrError
        There is too little memory. This is found before X is read, if it is read from HDF5.
    """
    X: LazyMatrix = matrix.contents.datasets.pop("X").prepared_as(how, dtype)
    return X.stream() if room.is_exceeded_by(X.size) or keep_in_file else X.load()


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

    def is_exceeded_by(self, size: Size) -> bool:
        """Whether X in memory and the rest take more than there is; an error if the rest alone does."""
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
        """An error if X must be in memory and the rest does not fit beside it, unless the user gave the limit."""
        if not self.given and self.is_exceeded_by(size):
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
