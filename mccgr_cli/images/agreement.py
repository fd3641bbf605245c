"""Lay one image on another and measure how well they agree where both are.

The measure is the structural similarity of brightness (Z. Wang et al.: Image quality assessment: from error visibility
to structural similarity. IEEE Transactions on Image Processing 13(4), 2004), times a factor for other colours, at every
pixel. What counts is the part that agrees least. So a copy has a large value everywhere, but another photograph of the
same object has not.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import cv2
import numpy as np

from mccgr_cli.blocks.protocol import Array
from mccgr_cli.core.duplicates import Likeness
from mccgr_cli.images.decode import UnusableImage
from mccgr_cli.images.extract import for_one_image
from mccgr_cli.images.keypoints import Sketch, transforms
from mccgr_cli.images.thumbnails import small_image

VIEW = 256  # longer side, in pixels, of the copies that are compared
FRAME_AREA = 96 * 96  # pixels of the part that both show, at most
DETAIL = 0.5  # pixels of the frame per pixel of the coarser image: saving an image again changes its finest detail
LEAST_SIDE = 24.0  # of the frame: smaller images are compared in full detail
BLUR, WINDOW, COLOUR_BLUR = 1.0, 1.5, 2.0  # standard deviations in pixels
STABLE = (0.03 * 255) ** 2  # the constant of Wang et al.: variances far below it do not count
OTHER_TONE = 20.0  # a difference of brightness or colour, of 255, that halves the value of a pixel
STRUCTURE = 4.0  # variance from which on a pixel is not part of a plain area
WORST, WORST_STRUCTURE = 2.0, 5.0  # percent of all pixels, and of those that are not plain, that may agree less
MARGIN = 2  # pixels at the border that do not count
LEAST_PIXELS = 50
LARGEST_GAIN = 2.5  # of contrast, by which a copy may differ
INSIDE = 0.9  # of the area of an image: if the other one shows less of it, it is not the same view


DIFFERENT = Likeness(0.0)


@for_one_image
def compare_with(item: tuple[str, Sketch, Sequence[tuple[str, Sketch]]], max_pixels: int) -> list[Likeness]:
    """How alike an image is to some others, each given by its path and its sketch."""
    path, ours, others = item
    found = []
    view: Array | None = None
    for their_path, theirs in others:
        possible = transforms(ours, theirs)
        likeness = DIFFERENT
        if possible:
            view = colours(path, max_pixels) if view is None else view
            try:
                their_view = colours(their_path, max_pixels)
            except UnusableImage:
                possible = []
            likeness = max((agreement(view, their_view, one) for one in possible), default=DIFFERENT)
        found.append(likeness)
    return found


def colours(path: str, max_pixels: int) -> Array:
    return np.asarray(small_image(path, VIEW, max_pixels))


def agreement(ours: Array, theirs: Array, transform: Array) -> Likeness:
    """How well two images (height, width, 3) agree if the first is laid on the second.

    ``transform`` is from points of the first to those of the second, in units of their longer sides.
    """
    unit = [unit_to_pixels(view) for view in (ours, theirs)]
    onto = unit[1] @ np.vstack([transform, [0, 0, 1]]) @ np.linalg.inv(unit[0])  # from pixels to pixels
    zoom = float(np.sqrt(abs(np.linalg.det(onto))))  # pixels of the second per pixel of the first
    if not 1e-3 < zoom < 1e3:
        return DIFFERENT
    area, shared = cv2.intersectConvexConvex(moved(corners(ours), onto), corners(theirs))
    visible = area / (ours[..., 0].size * zoom**2), area / theirs[..., 0].size
    if shared is None or max(visible) < INSIDE:
        return DIFFERENT
    first, last = shared.reshape(-1, 2).min(axis=0), shared.reshape(-1, 2).max(axis=0)
    side = float(np.sqrt(np.prod(last - first))) * min(1.0, 1 / zoom)  # in pixels of the coarser image
    scale = min(1.0, np.sqrt(FRAME_AREA) / side, max(DETAIL, LEAST_SIDE / side)) * min(1.0, 1 / zoom)
    width, height = (int(length) for length in np.maximum(1, (last - first) * scale))
    # `first` is the outer edge of the first pixel, whose centre is 0 in the frame
    frame = np.array([[scale, 0, -0.5 - first[0] * scale], [0, scale, -0.5 - first[1] * scale], [0, 0, 1]])
    a, covered_a = laid(ours, frame @ onto, (width, height))
    b, covered_b = laid(theirs, frame, (width, height))
    similarity = least_agreement(a, b, covered_a & covered_b)
    crop = int(visible[0] >= INSIDE > visible[1]) - int(visible[1] >= INSIDE > visible[0])
    return Likeness(similarity, crop)


def unit_to_pixels(view: Array) -> Array:
    """From points in units of the longer side to pixels, whose centres are whole numbers."""
    longer = max(view.shape[:2])
    return np.array([[longer, 0, -0.5], [0, longer, -0.5], [0, 0, 1]])


def corners(view: Array) -> Array:
    height, width = view.shape[:2]
    return np.array([[0, 0], [width, 0], [width, height], [0, height]], np.float32) - np.float32(0.5)


def moved(points: Array, transform: Array) -> Array:
    return (points @ transform[:2, :2].T + transform[:2, 2]).astype(np.float32)


def laid(view: Array, transform: Array, size: tuple[int, int]) -> tuple[Array, Array]:
    """An image in a frame, and which pixels of the frame it covers."""
    shrink = float(np.sqrt(abs(np.linalg.det(transform))))
    height, width = view.shape[:2]
    if shrink < 1:  # all pixels must count, not only those at the points of the frame
        smaller = max(1, round(width * shrink)), max(1, round(height * shrink))
        view = cv2.resize(view, smaller, interpolation=cv2.INTER_AREA)
        x, y = width / smaller[0], height / smaller[1]
        transform = transform @ np.array([[x, 0, x / 2 - 0.5], [0, y, y / 2 - 0.5], [0, 0, 1]])
    there = cv2.warpAffine(np.ones(view.shape[:2], np.float32), transform[:2], size, borderMode=cv2.BORDER_CONSTANT)
    pixels = cv2.warpAffine(view.astype(np.float32), transform[:2], size, borderMode=cv2.BORDER_REPLICATE)
    return pixels, there > 0.5


def least_agreement(a: Array, b: Array, covered: Array) -> float:
    """The similarity of the pixels that agree least, after brightness and contrast of a are made those of b."""
    square = np.ones((3, 3), np.uint8)
    border: Any = {"borderType": cv2.BORDER_CONSTANT, "borderValue": 0}
    inner = cv2.erode(covered.astype(np.uint8), square, iterations=MARGIN, **border).astype(bool)
    used = inner if inner.sum() >= LEAST_PIXELS else covered
    if used.sum() < LEAST_PIXELS:
        return 0.0
    (grey_a, *colour_a), (grey_b, *colour_b) = split_colours(a), split_colours(b)
    (mean_a, size_a), (mean_b, size_b) = ((grey[used].mean(), grey[used].std()) for grey in (grey_a, grey_b))
    gain = float(np.clip((size_b + 2) / (size_a + 2), 1 / LARGEST_GAIN, LARGEST_GAIN))
    values, variances = structural(blurred((grey_a - mean_a) * gain + mean_b, BLUR), blurred(grey_b, BLUR))
    other = sum(blurred(one * gain - two, COLOUR_BLUR) ** 2 for one, two in zip(colour_a, colour_b, strict=True))
    values = values / (1 + other / OTHER_TONE**2)
    found = [np.percentile(values[used], WORST)]
    structured = used & (variances > STRUCTURE)
    if structured.any():
        found.append(np.percentile(values[structured], WORST_STRUCTURE))
    return float(np.clip(min(found), 0, 1))


def split_colours(image: Array) -> tuple[Array, Array, Array]:
    """Brightness, and the differences of blue and red from it."""
    red, green, blue = (image[..., i] for i in range(3))
    grey = 0.299 * red + 0.587 * green + 0.114 * blue
    return grey, 0.564 * (blue - grey), 0.713 * (red - grey)


def structural(a: Array, b: Array) -> tuple[Array, Array]:
    """At each pixel: the structural similarity, times a factor for other brightness; and the mean variance."""
    mean_a, mean_b = blurred(a, WINDOW), blurred(b, WINDOW)
    variances = blurred(a * a, WINDOW) - mean_a**2 + blurred(b * b, WINDOW) - mean_b**2
    common = blurred(a * b, WINDOW) - mean_a * mean_b
    similar = (2 * common + STABLE) / (variances + STABLE)
    return similar / (1 + ((mean_a - mean_b) / OTHER_TONE) ** 2), variances / 2


def blurred(values: Array, deviation: float) -> Array:
    return np.asarray(cv2.GaussianBlur(values, (0, 0), deviation, borderType=cv2.BORDER_REFLECT))
