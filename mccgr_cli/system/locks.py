"""Locks on files, so that only one process at a time uses them."""

from __future__ import annotations

import sys
from typing import IO, Any

if sys.platform != "win32":
    import fcntl


def try_lock(file: IO[Any]) -> bool | None:
    """Lock an open file for this process until the file is closed or the process ends.

    Returns False if another process holds the lock, and None if the file system has no locks.
    """
    if sys.platform == "win32":
        return None
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return None
    return True
