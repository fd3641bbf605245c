"""The block protocol: a matrix that is only ever visited a block of samples at a time.

A source knows how to call a function on every block of rows of X. Where the rows are (memory, a file,
other machines) is its own business; solvers see only :class:`BlockSource`.

A function for blocks sits at module level with explicit arguments, so that other processes can call it, and returns a
:class:`Partial`.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple, Protocol, TypeAlias, TypeGuard

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


class Partial(NamedTuple):
    """What is found of a block. A source may put those of several blocks together, and use their memory again."""

    sums: tuple[Any, ...] = ()  # over the samples of the block: to be added to those of other blocks
    rows: tuple[
        Any, ...
    ] = ()  # arrays with a row for each sample of the block: to be put below those of the block before


class BlockSource(Protocol):
    """A non-negative matrix X (n, d) in blocks of rows."""

    @property
    def shape(self) -> tuple[int, int]: ...

    @property
    def dtype(self) -> np.dtype[Any]: ...

    @property
    def whole(self) -> Matrix | None:
        """X itself, where it is in memory."""
        ...

    def map(
        self, function: Callable[..., Partial], rows: Sequence[Array | None] = (), shared: Sequence[Any] = ()
    ) -> Iterator[tuple[slice, Partial]]:
        """Call ``function(X_b, *rows_b, *shared)`` on every block; yield, in order, its rows and the result.

        ``rows`` are arrays with a row per sample (or None), cut to the block; ``shared`` goes to all blocks.
        """
        ...

    def take(self, where: slice) -> Matrix:
        """Some consecutive rows of X."""
        ...


def is_matrix(X: Matrix | BlockSource) -> TypeGuard[Matrix]:
    """Whether X is in memory, and no source."""
    return isinstance(X, np.ndarray) or bool(sparse.issparse(X))


def as_source(X: Matrix | BlockSource) -> BlockSource:
    """A matrix in memory is a source too."""
    return MemoryBlocks(X) if is_matrix(X) else X


def sweep(
    source: BlockSource,
    function: Callable[..., Partial],
    rows: Sequence[Array | None] = (),
    shared: Sequence[Any] = (),
    into: Sequence[Array] = (),
) -> list[Array]:
    """One pass over X: what ``function`` sums up, in double precision; the rows that it returns go ``into`` arrays."""
    return add_up(source.map(function, rows, shared), into)


def add_up(found: Iterable[tuple[slice, Partial]], into: Sequence[Array]) -> list[Array]:
    totals: list[Array] | None = None
    for where, partial in found:
        if totals is None:
            totals = [np.array(one, dtype=np.float64) for one in partial.sums]  # in the order that products have
        else:
            for total, one in zip(totals, partial.sums, strict=True):
                total += one
        for array, part in zip(into, partial.rows, strict=True):
            array[where] = part
    return totals or []


def merged(found: Iterable[tuple[slice, Partial]]) -> Partial:
    """Those of consecutive blocks as one."""
    rows: list[tuple[Array, ...]] = []

    def kept() -> Iterator[tuple[slice, Partial]]:
        for where, partial in found:
            rows.append(partial.rows)
            yield where, Partial(partial.sums)

    sums = add_up(kept(), ())
    return Partial(tuple(sums), tuple(np.concatenate(parts) for parts in zip(*rows, strict=True)))


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


class ThreadedCalls:
    """Several blocks are worked on at once, each by one thread (see :func:`threads_for_blocks`).

    Threads of BLAS's own gain little on products as narrow as these.
    """

    def __init__(self, threads: int) -> None:
        self._threads = threads
        self._pool = ThreadPoolExecutor(threads - 1) if threads > 1 else None
        self.ahead = 2 * threads + 1 if threads > 1 else 1  # blocks that may be taken before the first is done

    def results(
        self, function: Callable[..., Any], calls: Iterable[tuple[slice, tuple[Any, ...]]]
    ) -> Iterator[tuple[slice, Any]]:
        """What ``function`` makes of the arguments for each block, in their order."""
        if self._pool is None:
            for where, arguments in calls:
                yield where, function(*arguments)
            return
        waiting: deque[Call] = deque()
        try:
            for where, arguments in calls:
                waiting.append(Call(where, function, arguments, self._pool))
                if len(waiting) >= self.ahead:  # results are taken as they come: few are held at a time
                    yield self._next(waiting)
            while waiting:
                yield self._next(waiting)
        finally:  # when it ends early: nobody may still be using a block
            wait([call.future for call in waiting if not call.future.cancel()])

    def _next(self, waiting: deque[Call]) -> tuple[slice, Any]:
        """The result of the first call; while others are at it, this thread works on those that nobody has begun."""
        while not waiting[0].future.done() and any(call.take_over() for call in waiting):
            pass
        call = waiting.popleft()
        return call.where, call.future.result()


def cut(rows: Sequence[Array | None], where: slice) -> tuple[Array | None, ...]:
    return tuple(None if array is None else array[where] for array in rows)


class MemoryBlocks:
    """Blocks of a dense or CSR matrix in memory, as views: nothing is copied.

    The blocks, and so the rounding, do not depend on how many threads work on them.
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
        """As the protocol has it; here the function may also be a local one, and return anything."""
        calls = ((where, (block, *cut(rows, where), *shared)) for where, block in self._blocks)
        return self._calls.results(function, calls)

    def take(self, where: slice) -> Matrix:
        return row_view(self.whole, where)


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


@dataclass(frozen=True)
class Size:
    """Of a matrix, as far as it decides on the blocks that are good to work on."""

    samples: int
    features: int
    itemsize: int
    values: int | None = None  # that a sparse matrix stores

    @property
    def bytes(self) -> int:
        if self.values is None:
            return self.samples * self.features * self.itemsize
        return self.values * (self.itemsize + 4) + 8 * self.samples


def size_of(X: Matrix) -> Size:
    return Size(int(X.shape[0]), int(X.shape[1]), X.dtype.itemsize, int(X.nnz) if sparse.issparse(X) else None)


def row_slices(size: Size, block_rows: int | None = None) -> list[slice]:
    """The rows of X in blocks of a size that is good to work on."""
    if size.values is not None:
        amount = size.values
        target = whole = max(SPARSE_BLOCK_VALUES, VALUES_PER_FEATURE * size.features)
    else:
        amount, target, whole = size.bytes, DENSE_BLOCK_BYTES, WHOLE_BYTES
    # In fours, so that no thread idles at the end of a pass over few blocks.
    blocks = 1 if amount <= whole else 4 * math.ceil(amount / target / 4)
    return chunks(size.samples, block_rows or max(1, -(-size.samples // blocks)))


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
    sums, squares = sweep(source, block_moments)
    return Moments(mean=float(sums.sum()) / (n * d), means=sums / n, squares=squares)


def block_moments(X_b: Matrix) -> Partial:
    if sparse.issparse(X_b):
        values, d = X_b.data.astype(np.float64), X_b.shape[1]
        sums, squares = (
            np.bincount(X_b.indices, weights=weights, minlength=d) for weights in (values, values * values)
        )
        return Partial((sums, squares))
    return Partial((X_b.sum(axis=0, dtype=np.float64), np.einsum("ij,ij->j", X_b, X_b, dtype=np.float64)))


def times(source: BlockSource, right: Array, dtype: Any = None) -> Array:
    """X right, (n, r), in the precision of ``right`` unless told."""
    product = np.empty((source.shape[0], right.shape[1]), dtype=dtype or right.dtype)
    sweep(source, block_times, shared=(right.astype(source.dtype, copy=False),), into=(product,))
    return product


def block_times(X_b: Matrix, right: Array) -> Partial:
    return Partial(rows=(narrow_product(X_b, right),))


def transposed_times(source: BlockSource, left: Array) -> Array:
    """X' left, (d, r)."""
    (product,) = sweep(source, block_transposed_times, (left.astype(source.dtype),))
    return product


def block_transposed_times(X_b: Matrix, left_b: Array) -> Partial:
    return Partial((X_b.T @ left_b,))


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
