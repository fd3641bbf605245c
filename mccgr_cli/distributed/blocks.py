"""Blocks of samples that the workers of a Dask cluster hold.

Each worker holds some consecutive rows of X, in its memory or, if they are too many, in the file, and works on them
where they are: a pass over X is one call to each, with the rows of W and of the graph's pull that belong to them, and
one answer. The scheduler has no part in it. What a lost worker held is read from the file by another, which then
answers the same call.
"""

from __future__ import annotations

import itertools
import os
import traceback
from asyncio import CancelledError
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any
from urllib.parse import urlsplit

import numpy as np

from mccgr_cli.blocks import (
    Array,
    Matrix,
    MemoryBlocks,
    Partial,
    add_up,
    chunks,
    cut,
    merged,
    row_slices,
    row_view,
    size_of,
    threads_for_blocks,
)
from mccgr_cli.distributed.connection import Cluster
from mccgr_cli.distributed.lending import Address, Lender, LentArray, borrowed
from mccgr_cli.errors import DataError, MccgrError
from mccgr_cli.memory import available
from mccgr_cli.outofcore import FileBlocks
from mccgr_cli.stored import StoredMatrix
from mccgr_cli.workers import outcome

PARTS_PER_WORKER = 2  # so that one can be on its way while another is worked on
HELD_SHARE = 0.6  # of a worker's memory that rows may take; dask stops giving it work at 0.8
MARK = 16  # random bytes by which a worker shows that it reaches our memory
MOST_LOSSES = 20  # of workers in one pass, after which something is wrong with all of them
LOOK_SECONDS = 1.0  # between two looks at whether a worker is still there, while it reads its rows


class ClusterBlocks:
    """X on the workers of a cluster. The parts, and so the rounding, are the same whoever holds them."""

    whole: Matrix | None = None

    def __init__(self, X: Matrix | StoredMatrix, cluster: Cluster) -> None:
        self.shape: tuple[int, int] = X.shape
        self.dtype: np.dtype[Any] = X.dtype
        self._X, self._cluster = X, cluster
        size = X.size if isinstance(X, StoredMatrix) else size_of(X)
        blocks = row_slices(size)
        self._block_rows = blocks[0].stop - blocks[0].start
        self._row_bytes = size.bytes / size.samples
        workers = cluster.await_workers()
        together = -(-len(blocks) // (PARTS_PER_WORKER * len(workers)))
        groups = [blocks[some] for some in chunks(len(blocks), together)]
        self._parts = [Part(slice(group[0].start, group[-1].stop)) for group in groups]
        self._losses = 0
        self._place(self._parts)

    def map(
        self, function: Callable[..., Partial], rows: Sequence[Array | None] = (), shared: Sequence[Any] = ()
    ) -> Iterator[tuple[slice, Partial]]:
        self._losses = 0
        for part in self._parts:
            part.call(function, cut(rows, part.rows), shared)
        for part in self._parts:
            while (found := part.answer()) is None:
                self._count_loss()
                self._place([part])
                part.call(function, cut(rows, part.rows), shared)
            yield part.rows, found

    def take(self, where: slice) -> Matrix:
        return FileBlocks(self._X).take(where) if isinstance(self._X, StoredMatrix) else row_view(self._X, where)

    def _place(self, parts: Sequence[Part]) -> None:
        """Give parts to the workers that have the least, and wait until they have them."""
        while parts:
            workers = self._cluster.await_workers()
            room = room_of(self._cluster, workers)
            taken: Counter[str] = Counter(dict.fromkeys(workers, 0))
            for part in self._parts:
                if part.worker in taken and part not in parts:
                    taken[part.worker] += part.bytes(self._row_bytes)
            for part in parts:
                part.worker = min(workers, key=lambda worker: taken[worker] / room[worker])
                taken[part.worker] += part.bytes(self._row_bytes)
                part.send(self._X, self._block_rows, taken[part.worker] <= room[part.worker], self._cluster)
            parts = [part for part in parts if not part.arrives(self._cluster)]
            for _ in parts:
                self._count_loss()

    def _count_loss(self) -> None:
        self._losses += 1
        if self._losses > MOST_LOSSES:
            raise MccgrError(self._cluster.scheduler, f"{self._losses} workers were lost", "see their logs")


class Part:
    """Some rows of X, and the worker that holds them."""

    def __init__(self, rows: slice) -> None:
        self.rows = rows
        self.worker = ""
        self._future: Any = None  # of the held rows
        self._held: Any = None
        self._call: Any = None
        self._client: Any = None
        self._lender: Lender | None = None  # if the worker is on this machine

    def bytes(self, row_bytes: float) -> int:
        return int((self.rows.stop - self.rows.start) * row_bytes)

    def send(self, X: Matrix | StoredMatrix, block_rows: int, in_memory: bool, cluster: Cluster) -> None:
        self._client = cluster.client
        rows: Any
        if isinstance(X, StoredMatrix):
            rows = X.part(self.rows)
        else:  # there is no file that a worker could read
            rows = self._client.scatter(row_view(X, self.rows), workers=[self.worker], direct=True, hash=False)
        how = {"workers": [self.worker], "actor": True, "pure": False}
        self._future = self._client.submit(HeldRows, rows, block_rows, in_memory, **how)

    def arrives(self, cluster: Cluster) -> bool:
        """Wait until the worker has the rows; False if it is lost before."""
        while True:
            try:
                self._held = self._future.result(timeout=LOOK_SECONDS)
            except TimeoutError:
                if self.worker not in cluster.await_workers():
                    return False
            except MccgrError:
                raise
            except (Exception, CancelledError):  # by many names
                return False
            else:
                self._lender = Lender() if self._is_near() else None
                return True

    def _is_near(self) -> bool:
        """Whether the worker reaches our memory."""
        if not hasattr(os, "memfd_create"):
            return False
        mark = LentArray((MARK,), np.dtype(np.uint8))
        mark.array[:] = np.frombuffer(os.urandom(MARK), np.uint8)
        try:
            with self._client.as_current():
                return bool(self._held.reads(mark.address).result() == mark.array.tobytes())
        except (OSError, RuntimeError):  # lost, which is found later
            return False

    def call(self, function: Callable[..., Partial], rows: Sequence[Array | None], shared: Sequence[Any]) -> None:
        given, room = (rows, []) if self._lender is None else (self._lender.lend(rows), self._lender.room())
        try:
            with self._client.as_current():
                self._call = self._held.work(function, given, shared, room)
        except RuntimeError:  # dask's word for a worker that is known to have gone
            self._call = None

    def answer(self) -> Partial | None:
        """What the worker found; None if it was lost."""
        call, self._call = self._call, None
        if call is None:
            return None
        try:
            reply = call.result()
        except (OSError, RuntimeError):
            return None
        found: Partial = outcome(reply)
        return found if self._lender is None else found._replace(rows=self._lender.answered(found.rows))


class HeldRows:
    """On a worker: the rows of a part."""

    def __init__(self, X: Matrix | StoredMatrix, block_rows: int, in_memory: bool) -> None:
        from distributed import get_worker

        worker = get_worker()
        threads = worker.state.nthreads
        self._source: MemoryBlocks | FileBlocks
        try:
            if isinstance(X, StoredMatrix) and not in_memory:
                self._source = FileBlocks(X, block_rows, threads)
            else:
                self._source = MemoryBlocks(X.load() if isinstance(X, StoredMatrix) else X, block_rows, threads)
        except MccgrError as fault:
            remedy = "all workers must see the file under the same path"
            raise DataError(f"worker {worker.address}", str(fault), remedy) from None

    def reads(self, address: Address) -> bytes:
        """What is in an array of the client's; nothing if it is on another machine."""
        array = borrowed(address)
        return b"" if array is None else array.tobytes()

    def work(
        self,
        function: Callable[..., Partial],
        rows: Sequence[Array | Address | None],
        shared: Sequence[Any],
        room: Sequence[Address],
    ) -> tuple[bool, Any]:
        """Whether it succeeded, and what was found of all these rows; or what went wrong.

        Rows that are found are put where there is room for them, if it suits; then they are told by their addresses.
        """
        try:
            given = [borrowed(array) if isinstance(array, Address) else array for array in rows]
            with threads_for_blocks():
                found = self._source.map(function, given, shared)
                first = next(found)
                arrays = [borrowed(address) for address in room]
                if [tail(array) for array in arrays] == [tail(array) for array in first[1].rows]:
                    sums = add_up(itertools.chain([first], found), [array for array in arrays if array is not None])
                    return True, Partial(tuple(sums), tuple(room))
                return True, merged(itertools.chain([first], found))
        except MccgrError as fault:
            return False, fault
        except Exception:
            return False, traceback.format_exc()


def tail(array: Array | None) -> Any:
    """What the arrays of several blocks have in common."""
    return None if array is None else (array.shape[1:], array.dtype)


def room_of(cluster: Cluster, workers: Sequence[str]) -> dict[str, float]:
    """Bytes for rows in the memory of each worker, of which several may share a machine."""
    here = Counter(urlsplit(worker).hostname for worker in workers)
    with cluster.reaching():
        found = cluster.client.run(memory_of_worker, workers=list(workers), on_error="return")
    return {
        worker: max(1.0, HELD_SHARE * min(own, free / here[urlsplit(worker).hostname]))
        for worker in workers
        for own, free in (found[worker] if isinstance(found.get(worker), tuple) else (0.0, 0.0),)
    }


def memory_of_worker(dask_worker: Any = None) -> tuple[float, float]:
    """Its own limit, and what is free on its machine."""
    return float(dask_worker.memory_manager.memory_limit or np.inf), float(available())
