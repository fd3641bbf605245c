"""The two products of a pass over X with factors of few components: X_b M, and W_b'X_b."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from typing import Any

import numpy as np
from scipy import sparse

from mccgr_cli.blocks import Array, BlockSource, Matrix, narrow_product

# Compiled code pays for matrices of this size at least (loading it takes some tenths of a second), and its products for
# dense ones up to so many components (python -m benchmarks.products).
COMPILED_BYTES = 32 << 20
COMPILED_COMPONENTS = 30


@dataclass(frozen=True)
class Products:
    """By BLAS and scipy, or for dense blocks by compiled code. Goes along to whoever has the blocks."""

    compiled: bool = False

    def narrow(self, X_b: Matrix, right: Array) -> Array:
        """X_b right for a right (d, k)."""
        kernels = self.kernels(X_b, right.shape[1])
        product: Array = narrow_product(X_b, right) if kernels is None else kernels.narrow_product(X_b, right)
        return product

    def cross(self, left_b: Array, X_b: Matrix) -> Array:
        """left_b'X_b for a left_b (rows, k)."""
        kernels = self.kernels(X_b, left_b.shape[1])
        product: Array = left_b.T @ X_b if kernels is None else kernels.cross_product(left_b, X_b)
        return product

    def kernels(self, X_b: Matrix, k: int) -> Any:
        """The module of compiled code, where it is faster for products with k components."""
        if k > COMPILED_COMPONENTS or sparse.issparse(X_b) or not X_b.flags.c_contiguous:
            return None
        return self.module()

    def module(self) -> Any:
        """The module of compiled code, where it is used at all."""
        if not self.compiled or not has_numba():
            return None
        from mccgr_cli import compiled

        return compiled


@cache
def has_numba() -> bool:
    return find_spec("numba") is not None


def products_for(source: BlockSource) -> Products:
    return Products(float(np.prod(source.shape, dtype=float)) * source.dtype.itemsize >= COMPILED_BYTES)
