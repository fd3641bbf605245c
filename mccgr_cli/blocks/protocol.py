"""The block protocol: X is visited one block of rows at a time.

A source calls a function on every block of rows of X. It alone knows where the rows are: in memory, in a file, or on
other machines. Solvers only see a :class:`BlockSource`.

Block functions are defined at module level and take explicit arguments, so that they can be sent to other processes.
They return a :class:`Partial`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from mccgr_cli.system.phases import advance

Array: TypeAlias = NDArray[Any]
Matrix: TypeAlias = Any  # an Array or a scipy.sparse.csr_array, which has no types of its own
Result = TypeVar("Result")


class Partial(NamedTuple):
    """The result for one block, or for several that a source has joined. A source may reuse its memory."""

    sums: tuple[Any, ...] = ()  # over the samples of the block; those of all blocks are added
    rows: tuple[Any, ...] = ()  # arrays with one row per sample of the block; those of all blocks are stacked


class BlockSource(Protocol):
    """A non-negative matrix X (n, d) in blocks of rows."""

    @property
    def shape(self) -> tuple[int, int]: ...

    @property
    def dtype(self) -> np.dtype[Any]: ...

    @property
    def whole(self) -> Matrix | None:
        """X itself if it is in memory."""
        ...

    def map(
        self, function: Callable[..., Partial], rows: Sequence[Array | None] = (), shared: Sequence[Any] = ()
    ) -> Iterator[tuple[slice, Partial]]:
        """Call ``function(X_b, *rows_b, *shared)`` on every block; yield its row numbers and the result, in order.

        ``rows`` are arrays with one row per sample, or None: the function gets the rows of its block.
        """
        ...

    def take(self, where: slice) -> Matrix:
        """Consecutive rows of X."""
        ...


def sum_over_blocks(
    source: BlockSource,
    function: Callable[..., Partial],
    rows: Sequence[Array | None] = (),
    shared: Sequence[Any] = (),
    into: Sequence[Array] = (),
) -> list[Array]:
    """Pass over X once: return the sums over all blocks in double precision, and write resulting rows ``into`` arrays.

    The other parameters are those of :meth:`BlockSource.map`.
    """
    return sum_partials(counted(source.map(function, rows, shared)), into)


def counted(found: Iterable[tuple[slice, Result]]) -> Iterator[tuple[slice, Result]]:
    """The same results of blocks; tells the phase under way how many rows are done."""
    for where, result in found:
        yield where, result
        advance(where.stop - where.start, "rows")


def sum_partials(found: Iterable[tuple[slice, Partial]], into: Sequence[Array]) -> list[Array]:
    totals: list[Array] | None = None
    for where, partial in found:
        if totals is None:
            totals = [np.array(one, dtype=np.float64) for one in partial.sums]  # keeps the memory order of products
        else:
            for total, one in zip(totals, partial.sums, strict=True):
                total += one
        for array, rows in zip(into, partial.rows, strict=True):
            array[where] = rows
    return totals or []


def join_partials(found: Iterable[tuple[slice, Partial]]) -> Partial:
    """The results of consecutive blocks as one result."""
    rows: list[tuple[Array, ...]] = []

    def sums_only() -> Iterator[tuple[slice, Partial]]:
        for where, partial in found:
            rows.append(partial.rows)
            yield where, Partial(partial.sums)

    sums = sum_partials(sums_only(), ())
    return Partial(tuple(sums), tuple(np.concatenate(arrays) for arrays in zip(*rows, strict=True)))


@dataclass(frozen=True)
class Size:
    """The size of a matrix. It decides how large blocks are."""

    samples: int
    features: int
    itemsize: int
    values: int | None = None  # number of stored values of a sparse matrix

    @property
    def bytes(self) -> int:
        if self.values is None:
            return self.samples * self.features * self.itemsize
        return self.values * (self.itemsize + 4) + 8 * self.samples


def chunks(length: int, size: int) -> list[slice]:
    """Slices of ``size`` that cover 0 to ``length``; the last one may be shorter."""
    return [slice(start, min(start + size, length)) for start in range(0, length, size)]
