"""Formats of phones, HEIC and AVIF: whether they can be read here, and what is needed if not.

They are loaded when the first such image is opened, so that nobody else waits for them.
"""

from __future__ import annotations

import functools
import importlib.util

HEIC, AVIF = (".heic", ".heif", ".hif"), (".avif",)
# The remedies, by the names that Pillow has for the formats.
INSTALL = {"HEIF": "pip install 'mccgr-cli[heic]'", "AVIF": "pip install --upgrade pillow"}
FORMAT_OF = {**dict.fromkeys(HEIC, "HEIF"), **dict.fromkeys(AVIF, "AVIF")}  # by suffix
BRANDS_OF_AVIF = (b"avif", b"avis")


@functools.cache
def is_readable(form: str) -> bool:
    """Whether images of a format can be read. Nothing is loaded to find out."""
    return importlib.util.find_spec("pillow_heif" if form == "HEIF" else "PIL._avif") is not None


def needed_for(suffix: str) -> str | None:
    """What to do before files with this suffix can be read; None if they can be read, or are not of these formats."""
    form = FORMAT_OF.get(suffix)
    return None if form is None or is_readable(form) else INSTALL[form]


def formats_of(head: bytes) -> tuple[str, ...]:
    """Which of these formats an image that begins with these bytes may have; they are ready to be read."""
    if head[4:8] != b"ftyp":
        return ()
    return tuple(form for form in INSTALL if is_readable(form) and load(form))


def name_of(head: bytes) -> tuple[str, str] | None:
    """The format of an image that cannot be read, for people, and what to do; None if it is none of these."""
    if head[4:8] != b"ftyp":
        return None
    form = "AVIF" if head[8:12] in BRANDS_OF_AVIF else "HEIF"
    return None if is_readable(form) else ("an AVIF image" if form == "AVIF" else "a HEIC image", INSTALL[form])


@functools.cache
def load(form: str) -> bool:
    """Register the decoder with Pillow: with one thread, because there is a process for each core."""
    if form == "HEIF":
        import pillow_heif

        pillow_heif.register_heif_opener(thumbnails=False, decode_threads=1)
    else:
        from PIL import AvifImagePlugin

        AvifImagePlugin.DEFAULT_MAX_THREADS = 1
    return True
