"""``--time-limit``: a command ends in time, and what is done by then is kept."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from mccgr_cli.cli.group import invocation, out_of_time
from mccgr_cli.system import time_limit
from mccgr_cli.system.time_limit import TimeLimit, TimeUp

if TYPE_CHECKING:
    from mccgr_cli.cli.checkpointing import Checkpointing, Keeper
    from mccgr_cli.cli.job import Job
    from mccgr_cli.core.solver import Factors, OnPause

Result = TypeVar("Result")


@contextmanager
def limited(seconds: float | None) -> Iterator[None]:
    """End the work in the block when the command has taken this time. Without a limit, an outer one holds."""
    if seconds is None:
        yield
        return
    call = invocation()
    call.limit = TimeLimit(seconds, call.began)
    with time_limit.alarmed(call.limit):
        yield


def with_default_file(job: Job, chosen: Checkpointing, source: str) -> Checkpointing:
    """With a time limit there is always a checkpoint, if the run can be continued at all."""
    from mccgr_cli.cli.checkpointing import can_be_read_again
    from mccgr_cli.cli.job import derived_path

    if chosen.path is not None or invocation().limit is None or not can_be_read_again(source):
        return chosen
    beside = derived_path(source, "factors") if job.to_stdout else job.paths[0]
    return replace(chosen, checkpoint=str(beside.with_suffix(".checkpoint.h5")))


@contextmanager
def watching_time() -> Iterator[OnPause | None]:
    """As :meth:`Keeper.watching`, for a run that cannot be continued: it ends when its time is over."""
    limit = invocation().limit
    yield None if limit is None else lambda _: limit.ends_steps()


def finished(work: Callable[[], Result], stopped: bool) -> Result | None:
    """What comes after the iterations; None if they were stopped and there is no time left for it."""
    limit = invocation().limit
    if limit is None or not stopped:
        return work()
    try:
        with limit.armed():
            return work()
    except TimeUp:
        return None


def end_if_stopped(job: Job, keeper: Keeper | None, factors: Factors) -> None:
    """An error if the time limit stopped the run; the result so far is written."""
    limit = invocation().limit
    if factors.stopped and limit is not None:
        left = f"{'standard output' if job.to_stdout else job.paths[0]} has the result so far"
        more = f"; {keeper.how_to_continue(not job.to_stdout)}" if keeper is not None and keeper.remedy else ""
        raise out_of_time(TimeUp(limit), left + more)
