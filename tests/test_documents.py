"""No command and no option goes undocumented, and what users are shown works as it is shown."""

from __future__ import annotations

import re
import shlex
from contextlib import suppress
from pathlib import Path

import click
import pytest

import described
import generate
from mccgr_cli.errors import DataError

ROOT = Path(__file__).parent.parent
COMMANDS = [(described.root_context().command, described.root_context()), *described.commands()]
OPTIONS = [
    pytest.param(option, command, context, id=f"{context.command_path} {option.opts[-1]}")
    for command, context in COMMANDS
    for option in described.options(command, context)
]


def mentions(text: str, flag: str) -> bool:
    """Not only as the beginning of another."""
    return re.search(rf"(?<![\w-]){re.escape(flag)}(?![\w-])", text) is not None


@pytest.mark.parametrize(("option", "command", "context"), OPTIONS)
def test_every_option_is_in_help_manual_and_reference(option, command, context):
    assert not option.hidden
    assert (option.help or "").strip()
    path = context.command_path
    manual = (ROOT / "man" / f"{path.replace(' ', '-')}.1").read_text().replace("\\-", "-")
    reference = (ROOT / "docs" / "COMMANDS.md").read_text()
    section = re.search(rf"^## {path}\n(.*?)^## ", reference, re.DOTALL | re.MULTILINE)[1]
    # where options are explained: in an example does not count
    in_help = re.split(r"\n(?:Basic options|Options|Output):\n", command.get_help(context), maxsplit=1)[1]
    in_manual = manual.partition(".SH OPTIONS")[2].partition(".SH EXAMPLES")[0]
    in_reference = "\n".join(re.findall(r"^\* `([^`]*)`:", section, re.MULTILINE))
    for flag in described.flags(option):
        assert mentions(in_help, flag), "help"
        assert mentions(in_manual, flag), "manual"
        assert mentions(in_reference, flag), "docs/COMMANDS.md"


def test_manual_pages_and_reference_are_current():
    assert generate.outdated(generate.documents()) == []


def examples() -> list[str]:
    return [line for one in described.everything() for line in one.examples]


def typed(line: str) -> list[list[str]]:
    """The words of every mccgr command in a line; a command in the place of a file or a number is one of its own.

    >>> typed('mccgr cluster "$(mccgr factorize X.h5)" | sort')
    [['mccgr', 'factorize', 'X.h5'], ['mccgr', 'cluster', '3']]
    """
    inner = re.findall(r"\$\((.*?)\)", line)
    parts = re.split(r" \| | && ", re.sub(r"\$\(.*?\)", "3", line))
    words = [shlex.split(part, comments=True) for part in (*inner, *parts)]
    return [some for some in words if some[:1] == ["mccgr"]]


@pytest.mark.parametrize("line", examples())
def test_examples_in_help_are_commands_with_options_and_values_that_exist(line):
    root, known = described.root_context(), {context.info_name: command for command, context in COMMANDS[1:]}
    for _, name, *arguments in typed(line):
        with suppress(DataError):  # a file that is read for its options, and is not there
            known[name].make_context(name, arguments, parent=root)


def test_an_option_that_is_forgotten_is_found():
    @click.command()
    @click.option("--keep")
    def command() -> None:
        """Nothing."""

    context = click.Context(command, info_name="x")
    assert mentions(command.get_help(context), "--keep")
    assert not mentions(command.get_help(context), "--k")
    with pytest.raises(click.UsageError):
        command.make_context("x", ["--k", "3"])
