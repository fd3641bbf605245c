"""Signals that ask this process to end (Ctrl-C, kill, closed terminal, CPU limit), and ways to defer them."""

from __future__ import annotations

import contextlib
import signal
import threading
import time
from collections.abc import Iterator
from typing import Any

NAMES = ("SIGINT", "SIGTERM", "SIGHUP", "SIGXCPU")
INTERRUPTS = tuple(getattr(signal, name) for name in NAMES if hasattr(signal, name))
ALARM: int | None = getattr(signal, "SIGALRM", None)  # of a time limit; Windows has none
DEFERRED = INTERRUPTS if ALARM is None else (*INTERRUPTS, ALARM)
AT_ONCE = 1.0  # seconds within which two signals count as one: a batch system may signal the group and each process


def set_handlers(handlers: dict[int, Any]) -> dict[int, Any]:
    """Install handlers of signals, and return those before."""
    return {number: signal.signal(number, handler) for number, handler in handlers.items()}


def ignore_interrupts() -> dict[int, Any]:
    """Ignore interrupts from now on, and return the handlers before."""
    return set_handlers(dict.fromkeys(DEFERRED, signal.SIG_IGN))


@contextlib.contextmanager
def handled_by(handler: Any) -> Iterator[None]:
    """Give interrupts another handler for a moment. Only the main thread is ever interrupted."""
    here = threading.current_thread() is threading.main_thread()
    before = set_handlers(dict.fromkeys(DEFERRED, handler)) if here else {}
    try:
        yield
    finally:
        set_handlers(before)


@contextlib.contextmanager
def postponed_interrupts() -> Iterator[None]:
    """Delay interrupts until the end of the block, for short work that must not stop half-way."""
    received: list[int] = []
    try:
        with handled_by(lambda number, frame: received.append(number)):
            yield
    finally:
        for number in received[:1]:
            signal.raise_signal(number)


def ignored_interrupts() -> contextlib.AbstractContextManager[None]:
    """Ignore interrupts within the block, for short work that must be finished."""
    return handled_by(signal.SIG_IGN)


class RecordedInterrupt:
    """Records the first interrupt, so that work can end in good order; a later one ends it at once."""

    def __init__(self) -> None:
        self.number: int | None = None
        self._since = 0.0
        before = {number: signal.getsignal(number) for number in INTERRUPTS}
        self._before = {number: handler for number, handler in before.items() if handler != signal.SIG_IGN}

    def start(self) -> None:
        set_handlers(dict.fromkeys(self._before, self._record))

    def _record(self, number: int, _: Any) -> None:
        if self.number is None:
            self.number, self._since = number, time.monotonic()
        elif time.monotonic() - self._since > AT_ONCE:  # not the same interrupt, sent twice
            self.stop()
            signal.raise_signal(number)

    def stop(self) -> None:
        set_handlers(self._before)

    def act(self) -> None:
        """Do what the recorded signal asks for, if there is one."""
        if self.number is not None:
            self.stop()
            signal.raise_signal(self.number)


@contextlib.contextmanager
def recorded_interrupts() -> Iterator[RecordedInterrupt]:
    """Record the first interrupt within the block; act on it at the end if nobody has before."""
    noted = RecordedInterrupt()
    try:
        noted.start()
        yield noted
    finally:
        noted.stop()
    noted.act()
