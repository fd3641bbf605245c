"""What is done to files, by format: to their bytes, to what is packed in them, and to their structure."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import TypeAlias

from .commands import Rng, one_of

Mutate: TypeAlias = Callable[[Rng, bytes, bytes], tuple[bytes, str]]  # with another file to splice with

INTEGERS = (
    0,
    1,
    2,
    0x7F,
    0x80,
    0xFF,
    0x7FFF,
    0xFFFF,
    0x7FFFFFFF,
    0x80000000,
    0xFFFFFFFF,
    1 << 62,
    (1 << 63) - 1,
    1 << 63,
    (1 << 64) - 1,
)
FLOATS = (float("nan"), float("inf"), -1.0, -0.0, 1e300, 1e-300, 5e-324, 1e-12)


def mutations_of(suffix: str) -> Sequence[Mutate]:
    """What can be done to files of a format; the first of them to any."""
    from .archives import mutate_gzip, mutate_mat, mutate_npz, mutate_png
    from .arrays import mutate_npy
    from .hdf5 import mutate_hdf5
    from .text import mutate_text

    by_format: dict[str, tuple[Mutate, ...]] = {
        **dict.fromkeys(("h5", "hdf5", "h5ad"), (mutate_hdf5,) * 4),
        "mat": (mutate_mat, mutate_hdf5),
        "npy": (mutate_npy,),
        "npz": (mutate_npz, mutate_npz),
        "png": (mutate_png,),
        **dict.fromkeys(("csv", "tsv", "mtx", "txt", "jsonl", "ppm", "h5.part"), (mutate_text, mutate_text)),
        **dict.fromkeys(("csv.gz", "tsv.gz", "mtx.gz"), (mutate_gzip, mutate_gzip)),
    }
    return (mutate_bytes, *by_format.get(suffix, ()))


def mutate_bytes(rng: Rng, data: bytes, other: bytes) -> tuple[bytes, str]:
    """One to four changes to bytes anywhere."""
    name = ""
    for _ in range(int(rng.integers(1, 5))):
        change = one_of(rng, BYTE_CHANGES)
        data = change(rng, data, other)
        name = change.__name__
    return data, f"bytes: {name}"


def place(rng: Rng, data: bytes, width: int = 1) -> int:
    return int(rng.integers(max(1, len(data) - width + 1)))


def flip(rng: Rng, data: bytes, _: bytes) -> bytes:
    changed = bytearray(data)
    for _ in range(int(rng.integers(1, 9)) if data else 0):
        changed[place(rng, data)] ^= 1 << int(rng.integers(8))
    return bytes(changed)


def overwrite(rng: Rng, data: bytes, _: bytes) -> bytes:
    """A number with a meaning to many parsers, in some width and order, often where numbers stand."""
    form = one_of(rng, "BHIQ")
    order = one_of(rng, "<>")
    size = struct.calcsize(form)
    value = struct.pack(f"{order}{form}", one_of(rng, INTEGERS) & ((1 << 8 * size) - 1))
    if rng.random() < 0.2:
        value = struct.pack(f"{order}d", one_of(rng, FLOATS))
    start = place(rng, data, len(value))
    if rng.random() < 0.7:
        start -= start % len(value)
    return data[:start] + value + data[start + len(value) :]


def delete(rng: Rng, data: bytes, _: bytes) -> bytes:
    start = place(rng, data)
    return data[:start] + data[start + run_length(rng) :]


def duplicate(rng: Rng, data: bytes, _: bytes) -> bytes:
    start = place(rng, data)
    length = run_length(rng)
    return data[:start] + data[start : start + length] * int(rng.integers(2, 5)) + data[start + length :]


def truncate(rng: Rng, data: bytes, _: bytes) -> bytes:
    return data[: place(rng, data)]


def splice(rng: Rng, data: bytes, other: bytes) -> bytes:
    return data[: place(rng, data)] + other[place(rng, other) :]


def transplant(rng: Rng, data: bytes, other: bytes) -> bytes:
    start, source, length = place(rng, data), place(rng, other), run_length(rng)
    return data[:start] + other[source : source + length] + data[start + length :]


def zero(rng: Rng, data: bytes, _: bytes) -> bytes:
    start = place(rng, data)
    length = min(run_length(rng), len(data) - start)
    return data[:start] + one_of(rng, (b"\0", b"\xff")) * length + data[start + length :]


def run_length(rng: Rng) -> int:
    return int(2 ** rng.uniform(0, 9))


BYTE_CHANGES = (flip, flip, overwrite, overwrite, overwrite, delete, duplicate, truncate, splice, transplant, zero)
