"""Check the documents: links lead somewhere, commands that they show exist, and what is generated is current."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import described
import generate

ROOT = Path(__file__).parent.parent
DOCUMENTS = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("sample_data/*.md")])


def broken_links(document: Path) -> Iterator[str]:
    for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", document.read_text()):
        if "://" not in target and not (document.parent / target).exists():
            yield f"the link {target} leads nowhere"


def shell_blocks(document: Path) -> list[str]:
    return re.findall(r"```sh\n(.*?)```", document.read_text(), re.DOTALL)


def shown_commands(code: str) -> Iterator[list[str]]:
    """The words of every mccgr command in shell code, pipes and substitutions taken apart."""
    for line in code.replace("\\\n", " ").splitlines():
        for part in re.split(r"[|;&()]+", line.partition(" #")[0]):
            words = part.replace('"', " ").replace("$ ", "").split()
            if words[:1] == ["mccgr"]:
                yield words[1:]


def unknown_parts(words: list[str]) -> Iterator[str]:
    known = {str(context.info_name): (command, context) for command, context in described.commands()}
    name = next((word for word in words if not word.startswith("-")), None)
    if name is not None and name not in known:
        yield f"there is no command 'mccgr {name}'"
        return
    root = described.root_context()
    command, context = (root.command, root) if name is None else known[name]
    flags = {flag for option in described.options(command, context) for flag in described.flags(option)}
    for word in words:
        flag = word.partition("=")[0]
        if re.fullmatch(r"-[a-z]|--[a-z][a-z-]*", flag) and flag not in flags:
            yield f"'{context.command_path}' has no option {flag}"


def shown_code() -> Iterator[tuple[str, str]]:
    """All shell code that users are shown, and where."""
    for document in DOCUMENTS:
        yield from ((str(document.relative_to(ROOT)), block) for block in shell_blocks(document))
    yield from ((f"{one.path} --help", "\n".join(one.examples)) for one in described.everything())


def faults() -> Iterator[str]:
    for document in DOCUMENTS:
        yield from (f"{document.relative_to(ROOT)}: {fault}" for fault in broken_links(document))
    for where, code in shown_code():
        for words in shown_commands(code):
            yield from (f"{where}: {fault}" for fault in unknown_parts(words))
    stale = generate.outdated(generate.everything())
    yield from (f"{path}: not current; run python scripts/generate.py" for path in stale)


if __name__ == "__main__":
    found = list(faults())
    print("\n".join(found) or f"{len(DOCUMENTS)} documents, and what is written from the commands, are in order")
    sys.exit(bool(found))
