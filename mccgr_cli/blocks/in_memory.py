"""A matrix in memory as a source of blocks, and the size of blocks."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeGuard

import numpy as np
from scipy import sparse

from mccgr_cli.blocks.protocol import Array, BlockSource, Matrix, Size, chunks
from mccgr_cli.blocks.threads import ThreadedCalls, blas_threads

# A dense block should stay in the cache between its two products, and be worth the cost of passing it to a thread. A
# sparse block must have several values per feature, so that it costs more than adding its (k, d) partial sum.
DENSE_BLOCK_BYTES = 8 << 20
WHOLE_BYTES = 4 << 20  # a dense matrix up to this size is one block: a second thread would not help
SPARSE_BLOCK_VALUES = 1 << 16
VALUES_PER_FEATURE = 8


def is_matrix(X: Matrix | BlockSource) -> TypeGuard[Matrix]:
    """Whether X is a matrix in memory rather than a block source."""
    return isinstance(X, np.ndarray) or bool(sparse.issparse(X))


def as_source(X: Matrix | BlockSource) -> BlockSource:
    """X as a block source."""
    return MemoryBlocks(X) if is_matrix(X) else X


class MemoryBlocks:
    """Blocks of a dense or CSR matrix in memory, as views: nothing is copied.

    The blocks, and so the rounding, do not depend on the number of threads.
    """

    def __init__(self, X: Matrix, block_rows: int | None = None, threads: int | None = None) -> None:
        self.shape: tuple[int, int] = (X.shape[0], X.shape[1])
        self.dtype: np.dtype[Any] = X.dtype
        self.whole: Matrix | None = X
        self._blocks = [(rows, row_view(X, rows)) for rows in row_slices(size_of(X), block_rows)]
        self._calls = ThreadedCalls(min(threads or blas_threads(), len(self._blocks)))

    def map(
        self, function: Callable[..., Any], rows: Sequence[Array | None] = (), shared: Sequence[Any] = ()
    ) -> Iterator[tuple[slice, Any]]:
        """As in the protocol; here the function may also be local, and return anything."""
        calls = ((where, (block, *rows_of_block(rows, where), *shared)) for where, block in self._blocks)
        return self._calls.results(function, calls)

    def take(self, where: slice) -> Matrix:
        return row_view(self.whole, where)


def rows_of_block(rows: Sequence[Array | None], where: slice) -> tuple[Array | None, ...]:
    return tuple(None if array is None else array[where] for array in rows)


def size_of(X: Matrix) -> Size:
    return Size(int(X.shape[0]), int(X.shape[1]), X.dtype.itemsize, int(X.nnz) if sparse.issparse(X) else None)


def row_slices(size: Size, block_rows: int | None = None) -> list[slice]:
    """The rows of X in blocks of a good size."""
    if size.values is not None:
        amount = size.values
        target = whole = max(SPARSE_BLOCK_VALUES, VALUES_PER_FEATURE * size.features)
    else:
        amount, target, whole = size.bytes, DENSE_BLOCK_BYTES, WHOLE_BYTES
    # A multiple of four, so that no thread is idle at the end of a pass over few blocks.
    blocks = 1 if amount <= whole else 4 * math.ceil(amount / target / 4)
    return chunks(size.samples, block_rows or max(1, -(-size.samples // blocks)))


def row_view(X: Matrix, rows: slice) -> Matrix:
    """Rows of X, without a copy of its values."""
    if not sparse.issparse(X):
        return X[rows]
    first, last = X.indptr[rows.start], X.indptr[rows.stop]
    arrays = (X.data[first:last], X.indices[first:last], X.indptr[rows.start : rows.stop + 1] - first)
    return sparse.csr_array(arrays, shape=(rows.stop - rows.start, X.shape[1]), copy=False)
