"""The block protocol: a matrix that is only ever visited a block of samples at a time.

A source knows how to call a function on every block of rows of X. Where the rows are (memory, a file,
other machines) is its own business; solvers see only :class:`BlockSource`.

A function for blocks sits at module level with explicit arguments, so that other processes can call it, and returns a
:class:`Partial`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

Array: TypeAlias = NDArray[Any]
Matrix: TypeAlias = Any  # an Array or a scipy.sparse.csr_array, which has no types of its own


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


def chunks(length: int, size: int) -> list[slice]:
    """0 to ``length`` in pieces of ``size``, the last one shorter if need be."""
    return [slice(start, min(start + size, length)) for start in range(0, length, size)]
