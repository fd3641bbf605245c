"""Standard input: whether it holds a file or the names of files."""

from __future__ import annotations

import io
import os
import sys
from typing import Any

from mccgr_cli.errors import DataError
from mccgr_cli.files.readers import input_errors, nothing_arrived, split_inner
from mccgr_cli.files.readers.hdf5 import SIGNATURE

LONGEST_TEXT = 1 << 14  # bytes; a longer text is not the name of a file
SHOWN = 60  # characters of a line in a message
WHERE = "standard input"


def find_names(text_is_data: bool = False, several: bool = False) -> list[str]:
    """The name of a file, if standard input holds nothing else. Empty: it holds data, which are still to be read.

    ``text_is_data``: other text is data too, not an error. ``several``: there may be a name in every line.
    """
    if sys.stdin is None:
        return []  # whoever reads the data says so
    with input_errors(WHERE):
        head = sys.stdin.buffer.read(LONGEST_TEXT + 1)
    if not head.strip():
        raise nothing_arrived(WHERE)
    if len(head) > LONGEST_TEXT or b"\0" in head or head.startswith(SIGNATURE):
        put_back(head)
        return []
    whole, text = (os.fsdecode(one) for one in (head.removesuffix(b"\n"), head.rstrip(b"\r\n")))
    found = next((name for name in (whole, text) if exists(name)), None)  # a name may have a line break
    if found is not None:
        return [found]
    lines = text.split("\n")
    if text_is_data and len(lines) > 1:
        put_back(head)
        return []
    if len(lines) > 1 and not several:
        what = f"{len(lines)} lines of text, where HDF5 or one file name should be"
        raise DataError(WHERE, what, "give a file by its name, and several files one by one (xargs -n 1)")
    missing = next((line for line in lines if not exists(line)), None)
    if missing is None:
        return lines
    shown = missing if len(missing) <= SHOWN else f"{missing[:SHOWN]}..."
    what = f"holds neither HDF5 nor the name of a file: there is no file '{shown}'"
    raise DataError(WHERE, what, "did the command before the pipe fail?")


def exists(name: str) -> bool:
    return name != "-" and os.path.exists(split_inner(name)[0])  # noqa: PTH110 - it takes names that are too long


def put_back(head: bytes) -> None:
    """Let standard input begin with these bytes, which were read from it."""
    sys.stdin = io.TextIOWrapper(io.BufferedReader(Continued(head, sys.stdin)))


class Continued(io.RawIOBase):
    """Some bytes, then what is left of a stream."""

    def __init__(self, head: bytes, stream: Any) -> None:
        self._head, self._stream = head, stream

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        piece = self._head[: len(buffer)] or self._stream.buffer.read(len(buffer))
        self._head = self._head[len(piece) :]
        buffer[: len(piece)] = piece
        return len(piece)
