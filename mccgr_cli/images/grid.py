"""Adapt the grid of patches to the size of the images."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from mccgr_cli.images.decode import UnusableImage, open_image
from mccgr_cli.images.find import ImageFile
from mccgr_cli.images.settings import Description

MEASURED_IMAGES = 100
STEPS = 25  # of the grid along a square image: 10 pixels each in images of Caltech-101
PATCHES_ALONG_SIDE = 4  # of the largest size that fit along a square image, at least
FINEST_STEP = 2  # pixels


def adapt_to_images(images: Sequence[ImageFile], usual: Description, max_pixels: int) -> Description:
    """The usual description; for small images with a finer grid and without patches that are too large."""
    some = np.linspace(0, len(images) - 1, min(len(images), MEASURED_IMAGES)).astype(int)
    sizes = [size for size in (side(images[i], usual.max_size, max_pixels) for i in some) if size]
    if not sizes:
        return usual
    typical = statistics.median(sizes)
    step = int(min(usual.step, max(FINEST_STEP, round(typical / STEPS))))
    radii = tuple(radius for radius in usual.radii if 2 * radius * PATCHES_ALONG_SIDE <= typical) or usual.radii[:1]
    return replace(usual, step=step, radii=radii)


def side(image: ImageFile, max_size: int, max_pixels: int) -> float:
    """The side of the square with the area of the scaled image; 0 if the image is unusable."""
    try:
        with open_image(image.path, max_pixels) as opened:
            width, height = opened.size
    except UnusableImage:
        return 0.0
    shrink = min(1.0, max_size / max(width, height)) if max_size else 1.0
    return float(shrink * (width * height) ** 0.5)
