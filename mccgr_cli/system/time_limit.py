"""A limit on the time of a command: what cannot stop half-way ends by an exception, iterations end between two of them.

An alarm of the operating system raises :class:`TimeUp` in the main thread. Everything is undone as after Ctrl-C. Where
work is done in steps that have a result, the alarm is off, and :meth:`TimeLimit.ends_steps` is asked between two steps.
Windows has no alarms: there the limit holds only between steps.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

from mccgr_cli.system.phases import name_of_phase
from mccgr_cli.system.signals import ALARM, set_handlers

FINISHING_SHARE, MOST_FINISHING = 0.1, 60.0  # time for writing: this share of the limit, at most so many seconds


def now() -> float:
    """Seconds on the clock of all limits."""
    return time.monotonic()


class TimeUp(KeyboardInterrupt):
    """The time is over. ``doing`` is the phase that was under way."""

    def __init__(self, limit: TimeLimit) -> None:
        super().__init__()
        self.limit, self.doing = limit, name_of_phase()


class TimeLimit:
    """The moment when a command must have ended: ``seconds`` after it ``began``."""

    def __init__(self, seconds: float, began: float) -> None:
        self.seconds, self.end = seconds, began + seconds
        self.finishing = min(FINISHING_SHARE * seconds, MOST_FINISHING)
        self._stepped: float | None = None  # when :meth:`ends_steps` was called last
        self._longest = 0.0  # time between two such calls

    def arm(self) -> None:
        """Raise :class:`TimeUp` when the time is over; at once if it is."""
        if now() >= self.end:
            raise TimeUp(self)
        set_alarm(self.end - now())

    def disarm(self) -> None:
        set_alarm(0.0)

    @contextmanager
    def armed(self) -> Iterator[None]:
        """As :meth:`arm`, for the block only."""
        try:
            self.arm()
            yield
        finally:
            self.disarm()

    def ends_steps(self) -> bool:
        """Whether there is no time for one more step and for writing the result. Switches the alarm off."""
        self.disarm()
        moment = now()
        if self._stepped is not None:
            self._longest = max(self._longest, moment - self._stepped)
        self._stepped = moment
        return moment + self._longest + self.finishing >= self.end


def set_alarm(seconds: float) -> None:
    """Set the alarm; 0 switches it off."""
    if ALARM is not None and threading.current_thread() is threading.main_thread():
        signal.setitimer(signal.ITIMER_REAL, seconds)


@contextmanager
def alarmed(limit: TimeLimit) -> Iterator[None]:
    """Within the block, the limit ends the work."""

    def end(*_: Any) -> NoReturn:
        raise TimeUp(limit)

    here = ALARM is not None and threading.current_thread() is threading.main_thread()
    before = set_handlers({ALARM: end}) if here and ALARM is not None else {}
    try:
        with limit.armed():
            yield
    finally:
        set_handlers(before)
