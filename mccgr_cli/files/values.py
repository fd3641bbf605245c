"""The values of a matrix: their type, and whether NMF can factorize them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import sparse

from mccgr_cli.blocks.from_file import FileBlocks
from mccgr_cli.blocks.in_memory import MemoryBlocks
from mccgr_cli.blocks.protocol import Array, Matrix, counted
from mccgr_cli.errors import DataError

# By bytes of a number: the range in which the largest value can be squared and summed safely.
SAFE = {4: (1e-12, 1e12), 8: (1e-100, 1e100)}


def as_float(values: Matrix) -> Matrix:
    """Real numbers of any type as native float32 (only if they are stored so) or float64."""
    with np.errstate(over="ignore"):  # a long double may become infinite, which check_values finds
        return values.astype(float_type(values.dtype), copy=False)


def float_type(stored: np.dtype[Any]) -> np.dtype[Any]:
    return np.dtype(np.float32 if stored.kind == "f" and stored.itemsize == 4 else np.float64)


def check_values(source: MemoryBlocks | FileBlocks, where: str, some: bool = True, instead: str = "") -> float:
    """The largest value of a matrix; an error if NMF cannot factorize it. Nothing is copied.

    With ``some``, a matrix of zeros is an error too: there is nothing to learn from it, though it can be transformed.
    ``instead``: what to use if values are negative.
    """
    n, d = source.shape
    if n == 0 or d == 0:
        raise DataError(where, f"empty matrix ({n} x {d})", "NMF needs samples and features")
    least, largest = np.transpose([found for _, found in counted(source.map(extremes))])
    if not (least.min() >= 0 and largest.max() < np.inf):  # also true of NaN
        raise value_fault(source, where, instead)
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


NON_NEGATIVE = (
    "NMF needs X >= 0: give counts or intensities as they were, before they were centred or made logarithms; of "
    "embeddings, give max(x, 0) and max(-x, 0) as two features"
)
VALUE_FAULTS: tuple[tuple[Callable[[Array], Array], str, str, str], ...] = (
    (np.isnan, "value is NaN", "values are NaN", "remove or impute them"),
    (np.isinf, "value is infinite", "values are infinite", "remove or replace them"),
    (lambda values: values < 0, "negative value", "negative values", NON_NEGATIVE),
)


def value_fault(source: MemoryBlocks | FileBlocks, where: str, instead: str) -> DataError:
    """An error with the number of faults of the worst kind, and the place of the first."""
    for is_fault, one, several, remedy in VALUE_FAULTS:
        found = [(rows.start, *faults) for rows, faults in source.map(block_faults, shared=(is_fault,)) if faults[0]]
        if found:
            count = sum(number for _, number, _, _ in found)
            start, _, row, rest = found[0]
            what = f"{count} {one if count == 1 else several}, first at row {start + row}{rest}"
            if instead and remedy is NON_NEGATIVE:
                remedy = f"NMF needs X >= 0: use {instead}"
            return DataError(where, what, remedy)
    raise AssertionError("a fault that vanished")


def block_faults(X_b: Matrix, is_fault: Callable[[Array], Array]) -> tuple[int, int, str]:
    """The number of faults in a block, and the row, column and value of the first."""
    faults = is_fault(stored_values(X_b))
    if not faults.any():
        return 0, 0, ""
    position = int(faults.argmax())
    if sparse.issparse(X_b):
        row = int(np.searchsorted(X_b.indptr, position, side="right")) - 1
        column, value = int(X_b.indices[position]), X_b.data[position]
    else:
        row, column = divmod(position, X_b.shape[1])
        value = X_b[row, column]
    return int(faults.sum()), row, f", column {column}" + (f" ({value:g})" if np.isfinite(value) else "")
