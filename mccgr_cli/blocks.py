"""The block protocol: a matrix that is only ever visited a block of samples at a time.

A source knows how to call a function on every block of rows of X. Where the rows are (memory, a file,
other machines) is its own business; solvers see only :class:`BlockSource`.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from threadpoolctl import ThreadpoolController

Array: TypeAlias = NDArray[Any]
Matrix: TypeAlias = Any  # an Array or a scipy.sparse.csr_array, which has no types of its own

# A dense block should stay in the cache between its two products, and outweigh what it takes to hand it to a thread; a
# sparse one must outweigh the (k, d) partial sum that each block hands back, so it has some values for each feature.
DENSE_BLOCK_BYTES = 8 << 20
WHOLE_BYTES = 4 << 20  # a dense matrix up to this size is one block: it does not pay to wake another thread
SPARSE_BLOCK_VALUES = 1 << 16
VALUES_PER_FEATURE = 8
# OpenBLAS multiplies matrices with at most so many multiplications in all without repacking them first, which
# takes longer than the narrow product itself (python -m benchmarks.products).
UNPACKED_PRODUCT = 1_000_000


class BlockSource(Protocol):
    """A non-negative matrix X (n, d) in blocks of rows."""

    @property
    def shape(self) -> tuple[int, int]: ...

    @property
    def dtype(self) -> np.dtype[Any]: ...

    def map(
        self, function: Callable[..., Any], rows: Sequence[Array | None] = (), shared: Sequence[Any] = ()
    ) -> Iterator[tuple[slice, Any]]:
        """Call ``function(X_b, *rows_b, *shared)`` on every block; yield, in order, its rows and the result.

        ``rows`` are arrays with a row per sample (or None), cut to the block; ``shared`` goes to all blocks.
        ``function`` must be importable by name, so that other processes can call it too.
        """
        ...


class Call:
    """Of a function on one block, by a thread of the pool unless the caller takes it over."""

    def __init__(self, where: slice, function: Callable[..., Any], arguments: tuple[Any, ...], pool: Any) -> None:
        self.where, self.function, self.arguments = where, function, arguments
        self.future: Future[Any] = pool.submit(function, *arguments)

    def take_over(self) -> bool:
        """Do it here and now, and return True, unless somebody has begun."""
        if self.future.done() or not self.future.cancel():
            return False
        self.future = Future()
        self.future.set_result(self.function(*self.arguments))
        return True


class MemoryBlocks:
    """Blocks of a dense or CSR matrix in memory, as views: nothing is copied.

    Several blocks are worked on at once, each by one thread (see :func:`threads_for_blocks`): threads of BLAS's
    own gain little on products as narrow as these. The blocks, and so the rounding, do not depend on how many.
    """

    def __init__(self, X: Matrix, block_rows: int | None = None) -> None:
        self.shape: tuple[int, int] = (X.shape[0], X.shape[1])
        self.dtype: np.dtype[Any] = X.dtype
        self._blocks = [(rows, row_view(X, rows)) for rows in row_slices(X, block_rows)]
        self._threads = min(blas_threads(), len(self._blocks))
        self._pool = ThreadPoolExecutor(self._threads - 1) if self._threads > 1 else None

    def map(
        self, function: Callable[..., Any], rows: Sequence[Array | None] = (), shared: Sequence[Any] = ()
    ) -> Iterator[tuple[slice, Any]]:
        calls = (
            (where, (block, *(None if r is None else r[where] for r in rows), *shared)) for where, block in self._blocks
        )
        if self._pool is None:
            for where, arguments in calls:
                yield where, function(*arguments)
            return
        waiting: deque[Call] = deque()
        for where, arguments in calls:
            waiting.append(Call(where, function, arguments, self._pool))
            if len(waiting) > 2 * self._threads:  # results are taken as they come: few are held at a time
                yield self._next(waiting)
        while waiting:
            yield self._next(waiting)

    def _next(self, waiting: deque[Call]) -> tuple[slice, Any]:
        """The result of the first call; while others are at it, this thread works on those that nobody has begun."""
        while not waiting[0].future.done() and any(call.take_over() for call in waiting):
            pass
        call = waiting.popleft()
        return call.where, call.future.result()


@cache
def blas() -> ThreadpoolController:
    return ThreadpoolController().select(user_api="blas")


@cache
def blas_threads() -> int:
    """As many as BLAS would use by itself, so that OMP_NUM_THREADS and the like are heeded."""
    counts = [int(library["num_threads"]) for library in blas().info()]
    return max([1, *counts])


@contextmanager
def threads_for_blocks() -> Iterator[None]:
    """Leave the cores to the threads that work on blocks.

    For whole computations, not for single passes: a thread of BLAS that has just worked spins for a while, and
    a pass that had to share its core with one took nearly twice as long.
    """
    blas_threads()  # asked before the limit is set
    with blas().limit(limits=1):
        yield


def chunks(length: int, size: int) -> list[slice]:
    """0 to ``length`` in pieces of ``size``, the last one shorter if need be."""
    return [slice(start, min(start + size, length)) for start in range(0, length, size)]


def row_slices(X: Matrix, block_rows: int | None = None) -> list[slice]:
    """The rows of X in blocks of a size that is good to work on."""
    n, d = int(X.shape[0]), int(X.shape[1])
    if sparse.issparse(X):
        size = X.nnz
        target = whole = max(SPARSE_BLOCK_VALUES, VALUES_PER_FEATURE * d)
    else:
        size, target, whole = n * d * X.dtype.itemsize, DENSE_BLOCK_BYTES, WHOLE_BYTES
    # In fours, so that no thread idles at the end of a pass over few blocks.
    blocks = 1 if size <= whole else 4 * math.ceil(size / target / 4)
    return chunks(n, block_rows or max(1, -(-n // blocks)))


def row_view(X: Matrix, rows: slice) -> Matrix:
    """Rows of X without copying its values."""
    if not sparse.issparse(X):
        return X[rows]
    first, last = X.indptr[rows.start], X.indptr[rows.stop]
    parts = (X.data[first:last], X.indices[first:last], X.indptr[rows.start : rows.stop + 1] - first)
    return sparse.csr_array(parts, shape=(rows.stop - rows.start, X.shape[1]), copy=False)


@dataclass(frozen=True)
class Moments:
    """What a solver must know of X before it starts."""

    mean: float
    means: Array  # (d,) of every feature
    squares: Array  # (d,) sum_i x_ij^2

    def spread(self, samples: int) -> Array:
        """(d,) sum_i (x_ij - mean_j)^2."""
        spread: Array = np.maximum(self.squares - samples * self.means**2, 0)
        return spread


def moments(source: BlockSource) -> Moments:
    n, d = source.shape
    sums, squares = np.zeros(d), np.zeros(d)
    for _, (block_sums, block_squares) in source.map(block_moments):
        sums += block_sums
        squares += block_squares
    return Moments(mean=float(sums.sum()) / (n * d), means=sums / n, squares=squares)


def block_moments(X_b: Matrix) -> tuple[Array, Array]:
    if sparse.issparse(X_b):
        values, d = X_b.data.astype(np.float64), X_b.shape[1]
        sums, squares = (
            np.bincount(X_b.indices, weights=weights, minlength=d) for weights in (values, values * values)
        )
        return sums, squares
    return X_b.sum(axis=0, dtype=np.float64), np.einsum("ij,ij->j", X_b, X_b, dtype=np.float64)


def times(source: BlockSource, right: Array) -> Array:
    """X right, (n, r), in the precision of ``right``."""
    product = np.empty((source.shape[0], right.shape[1]), dtype=right.dtype)
    for where, rows in source.map(narrow_product, shared=(right.astype(source.dtype, copy=False),)):
        product[where] = rows
    return product


def transposed_times(source: BlockSource, left: Array) -> Array:
    """X' left, (d, r)."""
    product = np.zeros((source.shape[1], left.shape[1]))
    for _, partial in source.map(block_transposed_times, (left.astype(source.dtype),)):
        product += partial
    return product


def block_transposed_times(X_b: Matrix, left_b: Array) -> Array:
    product: Array = X_b.T @ left_b
    return product


def narrow_product(X_b: Matrix, right: Array) -> Array:
    """X_b right for a right (d, k) with few columns; a dense X_b goes to BLAS in slices of few rows."""
    rows, (d, k) = X_b.shape[0], right.shape
    height = max(1, UNPACKED_PRODUCT // (d * k))
    if sparse.issparse(X_b) or rows <= height:
        return X_b @ right  # type: ignore[no-any-return]
    whole = rows - rows % height
    product = np.empty((rows, k), dtype=np.result_type(X_b, right))
    np.matmul(X_b[:whole].reshape(-1, height, d), right, out=product[:whole].reshape(-1, height, k))
    if whole < rows:
        np.matmul(X_b[whole:], right, out=product[whole:])
    return product
