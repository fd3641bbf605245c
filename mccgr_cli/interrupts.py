"""Signals that ask the process to end, and how to keep them off for a moment."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from typing import Any

INTERRUPTS = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))


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


@contextlib.contextmanager
def noted_interrupts() -> Iterator[list[int]]:
    """The first one is noted in the list, for whoever looks into it and ends in good order; another ends at once.

    If nobody has raised it by the end, it is raised then.
    """
    came: list[int] = []
    heeded = [number for number in INTERRUPTS if signal.getsignal(number) != signal.SIG_IGN]
    before = {number: signal.getsignal(number) for number in heeded}

    def note(number: int, _: Any) -> None:
        came.append(number)
        restore()

    def restore() -> None:
        for number, handler in before.items():
            signal.signal(number, handler)

    try:
        for number in heeded:
            if not came:
                signal.signal(number, note)
        yield came
    finally:
        restore()
    for number in came:
        signal.raise_signal(number)
