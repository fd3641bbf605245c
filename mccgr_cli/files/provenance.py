"""The provenance of a result: command, parameters, versions and inputs, stored in the result itself."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from mccgr_cli import __version__

PACKAGES = ("numpy", "scipy", "scikit-learn", "h5py", "opencv-python-headless", "pillow")


@dataclass(frozen=True)
class Input:
    """A file that a result was made from."""

    name: str  # what the user typed
    sha256: str
    provenance: dict[str, Any] = field(default_factory=dict)  # its own


def record(
    command: str, parameters: Mapping[str, Any], inputs: Sequence[Input], words: Sequence[str] | None = None
) -> dict[str, Any]:
    """Command line, parameters, versions, time, and the inputs with their own provenance.

    ``words`` is the command line, if it is not the one that started the process.
    """
    versions = {"mccgr": __version__, "python": sys.version.split()[0]}
    for package in PACKAGES:
        with suppress(PackageNotFoundError):  # vendored by a distribution under another name
            versions[package] = version(package)
    return {
        **lineage(command, parameters, inputs),
        "command_line": shlex.join(words or [Path(sys.argv[0]).name, *sys.argv[1:]]),
        "versions": versions,
        "time": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def lineage(command: str, parameters: Mapping[str, Any], inputs: Sequence[Input]) -> dict[str, Any]:
    """The provenance without time and command line: the same input gives the same bytes."""
    return {
        "command": command,
        "parameters": dict(parameters),
        "versions": {"mccgr": __version__},
        "inputs": [vars(one) for one in inputs],
    }
