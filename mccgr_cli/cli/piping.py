"""Standard input as the file that a command reads, and standard output as the place of its result."""

from __future__ import annotations

import sys
from collections.abc import Iterable
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

    ``unless``: an option that replaces the file. ``holds``: what a pipe may bring, as in :class:`types.InputFile`.
    """

    def __init__(self, *args: Any, unless: str = "", holds: str = "file", **kwargs: Any) -> None:
        super().__init__(*args, **{"type": types.InputFile(holds), "required": False, **kwargs})
        self.unless = unless

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
    """If standard input holds the name of a file, treat it as if it were typed; or names, for a list of files."""
    from mccgr_cli.files.readers.standard_input import find_names

    assert isinstance(piped.type, types.InputFile)
    holds, several = piped.type.holds, piped.nargs != 1
    names = [] if holds == "names" else find_names(text_is_data=holds == "table", several=several)
    invocation().reads_data = not names and isinstance(piped, click.Argument)
    if names:
        given = in_place(listed(values[piped.name]), names)
        values[piped.name] = tuple(given) if several else given[0]
        invocation().command_line = with_names(sys.argv, names)


def in_place(words: Iterable[str], names: list[str]) -> list[str]:
    """The words with these names in place of each -."""
    return [new for word in words for new in ([name + word[1:] for name in names] if is_stream(word) else [word])]


def with_names(words: list[str], names: list[str]) -> list[str]:
    """A command line with the names that came from standard input.

    >>> with_names(["/bin/mccgr", "cluster", "-", "-o", "-"], ["F.h5"]), with_names(["mccgr", "info"], ["F.h5"])
    (['mccgr', 'cluster', 'F.h5', '-o', '-'], ['mccgr', 'info', 'F.h5'])
    """
    words = [Path(words[0]).name, *words[1:]]
    for i, word in enumerate(words):
        if is_stream(word) and words[i - 1] not in ("-o", "--output"):
            return [*words[:i], *in_place([word], names), *words[i + 1 :]]
    return [*words, *names]


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
