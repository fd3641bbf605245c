"""Blocks of samples that the workers of a Dask cluster hold.

Each worker holds some consecutive rows of X, in its memory or, if they are too many, in the file, and works on them
where they are: a pass over X is one call to each, with the rows of W and of the graph's pull that belong to them, and
one answer. The scheduler has no part in it. What a lost worker held is read from the file by another, which then
answers the same call.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import numpy as np

from mccgr_cli.blocks.from_file import FileBlocks
from mccgr_cli.blocks.in_memory import MemoryBlocks, cut, row_slices, row_view, size_of
from mccgr_cli.blocks.protocol import Array, Matrix, Partial, add_up, chunks, merged
from mccgr_cli.blocks.threads import threads_for_blocks
from mccgr_cli.distributed.connection import CHECK_SECONDS, LOSSES, SENDING_LOSSES, WORKER_SECONDS, Cluster
from mccgr_cli.distributed.shared_arrays import Address, Lender, LentArray, borrowed
from mccgr_cli.errors import DataError, MccgrError
from mccgr_cli.files.lazy_matrix import StoredMatrix
from mccgr_cli.system.memory import available
from mccgr_cli.system.processes import outcome

if TYPE_CHECKING:
    from distributed import Client

PARTS_PER_WORKER = 2  # so that one can be on its way while another is worked on
HELD_SHARE = 0.6  # of a worker's memory that rows may take; dask stops giving it work at 0.8
MARK = 16  # random bytes by which a worker shows that it reaches our memory
MOST_LOSSES = 5  # of workers with the same rows in one pass, after which something is wrong with the work itself
LOOK_SECONDS = 1.0  # between two looks at whether a worker is still there


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
        self._place(self._parts)

    def map(
        self, function: Callable[..., Partial], rows: Sequence[Array | None] = (), shared: Sequence[Any] = ()
    ) -> Iterator[tuple[slice, Partial]]:
        for part in self._parts:
            part.losses = 0
            part.call(function, cut(rows, part.rows), shared)
        for part in self._parts:
            while (found := part.answer()) is None:
                self._count_loss(part)
                self._place([part])
                part.call(function, cut(rows, part.rows), shared)
            yield part.rows, found

    def take(self, where: slice) -> Matrix:
        return self._X.part(where).load() if isinstance(self._X, StoredMatrix) else row_view(self._X, where)

    def _place(self, parts: Sequence[Part]) -> None:
        """Give parts to the workers that have the least, and wait until they have them."""
        while parts:
            room = await_room(self._cluster)
            had: Counter[str] = Counter()
            for part in self._parts:
                if part not in parts:
                    had[part.worker] += part.bytes(self._row_bytes)
            new: Counter[str] = Counter()
            for part in parts:
                size = part.bytes(self._row_bytes)
                part.worker = min(room, key=lambda worker: (had[worker] + new[worker]) / (had[worker] + room[worker]))
                new[part.worker] += size
                part.send(self._X, self._block_rows, new[part.worker] <= room[part.worker], self._cluster)
            parts = [part for part in parts if not part.arrives(self._cluster)]
            for part in parts:
                self._count_loss(part)

    def _count_loss(self, part: Part) -> None:
        part.losses += 1
        if part.losses > MOST_LOSSES:
            what = f"{part.losses} workers in a row were lost with the same rows"
            raise MccgrError(self._cluster.scheduler, what, "there may be too little memory; see their logs")


class Part:
    """Some rows of X, and the worker that holds them."""

    def __init__(self, rows: slice) -> None:
        self.rows = rows
        self.worker = ""
        self.losses = 0  # of workers that had them, in a pass
        self._future: Any = None  # of the held rows
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
            try:
                rows = self._client.scatter(row_view(X, self.rows), workers=[self.worker], direct=True, hash=False)
            except SENDING_LOSSES:
                self._future = None
                return
        how = {"workers": [self.worker], "actor": True, "pure": False}
        self._future = self._client.submit(HeldRows, rows, block_rows, in_memory, **how)

    def arrives(self, cluster: Cluster) -> bool:
        """Wait until the worker has the rows; False if it is lost before, or too full to begin."""
        while self._future is not None:
            try:
                self._future.result(timeout=LOOK_SECONDS)
            except TimeoutError:
                if self.worker not in room_of(cluster, cluster.await_workers()):
                    return False
            except MccgrError:
                raise
            except (Exception, asyncio.CancelledError):  # by many names; faults of the work itself are told by it
                return False
            else:
                self._lender = Lender() if self._is_near() else None
                return True
        time.sleep(LOOK_SECONDS)  # until the scheduler knows of it too
        return False

    def _is_near(self) -> bool:
        """Whether the worker reaches our memory."""
        if not hasattr(os, "memfd_create"):
            return False
        mark = LentArray((MARK,), np.dtype(np.uint8))
        mark.array[:] = np.frombuffer(os.urandom(MARK), np.uint8)
        return bool(self._reply(self._ask("reads", mark.address)) == mark.array.tobytes())

    def call(self, function: Callable[..., Partial], rows: Sequence[Array | None], shared: Sequence[Any]) -> None:
        given: Sequence[Any] = rows
        if self._lender is not None:
            try:
                given = self._lender.lend(rows)
            except OSError:  # too many files
                self._lender = None
        room = [] if self._lender is None else self._lender.room()
        self._call = self._ask("work", function, given, shared, room)

    def answer(self) -> Partial | None:
        """What the worker found; None if it was lost."""
        reply = self._reply(self._call)
        self._call = None
        if reply is None:
            return None
        found: Partial = outcome(reply)
        return found if self._lender is None else found._replace(rows=self._lender.answered(found.rows))

    def _ask(self, method: str, *given: Any) -> Any:
        """Have the worker do something with its rows."""
        asking = execute(self._client, self.worker, self._future.key, method, given)
        return asyncio.run_coroutine_threadsafe(asking, self._client.loop.asyncio_loop)

    def _reply(self, asked: Any) -> Any:
        """To what it was asked; None if it is lost."""
        while True:
            try:
                return asked.result(timeout=LOOK_SECONDS)
            except (KeyError, *LOSSES):  # KeyError: a worker begun anew, which knows nothing of the rows
                if asked.done() or self._future.status != "finished":
                    return None


async def execute(client: Client, worker: str, key: str, method: str, given: Sequence[Any]) -> Any:
    """Call a method of the actor ``key``. Dask's own way would wait for ever if anything but the connection fails."""
    from distributed.protocol import to_serialize

    arguments = [to_serialize(one) for one in given]
    reply = await client.rpc(worker).actor_execute(actor=key, function=method, args=arguments, kwargs={})
    if reply["status"] != "OK":
        raise reply["exception"]
    return reply["result"]


class HeldRows:
    """On a worker: the rows of a part."""

    def __init__(self, X: Matrix | StoredMatrix, block_rows: int, in_memory: bool) -> None:
        from distributed import get_worker

        worker = get_worker()
        threads = worker.state.nthreads
        self._source: MemoryBlocks | FileBlocks
        self._borrowed: dict[Address, Array | None] = {}
        self._fault = ""
        where = f"worker {worker.address}"
        try:
            if isinstance(X, StoredMatrix) and not in_memory:
                self._source = FileBlocks(X, block_rows, threads)
            else:
                self._source = MemoryBlocks(X.load() if isinstance(X, StoredMatrix) else X, block_rows, threads)
        except MccgrError as fault:
            raise DataError(where, str(fault), "all workers must see the file under the same path") from None
        except MemoryError:
            raise MccgrError(where, "too little memory for its rows", "give it more, or start more of them") from None
        except Exception:  # told when there is work: what is raised here is taken for the loss of the worker
            self._fault = traceback.format_exc()

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
        if self._fault:
            return False, self._fault
        try:
            self._borrow([array for array in (*rows, *room) if isinstance(array, Address)])
            given = [self._borrowed[array] if isinstance(array, Address) else array for array in rows]
            with threads_for_blocks():
                found = self._source.map(function, given, shared)
                first = next(found)
                arrays = [self._borrowed[address] for address in room]
                if [tail(array) for array in arrays] == [tail(array) for array in first[1].rows]:
                    sums = add_up(itertools.chain([first], found), [array for array in arrays if array is not None])
                    return True, Partial(tuple(sums), tuple(room))
                return True, merged(itertools.chain([first], found))
        except MccgrError as fault:
            return False, fault
        except Exception:
            return False, traceback.format_exc()

    def _borrow(self, addresses: Sequence[Address]) -> None:
        """Just these arrays: what is kept longer than its owner needs it is still in memory."""
        known = self._borrowed
        self._borrowed = {one: known[one] if one in known else borrowed(one) for one in addresses}
        if any(array is None for array in self._borrowed.values()):
            raise RuntimeError("the memory of mccgr is out of reach")


def tail(array: Array | None) -> Any:
    """What the arrays of several blocks have in common."""
    return None if array is None else (array.shape[1:], array.dtype)


def await_room(cluster: Cluster) -> dict[str, float]:
    """As :func:`room_of`, of all workers that can begin something; after waiting for one if need be."""
    deadline = time.monotonic() + WORKER_SECONDS
    while not (room := room_of(cluster, cluster.await_workers())):
        if time.monotonic() > deadline:
            raise MccgrError(cluster.scheduler, "its workers are full and begin nothing", "give them more memory")
        time.sleep(CHECK_SECONDS)
    return room


def room_of(cluster: Cluster, workers: Sequence[str]) -> dict[str, float]:
    """Bytes for further rows in the memory of each worker that is not paused, of which several may share a machine."""
    here = Counter(urlsplit(worker).hostname for worker in workers)
    with cluster.reaching():
        found = cluster.client.run(memory_of_worker, workers=list(workers), on_error="return")
    return {
        worker: max(1.0, min(HELD_SHARE * limit - used, HELD_SHARE * free / here[urlsplit(worker).hostname]))
        for worker in workers
        if isinstance(found.get(worker), tuple)
        for running, limit, used, free in (found[worker],)
        if running
    }


def memory_of_worker(dask_worker: Any = None) -> tuple[bool, float, float, float]:
    """Whether it begins what it is given; its own limit, and what it uses of it; and what is free on its machine."""
    limit = float(dask_worker.memory_manager.memory_limit or np.inf)
    return dask_worker.status.name == "running", limit, float(dask_worker.monitor.get_process_memory()), available()
