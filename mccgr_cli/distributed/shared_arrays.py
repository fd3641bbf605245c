"""Arrays in memory that several processes of one machine share, so that rows need not be sent between them.

The memory has no name in any folder. The system frees it when the last process that uses it ends, however it ends.
"""

from __future__ import annotations

import contextlib
import mmap
import os
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from mccgr_cli.blocks.protocol import Array


class Location(NamedTuple):
    """Where another process of the same machine finds an array."""

    process: int
    handle: int
    inode: int  # unique as long as the memory is in use
    shape: tuple[int, ...]
    dtype: str


class SharedArray:
    """An array that other processes can open: ``array`` for this process, ``location`` for them."""

    _handle: int | None = None

    def __init__(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
        self._handle = os.memfd_create("mccgr")
        os.ftruncate(self._handle, max(1, int(np.prod(shape)) * dtype.itemsize))
        self.array = mapped(self._handle, shape, dtype)
        self.location = Location(os.getpid(), self._handle, os.fstat(self._handle).st_ino, shape, dtype.str)

    def __del__(self) -> None:
        if self._handle is not None:
            os.close(self._handle)


def mapped(handle: int, shape: tuple[int, ...], dtype: Any) -> Array:
    memory = mmap.mmap(handle, 0)
    return np.frombuffer(memory, dtype, count=int(np.prod(shape))).reshape(shape)


def open_shared(location: Location) -> Array | None:
    """The array of another process; None if that process is on another machine or the array is gone."""
    with contextlib.suppress(OSError):
        handle = os.open(f"/proc/{location.process}/fd/{location.handle}", os.O_RDWR)
        try:
            if os.fstat(handle).st_ino == location.inode:
                return mapped(handle, location.shape, location.dtype)
        finally:
            os.close(handle)
    return None


class ArrayExchange:
    """Shared arrays for the calls to one worker and for its answers; every call uses them again."""

    def __init__(self) -> None:
        self._sent: list[SharedArray] = []
        self._received: list[SharedArray] = []

    def send(self, arrays: Sequence[Array | None]) -> list[Location | None]:
        """Copy arrays into shared memory."""
        present = [array for array in arrays if array is not None]
        fit(self._sent, present)
        for shared, array in zip(self._sent, present, strict=False):
            shared.array[...] = array
        locations = iter(shared.location for shared in self._sent)
        return [None if array is None else next(locations) for array in arrays]

    def answer_locations(self) -> list[Location]:
        """Where the worker can write an answer that is like the one before."""
        return [shared.location for shared in self._received]

    def receive(self, rows: Sequence[Array | Location]) -> tuple[Array, ...]:
        """The arrays of an answer, shared or sent. They are valid until the next answer."""
        if rows and isinstance(rows[0], Location):
            return tuple(shared.array for shared in self._received)
        arrays = tuple(row for row in rows if isinstance(row, np.ndarray))
        if arrays and object not in [array.dtype for array in arrays]:
            with contextlib.suppress(OSError):  # too many open files: the next answer is sent as well
                fit(self._received, arrays)
                del self._received[len(arrays) :]
        return arrays


def fit(shared: list[SharedArray], arrays: Sequence[Array]) -> None:
    """Give the first shared arrays the shapes and types of these arrays; keep those that fit already."""
    for i, array in enumerate(arrays):
        if i == len(shared):
            shared.append(SharedArray(array.shape, array.dtype))
        elif (shared[i].array.shape, shared[i].array.dtype) != (array.shape, array.dtype):
            shared[i] = SharedArray(array.shape, array.dtype)
