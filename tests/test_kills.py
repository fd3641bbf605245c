"""What killed runs leave; many more kills by ``python -m tests.kills``."""

from __future__ import annotations

import os

import pytest
from kills import campaign

pytestmark = [pytest.mark.slow, pytest.mark.skipif(os.name != "posix", reason="needs SIGKILL")]


def test_killed_runs_leave_whole_files_and_go_on_to_the_same_result():
    counts = campaign(kills=5, seed=1)
    assert sum(count for what, count in counts.items() if what.endswith(": killed")) == 5
