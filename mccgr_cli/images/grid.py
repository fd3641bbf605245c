"""A grid of patches that suits images of a certain size."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from mccgr_cli.images.decode import Unusable, from_image, reading
from mccgr_cli.images.find import ImageFile
from mccgr_cli.settings import Description

LOOKED_AT = 100  # images whose size is asked for
STEPS = 25  # of the grid along an image that is as high as wide: 10 pixels in those of Caltech-101
LARGEST_PATCH = 4  # times that a patch fits into such an image, at least
FINEST = 2  # pixels


def suited(images: Sequence[ImageFile], usual: Description, max_pixels: int) -> Description:
    """The usual description, or for smaller images one with a finer grid and without patches too large for them."""
    some = np.linspace(0, len(images) - 1, min(len(images), LOOKED_AT)).astype(int)
    sizes = [size for size in (side(images[i], usual.max_size, max_pixels) for i in some) if size]
    if not sizes:
        return usual
    typical = statistics.median(sizes)
    step = int(min(usual.step, max(FINEST, round(typical / STEPS))))
    radii = tuple(radius for radius in usual.radii if 2 * radius * LARGEST_PATCH <= typical) or usual.radii[:1]
    return replace(usual, step=step, radii=radii)


def side(image: ImageFile, max_size: int, max_pixels: int) -> float:
    """Of the square with the area of the image, as it will be described; 0 if it cannot be."""
    try:
        width, height = reading(image.path, lambda file: from_image(file, max_pixels, lambda image: image.size))
    except Unusable:
        return 0.0
    shrink = min(1.0, max_size / max(width, height)) if max_size else 1.0
    return float(shrink * (width * height) ** 0.5)
