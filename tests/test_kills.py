"""What killed runs leave; many more kills by ``python -m tests.kills``."""

from __future__ import annotations

import os

import pytest
from kills import TEXTURES, campaign

pytestmark = [pytest.mark.slow, pytest.mark.skipif(os.name != "posix", reason="needs SIGKILL")]


def test_killed_runs_leave_whole_files_and_go_on_to_the_same_result():
    """Those that are killed once they have begun to compute have tests beside their other claims."""
    names = ("extract", "writing a result", "writing a checkpoint")
    counts = campaign(kills=3, seed=1, names=names, rows=30_000, images=TEXTURES / "brick")
    assert sum(count for what, count in counts.items() if what.endswith(": killed")) == 3
