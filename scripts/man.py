"""Write the manual pages in man/ from the commands themselves; ``--check`` only says whether they are current."""

from __future__ import annotations

import inspect
import re
import sys
from pathlib import Path

import click

from mccgr_cli import __version__
from mccgr_cli.cli import main as group

FOLDER = Path(__file__).parent.parent / "man"
EXIT_STATUS = (
    ("0", "Done."),
    ("1", "Bad data or a failed run; one line on standard error says where, what and the remedy."),
    ("2", "Bad usage."),
    ("130", "Interrupted; 143, 129 and 152: ended by SIGTERM, SIGHUP and SIGXCPU."),
)


def root_context() -> click.Context:
    return click.Context(group, info_name="mccgr", **group.context_settings)


def pages() -> dict[str, str]:
    """Every page by file name."""
    root = root_context()
    commands = {name: group.get_command(root, name) for name in group.list_commands(root)}
    found = {"mccgr.1": page(group, root, [f"mccgr-{name}" for name in commands])}
    for name, command in commands.items():
        assert command is not None
        context = click.Context(command, info_name=name, parent=root)
        found[f"mccgr-{name}.1"] = page(command, context, ["mccgr"])
    return found


def page(command: click.Command, context: click.Context, related: list[str]) -> str:
    title = context.command_path.replace(" ", "-")
    summary, *paragraphs = paragraphs_of(command)
    lines = [
        f'.TH {title.upper()} 1 "" "mccgr {__version__}" "mccgr manual"',
        ".SH NAME",
        f"{escape(title)} \\- {escape(summary.rstrip('.'))}",
        ".SH SYNOPSIS",
        f".B {escape(context.command_path)}",
        escape(" ".join(command.collect_usage_pieces(context))),
        ".SH DESCRIPTION",
    ]
    for paragraph in paragraphs:
        if not paragraph.startswith("\b"):
            lines += [".PP", escape(" ".join(paragraph.split()))]
    if isinstance(command, click.Group):
        lines.append(".SH COMMANDS")
        for name in command.list_commands(context):
            sub = command.get_command(context, name)
            assert sub is not None
            lines += entry(f"mccgr {name}", paragraphs_of(sub)[0])
    lines.append(".SH OPTIONS")
    for parameter in command.get_params(context):
        if isinstance(parameter, click.Option):
            lines += entry(declaration(parameter), explanation(parameter))
    for paragraph in paragraphs:
        if paragraph.startswith("\b"):
            lines += [
                ".SH EXAMPLES",
                ".nf",
                *(escape(line.strip()) for line in paragraph.splitlines()[2:]),
                ".fi",
            ]
    lines.append(".SH EXIT STATUS")
    for status, meaning in EXIT_STATUS:
        lines += entry(status, meaning)
    lines += [
        ".SH SEE ALSO",
        ",\n".join(f".BR {escape(name)} (1)" for name in related).replace(",\n", " ,\n"),
    ]
    return "\n".join(lines) + "\n"


def declaration(option: click.Option) -> str:
    value = option.metavar
    if value is None and isinstance(option.type, click.Choice):
        value = f"[{'|'.join(option.type.choices)}]"
    return ", ".join(sorted(option.opts, key=len)) + (f" {value}" if value else "")


def explanation(option: click.Option) -> str:
    shown = f"  [default: {option.default}]" if option.show_default else "  [required]" if option.required else ""
    return f"{option.help}{shown}"


def paragraphs_of(command: click.Command) -> list[str]:
    return re.split(r"\n\s*\n", inspect.cleandoc(command.help or ""))


def entry(term: str, text: str) -> list[str]:
    return [".TP", f".B {escape(term)}", escape(" ".join(text.split()))]


def escape(text: str) -> str:
    """Text that roff prints as it is."""
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return "\\&" + text if text.startswith((".", "'")) else text


def outdated() -> list[str]:
    """Pages that differ from what the commands say, or belong to no command."""
    current = pages()
    there = {path.name: path.read_text() for path in FOLDER.glob("*")}
    return sorted(name for name in current.keys() | there.keys() if current.get(name) != there.get(name))


def write() -> None:
    FOLDER.mkdir(exist_ok=True)
    for path in FOLDER.glob("*"):
        path.unlink()
    for name, text in pages().items():
        (FOLDER / name).write_text(text)


if __name__ == "__main__":
    if "--check" in sys.argv:
        stale = outdated()
        sys.exit(f"not current: {', '.join(stale)}; run python scripts/man.py" if stale else 0)
    write()
