"""The command ``mccgr``: a group with one file per command.

Begin with the file of the command you want to change: its function ``command`` has named, typed parameters. ``group``
turns errors into one line and an exit status. ``options`` has the options that commands share, ``types`` their values,
``job`` what commands that write a file share, ``progress`` and ``tables`` what they show.
May import: everything else. click and rich are imported nowhere else.
"""

from mccgr_cli.cli.group import COMMANDS, main

__all__ = ["COMMANDS", "main"]
