"""The two products of a pass over X with factors of few components: X_b M, and W_b'X_b."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from typing import Any

import numpy as np
from scipy import sparse

from mccgr_cli.blocks import Array, BlockSource, Matrix, narrow_product

# Compiled products pay for dense matrices of this size at least (loading them takes some tenths of a second), and up
# to so many components (benchmarks/products.py).
COMPILED_BYTES = 64 << 20
COMPILED_COMPONENTS = 10


@dataclass(frozen=True)
class Products:
    """By BLAS and scipy, or for dense blocks by compiled code. Goes along to whoever has the blocks."""

    compiled: bool = False

    def narrow(self, X_b: Matrix, right: Array) -> Array:
        """X_b right for a right (d, k)."""
        kernels = self.kernels(X_b)
        product: Array = narrow_product(X_b, right) if kernels is None else kernels.narrow_product(X_b, right)
        return product

    def cross(self, left_b: Array, X_b: Matrix) -> Array:
        """left_b'X_b for a left_b (rows, k)."""
        kernels = self.kernels(X_b)
        product: Array = left_b.T @ X_b if kernels is None else kernels.cross_product(left_b, X_b)
        return product

    def kernels(self, X_b: Matrix) -> Any:
        """The module of compiled code, where it serves."""
        if not self.compiled or sparse.issparse(X_b) or not X_b.flags.c_contiguous or not has_numba():
            return None
        from mccgr_cli import compiled

        return compiled


@cache
def has_numba() -> bool:
    return find_spec("numba") is not None


def products_for(source: BlockSource, k: int) -> Products:
    large = float(np.prod(source.shape, dtype=float)) * source.dtype.itemsize >= COMPILED_BYTES
    return Products(compiled=large and k <= COMPILED_COMPONENTS)
