"""SIFT descriptors: dense ones by matrix products, and those at OpenCV's own keypoints.

A descriptor (Lowe 2004) looks at a square patch: 4 x 4 cells, in each a histogram of 8 directions of the gradient.
A gradient g at the offset (x, y) from the centre, in cells, adds to the cell (i, j) and the direction o

    |g| exp(-(x^2 + y^2) / 8) tri(x + 1.5 - i) tri(y + 1.5 - j) tri(direction - o),   tri(t) = max(0, 1 - |t|)

The 128 sums are scaled to unit length, cut at 0.2, and scaled again. In x and in y the weights are a product, so on a
regular grid all descriptors of one size are two matrix products with 8 maps of the gradient, one for each direction.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import cv2
import numpy as np

from mccgr_cli.blocks.protocol import Array, chunks

CELLS = 4  # on a side
DIRECTIONS = 8
LENGTH = CELLS * CELLS * DIRECTIONS
SMALLEST = 3  # pixels on a side that have a gradient
BLUR = math.sqrt(1.6**2 - 0.5**2)  # to Lowe's 1.6 pixels, taking an image to come with 0.5
LARGEST_PART = 0.2
BAND_BYTES = 32 << 20  # of maps at a time
# So many neighbouring points go into one product that they see this multiple of the pixels that one sees: more would
# multiply zeros, fewer would pack the operands more often.
SHARED_WIDTH = 2.0


def dense(grey: Array, step: int, radii: tuple[int, ...], min_contrast: float) -> Iterator[Array]:
    """Upright descriptors at the points of a regular grid, (m, 128) at a time.

    A patch reaches ``radius`` pixels to each side of its point. Of a patch that reaches beyond the edge, the part
    inside counts.
    """
    height, width = grey.shape
    smooth = cv2.GaussianBlur(grey, (0, 0), BLUR)
    rows, columns = grid(height, step), grid(width, step)
    sized = [cell_windows(radius) for radius in radii]
    reach = max(windows.shape[1] // 2 for windows in sized)
    rows_at_once = max(1, (BAND_BYTES // (4 * DIRECTIONS * width) - 2 * reach) // step)
    for some in chunks(len(rows), rows_at_once):
        first, last = max(0, int(rows[some][0]) - reach), min(height, int(rows[some][-1]) + reach + 1)
        maps = direction_maps(smooth, first, last)
        for windows in sized:
            sums = sums_over_cells(maps, windows, rows[some] - first, columns)
            yield finished(sums, min_contrast * ramp_norm(windows))


def grid(length: int, step: int) -> Array:
    """Positions ``step`` apart in the middle of ``length`` pixels."""
    count = max(1, length // step)
    return (length - 1 - (count - 1) * step) // 2 + step * np.arange(count)


def cell_windows(radius: int) -> Array:
    """The weights of the pixels along one axis in each of the four cells, (4, pixels)."""
    cell = 2 * radius / CELLS
    reach = math.ceil((CELLS + 1) / 2 * cell) - 1
    x = np.arange(-reach, reach + 1) / cell
    centres = np.arange(CELLS)[:, None] - (CELLS - 1) / 2
    windows: Array = np.exp(-(x**2) / 8) * np.maximum(0, 1 - abs(x - centres))
    return windows.astype(np.float32)


def ramp_norm(windows: Array) -> float:
    """The length that a descriptor has, before it is scaled, where brightness rises by 1 a pixel everywhere."""
    return 2 * float((windows.sum(axis=1, dtype=np.float64) ** 2).sum())


def direction_maps(smooth: Array, first: int, last: int) -> Array:
    """The gradient's length in each of 8 directions, for the rows ``first`` to ``last``: (rows, 8, columns).

    A direction between two is shared among them. On the edge of the image the gradient counts as 0.
    """
    height, width = smooth.shape
    maps = np.zeros((last - first, DIRECTIONS, width), np.float32)
    top, bottom = max(first, 1), min(last, height - 1)
    around = smooth[top - 1 : bottom + 1]
    right = around[1:-1, 2:] - around[1:-1, :-2]
    up = around[:-2, 1:-1] - around[2:, 1:-1]
    size, angle = cv2.cartToPolar(right, up)
    angle *= DIRECTIONS / (2 * np.pi)
    share = np.empty_like(angle)
    for direction in range(DIRECTIONS):
        np.subtract(angle, direction, out=share)
        if direction == 0:  # which is also the one after the last
            np.minimum(share, DIRECTIONS - angle, out=share)
        np.abs(share, out=share)
        np.subtract(1, share, out=share)
        np.maximum(share, 0, out=share)
        np.multiply(share, size, out=maps[top - first : bottom - first, direction, 1:-1])
    return maps


def sums_over_cells(maps: Array, windows: Array, rows: Array, columns: Array) -> Array:
    """The 128 sums of each patch, without scaling: (points, 128)."""
    height, _, width = maps.shape
    by_row = np.empty((len(rows), CELLS, DIRECTIONS, width), np.float32)
    flat = maps.reshape(height, -1)
    for some, inside, weights in windows_of(rows, windows, height):
        np.matmul(weights, flat[inside], out=by_row[some].reshape(len(weights), -1))
    lines = by_row.reshape(-1, width)
    sums = np.empty((len(rows), len(columns), CELLS, CELLS, DIRECTIONS), np.float32)
    for some, inside, weights in windows_of(columns, windows, width):
        product = (lines[:, inside] @ weights.T).reshape(len(rows), CELLS, DIRECTIONS, -1, CELLS)
        sums[:, some] = product.transpose(0, 3, 1, 4, 2)
    return sums.reshape(-1, LENGTH)


def windows_of(points: Array, windows: Array, length: int) -> Iterator[tuple[slice, slice, Array]]:
    """Some neighbouring points of one axis, the pixels that they see, and their weights (points * 4, pixels).

    Neighbours share most of their pixels, so that one product for several is faster than one for each.
    """
    cells, pixels = windows.shape
    step = int(points[1] - points[0]) if len(points) > 1 else 1
    together = min(len(points), max(1, round((SHARED_WIDTH - 1) * pixels / step) + 1))
    weights = np.zeros((together, cells, pixels + (together - 1) * step), np.float32)
    for i in range(together):
        weights[i, :, i * step : i * step + pixels] = windows
    for some in chunks(len(points), together):
        start, stop = int(points[some][0]) - pixels // 2, int(points[some][-1]) + pixels // 2 + 1
        first, last = max(0, start), min(length, stop)
        several = weights[: some.stop - some.start].reshape(-1, weights.shape[2])
        yield some, slice(first, last), several[:, first - start : last - start]


def finished(sums: Array, least_norm: float) -> Array:
    """Descriptors out of the sums, without those whose gradients are too weak; a patch without any is all 0."""
    norms = np.sqrt(np.einsum("ij,ij->i", sums, sums))
    if least_norm > 0:
        strong = norms >= least_norm
        sums, norms = sums[strong], norms[strong]
    scale_rows(sums, norms)
    np.minimum(sums, LARGEST_PART, out=sums)
    scale_rows(sums, np.sqrt(np.einsum("ij,ij->i", sums, sums)))
    return sums


def scale_rows(rows: Array, norms: Array) -> None:
    norms[norms == 0] = 1
    rows /= norms[:, None]


def rooted(descriptors: Array) -> Array:
    """RootSIFT (Arandjelovic and Zisserman 2012): square roots of shares, whose distance is Hellinger's."""
    scale_rows(descriptors, descriptors.sum(axis=1))
    return np.sqrt(descriptors)


def at_keypoints(grey: Array) -> Iterator[Array]:
    """Descriptors at the keypoints that OpenCV's SIFT detects, turned along their gradients."""
    detector: Any = cv2.SIFT.create()
    _, found = detector.detectAndCompute(np.rint(grey).astype(np.uint8), None)
    if found is not None:
        scale_rows(found, np.sqrt(np.einsum("ij,ij->i", found, found)))
        yield found
