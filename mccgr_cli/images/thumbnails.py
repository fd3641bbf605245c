"""Small colour copies of images for the report."""

from __future__ import annotations

import io
import os
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from PIL import Image

from mccgr_cli.errors import DataError
from mccgr_cli.files.folders import reading_fault
from mccgr_cli.images import decode
from mccgr_cli.images.find import images_in_folder

# WebP needs two thirds of the bytes of a JPEG of the same look. More effort than 4 hardly makes it smaller.
QUALITY, EFFORT = 70, 4


@dataclass(frozen=True)
class Thumbnail:
    """A WebP image, or the reason why there is none."""

    data: bytes = b""
    width: int = 0
    height: int = 0
    fault: str | None = None


def locate_images(folder: str, names: Sequence[str]) -> list[str | None]:
    """The paths of the images with these names in a folder; None for missing ones.

    The names come from a file, and the report may be published: no name may lead out of the folder.
    """
    try:
        os.listdir(folder)  # noqa: PTH208 - names may be any bytes
    except OSError as fault:
        raise DataError(folder, reading_fault(fault), "name the folder of the images") from None
    root = os.path.abspath(folder)  # noqa: PTH100
    found = [path_within(root, name) for name in names]
    if any(path is None and "\\" in name for path, name in zip(found, names, strict=True)):  # bytes that are not UTF-8
        by_name = {image.name: image.path for image in images_in_folder(folder, labelled=False).images}
        found = [path or by_name.get(name) for path, name in zip(found, names, strict=True)]
    return found


def path_within(root: str, name: str) -> str | None:
    path = os.path.normpath(os.path.join(root, name))  # noqa: PTH118 - an absolute name stays absolute
    try:
        inside = path.startswith(os.path.join(root, "")) and os.path.isfile(path)  # noqa: PTH113, PTH118
    except ValueError:  # not a possible file name
        return None
    return path if inside else None


def make_thumbnail(path: str | None, size: int, max_pixels: int) -> Thumbnail:
    """A copy whose longer side has ``size`` pixels; smaller images keep their size."""
    if path is None:
        return Thumbnail(fault="not there")
    try:
        image = small_image(path, size, max_pixels)
        buffer = io.BytesIO()
        image.save(buffer, "WEBP", quality=QUALITY, method=EFFORT)
        return Thumbnail(buffer.getvalue(), image.width, image.height)
    except decode.UnusableImage as fault:
        return Thumbnail(fault=str(fault))


def small_image(path: str, size: int, max_pixels: int) -> Image.Image:
    """An upright copy in colour whose longer side has at most ``size`` pixels; white where it is transparent.

    Raises :class:`~mccgr_cli.images.decode.UnusableImage`.
    """
    with decode.open_image(path, max_pixels) as opened:
        orientation = decode.load(opened, opened.mode, (2 * size, 2 * size))
        image, _ = decode.on_white(opened, size)
        image.thumbnail((size, size), Image.Resampling.LANCZOS, reducing_gap=2.0)
        return Image.fromarray(decode.turned(np.asarray(image), orientation)) if orientation in decode.TURNED else image
