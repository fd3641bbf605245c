"""Small copies of images in colour, to be looked at."""

from __future__ import annotations

import io
import os
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from PIL import Image

from mccgr_cli.errors import DataError
from mccgr_cli.images.decode import TURNS, Unusable, deep_values, from_image, orientation_of, reading
from mccgr_cli.images.find import fault_of, find

# WebP has two thirds of the bytes of a JPEG that looks alike; beyond this effort it hardly shrinks.
QUALITY, EFFORT = 70, 4
LOST = "its decoder crashed"


@dataclass(frozen=True)
class Thumbnail:
    """A WebP, or why there is none."""

    data: bytes = b""
    width: int = 0
    height: int = 0
    fault: str | None = None


def locate(folder: str, names: Sequence[str]) -> list[str | None]:
    """Where the images with these names are in a folder; None for those that are not.

    Names come from a file, and a page may be shown to others: none leads out of the folder.
    """
    try:
        os.listdir(folder)  # noqa: PTH208 - of any bytes
    except OSError as fault:
        raise DataError(folder, fault_of(fault), "name the folder of the images") from None
    root = os.path.abspath(folder)  # noqa: PTH100
    found = [path_within(root, name) for name in names]
    if any(path is None and "\\" in name for path, name in zip(found, names, strict=True)):  # bytes that are no text
        by_name = {image.name: image.path for image in find(folder, labelled=False).images}
        found = [path or by_name.get(name) for path, name in zip(found, names, strict=True)]
    return found


def path_within(root: str, name: str) -> str | None:
    path = os.path.normpath(os.path.join(root, name))  # noqa: PTH118 - which leaves an absolute name as it is
    try:
        inside = path.startswith(os.path.join(root, "")) and os.path.isfile(path)  # noqa: PTH113, PTH118
    except ValueError:  # of text that is no name
        return None
    return path if inside else None


def make_thumbnail(path: str | None, size: int, max_pixels: int) -> Thumbnail:
    """A copy whose longer side is ``size`` pixels, or as long as that of the image if this is smaller."""
    if path is None:
        return Thumbnail(fault="not there")
    try:
        return reading(path, lambda file: from_image(file, max_pixels, lambda image: shrunk(image, size)))
    except Unusable as fault:
        return Thumbnail(fault=str(fault))


def shrunk(image: Image.Image, size: int) -> Thumbnail:
    if image.format in ("JPEG", "MPO") and image.mode in ("L", "RGB"):
        image.draft(image.mode, (2 * size, 2 * size))  # the decoder's own way to a smaller image
    image.load()
    orientation = orientation_of(image)  # asked now: to ask may load an image and hide its faults
    image = on_white(image, size)
    image.thumbnail((size, size), Image.Resampling.LANCZOS, reducing_gap=2.0)
    if orientation in TURNS:
        image = Image.fromarray(np.ascontiguousarray(turned(np.asarray(image), orientation)))
    buffer = io.BytesIO()
    image.save(buffer, "WEBP", quality=QUALITY, method=EFFORT)
    return Thumbnail(buffer.getvalue(), image.width, image.height)


def on_white(image: Image.Image, size: int) -> Image.Image:
    """In RGB, whatever the mode; laid on white where it is transparent."""
    if image.mode.startswith("I") or image.mode == "F":
        return Image.fromarray(deep_values(image, size).round().astype(np.uint8)).convert("RGB")
    if not image.has_transparency_data:
        return image.convert("RGB")
    image = image.convert("RGBA")
    if max(image.size) >= 2 * size:
        image = image.reduce(max(image.size) // size)
    return Image.alpha_composite(Image.new("RGBA", image.size, "white"), image).convert("RGB")


def turned(pixels: np.ndarray, orientation: int) -> np.ndarray:
    """(height, width, 3) as EXIF says; the turns are of single channels."""
    return np.dstack([TURNS[orientation](pixels[:, :, channel]) for channel in range(pixels.shape[2])])
