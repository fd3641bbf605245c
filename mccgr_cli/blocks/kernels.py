"""The inner loops of a pass over a dense X, compiled by numba, which is imported with this module.

BLAS repacks X for every product, which takes longer than a product with few components itself. Here five rows of X are
multiplied with five components at a time, in registers, and nothing is copied (``python -m benchmarks.products``).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

TILE = 5  # rows, and components, that are worked on together; the code below is written for this number
LINE = 64  # bytes of a cache line

# The compiler may reorder sums, so that it can use vector instructions; infinities and NaN are respected.
options: dict[str, Any] = {"error_model": "numpy", "fastmath": {"reassoc", "contract", "nsz"}}
compiled = njit(cache=True, nogil=True, **options)
inlined = njit(inline="always", **options)  # the compiler must see where the arrays come from


def narrow_product(X: Any, right: Any) -> Any:
    """X right for a C-contiguous X (rows, d) and a right (d, k)."""
    k = right.shape[1]
    return multiply(X, pad_basis(right.T), np.empty((len(X), round_up(k)), dtype=X.dtype))[:, :k]


def cross_product(left: Any, X: Any) -> Any:
    """left' X for a left (rows, k) and a C-contiguous X (rows, d)."""
    rows, k = left.shape
    return gather(X, padded(left, rows, round_up(k)), padded_width(X))[:k, : X.shape[1]]


def multiplicative_step(X: Any, W: Any, neighbours: Any, degrees: Any, right: Any, gram: Any) -> tuple[Any, Any]:
    """The new W = W * (X right + neighbours) / (W gram + degrees*W); returns W'X of it, and W.

    X and W are C-contiguous. ``neighbours`` (rows, k) and ``degrees`` (rows,) are None without a graph.
    """
    (rows, k), limits = W.shape, np.finfo(X.dtype)
    if neighbours is None:
        neighbours, degrees = np.zeros((rows, 0), dtype=X.dtype), np.zeros(rows, dtype=X.dtype)
    sums, new = multiply_rows(X, W, neighbours, degrees, pad_basis(right.T), gram, limits.tiny, np.sqrt(limits.max))
    return sums[:k, : X.shape[1]], new[:, :k]


def descended(W: Any, target: Any, gram: Any, bound: Any, rounds: int) -> Any:
    """See the function of this name in core/methods/coordinate.py."""
    own = np.diag(gram)
    k = round_up(len(own))
    others = padded(gram - np.diag(own), k, k)
    if bound is None:
        bound = np.zeros(len(W), dtype=W.dtype)
    limits = np.finfo(W.dtype)
    smallest = max(limits.tiny, (float(own.max()) + float(bound.max(initial=0))) * limits.eps**2)
    return descend_rows(W, target, own, others, bound, rounds, W.dtype.type(smallest))


def pad_basis(basis: Any) -> Any:
    """A basis (k, d) with zero columns and rows appended; the number of rows is a multiple of five."""
    return padded(basis, round_up(len(basis)), padded_width(basis))


def padded_width(rows: Any) -> Any:
    """Width in values: an odd number of cache lines. With some even numbers all rows would compete for a few lines."""
    values = LINE // rows.itemsize
    lines = -(-rows.shape[1] // values)
    return (lines + (lines + 1) % 2) * values


def padded(F: Any, rows: int, columns: int) -> Any:
    """F with zeros appended, C-contiguous; F itself if it has this shape already."""
    if F.shape == (rows, columns) and F.flags.c_contiguous:
        return F
    larger = np.zeros((rows, columns), dtype=F.dtype)
    larger[: F.shape[0], : F.shape[1]] = F
    return larger


def round_up(number: int) -> int:
    return -(-number // TILE) * TILE


@compiled
def multiply(X, basis, product):  # type: ignore[no-untyped-def]
    """product <- X basis'; the number of rows of the basis (k, d) is a multiple of five."""
    for i in range(0, len(X), 5):
        multiply_tile(X[i : i + 5], basis, product[i : i + 5])
    return product


@compiled
def gather(X, left, width):  # type: ignore[no-untyped-def]
    """left'X with zero columns up to ``width``; the number of columns of left (rows, k) is a multiple of five."""
    sums = np.zeros((left.shape[1], width), dtype=X.dtype)
    for i in range(0, len(X), 5):
        gather_tile(X[i : i + 5], left[i : i + 5], sums)
    return sums


@compiled
def multiply_rows(X, W, neighbours, degrees, basis, gram, tiny, largest):  # type: ignore[no-untyped-def]
    rows, k = W.shape
    product, denominator = np.empty((5, len(basis)), dtype=X.dtype), np.empty(k, dtype=X.dtype)
    new = np.zeros((rows, len(basis)), dtype=X.dtype)
    sums = np.zeros(basis.shape, dtype=X.dtype)
    for i in range(0, rows, 5):
        tile = X[i : i + 5]
        multiply_tile(tile, basis, product)
        for r in range(len(tile)):
            w, numerator = W[i + r], product[r]
            for c in range(k):
                denominator[c] = degrees[i + r] * w[c]
            for q in range(k):
                for c in range(k):
                    denominator[c] += w[q] * gram[q, c]
            if neighbours.shape[1]:
                for c in range(k):
                    numerator[c] += neighbours[i + r, c]
            for c in range(k):
                new[i + r, c] = w[c] * min((numerator[c] + tiny) / (denominator[c] + tiny), largest)
        gather_tile(tile, new[i : i + 5], sums)
    return sums, new


@compiled
def descend_rows(W, target, own, others, bound, rounds, smallest):  # type: ignore[no-untyped-def]
    n, k = W.shape
    new = np.empty((n, k), dtype=W.dtype)
    # Vector instructions work on this number of rows at a time.
    side = 256
    F, goal = np.zeros((len(others), side), W.dtype), np.zeros((k, side), W.dtype)
    inverse, rest = np.zeros((k, side), W.dtype), np.zeros(side, W.dtype)
    zero, one = W.dtype.type(0), W.dtype.type(1)
    for i in range(0, n, side):
        m = min(side, n - i)
        bounded = zero
        for j in range(m):
            bounded = max(bounded, bound[i + j])
            for r in range(k):
                inverse[r, j] = one / max(own[r] + bound[i + j], smallest)
                F[r, j], goal[r, j] = W[i + j, r], target[i + j, r] * inverse[r, j]
        for _ in range(rounds):
            for r in range(k):
                if own[r] + bounded <= smallest:
                    continue
                rest[:] = zero
                for q in range(0, len(others), 5):
                    f0, f1, f2, f3, f4 = F[q], F[q + 1], F[q + 2], F[q + 3], F[q + 4]
                    w = others[r, q : q + 5]
                    w0, w1, w2, w3, w4 = w[0], w[1], w[2], w[3], w[4]
                    for j in range(side):
                        rest[j] += w0 * f0[j] + w1 * f1[j] + w2 * f2[j] + w3 * f3[j] + w4 * f4[j]
                row, to, scale = F[r], goal[r], inverse[r]
                for j in range(side):
                    row[j] = max(to[j] - scale[j] * rest[j], zero)
        for j in range(m):
            for r in range(k):
                new[i + j, r] = F[r, j]
    return new


@inlined
def multiply_tile(X, basis, product):  # type: ignore[no-untyped-def]
    rows, d = X.shape
    zero = X.dtype.type(0)
    for c in range(0, len(basis), 5):
        b0, b1, b2, b3, b4 = basis[c], basis[c + 1], basis[c + 2], basis[c + 3], basis[c + 4]
        if rows == 5:
            x0, x1, x2, x3, x4 = X[0], X[1], X[2], X[3], X[4]
            s00 = s01 = s02 = s03 = s04 = zero
            s10 = s11 = s12 = s13 = s14 = zero
            s20 = s21 = s22 = s23 = s24 = zero
            s30 = s31 = s32 = s33 = s34 = zero
            s40 = s41 = s42 = s43 = s44 = zero
            for j in range(d):
                v0, v1, v2, v3, v4 = x0[j], x1[j], x2[j], x3[j], x4[j]
                b = b0[j]
                s00, s10, s20, s30, s40 = s00 + v0 * b, s10 + v1 * b, s20 + v2 * b, s30 + v3 * b, s40 + v4 * b
                b = b1[j]
                s01, s11, s21, s31, s41 = s01 + v0 * b, s11 + v1 * b, s21 + v2 * b, s31 + v3 * b, s41 + v4 * b
                b = b2[j]
                s02, s12, s22, s32, s42 = s02 + v0 * b, s12 + v1 * b, s22 + v2 * b, s32 + v3 * b, s42 + v4 * b
                b = b3[j]
                s03, s13, s23, s33, s43 = s03 + v0 * b, s13 + v1 * b, s23 + v2 * b, s33 + v3 * b, s43 + v4 * b
                b = b4[j]
                s04, s14, s24, s34, s44 = s04 + v0 * b, s14 + v1 * b, s24 + v2 * b, s34 + v3 * b, s44 + v4 * b
            p = product[:, c : c + 5]
            p[0, 0], p[0, 1], p[0, 2], p[0, 3], p[0, 4] = s00, s01, s02, s03, s04
            p[1, 0], p[1, 1], p[1, 2], p[1, 3], p[1, 4] = s10, s11, s12, s13, s14
            p[2, 0], p[2, 1], p[2, 2], p[2, 3], p[2, 4] = s20, s21, s22, s23, s24
            p[3, 0], p[3, 1], p[3, 2], p[3, 3], p[3, 4] = s30, s31, s32, s33, s34
            p[4, 0], p[4, 1], p[4, 2], p[4, 3], p[4, 4] = s40, s41, s42, s43, s44
        else:
            for r in range(rows):
                x, p = X[r], product[r, c : c + 5]
                s0 = s1 = s2 = s3 = s4 = zero
                for j in range(d):
                    v = x[j]
                    s0, s1, s2 = s0 + v * b0[j], s1 + v * b1[j], s2 + v * b2[j]
                    s3, s4 = s3 + v * b3[j], s4 + v * b4[j]
                p[0], p[1], p[2], p[3], p[4] = s0, s1, s2, s3, s4


@inlined
def gather_tile(X, left, sums):  # type: ignore[no-untyped-def]
    rows, d = X.shape
    for c in range(0, left.shape[1], 5):
        s0, s1, s2, s3, s4 = sums[c], sums[c + 1], sums[c + 2], sums[c + 3], sums[c + 4]
        if rows == 5:
            x0, x1, x2, x3, x4 = X[0], X[1], X[2], X[3], X[4]
            w = left[:, c : c + 5]
            w00, w01, w02, w03, w04 = w[0, 0], w[0, 1], w[0, 2], w[0, 3], w[0, 4]
            w10, w11, w12, w13, w14 = w[1, 0], w[1, 1], w[1, 2], w[1, 3], w[1, 4]
            w20, w21, w22, w23, w24 = w[2, 0], w[2, 1], w[2, 2], w[2, 3], w[2, 4]
            w30, w31, w32, w33, w34 = w[3, 0], w[3, 1], w[3, 2], w[3, 3], w[3, 4]
            w40, w41, w42, w43, w44 = w[4, 0], w[4, 1], w[4, 2], w[4, 3], w[4, 4]
            for j in range(d):
                v0, v1, v2, v3, v4 = x0[j], x1[j], x2[j], x3[j], x4[j]
                s0[j] += w00 * v0 + w10 * v1 + w20 * v2 + w30 * v3 + w40 * v4
                s1[j] += w01 * v0 + w11 * v1 + w21 * v2 + w31 * v3 + w41 * v4
                s2[j] += w02 * v0 + w12 * v1 + w22 * v2 + w32 * v3 + w42 * v4
                s3[j] += w03 * v0 + w13 * v1 + w23 * v2 + w33 * v3 + w43 * v4
                s4[j] += w04 * v0 + w14 * v1 + w24 * v2 + w34 * v3 + w44 * v4
        else:
            for r in range(rows):
                x, w = X[r], left[r, c : c + 5]
                w0, w1, w2, w3, w4 = w[0], w[1], w[2], w[3], w[4]
                for j in range(d):
                    v = x[j]
                    s0[j] += w0 * v
                    s1[j] += w1 * v
                    s2[j] += w2 * v
                    s3[j] += w3 * v
                    s4[j] += w4 * v
