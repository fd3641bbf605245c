"""What shells need to complete the commands, by click; they ask mccgr itself, so that it changes with click alone."""

from __future__ import annotations

from click.shell_completion import get_completion_class

from mccgr_cli.cli import main as group

SHELLS = {"bash": "mccgr.bash", "zsh": "_mccgr", "fish": "mccgr.fish"}  # and how the file of each is called


def files() -> dict[str, str]:
    """Every file by name."""
    return {name: source(shell) for shell, name in SHELLS.items()}


def source(shell: str) -> str:
    kind = get_completion_class(shell)
    assert kind is not None
    asker = kind(group, {}, "mccgr", "_MCCGR_COMPLETE")
    # zsh keeps a function that has the name of its file; with another, as click has it, the second try is lost
    called = {"complete_func": SHELLS[shell]} if shell == "zsh" else {}
    text = asker.source_template % {**asker.source_vars(), **called}
    return "\n".join(line.rstrip() for line in text.strip().splitlines()) + "\n"
