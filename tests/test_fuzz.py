"""Whatever is damaged or odd: it is done, or refused in one line, in good time, and nothing else is touched."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
INDEX = Path(__file__).parent / "fuzz" / "found" / "index.txt"
FOUND = [line for line in INDEX.read_text().splitlines() if line.strip() and not line.startswith("#")]

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="needs limits and a watch on files as Linux has them"),
]


def fuzz(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tests.fuzz", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


def test_damaged_files_and_odd_command_lines():
    done = fuzz("--cases", "100", "--seed", "7")
    assert done.returncode == 0, done.stdout + done.stderr


def test_what_failed_once_does_not_fail_again():
    """All in one process, which takes longer to begin than the cases do."""
    done = fuzz("--found")
    assert done.stdout, done.stderr
    replayed = json.loads(done.stdout)
    assert set(replayed) >= set(FOUND)
    good = ("done", "refused", "usage", "exhausted")
    assert {line: replayed[line] for line in FOUND if replayed[line][0] not in good} == {}
