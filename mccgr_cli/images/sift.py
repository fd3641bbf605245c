"""SIFT descriptors: on a dense grid by matrix products, or at the keypoints of OpenCV.

A descriptor (D. G. Lowe: Distinctive image features from scale-invariant keypoints. International Journal of Computer
Vision 60(2), 2004) divides a square patch into 4 x 4 cells, each with a histogram of 8 directions of the gradient.
A gradient g at the offset (x, y) from the centre, in cells, adds to cell (i, j) and direction o

    |g| exp(-(x^2 + y^2) / 8) tri(x + 1.5 - i) tri(y + 1.5 - j) tri(direction - o),   tri(t) = max(0, 1 - |t|)

The 128 sums are scaled to unit length, limited to 0.2, and scaled again. The weight is a product of a function of x and
one of y. So all descriptors of one size on a regular grid are two matrix products with 8 maps, one for each direction.
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
SMALLEST = 3  # pixels on a side: smaller images have no gradient
BLUR = math.sqrt(1.6**2 - 0.5**2)  # from 0.5 pixels, which an image is assumed to have, to Lowe's 1.6
LARGEST_PART = 0.2
BAND_BYTES = 32 << 20  # of maps at a time
# Neighbouring points share one product if together they see at most this multiple of the pixels of one point. A larger
# multiple would multiply more zeros, a smaller one would need more products.
SHARED_WIDTH = 2.0


def dense(grey: Array, step: int, radii: tuple[int, ...], min_contrast: float) -> Iterator[Array]:
    """Yield upright descriptors at the points of a regular grid, (m, 128) at a time.

    A patch reaches ``radius`` pixels to each side of its point. Outside the image the gradient is 0.
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
            # the length of an unscaled descriptor where the grey value rises by 1 per pixel everywhere
            ramp_norm = 2 * float((windows.sum(axis=1, dtype=np.float64) ** 2).sum())
            yield normalized(sums, min_contrast * ramp_norm)


def grid(length: int, step: int) -> Array:
    """Positions ``step`` pixels apart, centred in ``length`` pixels."""
    count = max(1, length // step)
    return (length - 1 - (count - 1) * step) // 2 + step * np.arange(count)


def cell_windows(radius: int) -> Array:
    """The weights of pixels along one axis for each of the four cells, (4, pixels)."""
    cell = 2 * radius / CELLS
    reach = math.ceil((CELLS + 1) / 2 * cell) - 1
    x = np.arange(-reach, reach + 1) / cell
    centres = np.arange(CELLS)[:, None] - (CELLS - 1) / 2
    windows: Array = np.exp(-(x**2) / 8) * np.maximum(0, 1 - abs(x - centres))
    return windows.astype(np.float32)


def direction_maps(smooth: Array, first: int, last: int) -> Array:
    """The gradient's length by direction, for the rows ``first`` to ``last``: (rows, 8, columns).

    A gradient between two directions is shared by them. At the edge of the image the gradient is 0.
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
        if direction == 0:  # is also the direction after the last
            np.minimum(share, DIRECTIONS - angle, out=share)
        np.abs(share, out=share)
        np.subtract(1, share, out=share)
        np.maximum(share, 0, out=share)
        np.multiply(share, size, out=maps[top - first : bottom - first, direction, 1:-1])
    return maps


def sums_over_cells(maps: Array, windows: Array, rows: Array, columns: Array) -> Array:
    """The 128 unscaled sums of each patch, (points, 128)."""
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
    """Yield groups of neighbouring points of one axis, their pixels, and their weights (points * 4, pixels).

    Neighbours share most of their pixels, so one product for a group is faster than one for each point.
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


def normalized(sums: Array, least_norm: float) -> Array:
    """Descriptors from their sums, without patches of weak gradients. A patch without gradients is 0."""
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
    """RootSIFT: the square roots of descriptors of unit sum, whose euclidean distance is the Hellinger distance.

    R. Arandjelovic, A. Zisserman: Three things everyone should know to improve object retrieval. CVPR, 2012.
    """
    scale_rows(descriptors, descriptors.sum(axis=1))
    return np.sqrt(descriptors)


def at_keypoints(grey: Array) -> Iterator[Array]:
    """Descriptors at the keypoints that OpenCV's SIFT detects, rotated to the main direction of the gradient."""
    detector: Any = cv2.SIFT.create()
    _, found = detector.detectAndCompute(np.rint(grey).astype(np.uint8), None)
    if found is not None:
        scale_rows(found, np.sqrt(np.einsum("ij,ij->i", found, found)))
        yield found
