"""From whatever the user names to a checked matrix: a file of ours, a foreign one, or standard input.

Each format has a reader that hands over what it found (:mod:`mccgr_cli.readers.arrays`,
:mod:`mccgr_cli.readers.text`, :mod:`mccgr_cli.readers.hdf5`). Types, labels and values are checked here.
"""

from __future__ import annotations

import hashlib
import re
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from scipy import sparse

from mccgr_cli.blocks import Array, Matrix, row_view, rows_per_block
from mccgr_cli.container import Contents
from mccgr_cli.errors import DataError
from mccgr_cli.readers import arrays, hdf5, text
from mccgr_cli.readers.arrays import Found

HASH_BYTES = 1 << 20


@dataclass(frozen=True)
class Loaded:
    contents: Contents
    name: str  # what the user typed
    sha256: str  # of the file's bytes


@dataclass(frozen=True)
class Format:
    """How a file that is not HDF5 gives up its matrix and its labels."""

    matrix: Callable[[Path, str | None, str | None, str], Found]
    labels: Callable[[Path, str | None, str], Any]


TABLE = Format(text.read_table, text.read_table_labels)
MATRIX_MARKET = Format(text.read_mtx, text.refuse_mtx_labels)
FORMATS = {
    ".mat": Format(arrays.read_mat, arrays.read_mat_labels),
    ".npy": Format(arrays.read_npy, arrays.read_npy_labels),
    ".npz": Format(arrays.read_npz, arrays.read_npz_labels),
    ".mtx": MATRIX_MARKET,
    ".mtx.gz": MATRIX_MARKET,
    ".csv": TABLE,
    ".tsv": TABLE,
    ".csv.gz": TABLE,
    ".tsv.gz": TABLE,
}
HDF5_SUFFIXES = (".h5", ".hdf5", ".h5ad")

# kind of file: how it is called, and where one comes from
KINDS = {
    "matrix": ("a matrix", "your data"),
    "graph": ("a graph", "mccgr graph"),
    "factors": ("factors", "mccgr factorize"),
    "clusters": ("clusters", "mccgr cluster"),
}


def load(
    source: str,
    *,
    kinds: Sequence[str] = ("matrix",),
    transpose: bool = False,
    label_key: str | None = None,
) -> Loaded:
    """Read ``PATH``, ``PATH::INNER`` or ``-``, and check it: what comes out is fit to compute with."""
    with opened(source) as file:
        contents = read_contents(file, label_key)
    if contents.kind not in kinds:
        raise wrong_kind(contents.kind, kinds, file.name)
    if contents.kind == "matrix":
        contents = replace(contents, datasets=finish_matrix(contents.datasets, transpose, file.name))
    elif transpose:
        what = f"holds {KINDS[contents.kind][0]}, not a matrix"
        raise DataError(file.name, what, "leave out --transpose")
    return Loaded(contents, file.name, file.sha256)


def load_labels(source: str) -> list[str]:
    """The label of every sample, from ``PATH`` or ``PATH::INNER``."""
    with opened(source) as file:
        if file.is_hdf5:
            stored = hdf5.read_hdf5_labels(file.handle, file.inner, file.name, file.suffix == ".mat")
        else:
            path = foreign_path(file)
            read = FORMATS[file.suffix].labels if file.suffix in FORMATS else text.read_label_lines
            stored = read(path, file.inner, file.name)
    codes, names = code_labels(stored, file.name)
    return [names[code] for code in codes]


def read_contents(file: Source, label_key: str | None) -> Contents:
    if file.is_hdf5:
        matlab = file.suffix == ".mat"
        found = hdf5.read_hdf5(file.handle, file.inner, label_key, file.name, matlab)
        return found if isinstance(found, Contents) else Contents("matrix", found)
    path = foreign_path(file)
    if file.suffix not in FORMATS:
        what = f"unknown format {file.suffix}" if file.suffix else "a name without a suffix, and not HDF5"
        raise DataError(file.name, what, f"mccgr reads {', '.join((*HDF5_SUFFIXES, *FORMATS))}")
    found = FORMATS[file.suffix].matrix(path, file.inner, label_key, file.name)
    return Contents("matrix", found)


def wrong_kind(kind: str, kinds: Sequence[str], where: str) -> DataError:
    wanted, origins = zip(*(KINDS[kind] for kind in kinds), strict=True)
    what = f"holds {KINDS[kind][0]} where {' or '.join(wanted)} should be"
    return DataError(where, what, f"such a file comes from {' or '.join(origins)}")


# From what the user typed to a file


@dataclass(frozen=True)
class Source:
    """A file whose bytes have been seen once."""

    name: str  # for messages
    handle: Path | BinaryIO  # BinaryIO for what came down a pipe
    inner: str | None
    suffix: str
    sha256: str
    is_hdf5: bool


@contextmanager
def opened(typed: str) -> Iterator[Source]:
    location, inner = split_inner(typed)
    path = Path(location)
    piped = location == "-"
    name = "standard input" if piped else typed
    with ExitStack() as stack, ExitStack() as first_look:
        handle: Path | BinaryIO = path
        with accessing(name):
            if piped or path.is_fifo():  # HDF5 must seek, and a pipe cannot
                stream = sys.stdin.buffer if piped else first_look.enter_context(path.open("rb"))
                file: BinaryIO = stack.enter_context(tempfile.TemporaryFile())
                handle = file
                digest = hash_bytes(stream, file)
            else:
                file = first_look.enter_context(path.open("rb"))
                digest = hash_bytes(file)
            if file.seek(0, 2) == 0:
                remedy = "the command before the pipe may have failed" if handle is file else "make it again"
                raise DataError(name, "empty" if handle is file else "empty file", remedy)
            has_signature = hdf5.is_hdf5(file)
        first_look.close()
        yield Source(name, handle, inner, suffix_of(path), digest, has_signature)


def split_inner(typed: str) -> tuple[str, str | None]:
    """``PATH::INNER`` into its parts, unless a file is really called so."""
    if not typed:
        raise DataError("''", "no file name", "the command that should give it may have failed")
    location, separator, inner = typed.rpartition("::")
    with accessing(typed):
        return (typed, None) if not separator or Path(typed).exists() else (location, inner or None)


@contextmanager
def accessing(name: str) -> Iterator[None]:
    """What the system says about a file, in our words."""
    try:
        yield
    except FileNotFoundError:
        raise DataError(name, "no such file", "check its name and folder") from None
    except IsADirectoryError:
        raise DataError(name, "is a folder", "name a file in it") from None
    except PermissionError:
        raise DataError(name, "permission denied", "ask its owner for leave to read it") from None
    except OSError as fault:
        raise DataError(name, f"cannot be read: {(fault.strerror or str(fault)).lower()}") from None


def hash_bytes(stream: BinaryIO, copy: BinaryIO | None = None) -> str:
    """The SHA-256 of a stream, copied on the way if it cannot be read twice."""
    digest = hashlib.sha256()
    while chunk := stream.read(HASH_BYTES):
        digest.update(chunk)
        if copy is not None:
            copy.write(chunk)
    return digest.hexdigest()


def suffix_of(path: Path) -> str:
    parts = path.suffixes[-2:] if path.suffix.lower() == ".gz" else [path.suffix]
    return "".join(parts).lower()


def foreign_path(file: Source) -> Path:
    """The path of a file that is not HDF5 and was not to be."""
    if not isinstance(file.handle, Path):
        raise DataError(file.name, "not HDF5", "only HDF5 comes down a pipe: give other files by name")
    if file.suffix in HDF5_SUFFIXES:
        raise DataError(file.name, "not an HDF5 file", "it may be damaged, or another format by that name")
    return file.handle


# From what was found to what can be computed with


def finish_matrix(found: Found, transpose: bool, where: str) -> Found:
    X = as_real(found["X"], where)
    names = [found.get("sample_names"), found.get("feature_names")]
    if transpose:
        X = X.T.tocsr() if sparse.issparse(X) else np.ascontiguousarray(X.T)
        names.reverse()
    check_values(X, where)
    finished: Found = {"X": X}
    if "labels" in found:
        finished["labels"], finished["label_names"] = (
            (found["labels"].astype(np.int64), found["label_names"])
            if "label_names" in found
            else code_labels(found["labels"], where)
        )
        count, n = len(finished["labels"]), X.shape[0]
        if count != n:
            hint = f"{'leave out' if transpose else 'give'} --transpose if the labels are right"
            remedy = hint if count == X.shape[1] else "every sample needs one"
            raise DataError(where, f"labels: {count} for {n} samples", remedy)
    for name, values in zip(("sample_names", "feature_names"), names, strict=True):
        if values is not None:
            finished[name] = values
    return finished


def as_real(X: Any, where: str) -> Matrix:
    """float32 stays, every other real type becomes float64; sparse stays sparse."""
    if X.dtype.kind not in "fiub":
        kind = {"c": "complex numbers", "U": "text", "S": "text"}.get(X.dtype.kind, f"{X.dtype} values")
        raise DataError(where, f"holds {kind}", "NMF needs real numbers")
    if X.ndim != 2:
        raise DataError(where, f"an array of {X.ndim} dimensions {X.shape}", "a matrix has 2")
    dtype = np.float32 if X.dtype.kind == "f" and X.dtype.itemsize == 4 else np.float64
    if isinstance(X, np.ndarray):
        with np.errstate(over="ignore"):  # a long double may become infinite, which is found later
            return np.ascontiguousarray(X, dtype=dtype)
    matrix: sparse.csr_array[Any] = X.astype(dtype, copy=False).tocsr()
    matrix.sum_duplicates()  # and sorts the indices
    return matrix


WHOLE_NUMBER = re.compile(r"(-?(?:0|[1-9][0-9]{0,17}))(?:\.0*)?")


def code_labels(stored: Any, where: str) -> tuple[Array, list[str]]:
    """Codes into the sorted names of the labels: numbers in their order, also those written as text."""
    labels = np.asarray(stored)
    if labels.size != max(labels.shape, default=0):
        raise DataError(where, f"labels: an array of shape {labels.shape}", "a sample has one label")
    labels = labels.ravel()
    if labels.dtype.kind == "O":  # MATLAB's cells
        labels = np.asarray([str(cell_value(cell, where)) for cell in labels])
    if labels.dtype.kind == "S":
        labels = np.asarray([label.decode(errors="replace") for label in labels.tolist()])
    if labels.dtype.kind == "U":
        labels = np.char.strip(labels)  # MATLAB fills up text with blanks
        written = [WHOLE_NUMBER.fullmatch(label) for label in labels.tolist()]
        numbers = [int(match[1]) for match in written if match]
        labels = np.asarray(numbers) if len(numbers) == len(labels) else labels
    if labels.dtype.kind not in "fiubU":
        raise DataError(where, f"labels: {labels.dtype} values", "labels are whole numbers or text")
    if labels.dtype.kind == "f":
        with np.errstate(invalid="ignore"):
            broken = ~np.isfinite(labels) | (labels != np.floor(labels))
        if broken.any():
            first = int(broken.argmax())
            what = f"labels: {labels[first]:g} of sample {first} is not a label"
            raise DataError(where, what, "labels are whole numbers or text")
    distinct, codes = np.unique(labels, return_inverse=True)
    as_name: Callable[[Any], str] = (lambda value: str(int(value))) if labels.dtype.kind == "f" else str
    return codes.astype(np.int64), [as_name(value) for value in distinct.tolist()]


def cell_value(cell: Any, where: str) -> Any:
    if isinstance(cell, np.ndarray):
        if cell.size != 1 or cell.dtype.kind not in "fiubU":
            raise DataError(where, "labels: cells that hold no text", "labels are whole numbers or text")
        return cell.item()
    return cell


# Values


def check_values(X: Matrix, where: str) -> None:
    """Refuse what NMF cannot factorize. Goes by blocks of rows, and copies nothing if all is well."""
    n, d = X.shape
    if n == 0 or d == 0:
        raise DataError(where, f"empty matrix ({n} x {d})", "NMF needs samples and features")
    step = rows_per_block(X)
    blocks = [slice(start, min(start + step, n)) for start in range(0, n, step)]
    largest = 0.0
    for rows in blocks:
        values = stored_values(row_view(X, rows))
        low, high = (values.min(), values.max()) if values.size else (0, 0)
        if not (low >= 0 and high < np.inf):  # also true of NaN
            raise value_fault(X, blocks, where)
        largest = max(largest, float(high))
    if largest == 0:
        raise DataError(where, "all values are zero", "there is nothing to factorize")


def stored_values(X: Matrix) -> Array:
    values: Array = X.data if sparse.issparse(X) else X
    return values


VALUE_FAULTS: tuple[tuple[Callable[[Array], Array], str, str, str], ...] = (
    (np.isnan, "value is NaN", "values are NaN", "remove or impute them"),
    (np.isinf, "value is infinite", "values are infinite", "remove or replace them"),
    (lambda values: values < 0, "negative value", "negative values", "NMF needs X >= 0"),
)


def value_fault(X: Matrix, blocks: Sequence[slice], where: str) -> DataError:
    """Count the worst kind of fault and name the place of the first."""
    for is_fault, one, several, remedy in VALUE_FAULTS:
        count, place = 0, ""
        for rows in blocks:
            block = row_view(X, rows)
            faults = is_fault(stored_values(block))
            if not count and faults.any():
                place = first_place(block, faults, rows.start)
            count += int(faults.sum())
        if count:
            return DataError(where, f"{count} {one if count == 1 else several}, first at {place}", remedy)
    raise AssertionError("a fault that vanished")


def first_place(block: Matrix, faults: Array, first_row: int) -> str:
    position = int(faults.argmax())
    if sparse.issparse(block):
        row = int(np.searchsorted(block.indptr, position, side="right")) - 1
        column, value = int(block.indices[position]), block.data[position]
    else:
        row, column = divmod(position, block.shape[1])
        value = block[row, column]
    return f"row {first_row + row}, column {column}" + (f" ({value:g})" if np.isfinite(value) else "")
