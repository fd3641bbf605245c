"""The search by histogram intersection: the larger the sum of minima of two samples, the nearer they are."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy import sparse

from mccgr_cli.blocks.protocol import Array, Matrix
from mccgr_cli.blocks.rows import row_sizes
from mccgr_cli.core.neighbours.distances import EXTRA, Candidates, Group, smallest


@dataclass(frozen=True)
class IntersectionSearch:
    """A search among the rows of a group; they are in double precision."""

    group: Group
    features: Matrix | None  # the transposed rows if they are sparse
    sums: Array  # of the rows

    @classmethod
    def among(cls, group: Group) -> IntersectionSearch:
        rows = group.rows.astype(np.float64)
        features = rows.T.tocsr() if sparse.issparse(rows) else None
        return cls(replace(group, rows=rows), features, row_sizes(rows, "l1"))

    def nearest(self, queries: Matrix, numbers: Array, limit: Array | None, neighbors: int) -> Candidates:
        """See :meth:`mccgr_cli.core.neighbours.streamed.DistanceSearch.nearest`."""
        gaps = self.group.exclude(self._gaps(queries), numbers)
        return smallest(gaps, neighbors + EXTRA, self.group.first)

    def _gaps(self, queries: Matrix) -> Array:
        """For every query a value for each row, which is smaller the larger their sum of minima is.

        A sum of minima is half of (both sums - |x - y|_1), and the sum of the query is the same for all rows.
        """
        if self.features is None:
            from scipy.spatial.distance import cdist

            gaps: Array = cdist(queries, self.group.rows, "cityblock")
            gaps -= self.sums
            return gaps
        minima = [sums_of_minima(queries[[i]], self.features) for i in range(queries.shape[0])]
        return -np.array(minima, dtype=np.float64)


def sums_of_minima(sample: Matrix, features: Matrix) -> Array:
    """The sums of minima of one sparse sample with all samples, (n,)."""
    shared = features[sample.indices]
    minima = np.minimum(shared.data, np.repeat(sample.data, np.diff(shared.indptr)))
    return np.bincount(shared.indices, weights=minima, minlength=features.shape[1])
