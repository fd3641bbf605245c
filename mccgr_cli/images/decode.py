"""Decode one image of any format to grey values or to colours.

Image files are not trusted: the number of pixels is checked before decoding, and every error of a decoder becomes the
reason why this one image is skipped.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
import warnings
from collections.abc import Iterator
from dataclasses import dataclass

import cv2
import numpy as np
from PIL import ExifTags, Image, ImageOps, UnidentifiedImageError

from mccgr_cli.blocks.protocol import Array
from mccgr_cli.files.folders import reading_fault
from mccgr_cli.images import plugins

# Pillow's names of the formats that are read, beside those of ``plugins``. Its other formats start other programs
# (EPS) or are not for images.
FORMATS = ("JPEG", "PNG", "TIFF", "BMP", "GIF", "WEBP", "PPM", "JPEG2000")
TURNED = range(2, 9)  # values of the EXIF orientation for which the stored image is not upright
FROM_DEEP, FROM_CMYK = "scaled from more than 8 bits", "converted from CMYK"
ON_WHITE = "laid on white where transparent"
HEAD = 12  # bytes that tell HEIC and AVIF from other formats
DECODER_CRASHED = "its decoder crashed"


class UnusableImage(Exception):
    """An image must be skipped; the text says why."""


@dataclass(frozen=True)
class Decoded:
    size: tuple[int, int]  # width and height of the image in its file
    remarks: tuple[str, ...]  # how the image was converted


@dataclass(frozen=True)
class Grey(Decoded):
    grey: Array  # (height, width) float32, 0 to 255


@dataclass(frozen=True)
class Colours(Decoded):
    colours: Array  # (height, width, 3) uint8: red, green, blue


def decode(path: str, max_size: int, max_pixels: int) -> Grey:
    """Read an image as upright grey values, or raise :class:`UnusableImage`.

    If its longer side has more than ``max_size`` pixels, it is scaled down (0: never). If it has more than
    ``max_pixels`` in all, it is refused before it is decoded.
    """
    with open_image(path, max_pixels) as image:
        size = image.size
        shrink = min(1.0, max_size / max(image.size)) if max_size else 1.0
        orientation = load(image, "L", (max(1, int(image.width * shrink)), max(1, int(image.height * shrink))))
        grey, remarks = grey_values(image, max_size)
        if orientation in TURNED:
            remarks.append("turned as EXIF says")
            grey = turned(grey, orientation)
        if shrink < 1:
            remarks.append("scaled down to --max-size")
            grey = scaled_down(grey, max_size)
        return Grey(size, (*remarks, *frame_remarks(image)), grey)


def decode_colours(path: str, least: int, max_pixels: int) -> Colours:
    """Read an image as upright red, green and blue, or raise :class:`UnusableImage`.

    A large image may be reduced, but its sides keep at least ``least`` pixels.
    """
    with open_image(path, max_pixels) as image:
        size = image.size
        orientation = load(image, "RGB", (least, least))
        opaque, remarks = on_white(image, least)
        colours: Array = np.asarray(opaque)
        if orientation in TURNED:
            remarks.append("turned as EXIF says")
            colours = turned(colours, orientation)
        return Colours(size, (*remarks, *frame_remarks(image)), colours)


def frame_remarks(image: Image.Image) -> list[str]:
    is_animated = image.format in ("AVIF", "GIF", "PNG", "TIFF", "WEBP") and getattr(image, "is_animated", False)
    return ["shown by its first frame"] if is_animated else []


@contextlib.contextmanager
def open_image(path: str, max_pixels: int) -> Iterator[Image.Image]:
    """Open an image, not yet decoded. Every error, also one in the ``with`` block, becomes :class:`UnusableImage`."""
    try:
        size = size_of_regular(path)
        file = open(path, "rb")  # noqa: PTH123, SIM115
    except (OSError, ValueError) as fault:
        raise UnusableImage(reading_fault(fault)) from None
    head = b""
    try:
        with file:
            head = file.peek(HEAD)[:HEAD]
            with without_pillow_limits(), Image.open(file, formats=(*FORMATS, *plugins.formats_of(head))) as image:
                width, height = image.size
                if width * height > max_pixels:
                    raise UnusableImage(f"{width} x {height} pixels are more than --max-pixels {max_pixels}")
                yield image
    except UnusableImage:
        raise
    except UnidentifiedImageError:
        if unreadable := plugins.name_of(head):
            raise UnusableImage(f"{unreadable[0]}: it needs {unreadable[1]}") from None
        raise UnusableImage("not an image, or damaged at its beginning" if size else "empty file") from None
    except Exception as fault:  # decoders raise errors of all types
        raise undecodable(fault) from None


def size_of_regular(path: str) -> int:
    """The size of a regular file in bytes. Other files are refused: a pipe would block, a device may never end."""
    status = os.stat(path)  # noqa: PTH116
    if not stat.S_ISREG(status.st_mode):
        raise UnusableImage("not a regular file")
    return status.st_size


def file_sha256(path: str) -> str:
    try:
        size_of_regular(path)
        with open(path, "rb") as file:  # noqa: PTH123
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as fault:
        raise UnusableImage(reading_fault(fault)) from None


@contextlib.contextmanager
def without_pillow_limits() -> Iterator[None]:
    """Switch off Pillow's warnings about metadata, and its limit on pixels: we have our own."""
    before, Image.MAX_IMAGE_PIXELS = Image.MAX_IMAGE_PIXELS, None
    try:
        with warnings.catch_warnings(action="ignore"):
            yield
    finally:
        Image.MAX_IMAGE_PIXELS = before


def load(image: Image.Image, mode: str, size: tuple[int, int]) -> int:
    """Decode the pixels and return the EXIF orientation, 1 if it is unknown.

    A JPEG is decoded directly to about this mode and size, which is many times faster. The orientation is read last:
    reading it can load the image and hide the errors of its decoder.
    """
    if image.format in ("JPEG", "MPO") and image.mode in ("L", "RGB"):
        image.draft(mode, size)
    image.load()
    try:
        return int(image.getexif().get(ExifTags.Base.Orientation, 1))
    except Exception:  # damaged metadata do not make an image unusable
        return 1


def turned(pixels: Array, orientation: int) -> Array:
    """Pixels (height, width) or (height, width, 3), turned upright.

    The tag is set on a new image: conversions lose the one of the file, and other tags of the file may be damaged.
    """
    image = Image.fromarray(pixels)
    image.getexif()[ExifTags.Base.Orientation] = orientation
    return np.asarray(ImageOps.exif_transpose(image))


def scaled_down(values: Array, max_size: int) -> Array:
    shrink = max_size / max(values.shape) if max_size else 1.0
    if shrink >= 1:
        return values
    size = [max(1, round(length * shrink)) for length in reversed(values.shape)]
    return cv2.resize(values, size, interpolation=cv2.INTER_AREA)


def grey_values(image: Image.Image, max_size: int) -> tuple[Array, list[str]]:
    """Grey values from 0 to 255, and remarks on conversions.

    Large images are reduced here, but not below ``max_size``, because float values take several times the memory.
    """
    remarks: list[str] = []
    if has_deep_values(image):
        return deep_values(image, max_size), [FROM_DEEP]
    if image.mode == "CMYK":
        remarks.append(FROM_CMYK)
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
            remarks.append(ON_WHITE)
            grey = alpha * grey + (1 - alpha) * 255
    return grey, remarks


def on_white(image: Image.Image, least: int) -> tuple[Image.Image, list[str]]:
    """An image of any mode as RGB, with white behind transparent parts; and remarks on conversions.

    A large transparent image is reduced first, but its longer side keeps at least ``least`` pixels.
    """
    if has_deep_values(image):
        grey = Image.fromarray(deep_values(image, least).round().astype(np.uint8))
        return grey.convert("RGB"), [FROM_DEEP]
    remarks = [FROM_CMYK] if image.mode == "CMYK" else []
    if not image.has_transparency_data:
        return image.convert("RGB"), remarks
    image = image.convert("RGBA")
    if max(image.size) >= 2 * least:
        image = image.reduce(max(image.size) // least)
    if np.asarray(image.getchannel("A")).min() < 255:
        remarks.append(ON_WHITE)
    return Image.alpha_composite(Image.new("RGBA", image.size, "white"), image).convert("RGB"), remarks


def has_deep_values(image: Image.Image) -> bool:
    """Whether pixels have more than 8 bits."""
    return image.mode.startswith("I") or image.mode == "F"


def deep_values(image: Image.Image, max_size: int) -> Array:
    """Pixels of more than 8 bits as values from 0 to 255.

    16-bit integers are scaled by their range; wider integers and floats from the darkest to the brightest pixel.
    """
    values = np.asarray(image)
    low, high = (0.0, 65535.0) if image.mode != "F" and values.max() < 65536 else (values.min(), values.max())
    if not np.isfinite([low, high]).all():  # one NaN makes both NaN
        raise UnusableImage("some of its pixels are NaN or infinite")
    if values.dtype.kind != "u":
        values = values.astype(np.float32)
    values = scaled_down(values, max_size).astype(np.float64)
    return np.asarray((np.clip(values, low, high) - low) * (255 / ((high - low) or 1)), dtype=np.float32)


def undecodable(fault: BaseException) -> UnusableImage:
    if isinstance(fault, MemoryError) or "nsufficient memory" in str(fault):  # OpenCV's message
        return UnusableImage("needs more memory than there is")
    reason = str(fault).strip() or type(fault).__name__
    return UnusableImage(f"cannot be decoded: {reason[0].lower()}{reason[1:]}")
