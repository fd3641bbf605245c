"""Where results go: ``-o FILE``, ``-o -``, or a name derived from the input."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from mccgr_cli.cli.progress import Reporter
from mccgr_cli.container import Contents, refuse_existing, write_file, write_stream
from mccgr_cli.errors import OutputError, ParameterError
from mccgr_cli.provenance import record
from mccgr_cli.readers import Loaded

# Endings that a derived name leaves out: X.csv.gz -> X.factors.h5
ENDINGS = (".gz", ".h5", ".hdf5", ".h5ad", ".mat", ".npy", ".npz", ".mtx", ".csv", ".tsv")


class Destination:
    """A place for one result, checked before anything is computed."""

    def __init__(self, output: str | None, source: str, stage: str, overwrite: bool) -> None:
        self.announce = output is None
        self.overwrite = overwrite
        if output is None and source == "-":
            raise ParameterError("-o", "missing, and standard input has no name to derive one from", "add it")
        self.path = derived_path(source, stage) if output is None else Path(output)
        self.to_stdout = output == "-"
        if self.to_stdout:
            if sys.stdout.isatty():
                raise ParameterError("-o -", "HDF5 would garble the terminal", "pipe it on or give a file")
            return
        if self.path.is_dir():
            raise OutputError(str(self.path), "is a folder", "name a file in it with -o")
        if not self.path.parent.is_dir():
            raise OutputError(str(self.path), f"there is no folder {self.path.parent}", "make it first")
        if self.path.exists() and not overwrite:
            raise refuse_existing(self.path)

    def write(self, contents: Contents, reporter: Reporter) -> None:
        if self.to_stdout:
            write_stream(contents, sys.stdout.buffer)
            return
        write_file(contents, self.path, self.overwrite)
        if self.announce:
            click.echo(str(self.path))
        else:
            reporter.note(f"wrote {self.path}")


def derived_path(source: str, stage: str) -> Path:
    """``data/X.h5`` and the stage ``factors`` make ``data/X.factors.h5``."""
    path = Path(source if Path(source).exists() else source.partition("::")[0])
    name = path.name
    while name.lower().endswith(ENDINGS):
        name = name[: name.rindex(".")]
    return path.with_name(f"{name or path.name}.{stage}.h5")


def with_provenance(contents: Contents, command: str, given: Mapping[str, Any], inputs: Sequence[Loaded]) -> Contents:
    return replace(contents, provenance=record(command, given, inputs))
