"""Check the documents: links lead somewhere, commands that they show exist, and the manual pages are current."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import click

import man
from mccgr_cli.cli import main as group

ROOT = Path(__file__).parent.parent
DOCUMENTS = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("sample_data/*.md")])


def broken_links(document: Path) -> Iterator[str]:
    for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", document.read_text()):
        if "://" not in target and not (document.parent / target).exists():
            yield f"the link {target} leads nowhere"


def shown_commands(document: Path) -> Iterator[list[str]]:
    """The words of every mccgr command in a block of shell code, pipes and substitutions taken apart."""
    for block in re.findall(r"```sh\n(.*?)```", document.read_text(), re.DOTALL):
        for line in block.replace("\\\n", " ").splitlines():
            for part in re.split(r"[|;&()]+", line.partition(" #")[0]):
                words = part.replace('"', " ").replace("$ ", "").split()
                if words[:1] == ["mccgr"]:
                    yield words[1:]


def unknown_parts(words: list[str]) -> Iterator[str]:
    root = man.root_context()
    name = next((word for word in words if not word.startswith("-")), None)
    command = group.get_command(root, name) if name else group
    if command is None:
        yield f"there is no command 'mccgr {name}'"
        return
    context = click.Context(command, info_name=name, parent=root)
    known = {flag for parameter in command.get_params(context) for flag in (*parameter.opts, *parameter.secondary_opts)}
    for word in words:
        flag = word.partition("=")[0]
        if re.fullmatch(r"-[a-z]|--[a-z][a-z-]*", flag) and flag not in known:
            yield f"'mccgr {name}' has no option {flag}"


def faults() -> Iterator[str]:
    for document in DOCUMENTS:
        where = document.relative_to(ROOT)
        yield from (f"{where}: {fault}" for fault in broken_links(document))
        for words in shown_commands(document):
            yield from (f"{where}: {fault}" for fault in unknown_parts(words))
    yield from (f"man/{name}: not current; run python scripts/man.py" for name in man.outdated())


if __name__ == "__main__":
    found = list(faults())
    print("\n".join(found) or f"{len(DOCUMENTS)} documents and the manual pages are in order")
    sys.exit(bool(found))
