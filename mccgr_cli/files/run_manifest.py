"""What the stages of a run wrote into a folder, and from what: another run does only what is not done yet.

``run.json`` has for each stage the name and checksum of its file, its options, and a key: the hash of everything that
the file depends on. It is written before the file gets its name, and also has the checksum of the file that is
replaced. So a run recognizes its files even if it was killed. Files that were changed since, or come from elsewhere,
are not its own.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Container, Mapping, Sequence
from pathlib import Path
from typing import Any

from mccgr_cli.files.atomic_write import write_files

NAME = "run.json"
FORMAT = "mccgr run 1"
LARGEST = 1 << 20  # bytes


class Manifest:
    """The ``run.json`` of a folder. One that is damaged or something else counts as empty."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / NAME
        found = read_object(self.path)
        self.source = str(found.get("source", ""))  # of the run that made it
        self.contents = str(found.get("contents", ""))  # the hash of this source
        self.version = str(found.get("version", ""))  # of mccgr
        self.can_be_written = found.get("format") == FORMAT or not os.path.lexists(self.path)
        stages = found.get("stages") if found.get("format") == FORMAT else None
        named = stages.items() if isinstance(stages, dict) else ()
        self._stages: dict[str, dict[str, Any]] = {name: made for name, made in named if isinstance(made, dict)}
        self._checksums: dict[str, str] = {}  # of files that were read before

    def is_current(self, stage: str, key: str, name: str) -> bool:
        """Whether the file of a stage is there and would come out the same."""
        made = self._stages.get(stage, {})
        found = self.checksum(name)
        return found is not None and (made.get("key"), made.get("file"), made.get("sha256")) == (key, name, found)

    def owns(self, name: str) -> bool:
        """Whether a file is as some stage left it."""
        made_here = [made for made in self._stages.values() if made.get("file") == name]
        found = self.checksum(name)
        return found is not None and any(found in (made.get("sha256"), made.get("replaced")) for made in made_here)

    def checksum(self, name: str) -> str | None:
        if name not in self._checksums:
            path = self.path.parent / name
            if not path.is_file():
                return None
            self._checksums[name] = checksum_of(path)
        return self._checksums[name]

    def holds_results(self) -> bool:
        """Whether the folder has a file as some stage left it."""
        return any(self.owns(str(made.get("file"))) for made in self._stages.values())

    def would_replace(self, stage: str, key: str, name: str) -> bool:
        """Whether a stage with this key would replace the result of another run."""
        return self.owns(name) and self._stages.get(stage, {}).get("key") != key

    def options(self, stage: str) -> dict[str, Any]:
        """The options that a stage was done with, if it was."""
        found = self._stages.get(stage, {}).get("options")
        return found if isinstance(found, dict) else {}

    def add(self, stage: str, key: str, options: Mapping[str, Any], name: str, content: bytes) -> None:
        """Record the file that a stage is about to write."""
        replaced = self.checksum(name) if self.owns(name) else None
        self._stages[stage] = {"key": key, "file": name, "sha256": hashlib.sha256(content).hexdigest()}
        self._stages[stage]["options"] = dict(options)
        if replaced is not None:
            self._stages[stage]["replaced"] = replaced
        self._checksums.pop(name, None)
        about = {"source": self.source, "contents": self.contents, "version": self.version}
        text = json.dumps({"format": FORMAT, **about, "stages": self._stages}, indent=2)
        write_files({self.path: text.encode() + b"\n"}, overwrite=True)

    def remove_other_stages(self, stages: Container[str]) -> None:
        """Remove the files of all stages but these, if earlier runs made them."""
        for stage in [stage for stage in self._stages if stage not in stages]:
            name = self._stages[stage].get("file")
            if isinstance(name, str) and name == Path(name).name and self.owns(name):
                (self.path.parent / name).unlink(missing_ok=True)
            del self._stages[stage]


def hash_of(*parts: object) -> str:
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def checksum_of(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def read_object(path: Path) -> dict[str, Any]:
    try:
        if not path.is_file() or path.stat().st_size > LARGEST:
            return {}
        found = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def files_of_others(manifest: Manifest, names: Sequence[str]) -> list[str]:
    """Files of these names that exist and were not made by a run, also links that lead nowhere."""
    own_name = [] if manifest.can_be_written else [NAME]
    folder = manifest.path.parent
    return own_name + [name for name in names if os.path.lexists(folder / name) and not manifest.owns(name)]
