"""From what a reader found to what can be computed with: types, labels and values, each fault in one line."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from scipy import sparse

from mccgr_cli.blocks.from_file import FileBlocks, blocks_of
from mccgr_cli.blocks.in_memory import MemoryBlocks
from mccgr_cli.blocks.protocol import Array, Matrix
from mccgr_cli.errors import DataError
from mccgr_cli.files.container import EXTRACTED
from mccgr_cli.files.lazy_matrix import StoredMatrix, as_float
from mccgr_cli.files.readers.arrays import Found
from mccgr_cli.system.memory import available

# By size of a number in bytes: between these, the largest value can be squared and summed safely.
SAFE = {4: (1e-12, 1e12), 8: (1e-100, 1e100)}


def finish_matrix(found: Found, transpose: bool, where: str) -> Found:
    X = found["X"] if isinstance(found["X"], StoredMatrix) else as_real(found["X"], where)
    names = [found.get("sample_names"), found.get("feature_names")]
    if transpose:
        X = transposed(X, where)
        names.reverse()
    largest = check_values(blocks_of(X), where)
    if isinstance(X, StoredMatrix):
        X = replace(X, largest=largest)
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
    if not transpose:
        finished.update((name, found[name]) for name in EXTRACTED if name in found)
    return finished


def transposed(X: Matrix | StoredMatrix, where: str) -> Matrix:
    if isinstance(X, StoredMatrix):
        if 2 * X.size.bytes > available():
            what = "is too large for memory, and its columns cannot be read some at a time"
            raise DataError(where, what, "store it with samples in rows")
        X = X.load()
    return X.T.tocsr() if sparse.issparse(X) else np.ascontiguousarray(X.T)


def as_real(X: Any, where: str) -> Matrix:
    """float32 stays, every other real type becomes float64; sparse stays sparse."""
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


def check_values(source: MemoryBlocks | FileBlocks, where: str, some: bool = True) -> float:
    """Refuse what NMF cannot factorize; the largest value. Copies nothing if all is well.

    ``some`` values must be above 0: there is nothing to learn from zeros, though they have coefficients.
    """
    n, d = source.shape
    if n == 0 or d == 0:
        raise DataError(where, f"empty matrix ({n} x {d})", "NMF needs samples and features")
    least, largest = np.transpose([found for _, found in source.map(extremes)])
    if not (least.min() >= 0 and largest.max() < np.inf):  # also true of NaN
        raise value_fault(source, where)
    if largest.max() > 0:
        check_scale(float(largest.max()), source.dtype, where)
    elif some:
        raise DataError(where, "all values are zero", "there is nothing to factorize")
    return float(largest.max())


def extremes(X_b: Matrix) -> tuple[float, float]:
    values = stored_values(X_b)
    return (float(values.min()), float(values.max())) if values.size else (0.0, 0.0)


def check_scale(largest: float, dtype: np.dtype[Any], where: str) -> None:
    low, high = SAFE[dtype.itemsize]
    if not low <= largest <= high:
        what = f"its largest value, {largest:g}, is too {'large' if largest > high else 'small'} to compute with"
        raise DataError(where, f"{what} as {dtype}", "rescale it, for instance to a mean of 1")


def stored_values(X: Matrix) -> Array:
    values: Array = X.data if sparse.issparse(X) else X
    return values


NON_NEGATIVE = "NMF needs X >= 0: give counts or intensities as they were, before they were centred or made logarithms"
VALUE_FAULTS: tuple[tuple[Callable[[Array], Array], str, str, str], ...] = (
    (np.isnan, "value is NaN", "values are NaN", "remove or impute them"),
    (np.isinf, "value is infinite", "values are infinite", "remove or replace them"),
    (lambda values: values < 0, "negative value", "negative values", NON_NEGATIVE),
)


def value_fault(source: MemoryBlocks | FileBlocks, where: str) -> DataError:
    """Count the worst kind of fault and name the place of the first."""
    for is_fault, one, several, remedy in VALUE_FAULTS:
        found = [(rows.start, *faults) for rows, faults in source.map(block_faults, shared=(is_fault,))]
        count = sum(number for _, number, _ in found)
        if count:
            start, (row, rest) = next((start, place) for start, number, place in found if number)
            return DataError(
                where, f"{count} {one if count == 1 else several}, first at row {start + row}{rest}", remedy
            )
    raise AssertionError("a fault that vanished")


def block_faults(X_b: Matrix, is_fault: Callable[[Array], Array]) -> tuple[int, tuple[int, str]]:
    """How many, and the row and what else is to be told of the first."""
    faults = is_fault(stored_values(X_b))
    return int(faults.sum()), first_place(X_b, faults) if faults.any() else (0, "")


def first_place(block: Matrix, faults: Array) -> tuple[int, str]:
    position = int(faults.argmax())
    if sparse.issparse(block):
        row = int(np.searchsorted(block.indptr, position, side="right")) - 1
        column, value = int(block.indices[position]), block.data[position]
    else:
        row, column = divmod(position, block.shape[1])
        value = block[row, column]
    return row, f", column {column}" + (f" ({value:g})" if np.isfinite(value) else "")
