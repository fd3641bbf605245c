"""Joining a Dask cluster, or starting one here, and leaving it with nothing left behind.

Dask tells what it does and what fails in logs, warnings and tracebacks; here each fault is one error with its remedy.
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
from mccgr_cli.distributed.local import CLOSE_SECONDS, started_here
from mccgr_cli.errors import MccgrError

if TYPE_CHECKING:
    from distributed import Client

OnNote = Callable[[str], None]

PACKAGE = "mccgr-cli"
PROBE_SECONDS = 4.0  # until whoever listens at an address must have let us in
CONNECT_SECONDS = 5.0  # until a scheduler must have answered; also, until one that has gone must be back
SILENCE_SECONDS = 15.0  # without a sign of life, after which a machine counts as gone
WORKER_SECONDS = 60.0  # until the first worker must be there
STEADY_SECONDS = 3.0  # without another one, after which those that were waited for are all there
NEVER_SECONDS = 10**7
CHECK_SECONDS = 0.2  # between two looks at whether a worker has come

# What dask raises when it loses those that it talks to.
LOSSES = (OSError, TimeoutError, asyncio.CancelledError, concurrent.futures.CancelledError)
SENDING_LOSSES = (KeyError, ValueError, *LOSSES)  # and when it loses those that it sends data to


@dataclass
class Cluster:
    """A cluster that we are part of."""

    scheduler: str  # as the user says it
    client: Client
    on_note: OnNote
    _known: set[str] = field(default_factory=set)  # workers that have what they need
    _refused: set[str] = field(default_factory=set)  # workers that came later, and do not
    _files: list[str] = field(default_factory=list)
    _wanted: int = 1  # workers that are waited for

    def __post_init__(self) -> None:
        self._wanted = local_processes(self.scheduler) or 1

    def workers(self) -> list[str]:
        """The addresses of the workers that are there now, each known to have the same mccgr and files."""
        with self.reaching():
            there = list(self.client.nthreads())
        begun = bool(self._known)
        self._known &= set(there)
        if new := [address for address in there if address not in self._known | self._refused]:
            faults = self._check(new)
            for address, fault in faults.items():
                if fault is not None and not begun:
                    raise fault
                if fault is not None:
                    self._refused.add(address)
                    self.on_note(f"{fault}; it is left out")
            self._known |= {address for address, fault in faults.items() if fault is None}
        return [address for address in there if address in self._known]

    def require_files(self, paths: Sequence[str]) -> None:
        """Refuse workers, now and later, that do not see these files as we do."""
        self._files += paths
        self._known.clear()

    def await_workers(self) -> list[str]:
        """The same, after waiting if need be: for the first, and those that come with it; for all that we started."""
        wanted, here = self._wanted, local_processes(self.scheduler) is not None
        if len(found := self.workers()) >= wanted:
            return found
        if not here:
            self.on_note(f"waiting for workers at {self.scheduler}")
        deadline, steady = time.monotonic() + WORKER_SECONDS, time.monotonic()
        while len(found) < wanted or (not here and time.monotonic() < steady + STEADY_SECONDS):
            if len(found) < wanted and time.monotonic() > deadline:
                what = f"{len(found) or 'no'} workers have come within {WORKER_SECONDS:.0f} seconds"
                if not found:
                    remedy = "give fewer" if here else f"start some with 'dask worker {self.scheduler}'"
                    raise MccgrError(self.scheduler, what, remedy)
                self.on_note(f"{self.scheduler}: {what}; going on with them")
                self._wanted = len(found)
                break
            time.sleep(CHECK_SECONDS)
            before, found = len(found), self.workers()
            steady = steady if len(found) <= before else time.monotonic()
        return found

    @contextlib.contextmanager
    def reaching(self) -> Iterator[None]:
        """Whatever dask raises here because the scheduler has gone is told as such."""
        try:
            yield
        except MccgrError:
            raise
        except (Exception, asyncio.CancelledError) as fault:
            if self.connected():
                raise
            raise self.gone() from fault

    def connected(self) -> bool:
        """Whether the scheduler answers; one that has just gone has a moment to come back."""
        deadline = time.monotonic() + 2 * CONNECT_SECONDS
        while self.client.status in ("running", "connecting") and time.monotonic() < deadline:
            if self.client.status == "running":
                with contextlib.suppress(*LOSSES):
                    self.client.nthreads()
                    return True
            time.sleep(CHECK_SECONDS)
        return False

    def gone(self) -> MccgrError:
        return MccgrError(self.scheduler, "the scheduler has gone", "see its log, start it again, and run this again")

    def _check(self, workers: list[str]) -> dict[str, MccgrError | None]:
        """Whether each of them can work for us, or why not; those that have gone again are left out."""
        versions = self._ask(workers, importlib.metadata.version, PACKAGE)
        files = {path: self._ask(workers, os.path.exists, path) for path in self._files}
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

    def _ask(self, workers: list[str], function: Callable[..., Any], argument: str) -> dict[str, Any]:
        """What a function of the standard library, which any worker has, says on each; or the error."""
        with self.reaching():
            answers: dict[str, Any] = self.client.run(function, argument, workers=workers, on_error="return")
        return answers


@contextlib.contextmanager
def joined(scheduler: str, on_note: OnNote = lambda note: None) -> Iterator[Cluster]:
    """Be part of the cluster at an address; ``local:N`` is one of N processes that live as long as this."""
    number = local_processes(scheduler)
    require_dask()
    with contextlib.ExitStack() as stack:
        stack.enter_context(quiet())
        stack.enter_context(settings())
        if number is None:
            probe(scheduler)
            client = stack.enter_context(client_of(scheduler, scheduler))
        else:
            cluster = stack.enter_context(started_here(number))
            client = stack.enter_context(client_of(cluster.scheduler_address, scheduler, cluster.loop))
        joined_cluster = Cluster(scheduler, client, on_note)
        with joined_cluster.reaching():
            yield joined_cluster


def require_dask() -> None:
    try:
        with quiet():
            import distributed  # noqa: F401
    except ImportError:
        raise MccgrError("--scheduler", "dask is not installed", "pip install 'mccgr-cli[dask]'") from None


# How dask is to behave


@contextlib.contextmanager
def settings() -> Iterator[None]:
    """What dask must know while we use it, whatever the user's own configuration says."""
    import dask

    ours = {
        "distributed.comm.timeouts.connect": f"{CONNECT_SECONDS}s",
        "distributed.comm.timeouts.tcp": f"{SILENCE_SECONDS}s",
        "distributed.comm.retry.count": 0,
        # LocalCluster would otherwise give a worker up for good that is just being begun anew when it looks.
        "distributed.deploy.lost-worker-timeout": f"{NEVER_SECONDS}s",
    }
    with dask.config.set(ours):
        yield


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """No warnings of dask's; and no logs from now on, since some come when all is over."""
    with warnings.catch_warnings():
        for module in ("dask", "distributed", "tornado"):
            warnings.filterwarnings("ignore", module=rf"{module}(\.|$)")
        hush_logs()
        yield
        hush_logs()


def hush_logs() -> None:
    talkers = ("asyncio", "bokeh", "dask", "distributed", "tornado")
    for name in {*talkers, *(n for n in logging.root.manager.loggerDict if n.partition(".")[0] in talkers)}:
        logger = logging.getLogger(name)
        logger.handlers = [logging.NullHandler()]
        logger.propagate = False


# Another cluster, or the way to any


def probe(scheduler: str) -> None:
    """Find out in time whether anybody listens, which the system knows at once, and whether it is a scheduler.

    A client of dask's own waits for the answer for ever.
    """
    try:
        socket.create_connection(host_and_port(scheduler), timeout=PROBE_SECONDS).close()
    except (OSError, UnicodeError) as fault:  # the latter for names that cannot be one
        reason = "no answer" if isinstance(fault, TimeoutError) else getattr(fault, "strerror", None) or str(fault)
        raise unreachable(scheduler, reason) from None
    try:
        asyncio.run(asyncio.wait_for(ask(scheduler), CONNECT_SECONDS))
    except Exception as fault:  # whatever bytes that are no answer may cause
        raise no_scheduler(scheduler, fault) from None


async def ask(scheduler: str) -> None:
    from distributed.comm import connect
    from distributed.core import send_recv
    from distributed.security import Security

    comm = await connect(scheduler, timeout=CONNECT_SECONDS, **Security().get_connection_args("client"))
    try:
        await send_recv(comm, op="ncores", workers=None)
    finally:
        comm.abort()


def unreachable(scheduler: str, reason: str) -> MccgrError:
    what = f"cannot be reached: {reason[:1].lower()}{reason[1:]}"
    return MccgrError(scheduler, what, "give the address that 'dask scheduler' shows when it starts")


@contextlib.contextmanager
def client_of(address: str, scheduler: str, loop: Any = None) -> Iterator[Client]:
    from distributed import Client

    try:
        client = Client(address, loop=loop, timeout=CONNECT_SECONDS, set_as_default=False, direct_to_workers=True)
    except Exception as fault:
        raise no_scheduler(scheduler, fault) from None
    try:
        yield client
    finally:
        with contextlib.suppress(Exception):
            client.close(timeout=CLOSE_SECONDS)


def no_scheduler(scheduler: str, fault: Exception) -> MccgrError:
    if scheduler.startswith("tls:") and isinstance(fault, TypeError):
        what = "encrypted, and dask knows no certificates to use"
        return MccgrError(scheduler, what, "name them in its configuration, under distributed.comm.tls")
    if isinstance(fault, ImportError):  # dask's own word for versions that do not fit
        return MccgrError(scheduler, f"runs another version of dask: {fault}", "install the same on both sides")
    what = "what listens there does not answer as a dask scheduler of our version does"
    return MccgrError(scheduler, what, "give the address that 'dask scheduler' shows when it starts")
