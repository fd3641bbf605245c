"""Threads of this process that work on several blocks at the same time."""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from functools import cache
from typing import Any

from threadpoolctl import ThreadpoolController, threadpool_limits


class Call:
    """A call of a function on one block, in a thread of the pool or in the calling thread."""

    def __init__(self, where: slice, function: Callable[..., Any], arguments: tuple[Any, ...], pool: Any) -> None:
        self.where, self.function, self.arguments = where, function, arguments
        self.future: Future[Any] = pool.submit(function, *arguments)

    def run_here(self) -> bool:
        """Do the call now in this thread and return True, unless another thread has started it."""
        if self.future.done() or not self.future.cancel():
            return False
        self.future = Future()
        self.future.set_result(self.function(*self.arguments))
        return True


class ThreadedCalls:
    """Calls a function on several blocks at the same time, each in one thread (see :func:`threads_for_blocks`).

    The threads of BLAS itself help little in products with few columns.
    """

    def __init__(self, threads: int) -> None:
        self._threads = threads
        self._pool = ThreadPoolExecutor(threads - 1) if threads > 1 else None
        self.ahead = 2 * threads + 1 if threads > 1 else 1  # blocks that may be started before the first is done

    def results(
        self, function: Callable[..., Any], calls: Iterable[tuple[slice, tuple[Any, ...]]]
    ) -> Iterator[tuple[slice, Any]]:
        """The results of ``function`` for the arguments of each block, in order."""
        if self._pool is None:
            for where, arguments in calls:
                yield where, function(*arguments)
            return
        waiting: deque[Call] = deque()
        try:
            for where, arguments in calls:
                waiting.append(Call(where, function, arguments, self._pool))
                if len(waiting) >= self.ahead:  # so that few results are kept in memory
                    yield self._next(waiting)
            while waiting:
                yield self._next(waiting)
        finally:  # if it ends early, no thread may still use a block
            wait([call.future for call in waiting if not call.future.cancel()])

    def _next(self, waiting: deque[Call]) -> tuple[slice, Any]:
        """The result of the first call. While it is running elsewhere, this thread does calls not yet started."""
        while not waiting[0].future.done() and any(call.run_here() for call in waiting):
            pass
        call = waiting.popleft()
        return call.where, call.future.result()


def blas() -> ThreadpoolController:
    return loaded_blas("scipy.linalg" in sys.modules)


@cache
def loaded_blas(of_scipy: bool) -> ThreadpoolController:
    """The BLAS of numpy and, as soon as it is loaded, the other one of scipy, which scikit-learn uses too."""
    return ThreadpoolController().select(user_api="blas")


@cache
def blas_threads() -> int:
    """The number of threads that BLAS would use, which respects OMP_NUM_THREADS and similar variables."""
    counts = [int(library["num_threads"]) for library in blas().info()]
    return max([1, *counts])


@contextmanager
def one_thread() -> Iterator[None]:
    """Use one thread only, because other processes use the other cores."""
    import scipy.linalg  # noqa: F401 - its threads are limited only if it is imported before

    with threadpool_limits(limits=1):
        yield


@contextmanager
def threads_for_blocks() -> Iterator[None]:
    """Limit BLAS to one thread, so that the cores are free for the threads that work on blocks.

    Use it around whole computations, not single passes: a BLAS thread keeps its core busy for a while after its work,
    and a pass beside it took nearly twice as long.
    """
    blas_threads()  # must be read before the limit is set
    with blas().limit(limits=1):
        yield
