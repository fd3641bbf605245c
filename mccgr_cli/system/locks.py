"""Files that only one process has at a time."""

from __future__ import annotations

import sys
from typing import IO, Any

if sys.platform != "win32":
    import fcntl


def lock(file: IO[Any]) -> bool | None:
    """Take an open file for this process until it is closed, however that ends: False if another one has it.

    None if that cannot be told, as on a file system without locks.
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
