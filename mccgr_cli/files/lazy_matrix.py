"""Matrices as HDF5 stores them, dense or sparse: read whole, or left in their file and read some rows at a time."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, BinaryIO, TypeAlias

import h5py
import numpy as np
from scipy import sparse

from mccgr_cli.blocks.protocol import Array, Matrix, Size, chunks
from mccgr_cli.blocks.rows import normalize
from mccgr_cli.errors import DataError
from mccgr_cli.system.memory import in_words, require

LARGEST_LENGTH = 1 << 48  # of a sparse matrix: beyond that, sizes in bytes overflow
LOAD_BYTES = 64 << 20  # read at a time
MOST_PACKED = 256 << 20  # bytes that are unpacked together; beyond that some rows take as much memory as all
MOST_UNPACKED, FREE_BYTES = 1_000_000, 1000  # times what a file holds, and this, that a matrix in it can be
CHUNK_SLOTS = 10_007  # in which HDF5 finds unpacked chunks again: many more than there are, so that few meet
TEXT_BYTES = 64  # at least, of a text in memory
CHECKSUM_BYTES = 4
MOST_HOPS = 32  # from soft link to soft link; more are a circle

Stays: TypeAlias = Callable[[Size], bool]  # whether a matrix of this size is to be left in its file
ReadRows: TypeAlias = Callable[[slice, Array | None], Matrix]


@contextmanager
def opened(source: Path | BinaryIO, where: str, **options: Any) -> Iterator[h5py.File]:
    """An open file; whatever h5py cannot make of it is said in one line."""
    try:
        with h5py.File(source, "r", **options) as file:
            yield file
    except BlockingIOError:
        raise DataError(where, "another program is writing it", "wait until that is done") from None
    except (OSError, KeyError, RuntimeError, ValueError, TypeError, OverflowError) as fault:
        what = f"damaged or truncated HDF5 file ({' '.join(str(fault).split())})"
        raise DataError(where, what, "make, copy or download it again") from fault


def resolve(group: h5py.Group, path: str, where: str, hops: int = MOST_HOPS) -> h5py.Dataset | h5py.Group | None:
    """The object at ``path``, or None. Links that lead out of the file are refused, not followed."""
    node: Any = group
    for part in path.strip("/").split("/"):
        link = node.get(part, getlink=True) if isinstance(node, h5py.Group) else None
        if link is None:
            return None
        if isinstance(link, h5py.ExternalLink):
            raise DataError(where, f"/{path.strip('/')} is a link to another file", "copy the data into this one")
        if isinstance(link, h5py.SoftLink):  # followed by hand: its path may cross a link out of the file
            start = node.file if link.path.startswith("/") else node
            node = resolve(start, link.path, where, hops - 1) if hops else None
        else:
            node = node[part]
    if isinstance(node, h5py.Dataset) and (node.is_virtual or node.external):
        raise DataError(where, f"/{path.strip('/')} keeps its values in another file", "copy the data into this one")
    return node


def check_dtype(node: h5py.Dataset, name: str, expected: str, where: str) -> None:
    kinds = "iu" if expected == "whole" else "fiub"
    if node.dtype.kind not in kinds:
        raise DataError(where, f"/{name} holds {node.dtype} where {expected} numbers belong", "convert it")


def check_filters(node: h5py.Dataset | h5py.Group, name: str, where: str) -> None:
    """A compression that is not installed is not a damaged file."""
    stored = resolve(node, "data", where) if isinstance(node, h5py.Group) else node
    if not isinstance(stored, h5py.Dataset):
        return
    plan = stored.id.get_create_plist()
    for code, _, _, title in (plan.get_filter(i) for i in range(plan.get_nfilters())):
        if not h5py.h5z.filter_avail(code):
            what = f"/{name} is compressed by {title.decode(errors='replace') or code}, which HDF5 lacks here"
            raise DataError(where, what, "repack it: h5repack -f GZIP=4 FILE NEWFILE")


def values_of(dataset: h5py.Dataset, where: str) -> Any:
    """All of a dataset, if there is memory for what it declares, and for what must be unpacked together."""
    if dataset.shape is None:
        raise DataError(where, f"{dataset.name} has no values", "the file is damaged")
    text = h5py.check_string_dtype(dataset.dtype) is not None
    each = dataset.dtype.itemsize + (TEXT_BYTES if text else 0)
    check_chunks(dataset, where)
    amount = max(each * math.prod(dataset.shape), chunk_bytes(dataset))
    require(amount, where, str(dataset.name), dataset.id.get_storage_size())
    return dataset.asstr(errors="replace")[()] if text else dataset[()]


def check_chunks(dataset: h5py.Dataset, where: str) -> None:
    """Refuse chunks too short for the checksum at their end: HDF5 would look for it before their beginning."""
    if not dataset.fletcher32 or dataset.chunks is None:
        return
    sizes: list[int] = []
    dataset.id.chunk_iter(lambda chunk: sizes.append(chunk.size))
    if min(sizes, default=CHECKSUM_BYTES) < CHECKSUM_BYTES:
        raise DataError(where, f"{dataset.name} is damaged or truncated", "make, copy or download it again")


def chunk_bytes(dataset: h5py.Dataset) -> int:
    return int(dataset.dtype.itemsize * math.prod(dataset.chunks or ()))


def as_float(values: Matrix) -> Matrix:
    """Reals of any type as native float32 (only what is stored so) or float64."""
    with np.errstate(over="ignore"):  # a long double may become infinite, which is found later
        return values.astype(float_type(values.dtype), copy=False)


def float_type(stored: np.dtype[Any]) -> np.dtype[Any]:
    return np.dtype(np.float32 if stored.kind == "f" and stored.itemsize == 4 else np.float64)


# Whole


def read_matrix(node: h5py.Dataset | h5py.Group, name: str, where: str, stays: Stays | None = None) -> Any:
    """A dense dataset, or a CSR or CSC group of data, indices and indptr; or where it is, if it ``stays`` there."""
    if isinstance(node, h5py.Dataset):
        if node.ndim != 2:
            raise DataError(where, f"/{name} has the shape {node.shape}", "a matrix has two dimensions")
        check_dtype(node, name, "real", where)
        shape = int(node.shape[0]), int(node.shape[1])
        left = left_in_file(node, {"data": node}, shape, where, stays)
        return np.asarray(values_of(node, where)) if left is None else left
    parts = sparse_parts(node, name, where)
    lengths = np.asarray(node.attrs.get("shape", node.attrs.get("h5sparse_shape", ())))
    if lengths.shape != (2,) or lengths.dtype.kind not in "iu" or lengths.max() > LARGEST_LENGTH:
        raise DataError(where, f"/{name} does not state its shape", "write it as the attribute 'shape'")
    shape = int(lengths[0]), int(lengths[1])
    by_column = "csc" in str(node.attrs.get("encoding-type", node.attrs.get("h5sparse_format", "csr")))
    left = None if by_column else left_in_file(node, parts, shape, where, stays)
    if left is not None:
        return left
    found = {part: values_of(parts[part], where) for part in parts}
    return compressed_matrix(found, shape, by_column, f"{where}: /{name}")


def sparse_parts(group: h5py.Group, name: str, where: str) -> dict[str, h5py.Dataset]:
    parts = {}
    for part in ("data", "indices", "indptr"):
        dataset = resolve(group, part, where)
        if not isinstance(dataset, h5py.Dataset) or dataset.ndim != 1:
            raise DataError(
                where,
                f"/{name} is a group but not a sparse matrix (no {part})",
                "name a dataset with FILE::/dataset",
            )
        check_dtype(dataset, f"{name}/{part}", "real" if part == "data" else "whole", where)
        parts[part] = dataset
    return parts


def compressed_matrix(
    parts: Mapping[str, Array], shape: tuple[int, int], by_column: bool, where: str
) -> sparse.csr_array[Any]:
    """A checked CSR matrix out of the three arrays of a CSR or CSC one."""
    data, indices, indptr = parts["data"], parts["indices"], parts["indptr"]
    if data.dtype.kind not in "fiub":
        what = "complex numbers" if data.dtype.kind == "c" else f"{data.dtype} values"
        raise DataError(where, f"holds {what}", "NMF needs real numbers")
    lines, width = (shape[1], shape[0]) if by_column else shape
    fits = width >= 0 and starts_fit(indptr, lines, len(data)) and len(indices) == len(data)
    if not fits or (len(indices) > 0 and (indices.min() < 0 or indices.max() >= width)):
        raise misfit(where)
    require(8.0 * shape[0], where)  # where the rows begin
    make = sparse.csc_array if by_column else sparse.csr_array
    # as floats: duplicates are summed below, and small integers would overflow
    matrix = make((as_float(data), indices, indptr), shape=shape).tocsr()
    matrix.sum_duplicates()  # and sorts the indices
    return matrix


def starts_fit(indptr: Array, lines: int, values: int) -> bool:
    """Whether these can be where the lines of a sparse matrix begin among its values."""
    ends = len(indptr) == lines + 1 and indptr[0] == 0 and indptr[-1] == values
    return bool(ends and not np.any(indptr[1:] < indptr[:-1]))


def misfit(where: str) -> DataError:
    return DataError(where, "its indices do not fit its shape", "the file is damaged")


# Left in its file


@dataclass(frozen=True)
class StoredMatrix:
    """Rows of a matrix that stays in its file. Other processes that see the same file can read it too."""

    path: str
    name: str  # in the file
    where: str  # for messages
    first: int  # row of the matrix in the file
    size: Size
    stored: np.dtype[Any]
    unit: int  # rows that the file keeps together
    packed: int  # bytes that must be unpacked together, if it is compressed
    stamp: tuple[int, int]  # the length of the file and when it was changed
    dtype: np.dtype[Any]  # of the rows that are handed out
    how: str = "none"  # they are normalized
    largest: float = 0.0  # of the values in the file, once they are checked

    @property
    def shape(self) -> tuple[int, int]:
        return self.size.samples, self.size.features

    @property
    def nnz(self) -> int | None:
        """Stored values, if it is sparse."""
        return self.size.values

    def part(self, rows: slice) -> StoredMatrix:
        samples = rows.stop - rows.start
        values = self.size.values and self.size.values * samples // self.size.samples
        return replace(self, first=self.first + rows.start, size=replace(self.size, samples=samples, values=values))

    def prepared_as(self, how: str, dtype: str | None) -> StoredMatrix:
        chosen = self.dtype if dtype is None else np.dtype(dtype)
        return replace(self, how=how, dtype=chosen, size=replace(self.size, itemsize=chosen.itemsize))

    @contextmanager
    def reading(self) -> Iterator[ReadRows]:
        """A function that reads rows as they are stored: dense ones into a buffer, if it is given one."""
        if stamp_of(self.path) != self.stamp:
            raise DataError(self.where, "has changed since it was first read", "run the command again")
        # Without compression a cache of chunks would be one more copy; with it, they would be unpacked again and again.
        with opened(Path(self.path), self.where, rdcc_nbytes=self.packed, rdcc_nslots=CHUNK_SLOTS) as file:
            node = resolve(file, self.name, self.where)
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
        parts = sparse_parts(group, self.name, self.where)
        starts = parts["indptr"][self.first : self.first + self.size.samples + 1].astype(np.int64, copy=False)

        def read(rows: slice, _: Array | None = None) -> Matrix:
            first, last = int(starts[rows.start]), int(starts[rows.stop])
            found = {"data": parts["data"][first:last], "indices": parts["indices"][first:last]}
            found["indptr"] = starts[rows.start : rows.stop + 1] - first
            shape = rows.stop - rows.start, self.size.features
            return compressed_matrix(found, shape, False, f"{self.where}: /{self.name}")

        return read

    def _values(self) -> int:
        """How many these rows store: of a part, ``size`` has a guess."""
        with opened(Path(self.path), self.where) as file:
            starts = sparse_parts(file[self.name], self.name, self.where)["indptr"]
            return int(starts[self.first + self.size.samples]) - int(starts[self.first])

    def buffer(self, rows: int) -> Array | None:
        """Room for dense rows as they are stored."""
        return None if self.size.values is not None else np.empty((rows, self.size.features), self.stored)

    def load(self) -> Matrix:
        """All rows, in memory."""
        some = chunks(self.size.samples, max(1, LOAD_BYTES * self.size.samples // max(1, self.size.bytes)))
        with self.reading() as read:
            pieces = (self.prepared(read(rows, None)) for rows in some)
            if self.size.values is not None:
                return joined_rows(pieces, self.shape, self._values(), self.dtype)
            X = np.empty(self.shape, self.dtype)
            for rows, piece in zip(some, pieces, strict=True):
                X[rows] = piece
        return X

    def prepared(self, raw: Matrix) -> Matrix:
        """Rows as they are computed with; those that were read are used up."""
        return normalize(as_float(raw).astype(self.dtype, copy=False), self.how)


def joined_rows(
    pieces: Iterable[sparse.csr_array[Any]], shape: tuple[int, int], values: int, dtype: np.dtype[Any]
) -> sparse.csr_array[Any]:
    """CSR pieces below each other, with at most so many values in all: one at a time is in memory beside the whole."""
    data, indices = np.empty(values, dtype), np.empty(values, np.int32 if max(*shape, values) < 2**31 else np.int64)
    counts, filled = [np.zeros(1, np.int64)], 0
    for piece in pieces:
        here = slice(filled, filled + piece.nnz)
        data[here], indices[here] = piece.data, piece.indices
        counts.append(np.diff(piece.indptr))
        filled = here.stop
    starts = np.cumsum(np.concatenate(counts)).astype(indices.dtype)
    return sparse.csr_array((data[:filled], indices[:filled], starts), shape=shape)


def left_in_file(
    node: h5py.Dataset | h5py.Group,
    parts: Mapping[str, h5py.Dataset],
    shape: tuple[int, int],
    where: str,
    stays: Stays | None,
) -> StoredMatrix | None:
    """Where the matrix is, if it ``stays`` there, and can be read from there some rows at a time."""
    values = parts["data"]
    dtype = float_type(values.dtype)
    size = Size(*shape, dtype.itemsize, None if values is node else len(values))
    name = node.file.filename
    if stays is None or min(shape) <= 0 or not stays(size) or not os.path.isfile(name):  # noqa: PTH113 (a pipe's: no path)
        return None
    if size.bytes > MOST_UNPACKED * (FREE_BYTES + sum(part.id.get_storage_size() for part in parts.values())):
        raise DataError(
            where, f"{node.name} declares {in_words(size.bytes)} and holds next to nothing", "make it again"
        )
    for part in parts.values():
        check_chunks(part, where)
    unit = values.chunks[0] if values is node and values.chunks is not None else 1
    packed = max(unpacked_together(part) for part in parts.values())
    if packed > MOST_PACKED:
        return None
    if size.values is not None:
        fits = starts_fit(values_of(parts["indptr"], where), shape[0], size.values)
        if not fits or len(parts["indices"]) != size.values:
            raise misfit(f"{where}: {node.name}")
    path = os.path.abspath(name)  # noqa: PTH100
    stored = values.dtype.newbyteorder("=")
    return StoredMatrix(path, str(node.name), where, 0, size, stored, unit, packed, stamp_of(path), dtype)


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
