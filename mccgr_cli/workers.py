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
from collections.abc import Callable, Iterable, Iterator, Sequence
from multiprocessing import connection, resource_tracker
from multiprocessing.process import BaseProcess
from types import TracebackType
from typing import Any, TypeAlias, TypeVar

from mccgr_cli.errors import MccgrError

Pipe: TypeAlias = Any  # a Connection, or what Windows has instead
Item = TypeVar("Item")
Result = TypeVar("Result")

AHEAD = 8  # items per worker that may be done before the one whose turn it is


def usable_cores() -> int:
    """Those that this process may use, which a batch system may have limited."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class Workers:
    """So many other processes; 0 means this very one, and that a crash of the work is its own."""

    def __init__(self, jobs: int) -> None:
        self.jobs = jobs
        self._workers: dict[Pipe, BaseProcess] = {}
        self._started: set[Pipe] = set()  # those that have been heard of

    def __enter__(self) -> Workers:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        for pipe in list(self._workers):
            self._remove(pipe)

    def map(
        self, function: Callable[..., Result], items: Iterable[Item], shared: Sequence[Any], lost: Result
    ) -> Iterator[Result]:
        """Yield ``function(item, *shared)`` for every item in order, or ``lost`` where processes die of it.

        ``function`` must be importable by name.
        """
        if not self.jobs:
            for item in items:
                yield function(item, *shared)
            return
        while len(self._workers) < self.jobs:
            self._add()
        coming = enumerate(items)
        idle, told = deque(self._workers), set[Pipe]()
        busy: dict[Pipe, tuple[int, Item]] = {}
        again: deque[tuple[int, Item]] = deque()  # a process died with these, perhaps not of them: to be tried again
        done: dict[int, Result] = {}
        turn, suspects = 0, set[int]()
        try:
            while True:
                room = min(len(idle), self.jobs * AHEAD - len(done) - len(busy))
                while again and idle:
                    self._give(idle.popleft(), again.popleft(), (function, shared), busy, told)
                for numbered in itertools.islice(coming, min(room, len(idle))):
                    self._give(idle.popleft(), numbered, (function, shared), busy, told)
                if not busy:
                    return
                ready: list[Pipe] = connection.wait(list(busy))
                for pipe in ready:
                    try:
                        reply = pipe.recv()
                    except (EOFError, ConnectionError):
                        number, item = busy.pop(pipe)
                        self._replace(pipe, idle)
                        if number in suspects:
                            done[number] = lost
                        else:
                            suspects.add(number)
                            again.append((number, item))
                        continue
                    self._started.add(pipe)
                    if reply is None:  # it has only just started
                        continue
                    number, _ = busy.pop(pipe)
                    idle.append(pipe)
                    done[number] = outcome(reply)
                while turn in done:
                    yield done.pop(turn)
                    turn += 1
        finally:
            for pipe in busy:  # what they are about is not wanted any more
                self._remove(pipe)

    def _give(
        self,
        pipe: Pipe,
        numbered: tuple[int, Item],
        work: tuple[Callable[..., Any], Sequence[Any]],
        busy: dict[Pipe, tuple[int, Item]],
        told: set[Pipe],
    ) -> None:
        busy[pipe] = numbered
        with contextlib.suppress(ConnectionError):  # it died while it was idle, which shows when its reply is awaited
            pipe.send((None if pipe in told else work, numbered[1]))
        told.add(pipe)

    def _add(self) -> Pipe:
        context = multiprocessing.get_context("spawn")  # a fork would copy the locks of threads that it does not copy
        ours, theirs = context.Pipe()
        process = context.Process(target=serve, args=(theirs,), daemon=True)
        with interrupts_kept_from_children():
            process.start()
        theirs.close()
        self._workers[ours] = process
        return ours

    def _replace(self, pipe: Pipe, idle: deque[Pipe]) -> None:
        started = pipe in self._started
        self._remove(pipe)
        if not started:
            raise MccgrError("worker processes", "end before they have started", "work without them: --jobs 0")
        idle.append(self._add())

    def _remove(self, pipe: Pipe) -> None:
        process = self._workers.pop(pipe)
        self._started.discard(pipe)
        pipe.close()
        process.kill()
        process.join()


def outcome(reply: tuple[bool, Any]) -> Any:
    """What a worker's function returned; if it raised, a bug of this process too."""
    succeeded, result = reply
    if not succeeded:
        raise RuntimeError(f"in a worker process:\n{result}")
    return result


def serve(pipe: Pipe) -> None:
    """What a worker does: say that it is there, then work on items, until its owner has gone."""
    function: Callable[..., Any] | None = None
    shared: Sequence[Any] = ()
    with contextlib.suppress(EOFError, ConnectionError):
        pipe.send(None)
        while True:
            work, item = pipe.recv()
            if work is not None:
                function, shared = work
            assert function is not None
            try:
                reply = (True, function(item, *shared))
            except Exception:
                reply = (False, traceback.format_exc())
            pipe.send(reply)


@contextlib.contextmanager
def interrupts_kept_from_children() -> Iterator[None]:
    """Ctrl-C reaches every process of a terminal; children started here leave it to their owner."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    resource_tracker.ensure_running()  # which comes with the first child, and would let the signal through again
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
