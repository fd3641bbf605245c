"""Displays on a terminal, drawn by rich: stages, counts, comparisons, iterations."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from mccgr_cli.cli.progress import Columns, LongPhases, Staging, clock, counted, described, rate
from mccgr_cli.system.phases import Phase

if TYPE_CHECKING:
    from rich.console import Console
    from rich.live import Live
    from rich.table import Table
    from rich.text import Text

    from mccgr_cli.core.solver import Step
    from mccgr_cli.workflow.experiment import Plan

FRAME_EVERY = 0.1  # seconds between two frames
SHOWN_AFTER = 0.3  # seconds after which a phase is shown, so that short ones do not flicker
PHASE_WIDTH = 16
CURVE_WIDTH = 48
BARS = "▁▂▃▄▅▆▇█"


@functools.cache
def terminal() -> Console:
    """The terminal. Nested displays must share one console."""
    from rich.console import Console

    return Console(stderr=True)


class PhaseDisplay(LongPhases):
    """Shows the phase under way in one line, with a bar if it is known how much there is to do.

    The line is drawn by a thread, so the time in it goes on while a library computes.
    """

    live: Live | None = None

    def begin(self, phase: Phase) -> None:
        from rich.live import Live
        from rich.spinner import Spinner

        super().begin(phase)
        if self.live is None:
            self.spinner = Spinner("dots")
            about: dict[str, Any] = {"console": terminal(), "redirect_stdout": False, "transient": True}
            self.live = Live(get_renderable=self.frame, refresh_per_second=1 / FRAME_EVERY, **about)
            self.live.start()

    def end(self, phase: Phase) -> None:
        if len(self.active) == 1:
            self.hide()
        super().end(phase)

    def hide(self) -> None:
        if self.live is not None:
            self.live.stop()
            self.live = None

    def frame(self) -> Any:
        from rich.console import Group
        from rich.progress_bar import ProgressBar
        from rich.table import Table
        from rich.text import Text

        shown = [one for one in tuple(self.active) if one.age > SHOWN_AFTER]
        if not shown:
            return Group()
        name, done, left = described(shown)
        cells: list[Any] = [self.spinner, Text(name, style="bold", no_wrap=True, overflow="ellipsis")]
        counting = counted(shown)
        if counting.total and counting.done:
            cells.append(ProgressBar(counting.total, counting.done, width=PHASE_WIDTH))
        line = Table.grid(padding=(0, 1))
        line.add_row(*cells, *(Text(one, no_wrap=True) for one in (done, clock(shown[0].age), left)))
        return line


@contextmanager
def show_stages(stages: Sequence[str]) -> Iterator[Staging]:
    from rich.live import Live
    from rich.spinner import Spinner
    from rich.table import Table
    from rich.text import Text

    spinner = Spinner("dots")

    def row(staging: Staging, stage: str) -> tuple[Any, Text, Text]:
        if stage in staging.took:
            return Text("✓", style="green"), Text(stage), Text(f"{staging.took[stage]:.1f} s", style="dim")
        if stage in staging.skipped:
            return Text("✓", style="dim"), Text(stage, style="dim"), Text("unchanged", style="dim")
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
def show_count(unit: str) -> Iterator[Callable[[str, int, int], None]]:
    from rich import progress

    columns = (
        progress.SpinnerColumn(),
        progress.TextColumn("{task.description}"),
        progress.BarColumn(),
        progress.MofNCompleteColumn(),
        progress.TextColumn("{task.fields[speed]}"),
        progress.TimeRemainingColumn(),
    )
    with progress.Progress(*columns, console=terminal(), transient=True) as display:
        tasks: dict[str, progress.TaskID] = {}

        def show(task_name: str, done: int, total: int) -> None:
            if task_name not in tasks:
                for task in tasks.values():
                    display.update(task, visible=False)
                tasks[task_name] = display.add_task(task_name, total=total or None, speed="")
            speed = display.tasks[tasks[task_name]].speed
            display.update(tasks[task_name], completed=done, speed=f"{rate(speed)} {unit}/s" if speed else "")

        yield show


@contextmanager
def show_comparison(
    plan: Plan, trials: int, before: Collection[list[dict[str, Any]]]
) -> Iterator[Callable[[list[dict[str, Any]]], None]]:
    from rich import progress
    from rich.console import Group
    from rich.live import Live
    from rich.table import Table

    columns = (progress.BarColumn(), progress.MofNCompleteColumn(), progress.TimeRemainingColumn())
    bar = progress.Progress(progress.SpinnerColumn(), *columns)
    task = bar.add_task("", total=trials, completed=len(before))
    sums: dict[tuple[int, str], list[float]] = {}

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
    with Live(get_renderable=frame, console=terminal(), refresh_per_second=1 / FRAME_EVERY, transient=True):

        def show(rows: list[dict[str, Any]]) -> None:
            count(rows)
            bar.advance(task)

        yield show


@contextmanager
def show_iterations(iterations: int, restarts: int) -> Iterator[Callable[[Step], None]]:
    from rich.console import Group
    from rich.live import Live
    from rich.progress_bar import ProgressBar
    from rich.spinner import Spinner
    from rich.table import Table
    from rich.text import Text

    columns, spinner = Columns(iterations, restarts), Spinner("dots")
    steps: list[Step] = []  # of one start

    def frame() -> Any:
        done = tuple(steps)  # the list changes meanwhile
        if not done:
            return Group()
        step, curve = done[-1], [one.objective for one in done]
        shown = columns.of(step)
        figures = Table.grid(padding=(0, 2))
        figures.add_row(*(Text(name, style="dim") for name in shown))
        figures.add_row(*(Text(value, style="bold") for value in shown.values()))
        whole = Table.grid()
        bar = Table.grid(padding=(0, 1))
        bar.add_row(ProgressBar(total=iterations, completed=step.iteration, width=CURVE_WIDTH - 2), spinner)
        whole.add_row(bar)
        # without the first tenth: its steep fall would flatten the rest
        whole.add_row(Text(sparkline(curve[len(curve) // 10 :], CURVE_WIDTH), style="cyan"))
        whole.add_row(figures)
        return whole

    about: dict[str, Any] = {"console": terminal(), "redirect_stdout": False, "transient": True}
    with Live(get_renderable=frame, refresh_per_second=1 / FRAME_EVERY, **about):

        def show(step: Step) -> None:
            if step.iteration == 0:
                steps.clear()
            steps.append(step)

        yield show


def sparkline(values: list[float], width: int) -> str:
    """Values as one line of text, on a logarithmic scale.

    >>> sparkline([1000, 100, 10, 1], 4)
    '█▆▃▁'
    """
    picked = [values[i * len(values) // width] for i in range(width)] if len(values) > width else values
    logs = [math.log(max(value, 1e-300)) for value in picked]
    low, high = min(logs), max(logs)
    span = (high - low) or 1.0
    return "".join(BARS[round((value - low) / span * (len(BARS) - 1))] for value in logs)
