"""Changes below a checksum: what is packed is unpacked, changed and packed again."""

from __future__ import annotations

import gzip
import io
import struct
import zipfile
import zlib
from functools import cache

import numpy as np

from .arrays import mutate_npy, pickled
from .commands import Rng, one_of
from .mutations import INTEGERS, mutate_bytes
from .text import mutate_text

BOMB_BYTES = 1 << 27
PACKINGS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA)


def mutate_gzip(rng: Rng, data: bytes, other: bytes) -> tuple[bytes, str]:
    """The text inside changed, or zeros without end in its place, or a second member behind it."""
    draw = rng.random()
    if draw < 0.05:
        return bomb(), "gzip: bomb"
    text = gzip.decompress(data)
    if draw < 0.1:
        return data + gzip.compress(text, mtime=0), "gzip: two members"
    changed, name = mutate_text(rng, text, other)
    return gzip.compress(changed, mtime=0), f"gzip: {name}"


@cache
def bomb() -> bytes:
    return gzip.compress(b"0" * BOMB_BYTES, mtime=0)


# .npz


def mutate_npz(rng: Rng, data: bytes, other: bytes) -> tuple[bytes, str]:
    """A member changed, lost, renamed, twice there, made of objects, or packed in another way."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        members = [(name, archive.read(name)) for name in archive.namelist()]
    position = int(rng.integers(len(members)))
    name, member = members[position]
    what = one_of(
        rng,
        ("member", "member", "header", "header", "drop", "rename", "twice", "pickle", "swap", "bomb", "junk", "flags"),
    )
    if what == "member":
        members[position] = name, mutate_bytes(rng, member, other)[0]
    elif what == "header":
        members[position] = name, mutate_npy(rng, member, other)[0]
    elif what == "drop":
        del members[position]
    elif what == "rename":
        members[position] = (
            one_of(rng, ("", "X", ".npy", "../X.npy", "/X.npy", "é.npy", "Y.npy", "format.npy", "a\nb.npy")),
            member,
        )
    elif what == "twice":
        members.append((name, mutate_npy(rng, member, other)[0]))
    elif what == "pickle":
        members[position] = name, pickled()
    elif what == "swap":
        members[position] = name, members[position - 1][1]
    elif what == "bomb":
        members[position] = name, zeros_array()
    elif what == "junk":
        members.append((one_of(rng, ("Y.npy", "labels.npy", "zzz.npy")), b"\x93NUMPY\x01\0junk"))
    packed = packed_members(members, zipfile.ZIP_DEFLATED if what == "bomb" else one_of(rng, PACKINGS))
    return (patched_flags(rng, packed) if what == "flags" else packed), f"npz: {what}"


def packed_members(members: list[tuple[str, bytes]], method: int) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, member in members:
            about = zipfile.ZipInfo(name)
            about.compress_type = method
            if name not in archive.namelist():  # zipfile warns of names that are there already
                archive.writestr(about, member)
    return buffer.getvalue()


def patched_flags(rng: Rng, packed: bytes) -> bytes:
    """Members that claim to be encrypted, or packed by a method unknown, or larger than they are."""
    changed = bytearray(packed)
    start = packed.find(b"PK\x01\x02")
    offset, form = one_of(rng, ((8, "<H"), (10, "<H"), (20, "<I"), (24, "<I"), (28, "<H"), (42, "<I")))
    size = struct.calcsize(form)
    struct.pack_into(form, changed, start + offset, one_of(rng, INTEGERS) & ((1 << 8 * size) - 1))
    return bytes(changed)


@cache
def zeros_array() -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, np.zeros((1 << 10, 1 << 12)))
    return buffer.getvalue()


# .mat before version 7.3


def mutate_mat(rng: Rng, data: bytes, other: bytes) -> tuple[bytes, str]:
    """Inside a compressed variable if there is one, else numbers where the format has tags and sizes."""
    packed = [start for start in element_starts(data) if data[start : start + 4] == struct.pack("<I", 15)]
    if not packed:
        return overwritten_tags(rng, data), "mat: tags"
    start = one_of(rng, packed)
    (length,) = struct.unpack_from("<I", data, start + 4)
    inner = zlib.decompress(data[start + 8 : start + 8 + length])
    changed = overwritten_tags(rng, inner) if rng.random() < 0.6 else mutate_bytes(rng, inner, other)[0]
    again = zlib.compress(changed)
    return data[:start] + struct.pack("<II", 15, len(again)) + again + data[start + 8 + length :], "mat: packed"


def element_starts(data: bytes) -> list[int]:
    starts, start = [], 128
    while start + 8 <= len(data):
        starts.append(start)
        kind, length = struct.unpack_from("<II", data, start)
        start += 8 + length + (0 if kind == 15 else -length % 8)
    return starts


def overwritten_tags(rng: Rng, data: bytes) -> bytes:
    changed = bytearray(data)
    words = len(data) // 4
    for _ in range(int(rng.integers(1, 4)) if words else 0):
        value = int(rng.integers(20)) if rng.random() < 0.5 else one_of(rng, INTEGERS) & 0xFFFFFFFF
        struct.pack_into("<I", changed, 4 * int(rng.integers(words)), value)
    return bytes(changed)


# .png


def mutate_png(rng: Rng, data: bytes, other: bytes) -> tuple[bytes, str]:
    """Chunks changed, and their checksums made right again; pixels unpacked first."""
    chunks = png_chunks(data)
    position = int(rng.integers(len(chunks)))
    kind, body = chunks[position]
    what = one_of(rng, ("chunk", "size", "pixels", "drop", "twice"))
    if what == "chunk":
        chunks[position] = kind, mutate_bytes(rng, body, other)[0]
    elif what == "size":
        size = struct.pack(">II", *(one_of(rng, (0, 1, 9999, 65536, 0x7FFFFFFF, 0xFFFFFFFF)) for _ in range(2)))
        chunks[0] = b"IHDR", size + chunks[0][1][8:]
    elif what == "pixels":
        chunks = [
            (kind, zlib.compress(mutate_bytes(rng, zlib.decompress(body), other)[0]) if kind == b"IDAT" else body)
            for kind, body in chunks
        ]
    elif what == "drop":
        del chunks[position]
    else:
        chunks.insert(position, chunks[position])
    return data[:8] + b"".join(map(png_chunk, chunks)), f"png: {what}"


def png_chunks(data: bytes) -> list[tuple[bytes, bytes]]:
    chunks, start = [], 8
    while start < len(data):
        (length,) = struct.unpack_from(">I", data, start)
        chunks.append((data[start + 4 : start + 8], data[start + 8 : start + 8 + length]))
        start += 12 + length
    return chunks


def png_chunk(chunk: tuple[bytes, bytes]) -> bytes:
    kind, body = chunk
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
