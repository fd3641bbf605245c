"""Write man/, docs/COMMANDS.md and completions/ from the commands; ``--check`` only says which are not current."""

from __future__ import annotations

import sys
from pathlib import Path

import completions
import man
import reference

ROOT = Path(__file__).parent.parent
FOLDERS = ("man", "completions")  # that hold nothing else


def documents() -> dict[str, str]:
    """What depends on the commands, by path."""
    return {**{f"man/{name}": text for name, text in man.pages().items()}, "docs/COMMANDS.md": reference.text()}


def everything() -> dict[str, str]:
    """And what depends on the version of click."""
    return {**documents(), **{f"completions/{name}": text for name, text in completions.files().items()}}


def outdated(current: dict[str, str]) -> list[str]:
    """Files that differ from what the commands say, or belong to none."""
    there = {path for path in current if (ROOT / path).exists()}
    folders = {Path(path).parts[0] for path in current} & {*FOLDERS}
    stray = {str(path.relative_to(ROOT)) for folder in folders for path in (ROOT / folder).glob("*")} - current.keys()
    changed = {path for path in there if (ROOT / path).read_text() != current[path]}
    return sorted(changed | stray | (current.keys() - there))


def write(current: dict[str, str]) -> None:
    for path in outdated(current):
        file = ROOT / path
        if path in current:
            file.parent.mkdir(exist_ok=True)
            file.write_text(current[path])
        else:
            file.unlink()


if __name__ == "__main__":
    if "--check" in sys.argv:
        stale = outdated(everything())
        sys.exit(f"not current: {', '.join(stale)}; run python scripts/generate.py" if stale else 0)
    write(everything())
