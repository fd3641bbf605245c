"""Connects to a Dask cluster, or starts one on this machine, and cleans up afterwards.

Dask reports events and faults in logs, warnings and tracebacks. Here each fault becomes one error with its remedy.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import importlib.metadata
import logging
import os
import socket
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from mccgr_cli import __version__
from mccgr_cli.distributed.address import host_and_port, local_processes
from mccgr_cli.distributed.local import CLOSE_SECONDS, local_cluster
from mccgr_cli.errors import MccgrError

if TYPE_CHECKING:
    from distributed import Client

OnNote = Callable[[str], None]

PACKAGE = "mccgr-cli"
ADDRESS_REMEDY = "give the address that 'dask scheduler' shows when it starts"
PROBE_SECONDS = 4.0  # limit for opening a connection
CONNECT_SECONDS = 5.0  # limit for the answer of a scheduler, and for a lost one to come back
SILENCE_SECONDS = 15.0  # a machine that sends nothing for this long counts as lost
WORKER_SECONDS = 60.0  # limit for the first worker to connect
STEADY_SECONDS = 3.0  # if no further worker connects for this long, all have connected
NEVER_SECONDS = 10**7
CHECK_SECONDS = 0.2  # between two checks for new workers

# The errors of Dask when it loses a machine that it talks to, or sends data to.
LOSSES = (OSError, TimeoutError, asyncio.CancelledError, concurrent.futures.CancelledError)
SENDING_LOSSES = (KeyError, ValueError, *LOSSES)


@dataclass
class Cluster:
    """A cluster that we are connected to."""

    scheduler: str  # the address as the user gave it
    client: Client
    on_note: OnNote
    _accepted: set[str] = field(default_factory=set)  # workers with our version and our files
    _refused: set[str] = field(default_factory=set)  # workers without, which connected later
    _files: list[str] = field(default_factory=list)
    _wanted: int = 1  # number of workers to wait for

    def __post_init__(self) -> None:
        self._wanted = local_processes(self.scheduler) or 1

    def workers(self) -> list[str]:
        """The addresses of all connected workers with the same mccgr and the same files as here."""
        with self.scheduler_errors():
            connected = list(self.client.nthreads())
        working = bool(self._accepted)
        self._accepted &= set(connected)
        if new := [address for address in connected if address not in self._accepted | self._refused]:
            faults = self._check(new)
            for address, fault in faults.items():
                if fault is not None and not working:
                    raise fault
                if fault is not None:
                    self._refused.add(address)
                    self.on_note(f"{fault}; it is not used")
            self._accepted |= {address for address, fault in faults.items() if fault is None}
        return [address for address in connected if address in self._accepted]

    def require_files(self, paths: Sequence[str]) -> None:
        """Refuse workers, now and later, that do not have these files under the same paths."""
        self._files += paths
        self._accepted.clear()

    def wait_for_workers(self) -> list[str]:
        """As :meth:`workers`, after waiting for the workers that we started, or for at least one of another cluster."""
        wanted, here = self._wanted, local_processes(self.scheduler) is not None
        if len(found := self.workers()) >= wanted:
            return found
        if not here:
            self.on_note(f"waiting for workers at {self.scheduler}")
        deadline, steady = time.monotonic() + WORKER_SECONDS, time.monotonic()
        while len(found) < wanted or (not here and time.monotonic() < steady + STEADY_SECONDS):
            if len(found) < wanted and time.monotonic() > deadline:
                what = f"{len(found) or 'no'} workers connected within {WORKER_SECONDS:.0f} seconds"
                if not found:
                    remedy = "start fewer" if here else f"start some with 'dask worker {self.scheduler}'"
                    raise MccgrError(self.scheduler, what, remedy)
                self.on_note(f"{self.scheduler}: {what}; continuing with them")
                self._wanted = len(found)
                break
            time.sleep(CHECK_SECONDS)
            before, found = len(found), self.workers()
            steady = steady if len(found) <= before else time.monotonic()
        return found

    @contextlib.contextmanager
    def scheduler_errors(self) -> Iterator[None]:
        """Turn any error of Dask into one about the scheduler, if the scheduler is gone."""
        try:
            yield
        except MccgrError:
            raise
        except (Exception, asyncio.CancelledError) as fault:
            if self.connected():
                raise
            what = "the scheduler has gone"
            raise MccgrError(self.scheduler, what, "see its log, start it again, and run this again") from fault

    def connected(self) -> bool:
        """Whether the scheduler answers; a lost one has a moment to come back."""
        deadline = time.monotonic() + 2 * CONNECT_SECONDS
        while self.client.status in ("running", "connecting") and time.monotonic() < deadline:
            if self.client.status == "running":
                with contextlib.suppress(*LOSSES):
                    self.client.nthreads()
                    return True
            time.sleep(CHECK_SECONDS)
        return False

    def _check(self, workers: list[str]) -> dict[str, MccgrError | None]:
        """For each worker why it cannot be used, or None if it can; workers that are gone again are left out."""
        versions = self._run_on(workers, importlib.metadata.version, PACKAGE)
        files = {path: self._run_on(workers, os.path.exists, path) for path in self._files}
        return {
            address: self._fault(address, version, [path for path in files if files[path].get(address) is False])
            for address, version in versions.items()
            if isinstance(version, str | importlib.metadata.PackageNotFoundError)
        }

    def _fault(self, address: str, version: Any, missing: Sequence[str]) -> MccgrError | None:
        where, remedy = f"worker {address}", f"install {PACKAGE}=={__version__} on all workers"
        if not isinstance(version, str):
            return MccgrError(where, "mccgr is not installed there", remedy)
        if version != __version__:
            return MccgrError(where, f"has mccgr {version}, and this is {__version__}", remedy)
        if missing:
            remedy = "workers need the same files under the same paths as here"
            return MccgrError(where, f"{missing[0]} is not there", remedy)
        return None

    def _run_on(self, workers: list[str], function: Callable[..., Any], argument: str) -> dict[str, Any]:
        """The result of a function of the standard library on each worker, or its error."""
        with self.scheduler_errors():
            answers: dict[str, Any] = self.client.run(function, argument, workers=workers, on_error="return")
        return answers


@contextlib.contextmanager
def connect(scheduler: str, on_note: OnNote = lambda note: None) -> Iterator[Cluster]:
    """Connect to a cluster.

    ``scheduler`` is ``tcp://HOST:PORT``, ``tls://HOST:PORT``, or ``local:N``, which starts N processes here that end
    with the block. ``on_note`` is called with messages for the user.
    """
    number = local_processes(scheduler)
    try:
        with silenced():  # importing them sets up their logs
            import dask
            import distributed  # noqa: F401
    except ImportError:
        raise MccgrError("--scheduler", "dask is not installed", "pip install 'mccgr-cli[dask]'") from None
    with contextlib.ExitStack() as stack:
        stack.enter_context(silenced())
        stack.enter_context(dask.config.set(OUR_SETTINGS))
        if number is None:
            probe(scheduler)
            client = stack.enter_context(connected_client(scheduler, scheduler))
        else:
            cluster = stack.enter_context(local_cluster(number))
            client = stack.enter_context(connected_client(cluster.scheduler_address, scheduler, cluster.loop))
        joined_cluster = Cluster(scheduler, client, on_note)
        with joined_cluster.scheduler_errors():
            yield joined_cluster


# Settings and logs of Dask

OUR_SETTINGS = {  # they replace those of the user
    "distributed.comm.timeouts.connect": f"{CONNECT_SECONDS}s",
    "distributed.comm.timeouts.tcp": f"{SILENCE_SECONDS}s",
    "distributed.comm.retry.count": 0,
    # Else LocalCluster would give up a worker that is just being restarted.
    "distributed.deploy.lost-worker-timeout": f"{NEVER_SECONDS}s",
}


@contextlib.contextmanager
def silenced() -> Iterator[None]:
    """Show no warnings of Dask within the block, and no logs from now on: some come after the end."""
    with warnings.catch_warnings():
        for module in ("dask", "distributed", "tornado"):
            warnings.filterwarnings("ignore", module=rf"{module}(\.|$)")
        silence_logs()
        yield
        silence_logs()


def silence_logs() -> None:
    libraries = ("asyncio", "bokeh", "dask", "distributed", "tornado")
    for name in {*libraries, *(n for n in logging.root.manager.loggerDict if n.partition(".")[0] in libraries)}:
        logger = logging.getLogger(name)
        logger.handlers = [logging.NullHandler()]
        logger.propagate = False


# Connections


def probe(scheduler: str) -> None:
    """Check that something listens at the address, and that it answers as a scheduler does.

    A client of Dask would wait for this answer without end.
    """
    try:
        socket.create_connection(host_and_port(scheduler), timeout=PROBE_SECONDS).close()
    except (OSError, UnicodeError) as fault:  # UnicodeError: impossible host names
        reason = "no answer" if isinstance(fault, TimeoutError) else getattr(fault, "strerror", None) or str(fault)
        what = f"cannot be reached: {reason[:1].lower()}{reason[1:]}"
        raise MccgrError(scheduler, what, ADDRESS_REMEDY) from None
    try:
        asyncio.run(asyncio.wait_for(ask_scheduler(scheduler), CONNECT_SECONDS))
    except Exception as fault:  # bytes that are no answer can cause any error
        raise not_a_scheduler(scheduler, fault) from None


async def ask_scheduler(scheduler: str) -> None:
    from distributed.comm import connect
    from distributed.core import send_recv
    from distributed.security import Security

    comm = await connect(scheduler, timeout=CONNECT_SECONDS, **Security().get_connection_args("client"))
    try:
        await send_recv(comm, op="ncores", workers=None)
    finally:
        comm.abort()


@contextlib.contextmanager
def connected_client(address: str, scheduler: str, loop: Any = None) -> Iterator[Client]:
    from distributed import Client

    try:
        client = Client(address, loop=loop, timeout=CONNECT_SECONDS, set_as_default=False, direct_to_workers=True)
    except Exception as fault:
        raise not_a_scheduler(scheduler, fault) from None
    try:
        yield client
    finally:
        with contextlib.suppress(Exception):
            client.close(timeout=CLOSE_SECONDS)


def not_a_scheduler(scheduler: str, fault: Exception) -> MccgrError:
    if scheduler.startswith("tls:") and isinstance(fault, TypeError):
        what = "encrypted, and dask knows no certificates to use"
        return MccgrError(scheduler, what, "name them in its configuration, under distributed.comm.tls")
    if isinstance(fault, ImportError):  # Dask's error for versions that do not fit
        return MccgrError(scheduler, f"runs another version of dask: {fault}", "install the same on both sides")
    what = "no dask scheduler of our version answers there"
    return MccgrError(scheduler, what, ADDRESS_REMEDY)
