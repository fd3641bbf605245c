"""The faults that a user can mend. Anything else is a bug and keeps its traceback."""

from __future__ import annotations

from enum import IntEnum


class ExitStatus(IntEnum):
    """What ``mccgr`` tells the shell."""

    DONE = 0
    FAILED = 1
    USAGE = 2
    HUNG_UP = 129
    INTERRUPTED = 130
    TERMINATED = 143
    OUT_OF_TIME = 152  # by ulimit -t


class MccgrError(Exception):
    """One line for the user: where the fault is, what it is, and the remedy."""

    exit_status = ExitStatus.FAILED

    def __init__(self, where: str, what: str, remedy: str = "") -> None:
        super().__init__(one_line(f"{where}: {what}" + (f"; {remedy}" if remedy else "")))
        self.told = where, what, remedy

    @property
    def fault(self) -> str:
        """What it is and the remedy, for those who say themselves where."""
        return one_line("; ".join(part for part in self.told[1:] if part))

    def with_remedy(self, more: str) -> MccgrError:
        """The same fault, and another thing to do about it."""
        where, what, remedy = self.told
        return type(self)(where, what, f"{remedy}; {more}" if remedy else more)

    def __reduce__(self) -> tuple[type[MccgrError], tuple[str, str, str]]:
        """So that it can come from another process."""
        return type(self), self.told


class DataError(MccgrError):
    """A file or matrix that cannot be used as it is."""


class ParameterError(MccgrError):
    """An option that does not fit the data or another option."""

    exit_status = ExitStatus.USAGE


class ArgumentError(MccgrError, ValueError, TypeError):
    """What a caller from Python gave cannot be used: the same line, and the types that Python programs expect."""


class OutputError(MccgrError):
    """A result that cannot be written where it was asked for."""


def one_line(text: str) -> str:
    """Spell out control characters, so that a message stays one line whatever a file is called.

    >>> one_line("a\\nb")
    'a\\\\nb'
    """
    return "".join(char if char.isprintable() else repr(char)[1:-1] for char in text)
