"""HDF5 files with other values, types, shapes and ways of storing than they should have."""

from __future__ import annotations

import zlib
from functools import cache
from typing import Any

import h5py
import numpy as np

from .commands import Rng, one_of
from .mutations import mutate_bytes
from .nodes import any_name, replace

UNKNOWN_FILTER = 32_123

VALUES = (np.nan, np.inf, -np.inf, -1.0, -0.0, 0.0, 1e300, 1e101, 1e-300, 1e-101, 5e-324, 1e30, 1.5, 2.0**53)
WHOLES = (-1, -(2**31), 2**31 - 1, 2**31, -(2**63), 2**63 - 1, 0, 1, 7, 8, 12, 1000)
SHAPES: tuple[tuple[int, ...], ...] = (
    *((), (0,), (1,), (12,), (0, 8), (12, 0), (1, 1), (8, 12), (13, 8), (12, 9), (12, 8, 1), (2,) * 6, (1,) * 32),
)
TYPES: tuple[Any, ...] = (
    *("f2", ">f4", "g", "i1", ">i8", "u8", "?", "c8", "c16", "S3", "V7", "f4"),
    *(h5py.string_dtype(), h5py.string_dtype("ascii", 4), h5py.vlen_dtype("f8"), h5py.ref_dtype, h5py.regionref_dtype),
    *(h5py.enum_dtype({"a": 0, "b": 1}), np.dtype([("a", "f8"), ("b", "i4")]), np.dtype(("f8", (2, 2)))),
    *(np.dtype([("r", "f8"), ("i", "f8")]), h5py.opaque_dtype(np.dtype("M8[s]")), h5py.vlen_dtype(h5py.string_dtype())),
)


# Values


def change_values(rng: Rng, file: h5py.File) -> None:
    """One number, a row, or all of them."""
    dataset = file[any_name(rng, file)]
    pool = WHOLES if dataset.dtype.kind in "iu" else VALUES
    values = np.array(dataset[()])
    flat = values.reshape(-1)
    start = int(rng.integers(max(1, flat.size)))
    chosen = one_of(rng, (slice(start, start + 1), slice(start, start + 8), slice(None)))
    if values.dtype.kind in "iu":
        limits = np.iinfo(values.dtype)
        flat[chosen] = min(max(one_of(rng, pool), limits.min), limits.max)
    elif values.dtype.kind == "f":
        with np.errstate(over="ignore"):
            flat[chosen] = one_of(rng, pool)
    else:
        flat[chosen] = one_of(rng, (b"", b"\xff\xfe", b"x" * 100_000, b"a\nb", b"\0", b"7", b"mccgr", "é".encode()))
    dataset[...] = values


def scale_values(rng: Rng, file: h5py.File) -> None:
    dataset = file[any_name(rng, file)]
    with np.errstate(all="ignore"):
        dataset[...] = dataset[()] * one_of(rng, (-1, 0, 1e-320, 1e-200, 1e-90, 1e90, 1e150, 1e300))


def shuffle_values(rng: Rng, file: h5py.File) -> None:
    """Unsorted indices, and starts of rows that go back."""
    dataset = file[any_name(rng, file)]
    dataset[...] = rng.permutation(dataset[()])


# Types and shapes


def retype(rng: Rng, file: h5py.File) -> None:
    name = any_name(rng, file)
    old = np.asarray(file[name][()])
    dtype = one_of(rng, TYPES)
    plain = np.dtype(dtype)
    if plain.kind in "fiubc" and plain.fields is None and old.dtype.kind in "fiub" and not h5py.check_dtype(enum=plain):
        with np.errstate(all="ignore"):
            replace(file, name, old.astype(plain))
        return
    attributes = dict(file[name].attrs)
    del file[name]
    new = file.create_dataset(name, old.shape, dtype)
    new.attrs.update(attributes)


def reshape(rng: Rng, file: h5py.File) -> None:
    """Another shape, with numbers or text of the same type."""
    name = any_name(rng, file)
    old = file[name]
    if old.ndim and rng.random() < 0.5:
        axis = int(rng.integers(old.ndim))
        shape = tuple(length + (int(rng.integers(-2, 3)) if i == axis else 0) for i, length in enumerate(old.shape))
    else:
        shape = one_of(rng, SHAPES)
    dtype, first = old.dtype, np.asarray(old[()]).ravel()[:1]
    replace(file, name, np.full(shape, first[0] if len(first) else 0, dtype))


def declare_huge(rng: Rng, file: h5py.File) -> None:
    """A shape without end, and nothing stored."""
    name = any_name(rng, file)
    dtype, ndim = file[name].dtype, file[name].ndim
    del file[name]
    lengths = one_of(rng, ((10**15, 8), (12, 10**15), (10**9, 8), (10**6, 10**6), (2**62, 8), (25_000, 25_000)))
    shape = lengths if ndim == 2 else lengths[:1] if lengths[0] > 12 else lengths[1:]
    chunks = tuple(min(length, one_of(rng, (8, 1024, 2**14))) for length in shape)
    file.create_dataset(name, shape, dtype, chunks=chunks, compression=one_of(rng, (None, "gzip")))


def huge_chunks(rng: Rng, file: h5py.File) -> None:
    """A small shape in chunks that are hardly smaller than HDF5 allows, one of them a bomb."""
    name = any_name(rng, file)
    old = file[name]
    shape, dtype = old.shape, old.dtype
    del file[name]
    chunks = (one_of(rng, (2**20, 2**24, 2**28)), *shape[1:])[: len(shape)]
    new = file.create_dataset(name, shape, dtype, chunks=chunks, maxshape=(None,) * len(shape), compression="gzip")
    if rng.random() < 0.5:
        new.id.write_direct_chunk((0,) * len(shape), zeros_packed())


@cache
def zeros_packed() -> bytes:
    return zlib.compress(bytes(1 << 26), 1)


def damage_chunk(rng: Rng, file: h5py.File) -> None:
    """A compressed chunk that does not unpack, or to too little."""
    name = any_name(rng, file)
    values = np.asarray(file[name][()])
    attributes = dict(file[name].attrs)
    del file[name]
    new = file.create_dataset(name, data=values, chunks=values.shape, compression="gzip", shuffle=True)
    new.attrs.update(attributes)
    packed = zlib.compress(values.tobytes()[: int(rng.integers(values.nbytes + 1))])
    new.id.write_direct_chunk((0,) * values.ndim, one_of(rng, (packed, mutate_bytes(rng, packed, packed)[0], b"")))


def unknown_filter(rng: Rng, file: h5py.File) -> None:
    name = any_name(rng, file)
    values = np.asarray(file[name][()])
    kind = file[name].id.get_type()
    del file[name]
    plan = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    plan.set_chunk(values.shape)
    plan.set_filter(UNKNOWN_FILTER, h5py.h5z.FLAG_OPTIONAL, (1, 2))
    made = h5py.h5d.create(file.id, name.encode(), kind, h5py.h5s.create_simple(values.shape), plan)
    made.write_direct_chunk((0,) * values.ndim, values.tobytes())


def empty(rng: Rng, file: h5py.File) -> None:
    """No dataspace at all, or a single value."""
    name = any_name(rng, file)
    replace(file, name, one_of(rng, (h5py.Empty(file[name].dtype), h5py.Empty("f8"), 5.0, "text", 3)))
