"""Threads of this process that work on several blocks at once."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from functools import cache
from typing import Any

from threadpoolctl import ThreadpoolController


class Call:
    """Of a function on one block, by a thread of the pool unless the caller takes it over."""

    def __init__(self, where: slice, function: Callable[..., Any], arguments: tuple[Any, ...], pool: Any) -> None:
        self.where, self.function, self.arguments = where, function, arguments
        self.future: Future[Any] = pool.submit(function, *arguments)

    def take_over(self) -> bool:
        """Do it here and now, and return True, unless somebody has begun."""
        if self.future.done() or not self.future.cancel():
            return False
        self.future = Future()
        self.future.set_result(self.function(*self.arguments))
        return True


class ThreadedCalls:
    """Several blocks are worked on at once, each by one thread (see :func:`threads_for_blocks`).

    Threads of BLAS's own gain little on products as narrow as these.
    """

    def __init__(self, threads: int) -> None:
        self._threads = threads
        self._pool = ThreadPoolExecutor(threads - 1) if threads > 1 else None
        self.ahead = 2 * threads + 1 if threads > 1 else 1  # blocks that may be taken before the first is done

    def results(
        self, function: Callable[..., Any], calls: Iterable[tuple[slice, tuple[Any, ...]]]
    ) -> Iterator[tuple[slice, Any]]:
        """What ``function`` makes of the arguments for each block, in their order."""
        if self._pool is None:
            for where, arguments in calls:
                yield where, function(*arguments)
            return
        waiting: deque[Call] = deque()
        try:
            for where, arguments in calls:
                waiting.append(Call(where, function, arguments, self._pool))
                if len(waiting) >= self.ahead:  # results are taken as they come: few are held at a time
                    yield self._next(waiting)
            while waiting:
                yield self._next(waiting)
        finally:  # when it ends early: nobody may still be using a block
            wait([call.future for call in waiting if not call.future.cancel()])

    def _next(self, waiting: deque[Call]) -> tuple[slice, Any]:
        """The result of the first call; while others are at it, this thread works on those that nobody has begun."""
        while not waiting[0].future.done() and any(call.take_over() for call in waiting):
            pass
        call = waiting.popleft()
        return call.where, call.future.result()


@cache
def blas() -> ThreadpoolController:
    return ThreadpoolController().select(user_api="blas")


@cache
def blas_threads() -> int:
    """As many as BLAS would use by itself, so that OMP_NUM_THREADS and the like are heeded."""
    counts = [int(library["num_threads"]) for library in blas().info()]
    return max([1, *counts])


@contextmanager
def threads_for_blocks() -> Iterator[None]:
    """Leave the cores to the threads that work on blocks.

    For whole computations, not for single passes: a thread of BLAS that has just worked spins for a while, and
    a pass that had to share its core with one took nearly twice as long.
    """
    blas_threads()  # asked before the limit is set
    with blas().limit(limits=1):
        yield
