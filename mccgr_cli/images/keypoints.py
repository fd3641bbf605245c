"""What is kept of an image to compare it with many others: keypoints, and a copy of 16 x 16 grey values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import cv2
import numpy as np

from mccgr_cli.blocks.protocol import Array
from mccgr_cli.images.extract import for_one_image
from mccgr_cli.images.thumbnails import small_image

SIZE = 200  # longer side, in pixels, of the copy in which keypoints are found
MOST = 200  # keypoints of an image
LEAST_CONTRAST = 0.02  # of a keypoint; half of OpenCV's default, because small copies have little contrast
TINY = 16  # side of the smallest copy
BYTES = MOST * (128 + 8) + TINY * TINY  # of an image in memory, at most
LARGEST_RATIO = 0.85  # of the distances to the best and the second best match (Lowe 2004: 0.8)
LEAST_MATCHES = 6
TOLERANCE = 0.02  # distance of matching points, as a fraction of the longer side
ALIKE = 0.9  # correlation of two tiny copies from which on the whole images may be the same


@dataclass(frozen=True)
class Sketch:
    """What is kept of an image."""

    points: Array  # (k, 2) float32, in units of the longer side
    descriptors: Array  # (k, 128) uint8
    tiny: Array  # (16, 16) uint8, the whole image
    sides: tuple[float, float]  # width and height in units of the longer side


@for_one_image
def sketch(path: str, max_pixels: int) -> Sketch:
    """The sketch of an image file, or the reason why there is none."""
    grey = cv2.cvtColor(np.asarray(small_image(path, SIZE, max_pixels)), cv2.COLOR_RGB2GRAY)
    height, width = grey.shape
    longer = max(grey.shape)
    tiny = cv2.resize(grey, (TINY, TINY), interpolation=cv2.INTER_AREA)
    if longer < SIZE:  # else a small copy would have few keypoints
        size = [max(1, round(side * SIZE / longer)) for side in (width, height)]
        grey = cv2.resize(grey, size, interpolation=cv2.INTER_CUBIC)
    detector: Any = cv2.SIFT.create(nfeatures=MOST, contrastThreshold=LEAST_CONTRAST)
    found, descriptors = detector.detectAndCompute(grey, None)
    if descriptors is None:
        descriptors = np.empty((0, 128))
    points = np.array([one.pt for one in found[:MOST]], np.float32).reshape(-1, 2)
    sides = width / longer, height / longer
    return Sketch((points + 0.5) / max(grey.shape), descriptors[:MOST].astype(np.uint8), tiny, sides)


def transforms(one: Sketch, other: Sketch) -> list[Array]:
    """The ways, (2, 3) each, in which an image may lie on another one: from its points to those of the other."""
    found = []
    if correlation(one.tiny, other.tiny) >= ALIKE:
        stretch = [theirs / ours for ours, theirs in zip(one.sides, other.sides, strict=True)]
        found.append(np.array([[stretch[0], 0, 0], [0, stretch[1], 0]]))
    ours, theirs = matches(one.descriptors, other.descriptors)
    if len(ours) >= LEAST_MATCHES:
        model, fits = cv2.estimateAffinePartial2D(  # moved, scaled and rotated; its random choices are always the same
            one.points[ours], other.points[theirs], method=cv2.RANSAC, ransacReprojThreshold=TOLERANCE
        )
        if model is not None and int(fits.sum()) >= LEAST_MATCHES and np.isfinite(model).all():
            found.append(model)
    return found


def matches(ours: Array, theirs: Array) -> tuple[Array, Array]:
    """Pairs of descriptors that are each other's nearest, and clearly nearer than the second nearest.

    Descriptors are compared by the square roots of their values (:func:`mccgr_cli.images.sift.rooted`).
    """
    if min(len(ours), len(theirs)) < 2:
        return np.empty(0, dtype=int), np.empty(0, dtype=int)
    products = unit_roots(ours) @ unit_roots(theirs).T
    rows = np.arange(len(ours))
    nearest = products.argmax(axis=1)
    mutual = products.argmax(axis=0)[nearest] == rows
    best = products[rows, nearest]
    products[rows, nearest] = -1
    clear = 1 - best < LARGEST_RATIO**2 * (1 - products.max(axis=1))  # squared distances are 2 (1 - product)
    chosen = np.flatnonzero(mutual & clear)
    return chosen, nearest[chosen]


def unit_roots(descriptors: Array) -> Array:
    sums = descriptors.sum(axis=1, dtype=np.float32, keepdims=True)
    return np.asarray(np.sqrt(descriptors / np.maximum(sums, 1)))


def correlation(one: Array, other: Array) -> float:
    """The correlation of two arrays; 1 if both are constant, 0 if one is."""
    a, b = (array.astype(np.float64) - array.mean() for array in (one, other))
    size = float(np.sqrt((a * a).sum() * (b * b).sum()))
    if size == 0:
        return float(a.any() == b.any())
    return float((a * b).sum() / size)
