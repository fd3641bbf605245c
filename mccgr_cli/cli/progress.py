"""What commands report while they work: on standard error only, and nothing with --quiet.

:class:`Reporter` chooses between plain lines (here) and a display on a terminal (``displays``).
"""

from __future__ import annotations

import contextlib
import itertools
import math
import sys
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from mccgr_cli.errors import one_line
from mccgr_cli.system.memory import format_bytes
from mccgr_cli.system.phases import Phase, Phases

if TYPE_CHECKING:
    from mccgr_cli.core.neighbours import Search
    from mccgr_cli.core.solver import Step
    from mccgr_cli.workflow.experiment import Plan

LINE_EVERY = 5.0  # seconds between two plain lines
LONG = 2.0  # seconds from which on a phase leaves a line
PHASE_LINE_EVERY = 20.0  # seconds between two plain lines about the same phase


class Reporter:
    """Prints messages and progress, as much as the user wants."""

    def __init__(self, quiet: bool, verbose: bool) -> None:
        self.quiet = quiet
        self.verbose = verbose and not quiet

    def note(self, text: str) -> None:
        if not self.quiet:
            say(text)

    def detail(self, text: str) -> None:
        if self.verbose:
            self.note(text)

    def searched(self, search: Search) -> None:
        """Say how neighbours were found; without --verbose only if the search was not the usual exact one."""
        report = self.note if search.why or not search.exact else self.detail
        report(f"neighbours: {search}")

    def phases(self) -> Phases:
        """What follows the phases of the work, and shows those that take long."""
        if self.quiet:
            return Phases()
        if sys.stderr.isatty():
            from mccgr_cli.cli import displays

            return displays.PhaseDisplay()
        return PhaseLines()

    @contextmanager
    def watching(self, iterations: int, restarts: int) -> Iterator[Callable[[Step], None] | None]:
        """A function to call after each iteration. It draws on a terminal, or prints a line every few seconds."""
        if self.quiet:
            yield None
        elif sys.stderr.isatty():
            from mccgr_cli.cli import displays

            with displays.show_iterations(iterations, restarts) as show:
                yield show
        else:
            yield PlainLines(iterations, restarts)

    @contextmanager
    def counting(self, unit: str) -> Iterator[Callable[[str, int, int], None]]:
        """A function to call with the name of the task, the number of units done, and their total."""
        if self.quiet:
            yield lambda *_: None
        elif sys.stderr.isatty():
            from mccgr_cli.cli import displays

            with displays.show_count(unit) as show:
                yield show
        else:
            yield CountLines(unit)

    @contextmanager
    def comparing(
        self, plan: Plan, trials: int, before: Collection[list[dict[str, Any]]]
    ) -> Iterator[Callable[[list[dict[str, Any]]], None]]:
        """A function to call with the rows of every trial. It draws the table of means so far, or prints a line.

        ``before``: rows of trials from an earlier run.
        """
        if self.quiet:
            yield lambda _: None
        elif sys.stderr.isatty():
            from mccgr_cli.cli import displays

            with displays.show_comparison(plan, trials, before) as show:
                yield show
        else:
            lines, done = CountLines("trials"), itertools.count(len(before))
            lines("comparing", next(done), trials)
            yield lambda _: lines("comparing", next(done), trials)

    @contextmanager
    def staging(self, stages: Sequence[str]) -> Iterator[Staging]:
        """Shows the stages of a run. The display of each stage appears below."""
        if self.quiet:
            yield Staging(stages)
        elif sys.stderr.isatty():
            from mccgr_cli.cli import displays

            with displays.show_stages(stages) as staging:
                yield staging
        else:
            yield StageLines(stages)


class Staging:
    """The state of the stages of a run."""

    def __init__(self, stages: Sequence[str]) -> None:
        self.stages = list(stages)
        self.began: dict[str, float] = {}
        self.took: dict[str, float] = {}
        self.skipped: set[str] = set()

    def begin(self, stage: str) -> None:
        self.began[stage] = time.monotonic()
        self.show(stage)

    def end(self, stage: str) -> None:
        self.took[stage] = time.monotonic() - self.began[stage]
        self.show(stage)

    def skip(self, stage: str) -> None:
        self.skipped.add(stage)
        self.show(stage)

    def show(self, stage: str) -> None:
        """Called when the state of a stage changes."""


class StageLines(Staging):
    """Prints a line when a stage begins, for logs."""

    def show(self, stage: str) -> None:
        if stage not in self.took:
            kept = ": unchanged" if stage in self.skipped else ""
            say(f"[{self.stages.index(stage) + 1}/{len(self.stages)}] {stage}{kept}")


def say(text: str) -> None:
    with contextlib.suppress(OSError):  # nobody may read it; the work goes on
        if hasattr(sys.stderr, "rich_proxied_file"):  # a display is active: print above it
            from mccgr_cli.cli.displays import terminal

            terminal().print(one_line(text), markup=False, highlight=False, emoji=False, soft_wrap=True)
        else:
            click.echo(one_line(text), err=True)


def clock(seconds: float) -> str:
    """
    >>> clock(3.6), clock(100 * 3600)
    ('00:00:04', '100:00:00')
    """
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes // 60:02}:{minutes % 60:02}:{rest:02}"


def rate(speed: float) -> str:
    """
    >>> rate(388.4), rate(0.27)
    ('388', '0.3')
    """
    return f"{speed:.0f}" if speed >= 10 else f"{speed:.1f}"


class LongPhases(Phases):
    """Leaves a line when a phase ends that took long. A phase within another one is part of it."""

    def end(self, phase: Phase) -> None:
        super().end(phase)
        if not self.active and phase.age >= LONG:
            say("  ".join(one for one in (phase.name, amount(phase), f"{phase.age:.1f} s") if one))


class PhaseLines(LongPhases):
    """Also prints a line now and then while a phase lasts, for logs."""

    def __init__(self) -> None:
        super().__init__()
        self.due = 0.0

    def begin(self, phase: Phase) -> None:
        if not self.active:
            self.due = time.monotonic() + PHASE_LINE_EVERY
        super().begin(phase)

    def advanced(self) -> None:
        if time.monotonic() >= self.due:
            self.due = time.monotonic() + PHASE_LINE_EVERY
            say("  ".join(one for one in described(self.active) if one))


def described(active: Sequence[Phase]) -> tuple[str, str, str]:
    """What is being done, how much of it, and the time left; ``active`` are phases within each other."""
    shown = counted(active)
    names = dict.fromkeys((active[0].name, shown.name))
    return ": ".join(names), amount(shown), f"left {clock(shown.left)}" if shown.left > 0 else ""


def counted(active: Sequence[Phase]) -> Phase:
    """The phase whose amount is shown: the innermost, unless it has a unit and another one is ahead of it."""
    inner = active[-1]
    return inner if not inner.unit else next((one for one in reversed(active) if one.done), inner)


def amount(phase: Phase) -> str:
    """
    >>> amount(Phase("", "rows", 200, 100)), amount(Phase("", "graphs", done=3)), amount(Phase(""))
    ('100/200 rows', '3 graphs', '')
    """
    if not phase.done:
        return ""
    shown = format_bytes if phase.unit == "bytes" else str
    whole = f"/{shown(phase.total)}" if phase.total and phase.done < phase.total else ""
    return f"{shown(phase.done)}{whole}" + ("" if phase.unit == "bytes" else f" {phase.unit}")


class Columns:
    """The columns of the progress display of a factorization."""

    def __init__(self, iterations: int, restarts: int) -> None:
        self.iterations = iterations
        self.restarts = restarts

    def of(self, step: Step) -> dict[str, str]:
        """Name and text of each column after a step."""
        speed = step.iteration / step.seconds if step.seconds > 0 else math.nan
        left = (self.iterations * (self.restarts - step.restart) - step.iteration) / speed if speed > 0 else 0
        shown = {"iteration": f"{step.iteration}/{self.iterations}"}
        if self.restarts > 1:
            shown["start"] = f"{step.restart + 1}/{self.restarts}"
        shown["objective"] = f"{step.objective:.6g}"
        shown["data"] = f"{step.data:.4g}"
        shown["graph"] = f"{step.graph:.4g}"
        shown["change"] = f"{step.change:.1e}"
        if not math.isnan(step.sigma):
            shown["sigma"] = f"{step.sigma:.4g}"
        shown["speed"] = f"{speed:.1f}/s"
        shown["left"] = f"<{clock(left)}" if speed > 0 else "?"
        return shown


class PlainLines:
    """Prints a line every few seconds, for logs."""

    def __init__(self, iterations: int, restarts: int) -> None:
        self.columns = Columns(iterations, restarts)
        self.due = time.monotonic() + LINE_EVERY

    def __call__(self, step: Step) -> None:
        if time.monotonic() >= self.due:
            self.due = time.monotonic() + LINE_EVERY
            say("  ".join(f"{name} {value}" for name, value in self.columns.of(step).items()))


class CountLines:
    """Prints a line with speed and time left every few seconds, for logs."""

    def __init__(self, unit: str) -> None:
        self.unit = unit
        self.task = ""
        self.began = self.due = 0.0
        self.before = 0  # units that were done when the task began

    def __call__(self, task: str, done: int, total: int) -> None:
        now = time.monotonic()
        if task != self.task:
            self.task, self.began, self.due, self.before = task, now, now + LINE_EVERY, done
            if not total:
                say(task)
        elif total and now >= self.due and done < total:
            self.due = now + LINE_EVERY
            speed = max(done - self.before, 1) / (now - self.began)
            say(f"{task}  {done}/{total} {self.unit}  {rate(speed)}/s  left {clock((total - done) / speed)}")
