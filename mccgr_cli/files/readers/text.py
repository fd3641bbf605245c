"""Text files: opened, gzipped or not; lists of labels; numbers."""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import warnings
import zlib
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, BinaryIO, TextIO

import numpy as np

from mccgr_cli.blocks.protocol import Array
from mccgr_cli.errors import DataError
from mccgr_cli.files.encodings import LONGEST_MARK, WESTERN, marked_encoding
from mccgr_cli.files.readers.arrays import NamedLabels
from mccgr_cli.system.memory import available_memory, format_bytes

PIECE = 1 << 16  # bytes read at a time
FIELD_BYTES = 200  # memory for a field in the first lines of a table, which are split into text
SEPARATORS = (b",", b";", b"\t", b" ", b"\n")


def read_label_lines(path: Path, inner: str | None, where: str) -> NamedLabels:
    """One label per line; blank lines at the end do not count."""
    if inner:
        raise DataError(where, "a list of labels has no columns", f"leave out ::{inner}")
    with opened_text(path, where) as file:
        lines = file.read().rstrip().splitlines()
    if not lines:
        raise DataError(where, "empty file", "it should have one label per line")
    return NamedLabels(None, filled([line.strip() for line in lines], "line", 1, where))


def filled(labels: list[str], unit: str, first: int, where: str) -> list[str]:
    if "" in labels:
        what = f"{unit} {labels.index('') + first} has no label"
        raise DataError(where, what, "leave those samples out or give them a label")
    return labels


@contextmanager
def opened_text(source: Path | BinaryIO, where: str) -> Iterator[TextIO]:
    """Open text, gzipped or not, or what came down a pipe. Damaged bytes become one DataError."""
    try:
        with ExitStack() as stack:
            content: Any = stack.enter_context(source.open("rb")) if isinstance(source, Path) else source
            content.seek(0)
            if isinstance(source, Path) and source.suffix.lower() == ".gz":
                unpacked = stack.enter_context(gzip.GzipFile(fileobj=content))
                content = stack.enter_context(io.BufferedReader(Bounded(unpacked, where), PIECE))
            encoding = encoding_of(content, where)
            content.seek(0)
            yield stack.enter_context(io.TextIOWrapper(content, encoding=encoding, newline=""))
    except UnicodeError as fault:
        raise DataError(where, f"damaged text ({fault})", "save it as UTF-8") from None
    except (gzip.BadGzipFile, EOFError, zlib.error) as fault:
        what = f"damaged or truncated gzip file ({fault})"
        raise DataError(where, what, "make, copy or download it again") from None
    except csv.Error as fault:
        raise DataError(where, f"not a table of text ({fault})", "check its quotes") from None


def encoding_of(content: Any, where: str) -> str:
    """UTF-8; UTF-16 or UTF-32 if the first bytes say so; otherwise what old Windows programs write."""
    marked = marked_encoding(content.read(LONGEST_MARK))
    if marked not in (None, "utf-8-sig"):
        return marked
    fault = decoding_fault(content, "utf-8")
    if fault is None:
        return marked or "utf-8"
    if marked or decoding_fault(content, WESTERN):
        raise DataError(where, f"not UTF-8 text (byte {fault.object[fault.start]:#04x})", "save it as UTF-8")
    return WESTERN


def decoding_fault(content: Any, encoding: str) -> UnicodeDecodeError | None:
    """The first fault in bytes that should be text."""
    decoder = codecs.getincrementaldecoder(encoding)()
    content.seek(0)
    try:
        while piece := content.read(PIECE):
            decoder.decode(piece)
        decoder.decode(b"", final=True)
    except UnicodeDecodeError as fault:
        return fault
    return None


class Bounded(io.RawIOBase):
    """The unpacked bytes of a gzip file; an error if they are more than fits into memory, as a small file can hold."""

    def __init__(self, file: gzip.GzipFile, where: str) -> None:
        self._file, self._where = file, where
        self._most = available_memory()
        self._numbers = self._in_line = 0

    def readinto(self, buffer: Any) -> int:
        piece = self._file.read(len(buffer))
        found = sum(map(piece.count, SEPARATORS))
        self._numbers += found
        self._in_line = found if b"\n" in piece else self._in_line + found
        if max(self._file.tell(), 8 * self._numbers, FIELD_BYTES * self._in_line) > self._most:
            what = f"more text or numbers than fit into the free memory, {format_bytes(self._most)}"
            raise DataError(self._where, what, "use a larger machine, or store it as HDF5")
        buffer[: len(piece)] = piece
        return len(piece)

    def seek(self, offset: int, whence: int = 0) -> int:
        self._numbers = self._in_line = 0  # it is read again
        return self._file.seek(offset, whence)

    def tell(self) -> int:
        return self._file.tell()

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True


def load_text(file: Iterable[str], width: int, **options: Any) -> Array:
    """The rest of a file as numbers (lines, ``width``)."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about a file without lines: check_values refuses an empty matrix
        values = np.loadtxt(file, ndmin=2, encoding=None, comments=None, **options)
    if len(values) == 0:
        return np.empty((0, width))
    if values.shape[1] != width:
        raise ValueError(f"{counted(values.shape[1], 'column')} instead of {width}")
    return values


def counted(count: int, noun: str) -> str:
    return f"{count} {noun}" + ("" if count == 1 else "s")
