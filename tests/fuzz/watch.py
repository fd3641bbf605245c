"""Whether anything opened a file in a folder, as Linux tells it (inotify)."""

from __future__ import annotations

import ctypes
import os
import struct
from pathlib import Path

IN_ACCESS, IN_MODIFY, IN_OPEN, IN_CREATE = 0x1, 0x2, 0x20, 0x100
EVENT = struct.Struct("iIII")


class Watch:
    """Sees what is opened, read, written or made in a folder from now on."""

    def __init__(self, folder: Path) -> None:
        libc = ctypes.CDLL(None, use_errno=True)
        self.handle = libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        wanted = IN_ACCESS | IN_MODIFY | IN_OPEN | IN_CREATE
        if self.handle < 0 or libc.inotify_add_watch(self.handle, os.fsencode(folder), wanted) < 0:
            raise OSError(ctypes.get_errno(), "inotify", str(folder))

    def seen(self) -> set[str]:
        """The names of what was touched since it was last asked."""
        names = set()
        while True:
            try:
                events = os.read(self.handle, 65536)
            except BlockingIOError:
                return names
            start = 0
            while start < len(events):
                *_, length = EVENT.unpack_from(events, start)
                name = events[start + EVENT.size : start + EVENT.size + length].rstrip(b"\0")
                start += EVENT.size + length
                names.add(f"{os.fsdecode(name) or 'the folder'} was opened")
