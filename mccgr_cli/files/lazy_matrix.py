"""The matrix X of a file, before it is decided whether X is read into memory.

Rows of an HDF5 file stay there until they are read (:class:`StoredMatrix`). A matrix of any other origin is in memory
already (:class:`MatrixInMemory`). Both have ``shape``, ``dtype``, ``size``, ``nnz`` (None: dense), and

* ``in_file``: whether a few rows at a time can be read from a file,
* ``prepared_as(how, dtype, idf)``: the matrix with normalized rows in another precision, which replaces this one,
* ``load()``: the whole matrix in memory,
* ``stream()``: what blocks are made of without loading: rows in a file stay there.

The last two check the values. :func:`mccgr_cli.workflow.placement.place` chooses one of them.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeAlias

import h5py
import numpy as np
from scipy import sparse

from mccgr_cli.blocks.from_file import FileBlocks
from mccgr_cli.blocks.in_memory import size_of
from mccgr_cli.blocks.protocol import Array, Matrix, Size, chunks
from mccgr_cli.blocks.rows import idf_for, normalize
from mccgr_cli.errors import DataError
from mccgr_cli.files import hdf5
from mccgr_cli.files.values import SAFE, as_float, check_scale, check_values, extremes, float_type
from mccgr_cli.settings import TFIDF
from mccgr_cli.system.memory import format_bytes, require_memory
from mccgr_cli.system.phases import advance, phase

LOAD_BYTES = 64 << 20  # read at a time
READING = "reading the matrix"
MOST_PACKED = 256 << 20  # bytes that are unpacked together; beyond that a few rows take as much memory as all
MOST_UNPACKED, FREE_BYTES = 1_000_000, 1000  # a matrix is at most this many times what its file holds and this
CHUNK_SLOTS = 10_007  # where HDF5 looks up unpacked chunks: many more than chunks, so that few share one

ReadRows: TypeAlias = Callable[[slice, Array | None], Matrix]


@dataclass(frozen=True)
class MatrixInMemory:
    """A matrix that had to be read at once, with checked values: not HDF5, from a pipe, or stored by column."""

    X: Matrix
    where: str  # for messages
    in_file = False

    @property
    def shape(self) -> tuple[int, int]:
        return self.size.samples, self.size.features

    @property
    def dtype(self) -> np.dtype[Any]:
        dtype: np.dtype[Any] = self.X.dtype
        return dtype

    @property
    def size(self) -> Size:
        return size_of(self.X)

    @property
    def nnz(self) -> int | None:
        return self.size.values

    def prepared_as(self, how: str, dtype: str | None = None, idf: Array | None = None) -> MatrixInMemory:
        """Changed in place where possible: two copies may not fit."""
        X = self.X
        if dtype is not None and X.dtype != dtype:
            check_scale(float(X.max()), np.dtype(dtype), self.where)
            X = X.astype(dtype)
        return MatrixInMemory(normalize(X, how, idf), self.where)

    def load(self) -> Matrix:
        return self.X

    stream = load


@dataclass(frozen=True)
class StoredMatrix:
    """Rows of a matrix in an HDF5 file. It can be pickled: other processes that see the file can read it too."""

    path: str
    name: str  # in the file
    where: str  # for messages
    first: int  # row of the matrix in the file
    size: Size
    stored: np.dtype[Any]
    unit: int  # rows that the file keeps together
    packed: int  # bytes that must be unpacked together, if it is compressed
    held: int  # bytes that the file has of it
    stamp: tuple[int, int]  # the length of the file and when it was changed
    dtype: np.dtype[Any]  # of the rows that are handed out
    how: str = "none"  # they are normalized
    idf: Array | None = field(default=None, compare=False)  # for the normalization tfidf
    checked: bool = False  # whether NMF can factorize the values
    instead: str = ""  # what to use if values are negative
    in_file = True

    @property
    def shape(self) -> tuple[int, int]:
        return self.size.samples, self.size.features

    @property
    def nnz(self) -> int | None:
        return self.size.values

    def part(self, rows: slice) -> StoredMatrix:
        samples = rows.stop - rows.start
        values = self.size.values and self.size.values * samples // self.size.samples
        return replace(self, first=self.first + rows.start, size=replace(self.size, samples=samples, values=values))

    def prepared_as(self, how: str, dtype: str | None = None, idf: Array | None = None) -> StoredMatrix:
        chosen = self.dtype if dtype is None else np.dtype(dtype)
        plain = replace(self, how="none", dtype=chosen, size=replace(self.size, itemsize=chosen.itemsize))
        if how == TFIDF and idf is None:
            idf = idf_for(how, FileBlocks(plain))
        return replace(plain, how=how, idf=idf)

    def stream(self) -> StoredMatrix:
        """Itself, after one pass over the file that checks the values."""
        if self.checked:
            return self
        with phase(READING, "rows", self.size.samples):
            source = FileBlocks(self.prepared_as("none", float_type(self.stored).name))
            largest = check_values(source, self.where, instead=self.instead)
        check_scale(largest, self.dtype, self.where)
        return replace(self, checked=True)

    def load(self) -> Matrix:
        """All rows, in memory. Values are checked in the same reading, before rows are converted or normalized."""
        if not self.checked:
            require_memory(self.size.bytes, self.where, f"/{self.name}", self.held)
        some = chunks(self.size.samples, max(1, LOAD_BYTES * self.size.samples // max(1, self.size.bytes)))
        lows, highs = zip(*(SAFE[dtype.itemsize] for dtype in (float_type(self.stored), self.dtype)), strict=True)
        largest = [0.0]

        def prepared(raw: Matrix) -> Matrix:
            if not self.checked:
                least, most = extremes(raw)
                if not (least >= 0 and most <= min(highs)):  # also true of NaN
                    self.stream()  # names the fault and where it is
                largest.append(most)
            advance(raw.shape[0], "rows")
            return self.prepared(raw)

        with self.reading() as read, phase(READING, "rows", self.size.samples):
            if self.size.values is not None:
                pieces = (prepared(read(rows, None)) for rows in some)
                X = joined_rows(pieces, self.shape, self._values(), self.dtype)
            else:
                X = np.empty(self.shape, self.dtype)
                for rows in some:
                    X[rows] = prepared(read(rows, X[rows] if self.stored == self.dtype else None))
        if not self.checked and max(largest) < max(lows):
            self.stream()  # names the fault
        return X

    @contextmanager
    def reading(self) -> Iterator[ReadRows]:
        """A function that reads rows as they are stored: dense ones into a buffer, if it is given one."""
        if stamp_of(self.path) != self.stamp:
            raise DataError(self.where, "has changed since it was first read", "run the command again")
        # Without compression a cache of chunks would be one more copy; with it, they would be unpacked again and again.
        with hdf5.opened(Path(self.path), self.where, rdcc_nbytes=self.packed, rdcc_nslots=CHUNK_SLOTS) as file:
            node = hdf5.resolve(file, self.name, self.where)
            if isinstance(node, h5py.Dataset):
                yield self._dense_reader(node)
            elif isinstance(node, h5py.Group):
                yield self._sparse_reader(node)

    def _dense_reader(self, dataset: h5py.Dataset) -> ReadRows:
        def read(rows: slice, buffer: Array | None = None) -> Array:
            first, count = self.first + rows.start, rows.stop - rows.start
            into = np.empty((count, self.size.features), self.stored) if buffer is None else buffer[:count]
            dataset.read_direct(into, np.s_[first : first + count])
            return into

        return read

    def _sparse_reader(self, group: h5py.Group) -> ReadRows:
        parts = hdf5.sparse_parts(group, self.name, self.where)
        starts = parts["indptr"][self.first : self.first + self.size.samples + 1].astype(np.int64, copy=False)

        def read(rows: slice, _: Array | None = None) -> Matrix:
            first, last = int(starts[rows.start]), int(starts[rows.stop])
            found = {"data": parts["data"][first:last], "indices": parts["indices"][first:last]}
            found["indptr"] = starts[rows.start : rows.stop + 1] - first
            shape = rows.stop - rows.start, self.size.features
            return hdf5.compressed_matrix(found, shape, False, f"{self.where}: /{self.name}")

        return read

    def _values(self) -> int:
        """The number of stored values of these rows: ``size`` has only a guess for a part."""
        with hdf5.opened(Path(self.path), self.where) as file:
            starts = hdf5.sparse_parts(file[self.name], self.name, self.where)["indptr"]
            return int(starts[self.first + self.size.samples]) - int(starts[self.first])

    def buffer(self, rows: int) -> Array | None:
        """Room for dense rows as they are stored."""
        return None if self.size.values is not None else np.empty((rows, self.size.features), self.stored)

    def prepared(self, raw: Matrix) -> Matrix:
        """Rows to compute with, from rows as they are stored, which may be changed."""
        return normalize(as_float(raw).astype(self.dtype, copy=False), self.how, self.idf)


LazyMatrix: TypeAlias = StoredMatrix | MatrixInMemory


def joined_rows(
    pieces: Iterable[sparse.csr_array[Any]], shape: tuple[int, int], values: int, dtype: np.dtype[Any]
) -> sparse.csr_array[Any]:
    """CSR pieces below each other, with at most ``values`` values. Only one piece at a time is in memory."""
    data, indices = np.empty(values, dtype), np.empty(values, np.int32 if max(*shape, values) < 2**31 else np.int64)
    counts, filled = [np.zeros(1, np.int64)], 0
    for piece in pieces:
        here = slice(filled, filled + piece.nnz)
        data[here], indices[here] = piece.data, piece.indices
        counts.append(np.diff(piece.indptr))
        filled = here.stop
    starts = np.cumsum(np.concatenate(counts)).astype(indices.dtype)
    return sparse.csr_array((data[:filled], indices[:filled], starts), shape=shape)


def find_matrix(node: h5py.Dataset | h5py.Group, name: str, where: str) -> StoredMatrix | Matrix:
    """A matrix that stays in its file; or all of it, if a few rows cannot be read without the rest."""
    parts, shape, by_column = hdf5.matrix_layout(node, name, where)
    path = node.file.filename
    if by_column or min(shape) <= 0 or not os.path.isfile(path):  # noqa: PTH113 (data from a pipe has no path)
        return hdf5.read_matrix(node, name, where)
    values = parts["data"]
    dtype = float_type(values.dtype)
    size = Size(*shape, dtype.itemsize, None if values is node else len(values))
    held = sum(part.id.get_storage_size() for part in parts.values())
    if size.bytes > MOST_UNPACKED * (FREE_BYTES + held):
        what = f"{node.name} declares {format_bytes(size.bytes)} and holds next to nothing"
        raise DataError(where, what, "make it again")
    for part in parts.values():
        hdf5.check_chunks(part, where)
    unit = values.chunks[0] if values is node and values.chunks is not None else 1
    packed = max(unpacked_together(part) for part in parts.values())
    if packed > MOST_PACKED:
        return hdf5.read_matrix(node, name, where)
    if size.values is not None:
        fits = hdf5.starts_fit(hdf5.values_of(parts["indptr"], where), shape[0], size.values)
        if not fits or len(parts["indices"]) != size.values:
            raise hdf5.misfit(f"{where}: {node.name}")
    path, name = os.path.abspath(path), str(node.name).strip("/")  # noqa: PTH100
    stored = values.dtype.newbyteorder("=")
    return StoredMatrix(path, name, where, 0, size, stored, unit, packed, held, stamp_of(path), dtype)


def unpacked_together(dataset: h5py.Dataset) -> int:
    """Bytes of the chunks that one row, or one value of a list, shares with others; 0 if nothing is compressed."""
    if dataset.chunks is None or not dataset.id.get_create_plist().get_nfilters():
        return 0
    across = [-(-length // chunk) * chunk for length, chunk in zip(dataset.shape[1:], dataset.chunks[1:], strict=True)]
    return int(dataset.dtype.itemsize * np.prod([dataset.chunks[0], *across], dtype=float))


def stamp_of(path: str) -> tuple[int, int]:
    try:
        about = Path(path).stat()
    except OSError as fault:
        raise DataError(path, f"cannot be read: {(fault.strerror or str(fault)).lower()}") from None
    return about.st_size, about.st_mtime_ns
