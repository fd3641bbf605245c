"""The manual pages."""

from __future__ import annotations

from described import EXIT_STATUS, Described, everything
from mccgr_cli import __version__


def pages() -> dict[str, str]:
    """Every page by file name."""
    whole, *commands = everything()
    titles = [title(one) for one in commands]
    found = {f"{title(whole)}.1": page(whole, titles)}
    return found | {f"{title(one)}.1": page(one, [title(whole)]) for one in commands}


def title(one: Described) -> str:
    return one.path.replace(" ", "-")


def page(one: Described, related: list[str]) -> str:
    lines = [
        f'.TH {title(one).upper()} 1 "" "mccgr {__version__}" "mccgr manual"',
        ".SH NAME",
        f"{escape(title(one))} \\- {escape(one.summary.rstrip('.'))}",
        ".SH SYNOPSIS",
        f".B {escape(one.path)}",
        escape(one.usage),
        ".SH DESCRIPTION",
    ]
    for paragraph in one.paragraphs:
        listed = paragraph.splitlines()
        lines += [".PP", escape(paragraph)] if len(listed) == 1 else [".PP", ".nf", *map(escape, listed), ".fi"]
    if one.commands:
        lines.append(".SH COMMANDS")
        lines += [line for term, text in one.commands for line in entry(term, text)]
    lines.append(".SH OPTIONS")
    for heading, entries in one.options:
        lines.append(f".SS {escape(heading)}")
        lines += [line for term, text in entries for line in entry(term, text)]
    if one.examples:
        lines += [".SH EXAMPLES", ".nf", *map(escape, one.examples), ".fi"]
    lines.append(".SH EXIT STATUS")
    lines += [line for status, meaning in EXIT_STATUS for line in entry(status, meaning)]
    lines += [".SH SEE ALSO", " ,\n".join(f".BR {escape(name)} (1)" for name in related)]
    return "\n".join(lines) + "\n"


def entry(term: str, text: str) -> list[str]:
    return [".TP", f".B {escape(term)}", escape(text)]


def escape(text: str) -> str:
    """Text that roff prints as it is."""
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return "\\&" + text if text.startswith((".", "'")) else text
