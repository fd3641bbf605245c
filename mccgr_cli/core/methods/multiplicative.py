"""W <- W * (X(rho*H)' + alpha A W) / (W(rho*H)H' + alpha u*W): the multiplicative updates.

One update serves four methods: ``mccgr`` (correntropy, graph), ``mcc`` (correntropy), ``grnmf`` (squared error, graph)
and ``l2`` (squared error).

References
----------
L. Li, J. Yang, K. Zhao, Y. Xu, H. Zhang, Z. Fan: Graph Regularized Non-negative Matrix Factorization By
Maximizing Correntropy. Journal of Computers, 2014 (``mccgr``).
J. J.-Y. Wang, X. Wang, X. Gao: Non-negative matrix factorization by maximizing correntropy for cancer
clustering. BMC Bioinformatics 14:107, 2013 (``mcc``).
D. Cai, X. He, J. Han, T. S. Huang: Graph regularized nonnegative matrix factorization for data
representation. IEEE TPAMI 33(8), 2011 (``grnmf``).
D. D. Lee, H. S. Seung: Algorithms for non-negative matrix factorization. NIPS 13, 2001 (``l2``).
"""

from __future__ import annotations

import numpy as np

from mccgr_cli.blocks.products import Products
from mccgr_cli.blocks.protocol import Array, Matrix, Partial
from mccgr_cli.core.methods.base import AlternatingUpdate, cross_products, quotient


class MultiplicativeUpdate(AlternatingUpdate):
    """H <- H * (W'X) / (W'WH),  W <- W * (X(rho*H)' + alpha A W) / (W(rho*H)H' + alpha u*W)."""

    def improve_coefficients(self, rho: Array) -> None:
        weighted = rho * self.H
        dtype = self.source.dtype
        shared = (np.ascontiguousarray(weighted.T, dtype=dtype), (weighted @ self.H.T).astype(dtype), self.products)
        degrees = None if self.graph is None else self.graph.degrees
        self.pass_over_X(multiply_rows, (self.W, self.neighbour_sum, degrees), shared, into=(self.W,))


def multiply_rows(
    X_b: Matrix, W_b: Array, AW_b: Array | None, u_b: Array | None, weighted: Array, gram: Array, products: Products
) -> Partial:
    """The step for a block of W, with its W'X and W'W.

    ``AW_b`` is alpha A W, ``u_b`` is alpha u, ``weighted`` is (rho*H)', ``gram`` is (rho*H)H'.
    """
    kernels = products.kernels(X_b, W_b.shape[1])
    if kernels is not None:
        P_b, new = kernels.multiplicative_step(X_b, W_b, AW_b, u_b, weighted, gram)
        return Partial((P_b, new.T @ new), (new,))
    numerator = products.narrow(X_b, weighted)
    denominator = W_b @ gram
    if AW_b is not None and u_b is not None:
        numerator += AW_b
        denominator += u_b[:, None] * W_b
    new = quotient(numerator, denominator)
    new *= W_b
    return cross_products(X_b, new, products, new)
