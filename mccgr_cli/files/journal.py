"""The finished pieces of a long run, kept beside its output: if the run is killed, the next one continues from them.

A journal is a file of lines. Each line is a JSON object: first the identity of the run, then one line per piece, with a
checksum. A damaged or incomplete line is skipped when the journal is opened again, and its piece is computed again.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

from mccgr_cli import __version__
from mccgr_cli.errors import OutputError
from mccgr_cli.files.atomic_write import output_errors
from mccgr_cli.system.locks import try_lock

OPENING = b'{"run": "'  # every journal begins with this


class Journal:
    """Results of finished pieces, by name, in ``done``. Only one process at a time can open a journal.

    The journal of another run is an error, unless it may be replaced (``overwrite``). As a context manager, a journal
    is deleted at the end of the block, and kept if the block fails.
    """

    def __init__(self, path: Path, identity: str, overwrite: bool = False) -> None:
        self.path = path
        self.done: dict[str, Any] = {}
        with output_errors(str(path)):
            if path.exists() and not path.is_file():
                raise OutputError(str(path), "is not a regular file", "choose another name with -o, or move it")
            self._file = path.open("a+b", buffering=0)  # nothing is left to write when it is closed
        try:
            if try_lock(self._file) is False:
                raise OutputError(str(path), "another run is writing it", "wait for it, or choose another name with -o")
            with output_errors(str(path)):
                self._open(identity, overwrite)
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self.remove()
        self.close()

    def _open(self, identity: str, overwrite: bool) -> None:
        self._file.seek(0)
        content = self._file.read()
        if not content.startswith(OPENING[: len(content)]):
            raise OutputError(
                str(self.path), "is not the saved part of a run", "choose another name with -o, or move it"
            )
        lines = content[: content.rfind(b"\n") + 1].splitlines(keepends=True)
        if lines and parsed(lines[0]) != {"run": identity}:
            if not overwrite:
                what = "holds part of a run with other data or options"
                raise OutputError(str(self.path), what, "give those, choose another name with -o, or give --overwrite")
            lines = []
        for entry in map(parsed, lines[1:]):
            complete = entry.keys() == {"name", "result", "sum"} and isinstance(entry["name"], str)
            if complete and entry["sum"] == checksum(entry["name"], entry["result"]):
                self.done[entry["name"]] = entry["result"]
        self._file.truncate(sum(map(len, lines)))
        if not lines:
            self._write({"run": identity})

    def add(self, name: str, result: Any) -> None:
        """Keep a piece; it is on the disk when this returns."""
        self.done[name] = result
        with output_errors(str(self.path)):
            self._write({"name": name, "result": result, "sum": checksum(name, result)})
            if not os.fstat(self._file.fileno()).st_nlink:
                raise OutputError(str(self.path), "was deleted while the run was writing it", "run it again")

    def _write(self, entry: dict[str, Any]) -> None:
        rest = memoryview(json.dumps(entry).encode() + b"\n")
        while rest:
            rest = rest[self._file.write(rest) :]
        os.fsync(self._file.fileno())

    def close(self) -> None:
        self._file.close()

    def remove(self) -> None:
        """Delete the journal, after the result is written."""
        with contextlib.suppress(OSError):
            self.path.unlink()


def beside(path: Path) -> Path:
    """The journal of the run that writes this output."""
    return path.with_name(f"{path.name}.part")


def identity_of(parameters: Mapping[str, Any], sha256: str) -> str:
    """The identity of a run: its options, its input and the version. Pieces with the same identity belong together."""
    text = json.dumps([__version__, sha256, parameters], sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()


def checksum(name: str, result: Any) -> int:
    return zlib.crc32(json.dumps([name, result]).encode())


def parsed(line: bytes) -> dict[str, Any]:
    """An entry, or an empty one if a crash or a full disk damaged the line."""
    try:
        entry = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return entry if isinstance(entry, dict) else {}
