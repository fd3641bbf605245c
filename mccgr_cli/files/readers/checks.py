"""Check what a reader found, and convert it to the types that mccgr computes with."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from mccgr_cli.blocks.in_memory import MemoryBlocks
from mccgr_cli.blocks.protocol import Array, Matrix
from mccgr_cli.errors import DataError, UnusableValues
from mccgr_cli.files.container import EXTRACTED
from mccgr_cli.files.lazy_matrix import LazyMatrix, MatrixInMemory, StoredMatrix
from mccgr_cli.files.values import as_float, check_values
from mccgr_cli.system.memory import available_memory

if TYPE_CHECKING:
    from mccgr_cli.files.readers.arrays import Found


def finish_matrix(found: Found, transpose: bool, where: str, notes: list[str]) -> Found:
    """X as a LazyMatrix, and labels and names if their number is right. ``notes`` are for the user."""
    X: LazyMatrix = finish_x(found["X"], transpose, where, found.get("instead", ""))
    finished: Found = {"X": X}
    if "labels" in found:
        try:
            finished |= finish_labels(found, X.shape, transpose, where)
        except UnusableValues as fault:
            if not found.get("labels_are_guessed"):
                raise
            notes.append(f"{where}: {fault.parts[1]}, so labels are left out")
    for name, other in (("sample_names", "feature_names"), ("feature_names", "sample_names")):
        if (values := found.get(other if transpose else name)) is not None:
            finished[name] = values
    notes += found.get("notes", ())
    for axis, name in enumerate(("sample_names", "feature_names")):
        names = found.get("names", {}).get(name)
        if names is not None and len(names) == X.shape[axis]:
            finished[name] = names
    if not transpose:
        finished.update((name, found[name]) for name in EXTRACTED if name in found)
    return finished


def finish_labels(found: Found, shape: tuple[int, int], transpose: bool, where: str) -> Found:
    """Labels as codes, and the names of the codes."""
    labels, names = found["labels"], found.get("label_names")
    codes, names = code_labels(labels, where) if names is None else (labels.astype(np.int64), names)
    if len(codes) != shape[0]:
        hint = f"{'leave out' if transpose else 'give'} --transpose if the labels are right"
        remedy = hint if len(codes) == shape[1] else "every sample needs one"
        raise DataError(where, f"labels: {len(codes)} for {shape[0]} samples", remedy)
    return {"labels": codes, "label_names": names}


def finish_x(X: StoredMatrix | Any, transpose: bool, where: str, instead: str) -> LazyMatrix:
    """Rows stay in their file; a matrix that is in memory, or must be to be transposed, is checked now."""
    if isinstance(X, StoredMatrix):
        if not transpose:
            return replace(X, instead=instead)
        if 2 * X.size.bytes > available_memory():
            what = "is too large for memory, and its columns cannot be read some at a time"
            raise DataError(where, what, "store it with samples in rows")
        X = replace(X, checked=True).load()  # checked below: messages name rows and columns after transposing
    X = as_real(X, where)
    if transpose:
        X = X.T.tocsr() if sparse.issparse(X) else np.ascontiguousarray(X.T)
    check_values(MemoryBlocks(X), where, instead=instead)
    return MatrixInMemory(X, where)


def as_real(X: Any, where: str) -> Matrix:
    """float32 stays, every other real type becomes float64; sparse stays sparse."""
    if X.dtype.kind == "O":
        raise DataError(
            where, "holds cells or objects", "store numbers: in MATLAB cell2mat(X), in Python X.astype(float)"
        )
    if X.dtype.kind not in "fiub":
        kind = {"c": "complex numbers", "U": "text", "S": "text"}.get(X.dtype.kind, f"{X.dtype} values")
        raise DataError(where, f"holds {kind}", "NMF needs real numbers")
    if X.ndim != 2:
        dimensions = f"{X.ndim} dimension{'' if X.ndim == 1 else 's'}"
        raise DataError(where, f"an array of {dimensions} {X.shape}", "a matrix has 2: samples in rows")
    X = as_float(X)
    if isinstance(X, np.ndarray):
        return np.ascontiguousarray(X)
    matrix = X.tocsr()
    matrix.sum_duplicates()  # and sorts the indices
    if max(*matrix.shape, matrix.nnz) < 2**31:  # longer ones take more memory, and k-means takes none
        matrix.indices, matrix.indptr = (part.astype(np.int32, copy=False) for part in (matrix.indices, matrix.indptr))
    return matrix


WHOLE_NUMBER = re.compile(r"(-?(?:0|[1-9][0-9]{0,17}))(?:\.0*)?")


def plain_text(stored: Any, where: str) -> Array:
    """Labels or names as one list: text without padding, or numbers."""
    labels = np.asarray(stored)
    if labels.size != max(labels.shape, default=0):
        raise UnusableValues(where, f"labels: an array of shape {labels.shape}", "a sample has one label")
    labels = labels.ravel()
    if labels.dtype.kind == "O":  # MATLAB's cells
        cells = [cell for cell in labels if isinstance(cell, np.ndarray)]
        if any(cell.size != 1 or cell.dtype.kind not in "fiubU" for cell in cells):
            raise UnusableValues(where, "labels: cells that hold no text", "labels are whole numbers or text")
        labels = np.asarray([str(cell.item() if isinstance(cell, np.ndarray) else cell) for cell in labels])
    if labels.dtype.kind == "S":
        labels = np.asarray([label.decode(errors="replace") for label in labels.tolist()])
    return np.char.strip(labels) if labels.dtype.kind == "U" else labels  # MATLAB fills up text with blanks


def code_labels(stored: Any, where: str) -> tuple[Array, list[str]]:
    """A code per sample, and the sorted names that the codes stand for. Numbers are sorted by value, also as text."""
    labels = plain_text(stored, where)
    if labels.dtype.kind == "U":
        written = [WHOLE_NUMBER.fullmatch(label) for label in labels.tolist()]
        numbers = [int(match[1]) for match in written if match]
        labels = np.asarray(numbers) if len(numbers) == len(labels) else labels
    if labels.dtype.kind not in "fiubU":
        raise UnusableValues(where, f"labels: {labels.dtype} values", "labels are whole numbers or text")
    if labels.dtype.kind == "f":
        with np.errstate(invalid="ignore"):
            broken = ~np.isfinite(labels) | (labels != np.floor(labels))
        if broken.any():
            first = int(broken.argmax())
            what = f"labels: {labels[first]:g} of sample {first} is not a label"
            raise UnusableValues(where, what, "labels are whole numbers or text")
    distinct, codes = np.unique(labels, return_inverse=True)
    as_name: Callable[[Any], str] = (lambda value: str(int(value))) if labels.dtype.kind == "f" else str
    return codes.astype(np.int64), [as_name(value) for value in distinct.tolist()]
