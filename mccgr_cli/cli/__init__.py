"""The ``mccgr`` command: a group whose commands are imported when they are called.

One file a command, each with a function ``command``; begin with the one you want to change. ``job`` is what commands
that write a file share, ``options`` and ``types`` are options that several commands have, ``progress`` what they
show.
May import: everything else; nothing else imports click or rich.
"""

from __future__ import annotations

import contextlib
import errno
import importlib
import io
import os
import signal
import sys
import threading
from typing import Any, NoReturn

import click

from mccgr_cli import __version__
from mccgr_cli.errors import ExitStatus, MccgrError, one_line
from mccgr_cli.system.signals import INTERRUPTS, ignore_interrupts

COMMANDS = (
    *("run", "extract", "graph", "factorize", "cluster", "evaluate", "transform"),
    *("rank", "experiment", "table", "plot", "report", "export", "info"),
)

SOON = 0.05  # seconds


class MccgrGroup(click.Group):
    """Commands by name of their module, and the one place where errors become a line and an exit status."""

    written = False  # whether the result is out, so that an interrupt comes too late
    more_follows = False  # whether a result that is out is not the last
    kept = "nothing was written"  # what an interrupt leaves
    heeds_signals = False  # whether the process is ours alone

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in COMMANDS:
            return None
        command: click.Command = importlib.import_module(f"{__name__}.{name}").command
        return command

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt as end:
            if self.written:  # too late: the result is there and whole
                return None
            if self.heeds_signals:
                ignore_interrupts()  # one is enough
            raise Interrupted(self.kept, signal_of(end)) from None

    def main(self, *args: Any, **kwargs: Any) -> NoReturn:
        kwargs["standalone_mode"] = False
        self.written, self.more_follows, self.kept = False, False, MccgrGroup.kept
        mend_streams()
        try:
            require_current_folder()
            result = super().main(*args, **kwargs)
            sys.exit(result if isinstance(result, int) else ExitStatus.DONE)
        except click.exceptions.NoArgsIsHelpError as fault:
            fault.show()
            sys.exit(ExitStatus.USAGE)
        except click.UsageError as fault:
            command = fault.ctx.command_path if fault.ctx else "mccgr"
            fail(f"{command}: {fault.format_message().rstrip('.')}; see '{command} --help'", ExitStatus.USAGE)
        except MccgrError as fault:
            fail(str(fault), fault.exit_status)
        except (MemoryError, ImportError, OSError) as fault:
            if isinstance(fault, OSError) and fault.errno in (errno.ENOSPC, errno.EPIPE, errno.EIO):  # of --help
                fail(f"standard output: cannot write: {os.strerror(fault.errno).lower()}", ExitStatus.FAILED)
            if not isinstance(fault, MemoryError) and not is_short_of_memory():
                raise
            remedy = "use a larger machine, fewer samples or features, or single precision"
            fail(f"mccgr: out of memory; {remedy}", ExitStatus.FAILED)
        except click.Abort:  # an interrupt outside the command itself
            if self.written:
                sys.exit(ExitStatus.DONE)
            fail(str(Interrupted(self.kept)), ExitStatus.INTERRUPTED)
        finally:
            empty_streams()


class Interrupted(MccgrError):
    """A signal asked the process to end."""

    def __init__(self, kept: str, number: int = signal.SIGINT) -> None:
        what = "interrupted" if number == signal.SIGINT else f"ended by {signal.Signals(number).name}"
        super().__init__("mccgr", what, kept)
        self.exit_status = ExitStatus(128 + number)


class Ended(KeyboardInterrupt):
    """A signal other than Ctrl-C that asks the process to end: all is undone in the same way."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


def heed_signals() -> None:
    """Let what batch systems and closed terminals send undo what is half done, as Ctrl-C does."""

    def end(number: int, _: Any) -> NoReturn:
        raise Ended(number)

    for number in INTERRUPTS:
        if signal.getsignal(number) == signal.SIG_DFL:  # nohup has SIGHUP ignored; Ctrl-C is an exception already
            signal.signal(number, end)
    sys.unraisablehook = send_again
    main.heeds_signals = True


def send_again(lost: Any) -> None:
    """Python drops an exception that comes in a destructor, or in a callback of its garbage collection or imports."""
    if isinstance(lost.exc_value, KeyboardInterrupt):
        again = threading.Timer(SOON, os.kill, (os.getpid(), signal_of(lost.exc_value)))
        again.daemon = True
        again.start()
    else:
        sys.__unraisablehook__(lost)


def is_short_of_memory() -> bool:
    """Whether so little is left that libraries could not be loaded, which they say in many ways."""
    from mccgr_cli.system.memory import LEAST, available

    return available() < LEAST


def signal_of(end: KeyboardInterrupt) -> int:
    return end.number if isinstance(end, Ended) else signal.SIGINT


def mend_streams() -> None:
    """Nobody may be reading what we say, or in another encoding; neither may stop the work."""
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115, PTH123
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def require_current_folder() -> None:
    """Several libraries ask where they are, and none has an answer to an error."""
    try:
        os.getcwd()  # noqa: PTH109
    except OSError:
        raise MccgrError("the current folder", "has gone", "change to another") from None


def fail(message: str, status: ExitStatus) -> NoReturn:
    with contextlib.suppress(OSError):
        click.echo(one_line(message), err=True)
    sys.exit(status)


def empty_streams() -> None:
    """Let what is left in a buffer go nowhere if nobody takes it: Python would complain at exit."""
    for stream in (sys.stdout, sys.stderr):
        try:
            if stream is not None:
                stream.flush()
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


@click.group(cls=MccgrGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="mccgr")
def main() -> None:
    """Robust clustering of images and other non-negative matrices.

    mccgr factorizes X ~ WH with a correntropy loss, which learns a weight for every feature and so silences
    noisy ones, and with a nearest-neighbour graph, which keeps similar samples together. Its commands are
    stages that pass HDF5 files (or a pipe) on.

    \b
    Examples:
      mccgr run images/ --k 5 -o out
      mccgr extract images/ -o X.h5 --words 300
      mccgr factorize X.h5 --alpha 100 --k 5
      mccgr factorize X.h5 --k 5 -o - | mccgr cluster - -o - | mccgr evaluate -
      mccgr cluster "$(mccgr factorize X.h5 --k 5)"
    """


def stand() -> None:
    """From now on an interrupt comes too late: the result has been written."""
    main.written = not main.more_follows


def expect_more(more: bool) -> None:
    """Whether the next result is not the last, so that an interrupt after it still ends the run."""
    main.more_follows = more


def keep(what: str) -> None:
    """From now on an interrupt leaves something behind."""
    main.kept = what
