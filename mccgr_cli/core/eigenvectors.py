"""The leading eigenvectors of symmetric matrices. Slow to import, so import it where it is used.

The import comes before the limit of the threads, which holds only for libraries that are loaded already.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse
from scipy.linalg import eigh
from scipy.sparse.linalg import LinearOperator, eigsh

from mccgr_cli.blocks.protocol import Array
from mccgr_cli.blocks.threads import threads_for_blocks
from mccgr_cli.system.phases import advance, phase

FEW = 2000  # rows up to which a sparse matrix is made dense
MANY = 200_000  # rows from which on less memory is used, and more steps


@threads_for_blocks()  # rounding depends on threads, and decides the order of vectors of the same value
def leading_eigenvectors(K: Any, count: int, known: Any = None) -> tuple[Array, Array]:
    """The largest eigenvalues (count,), the largest first, and their vectors (n, count).

    K is an array, or sparse. ``known`` (n, m) are all vectors of the largest eigenvalue, 1, and only the others are
    computed. They are needed if K has more than FEW rows: the method of Lanczos finds one vector of each eigenvalue.
    """
    n = K.shape[0]
    if sparse.issparse(K) and (n <= FEW or 4 * count >= n):
        K = K.toarray()
    if isinstance(K, np.ndarray):
        values, vectors = eigh(K, subset_by_index=(n - count, n - 1))
    elif known is not None:
        some = known[:, :count].toarray()
        others = LinearOperator(K.shape, lambda x: K @ x - known @ (known.T @ x), dtype=K.dtype)
        values, vectors = np.ones(some.shape[1]), some
        if some.shape[1] < count:
            found = leading_eigenvectors(others, count - some.shape[1])
            values, vectors = np.append(values, found[0]), np.hstack([some, found[1]])
    else:
        start = np.random.default_rng(0).random(n)
        basis = (2 if n > MANY else 4) * count  # number of Lanczos vectors, each of length n

        def product(x: Array) -> Any:
            advance(1, "products")
            return K @ x

        with phase("eigenvectors", "products"):
            counted = LinearOperator(K.shape, product, dtype=K.dtype)
            values, vectors = eigsh(counted, k=count, which="LA", v0=start, ncv=min(n, max(basis + 1, 20)))
    order = np.argsort(-values, kind="stable")
    return values[order], vectors[:, order]
