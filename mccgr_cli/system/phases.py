"""What a long computation is doing now, for whoever wants to show it.

The code that computes says it: ``with phase("finding neighbours"):``, ``expect(1000, "samples")``, ``advance(1,
"samples")``. It prints nothing and knows no listener. A command listens with :func:`listening`. Without a listener, as
in Python programs, worker processes and other threads, these calls do nothing.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field


@dataclass(eq=False)
class Phase:
    """A part of a computation, and how much of it is done."""

    name: str  # what is done: "finding neighbours"
    unit: str = ""  # of what is counted: "samples"
    total: int = 0  # 0: unknown
    done: int = 0
    began: float = field(default_factory=time.monotonic)
    expected: tuple[float, int] | None = None  # when more was expected last, and how much was done then

    @property
    def age(self) -> float:
        """Seconds since it began."""
        return time.monotonic() - self.began

    @property
    def left(self) -> float:
        """Seconds left, at the speed since the last expectation; 0 if that is not known."""
        since, before = self.expected or (self.began, 0)
        if not self.total or self.done <= before:
            return 0.0
        return (time.monotonic() - since) / (self.done - before) * max(self.total - self.done, 0)


class Phases:
    """The phases that are under way, the outermost first. Subclasses show them."""

    def __init__(self) -> None:
        self.active: list[Phase] = []

    def begin(self, phase: Phase) -> None:
        self.active.append(phase)

    def end(self, phase: Phase) -> None:
        self.active.remove(phase)

    def advanced(self) -> None:
        """Called when more is done."""

    def hide(self) -> None:
        """Show nothing more until the next phase: a result is about to be printed."""

    def counting(self, unit: str) -> Phase | None:
        """The innermost phase that counts in this unit."""
        return next((one for one in reversed(self.active) if one.unit == unit), None)


_listener: ContextVar[Phases | None] = ContextVar("listener", default=None)


@contextmanager
def listening(phases: Phases) -> Iterator[None]:
    """Send the phases of this thread to a listener."""
    token = _listener.set(phases)
    try:
        yield
    finally:
        _listener.reset(token)


@contextmanager
def phase(name: str, unit: str = "", total: int = 0) -> Iterator[None]:
    """The block is a phase of this name, which counts in a unit if it is given one."""
    listener = _listener.get()
    if listener is None:
        yield
        return
    begun = Phase(name, unit, total)
    listener.begin(begun)
    try:
        yield
    finally:
        listener.end(begun)


def expect(count: int, unit: str) -> None:
    """The phase that counts in this unit has at least so many more to do."""
    listener = _listener.get()
    counting = None if listener is None else listener.counting(unit)
    if counting is not None and counting.done + count > counting.total:
        counting.total = counting.done + count
        counting.expected = time.monotonic(), counting.done


def advance(count: int, unit: str) -> None:
    """The phase that counts in this unit has done so many more."""
    listener = _listener.get()
    counting = None if listener is None else listener.counting(unit)
    if listener is not None and counting is not None:
        counting.done += count
        listener.advanced()


def name_of_phase() -> str:
    """What is being done now, in the words of the outermost phase; empty if nobody listens."""
    listener = _listener.get()
    return listener.active[0].name if listener is not None and listener.active else ""
