"""What a run shows while it works: a live display on a terminal, plain lines elsewhere."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys

import pytest

from mccgr_cli.cli import progress
from mccgr_cli.core.solver import Step

COLOUR = re.compile(rb"\x1b\[[0-9;]*m")


def run_on_a_terminal(arguments, **environment):
    """The bytes that a command sends to the terminal it runs on."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "mccgr_cli", *map(str, arguments)],
        stdout=subprocess.DEVNULL,
        stderr=theirs,
        env={**os.environ, "TERM": "xterm-256color", **environment},
    )
    os.close(theirs)
    shown = b""
    while True:
        try:
            chunk = os.read(ours, 4096)
        except OSError:  # how Linux says that the other end is closed
            break
        if not chunk:
            break
        shown += chunk
    os.close(ours)
    assert process.wait() == 0
    return shown


@pytest.mark.slow
def test_a_terminal_shows_the_objective_and_its_curve(X_file, tmp_path):
    run = ("factorize", X_file, "--k", 3, "--tolerance", 0, "--iterations", 5000, "-o", tmp_path / "F.h5")
    shown = run_on_a_terminal(run)
    for word in ("iteration", "objective", "data", "graph", "change", "sigma", "speed", "left", "█"):
        assert word.encode() in shown
    assert COLOUR.search(shown)


@pytest.mark.slow
def test_no_color_is_respected(X_file, tmp_path):
    shown = run_on_a_terminal(("factorize", X_file, "--k", 3, "-o", tmp_path / "F.h5"), NO_COLOR="1")
    assert b"objective" in shown
    assert not re.search(rb"\x1b\[[0-9;]*3[0-9]", shown)


@pytest.mark.slow
def test_quiet_is_quiet_on_a_terminal_too(X_file, tmp_path):
    assert run_on_a_terminal(("factorize", X_file, "--k", 3, "-q", "-o", tmp_path / "F.h5")) == b""


def test_elsewhere_a_line_is_printed_now_and_then(capsys, monkeypatch):
    lines = progress.PlainLines(200, 1)
    step = Step(50, 12.5, 10.0, 2.5, 0.7, 1e-3, 5.0)
    lines(step)
    assert capsys.readouterr().err == ""  # too soon
    monkeypatch.setattr(lines, "due", 0.0)
    lines(step)
    lines(step)
    (line,) = capsys.readouterr().err.splitlines()
    expected = "iteration 50/200  objective 12.5  data 10  graph 2.5  change 1.0e-03  sigma 0.7  speed 10.0/s"
    assert line == f"{expected}  left <00:00:15"


def test_time_left_counts_further_restarts():
    step = Step(50, 12.5, 10.0, 2.5, float("nan"), 1e-3, 5.0, restart=1)
    shown = progress.Columns(100, 3).of(step)
    assert shown["start"] == "2/3"
    assert shown["left"] == "<00:00:15"
    assert "sigma" not in shown
