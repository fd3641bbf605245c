"""What a long run has done so far, kept beside its output so that a killed run can go on.

A journal is a file of lines, each a JSON object: first what the run is, then a line for each piece of work. A line that
was cut short is dropped when the journal is opened again, and the piece is done once more.
"""

from __future__ import annotations

import contextlib
import json
import os
from pathlib import Path
from typing import Any

from mccgr_cli.errors import OutputError
from mccgr_cli.storage import writing


class Journal:
    """Pieces of work that are done, by name. Only one process may have a journal open."""

    def __init__(self, path: Path, identity: str, anew: bool = False) -> None:
        self.path = path
        self.done: dict[str, Any] = {}
        with writing(str(path)):
            self._file = path.open("a+b")
        try:
            if not lock(self._file):
                raise OutputError(str(path), "another run is writing it", "wait for it, or choose another name with -o")
            with writing(str(path)):
                self._open(identity, anew)
        except BaseException:
            self._file.close()
            raise

    def _open(self, identity: str, anew: bool) -> None:
        self._file.seek(0)
        whole = b"" if anew else self._file.read()
        lines = whole[: whole.rfind(b"\n") + 1].splitlines()
        entries = [entry for entry in map(parsed, lines) if entry is not None]
        if entries and entries[0] != {"run": identity}:
            what = "holds part of a run with other data or options"
            raise OutputError(str(self.path), what, "give those, choose another name with -o, or give --overwrite")
        for entry in entries[1:]:
            self.done[entry["name"]] = entry["result"]
        if len(entries) < len(lines) or not entries or len(b"\n".join(lines)) + 1 != len(whole):
            self._file.truncate(0)  # what is whole is written once more, without what is not
            self._write({"run": identity}, *({"name": name, "result": result} for name, result in self.done.items()))

    def add(self, name: str, result: Any) -> None:
        """Keep a piece of work; it is on the disk when this returns."""
        self.done[name] = result
        with writing(str(self.path)):
            self._write({"name": name, "result": result})

    def _write(self, *entries: dict[str, Any]) -> None:
        self._file.write(b"".join(json.dumps(entry).encode() + b"\n" for entry in entries))
        self._file.flush()
        os.fsync(self._file.fileno())

    def close(self) -> None:
        self._file.close()

    def remove(self) -> None:
        """When all is done and safe elsewhere."""
        with contextlib.suppress(OSError):
            self.path.unlink()
        self.close()


def parsed(line: bytes) -> dict[str, Any] | None:
    """An entry, or None for what a crash or a full disk left of one."""
    try:
        entry = json.loads(line)
    except ValueError:
        return None
    known = isinstance(entry, dict) and (set(entry) == {"run"} or set(entry) == {"name", "result"})
    return entry if known else None


def lock(file: Any) -> bool:
    """Take the file for this process, until it is closed; False if another one has it."""
    try:
        import fcntl
    except ImportError:  # Windows: two runs at once are not kept apart there
        return True
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # a file system without locks
        return True
    return True
