"""The help of all commands, in parts: manual pages, docs/COMMANDS.md and completions are written from it."""

from __future__ import annotations

import inspect
import re
from dataclasses import dataclass

import click

from mccgr_cli.cli import main as group
from mccgr_cli.cli.help import grouped

EXAMPLES = "Examples:"
EXIT_STATUS = (
    ("0", "Done."),
    ("1", "Bad data or a failed run; one line on standard error says where, what and the remedy."),
    ("2", "Bad usage."),
    ("124", "Ended by --time-limit; the last line says how to continue."),
    ("130", "Interrupted; 143, 129 and 152: ended by SIGTERM, SIGHUP and SIGXCPU."),
)


@dataclass(frozen=True)
class Described:
    """A command, or the group of all."""

    path: str  # as it is typed
    usage: str  # what follows
    summary: str
    paragraphs: list[str]  # one with several lines is a list that keeps its lines
    options: list[tuple[str, list[tuple[str, str]]]]  # by heading: how each is written, and what it does
    examples: list[str]
    commands: list[tuple[str, str]]  # of the group, with what they do


def everything() -> list[Described]:
    """The group first."""
    root = root_context()
    return [described(group, root), *(described(command, context) for command, context in commands())]


def root_context() -> click.Context:
    return click.Context(group, info_name="mccgr", **group.context_settings)


def commands() -> list[tuple[click.Command, click.Context]]:
    """Each with a context to ask it in."""
    root = root_context()
    found = []
    for name in group.list_commands(root):
        command = group.get_command(root, name)
        assert command is not None
        found.append((command, click.Context(command, info_name=name, parent=root)))
    return found


def described(command: click.Command, context: click.Context) -> Described:
    summary, *paragraphs = re.split(r"\n\s*\n", inspect.cleandoc(command.help or ""))
    examples = [line.strip() for one in paragraphs if EXAMPLES in one for line in one.splitlines() if line != "\b"]
    inner = []
    if isinstance(command, click.Group):
        inner = [described(one, its) for one, its in commands()]
    return Described(
        context.command_path,
        " ".join(command.collect_usage_pieces(context)),
        " ".join(summary.split()),
        [shown(paragraph) for paragraph in paragraphs if EXAMPLES not in paragraph],
        [
            (heading, [(declaration(one), explanation(one, context)) for one in members])
            for heading, members in grouped(command.get_params(context))
        ],
        [line for line in examples if line != EXAMPLES],
        [(one.path, one.summary) for one in inner],
    )


def shown(paragraph: str) -> str:
    return paragraph.removeprefix("\b\n") if paragraph.startswith("\b") else " ".join(paragraph.split())


def options(command: click.Command, context: click.Context) -> list[click.Option]:
    return [one for one in command.get_params(context) if isinstance(one, click.Option)]


def flags(option: click.Option) -> list[str]:
    """All its spellings, the short one first."""
    return sorted((*option.opts, *option.secondary_opts), key=len)


def declaration(option: click.Option) -> str:
    value = option.metavar
    if value is None and isinstance(option.type, click.Choice):
        value = f"[{'|'.join(option.type.choices)}]"
    return ", ".join(flags(option)) + (f" {value}" if value else "")


def explanation(option: click.Option, context: click.Context) -> str:
    """The help text with what stands behind it in brackets, as --help has it."""
    extra = option.get_help_extra(context)
    brackets = [f"default: {extra['default']}"] if "default" in extra else []
    brackets += ["required"] if "required" in extra else []
    return " ".join(f"{option.help} {f'[{brackets[0]}]' if brackets else ''}".split())
