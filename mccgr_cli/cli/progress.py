"""What is said while it works: always on stderr, and nothing at all when it shall be quiet."""

from __future__ import annotations

import contextlib
import functools
import itertools
import math
import sys
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from mccgr_cli.errors import one_line

if TYPE_CHECKING:
    from rich.console import Console

    from mccgr_cli.core.neighbours import Search
    from mccgr_cli.core.solver import Step
    from mccgr_cli.workflow.experiment import Plan

LINE_EVERY = 5.0  # seconds between plain lines
FRAME_EVERY = 0.1  # seconds between frames on a terminal
CURVE_WIDTH = 48
BARS = "▁▂▃▄▅▆▇█"


class Reporter:
    """Tells the user, as much as was asked for."""

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
        """How neighbours were found, where that was not the obvious way."""
        tell = self.note if search.why or not search.exact else self.detail
        tell(f"neighbours: {search}")

    @contextmanager
    def watching(self, iterations: int, restarts: int) -> Iterator[Callable[[Step], None] | None]:
        """A function to call after each iteration: it draws on a terminal, else prints a line now and then."""
        if self.quiet:
            yield None
        elif sys.stderr.isatty():
            with terminal_display(iterations, restarts) as show:
                yield show
        else:
            yield PlainLines(iterations, restarts)

    @contextmanager
    def counting(self, unit: str) -> Iterator[Callable[[str, int, int], None]]:
        """A function to call with what is being done, how many of these units are done, and of how many."""
        if self.quiet:
            yield lambda *_: None
        elif sys.stderr.isatty():
            with terminal_count(unit) as show:
                yield show
        else:
            yield CountLines(unit)

    @contextmanager
    def comparing(
        self, plan: Plan, trials: int, before: Collection[list[dict[str, Any]]]
    ) -> Iterator[Callable[[list[dict[str, Any]]], None]]:
        """A function to call with the rows of every trial: it draws the table of means so far, or prints a line.

        ``before`` has the rows of trials that were done earlier.
        """
        if self.quiet:
            yield lambda _: None
        elif sys.stderr.isatty():
            with terminal_comparison(plan, trials, before) as show:
                yield show
        else:
            lines, done = CountLines("trials"), itertools.count(len(before))
            lines("comparing", next(done), trials)
            yield lambda _: lines("comparing", next(done), trials)

    @contextmanager
    def staging(self, stages: Sequence[str]) -> Iterator[Staging]:
        """Whom to tell which stage of a run is next; its own display shows within that of the stages."""
        if self.quiet:
            yield Staging(stages)
        elif sys.stderr.isatty():
            with terminal_stages(stages) as staging:
                yield staging
        else:
            yield StageLines(stages)


class Staging:
    """Is told what becomes of the stages of a run."""

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
        """Something is new about a stage."""


class StageLines(Staging):
    """For logs: a line when a stage begins."""

    def show(self, stage: str) -> None:
        if stage not in self.took:
            kept = ": nothing has changed" if stage in self.skipped else ""
            say(f"[{self.stages.index(stage) + 1}/{len(self.stages)}] {stage}{kept}")


def say(text: str) -> None:
    with contextlib.suppress(OSError):  # that nobody listens is no reason to lose the work
        if hasattr(sys.stderr, "rich_proxied_file"):  # there is a display, which has to make room
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


class Pace:
    """Speed and time left."""

    def __init__(self, iterations: int, restarts: int) -> None:
        self.iterations = iterations
        self.restarts = restarts

    def describe(self, step: Step) -> dict[str, str]:
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
        shown["left"] = f"<{clock(left)}"
        return shown


class PlainLines:
    """For logs: one line every few seconds."""

    def __init__(self, iterations: int, restarts: int) -> None:
        self.pace = Pace(iterations, restarts)
        self.due = time.monotonic() + LINE_EVERY

    def __call__(self, step: Step) -> None:
        if time.monotonic() >= self.due:
            self.due = time.monotonic() + LINE_EVERY
            say("  ".join(f"{name} {value}" for name, value in self.pace.describe(step).items()))


class CountLines:
    """For logs: one line every few seconds with the speed and the time left."""

    def __init__(self, unit: str) -> None:
        self.unit = unit
        self.doing = ""
        self.began = self.due = 0.0
        self.before = 0  # done when it began

    def __call__(self, doing: str, done: int, total: int) -> None:
        now = time.monotonic()
        if doing != self.doing:
            self.doing, self.began, self.due, self.before = doing, now, now + LINE_EVERY, done
            if not total:
                say(doing)
        elif total and now >= self.due and done < total:
            self.due = now + LINE_EVERY
            speed = max(done - self.before, 1) / (now - self.began)
            say(f"{doing}  {done}/{total} {self.unit}  {rate(speed)}/s  left {clock((total - done) / speed)}")


@functools.cache
def terminal() -> Console:
    """The one that is written to: displays within each other must share it."""
    from rich.console import Console

    return Console(stderr=True)


@contextmanager
def terminal_stages(stages: Sequence[str]) -> Iterator[Staging]:
    from rich.live import Live
    from rich.spinner import Spinner
    from rich.table import Table
    from rich.text import Text

    spinner = Spinner("dots")

    def row(staging: Staging, stage: str) -> tuple[Any, Text, Text]:
        if stage in staging.took:
            return Text("✓", style="green"), Text(stage), Text(f"{staging.took[stage]:.1f} s", style="dim")
        if stage in staging.skipped:
            return Text("✓", style="dim"), Text(stage, style="dim"), Text("nothing has changed", style="dim")
        if stage in staging.began:
            return spinner, Text(stage, style="bold"), Text("")
        return Text(" "), Text(stage, style="dim"), Text("")

    class Shown(Staging):
        def show(self, stage: str) -> None:
            live.refresh()

        def __rich__(self) -> Table:
            table = Table.grid(padding=(0, 1))
            for stage in self.stages:
                table.add_row(*row(self, stage))
            return table

    staging = Shown(stages)
    live = Live(staging, console=terminal(), refresh_per_second=8)
    with live:
        yield staging


@contextmanager
def terminal_count(unit: str) -> Iterator[Callable[[str, int, int], None]]:
    from rich import progress

    columns = (
        progress.TextColumn("{task.description}"),
        progress.BarColumn(),
        progress.MofNCompleteColumn(),
        progress.TextColumn("{task.fields[speed]}"),
        progress.TimeRemainingColumn(),
    )
    with progress.Progress(*columns, console=terminal(), transient=True) as display:
        tasks: dict[str, progress.TaskID] = {}

        def show(doing: str, done: int, total: int) -> None:
            if doing not in tasks:
                for task in tasks.values():
                    display.update(task, visible=False)
                tasks[doing] = display.add_task(doing, total=total or None, speed="")
            speed = display.tasks[tasks[doing]].speed
            display.update(tasks[doing], completed=done, speed=f"{rate(speed)} {unit}/s" if speed else "")

        yield show


@contextmanager
def terminal_comparison(
    plan: Plan, trials: int, before: Collection[list[dict[str, Any]]]
) -> Iterator[Callable[[list[dict[str, Any]]], None]]:
    from rich import progress
    from rich.console import Group
    from rich.live import Live
    from rich.table import Table

    columns = (progress.BarColumn(), progress.MofNCompleteColumn(), progress.TimeRemainingColumn())
    bar = progress.Progress(*columns)
    task = bar.add_task("", total=trials, completed=len(before))
    sums: dict[tuple[int, str], list[float]] = {}
    due = 0.0

    def count(rows: list[dict[str, Any]]) -> None:
        for row in rows:
            total = sums.setdefault((row["k"], row["method"]), [0.0, 0])
            total[0] += row["accuracy"]
            total[1] += 1

    def frame() -> Any:
        table = Table("accuracy so far", *plan.methods, box=None)
        for k in plan.ks:
            cells = (sums.get((k, method), [0.0, 0]) for method in plan.methods)
            table.add_row(f"k={k}", *(f"{total / count:.3f}" if count else "" for total, count in cells))
        return Group(table, bar)

    for rows in before:
        count(rows)
    with Live(frame(), console=terminal(), auto_refresh=False, transient=True) as live:

        def show(rows: list[dict[str, Any]]) -> None:
            nonlocal due
            count(rows)
            bar.advance(task)
            if time.monotonic() >= due:
                due = time.monotonic() + FRAME_EVERY
                live.update(frame(), refresh=True)

        yield show


@contextmanager
def terminal_display(iterations: int, restarts: int) -> Iterator[Callable[[Step], None]]:
    from rich.live import Live
    from rich.progress_bar import ProgressBar
    from rich.table import Table
    from rich.text import Text

    pace = Pace(iterations, restarts)
    curve: list[float] = []
    due = 0.0

    def frame(step: Step) -> Any:
        shown = pace.describe(step)
        figures = Table.grid(padding=(0, 2))
        figures.add_row(*(Text(name, style="dim") for name in shown))
        figures.add_row(*(Text(value, style="bold") for value in shown.values()))
        whole = Table.grid()
        whole.add_row(ProgressBar(total=iterations, completed=step.iteration, width=CURVE_WIDTH))
        # without the fall from the start, beside which the rest would be flat
        whole.add_row(Text(sparkline(curve[len(curve) // 10 :], CURVE_WIDTH), style="cyan"))
        whole.add_row(figures)
        return whole

    with Live(console=terminal(), auto_refresh=False, transient=True) as live:

        def show(step: Step) -> None:
            nonlocal due
            if step.iteration == 0:
                curve.clear()
            curve.append(step.objective)
            if time.monotonic() >= due:
                due = time.monotonic() + FRAME_EVERY
                live.update(frame(step), refresh=True)

        yield show


def sparkline(values: list[float], width: int) -> str:
    """The course of the objective in one line of text, on a logarithmic scale.

    >>> sparkline([1000, 100, 10, 1], 4)
    '█▆▃▁'
    """
    picked = [values[i * len(values) // width] for i in range(width)] if len(values) > width else values
    logs = [math.log(max(value, 1e-300)) for value in picked]
    low, high = min(logs), max(logs)
    span = (high - low) or 1.0
    return "".join(BARS[round((value - low) / span * (len(BARS) - 1))] for value in logs)
