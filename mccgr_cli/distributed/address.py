"""Parses the address of a cluster. Needs no Dask, so that a wrong address is reported at once."""

from __future__ import annotations

import re

from mccgr_cli.errors import ParameterError

MOST_PROCESSES = 1024


def local_processes(scheduler: str) -> int | None:
    """The number of processes to start on this machine; None if it is the address of another cluster.

    >>> local_processes("local:4"), local_processes("tcp://host:8786")
    (4, None)
    """
    if found := re.fullmatch(r"local:([0-9]{1,9})", scheduler):
        number = int(found[1])
        if 1 <= number <= MOST_PROCESSES:
            return number
        raise ParameterError("--scheduler", f"{scheduler} is not 1 to {MOST_PROCESSES} processes", "give local:N")
    host_and_port(scheduler)
    return None


def host_and_port(scheduler: str) -> tuple[str, int]:
    """The two parts of an address of a scheduler.

    >>> host_and_port("tcp://[::1]:8786")
    ('::1', 8786)
    """
    found = re.fullmatch(r"(?:tcp|tls)://(?:\[([0-9A-Fa-f:.%]+)\]|([^\s:/\[\]@?#]+)):([0-9]{1,5})/?", scheduler)
    if found is None or not 1 <= int(found[3]) <= 65535:
        what = f"{scheduler!r} is not the address of a cluster"
        raise ParameterError("--scheduler", what, "give tcp://HOST:PORT, tls://HOST:PORT or local:N")
    return found[1] or found[2], int(found[3])
