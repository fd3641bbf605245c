"""What a worker process that was started here does first."""

from __future__ import annotations

from typing import Any

from mccgr_cli.system.processes import silence_libraries


def dask_setup(worker: Any) -> None:
    """Called by dask. Whatever goes wrong is told by the owner, in one line."""
    silence_libraries()
