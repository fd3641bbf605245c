"""What a long run has done so far, kept beside its output so that a killed run can go on.

A journal is a file of lines, each a JSON object: first what the run is, then a line for each piece of work, with a
checksum. A line that is damaged or was cut short is passed over when the journal is opened again, and the piece is done
once more.
"""

from __future__ import annotations

import contextlib
import json
import os
import zlib
from pathlib import Path
from typing import Any

from mccgr_cli.errors import OutputError
from mccgr_cli.files.atomic_write import writing
from mccgr_cli.system.locks import lock

OPENING = b'{"run": "'  # with which every journal begins


class Journal:
    """Pieces of work that are done, by name. Only one process may have a journal open.

    What another run left is refused, unless it may be done ``anew``.
    """

    def __init__(self, path: Path, identity: str, anew: bool = False) -> None:
        self.path = path
        self.done: dict[str, Any] = {}
        with writing(str(path)):
            if path.exists() and not path.is_file():
                raise OutputError(str(path), "is not a regular file", "choose another name with -o, or move it")
            self._file = path.open("a+b", buffering=0)  # so that nothing is left to write when it is closed
        try:
            if lock(self._file) is False:
                raise OutputError(str(path), "another run is writing it", "wait for it, or choose another name with -o")
            with writing(str(path)):
                self._open(identity, anew)
        except BaseException:
            self.close()
            raise

    def _open(self, identity: str, anew: bool) -> None:
        self._file.seek(0)
        whole = self._file.read()
        if not whole.startswith(OPENING[: len(whole)]):
            raise OutputError(str(self.path), "is no part of an experiment", "choose another name with -o, or move it")
        lines = whole[: whole.rfind(b"\n") + 1].splitlines(keepends=True)
        if lines and parsed(lines[0]) != {"run": identity}:
            if not anew:
                what = "holds part of a run with other data or options"
                raise OutputError(str(self.path), what, "give those, choose another name with -o, or give --overwrite")
            lines = []
        for entry in map(parsed, lines[1:]):
            whole = entry.keys() == {"name", "result", "sum"} and isinstance(entry["name"], str)
            if whole and entry["sum"] == checksum(entry["name"], entry["result"]):
                self.done[entry["name"]] = entry["result"]
        self._file.truncate(sum(map(len, lines)))
        if not lines:
            self._write({"run": identity})

    def add(self, name: str, result: Any) -> None:
        """Keep a piece of work; it is on the disk when this returns."""
        self.done[name] = result
        with writing(str(self.path)):
            self._write({"name": name, "result": result, "sum": checksum(name, result)})
            if not os.fstat(self._file.fileno()).st_nlink:
                raise OutputError(str(self.path), "was deleted while the run was writing it", "run it again")

    def _write(self, entry: dict[str, Any]) -> None:
        left = memoryview(json.dumps(entry).encode() + b"\n")
        while left:
            left = left[self._file.write(left) :]
        os.fsync(self._file.fileno())

    def close(self) -> None:
        self._file.close()

    def remove(self) -> None:
        """When all is done and safe elsewhere."""
        with contextlib.suppress(OSError):
            self.path.unlink()
        self.close()


def checksum(name: str, result: Any) -> int:
    return zlib.crc32(json.dumps([name, result]).encode())


def parsed(line: bytes) -> dict[str, Any]:
    """An entry; an empty one for what a crash or a full disk left of it."""
    try:
        entry = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return entry if isinstance(entry, dict) else {}
