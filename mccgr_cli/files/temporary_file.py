"""A file in the temporary folder, for data that cannot be read twice."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import BinaryIO

from mccgr_cli.errors import OutputError


@contextmanager
def temporary_file() -> Iterator[BinaryIO]:
    """A file that disappears when it is closed."""
    with temporary_errors():
        file = tempfile.TemporaryFile()  # noqa: SIM115
    try:
        yield file
    finally:
        with suppress(OSError):  # of a full disk, which was reported before
            file.close()


@contextmanager
def temporary_errors() -> Iterator[None]:
    """Turn errors of the system about the temporary folder into an OutputError with a remedy."""
    try:
        yield
    except OSError as fault:
        folder = tempfile.tempdir or os.environ.get("TMPDIR", "/tmp")
        what = f"cannot write: {(fault.strerror or str(fault)).lower()}"
        remedy = "a copy of the data goes there; set TMPDIR to a folder with enough room"
        raise OutputError(f"temporary folder {folder}", what, remedy) from None
