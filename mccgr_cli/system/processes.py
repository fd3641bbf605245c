"""A pool of worker processes that share the work on many items.

The pools of the standard library and of joblib are not used, because here a pool must know which item a process died
with, try it once more, continue without it, stop at once when asked, and leave no process behind when its owner is
killed: a worker ends when the pipe from its owner closes. docs/DEPENDENCIES.md has the comparison.
"""

from __future__ import annotations

import contextlib
import itertools
import multiprocessing
import os
import signal
import traceback
from abc import ABC, abstractmethod
from collections import Counter, deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence, Sized
from enum import Enum, auto
from multiprocessing import connection, resource_tracker
from typing import Any, TypeVar

from mccgr_cli.errors import MccgrError
from mccgr_cli.system.memory import limit_growth
from mccgr_cli.system.signals import postponed_interrupts

Item = TypeVar("Item")
Result = TypeVar("Result")
Task = tuple[int, Any]  # the number of an item, and the item

WORKER = "mccgr-worker"  # name of our processes
AHEAD = 8  # items per worker that may be finished before the item that comes next in order


def usable_cores() -> int:
    """Number of cores that this process may use; a batch system may have limited them."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class Ending(Enum):
    """How the work on an item ended."""

    DONE = auto()
    DIED = auto()  # its worker died
    RETURNED = auto()  # shared data were lost, through no fault of this item


class WorkerPool(ABC):
    """A pool of workers that apply a function to many items, one item at a time each."""

    max_deaths = 2  # of workers with the same item, after which the item is lost
    in_this_process = False  # True: there are no workers

    @abstractmethod
    def _begin(self, function: Callable[..., Any], shared: Sequence[Any]) -> None:
        """Prepare the workers for a function."""

    @abstractmethod
    def _available(self) -> tuple[int, Sequence[Any]]:
        """The number of all workers, and the idle ones."""

    @abstractmethod
    def _start(self, worker: Any, task: Task) -> None: ...

    @abstractmethod
    def _finished(self) -> Iterator[tuple[Ending, Task, Any]]:
        """Wait for news, then yield how tasks ended, with the worker's reply (see :func:`call_safely`)."""

    @abstractmethod
    def _stop(self) -> None:
        """Drop all unfinished tasks."""

    def map(
        self, function: Callable[..., Result], items: Iterable[Item], shared: Sequence[Any], lost: Result
    ) -> Iterator[Result]:
        """Yield ``function(item, *shared)`` for every item, in the order of the items.

        The function must be importable by name. ``shared`` is sent to each worker once. ``items`` are read only a few
        ahead of the results. ``lost`` is the result of an item whose workers die.
        """
        results: dict[int, Result] = {}
        following = 0
        with contextlib.closing(self.as_completed(function, items, shared, lost, results)) as done:
            for number, result in done:
                results[number] = result
                while following in results:
                    yield results.pop(following)
                    following += 1

    def as_completed(
        self,
        function: Callable[..., Result],
        items: Iterable[Item],
        shared: Sequence[Any],
        lost: Result,
        waiting: Sized = (),
    ) -> Generator[tuple[int, Result], None, None]:
        """As :meth:`map`, but yield the number of an item and its result as soon as it is finished.

        No further item is started while many results are ``waiting`` for their turn.
        """
        numbered: Iterator[Task] = enumerate(items)
        if self.in_this_process:
            for number, item in numbered:
                yield number, function(item, *shared)
            return
        self._begin(function, shared)
        again: deque[Task] = deque()  # a worker died with these items, perhaps for another reason
        deaths: Counter[int] = Counter()
        busy = 0
        try:
            while True:
                total, idle = self._available()
                room = max(0, total * AHEAD - len(waiting) - busy)
                queued = itertools.chain(pop_all(again), itertools.islice(numbered, room))
                for worker, task in zip(idle, queued, strict=False):
                    self._start(worker, task)
                    busy += 1
                if not busy:
                    return
                for ending, task, reply in self._finished():
                    busy -= 1
                    number = task[0]
                    deaths[number] += ending is Ending.DIED
                    if ending is Ending.DONE:
                        yield number, result_or_raise(reply)
                    elif deaths[number] < self.max_deaths:
                        again.append(task)
                    else:
                        yield number, lost
        finally:
            self._stop()


def pop_all(queue: deque[Item]) -> Iterator[Item]:
    """Remove items from a queue one by one, each only when it is needed."""
    while queue:
        yield queue.popleft()


class LocalPool(WorkerPool):
    """A pool of ``jobs`` processes of this machine. With 0 jobs the work is done in this process, unprotected."""

    def __init__(self, jobs: int) -> None:
        self.jobs, self.in_this_process = jobs, jobs == 0
        self._workers: list[Worker] = []

    def __enter__(self) -> LocalPool:
        return self

    def __exit__(self, *_: object) -> None:
        for worker in self._workers:
            worker.end()

    def _begin(self, function: Callable[..., Any], shared: Sequence[Any]) -> None:
        self._work = (function, shared)

    def _available(self) -> tuple[int, Sequence[Worker]]:
        while len(self._workers) < self.jobs:  # at the start, and after a worker died
            self._workers.append(Worker())
        return self.jobs, [worker for worker in self._workers if worker.task is None]

    def _start(self, worker: Worker, task: Task) -> None:
        worker.start(task, self._work)

    def _finished(self) -> Iterator[tuple[Ending, Task, Any]]:
        ready: list[Any] = connection.wait(self._busy())
        for worker in ready:
            task = worker.task
            try:
                reply = worker.receive()
            except (EOFError, OSError):
                self._remove(worker)
                if not worker.started:
                    raise cannot_start("they end at once") from None
                yield Ending.DIED, task, None
                continue
            if reply is not None:
                yield Ending.DONE, task, reply

    def _stop(self) -> None:
        for worker in self._busy():
            self._remove(worker)

    def _busy(self) -> list[Any]:
        return [worker for worker in self._workers if worker.task is not None]

    def _remove(self, worker: Worker) -> None:
        self._workers.remove(worker)
        worker.end()


class Worker:
    """One process, and the pipe to it."""

    def __init__(self) -> None:
        context = multiprocessing.get_context("spawn")  # a fork would copy the locks of threads that it does not copy
        self.started = False  # whether the process has sent anything yet
        self.task: Task | None = None
        self.work: Any = None  # the function and the shared arguments that the process has
        try:
            self.pipe, theirs = context.Pipe()
            self.process = context.Process(target=worker_loop, args=(theirs,), name=WORKER, daemon=True)
            # A signal while a child starts would make the child print a traceback.
            with postponed_interrupts(), signals_blocked_in_children():
                self.process.start()
        except OSError as fault:  # too many processes or open files, or the current folder is gone
            raise cannot_start((fault.strerror or str(fault)).lower()) from None
        theirs.close()

    def fileno(self) -> int:
        return self.pipe.fileno()

    def start(self, task: Task, work: tuple[Callable[..., Any], Sequence[Any]]) -> None:
        with contextlib.suppress(ConnectionError):  # the process died while idle; `receive` will notice
            self.pipe.send((None if self.work is work else work, task[1]))
        self.task, self.work = task, work

    def receive(self) -> tuple[bool, Any] | None:
        """The reply to the task; None for the first message, which says that the process has started."""
        reply: tuple[bool, Any] | None = self.pipe.recv()
        if self.started:
            self.task = None
        self.started = True
        return reply

    def end(self) -> None:
        self.pipe.close()
        self.process.kill()
        self.process.join()


def limit_memory_of_worker(room: float) -> None:
    """If this process is one of our workers, let it use at most ``room`` bytes more than now."""
    if multiprocessing.current_process().name == WORKER:
        limit_growth(room)


def cannot_start(why: str, remedy: str = "use fewer --jobs, or --jobs 0 for none") -> MccgrError:
    return MccgrError("worker processes", f"cannot be started: {why}", remedy)


def worker_loop(pipe: Any) -> None:
    """The main function of a worker process: report the start, then work on items until the owner is gone."""
    function: Any = None
    shared: Sequence[Any] = ()
    with contextlib.suppress(EOFError, ConnectionError):
        silence_libraries()
        pipe.send(None)
        while True:
            work, item = pipe.recv()
            if work is not None:
                function, shared = work
            pipe.send(call_safely(function, item, shared))


def call_safely(function: Callable[..., Any], item: Any, shared: Sequence[Any]) -> tuple[bool, Any]:
    """Whether the call succeeded, and its result, or else the error to be raised by :func:`result_or_raise`."""
    try:
        return True, function(item, *shared)
    except MccgrError as fault:
        return False, fault
    except Exception:
        return False, traceback.format_exc()


def result_or_raise(reply: tuple[bool, Any]) -> Any:
    """The result of a call in another process, or its error, raised here."""
    succeeded, result = reply
    if succeeded:
        return result
    raise result if isinstance(result, MccgrError) else RuntimeError(f"in a worker process:\n{result}")


def silence_libraries() -> None:
    """Discard stderr: image decoders in C print messages there that name no file and hide our own messages."""
    nothing = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, 2)
    os.close(nothing)


@contextlib.contextmanager
def signals_blocked_in_children(numbers: Sequence[int] = (signal.SIGINT,)) -> Iterator[None]:
    """Processes and threads started here ignore these signals: Ctrl-C reaches all processes of a terminal."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    resource_tracker.ensure_running()  # else it would start with the first child, and unblock the signals
    before = signal.pthread_sigmask(signal.SIG_BLOCK, numbers)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
