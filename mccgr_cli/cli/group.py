"""The group of all commands: where errors and signals become one line and an exit status."""

from __future__ import annotations

import codecs
import contextlib
import errno
import importlib
import io
import os
import re
import signal
import sys
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn

import click

from mccgr_cli import __version__
from mccgr_cli.errors import ExitStatus, MccgrError, TimeLimitReached, one_line
from mccgr_cli.system import time_limit
from mccgr_cli.system.signals import ALARM, INTERRUPTS, ignore_interrupts
from mccgr_cli.system.time_limit import TimeLimit, TimeUp

COMMANDS = (
    *("run", "extract", "graph", "factorize", "cluster", "evaluate", "top", "predict", "transform"),
    *("rank", "experiment", "table", "plot", "report", "similar", "duplicates", "organize", "export", "info"),
)

KEEP_NAMES = "keep-names"  # what standard output does with characters that its encoding does not have
SOON = 0.05  # seconds until a lost signal is sent again


@dataclass
class Invocation:
    """One call of ``mccgr``: its input, and what an interrupt would leave. Lives in ``obj`` of the click context."""

    owns_process: bool = False  # False where a test or another program calls the command
    written: bool = False  # the result is complete, so an interrupt comes too late
    leaves: str = "nothing was written"  # what an interrupt leaves behind, and what to do then
    notes: list[str] = field(default_factory=list)  # what was said of the inputs
    reads_data: bool = False  # standard input is the main input, not the name of it
    command_line: Sequence[str] | None = None  # if it is not that of the process: with a name from standard input
    began: float = field(default_factory=lambda: time_limit.now())
    limit: TimeLimit | None = None  # on the time of the whole command


def invocation() -> Invocation:
    """The current call."""
    found = click.get_current_context().find_object(Invocation)
    assert found is not None
    return found


class MccgrGroup(click.Group):
    """Imports commands by name, and turns every error into one line and an exit status."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in COMMANDS:
            return None
        command: click.Command = importlib.import_module(f"mccgr_cli.cli.{name}").command
        return command

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt as interrupt:
            call: Invocation = ctx.obj
            if call.written:
                return None
            if call.owns_process:
                ignore_interrupts()  # one is enough
            if isinstance(interrupt, TimeUp):
                raise out_of_time(interrupt, call.leaves) from None
            raise Interrupted(call.leaves, signal_of(interrupt)) from None

    def main(self, *args: Any, **kwargs: Any) -> NoReturn:
        kwargs["standalone_mode"] = False
        call: Invocation = kwargs.setdefault("obj", Invocation())
        repair_streams()
        try:
            require_current_folder()
            result = super().main(*args, **kwargs)
            sys.exit(result if isinstance(result, int) else ExitStatus.DONE)
        except click.exceptions.NoArgsIsHelpError as fault:
            fault.show()
            sys.exit(ExitStatus.USAGE)
        except click.UsageError as fault:
            if isinstance(fault, click.MissingParameter) and (refusal := refusal_instead(fault)) is not None:
                fail(str(refusal), refusal.exit_status)
            fail(describe(fault), ExitStatus.USAGE)
        except MccgrError as fault:
            fail(str(fault), fault.exit_status)
        except (MemoryError, ImportError, OSError) as fault:
            if isinstance(fault, OSError) and fault.errno in (errno.ENOSPC, errno.EPIPE, errno.EIO):  # of --help
                fail(f"standard output: cannot write: {os.strerror(fault.errno).lower()}", ExitStatus.FAILED)
            if not isinstance(fault, MemoryError) and not is_short_of_memory():
                raise
            remedy = "use a larger machine, fewer samples or features, or single precision"
            fail(f"mccgr: out of memory; {remedy}", ExitStatus.FAILED)
        except click.Abort:  # an interrupt before or after the command itself
            if call.written:
                sys.exit(ExitStatus.DONE)
            fail(str(Interrupted(call.leaves)), ExitStatus.INTERRUPTED)
        finally:
            flush_streams()


class Interrupted(MccgrError):
    """A signal asked the process to end."""

    def __init__(self, leaves: str, number: int = signal.SIGINT) -> None:
        what = "interrupted" if number == signal.SIGINT else f"ended by {signal.Signals(number).name}"
        super().__init__("mccgr", what, leaves)
        self.exit_status = ExitStatus(128 + number)


def out_of_time(end: TimeUp, leaves: str) -> TimeLimitReached:
    """The time limit ended the command, and left this behind."""
    what = f"ended by --time-limit {end.limit.seconds:g}s" + (f" while {end.doing}" if end.doing else "")
    return TimeLimitReached("mccgr", what, f"{leaves}; give more time" if leaves == Invocation.leaves else leaves)


class Ended(KeyboardInterrupt):
    """A signal other than Ctrl-C that asks the process to end. Everything is undone as after Ctrl-C."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


def refusal_instead(fault: click.MissingParameter) -> MccgrError | None:
    """What is wrong with the file that was given, if that is why something is missing."""
    from mccgr_cli.cli.checkpointing import checkpoint_as_matrix

    return checkpoint_as_matrix(fault.ctx)


def describe(fault: click.UsageError) -> str:
    """What is wrong with a command line, with an example if something is missing."""
    command = fault.ctx.command_path if fault.ctx else "mccgr"
    parts = [f"{command}: {fault.format_message().rstrip('.')}", f"see '{command} --help'"]
    if fault.ctx is not None and isinstance(fault, click.MissingParameter):
        examples = re.findall(rf"^ *({re.escape(command)} .*)", fault.ctx.command.help or "", re.MULTILINE)
        parts[1:1] = [f"for example: {example}" for example in examples[:1]]
    return "; ".join(parts)


def handle_signals() -> None:
    """Undo unfinished work on signals from batch systems and closed terminals, as on Ctrl-C."""

    def end(number: int, _: Any) -> NoReturn:
        raise Ended(number)

    for number in INTERRUPTS:
        if signal.getsignal(number) == signal.SIG_DFL:  # nohup ignores SIGHUP; Ctrl-C is an exception already
            signal.signal(number, end)
    sys.unraisablehook = send_again


def send_again(lost: Any) -> None:
    """Repeat a signal that Python lost: it drops exceptions in destructors and in garbage collection."""
    if isinstance(lost.exc_value, KeyboardInterrupt):
        again = threading.Timer(SOON, os.kill, (os.getpid(), signal_of(lost.exc_value)))
        again.daemon = True
        again.start()
    else:
        sys.__unraisablehook__(lost)


def is_short_of_memory() -> bool:
    """Whether libraries failed to load for lack of memory, which they report in many ways."""
    from mccgr_cli.system.memory import MINIMUM_BYTES, available_memory

    return available_memory() < MINIMUM_BYTES


def signal_of(end: KeyboardInterrupt) -> int:
    if isinstance(end, TimeUp) and ALARM is not None:
        return ALARM
    return end.number if isinstance(end, Ended) else signal.SIGINT


def repair_streams() -> None:
    """Write messages even if standard error is closed or has a narrow encoding: neither may stop the work."""
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115, PTH123
    codecs.register_error(KEEP_NAMES, keep_names)
    for stream, errors in ((sys.stdout, KEEP_NAMES), (sys.stderr, "backslashreplace")):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors=errors)


def keep_names(fault: UnicodeError) -> tuple[str | bytes, int]:
    """Write a name of a file with the bytes that it has on disk; escape other characters that cannot be written."""
    assert isinstance(fault, UnicodeEncodeError)
    fault.end = fault.start + 1
    is_byte = "\udc80" <= fault.object[fault.start] <= "\udcff"  # how Python holds bytes that are not UTF-8
    return codecs.lookup_error("surrogateescape" if is_byte else "backslashreplace")(fault)


def require_current_folder() -> None:
    """Refuse to start in a deleted folder: several libraries fail there with a traceback."""
    try:
        os.getcwd()  # noqa: PTH109
    except OSError:
        raise MccgrError("the current folder", "was deleted", "change to another folder") from None


def fail(message: str, status: ExitStatus) -> NoReturn:
    with contextlib.suppress(OSError):
        click.echo(one_line(message), err=True)
    sys.exit(status)


def flush_streams() -> None:
    """Drop output that nobody reads any more: Python would print a traceback at exit."""
    for stream in (sys.stdout, sys.stderr):
        try:
            if stream is not None:
                stream.flush()
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


@click.group(cls=MccgrGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="mccgr")
def main() -> None:
    """Cluster images, text, cells or any non-negative matrix, robustly.

    mccgr factorizes a matrix X ~ WH: W has the coefficients of the samples, H the components. A loss that limits the
    influence of large errors (correntropy) learns a weight for every feature and silences noisy features. A
    nearest-neighbour graph keeps similar samples together. Commands exchange data by HDF5 files or by pipes: a command
    without its file reads standard input. 'mccgr run' runs all stages.

    \b
    Examples:
      mccgr run images/ --k 5 -o out
      mccgr extract images/ -o X.h5 --words 300
      mccgr factorize X.h5 --alpha 100 --k 5
      mccgr factorize X.h5 --k 5 | mccgr cluster | mccgr evaluate
      mccgr cluster "$(mccgr factorize X.h5 --k 5)"
    """
