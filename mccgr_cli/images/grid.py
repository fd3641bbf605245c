"""Adapt the grid of patches to the size of the images."""

from __future__ import annotations

import contextlib
import statistics
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from mccgr_cli.files.folders import SampleFile
from mccgr_cli.images.decode import UnusableImage, open_image
from mccgr_cli.images.settings import Description

MEASURED_IMAGES = 100
STEPS = 25  # of the grid along a square image: 10 pixels each in images of Caltech-101
PATCHES_ALONG_SIDE = 4  # of the largest size that fit along a square image, at least
FINEST_STEP = 2  # pixels


def adapt_to_images(images: Sequence[SampleFile], usual: Description, max_pixels: int) -> Description:
    """The usual description; for small images with a finer grid and without patches that are too large."""
    some = np.linspace(0, len(images) - 1, min(len(images), MEASURED_IMAGES)).astype(int)
    sizes = []  # sides of squares with the area of the scaled images
    for i in some:
        with contextlib.suppress(UnusableImage), open_image(images[i].path, max_pixels) as image:
            shrink = min(1.0, usual.max_size / max(image.size)) if usual.max_size else 1.0
            sizes.append(shrink * (image.width * image.height) ** 0.5)
    if not sizes:
        return usual
    typical = statistics.median(sizes)
    step = int(min(usual.step, max(FINEST_STEP, round(typical / STEPS))))
    radii = tuple(radius for radius in usual.radii if 2 * radius * PATCHES_ALONG_SIDE <= typical) or usual.radii[:1]
    return replace(usual, step=step, radii=radii)
