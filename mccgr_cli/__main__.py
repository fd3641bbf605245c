"""The ``mccgr`` command as a process of its own, and what signals do to it."""

from __future__ import annotations

import signal


def run() -> None:
    """Run the command. A signal undoes what is half done, and comes to nothing when all is done."""
    interruptible = signal.getsignal(signal.SIGINT) is signal.default_int_handler  # not if started with it ignored
    if interruptible:
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # nothing has been begun: end at once, without a word
    from mccgr_cli.cli import heed_signals, main
    from mccgr_cli.system.signals import ignore_interrupts

    if interruptible:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    heed_signals()
    try:
        main(prog_name="mccgr")
    finally:
        ignore_interrupts()
        # `python -m` dies of SIGINT at last, whatever the status, if an interrupt has once come through a string that
        # was being run, as dataclasses are in libraries while these are imported. Another string has it forget.
        exec("")


if __name__ == "__main__":
    run()
