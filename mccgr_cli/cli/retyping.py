"""What a user typed, by the names of the options, so that it can be typed again: to another parser, or another day."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, TypeAlias

import click

Typed: TypeAlias = dict[str, str | bool]  # the words as they were typed; True for a flag
TYPED = "mccgr.typed"  # where it is in the context
COMMAND_LINE = "mccgr.command_line"  # there: the words that would have called a command that another calls
BEFORE_WRITING = "mccgr.before_writing"  # there: whom that other has to be told the bytes of a result


class Retypable(click.Command):
    """A command that remembers what was typed, before it was parsed."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        words, _, _ = self.make_parser(ctx).parse_args(list(args))
        known = {str(parameter.name) for parameter in self.params}
        typed = {name: value for name, value in words.items() if name in known and isinstance(value, (str, bool))}
        if not ctx.resilient_parsing and not {*ctx.help_option_names} & {*args}:
            found = self.retyped(ctx, typed)
            if found is not typed:
                typed, args = found, arguments(self, found)
        ctx.meta[TYPED] = typed
        return super().parse_args(ctx, args)

    def retyped(self, ctx: click.Context, typed: Typed) -> Typed:
        """What is to be taken as typed instead."""
        return typed


def arguments(command: click.Command, typed: Mapping[str, Any], for_people: bool = False) -> list[str]:
    """The command line that says this: whatever names begin with, or as people would type it."""
    options, files = list[str](), list[str]()
    for parameter in command.params:
        value = typed.get(str(parameter.name))
        if value is None:
            continue
        if isinstance(parameter, click.Argument):
            files.append(str(value))
        elif value is True:
            options.append(parameter.opts[-1])
        elif for_people:
            options += [parameter.opts[0], str(value)]
        else:
            options.append(f"{parameter.opts[-1]}={value}")
    return [*files, *options] if for_people else [*options, "--", *files]


def can_be_typed(parameter: click.Parameter, value: Any) -> bool:
    if isinstance(parameter, click.Option) and parameter.is_flag:
        return value is True
    if not isinstance(value, str) or "\0" in value:
        return False
    try:
        os.fsencode(value)
    except UnicodeEncodeError:
        return False
    return True
