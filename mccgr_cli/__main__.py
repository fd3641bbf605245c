"""The process of the ``mccgr`` command, and how it handles signals."""

from __future__ import annotations

import signal
import time


def run() -> None:
    """Run the command. A signal undoes unfinished work, and is ignored once the result is complete."""
    began = time.monotonic()  # a time limit counts the imports too
    interruptible = signal.getsignal(signal.SIGINT) is signal.default_int_handler  # not if started with it ignored
    if interruptible:
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # nothing has started yet: end at once, silently
    from mccgr_cli.cli.group import Invocation, handle_signals, main
    from mccgr_cli.system.signals import ignore_interrupts

    if interruptible:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    handle_signals()
    try:
        main(prog_name="mccgr", obj=Invocation(owns_process=True, began=began))
    finally:
        ignore_interrupts()
        # `python -m` kills itself by SIGINT at exit, whatever the status, if an interrupt once passed through code that
        # was run from a string, as dataclasses do on import. Running another string resets that.
        exec("")


if __name__ == "__main__":
    run()
