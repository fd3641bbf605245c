"""HDF5 files of any origin: open them, follow links inside them, and read datasets and sparse matrices whole.

A file may be damaged or hostile: what it declares is checked before memory is taken for it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import h5py
import numpy as np
from scipy import sparse

from mccgr_cli.blocks.protocol import Array
from mccgr_cli.errors import DataError
from mccgr_cli.files.values import as_float
from mccgr_cli.system.memory import require_memory

LARGEST_LENGTH = 1 << 48  # of a sparse matrix: beyond that, sizes in bytes overflow
TEXT_BYTES = 64  # a text takes at least this much memory
CHECKSUM_BYTES = 4
MOST_HOPS = 32  # from soft link to soft link; more are a circle


@contextmanager
def opened(source: Path | BinaryIO, where: str, **options: Any) -> Iterator[h5py.File]:
    """Open a file to read. Errors of h5py become one DataError."""
    try:
        with h5py.File(source, "r", **options) as file:
            yield file
    except BlockingIOError:
        raise DataError(where, "another program is writing it", "wait until that is done") from None
    except (OSError, KeyError, RuntimeError, ValueError, TypeError, OverflowError) as fault:
        what = f"damaged or truncated HDF5 file ({' '.join(str(fault).split())})"
        raise DataError(where, what, "make, copy or download it again") from fault


def resolve(group: h5py.Group, path: str, where: str, hops: int = MOST_HOPS) -> h5py.Dataset | h5py.Group | None:
    """The object at ``path``, or None. A link that leads out of the file is an error."""
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
    if node.dtype.kind not in ("iu" if expected == "whole" else "fiub"):
        held = "text" if h5py.check_string_dtype(node.dtype) else node.dtype
        raise DataError(where, f"/{name} holds {held} where {expected} numbers belong", "store it as numbers")


def check_filters(node: h5py.Dataset | h5py.Group, name: str, where: str) -> None:
    """An error if a compression filter is not installed: the file is not damaged then."""
    stored = resolve(node, "data", where) if isinstance(node, h5py.Group) else node
    if not isinstance(stored, h5py.Dataset):
        return
    plan = stored.id.get_create_plist()
    for code, _, _, title in (plan.get_filter(i) for i in range(plan.get_nfilters())):
        if not h5py.h5z.filter_avail(code):
            what = f"/{name} is compressed by {title.decode(errors='replace') or code}, which HDF5 lacks here"
            raise DataError(where, what, "repack it: h5repack -f GZIP=4 FILE NEWFILE")


def values_of(dataset: h5py.Dataset, where: str) -> Any:
    """All values of a dataset, if its declared size and its chunks fit into memory."""
    if dataset.shape is None:
        raise DataError(where, f"{dataset.name} has no values", "the file is damaged")
    text = h5py.check_string_dtype(dataset.dtype) is not None
    each = dataset.dtype.itemsize + (TEXT_BYTES if text else 0)
    check_chunks(dataset, where)
    amount = max(each * math.prod(dataset.shape), dataset.dtype.itemsize * math.prod(dataset.chunks or ()))
    require_memory(amount, where, str(dataset.name), dataset.id.get_storage_size())
    return dataset.asstr(errors="replace")[()] if text else dataset[()]


def check_chunks(dataset: h5py.Dataset, where: str) -> None:
    """An error if a chunk is too short for its checksum: HDF5 would read memory before the chunk."""
    if not dataset.fletcher32 or dataset.chunks is None:
        return
    sizes: list[int] = []
    dataset.id.chunk_iter(lambda chunk: sizes.append(chunk.size))
    if min(sizes, default=CHECKSUM_BYTES) < CHECKSUM_BYTES:
        raise DataError(where, f"{dataset.name} is damaged or truncated", "make, copy or download it again")


# Matrices


def read_matrix(node: h5py.Dataset | h5py.Group, name: str, where: str) -> Any:
    """All of a dense dataset, or of a CSR or CSC group of data, indices and indptr, which becomes CSR."""
    parts, shape, by_column = matrix_layout(node, name, where)
    found = {part: np.asarray(values_of(dataset, where)) for part, dataset in parts.items()}
    if isinstance(node, h5py.Dataset):
        return found["data"]
    return compressed_matrix(found, shape, by_column, f"{where}: /{name}")


def matrix_layout(
    node: h5py.Dataset | h5py.Group, name: str, where: str
) -> tuple[dict[str, h5py.Dataset], tuple[int, int], bool]:
    """The datasets of a matrix, its shape, and whether it is stored by column. A dense one has only ``data``."""
    if isinstance(node, h5py.Dataset):
        if node.ndim != 2:
            raise DataError(where, f"/{name} has the shape {node.shape}", "a matrix has two dimensions")
        check_dtype(node, name, "real", where)
        return {"data": node}, (int(node.shape[0]), int(node.shape[1])), False
    parts = sparse_parts(node, name, where)
    lengths = np.asarray(node.attrs.get("shape", node.attrs.get("h5sparse_shape", ())))
    if lengths.shape != (2,) or lengths.dtype.kind not in "iu" or lengths.max() > LARGEST_LENGTH:
        raise DataError(where, f"/{name} does not state its shape", "write it as the attribute 'shape'")
    by_column = "csc" in str(node.attrs.get("encoding-type", node.attrs.get("h5sparse_format", "csr")))
    return parts, (int(lengths[0]), int(lengths[1])), by_column


def sparse_parts(group: h5py.Group, name: str, where: str) -> dict[str, h5py.Dataset]:
    parts = {}
    for part in ("data", "indices", "indptr"):
        dataset = resolve(group, part, where)
        if not isinstance(dataset, h5py.Dataset) or dataset.ndim != 1:
            what = f"/{name} is a group but not a sparse matrix (no {part})"
            raise DataError(where, what, "name a dataset with FILE::/dataset")
        check_dtype(dataset, f"{name}/{part}", "real" if part == "data" else "whole", where)
        parts[part] = dataset
    return parts


def compressed_matrix(
    parts: Mapping[str, Array], shape: tuple[int, int], by_column: bool, where: str
) -> sparse.csr_array[Any]:
    """A CSR matrix from the three arrays of a CSR or CSC one, which are checked."""
    data, indices, indptr = parts["data"], parts["indices"], parts["indptr"]
    if data.dtype.kind not in "fiub":
        what = "complex numbers" if data.dtype.kind == "c" else f"{data.dtype} values"
        raise DataError(where, f"holds {what}", "NMF needs real numbers")
    lines, width = (shape[1], shape[0]) if by_column else shape
    fits = width >= 0 and starts_fit(indptr, lines, len(data)) and len(indices) == len(data)
    if not fits or (len(indices) > 0 and (indices.min() < 0 or indices.max() >= width)):
        raise misfit(where)
    require_memory(8.0 * shape[0], where)  # for the starts of the rows
    make = sparse.csc_array if by_column else sparse.csr_array
    # As floats: duplicates are summed below, and small integers would overflow.
    matrix = make((as_float(data), indices, indptr), shape=shape).tocsr()
    matrix.sum_duplicates()  # and sorts the indices
    return matrix


def starts_fit(indptr: Array, lines: int, values: int) -> bool:
    """Whether these can be the starts of the lines of a sparse matrix with this number of values."""
    ends = len(indptr) == lines + 1 and indptr[0] == 0 and indptr[-1] == values
    return bool(ends and not np.any(indptr[1:] < indptr[:-1]))


def misfit(where: str) -> DataError:
    return DataError(where, "its indices do not fit its shape", "the file is damaged")
