"""Facts of an image file: its checksum, its size and how sharp it is. They say which of several copies to keep."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

import cv2
import numpy as np

from mccgr_cli.blocks.protocol import Array
from mccgr_cli.images.decode import Decoded, decode, file_sha256, scaled_down, size_of_regular

MEASURED_SIZE = 512  # longer side, in pixels, of the image whose sharpness is measured
DIGITS = 6  # significant digits of the sharpness that are kept


@dataclass(frozen=True)
class ImageFacts:
    sha256: str  # of the file
    bytes: int
    width: int
    height: int
    sharpness: float  # see :func:`sharpness_of`


def facts_of(path: str, max_pixels: int) -> ImageFacts:
    """The facts of an image file, or :class:`~mccgr_cli.images.decode.UnusableImage`."""
    decoded = decode(path, MEASURED_SIZE, max_pixels)
    return facts_from(path, decoded, decoded.grey)


def facts_from(path: str, decoded: Decoded, grey: Array) -> ImageFacts:
    """The facts of a decoded image with these grey values."""
    return ImageFacts(file_sha256(path), size_of_regular(path), *decoded.size, sharpness_of(grey))


def sharpness_of(grey: Array) -> float:
    """Variance of the Laplacian of grey values (Pech-Pacheco et al. 2000): large if there are sharp edges.

    Larger images are scaled down first, so that only detail counts that is visible at the same size.
    """
    small = scaled_down(np.asarray(grey, dtype=np.float32), MEASURED_SIZE)
    return float(f"{cv2.Laplacian(small, cv2.CV_32F).var(dtype=np.float64):.{DIGITS}g}")


def facts_datasets(facts: Sequence[ImageFacts]) -> dict[str, Any]:
    """Facts as datasets of a matrix file: a column for each."""
    return {f"images/{one.name}": [getattr(fact, one.name) for fact in facts] for one in fields(ImageFacts)}
