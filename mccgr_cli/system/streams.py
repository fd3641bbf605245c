"""What is behind the standard streams: a terminal, a pipe, a file."""

from __future__ import annotations

import os
import stat
from typing import Any


def carries_data(stream: Any) -> bool:
    """Whether a standard stream is a pipe or a file. False for a terminal, for /dev/null, and if it is closed."""
    status = status_of(stream)
    return status is not None and any(kind(status.st_mode) for kind in (stat.S_ISFIFO, stat.S_ISREG, stat.S_ISSOCK))


def is_same_file(one: Any, other: Any) -> bool:
    """Whether two standard streams go to the same file on disk, as in the log of a batch job."""
    first, second = status_of(one), status_of(other)
    if first is None or second is None:
        return False
    return stat.S_ISREG(first.st_mode) and os.path.samestat(first, second)


def status_of(stream: Any) -> os.stat_result | None:
    try:
        return None if stream is None else os.fstat(stream.fileno())
    except (OSError, ValueError):  # closed, or no stream of the operating system
        return None
