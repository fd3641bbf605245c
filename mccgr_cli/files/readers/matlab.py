"""MATLAB files before version 7.3 (later ones are HDF5): numbers, sparse matrices, text, and cells of these.

Version 5 is read by hand, as scipy.io.loadmat crashes the process on some damaged files (see docs/DEPENDENCIES.md).
scipy reads version 4, which is simple.
"""

from __future__ import annotations

import mmap
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from mccgr_cli.blocks.protocol import Array
from mccgr_cli.errors import DataError, UnusableValues
from mccgr_cli.files.hdf5 import compressed_matrix
from mccgr_cli.files.readers.arrays import ListedVariables, parsing
from mccgr_cli.system.memory import require_memory

Bytes: TypeAlias = "memoryview[int]"


class Part(NamedTuple):
    """An element of a file or of a variable: its type, its bytes, and where it ends."""

    kind: int
    content: Bytes
    end: int = 0


NOTHING = Part(0, memoryview(b""))

HEADER = 128  # bytes; the last two give the byte order
ORDERS = {b"IM": "<", b"MI": ">"}
# Types of parts: numbers, text, and parts that hold other parts.
NUMBERS = {1: "i1", 2: "u1", 3: "i2", 4: "u2", 5: "i4", 6: "u4", 7: "f4", 9: "f8", 12: "i8", 13: "u8"}
LETTERS = {1: "latin-1", 2: "latin-1", 4: "utf-16-{}", 16: "utf-8", 17: "utf-16-{}", 18: "utf-32-{}"}
MATRIX, COMPRESSED = 14, 15
# Classes of variables.
CELL, CHARACTERS, SPARSE = 1, 4, 5
NUMERIC = {6: "f8", 7: "f4", 8: "i1", 9: "u1", 10: "i2", 11: "u2", 12: "i4", 13: "u4", 14: "i8", 15: "u8"}
COMPLEX, LOGICAL = 0x800, 0x200  # among the flags
LAST_WITH_SIZE = 16  # later classes are understood only by MATLAB
LISTED = 4096  # bytes of a compressed variable that are unpacked to learn its name and size
PIECE = 1 << 20  # bytes unpacked at a time


def mat_variables(path: Path, where: str) -> ListedVariables:
    with parsing(".mat", where):
        with path.open("rb") as file:
            content = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
        order = ORDERS.get(bytes(content[HEADER - 2 : HEADER]))
        if order is None:
            return version_4(path, where)
        found = [(head_of(part, order, where, LISTED), part) for part in parts(content[HEADER:], order)]
    numeric = (SPARSE, *NUMERIC)
    shapes = {head.name: head.lengths if head.kind in numeric else None for head, _ in found if head.name}
    by_name = {head.name: part for head, part in found}
    return ListedVariables(where, ".mat", shapes, lambda name: value_of(head_of(by_name[name], order, where)))


def version_4(path: Path, where: str) -> ListedVariables:
    from scipy.io import loadmat, whosmat

    def read(name: str) -> Any:
        return loadmat(str(path), appendmat=False, variable_names=[name])[name]

    numeric = ("double", "single", "int32", "int16", "uint16", "uint8", "sparse")
    listed = whosmat(str(path), appendmat=False)
    shapes = {name: tuple(shape) if kind in numeric else None for name, shape, kind in listed}
    return ListedVariables(where, ".mat", shapes, read)


@dataclass(frozen=True)
class Head:
    """The header of a variable, and the bytes that its values are in."""

    kind: int
    flags: int
    lengths: tuple[int, ...]
    name: str
    rest: Bytes
    order: str
    where: str  # for messages


def unpacked(part: Bytes, most: int | None, where: str) -> Bytes:
    """The bytes of a compressed part, at least ``most`` of them if there are as many (None: all)."""
    packer, found = zlib.decompressobj(), bytearray()
    pending: Any = part
    while pending and not packer.eof and (most is None or len(found) < most):
        found += packer.decompress(pending, most or PIECE)
        if most is None:
            require_memory(len(found), where)  # the numbers will take the same again
        pending = packer.unconsumed_tail
    return memoryview(found)


def parts(content: Bytes, order: str) -> Iterator[Part]:
    """The parts that follow each other; the last may be cut short."""
    place = 0
    while place + 8 <= len(content):
        kind, length = struct.unpack_from(f"{order}II", content, place)
        if kind >> 16:  # a short one: its bytes are in the tag
            kind, length, begin, place = kind & 0xFFFF, min(4, kind >> 16), place + 4, place + 8
        else:
            begin = place + 8
            place = begin + (length if kind == COMPRESSED else -(-length // 8) * 8)
        yield Part(kind, content[begin : begin + length], place)


def head_of(part: Part, order: str, where: str, most: int | None = None) -> Head:
    """The header of a variable. Of a compressed one, only the first ``most`` bytes are unpacked (None: all)."""
    if part.kind == COMPRESSED:
        part = next(parts(unpacked(part.content, most, where), order), NOTHING)
    if part.kind != MATRIX:
        raise ValueError(f"a part of type {part.kind} where a variable should be")
    found = parts(part.content, order)
    flags = [*integers(found, order), 0][0]
    kind = flags & 0xFF
    lengths = tuple(integers(found, order)) if kind <= LAST_WITH_SIZE else (0, 0)
    name = next(found, NOTHING)
    if len(lengths) < 2 or min(lengths) < 0:
        raise ValueError("a variable without a size")
    called, rest = bytes(name.content).decode("latin-1"), part.content[name.end :]
    return Head(kind, flags, lengths, called, rest, order, where)


def integers(found: Iterator[Part], order: str) -> list[int]:
    part = next(found, NOTHING)
    if part.kind not in (5, 6):
        raise ValueError(f"a part of type {part.kind} where whole numbers should be")
    return [int(value) for value in numbers(part, order)]


def numbers(part: Part, order: str) -> Array:
    if part.kind not in NUMBERS:
        raise ValueError(f"a part of type {part.kind} where numbers should be")
    dtype = np.dtype(order + NUMBERS[part.kind])
    return np.frombuffer(part.content[: len(part.content) - len(part.content) % dtype.itemsize], dtype=dtype)


def value_of(head: Head, depth: int = 0) -> Any:
    """The value of a variable; cells are an array of objects."""
    found = parts(head.rest, head.order)
    if head.flags & COMPLEX:
        raise DataError(head.where, f"{head.name} holds complex numbers", "NMF needs real numbers")
    if head.kind in NUMERIC:
        return shaped(numbers(next(found, NOTHING), head.order).astype(NUMERIC[head.kind]), head)
    if head.kind == SPARSE:
        return sparse_of(head, found)
    if head.kind == CHARACTERS:
        return text_of(head, next(found, NOTHING))
    if head.kind == CELL and depth == 0:
        inner = [value_of(head_of(part, head.order, head.where), depth + 1) for part in found]
        cells = np.empty(len(inner), dtype=object)
        for i, value in enumerate(inner):
            cells[i] = value
        return shaped(cells, head)
    what = f"{head.name or 'a cell'} holds neither numbers nor text"
    raise UnusableValues(head.where, what, "store the matrix as numbers, and labels as numbers or text")


def shaped(values: Array, head: Head) -> Array:
    if len(values) != prod(head.lengths):
        raise ValueError(f"{len(values)} values instead of {prod(head.lengths)}")
    return values.reshape(head.lengths, order="F")


def sparse_of(head: Head, found: Iterator[Part]) -> Any:
    """A CSC matrix: the rows of the values, the starts of the columns, the values. There may be unused space."""
    rows, starts = (numbers(next(found, NOTHING), head.order) for _ in range(2))
    stored = next(found, NOTHING)
    # MATLAB declares logical values as double precision, but stores one byte each.
    values = numbers(stored._replace(kind=2) if head.flags & LOGICAL else stored, head.order)
    used = int(starts[-1]) if len(starts) else 0
    if len(head.lengths) != 2 or not 0 <= used <= min(len(rows), len(values)):
        raise ValueError("a sparse matrix whose parts do not fit")
    native = {"data": values[:used], "indices": rows[:used].astype(np.int64), "indptr": starts.astype(np.int64)}
    return compressed_matrix(native, (head.lengths[0], head.lengths[1]), True, head.where)


def text_of(head: Head, part: Part) -> Array:
    """The rows of a character matrix, which is stored by column, each as one text."""
    if part.kind not in LETTERS:
        raise ValueError(f"a part of type {part.kind} where text should be")
    codec = LETTERS[part.kind].format("le" if head.order == "<" else "be")
    letters = bytes(part.content).decode(codec, errors="replace")
    if len(head.lengths) != 2 or len(letters) != prod(head.lengths) or head.lengths[0] > max(1, len(letters)):
        raise ValueError(f"{len(letters)} characters instead of {prod(head.lengths)}")
    return np.array([letters[row :: head.lengths[0]] for row in range(head.lengths[0])], dtype=str)
