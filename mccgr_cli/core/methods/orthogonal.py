"""The graph term whose components are clusters: ``mccgr`` and ``grnmf`` in their orthogonal form.

Left to itself, the graph term of the paper is smallest where every column of W is constant. Here it has a second part,
which keeps the columns apart: alpha [tr(W'LW) + 1/(2c) ||W'UW - cI||^2], where c is the mean degree sum of a component.

References
----------
C. Ding, T. Li, W. Peng, H. Park: Orthogonal nonnegative matrix tri-factorizations for clustering. KDD 2006 (the bound
for the fourth power of W).
"""

from __future__ import annotations

import numpy as np

from mccgr_cli.blocks.products import Products
from mccgr_cli.blocks.protocol import Array, Matrix, Partial, chunks
from mccgr_cli.core.methods.base import NODE_BLOCK, AlternatingUpdate, GraphTerm, Terms, cross_products, quotient
from mccgr_cli.core.principal_axes import nonzero


class OrthogonalUpdate(AlternatingUpdate):
    """W <- W * sqrt(2c / (a + sqrt(a^2 + 4bc))), where b z^4 + a z^2 = c; docs/METHOD.md has a, b, c and the proof.

    H moves as in the multiplicative updates.
    """

    graph: GraphTerm

    def start(self) -> Terms:
        self.scale_columns()
        return super().start()

    def scale_columns(self) -> None:
        """Give every column of W the size that the graph term asks for. WH does not change."""
        degrees = self.graph.plain_degrees
        squares = np.einsum("ik,ik,i->k", self.W, self.W, degrees, dtype=np.float64)
        sizes = nonzero(np.sqrt(squares * len(self.H) / (degrees.sum() or 1)))
        self.W /= sizes.astype(self.W.dtype)
        self.H *= sizes[:, None]

    def improve_coefficients(self, rho: Array) -> None:
        weighted, dtype = rho * self.H, self.source.dtype
        shared = (
            np.ascontiguousarray(weighted.T, dtype=dtype),
            (weighted @ self.H.T).astype(dtype),
            self.overlap.astype(dtype),
            self.products,
        )
        rows = (self.W, self.neighbour_sum, self.graph.degrees)
        self.pass_over_X(step_rows, rows, shared, into=(self.W,))

    def _measure_graph(self) -> None:
        super()._measure_graph()
        degrees, k = self.graph.degrees, len(self.H)
        self.mean_overlap = float(degrees.sum(dtype=np.float64)) / k  # alpha c
        self.overlap = np.zeros((k, k))  # alpha W'UW
        for some in chunks(len(self.W), NODE_BLOCK):
            W_b = self.W[some].astype(np.float64)
            self.overlap += W_b.T @ (degrees[some, None] * W_b)
        self.overlap /= self.mean_overlap or 1  # W'UW / c
        excess = self.overlap - np.eye(k) * (self.mean_overlap > 0)
        self.graph_value += self.mean_overlap / 2 * float((excess**2).sum())


def step_rows(
    X_b: Matrix, W_b: Array, AW_b: Array, u_b: Array, weighted: Array, gram: Array, overlap: Array, products: Products
) -> Partial:
    """The step for a block of W, with its W'X and W'W.

    ``AW_b`` is alpha A W, ``u_b`` is alpha u, ``weighted`` is (rho*H)', ``gram`` is (rho*H)H', ``overlap`` is W'UW/c.
    """
    pull = products.narrow(X_b, weighted)
    pull += AW_b
    data = W_b @ gram
    crowding = u_b[:, None] * (W_b @ overlap)
    # sqrt(data^2 + 4 crowding pull), without squares that overflow
    root = np.hypot(data, 2 * np.sqrt(crowding) * np.sqrt(pull))
    new = np.sqrt(quotient(2 * pull, data + root))
    new *= W_b
    return cross_products(X_b, new, products, new)
