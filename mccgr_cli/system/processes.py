"""Other processes of this machine that share the work on many items.

Unlike the pools of the standard library, this one knows which item a process died with, tries it once more, goes on
without it, ends at once when it is told to, and leaves no process behind when its own is killed: a worker's pipe ends
with its owner.
"""

from __future__ import annotations

import contextlib
import itertools
import multiprocessing
import os
import signal
import traceback
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence, Sized
from multiprocessing import connection, resource_tracker
from types import TracebackType
from typing import Any, Protocol, TypeVar

from mccgr_cli.errors import MccgrError
from mccgr_cli.system.signals import postponed_interrupts

Item = TypeVar("Item")
Result = TypeVar("Result")

AHEAD = 8  # items per worker that may be done before the one whose turn it is


def usable_cores() -> int:
    """Those that this process may use, which a batch system may have limited."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class Crew(Protocol):
    """Whoever shares the work."""

    def map(
        self, function: Callable[..., Result], items: Iterable[Item], shared: Sequence[Any], lost: Result
    ) -> Iterator[Result]: ...

    def as_done(
        self,
        function: Callable[..., Result],
        items: Iterable[Item],
        shared: Sequence[Any],
        lost: Result,
        waiting: Sized = (),
    ) -> Generator[tuple[int, Result], None, None]: ...


class Workers:
    """So many other processes; 0 means this very one, and that a crash of the work is its own."""

    def __init__(self, jobs: int) -> None:
        self.jobs = jobs
        self._workers: list[Worker] = []

    def __enter__(self) -> Workers:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        for worker in self._workers:
            worker.end()

    def map(
        self, function: Callable[..., Result], items: Iterable[Item], shared: Sequence[Any], lost: Result
    ) -> Iterator[Result]:
        """Yield ``function(item, *shared)`` for every item in order, or ``lost`` where processes die of it.

        ``function`` must be importable by name.
        """
        return in_order(self.as_done, function, items, shared, lost)

    def as_done(
        self,
        function: Callable[..., Result],
        items: Iterable[Item],
        shared: Sequence[Any],
        lost: Result,
        waiting: Sized = (),
    ) -> Generator[tuple[int, Result], None, None]:
        """The same in the order in which they are done, each with the number of its item.

        While many results are ``waiting`` for others, no further item is begun.
        """
        if not self.jobs:
            for number, item in enumerate(items):
                yield number, function(item, *shared)
            return
        work = (function, shared)
        coming = enumerate(items)
        again: deque[tuple[int, Item]] = deque()  # a process died with these, perhaps not of them: to be tried again
        suspects: set[int] = set()
        try:
            while True:
                while len(self._workers) < self.jobs:
                    self._workers.append(Worker())
                idle = [worker for worker in self._workers if worker.task is None]
                room = self.jobs * AHEAD - len(waiting) - (self.jobs - len(idle))
                tasks = itertools.chain(take(again), itertools.islice(coming, max(0, room)))
                for worker, task in zip(idle, tasks, strict=False):
                    worker.give(task, work)
                busy: list[Any] = [worker for worker in self._workers if worker.task is not None]
                if not busy:
                    return
                ready: list[Any] = connection.wait(busy)
                for worker in ready:
                    number, item = worker.task
                    try:
                        finished, result = worker.reply()
                    except (EOFError, OSError):
                        self._workers.remove(worker)
                        worker.end()
                        if not worker.started:
                            raise cannot_start("they end as they begin") from None
                        if number in suspects:
                            yield number, lost
                        else:
                            suspects.add(number)
                            again.append((number, item))
                        continue
                    if finished:
                        yield number, result
        finally:
            for worker in [worker for worker in self._workers if worker.task is not None]:
                self._workers.remove(worker)  # what it is about is not wanted any more
                worker.end()


def in_order(
    as_done: Callable[..., Generator[tuple[int, Result], None, None]],
    function: Callable[..., Result],
    items: Iterable[Item],
    shared: Sequence[Any],
    lost: Result,
) -> Iterator[Result]:
    """Results as they are done, each kept until its turn has come."""
    done: dict[int, Result] = {}
    turn = 0
    with contextlib.closing(as_done(function, items, shared, lost, done)) as results:
        for number, result in results:
            done[number] = result
            while turn in done:
                yield done.pop(turn)
                turn += 1


def take(queue: deque[Item]) -> Iterator[Item]:
    """What is in a queue, each when it is asked for."""
    while queue:
        yield queue.popleft()


class Worker:
    """One process, and the pipe to it."""

    def __init__(self) -> None:
        context = multiprocessing.get_context("spawn")  # a fork would copy the locks of threads that it does not copy
        self.started = False  # whether it has been heard of
        self.task: Any = None  # the number of the item that it works on, and the item
        self.work: Any = None  # the function that it knows, and what this shares
        try:
            self.pipe, theirs = context.Pipe()
            self.process = context.Process(target=serve, args=(theirs,), daemon=True)
            with postponed_interrupts(), interrupts_kept_from_children():  # a child begun by halves complains of it
                self.process.start()
        except OSError as fault:  # too many processes or files, or no folder to be in
            raise cannot_start((fault.strerror or str(fault)).lower()) from None
        theirs.close()

    def fileno(self) -> int:
        return self.pipe.fileno()

    def give(self, task: tuple[int, Any], work: tuple[Callable[..., Any], Sequence[Any]]) -> None:
        with contextlib.suppress(ConnectionError):  # it died while it was idle, which shows when its reply is awaited
            self.pipe.send((None if self.work is work else work, task[1]))
        self.task, self.work = task, work

    def reply(self) -> tuple[bool, Any]:
        """Whether it has finished what it was given, and the result."""
        answer = self.pipe.recv()
        if not self.started:
            self.started = True
            return False, None
        self.task = None
        return True, outcome(answer)

    def end(self) -> None:
        self.pipe.close()
        self.process.kill()
        self.process.join()


def cannot_start(why: str, remedy: str = "give fewer --jobs; 0 does without any") -> MccgrError:
    return MccgrError("worker processes", f"cannot be started: {why}", remedy)


def outcome(reply: tuple[bool, Any]) -> Any:
    """What a worker's function returned; what it raised is raised here too."""
    succeeded, result = reply
    if isinstance(result, MccgrError):
        raise result
    if not succeeded:
        raise RuntimeError(f"in a worker process:\n{result}")
    return result


def serve(pipe: Any) -> None:
    """What a worker does: say that it is there, then work on items, until its owner has gone."""
    function: Callable[..., Any] | None = None
    shared: Sequence[Any] = ()
    with contextlib.suppress(EOFError, ConnectionError):
        silence_libraries()
        pipe.send(None)
        while True:
            work, item = pipe.recv()
            if work is not None:
                function, shared = work
            assert function is not None
            pipe.send(attempt(function, item, shared))


def attempt(function: Callable[..., Any], item: Any, shared: Sequence[Any]) -> tuple[bool, Any]:
    """Whether a function succeeded, and what it returned or why not; see :func:`outcome`."""
    try:
        return True, function(item, *shared)
    except MccgrError as fault:
        return False, fault
    except Exception:
        return False, traceback.format_exc()


def silence_libraries() -> None:
    """What decoders of other languages write to stderr themselves names no file, and drowns what does."""
    nothing = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, 2)
    os.close(nothing)


@contextlib.contextmanager
def interrupts_kept_from_children(numbers: Sequence[int] = (signal.SIGINT,)) -> Iterator[None]:
    """Ctrl-C reaches every process of a terminal; children and threads started here leave it to their owner."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    resource_tracker.ensure_running()  # which comes with the first child, and would let the signal through again
    before = signal.pthread_sigmask(signal.SIG_BLOCK, numbers)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
