"""A Dask cluster of processes of this machine, which live no longer than we do."""

from __future__ import annotations

import contextlib
import logging
import os
import signal
from collections.abc import Iterator
from typing import TYPE_CHECKING

from mccgr_cli.system.processes import cannot_start, interrupts_kept_from_children, usable_cores
from mccgr_cli.system.signals import INTERRUPTS, postponed_interrupts

if TYPE_CHECKING:
    from distributed import LocalCluster

CLOSE_SECONDS = 5.0


@contextlib.contextmanager
def interrupts_for_main_thread() -> Iterator[None]:
    """Threads that are begun here, and processes that these begin at any time, leave interrupts to the main thread."""
    with postponed_interrupts(), interrupts_kept_from_children(INTERRUPTS):
        yield


@contextlib.contextmanager
def started_here(number: int) -> Iterator[LocalCluster]:
    """Worker processes end with ours however that ends: dask has each of them watch a pipe from its owner."""
    from distributed import LocalCluster

    try:
        with quiet_tracker(), interrupts_for_main_thread():  # so short because no worker is started yet
            cluster = LocalCluster(
                n_workers=0,
                threads_per_worker=max(1, usable_cores() // number),
                processes=True,
                dashboard_address=None,
                scheduler_kwargs={"dashboard_address": "127.0.0.1:0"},  # for what it serves all the same
                silence_logs=logging.CRITICAL,
                memory_limit=0,  # as for processes that are no dask workers: none is paused or killed for its size
                preload=["mccgr_cli.distributed.preload"],
            )
    except OSError as fault:
        raise cannot_start((fault.strerror or str(fault)).lower(), "give fewer") from None
    try:
        cluster.scale(number)
        yield cluster
    finally:
        end(cluster)


@contextlib.contextmanager
def quiet_tracker() -> Iterator[None]:
    """The process that tidies up after us, begun here, need not tell that we were killed."""
    before = os.environ.get("PYTHONWARNINGS")
    os.environ["PYTHONWARNINGS"] = "ignore"
    try:
        yield
    finally:
        if before is None:
            del os.environ["PYTHONWARNINGS"]
        else:
            os.environ["PYTHONWARNINGS"] = before


def end(cluster: LocalCluster) -> None:
    """Kill what works, which nobody wants any more, and wait until all has gone."""
    for nanny in list(cluster.workers.values()):
        nanny.auto_restart = False
        with contextlib.suppress(Exception):
            os.kill(nanny.pid, signal.SIGKILL)
    with contextlib.suppress(Exception):
        cluster.close(timeout=CLOSE_SECONDS)
