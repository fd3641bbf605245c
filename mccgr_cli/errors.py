"""Errors that a user can fix: place, fault and remedy in one line. Anything else is a bug and keeps its traceback."""

from __future__ import annotations

from enum import IntEnum


class ExitStatus(IntEnum):
    """The exit status of ``mccgr``."""

    DONE = 0
    FAILED = 1
    USAGE = 2
    TIME_LIMIT = 124  # as of the command timeout
    HUNG_UP = 129
    INTERRUPTED = 130
    TERMINATED = 143
    OUT_OF_TIME = 152  # by ulimit -t


class MccgrError(Exception):
    """One line for the user: where the fault is, what it is, and what to do."""

    exit_status = ExitStatus.FAILED

    def __init__(self, where: str, what: str, remedy: str = "") -> None:
        super().__init__(one_line(f"{where}: {what}" + (f"; {remedy}" if remedy else "")))
        self.parts = where, what, remedy

    @property
    def fault(self) -> str:
        """The message without its place."""
        return one_line("; ".join(part for part in self.parts[1:] if part))

    def with_remedy(self, more: str) -> MccgrError:
        """The same error with one more remedy."""
        where, what, remedy = self.parts
        return type(self)(where, what, f"{remedy}; {more}" if remedy else more)

    def __reduce__(self) -> tuple[type[MccgrError], tuple[str, str, str]]:
        """Lets the error be sent from another process."""
        return type(self), self.parts


class DataError(MccgrError):
    """A file or matrix that cannot be used."""


class UnusableValues(DataError):
    """Values that are not what they should be, in a file that is whole."""


class ParameterError(MccgrError):
    """An option that does not fit the data or another option."""

    exit_status = ExitStatus.USAGE


class ArgumentError(MccgrError, ValueError, TypeError):
    """An argument from Python that cannot be used: the same line, with the types that Python programs expect."""


class TimeLimitReached(MccgrError):
    """A command ended because its time was over."""

    exit_status = ExitStatus.TIME_LIMIT


class OutputError(MccgrError):
    """A result that cannot be written."""


def one_line(text: str) -> str:
    """Make control characters visible, so that a message is one line even if the name of a file has a line break.

    >>> one_line("a\\nb")
    'a\\\\nb'
    """
    return "".join(char if char.isprintable() else repr(char)[1:-1] for char in text)
