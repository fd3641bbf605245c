"""The reference of all commands, docs/COMMANDS.md."""

from __future__ import annotations

import re

from described import EXIT_STATUS, Described, everything

HEAD = """# Commands

All commands with all their options, as in `--help` and the manual pages. `scripts/generate.py` writes this page from
the help texts. To change it, change them.
"""


def text() -> str:
    whole, *commands = everything()
    listed = [f"* [{one.path}](#{one.path.replace(' ', '-')}): {escape(one.summary)}" for one in commands]
    statuses = [f"* `{status}`: {escape(meaning)}" for status, meaning in EXIT_STATUS]
    parts = [HEAD, section(whole), "\n".join(listed) + "\n", *map(section, commands)]
    return "\n".join([*parts, "## Exit status\n", *statuses]) + "\n"


def section(one: Described) -> str:
    lines = [f"## {one.path}", "", escape(one.summary), "", "```text", f"{one.path} {one.usage}", "```", ""]
    for paragraph in one.paragraphs:
        lines += ["```text", paragraph, "```", ""] if "\n" in paragraph else [escape(paragraph), ""]
    for heading, entries in one.options:
        lines += [f"**{heading}**", "", *(f"* `{term}`: {escape(about)}" for term, about in entries), ""]
    if one.examples:
        lines += ["```sh", *one.examples, "```", ""]
    return "\n".join(lines)


def escape(text: str) -> str:
    """Text that Markdown shows as it is."""
    return re.sub(r"([\\`*_<|~])", r"\\\1", text)
