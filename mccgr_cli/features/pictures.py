"""Finding pictures, and decoding one to shades of grey whatever its format.

Nothing that a file holds is trusted: its size is looked at before it is decoded, and whatever a decoder raises
becomes a reason to skip that one picture.
"""

from __future__ import annotations

import codecs
import contextlib
import hashlib
import os
import stat
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

import cv2
import numpy as np
from PIL import Image, UnidentifiedImageError

from mccgr_cli.blocks import Array
from mccgr_cli.errors import DataError

# Formats of pictures as Pillow calls them. Others that it knows are left out: they start other programs (EPS), or
# are not pictures in the first place.
FORMATS = ("JPEG", "PNG", "TIFF", "BMP", "GIF", "WEBP", "PPM", "JPEG2000")
SUFFIXES = (
    *(".jpg", ".jpeg", ".jpe", ".jfif", ".png", ".apng", ".tif", ".tiff", ".bmp", ".gif", ".webp"),
    *(".ppm", ".pgm", ".pbm", ".pnm", ".jp2", ".j2k", ".jpx"),
)
DEEPEST = 100  # folders in folders
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
    ignored: list[str] = field(default_factory=list)  # files that are not pictures by their names


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
    for path in walk(root, Path(), found, {}):
        label = text_of(path.parts[0]) if labelled and len(path.parts) > 1 else None
        found.pictures.append(Picture(str(root / path), text_of(path.as_posix()), label))
    if not found.pictures and found.skipped:
        first = found.skipped[0]
        raise DataError(folder, f"no picture can be reached; {first.name}: {first.reason}")
    if not found.pictures:
        others = counted(len(found.ignored), "file")
        held = f"{others}, none a picture by its name" if found.ignored else "no picture in it"
        raise DataError(folder, held, f"mccgr reads {' '.join(SUFFIXES)}")
    check_labels(found.pictures, folder)
    used = {picture.label for picture in found.pictures}
    if None not in used:
        found.empty = [
            text_of(f.name) for f in sorted(root.iterdir()) if is_category(f) and text_of(f.name) not in used
        ]
    return found


def is_category(path: Path) -> bool:
    return not path.name.startswith(".") and path.is_dir()


def walk(root: Path, below: Path, found: Collection, visited: dict[tuple[int, int], Path]) -> Iterator[Path]:
    """Pictures by name, relative to the root. Links are followed, but no folder is read twice."""
    try:
        status = (root / below).stat()
        names = sorted(path.name for path in (root / below).iterdir())
        folders = {name for name in names if (root / below / name).is_dir()}
    except OSError as fault:
        found.skipped.append(Skipped(text_of(below.as_posix()), fault_of(fault)))
        return
    first = visited.setdefault((status.st_dev, status.st_ino), below)
    if first != below:
        again = "a link to the folder that it lies in" if first == Path() else f"the same folder as {first.as_posix()}"
        found.skipped.append(Skipped(text_of(below.as_posix()), text_of(again)))
        return
    if len(below.parts) > DEEPEST:
        found.skipped.append(Skipped(text_of(below.as_posix()), f"more than {DEEPEST} folders deep"))
        return
    for name in names:
        if name.startswith("."):  # hidden, and what macOS leaves beside each file
            continue
        path = below / name
        if name in folders:
            yield from walk(root, path, found, visited)
        elif path.suffix.lower() in SUFFIXES:
            yield path
        else:
            found.ignored.append(text_of(path.as_posix()))


def from_list(content: bytes, labelled: bool = True) -> Collection:
    """The pictures on a list: one a line, or between zero bytes as ``find -print0`` writes them.

    The folders in the one folder that all of them lie in are the categories, as if that were given.
    """
    content = content.removeprefix(codecs.BOM_UTF8)
    separator, ending = (b"\0", b"") if b"\0" in content else (b"\n", b"\r")
    paths = [os.fsdecode(line.rstrip(ending)) for line in content.split(separator) if line.strip()]
    if not paths:
        raise DataError("standard input", "a list of no pictures", "the command before the pipe may have failed")
    folders = [os.path.dirname(os.path.abspath(path)) for path in paths]  # noqa: PTH100, PTH120 - of any bytes
    common = Path(os.path.commonpath(folders))
    labels = [next(iter(Path(folder).relative_to(common).parts), None) if labelled else None for folder in folders]
    pictures = [
        Picture(path, text_of(path), None if label is None else text_of(label))
        for path, label in zip(paths, labels, strict=True)
    ]
    check_labels(pictures, "standard input")
    return Collection(pictures)


def check_labels(pictures: Sequence[Picture], where: str) -> None:
    """Refuse pictures with and without labels together."""
    loose = [picture.name for picture in pictures if picture.label is None]
    if 0 < len(loose) < len(pictures):
        what = f"{counted(len(loose), 'picture')} beside folders with {len(pictures) - len(loose)}, first {loose[0]}"
        raise DataError(where, what, "move them into a folder of their own, or give --no-labels")


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
    remarks: tuple[str, ...]  # on how it was converted


def decode(path: str, limits: Limits) -> Decoded:
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):  # noqa: PTH116 - a pipe would block
            raise Unusable("not a regular file")
        with open(path, "rb") as file, without_pillows_caution():  # noqa: PTH123
            return decode_stream(file, limits)
    except (OSError, UnicodeError, ValueError) as fault:
        raise Unusable(fault_of(fault)) from None


def fingerprint(path: str) -> str:
    """The SHA-256 of a file."""
    try:
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
            return upright(image, limits.max_size)
        except Unusable:
            raise
        except Exception as fault:  # the same, and MemoryError
            raise undecodable(fault) from None


def upright(image: Image.Image, max_size: int) -> Decoded:
    """Shades of grey, turned and scaled."""
    shrink = min(1.0, max_size / max(image.size)) if max_size else 1.0
    if image.format in ("JPEG", "MPO") and image.mode in ("L", "RGB"):
        # the decoder's own grey, and its own way to a smaller picture, which is many times faster
        image.draft("L", (max(1, int(image.width * shrink)), max(1, int(image.height * shrink))))
    image.load()
    orientation = orientation_of(image)  # asked now: to ask may load a picture and hide its faults
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

    Large pictures may come smaller, but not below ``max_size``: real numbers take several times the memory.
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
    except Exception:  # damaged metadata do not make a picture useless
        return 1


def undecodable(fault: BaseException) -> Unusable:
    if isinstance(fault, MemoryError) or "nsufficient memory" in str(fault):  # as OpenCV says it
        return Unusable("needs more memory than there is")
    reason = str(fault).strip() or type(fault).__name__
    return Unusable(f"cannot be decoded: {reason[0].lower()}{reason[1:]}")


def fault_of(fault: Exception) -> str:
    reason = getattr(fault, "strerror", None) or str(fault)
    return f"cannot be read: {reason[:1].lower()}{reason[1:]}"
