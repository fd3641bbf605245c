"""What the stages of a run have made in a folder, and from what, so that another run does only what has changed.

``run.json`` names for every stage the file that it wrote, with its checksum, and a key: the hash of all that this file
depends on. It does so before the file gets its name, and remembers which one it replaces: whenever a run is killed, it
knows its files again. Files that have been changed since, or that no run wrote, are not taken for its own.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Container, Sequence
from pathlib import Path
from typing import Any

from mccgr_cli.files.atomic_write import write_files

NAME = "run.json"
FORMAT = "mccgr run 1"
LARGEST = 1 << 20  # bytes


class Manifest:
    """Of one folder."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / NAME
        self.source = str(read_object(self.path).get("source", ""))  # of the run that made it
        self._stages: dict[str, dict[str, Any]] = read(self.path)
        self._known: dict[str, str] = {}  # checksums of files that were looked at

    @property
    def is_ours(self) -> bool:
        """Whether there is one, or the name is free."""
        return bool(self._stages) or not os.path.lexists(self.path) or read_object(self.path).get("format") == FORMAT

    def is_current(self, stage: str, key: str, name: str) -> bool:
        """Whether this file of a stage is there, and would be made again as it is."""
        made = self._stages.get(stage, {})
        found = self.checksum(name)
        return found is not None and (made.get("key"), made.get("file"), made.get("sha256")) == (key, name, found)

    def owns(self, name: str) -> bool:
        """Whether a file is as some stage left it."""
        made_here = [made for made in self._stages.values() if made.get("file") == name]
        found = self.checksum(name)
        return found is not None and any(found in (made.get("sha256"), made.get("replaced")) for made in made_here)

    def checksum(self, name: str) -> str | None:
        if name not in self._known:
            path = self.path.parent / name
            if not path.is_file():
                return None
            self._known[name] = checksum_of(path)
        return self._known[name]

    def add(self, stage: str, key: str, name: str, content: bytes) -> None:
        """A stage is about to write this file."""
        replaced = self.checksum(name) if self.owns(name) else None
        self._stages[stage] = {"key": key, "file": name, "sha256": hashlib.sha256(content).hexdigest()}
        if replaced is not None:
            self._stages[stage]["replaced"] = replaced
        self._known.pop(name, None)
        text = json.dumps({"format": FORMAT, "source": self.source, "stages": self._stages}, indent=2)
        write_files({self.path: text.encode() + b"\n"}, overwrite=True)

    def leave_out(self, stages: Container[str]) -> None:
        """Of what earlier runs made, only these stages are still wanted: remove the files of others."""
        for stage in [stage for stage in self._stages if stage not in stages]:
            name = self._stages[stage].get("file")
            if isinstance(name, str) and name == Path(name).name and self.owns(name):
                (self.path.parent / name).unlink(missing_ok=True)
            del self._stages[stage]


def key_of(*parts: object) -> str:
    """The hash of what something depends on."""
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def checksum_of(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def read(path: Path) -> dict[str, dict[str, Any]]:
    """The stages in a manifest; none in what is damaged or something else."""
    found = read_object(path)
    stages = found.get("stages") if found.get("format") == FORMAT else None
    if not isinstance(stages, dict):
        return {}
    return {name: made for name, made in stages.items() if isinstance(made, dict)}


def read_object(path: Path) -> dict[str, Any]:
    try:
        if not path.is_file() or path.stat().st_size > LARGEST:
            return {}
        found = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def foreign(manifest: Manifest, names: Sequence[str]) -> list[str]:
    """Of these files, those that are there and are not a run's own; links that lead nowhere are not, either."""
    own_name = [] if manifest.is_ours else [NAME]
    folder = manifest.path.parent
    return own_name + [name for name in names if os.path.lexists(folder / name) and not manifest.owns(name)]
