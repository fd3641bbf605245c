"""A matrix in a file as a source of blocks: a thread reads the next blocks while others are worked on."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

import numpy as np

from mccgr_cli.blocks.in_memory import MemoryBlocks, is_matrix, row_slices, row_view, rows_of_block
from mccgr_cli.blocks.protocol import Array, Matrix, Size, chunks
from mccgr_cli.blocks.threads import ThreadedCalls, blas_threads

# Bytes per read: at least READ_BYTES and one storage unit of the file (its chunk), at most MOST_BYTES.
READ_BYTES = 32 << 20
MOST_BYTES = 256 << 20


class Stored(Protocol):
    """A matrix in a file (see :class:`mccgr_cli.files.lazy_matrix.StoredMatrix`)."""

    @property
    def shape(self) -> tuple[int, int]: ...

    @property
    def dtype(self) -> np.dtype[Any]: ...

    @property
    def size(self) -> Size: ...

    @property
    def unit(self) -> int: ...

    def reading(self) -> AbstractContextManager[Callable[[slice, Array | None], Matrix]]: ...

    def buffer(self, rows: int) -> Array | None: ...

    def prepared(self, raw: Matrix) -> Matrix: ...


class FileBlocks:
    """Blocks of a matrix in a file. They are the same as in memory, and so is the rounding.

    A pass reads the file once from beginning to end, several blocks at a time. Buffers are reused, so a block function
    must not return a view of its block.
    """

    whole: Matrix | None = None

    def __init__(self, stored: Stored, block_rows: int | None = None, threads: int | None = None) -> None:
        self.shape, self.dtype = stored.shape, stored.dtype
        self._stored = stored
        blocks = row_slices(stored.size, block_rows)
        self._calls = ThreadedCalls(min(threads or blas_threads(), len(blocks)))
        self._reads = [blocks[some] for some in chunks(len(blocks), blocks_together(stored, blocks))]
        self._buffers: list[Array | None] = []

    def map(
        self, function: Callable[..., Any], rows: Sequence[Array | None] = (), shared: Sequence[Any] = ()
    ) -> Iterator[tuple[slice, Any]]:
        with ReadAhead(self._stored, [span(blocks) for blocks in self._reads], self._free_buffers()) as ahead:

            def calls() -> Iterator[tuple[slice, tuple[Any, ...]]]:
                for blocks in self._reads:
                    raw, first = ahead.next(), blocks[0].start
                    for where in blocks:
                        block = row_view(raw, slice(where.start - first, where.stop - first))
                        yield where, (block, *rows_of_block(rows, where), *shared)

            def call(raw: Matrix, *arguments: Any) -> Any:
                return function(self._stored.prepared(raw), *arguments)

            for where, result in self._calls.results(call, calls()):
                yield where, result
                ahead.release(where.stop)

    def take(self, where: slice) -> Matrix:
        with self._stored.reading() as read:
            raw = read(where, None)
        return self._stored.prepared(raw)

    def _free_buffers(self) -> list[Array | None]:
        """As many buffers as can be in use at the same time, and one more to read into."""
        if not self._buffers:
            number = [i for i, blocks in enumerate(self._reads) for _ in blocks]
            last = len(number) - 1
            in_use = max(number[min(i + self._calls.ahead, last)] - number[i] + 1 for i in range(len(number)))
            longest = max(span(blocks).stop - span(blocks).start for blocks in self._reads)
            self._buffers = [self._stored.buffer(longest) for _ in range(min(in_use + 1, len(self._reads)))]
        return self._buffers


def blocks_of(X: Matrix | Stored) -> MemoryBlocks | FileBlocks:
    """X as a block source, in memory or in its file."""
    return MemoryBlocks(X) if is_matrix(X) else FileBlocks(X)


def span(blocks: Sequence[slice]) -> slice:
    return slice(blocks[0].start, blocks[-1].stop)


def blocks_together(stored: Stored, blocks: Sequence[slice]) -> int:
    """The number of blocks per read."""
    row_bytes = max(1, stored.size.bytes // stored.size.samples)
    rows = min(max(READ_BYTES // row_bytes, stored.unit), MOST_BYTES // row_bytes)
    together: int = rows // (blocks[0].stop - blocks[0].start)
    return max(1, together)


class ReadAhead:
    """A thread that reads rows in order while there are free buffers."""

    def __init__(self, stored: Stored, reads: Sequence[slice], buffers: Sequence[Array | None]) -> None:
        self._stored, self._reads = stored, reads
        self._free: queue.SimpleQueue[Array | None] = queue.SimpleQueue()
        for buffer in buffers:
            self._free.put(buffer)
        self._read: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._in_use: list[tuple[int, Array | None]] = []  # the end of the rows in a buffer, and the buffer
        self._stopped = False
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> ReadAhead:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped = True
        self._free.put(None)  # the thread may be waiting for a buffer
        self._thread.join()

    def next(self) -> Matrix:
        """The next rows."""
        found = self._read.get()
        if isinstance(found, BaseException):
            raise found
        raw, end, buffer = found
        self._in_use.append((end, buffer))
        return raw

    def release(self, row: int) -> None:
        """Free the buffers of all rows before this one."""
        while self._in_use and self._in_use[0][0] <= row:
            self._free.put(self._in_use.pop(0)[1])

    def _run(self) -> None:
        try:
            with self._stored.reading() as read:
                for rows in self._reads:
                    buffer = self._free.get()
                    if self._stopped:
                        return
                    self._read.put((read(rows, buffer), rows.stop, buffer))
        except BaseException as fault:
            self._read.put(fault)
