"""Products and sums over all blocks of X. A pass needs two products with few columns: X_b M and W_b'X_b."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from typing import Any

import numpy as np
from scipy import sparse

from mccgr_cli.blocks.protocol import Array, BlockSource, Matrix, Partial, sum_over_blocks

# Compiled code is used for matrices of at least this size, because loading it takes some tenths of a second, and its
# products up to this number of components (python -m benchmarks.products).
COMPILED_BYTES = 32 << 20
COMPILED_COMPONENTS = 30
# Up to this number of multiplications OpenBLAS does not repack its matrices, which takes longer than a product with few
# columns itself (python -m benchmarks.products).
UNPACKED_PRODUCT = 1_000_000


@dataclass(frozen=True)
class Products:
    """Products by BLAS and scipy, or by compiled code for dense blocks. Can be sent to other processes."""

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
        """The module of compiled code if it is faster for products with k columns, else None."""
        if k > COMPILED_COMPONENTS or sparse.issparse(X_b) or not X_b.flags.c_contiguous:
            return None
        return self.module()

    def module(self) -> Any:
        """The module of compiled code if it is used at all, else None."""
        if not self.compiled or not has_numba():
            return None
        from mccgr_cli.blocks import kernels

        return kernels


@cache
def has_numba() -> bool:
    return find_spec("numba") is not None


def products_for(source: BlockSource) -> Products:
    return Products(float(np.prod(source.shape, dtype=float)) * source.dtype.itemsize >= COMPILED_BYTES)


@dataclass(frozen=True)
class Moments:
    """Sums over X that a solver needs before it starts."""

    mean: float
    means: Array  # (d,) mean of every feature
    squares: Array  # (d,) sum_i x_ij^2

    def spread(self, samples: int) -> Array:
        """sum_i (x_ij - mean_j)^2 of every feature, (d,)."""
        spread: Array = np.maximum(self.squares - samples * self.means**2, 0)
        return spread


def moments(source: BlockSource) -> Moments:
    n, d = source.shape
    sums, squares = sum_over_blocks(source, block_moments)
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
    """X right, (n, r), by default in the precision of ``right``."""
    product = np.empty((source.shape[0], right.shape[1]), dtype=dtype or right.dtype)
    sum_over_blocks(source, block_times, shared=(right.astype(source.dtype, copy=False),), into=(product,))
    return product


def block_times(X_b: Matrix, right: Array) -> Partial:
    return Partial(rows=(narrow_product(X_b, right),))


def transposed_times(source: BlockSource, left: Array) -> Array:
    """X' left, (d, r)."""
    (product,) = sum_over_blocks(source, block_transposed_times, (left.astype(source.dtype),))
    return product


def block_transposed_times(X_b: Matrix, left_b: Array) -> Partial:
    return Partial((X_b.T @ left_b,))


def narrow_product(X_b: Matrix, right: Array) -> Array:
    """X_b right for a right (d, k) with few columns; BLAS gets a dense X_b in slices of few rows."""
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
