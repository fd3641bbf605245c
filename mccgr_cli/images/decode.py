"""Decoding one image, whatever its format, to shades of grey or whatever else is made of it.

Nothing that a file holds is trusted: its size is looked at before it is decoded, and whatever a decoder raises
becomes a reason to skip that one image.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import BinaryIO, TypeVar

import cv2
import numpy as np
from PIL import Image, UnidentifiedImageError

from mccgr_cli.blocks.protocol import Array
from mccgr_cli.images.find import fault_of

# Formats of images as Pillow calls them. Others that it knows are left out: they start other programs (EPS), or
# are not images in the first place.
FORMATS = ("JPEG", "PNG", "TIFF", "BMP", "GIF", "WEBP", "PPM", "JPEG2000")
ORIENTATION = 0x0112  # a tag of EXIF; by its values, how to turn what is stored
TURNS: dict[int, Callable[[Array], Array]] = {
    2: np.fliplr,
    3: lambda stored: stored[::-1, ::-1],
    4: np.flipud,
    5: np.transpose,
    6: lambda stored: np.rot90(stored, -1),
    7: lambda stored: stored[::-1, ::-1].T,
    8: np.rot90,
}


Made = TypeVar("Made")


class Unusable(Exception):
    """An image to skip; the text says why."""


@dataclass(frozen=True)
class Limits:
    """What is decoded, and to which size."""

    max_size: int  # pixels of the longer side, to which larger images are scaled down; 0: as they are
    max_pixels: int  # more are refused before they are decoded


@dataclass(frozen=True)
class Decoded:
    grey: Array  # (height, width) float32, 0 to 255
    remarks: tuple[str, ...]  # on how it was converted


def decode(path: str, limits: Limits) -> Decoded:
    return reading(path, lambda file: decode_stream(file, limits))


def reading(path: str, make: Callable[[BinaryIO], Made]) -> Made:
    """What is made of a file, if it is one that can be read."""
    try:
        require_regular(path)
        with open(path, "rb") as file, without_pillows_caution():  # noqa: PTH123
            return make(file)
    except (OSError, UnicodeError, ValueError) as fault:
        raise Unusable(fault_of(fault)) from None


def require_regular(path: str) -> None:
    """A pipe would block, and a device may never end."""
    if not stat.S_ISREG(os.stat(path).st_mode):  # noqa: PTH116
        raise Unusable("not a regular file")


def fingerprint(path: str) -> str:
    """The SHA-256 of a file."""
    try:
        require_regular(path)
        with open(path, "rb") as file:  # noqa: PTH123
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as fault:
        raise Unusable(fault_of(fault)) from None


@contextlib.contextmanager
def without_pillows_caution() -> Iterator[None]:
    """No warnings on metadata that do not matter here, and our limit on pixels instead of Pillow's own."""
    before = Image.MAX_IMAGE_PIXELS
    Image.MAX_IMAGE_PIXELS = None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        Image.MAX_IMAGE_PIXELS = before


def decode_stream(file: BinaryIO, limits: Limits) -> Decoded:
    return from_image(file, limits.max_pixels, lambda image: upright(image, limits.max_size))


def from_image(file: BinaryIO, max_pixels: int, make: Callable[[Image.Image], Made]) -> Made:
    """What is made of an image in a file, if it is one, and of no more pixels."""
    try:
        image = Image.open(file, formats=FORMATS)
    except UnidentifiedImageError:
        empty = file.seek(0, os.SEEK_END) == 0
        raise Unusable("empty file" if empty else "not an image, or damaged at its beginning") from None
    except Exception as fault:  # decoders raise whatever they like
        raise undecodable(fault) from None
    with image:
        width, height = image.size
        if width * height > max_pixels:
            allowed = f"more than --max-pixels {max_pixels}"
            raise Unusable(f"{width} x {height} pixels are {allowed}")
        try:
            return make(image)
        except Unusable:
            raise
        except Exception as fault:  # the same, and MemoryError
            raise undecodable(fault) from None


def upright(image: Image.Image, max_size: int) -> Decoded:
    """Shades of grey, turned and scaled."""
    shrink = min(1.0, max_size / max(image.size)) if max_size else 1.0
    if image.format in ("JPEG", "MPO") and image.mode in ("L", "RGB"):
        # the decoder's own grey, and its own way to a smaller image, which is many times faster
        image.draft("L", (max(1, int(image.width * shrink)), max(1, int(image.height * shrink))))
    image.load()
    orientation = orientation_of(image)  # asked now: to ask may load an image and hide its faults
    grey, remarks = grey_values(image, max_size)
    if orientation in TURNS:
        remarks.append("turned as EXIF says")
        grey = np.ascontiguousarray(TURNS[orientation](grey))
    if shrink < 1:
        remarks.append("scaled down to --max-size")
        grey = scaled_down(grey, max_size)
    if image.format in ("GIF", "PNG", "TIFF", "WEBP") and getattr(image, "is_animated", False):
        remarks.append("shown by its first frame")
    return Decoded(grey, tuple(remarks))


def scaled_down(values: Array, max_size: int) -> Array:
    shrink = max_size / max(values.shape) if max_size else 1.0
    if shrink >= 1:
        return values
    size = [max(1, round(length * shrink)) for length in reversed(values.shape)]
    return cv2.resize(values, size, interpolation=cv2.INTER_AREA)


def grey_values(image: Image.Image, max_size: int) -> tuple[Array, list[str]]:
    """Shades of grey from 0 to 255, and remarks on what had to be converted.

    Large images may come smaller, but not below ``max_size``: real numbers take several times the memory.
    """
    remarks: list[str] = []
    if image.mode.startswith("I") or image.mode == "F":
        return deep_values(image, max_size), ["scaled from more than 8 bits"]
    if image.mode == "CMYK":
        remarks.append("converted from CMYK")
        image = image.convert("RGB")
    transparent = image.has_transparency_data
    if transparent:
        image = image.convert("RGBA")
    elif image.mode not in ("L", "RGB"):
        image = image.convert("RGB")
    if max_size and max(image.size) >= 2 * max_size:
        image = image.reduce(max(image.size) // max_size)
    grey: Array = np.asarray(image.convert("L"), dtype=np.float32)
    if transparent:
        alpha = np.asarray(image.getchannel("A"), dtype=np.float32) / 255
        if alpha.min() < 1:
            remarks.append("laid on white where transparent")
            grey = alpha * grey + (1 - alpha) * 255
    return grey, remarks


def deep_values(image: Image.Image, max_size: int) -> Array:
    """Whole numbers of 16 bits from 0 to 255; wider ones and real ones from the darkest to the brightest."""
    values = np.asarray(image)
    low, high = (0.0, 65535.0) if image.mode != "F" and values.max() < 65536 else (values.min(), values.max())
    if not np.isfinite([low, high]).all():  # the ends of what has a NaN are NaN
        raise Unusable("some of its pixels are NaN or infinite")
    if values.dtype.kind != "u":
        values = values.astype(np.float32)
    values = scaled_down(values, max_size).astype(np.float64)
    scaled: Array = ((np.clip(values, low, high) - low) * (255 / ((high - low) or 1))).astype(np.float32)
    return scaled


def orientation_of(image: Image.Image) -> int:
    try:
        return int(image.getexif().get(ORIENTATION, 1))
    except Exception:  # damaged metadata do not make an image useless
        return 1


def undecodable(fault: BaseException) -> Unusable:
    if isinstance(fault, MemoryError) or "nsufficient memory" in str(fault):  # as OpenCV says it
        return Unusable("needs more memory than there is")
    reason = str(fault).strip() or type(fault).__name__
    return Unusable(f"cannot be decoded: {reason[0].lower()}{reason[1:]}")
