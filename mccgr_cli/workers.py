"""Other processes of this machine that share the work on many items.

Unlike the pools of the standard library, this one knows which item a process died of, goes on without it, ends at
once when it is told to, and leaves no process behind when its own is killed: a worker's pipe ends with its owner.
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

Pipe: TypeAlias = Any  # a Connection, or what Windows has instead
Item = TypeVar("Item")
Result = TypeVar("Result")

FUNCTION, ITEM = "function", "item"
AHEAD = 8  # items per worker that may be done before the one whose turn it is


def usable_cores() -> int:
    """Those that this process may use, which a batch system may have limited."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class Workers:
    """So many processes; one means this very process."""

    def __init__(self, jobs: int) -> None:
        self.jobs = jobs
        self._workers: dict[Pipe, BaseProcess] = {}

    def __enter__(self) -> Workers:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        for pipe in list(self._workers):
            self._remove(pipe)

    def map(
        self,
        function: Callable[..., Result],
        items: Iterable[Item],
        shared: Sequence[Any],
        lost: Callable[[Item], Result],
    ) -> Iterator[Result]:
        """Yield ``function(item, *shared)`` for every item in order, or ``lost(item)`` where a process died of it.

        ``function`` must be importable by name.
        """
        if self.jobs == 1:
            for item in items:
                yield function(item, *shared)
            return
        while len(self._workers) < self.jobs:
            self._add()
        idle = deque(self._workers)
        for pipe in idle:
            pipe.send((FUNCTION, (function, shared)))
        coming = enumerate(items)
        busy: dict[Pipe, tuple[int, Item]] = {}
        done: dict[int, Result] = {}
        turn = 0
        while True:
            room = self.jobs * AHEAD - len(done) - len(busy)
            for number, item in itertools.islice(coming, min(room, len(idle))):
                pipe = idle.popleft()
                busy[pipe] = (number, item)
                with contextlib.suppress(ConnectionError):  # it died meanwhile, which is seen below
                    pipe.send((ITEM, item))
            if not busy and not done:
                break
            ready: list[Pipe] = connection.wait(list(busy)) if busy else []
            for pipe in ready:
                number, item = busy.pop(pipe)
                try:
                    succeeded, result = pipe.recv()
                except (EOFError, ConnectionError):
                    self._remove(pipe)
                    succeeded, result, pipe = True, lost(item), self._add()
                    pipe.send((FUNCTION, (function, shared)))
                if not succeeded:
                    raise RuntimeError(f"in a worker process:\n{result}")
                done[number] = result
                idle.append(pipe)
            while turn in done:
                yield done.pop(turn)
                turn += 1

    def _add(self) -> Pipe:
        context = multiprocessing.get_context("spawn")  # a fork would copy the locks of threads that it does not copy
        ours, theirs = context.Pipe()
        process = context.Process(target=serve, args=(theirs,), daemon=True)
        with interrupts_kept_from_children():
            process.start()
        theirs.close()
        self._workers[ours] = process
        return ours

    def _remove(self, pipe: Pipe) -> None:
        process = self._workers.pop(pipe)
        pipe.close()
        process.kill()
        process.join()


def serve(pipe: Pipe) -> None:
    """What a worker does: wait for a function, then for items, until its owner has gone."""
    function: Callable[..., Any] | None = None
    shared: Sequence[Any] = ()
    with contextlib.suppress(EOFError, ConnectionError):
        while True:
            what, received = pipe.recv()
            if what == FUNCTION:
                function, shared = received
                continue
            assert function is not None
            try:
                reply = (True, function(received, *shared))
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
