"""The workers of a Dask cluster as the processes that share the work on many items.

As :class:`mccgr_cli.system.processes.Workers`: one item at a time in a process, so that it is known which item a
process died with. Items are therefore given to a worker by its address, and not left to dask to place: it would count
all items that wait beside a deadly one as deadly too.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import itertools
import queue
import time
import uuid
from collections import Counter, deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence, Sized
from dataclasses import dataclass
from enum import Enum, auto
from typing import TYPE_CHECKING, Any

from mccgr_cli.distributed.connection import SENDING_LOSSES, Cluster
from mccgr_cli.errors import MccgrError
from mccgr_cli.system.processes import AHEAD, Item, Result, attempt, in_order, outcome, take

if TYPE_CHECKING:
    from distributed import Future

LOOK_SECONDS = 0.5  # between two looks at which workers there are
MOST_DEATHS = 3  # of workers with an item, which may have gone for reasons of their own
LOSSES_IN_A_ROW = 10  # of what is shared, with nothing done between them


class ClusterWorkers:
    """The workers of a cluster, as many as there are at any time."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster

    def map(
        self, function: Callable[..., Result], items: Iterable[Item], shared: Sequence[Any], lost: Result
    ) -> Iterator[Result]:
        """Yield ``function(item, *shared)`` for every item in order, or ``lost`` where processes die of it."""
        return in_order(self.as_done, function, items, shared, lost)

    def as_done(
        self,
        function: Callable[..., Result],
        items: Iterable[Item],
        shared: Sequence[Any],
        lost: Result,
        waiting: Sized = (),
    ) -> Generator[tuple[int, Result], None, None]:
        """The same in the order in which they are done, each with the number of its item."""
        desk = Desk(self.cluster, function, tuple(shared))
        coming = enumerate(items)
        again: deque[tuple[int, Item]] = deque()
        deaths: Counter[int] = Counter()  # of workers that had an item, perhaps not of it
        try:
            while True:
                there = desk.look()
                idle = [address for address in there if address not in desk.busy]
                room = len(there) * AHEAD - len(waiting) - len(desk.busy)
                tasks = itertools.chain(take(again), itertools.islice(coming, max(0, room)))
                for address, task in zip(idle, tasks, strict=False):
                    desk.give(address, task)
                if not desk.busy:
                    return
                for fate, (number, item), reply in desk.news():
                    deaths[number] += fate is Fate.DEATH
                    if fate is Fate.DONE:
                        yield number, outcome(reply)
                    elif deaths[number] < MOST_DEATHS:
                        again.append((number, item))
                    else:
                        yield number, lost
        finally:
            desk.clear()


class Fate(Enum):
    """What becomes of an item."""

    DONE = auto()
    DEATH = auto()  # its worker died
    GIVEN_BACK = auto()  # what it needs was lost, elsewhere


@dataclass(frozen=True)
class Given:
    """An item that a worker has."""

    task: tuple[int, Any]  # the number of the item, and the item
    future: Future


class Desk:
    """What is out at which worker."""

    def __init__(self, cluster: Cluster, function: Callable[..., Any], shared: tuple[Any, ...]) -> None:
        self.cluster, self.function, self.shared = cluster, function, shared
        self.busy: dict[str, Given] = {}  # by the addresses of the workers
        self._there: list[str] = []
        self._looked = 0.0
        self._sent: Future | None = None  # what is shared, on the workers
        self._losses = 0  # of what is shared, in a row
        self._finished: queue.SimpleQueue[str] = queue.SimpleQueue()  # workers that may have finished

    def look(self, now: bool = False) -> list[str]:
        """The workers that are there, or were a moment ago."""
        if now or not self._there or time.monotonic() - self._looked > LOOK_SECONDS:
            self._there = self.cluster.workers() or self.cluster.await_workers()
            self._looked = time.monotonic()
        return self._there

    def give(self, address: str, task: tuple[int, Any]) -> None:
        with self.cluster.reaching():
            future = self.cluster.client.submit(
                attempt,
                self.function,
                task[1],
                self.send_shared(),
                key=f"mccgr-{uuid.uuid4().hex}",
                workers=[address],
                allow_other_workers=False,
                pure=False,
            )
            future.add_done_callback(lambda _: self._finished.put(address))
        self.busy[address] = Given(task, future)

    def send_shared(self) -> Future:
        """What all items share, on all workers; once more if it was lost with them."""
        while self._sent is None or self._sent.status != "finished":
            if self._losses > LOSSES_IN_A_ROW:
                what = "its workers end as soon as they have got the data"
                raise MccgrError(self.cluster.scheduler, what, "there may be too little memory; see their logs")
            if self._losses:  # some clusters let nobody but their scheduler be reached from outside
                self.cluster.client.direct_to_workers = False
            self._losses += 1
            with contextlib.suppress(*SENDING_LOSSES), self.cluster.reaching():
                self._sent = self.cluster.client.scatter([self.shared], broadcast=True, hash=False)[0]
        return self._sent

    def news(self) -> Iterator[tuple[Fate, tuple[int, Any], Any]]:
        """What has become of items, waiting a moment for the first; and a reply where one is done."""
        with contextlib.suppress(queue.Empty):
            address = self._finished.get(timeout=LOOK_SECONDS)
            while True:
                if address in self.busy and self.busy[address].future.status != "pending":
                    fate, reply = self.reply(address, self.busy[address].future)
                    yield fate, self.take_back(address), reply
                address = self._finished.get_nowait()
        for address in set(self.busy) - set(self.look()):
            yield Fate.DEATH, self.take_back(address), None

    def reply(self, address: str, future: Future) -> tuple[Fate, Any]:
        from distributed import KilledWorker

        patience = LOOK_SECONDS
        while True:
            try:
                with self.cluster.reaching():
                    reply = future.result(timeout=patience)
                self._losses = 0
                return Fate.DONE, reply
            except KilledWorker:  # dask tried it again itself, at another worker that has the same address
                return Fate.DEATH, None
            except TimeoutError:  # a large reply, or lost with its worker
                patience *= 2
            except concurrent.futures.CancelledError:  # what is shared was lost, perhaps with this very worker
                return (Fate.GIVEN_BACK if address in self.look(now=True) else Fate.DEATH), None
            if address not in self.look(now=True):
                return Fate.DEATH, None

    def take_back(self, address: str) -> tuple[int, Any]:
        given = self.busy.pop(address)
        with contextlib.suppress(Exception):  # the scheduler may have gone, which others notice
            given.future.release()
        return given.task

    def clear(self) -> None:
        """What is not done yet is not wanted any more."""
        for address in list(self.busy):
            self.take_back(address)
        self._sent = None
