"""The workers of a Dask cluster as a pool that shares the work on many items.

Each worker gets one item at a time, by its address, so that we know which item a worker died with. If Dask placed the
items, it would blame a death on all items that waited at the same worker.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import queue
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from mccgr_cli.distributed.connection import SENDING_LOSSES, Cluster
from mccgr_cli.errors import MccgrError
from mccgr_cli.system.processes import Ending, Task, WorkerPool, call_safely

if TYPE_CHECKING:
    from distributed import Future

LOOK_SECONDS = 0.5  # between two checks which workers are connected
LOSSES_IN_A_ROW = 10  # of the shared data, without any result in between


class ClusterPool(WorkerPool):
    """All workers that a cluster has at any time."""

    max_deaths = 3  # a worker of a cluster may also go for reasons of its own

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster

    def _begin(self, function: Callable[..., Any], shared: Sequence[Any]) -> None:
        self._function, self._shared = function, tuple(shared)
        self._tasks: dict[str, tuple[Task, Future]] = {}  # by the address of the worker
        self._connected: list[str] = []
        self._checked = 0.0
        self._scattered: Future | None = None  # the shared data on the workers
        self._losses = 0  # of the shared data, in a row
        self._replied: queue.SimpleQueue[str] = queue.SimpleQueue()  # addresses of workers that may have finished

    def _available(self) -> tuple[int, Sequence[str]]:
        connected = self._look()
        return len(connected), [address for address in connected if address not in self._tasks]

    def _look(self, now: bool = False) -> list[str]:
        """The workers that are connected, or were a moment ago."""
        if now or not self._connected or time.monotonic() - self._checked > LOOK_SECONDS:
            self._connected = self.cluster.workers() or self.cluster.wait_for_workers()
            self._checked = time.monotonic()
        return self._connected

    def _start(self, worker: str, task: Task) -> None:
        with self.cluster.scheduler_errors():
            how = {"workers": [worker], "allow_other_workers": False, "pure": False, "key": f"mccgr-{uuid.uuid4().hex}"}
            future = self.cluster.client.submit(call_safely, self._function, task[1], self._send_shared(), **how)
            future.add_done_callback(lambda _, replied=self._replied: replied.put(worker))
        self._tasks[worker] = (task, future)

    def _send_shared(self) -> Future:
        """Send the shared data to all workers; again if they were lost with a worker."""
        while self._scattered is None or self._scattered.status != "finished":
            if self._losses > LOSSES_IN_A_ROW:
                what = "its workers end as soon as they have got the data"
                raise MccgrError(self.cluster.scheduler, what, "there may be too little memory; see their logs")
            if self._losses:  # in some clusters only the scheduler can be reached from outside
                self.cluster.client.direct_to_workers = False
            self._losses += 1
            with contextlib.suppress(*SENDING_LOSSES), self.cluster.scheduler_errors():
                self._scattered = self.cluster.client.scatter([self._shared], broadcast=True, hash=False)[0]
        return self._scattered

    def _finished(self) -> Iterator[tuple[Ending, Task, Any]]:
        with contextlib.suppress(queue.Empty):
            address = self._replied.get(timeout=LOOK_SECONDS)
            while True:
                if address in self._tasks and self._tasks[address][1].status != "pending":
                    ending, reply = self._reply(address, self._tasks[address][1])
                    yield ending, self._release(address), reply
                address = self._replied.get_nowait()
        for address in set(self._tasks) - set(self._look()):
            yield Ending.DIED, self._release(address), None

    def _reply(self, address: str, future: Future) -> tuple[Ending, Any]:
        from distributed import KilledWorker

        patience = LOOK_SECONDS
        while True:
            try:
                with self.cluster.scheduler_errors():
                    reply = future.result(timeout=patience)
                self._losses = 0
                return Ending.DONE, reply
            except KilledWorker:  # Dask has tried it again, at another worker with the same address
                return Ending.DIED, None
            except TimeoutError:  # the reply is large, or it was lost with its worker
                patience *= 2
            except concurrent.futures.CancelledError:  # the shared data were lost, perhaps with this worker
                return (Ending.RETURNED if address in self._look(now=True) else Ending.DIED), None
            if address not in self._look(now=True):
                return Ending.DIED, None

    def _release(self, address: str) -> Task:
        task, future = self._tasks.pop(address)
        with contextlib.suppress(Exception):  # the scheduler may be gone; other calls notice that
            future.release()
        return task

    def _stop(self) -> None:
        for address in list(self._tasks):
            self._release(address)
        self._scattered = None
