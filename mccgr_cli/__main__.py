"""``python -m mccgr_cli`` is the ``mccgr`` command."""

from mccgr_cli.cli import main

if __name__ == "__main__":
    main(prog_name="mccgr")
