"""Decode the bytes of a text."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass

from mccgr_cli.files.encodings import WESTERN, marked_encoding
from mccgr_cli.files.folders import reading_fault

HEAD = 8192  # bytes that tell texts from other files
MOST_CONTROLS = 0.02  # of the first letters of a text: other files have many more
WHITE = "\t\n\r\f\v\x1b"
BINARY = "not a text but binary data"
EMPTY = "empty"


class UnusableText(Exception):
    """Why a text cannot be used."""


@dataclass(frozen=True)
class Text:
    """A text, or the reason why there is none."""

    name: str
    label: str | None = None
    content: str = ""
    fault: str = ""
    is_western: bool = False  # whether it is not Unicode


def read_text(path: str, limit: int) -> tuple[str, bool]:
    """The text in a file with at most ``limit`` bytes, and whether it is not Unicode."""
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):  # noqa: PTH116 - a name may be any bytes
            raise UnusableText("not a file")  # a pipe would be waited for
        with open(path, "rb") as file:  # noqa: PTH123
            data = file.read(limit + 1)
    except (OSError, ValueError) as fault:
        raise UnusableText(reading_fault(fault)) from None
    if len(data) > limit:
        raise UnusableText(f"larger than --max-text {limit}")
    content, encoding = decode(data)
    return content, encoding == WESTERN


def decode(data: bytes) -> tuple[str, str]:
    """The text, and its encoding. What is not Unicode is taken for Windows-1252, which contains Latin-1's letters."""
    encoding = encoding_of(data)
    if encoding is None:
        raise UnusableText(BINARY)
    try:
        content = data.decode(encoding)
    except UnicodeDecodeError:
        if encoding != "utf-8":
            raise UnusableText(f"damaged {encoding.upper()}") from None
        encoding = WESTERN
        content = data.decode(encoding, errors="replace")
    head = content[:HEAD]
    if sum(letter < " " and letter not in WHITE for letter in head) > MOST_CONTROLS * len(head):
        raise UnusableText(BINARY)
    if not content.strip():
        raise UnusableText(EMPTY)
    return content, encoding


def encoding_of(head: bytes) -> str | None:
    """The encoding by the first bytes: a byte-order mark, or UTF-8; None if they are no text."""
    return marked_encoding(head) or (None if b"\0" in head else "utf-8")


def is_text_file(path: str) -> bool:
    """Whether the first bytes of a file are a text."""
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):  # noqa: PTH116
            return False
        with open(path, "rb") as file:  # noqa: PTH123
            head = file.read(HEAD)
        decode(head if encoding_of(head) != "utf-8" else head[: cut_of(head)])
    except (OSError, ValueError, UnusableText):
        return False
    return True


def cut_of(head: bytes) -> int:
    """The end of the last whole letter of UTF-8."""
    end = len(head)
    while end and end > len(head) - 4 and head[end - 1] & 0xC0 == 0x80:
        end -= 1
    return end - 1 if end and head[end - 1] >= 0xC0 else len(head)
