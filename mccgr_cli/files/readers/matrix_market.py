"""Matrix Market files, by hand: scipy.io.mmread crashes on some damaged files and reads wrong numbers from others."""

from __future__ import annotations

from pathlib import Path
from typing import Any, TextIO

import numpy as np
from scipy import sparse

from mccgr_cli.blocks.protocol import Array
from mccgr_cli.errors import DataError
from mccgr_cli.files.readers.arrays import Found, NamedLabels, refuse_names
from mccgr_cli.files.readers.text import load_text, opened_text
from mccgr_cli.system.memory import require_memory


def read_mtx(path: Path, inner: str | None, label_key: str | None, where: str) -> Found:
    refuse_names(inner, label_key, ".mtx", where)
    with opened_text(path, where) as file:
        try:
            return {"X": parse_mtx(file, where)}
        except (ValueError, OverflowError) as fault:
            what = f"not a readable .mtx file ({fault})"
            raise DataError(where, what, "it may be damaged or cut short") from None


def parse_mtx(file: TextIO, where: str) -> Any:
    banner, *words = file.readline().lower().split() or [""]
    if banner != "%%matrixmarket" or len(words) != 4:
        raise ValueError("its first line is not a Matrix Market header")
    _, layout, field, symmetry = words
    if field == "complex" or symmetry not in ("general", "symmetric"):
        raise DataError(where, f"a matrix that is {field} and {symmetry}", "NMF needs real numbers >= 0")
    size = next((line.split() for line in file if line.strip() and line[0] != "%"), [])
    if len(size) != {"coordinate": 3, "array": 2}.get(layout):
        raise ValueError("no line with its size")
    n, d, *entries = map(int, size)
    if min(n, d, *entries) < 0 or (symmetry == "symmetric" and n != d):
        raise ValueError(f"its size is {n} x {d}")
    require_memory(8.0 * (n + 3 * entries[0] if entries else n * d), where)
    if layout == "array":
        return fill_array(load_text(file, 1).ravel(), n, d, symmetry == "symmetric")
    table = load_text(file, 2 if field == "pattern" else 3, max_rows=entries[0] + 1)
    if len(table) != entries[0]:
        found = len(table) if len(table) < entries[0] else "more"
        raise ValueError(f"{found} entries where its header says {entries[0]}")
    rows, columns = table[:, 0] - 1, table[:, 1] - 1
    if len(table) and not (min(rows.min(), columns.min()) >= 0 and rows.max() < n and columns.max() < d):
        raise ValueError("an index outside its size")
    if np.any(rows != np.floor(rows)) or np.any(columns != np.floor(columns)):
        raise ValueError("an index that is not a whole number")
    values = np.ones(len(table)) if field == "pattern" else table[:, 2]
    if symmetry == "symmetric":
        mirrored = rows != columns
        rows, columns = np.append(rows, columns[mirrored]), np.append(columns, rows[mirrored])
        values = np.append(values, values[mirrored])
    return sparse.csr_array((values, (rows.astype(np.int64), columns.astype(np.int64))), shape=(n, d))


def fill_array(values: Array, n: int, d: int, symmetric: bool) -> Array:
    """A dense matrix from its columns; if it is symmetric, from their parts below the diagonal."""
    expected = n * (n + 1) // 2 if symmetric else n * d
    if len(values) != expected:
        raise ValueError(f"{len(values)} values instead of {expected}")
    if not symmetric:
        return values.reshape(d, n).T
    matrix = np.zeros((n, n))
    matrix[np.triu_indices(n)] = values  # the lower half by columns is the upper half by rows
    return matrix + np.triu(matrix, 1).T


def refuse_mtx_labels(path: Path, inner: str | None, where: str) -> NamedLabels:
    raise DataError(where, "a .mtx file holds no labels", "give a list of labels, one per line")
