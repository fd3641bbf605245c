"""Standard input as the file that a command reads, and standard output as the place of its result."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from mccgr_cli.cli import types
from mccgr_cli.cli.group import invocation
from mccgr_cli.errors import ParameterError
from mccgr_cli.system.streams import carries_data, is_same_file

STREAM = "-"


class FileArgument(click.Argument):
    """The file that a command reads. If it is left out, the command reads standard input.

    ``unless``: an option that replaces the file. ``holds``: what a pipe may bring; "file": HDF5 or the name of a file,
    "table": also lines of text, "names": only lines of text.
    """

    def __init__(self, *args: Any, unless: str = "", holds: str = "file", **kwargs: Any) -> None:
        super().__init__(*args, **{"type": types.INPUT, "required": False, **kwargs})
        self.unless, self.holds = unless, holds

    def get_usage_pieces(self, ctx: click.Context) -> list[str]:
        return [f"[{self.metavar}]{'...' if self.nargs < 0 else ''}"]

    def is_missing(self, values: dict[str, Any]) -> bool:
        return values[self.name] in (None, ()) and not (self.unless and values[self.unless])


def find_piped(ctx: click.Context, values: dict[str, Any]) -> click.Parameter | None:
    """The parameter whose file is standard input: given as -, or left out; in ``values`` it is - then."""
    inputs = [one for one in ctx.command.params if isinstance(one.type, types.InputFile)]
    for one in inputs:
        if isinstance(one, FileArgument) and one.is_missing(values):
            if not carries_data(sys.stdin):
                raise click.MissingParameter("Name a file, or pipe one in", ctx, one)
            values[one.name] = STREAM if one.nargs == 1 else (STREAM,)
    piped = [one for one in inputs for value in listed(values[one.name]) if is_stream(value)]
    if len(piped) > 1:
        where = max(piped[1].opts, key=len) if isinstance(piped[1], click.Option) else piped[1].make_metavar(ctx)
        raise ParameterError(where, "standard input can be read only once", "name files")
    return piped[0] if piped else None


def take_name(piped: click.Parameter, values: dict[str, Any]) -> None:
    """If standard input holds the name of a file, treat it as if it were typed."""
    from mccgr_cli.files.readers.standard_input import find_name

    holds = piped.holds if isinstance(piped, FileArgument) else "file"
    name = None if holds == "names" else find_name(text_is_data=holds == "table")
    invocation().reads_data = name is None and isinstance(piped, click.Argument)
    if name is not None:
        given = [name + value[1:] if is_stream(value) else value for value in listed(values[piped.name])]
        values[piped.name] = tuple(given) if isinstance(values[piped.name], tuple) else given[0]
        invocation().command_line = with_name(sys.argv, name)


def with_name(words: list[str], name: str) -> list[str]:
    """A command line with the name that came from standard input.

    >>> with_name(["/bin/mccgr", "cluster", "-", "-o", "-"], "F.h5"), with_name(["mccgr", "info"], "F.h5")
    (['mccgr', 'cluster', 'F.h5', '-o', '-'], ['mccgr', 'info', 'F.h5'])
    """
    words = [Path(words[0]).name, *words[1:]]
    for i, word in enumerate(words):
        if is_stream(word) and words[i - 1] not in ("-o", "--output"):
            return [*words[:i], name + word[1:], *words[i + 1 :]]
    return [*words, name]


def listed(value: Any) -> tuple[Any, ...]:
    return value if isinstance(value, tuple) else (value,)


def is_stream(value: Any) -> bool:
    return isinstance(value, str) and (value == STREAM or value.startswith(f"{STREAM}::"))


def continues_pipe() -> bool:
    """Whether the result goes to standard output by default: its input came as data, and standard output takes data.

    If the input came as the name of a file, the result is a file too, and its name goes on. A log that messages go to
    as well is no place for data.
    """
    return invocation().reads_data and carries_data(sys.stdout) and not is_same_file(sys.stdout, sys.stderr)
