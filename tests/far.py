"""A source whose X is, to those who use it, elsewhere."""

from __future__ import annotations

import pickle
from itertools import islice

import numpy as np

from mccgr_cli.blocks.in_memory import MemoryBlocks
from mccgr_cli.blocks.protocol import Partial


class FarBlocks:
    """Small blocks, called by functions that were pickled, some of whose results are put together on the way."""

    whole = None

    def __init__(self, X, block_rows=7, together=(1, 3, 2)):
        self._blocks = MemoryBlocks(X, block_rows)
        self._together = together
        self.shape, self.dtype = self._blocks.shape, self._blocks.dtype
        self.passes, self.taken = 0, []

    def map(self, function, rows=(), shared=()):
        self.passes += 1
        function, rows, shared = pickle.loads(pickle.dumps((function, tuple(rows), tuple(shared))))
        results, sizes = self._blocks.map(function, rows, shared), self._together
        while several := list(islice(results, sizes[0])):
            wheres, partials = zip(*several, strict=True)
            merged = Partial(
                tuple(sum(parts[1:], parts[0]) for parts in zip(*(one.sums for one in partials), strict=True)),
                tuple(np.concatenate(parts) for parts in zip(*(one.rows for one in partials), strict=True)),
            )
            yield slice(wheres[0].start, wheres[-1].stop), pickle.loads(pickle.dumps(merged))
            sizes = (*sizes[1:], sizes[0])

    def take(self, where):
        self.taken.append(where)
        return pickle.loads(pickle.dumps(self._blocks.take(where)))
