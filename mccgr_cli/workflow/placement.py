"""Decide whether X is loaded into memory or stays in its file, by the memory that a run takes."""

from __future__ import annotations

from dataclasses import dataclass, replace

from mccgr_cli.blocks.protocol import Array, Matrix, Size
from mccgr_cli.errors import MccgrError
from mccgr_cli.files.lazy_matrix import LazyMatrix, StoredMatrix
from mccgr_cli.files.readers import Loaded
from mccgr_cli.settings import GraphSettings, Settings
from mccgr_cli.system.memory import format_bytes

USABLE = 0.8  # fraction of the free memory: other programs need some too, and not only X is read

ARRAYS, COORDINATE_ARRAYS = 5.0, 10.0  # number of arrays as large as W that a solver has
EDGE_BYTES = 50.0  # for each neighbour of each sample, while the graph is built
PLACES = 3.5  # copies in single precision of the samples on their principal axes, while neighbours are searched

OWN = 4.5e8  # bytes of the process itself: libraries and blocks of X (python -m benchmarks.estimates)


def place(
    matrix: Loaded,
    room: Room,
    how: str,
    dtype: str | None = None,
    keep_in_file: bool = False,
    idf: Array | None = None,
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
    idf
        For the normalization tfidf, if it was learnt already.

    Returns
    -------
    Matrix or StoredMatrix
        What :func:`mccgr_cli.blocks.from_file.blocks_of` makes blocks of; its values are checked.

    Raises
    ------
    MccgrError
        There is too little memory. Rows of an HDF5 file are not read before this is known.
    """
    X: LazyMatrix = matrix.contents.datasets.pop("X").prepared_as(how, dtype, idf)
    return X.stream() if room.is_exceeded_by(X.size) or keep_in_file else X.load()


@dataclass(frozen=True)
class Room:
    """The memory, in bytes, that a command may use for X and everything beside it."""

    limit: float
    set_by_user: bool
    settings: Settings | None
    graph: GraphSettings | None  # None if no graph is built
    checkpoints: int = 0  # in memory: the one that is being written, and the one that the run continues from

    def beside(self, size: Size) -> dict[str, float]:
        """Bytes that are needed in memory even if X stays in its file, by purpose."""
        n, k = size.samples, self.settings.k if self.settings is not None else 0
        arrays = COORDINATE_ARRAYS if self.settings is not None and self.settings.solver == "coordinate" else ARRAYS
        each = 8.0 + (arrays - 1) * size.itemsize  # a start has double precision
        taken = {"the factors": each * (n + size.features) * k}
        if self.graph is not None:
            taken["the graph"] = EDGE_BYTES * n * self.graph.most_neighbors(n)
            taken["the search for neighbours"] = PLACES * 4.0 * n * self.graph.axes_for(k)
        if self.checkpoints:
            taken["a checkpoint"] = self.checkpoints * self.kept(size)
        return taken

    def kept(self, size: Size) -> float:
        """The bytes of a checkpoint."""
        n, settings = size.samples, self.settings
        if settings is None:
            return 0.0
        factors = size.itemsize * (n + size.features) * settings.k
        copies = (3 if settings.solver == "coordinate" else 1) + (settings.restarts > 1)
        edges = 2.0 * n * self.graph.most_neighbors(n) if self.graph is not None else 0.0
        return copies * factors + 12 * edges

    def needed(self, size: Size) -> float:
        """The most that is needed at a time beside X."""
        taken = self.beside(size)
        search = taken.pop("the search for neighbours", 0.0)  # before there are factors
        return taken.pop("the graph", 0.0) + max(search, sum(taken.values()))

    def taken(self, size: Size, in_file: bool) -> float:
        """What the run takes in all, apart from libraries."""
        return self.needed(size) + (0.0 if in_file else size.bytes * self.copies())

    def is_exceeded_by(self, size: Size) -> bool:
        """Whether X in memory and the rest take more than there is; an error if the rest alone does."""
        self.check_rest(size)
        return self.taken(size, in_file=False) > self.limit

    def copies(self) -> float:
        """Copies of X in memory. A search for neighbours among the rows of X takes one more, in single precision."""
        if self.graph is None or self.graph.axes_for(self.settings.k if self.settings is not None else 0):
            return 1.0
        return 2.0 if self.graph.metric == "cosine" or self.graph.weight == "cosine" else 1.5

    def check_rest(self, size: Size) -> None:
        """An error if there is too little memory even if X stays in its file."""
        if self.needed(size) > self.limit:
            what = ", ".join(f"{name} {format_bytes(taken)}" for name, taken in self.beside(size).items() if taken)
            raise MccgrError(self.have, f"too little even without X: {what}", self.remedy(size))

    def check_whole(self, size: Size, where: str) -> None:
        """An error if X must be in memory and the rest does not fit beside it, unless the user gave the limit."""
        if not self.set_by_user and self.is_exceeded_by(size):
            X, rest = format_bytes(size.bytes), format_bytes(self.needed(size))
            what = f"{where} takes {X} and the rest {rest}, which does not fit"
            rows = "store it as HDF5 by rows, which can stay in its file"
            raise MccgrError(self.have, what, f"{rows}; or {self.remedy(size)}")

    @property
    def have(self) -> str:
        limit = format_bytes(self.limit)
        return f"--memory {limit}" if self.set_by_user else f"{limit} of free memory"

    def remedy(self, size: Size) -> str:
        """What the user can do to make it fit."""
        remedies = ["give more --memory" if self.set_by_user else "use a larger machine"]
        single = replace(size, itemsize=4)
        if size.itemsize > 4 and self.taken(single, in_file=True) <= self.limit:
            remedies.append("--dtype float32")
        remedies.append("a smaller --k" if self.graph is None else "a smaller --k, or fewer --axes")
        return ", ".join(remedies)
