"""The module that Dask imports first in a worker process started by mccgr."""

from __future__ import annotations

from typing import Any

from mccgr_cli.system.processes import silence_libraries


def dask_setup(worker: Any) -> None:
    """Called by Dask. Workers print nothing: their owner reports each error in one line."""
    silence_libraries()
