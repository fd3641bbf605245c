"""The heaps in which HDF5 keeps texts, checked before HDF5 sees them: over a damaged one it may go round for ever."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from typing import BinaryIO

from mccgr_cli.errors import DataError

HEAP = b"GCOL\x01\0\0\0"  # how every heap of texts begins in HDF5
ENTRY = struct.Struct("<HHIQ")  # its index, its references, nothing, its length
HEAP_HEADER = 16
LARGEST_HEAP = 1 << 32


class HeapFinder:
    """Where the heaps of a file begin, found while its bytes go by."""

    def __init__(self) -> None:
        self.places: list[int] = []
        self._seen = 0
        self._tail = b""

    def pass_by(self, piece: bytes) -> None:
        whole = self._tail + piece
        start = self._seen - len(self._tail)
        place = whole.find(HEAP)
        while place >= 0:
            self.places.append(start + place)
            place = whole.find(HEAP, place + 1)
        self._seen += len(piece)
        self._tail = whole[1 - len(HEAP) :]


def check_heaps(file: BinaryIO, places: Sequence[int], where: str) -> None:
    """Refuse heaps with an entry of no length; other faults HDF5 finds by itself."""
    for place in places:
        file.seek(place + len(HEAP))
        length = int.from_bytes(file.read(8), "little")
        heap = file.read(min(length, LARGEST_HEAP) - HEAP_HEADER) if length > HEAP_HEADER else b""
        if any(step == 0 for step in steps_through(heap)):
            raise DataError(where, f"damaged HDF5 file (a heap at byte {place})", "make, copy or download it again")


def steps_through(heap: bytes) -> Iterator[int]:
    """How far it is from each entry to the next, as HDF5 reckons."""
    place = 0
    while place + ENTRY.size <= len(heap):
        index, _, _, length = ENTRY.unpack_from(heap, place)
        step = (ENTRY.size + (length + 7) // 8 * 8) % 2**64 if index else length
        yield step
        if step == 0:
            return
        place += step
