"""Check the heaps in which HDF5 stores texts, before HDF5 reads them: in a damaged one it may loop for ever."""

from __future__ import annotations

import mmap
import struct
from collections.abc import Iterator, Sequence
from typing import BinaryIO

from mccgr_cli.errors import DataError

HEAP = b"GCOL\x01\0\0\0"  # every heap of texts begins with this
ENTRY = struct.Struct("<HHIQ")  # index, references, padding, length
HEAP_HEADER = 16


class HeapFinder:
    """Finds where heaps begin while the bytes of a file are read."""

    def __init__(self) -> None:
        self.places: list[int] = []
        self._seen = 0
        self._tail = b""

    def look_at(self, piece: bytes) -> None:
        whole = self._tail + piece
        start = self._seen - len(self._tail)
        place = whole.find(HEAP)
        while place >= 0:
            self.places.append(start + place)
            place = whole.find(HEAP, place + 1)
        self._seen += len(piece)
        self._tail = whole[1 - len(HEAP) :]


def check_heaps(file: BinaryIO, places: Sequence[int], where: str) -> None:
    """An error if a heap has an entry of length 0. HDF5 itself finds other faults."""
    if not places:
        return
    with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        left = len(content) // ENTRY.size  # the most entries that all heaps together can have
        for place in places:
            length = int.from_bytes(content[place + len(HEAP) : place + HEAP_HEADER], "little")
            for step in steps_through(content, place + HEAP_HEADER, min(place + length, len(content))):
                left -= 1
                if step == 0 or left < 0:
                    what = f"damaged HDF5 file (a heap at byte {place})"
                    raise DataError(where, what, "make, copy or download it again")


def steps_through(content: mmap.mmap, place: int, end: int) -> Iterator[int]:
    """The distance from each entry to the next, as HDF5 computes it."""
    while place + ENTRY.size <= end:
        index, _, _, length = ENTRY.unpack_from(content, place)
        step = (ENTRY.size + (length + 7) // 8 * 8) % 2**64 if index else length
        yield step
        place += step
