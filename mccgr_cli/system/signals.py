"""Signals that ask the process to end, and how to keep them off for a moment."""

from __future__ import annotations

import contextlib
import signal
import threading
import time
from collections.abc import Iterator
from typing import Any

NAMES = ("SIGINT", "SIGTERM", "SIGHUP", "SIGXCPU")
INTERRUPTS = tuple(getattr(signal, name) for name in NAMES if hasattr(signal, name))
AT_ONCE = 1.0  # seconds within which signals are one: whoever sends them may send them to all of a group, and each


def ignore_interrupts() -> dict[int, Any]:
    """Let them come to nothing; what they would have done is returned."""
    return {number: signal.signal(number, signal.SIG_IGN) for number in INTERRUPTS}


@contextlib.contextmanager
def postponed_interrupts() -> Iterator[None]:
    """They wait meanwhile: for what is short and would leave a mess if it were left half-way."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came: list[int] = []
    before = {number: signal.signal(number, lambda number, frame: came.append(number)) for number in INTERRUPTS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        for number in came[:1]:
            signal.raise_signal(number)


@contextlib.contextmanager
def uninterrupted() -> Iterator[None]:
    """They come to nothing meanwhile: for what is short and must not stay half done."""
    if threading.current_thread() is not threading.main_thread():  # only that one is ever interrupted
        yield
        return
    before = ignore_interrupts()
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class Noted:
    """The first signal that came, if one has: who looks at it ends in good order. One that comes later ends at once."""

    def __init__(self) -> None:
        self.number: int | None = None
        self._since = 0.0
        self._before = {number: signal.getsignal(number) for number in INTERRUPTS}
        self._before = {number: handler for number, handler in self._before.items() if handler != signal.SIG_IGN}

    def begin(self) -> None:
        for number in self._before:
            signal.signal(number, self._note)

    def _note(self, number: int, _: Any) -> None:
        if self.number is None:
            self.number, self._since = number, time.monotonic()
        elif time.monotonic() - self._since > AT_ONCE:  # not one that was sent twice
            self.end()
            signal.raise_signal(number)

    def end(self) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def act(self) -> None:
        """Do what the signal asks for, if one came."""
        if self.number is not None:
            self.end()
            signal.raise_signal(self.number)


@contextlib.contextmanager
def noted_interrupts() -> Iterator[Noted]:
    """The first one is noted meanwhile; if nobody has acted on it by the end, it is acted on then."""
    noted = Noted()
    try:
        noted.begin()
        yield noted
    finally:
        noted.end()
    noted.act()
