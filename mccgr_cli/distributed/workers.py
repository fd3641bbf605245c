"""The workers of a Dask cluster as the processes that share the work on many items.

As with :class:`mccgr_cli.workers.Workers`, only an item that a process has twice died with is lost. Items are therefore
given to a worker by its address, and not left to dask to place: it would count all that wait beside a deadly item as
deadly too. A worker has a second item waiting, as it takes dask 10 ms to bring one; but what it died with is tried
again alone.
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
from types import TracebackType
from typing import TYPE_CHECKING, Any

from mccgr_cli.distributed.connection import LOSSES, Cluster
from mccgr_cli.errors import MccgrError
from mccgr_cli.workers import AHEAD, Item, Result, attempt, in_order, outcome, take

if TYPE_CHECKING:
    from distributed import Future

LOOK_SECONDS = 0.5  # between two looks at which workers there are
LOSSES_IN_A_ROW = 10  # of what is shared, with nothing done between them


class ClusterWorkers:
    """The workers of a cluster, as many as there are at any time."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster

    def __enter__(self) -> ClusterWorkers:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        """The cluster is left by whoever joined it."""

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
        suspects: set[int] = set()  # a worker died with these, perhaps not of them
        try:
            while True:
                there = desk.look()
                for address, task in zip(desk.free(there, 1), take(again), strict=False):
                    desk.give(address, task, alone=True)
                room = len(there) * AHEAD - len(waiting) - len(desk.given)
                fresh = itertools.islice(coming, max(0, room))
                for address, task in zip(desk.free(there, 1 if again else 2), fresh, strict=False):
                    desk.give(address, task)
                if not desk.given:
                    return
                for fate, (number, item), reply in desk.news():
                    if fate is Fate.DONE:
                        yield number, outcome(reply)
                    elif fate is Fate.GIVEN_BACK or number not in suspects:
                        again.append((number, item))
                    else:
                        yield number, lost
                    if fate is Fate.DEATH:
                        suspects.add(number)
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
    address: str
    alone: bool
    future: Future


class Desk:
    """What is out at which worker."""

    def __init__(self, cluster: Cluster, function: Callable[..., Any], shared: tuple[Any, ...]) -> None:
        self.cluster, self.function, self.shared = cluster, function, shared
        self.given: dict[str, Given] = {}  # by dask's keys
        self._there: list[str] = []
        self._looked = 0.0
        self._sent: Future | None = None  # what is shared, on the workers
        self._losses = 0  # of what is shared, in a row
        self._finished: queue.SimpleQueue[str] = queue.SimpleQueue()  # keys

    def look(self, now: bool = False) -> list[str]:
        """The workers that are there, or were a moment ago."""
        if now or not self._there or time.monotonic() - self._looked > LOOK_SECONDS:
            self._there = self.cluster.workers() or self.cluster.await_workers()
            self._looked = time.monotonic()
        return self._there

    def free(self, there: Sequence[str], most: int) -> list[str]:
        """Workers with room for an item when they may have so many, those with none first."""
        out = Counter(given.address for given in self.given.values())
        closed = {given.address for given in self.given.values() if given.alone}
        # With several threads the second item would not wait, and much of what items use is one for a process.
        closed |= {address for address in out if self.cluster.threads.get(address, 1) > 1}
        found = [address for address in there if out[address] < most and address not in closed]
        return sorted(found, key=lambda address: out[address])

    def give(self, address: str, task: tuple[int, Any], alone: bool = False) -> None:
        key = f"mccgr-{uuid.uuid4().hex}"
        with self.cluster.reaching():
            future = self.cluster.client.submit(
                attempt,
                self.function,
                task[1],
                self.send_shared(),
                key=key,
                workers=[address],
                allow_other_workers=False,
                pure=False,
            )
            future.add_done_callback(lambda _: self._finished.put(key))
        self.given[key] = Given(task, address, alone, future)

    def send_shared(self) -> Future:
        """What all items share, on all workers; once more if it was lost with them."""
        while self._sent is None or self._sent.status != "finished":
            if self._losses > LOSSES_IN_A_ROW:
                what = "its workers end as soon as they have got the data"
                raise MccgrError(self.cluster.scheduler, what, "there may be too little memory; see their logs")
            self._losses += 1
            with contextlib.suppress(KeyError, ValueError, *LOSSES), self.cluster.reaching():
                self._sent = self.cluster.client.scatter([self.shared], broadcast=True, hash=False)[0]
        return self._sent

    def news(self) -> Iterator[tuple[Fate, tuple[int, Any], Any]]:
        """What has become of items, waiting a moment for the first; and a reply where one is done."""
        with contextlib.suppress(queue.Empty):
            key = self._finished.get(timeout=LOOK_SECONDS)
            while True:
                if key in self.given and self.given[key].future.status != "pending":
                    fate, reply = self.reply(self.given[key])
                    yield fate, self.take_back(key), reply
                key = self._finished.get_nowait()
        there = self.look()
        for key in [key for key, given in self.given.items() if given.address not in there]:
            yield Fate.DEATH, self.take_back(key), None

    def reply(self, given: Given) -> tuple[Fate, Any]:
        from distributed import KilledWorker

        patience = LOOK_SECONDS
        while True:
            try:
                with self.cluster.reaching():
                    reply = given.future.result(timeout=patience)
                self._losses = 0
                return Fate.DONE, reply
            except KilledWorker:  # dask tried it again itself, at another worker that has the same address
                return Fate.DEATH, None
            except TimeoutError:  # a large reply, or lost with its worker
                patience *= 2
            except concurrent.futures.CancelledError:  # what is shared was lost, perhaps with this very worker
                return (Fate.GIVEN_BACK if given.address in self.look(now=True) else Fate.DEATH), None
            if given.address not in self.look(now=True):
                return Fate.DEATH, None

    def take_back(self, key: str) -> tuple[int, Any]:
        given = self.given.pop(key)
        with contextlib.suppress(Exception):  # the scheduler may have gone, which others notice
            given.future.release()
        return given.task

    def clear(self) -> None:
        """What is not done yet is not wanted any more."""
        for key in list(self.given):
            self.take_back(key)
        self._sent = None
