"""Arrays that processes of one machine share, so that rows need not be sent from one to the other.

They live in memory that has no name in any folder and goes when the last process that uses it ends, however it ends.
"""

from __future__ import annotations

import contextlib
import mmap
import os
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from mccgr_cli.blocks.protocol import Array


class Address(NamedTuple):
    """Where another process of the same machine finds an array."""

    process: int
    handle: int
    number: int  # of the file that the memory is to the system: no other has it as long as this one is in use
    shape: tuple[int, ...]
    dtype: str


class LentArray:
    """An array of ours that others may use: ``array`` here, ``address`` for them."""

    _handle: int | None = None

    def __init__(self, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
        self._handle = os.memfd_create("mccgr")
        os.ftruncate(self._handle, max(1, int(np.prod(shape)) * dtype.itemsize))
        self.array = mapped(self._handle, shape, dtype)
        self.address = Address(os.getpid(), self._handle, os.fstat(self._handle).st_ino, shape, dtype.str)

    def __del__(self) -> None:
        if self._handle is not None:
            os.close(self._handle)

    def suits(self, array: Array) -> bool:
        return (self.array.shape, self.array.dtype) == (array.shape, array.dtype)


def mapped(handle: int, shape: tuple[int, ...], dtype: Any) -> Array:
    memory = mmap.mmap(handle, 0)
    return np.frombuffer(memory, dtype, count=int(np.prod(shape))).reshape(shape)


def borrowed(address: Address) -> Array | None:
    """The array of another process; None if it cannot be reached from here."""
    with contextlib.suppress(OSError):
        handle = os.open(f"/proc/{address.process}/fd/{address.handle}", os.O_RDWR)
        try:
            if os.fstat(handle).st_ino == address.number:
                return mapped(handle, address.shape, address.dtype)
        finally:
            os.close(handle)
    return None


class Lender:
    """The arrays that go to one borrower and come back from it, used again for every call."""

    def __init__(self) -> None:
        self._there: list[LentArray] = []
        self._back: list[LentArray] = []

    def lend(self, arrays: Sequence[Array | None]) -> list[Address | None]:
        """Copies of these."""
        given = [array for array in arrays if array is not None]
        fit(self._there, given)
        for lent, array in zip(self._there, given, strict=False):
            lent.array[...] = array
        addresses = iter(lent.address for lent in self._there)
        return [None if array is None else next(addresses) for array in arrays]

    def room(self) -> list[Address]:
        """Where an answer like the last one can be put."""
        return [lent.address for lent in self._back]

    def answered(self, rows: Sequence[Array | Address]) -> tuple[Array, ...]:
        """The arrays of an answer, wherever they were put. They hold until the next answer."""
        if rows and isinstance(rows[0], Address):
            return tuple(lent.array for lent in self._back)
        arrays = tuple(row for row in rows if isinstance(row, np.ndarray))
        if arrays and object not in [array.dtype for array in arrays]:
            with contextlib.suppress(OSError):  # too many files: then the next answer is sent too
                fit(self._back, arrays)
                del self._back[len(arrays) :]
        return arrays


def fit(lent: list[LentArray], arrays: Sequence[Array]) -> None:
    """Let the first of those that are lent suit the arrays; the rest may suit others again."""
    for place, array in enumerate(arrays):
        if place == len(lent):
            lent.append(LentArray(array.shape, array.dtype))
        elif not lent[place].suits(array):
            lent[place] = LentArray(array.shape, array.dtype)
