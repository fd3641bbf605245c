"""Finding pictures, and decoding one to shades of grey whatever its format.

Nothing that a file holds is trusted: its size is looked at before it is decoded, and whatever a decoder raises
becomes a reason to skip that one picture.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

import cv2
import numpy as np
from PIL import Image, ImageOps, UnidentifiedImageError

from mccgr_cli.blocks import Array
from mccgr_cli.errors import DataError

# Formats of pictures as Pillow calls them. Others that it knows are left out: they start other programs (EPS), or
# are not pictures in the first place.
FORMATS = ("JPEG", "PNG", "TIFF", "BMP", "GIF", "WEBP", "PPM", "JPEG2000")
SUFFIXES = (
    *(".jpg", ".jpeg", ".jpe", ".jfif", ".png", ".apng", ".tif", ".tiff", ".bmp", ".dib", ".gif", ".webp"),
    *(".ppm", ".pgm", ".pbm", ".pnm", ".jp2", ".j2k", ".jpx"),
)
HASH_BYTES = 1 << 20
ORIENTATION = 0x0112  # of EXIF
UPRIGHT = 1


@dataclass(frozen=True)
class Picture:
    path: str  # for the system
    name: str  # for people and files
    label: str | None = None


@dataclass(frozen=True)
class Skipped:
    name: str
    reason: str


@dataclass
class Collection:
    """What was found in a folder or on a list."""

    pictures: list[Picture] = field(default_factory=list)
    skipped: list[Skipped] = field(default_factory=list)
    empty: list[str] = field(default_factory=list)  # folders that could have been categories
    ignored: int = 0  # files that are not pictures by their names


# Finding


def find(folder: str, labelled: bool = True) -> Collection:
    """The pictures in a folder, in the order of their names.

    Each folder in it is a category, with all that lies below it. A folder of nothing but pictures has no categories.
    """
    found = Collection()
    root = Path(folder)
    try:
        next(root.iterdir(), None)
    except OSError as fault:
        raise DataError(folder, fault_of(fault), "name a folder of pictures") from None
    for path in walk(root, Path(), found, ()):
        label = text_of(path.parts[0]) if labelled and len(path.parts) > 1 else None
        found.pictures.append(Picture(str(root / path), text_of(path.as_posix()), label))
    if not found.pictures:
        held = f"{counted(found.ignored, 'file')}, none a picture by its name" if found.ignored else "no picture in it"
        raise DataError(folder, held, f"mccgr reads {' '.join(SUFFIXES)}")
    loose = sum(picture.label is None for picture in found.pictures)
    if labelled and 0 < loose < len(found.pictures):
        what = f"{counted(loose, 'picture')} beside folders with {len(found.pictures) - loose}"
        raise DataError(folder, what, "move them into a folder of their own, or give --no-labels")
    if labelled and not loose:
        used = {picture.label for picture in found.pictures}
        found.empty = [
            text_of(f.name) for f in sorted(root.iterdir()) if is_category(f) and text_of(f.name) not in used
        ]
    return found


def is_category(path: Path) -> bool:
    return not path.name.startswith(".") and path.is_dir()


def walk(root: Path, below: Path, found: Collection, above: tuple[tuple[int, int], ...]) -> Iterator[Path]:
    """Pictures by name, relative to the root. Links are followed, but not in a circle."""
    try:
        status = (root / below).stat()
        names = sorted(path.name for path in (root / below).iterdir())
    except OSError as fault:
        found.skipped.append(Skipped(text_of(below.as_posix()), fault_of(fault)))
        return
    own = (status.st_dev, status.st_ino)
    if own in above:
        found.skipped.append(Skipped(text_of(below.as_posix()), "a link to a folder that it lies in"))
        return
    for name in names:
        if name.startswith("."):  # hidden, and what macOS leaves beside each file
            continue
        path = below / name
        if (root / path).is_dir():
            yield from walk(root, path, found, (*above, own))
        elif path.suffix.lower() in SUFFIXES:
            yield path
        else:
            found.ignored += 1


def from_list(content: bytes, labelled: bool = True) -> Collection:
    """The pictures on a list: one a line, or between zero bytes as ``find -print0`` writes them.

    Where they lie in several folders, the folder of each is its label.
    """
    separator = b"\0" if b"\0" in content else b"\n"
    paths = [Path(os.fsdecode(line)) for line in content.split(separator) if line.strip()]
    if separator == b"\n":
        paths = [Path(str(path).rstrip("\r")) for path in paths]
    if not paths:
        raise DataError("standard input", "a list of no pictures", "the command before the pipe may have failed")
    several = labelled and len({path.parent for path in paths}) > 1
    return Collection(
        [
            Picture(str(path), text_of(path.as_posix()), text_of(path.absolute().parent.name) if several else None)
            for path in paths
        ]
    )


def text_of(name: str) -> str:
    """A name from the system as text that any file can hold."""
    return os.fsencode(name).decode("utf-8", "backslashreplace")


def counted(number: int, noun: str) -> str:
    """
    >>> counted(1, "picture"), counted(2, "picture")
    ('1 picture', '2 pictures')
    """
    return f"{number} {noun}{'' if number == 1 else 's'}"


# Decoding


class Unusable(Exception):
    """A picture to skip; the text says why."""


@dataclass(frozen=True)
class Limits:
    """What is decoded, and to which size."""

    max_size: int  # pixels of the longer side, to which larger pictures are scaled down; 0: as they are
    max_pixels: int  # more are refused before they are decoded


@dataclass(frozen=True)
class Decoded:
    grey: Array  # (height, width) float32, 0 to 255
    sha256: str  # of the file
    remarks: tuple[str, ...]  # on how it was converted


def decode(path: str, limits: Limits) -> Decoded:
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):  # noqa: PTH116 - a pipe would block
            raise Unusable("not a regular file")
        with open(path, "rb") as file, without_pillows_caution():  # noqa: PTH123
            digest = hash_file(file)
            grey, remarks = decode_stream(file, limits)
    except (OSError, UnicodeError, ValueError) as fault:
        raise Unusable(fault_of(fault)) from None
    return Decoded(grey, digest, remarks)


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


def decode_stream(file: BinaryIO, limits: Limits) -> tuple[Array, tuple[str, ...]]:
    try:
        image = Image.open(file, formats=FORMATS)
    except UnidentifiedImageError:
        empty = file.seek(0, os.SEEK_END) == 0
        raise Unusable("empty file" if empty else "not a picture, or damaged at its beginning") from None
    except Exception as fault:  # decoders raise whatever they like
        raise undecodable(fault) from None
    with image:
        width, height = image.size
        if width * height > limits.max_pixels:
            allowed = f"more than --max-pixels {limits.max_pixels}"
            raise Unusable(f"{width} x {height} pixels are {allowed}")
        try:
            shrink = min(1.0, limits.max_size / max(width, height)) if limits.max_size else 1.0
            grey, remarks = grey_values(image, shrink)
        except Unusable:
            raise
        except Exception as fault:  # the same, and MemoryError
            raise undecodable(fault) from None
    if shrink < 1:
        size = (max(1, round(width * shrink)), max(1, round(height * shrink)))
        turned = grey.shape[0] > grey.shape[1] if width > height else grey.shape[0] < grey.shape[1]
        grey = cv2.resize(grey, size[::-1] if turned else size, interpolation=cv2.INTER_AREA)
        remarks += ("scaled down to --max-size",)
    return grey, remarks


def grey_values(image: Image.Image, shrink: float) -> tuple[Array, tuple[str, ...]]:
    """Shades of grey from 0 to 255, upright, and remarks on what had to be converted."""
    remarks: list[str] = []
    if image.format in ("JPEG", "MPO") and image.mode in ("L", "RGB"):
        # the decoder's own grey, and its own way to a smaller picture, which is many times faster
        image.draft("L", (int(image.width * shrink), int(image.height * shrink)))
    orientation = orientation_of(image)
    if orientation != UPRIGHT:
        ImageOps.exif_transpose(image, in_place=True)
        remarks.append("turned as its EXIF says")
    if image.mode.startswith("I") or image.mode == "F":
        remarks.append("scaled from more than 8 bits")
        return deep_values(image), tuple(remarks)
    alpha = None
    if image.mode == "CMYK":
        remarks.append("converted from CMYK")
        image = image.convert("RGB")
    elif image.has_transparency_data:
        image = image.convert("RGBA")
        alpha = np.asarray(image.getchannel("A"), dtype=np.float32) / 255
    if image.mode not in ("L", "RGB", "RGBA"):
        image = image.convert("RGB")
    grey: Array = np.asarray(image.convert("L"), dtype=np.float32)
    if alpha is not None and alpha.min() < 1:
        remarks.append("laid on white where transparent")
        grey = alpha * grey + (1 - alpha) * 255
    return grey, tuple(remarks)


def deep_values(image: Image.Image) -> Array:
    """Whole numbers of 16 bits from 0 to 255; wider ones and real ones from the darkest to the brightest."""
    values = np.asarray(image).astype(np.float64)
    if not np.isfinite(values).all():
        raise Unusable("some of its pixels are NaN or infinite")
    low, high = (0.0, 65535.0) if image.mode != "F" and values.max() < 65536 else (values.min(), values.max())
    scaled: Array = ((np.clip(values, low, high) - low) * (255 / ((high - low) or 1))).astype(np.float32)
    return scaled


def orientation_of(image: Image.Image) -> int:
    try:
        return int(image.getexif().get(ORIENTATION, UPRIGHT))
    except Exception:  # damaged metadata do not make a picture useless
        return UPRIGHT


def undecodable(fault: BaseException) -> Unusable:
    if isinstance(fault, MemoryError):
        return Unusable("needs more memory than there is")
    reason = str(fault).strip() or type(fault).__name__
    return Unusable(f"cannot be decoded: {reason[0].lower()}{reason[1:]}")


def hash_file(file: BinaryIO) -> str:
    digest = hashlib.sha256()
    while chunk := file.read(HASH_BYTES):
        digest.update(chunk)
    file.seek(0)
    return digest.hexdigest()


def fault_of(fault: Exception) -> str:
    reason = getattr(fault, "strerror", None) or str(fault)
    return f"cannot be read: {reason[:1].lower()}{reason[1:]}"
