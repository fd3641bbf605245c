"""A matrix whose rows the workers of a Dask cluster hold.

Each worker holds consecutive rows of X, in its memory or, if they do not fit, in the file. A pass over X is one call to
each part of the rows, with the rows of W and of the graph's neighbour sums that belong to it, and one answer. Calls go
to the workers directly, not through the scheduler. If a worker is lost, another one reads its rows from the file and
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
from mccgr_cli.blocks.in_memory import MemoryBlocks, row_slices, row_view, rows_of_block, size_of
from mccgr_cli.blocks.protocol import Array, Matrix, Partial, chunks, join_partials, sum_partials
from mccgr_cli.blocks.threads import threads_for_blocks
from mccgr_cli.distributed.connection import CHECK_SECONDS, LOSSES, SENDING_LOSSES, WORKER_SECONDS, Cluster
from mccgr_cli.distributed.shared_arrays import ArrayExchange, Location, SharedArray, open_shared
from mccgr_cli.errors import DataError, MccgrError
from mccgr_cli.files.lazy_matrix import StoredMatrix
from mccgr_cli.system.memory import available_memory
from mccgr_cli.system.processes import call_safely, result_or_raise

if TYPE_CHECKING:
    from distributed import Client

PARTS_PER_WORKER = 2  # so that one can be sent while the other is worked on
HELD_SHARE = 0.6  # of a worker's memory that rows may take; Dask gives it no more work at 0.8
MARK = 16  # random bytes with which a worker proves that it can read our memory
MOST_LOSSES = 5  # of workers with the same rows in one pass; after more, the work itself must be at fault
LOOK_SECONDS = 1.0  # between two checks whether a worker is still connected


class ClusterBlocks:
    """X on the workers of a cluster. The parts, and so the rounding, do not depend on which worker holds them."""

    whole: Matrix | None = None

    def __init__(self, X: Matrix | StoredMatrix, cluster: Cluster) -> None:
        self.shape: tuple[int, int] = X.shape
        self.dtype: np.dtype[Any] = X.dtype
        self._X, self._cluster = X, cluster
        size = X.size if isinstance(X, StoredMatrix) else size_of(X)
        blocks = row_slices(size)
        self._block_rows = blocks[0].stop - blocks[0].start
        self._row_bytes = size.bytes / size.samples
        workers = cluster.wait_for_workers()
        blocks_per_part = -(-len(blocks) // (PARTS_PER_WORKER * len(workers)))
        groups = [blocks[some] for some in chunks(len(blocks), blocks_per_part)]
        self._parts = [HeldPart(slice(group[0].start, group[-1].stop)) for group in groups]
        self._assign(self._parts)

    def map(
        self, function: Callable[..., Partial], rows: Sequence[Array | None] = (), shared: Sequence[Any] = ()
    ) -> Iterator[tuple[slice, Partial]]:
        with self._cluster.scheduler_errors():
            for part in self._parts:
                part.losses = 0
                part.call(function, rows_of_block(rows, part.rows), shared)
            for part in self._parts:
                while (found := part.answer()) is None:
                    self._count_loss(part)
                    self._assign([part])
                    part.call(function, rows_of_block(rows, part.rows), shared)
                yield part.rows, found

    def take(self, where: slice) -> Matrix:
        return self._X.part(where).load() if isinstance(self._X, StoredMatrix) else row_view(self._X, where)

    def _assign(self, parts: Sequence[HeldPart]) -> None:
        """Send parts to the workers with the most free memory, and wait until they have arrived."""
        while parts:
            free = wait_for_memory(self._cluster)
            held: Counter[str] = Counter()
            for part in self._parts:
                if part not in parts:
                    held[part.worker] += part.bytes(self._row_bytes)
            new: Counter[str] = Counter()
            for part in parts:
                size = part.bytes(self._row_bytes)
                part.worker = min(free, key=lambda worker: (held[worker] + new[worker]) / (held[worker] + free[worker]))
                new[part.worker] += size
                part.send(self._X, self._block_rows, new[part.worker] <= free[part.worker], self._cluster)
            parts = [part for part in parts if not part.arrives(self._cluster)]
            for part in parts:
                self._count_loss(part)

    def _count_loss(self, part: HeldPart) -> None:
        part.losses += 1
        if part.losses > MOST_LOSSES:
            what = f"{part.losses} workers in a row were lost with the same rows"
            raise MccgrError(self._cluster.scheduler, what, "there may be too little memory; see their logs")


class HeldPart:
    """Some rows of X, and the worker that holds them."""

    def __init__(self, rows: slice) -> None:
        self.rows = rows
        self.worker = ""
        self.losses = 0  # of workers that had these rows, in one pass
        self._future: Any = None  # of the HeldRows on the worker
        self._call: Any = None
        self._client: Any = None
        self._exchange: ArrayExchange | None = None  # if the worker is on this machine

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
        """Wait until the worker has the rows; False if the worker is lost before, or has too little memory to start."""
        while self._future is not None:
            try:
                self._future.result(timeout=LOOK_SECONDS)
            except TimeoutError:
                if self.worker not in free_memory(cluster, cluster.wait_for_workers()):
                    return False
            except MccgrError:
                raise
            except (Exception, asyncio.CancelledError):  # Dask has many errors for this; HeldRows keeps its own
                return False
            else:
                self._exchange = ArrayExchange() if self._is_near() else None
                return True
        time.sleep(LOOK_SECONDS)  # the scheduler must notice the loss too
        return False

    def _is_near(self) -> bool:
        """Whether the worker can read our memory."""
        if not hasattr(os, "memfd_create"):
            return False
        mark = SharedArray((MARK,), np.dtype(np.uint8))
        mark.array[:] = np.frombuffer(os.urandom(MARK), np.uint8)
        return bool(self._reply(self._ask("reads", mark.location)) == mark.array.tobytes())

    def call(self, function: Callable[..., Partial], rows: Sequence[Array | None], shared: Sequence[Any]) -> None:
        sent: Sequence[Any] = rows
        if self._exchange is not None:
            try:
                sent = self._exchange.send(rows)
            except OSError:  # too many open files
                self._exchange = None
        answer_locations = [] if self._exchange is None else self._exchange.answer_locations()
        self._call = self._ask("work", function, sent, shared, answer_locations)

    def answer(self) -> Partial | None:
        """The result of the call; None if the worker was lost."""
        reply = self._reply(self._call)
        self._call = None
        if reply is None:
            return None
        found: Partial = result_or_raise(reply)
        return found if self._exchange is None else found._replace(rows=self._exchange.receive(found.rows))

    def _ask(self, method: str, *arguments: Any) -> Any:
        """Start a method of the worker's HeldRows."""
        asking = execute(self._client, self.worker, self._future.key, method, arguments)
        return asyncio.run_coroutine_threadsafe(asking, self._client.loop.asyncio_loop)

    def _reply(self, asked: Any) -> Any:
        """The result of a method; None if the worker is lost."""
        while True:
            try:
                return asked.result(timeout=LOOK_SECONDS)
            except (KeyError, *LOSSES):  # KeyError: the worker was restarted and does not have the rows
                if asked.done() or self._future.status != "finished":
                    return None


async def execute(client: Client, worker: str, key: str, method: str, arguments: Sequence[Any]) -> Any:
    """Call a method of the actor ``key``. Dask's own call never returns if anything but the connection fails."""
    from distributed.protocol import to_serialize

    serialized = [to_serialize(one) for one in arguments]
    reply = await client.rpc(worker).actor_execute(actor=key, function=method, args=serialized, kwargs={})
    if reply["status"] != "OK":
        raise reply["exception"]
    return reply["result"]


class HeldRows:
    """The rows of a part, on their worker (a Dask actor)."""

    def __init__(self, X: Matrix | StoredMatrix, block_rows: int, in_memory: bool) -> None:
        from distributed import get_worker

        worker = get_worker()
        threads = worker.state.nthreads
        self._source: MemoryBlocks | FileBlocks
        self._opened: dict[Location, Array | None] = {}
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
        except Exception:  # reported by `work`: an error raised here looks like the loss of the worker
            self._fault = traceback.format_exc()

    def reads(self, location: Location) -> bytes:
        """The contents of an array of the client; empty if the client is on another machine."""
        array = open_shared(location)
        return b"" if array is None else array.tobytes()

    def work(
        self,
        function: Callable[..., Partial],
        rows: Sequence[Array | Location | None],
        shared: Sequence[Any],
        answer_locations: Sequence[Location],
    ) -> tuple[bool, Any]:
        """Call a function on all blocks; see :func:`mccgr_cli.system.processes.call_safely` for the reply.

        The resulting rows are written to ``answer_locations`` if they fit there. The reply then names these.
        """
        if self._fault:
            return False, self._fault
        return call_safely(self._work, function, (rows, shared, answer_locations))

    def _work(self, function: Callable[..., Partial], rows: Any, shared: Any, answer_locations: Any) -> Partial:
        self._open([array for array in (*rows, *answer_locations) if isinstance(array, Location)])
        arrays = [self._opened[array] if isinstance(array, Location) else array for array in rows]
        with threads_for_blocks():
            found = self._source.map(function, arrays, shared)
            first = next(found)
            answers = [self._opened[location] for location in answer_locations]
            if [row_type(array) for array in answers] == [row_type(array) for array in first[1].rows]:
                into = [array for array in answers if array is not None]
                sums = sum_partials(itertools.chain([first], found), into)
                return Partial(tuple(sums), tuple(answer_locations))
            return join_partials(itertools.chain([first], found))

    def _open(self, locations: Sequence[Location]) -> None:
        """Keep exactly these arrays open: the memory of an open array is not freed."""
        known = self._opened
        self._opened = {one: known[one] if one in known else open_shared(one) for one in locations}
        if any(array is None for array in self._opened.values()):
            raise RuntimeError("the memory of mccgr is out of reach")


def row_type(array: Array | None) -> Any:
    """The shape and type of one row."""
    return None if array is None else (array.shape[1:], array.dtype)


def wait_for_memory(cluster: Cluster) -> dict[str, float]:
    """As :func:`free_memory`, after waiting until at least one worker can start something."""
    deadline = time.monotonic() + WORKER_SECONDS
    while not (free := free_memory(cluster, cluster.wait_for_workers())):
        if time.monotonic() > deadline:
            raise MccgrError(cluster.scheduler, "its workers have no free memory", "give them more memory")
        time.sleep(CHECK_SECONDS)
    return free


def free_memory(cluster: Cluster, workers: Sequence[str]) -> dict[str, float]:
    """Bytes for further rows on each worker that is not paused. Workers on one machine share its memory."""
    per_host = Counter(urlsplit(worker).hostname for worker in workers)
    with cluster.scheduler_errors():
        found = cluster.client.run(memory_of_worker, workers=list(workers), on_error="return")
    return {
        worker: max(1.0, min(HELD_SHARE * limit - used, HELD_SHARE * free / per_host[urlsplit(worker).hostname]))
        for worker in workers
        if isinstance(found.get(worker), tuple)
        for running, limit, used, free in (found[worker],)
        if running
    }


def memory_of_worker(dask_worker: Any = None) -> tuple[bool, float, float, float]:
    """Whether a worker is running (not paused), its memory limit, its use, and the free memory of its machine."""
    limit = float(dask_worker.memory_manager.memory_limit or np.inf)
    return (
        dask_worker.status.name == "running",
        limit,
        float(dask_worker.monitor.get_process_memory()),
        available_memory(),
    )
