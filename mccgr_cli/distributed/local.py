"""A Dask cluster of processes of this machine that ends when mccgr ends."""

from __future__ import annotations

import contextlib
import logging
import os
import signal
from collections.abc import Iterator
from typing import TYPE_CHECKING

from mccgr_cli.system.processes import cannot_start, signals_blocked_in_children, usable_cores
from mccgr_cli.system.signals import INTERRUPTS, postponed_interrupts

if TYPE_CHECKING:
    from distributed import LocalCluster

CLOSE_SECONDS = 5.0


@contextlib.contextmanager
def local_cluster(number: int) -> Iterator[LocalCluster]:
    """Start ``number`` worker processes. They end with this process, however it ends: each watches a pipe from it."""
    from distributed import LocalCluster

    try:
        # Threads started here, and all processes that they start, leave signals to the main thread. Signals wait only
        # a moment, because no worker is started yet.
        with no_python_warnings(), postponed_interrupts(), signals_blocked_in_children(INTERRUPTS):
            cluster = LocalCluster(
                n_workers=0,
                threads_per_worker=max(1, usable_cores() // number),
                processes=True,
                dashboard_address=None,
                scheduler_kwargs={"dashboard_address": "127.0.0.1:0"},  # it serves some pages without a dashboard too
                silence_logs=logging.CRITICAL,
                memory_limit=0,  # Dask must not pause or kill a worker because of its size
                preload=["mccgr_cli.distributed.preload"],
            )
    except OSError as fault:
        raise cannot_start((fault.strerror or str(fault)).lower(), "start fewer") from None
    try:
        cluster.scale(number)
        yield cluster
    finally:
        end(cluster)


@contextlib.contextmanager
def no_python_warnings() -> Iterator[None]:
    """Python's resource tracker, a process started here, must not print a warning when mccgr is killed."""
    before = os.environ.get("PYTHONWARNINGS")
    os.environ["PYTHONWARNINGS"] = "ignore"
    try:
        yield
    finally:
        del os.environ["PYTHONWARNINGS"]
        if before is not None:
            os.environ["PYTHONWARNINGS"] = before


def end(cluster: LocalCluster) -> None:
    """Kill the workers, whose results nobody needs any more, and wait until the cluster is closed."""
    for nanny in list(cluster.workers.values()):
        nanny.auto_restart = False
        with contextlib.suppress(Exception):
            os.kill(nanny.pid, signal.SIGKILL)
    with contextlib.suppress(Exception):
        cluster.close(timeout=CLOSE_SECONDS)
