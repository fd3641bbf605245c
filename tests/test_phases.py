"""What long phases show: a line on a terminal that goes on, a plain line elsewhere, nothing with --quiet."""

from __future__ import annotations

import io
import math
import threading
from types import SimpleNamespace

import numpy as np
import pytest
from conftest import planted
from rich.console import Console

from mccgr_cli import MCCGR
from mccgr_cli.cli import displays, progress
from mccgr_cli.cli.displays import PhaseDisplay
from mccgr_cli.core.kmeans import kmeans
from mccgr_cli.core.neighbours import nearest
from mccgr_cli.system import phases
from mccgr_cli.system.phases import Phase, Phases, advance, expect, listening, phase


class Recorded(Phases):
    """The name, unit, total and count of each phase at its end."""

    def __init__(self):
        super().__init__()
        self.ended = []

    def end(self, phase):
        super().end(phase)
        self.ended.append((phase.name, phase.unit, phase.total, phase.done))


def test_the_blocks_of_a_search_and_the_runs_of_k_means_are_counted():
    X = planted(n=150)[0]
    with listening(recorded := Recorded()):
        nearest(X, 5, "euclidean")
        nearest(np.tile(X, 6), 5, "euclidean")  # with so many features, each product serves both samples
        kmeans(X, 3, 4, seed=0)
    search, mutual, runs = recorded.ended
    assert search == ("finding neighbours", "samples", 150, 150)
    assert mutual == ("finding neighbours", "samples", 300, 300)
    assert runs == ("k-means", "runs", 4, 4)


def test_what_is_counted_belongs_to_the_innermost_phase_with_this_unit():
    with listening(recorded := Recorded()):
        with phase("outer", "graphs"), phase("inner", "rows", 10):
            advance(1, "graphs")
            advance(4, "rows")
            advance(4, "pages")
            expect(8, "rows")
            expect(2, "rows")
        assert phases.name_of_phase() == ""
    assert recorded.ended == [("inner", "rows", 12, 4), ("outer", "graphs", 0, 1)]


def test_nobody_listens_in_python_programs_and_in_other_threads():
    with listening(recorded := Recorded()):
        thread = threading.Thread(target=lambda: MCCGR(n_components=2, max_iter=2).fit(planted()[0]))
        thread.start()
        thread.join()
    assert recorded.ended == []
    with phase("unheard", "rows"):
        advance(1, "rows")
        assert phases.name_of_phase() == ""


def test_an_error_ends_its_phase():
    with listening(recorded := Recorded()):
        with pytest.raises(ZeroDivisionError), phase("outer"), phase("inner"):
            raise ZeroDivisionError
        assert recorded.active == []


def lines_of(stderr):
    """The names of the phases that left a line."""
    return [line.split("  ")[0] for line in stderr.splitlines() if line.endswith(" s") and "  " in line]


@pytest.fixture
def every_phase_is_long(monkeypatch):
    monkeypatch.setattr(progress, "LONG", 0.0)


@pytest.mark.usefixtures("every_phase_is_long")
def test_every_phase_of_a_factorization_leaves_a_line_if_it_is_long(mccgr, X_file, tmp_path):
    done = mccgr("factorize", X_file, "--k", 3, "-o", tmp_path / "F.h5")
    assert lines_of(done.stderr) == [
        f"reading {X_file}",
        *("reading the matrix", "choosing options", "weighing features", "finding principal axes"),
        *("finding neighbours", "weighing edges", "checking the graph", "measuring features", "dividing the graph"),
        *("preparing the iterations", "learning landmarks", "scoring outliers", "writing the result"),
    ]


@pytest.mark.usefixtures("every_phase_is_long")
@pytest.mark.parametrize(
    ("command", "expected"),
    [
        (("graph", "X.h5", "--k", 3), "finding neighbours"),
        (("graph", "X.h5", "--k", 3, "--memory", "10MB"), "finding principal axes"),
        (("cluster", "X.h5", "--k", 3), "k-means"),
        (("cluster", "F.h5"), "measuring certainty"),
        (("transform", "F.h5", "X.h5"), "computing coefficients"),
        (("predict", "C.h5", "X.h5", "-o", "new.csv"), "finding the nearest samples"),
        (("report", "C.h5"), "drawing the report"),
        (("rank", "X.h5", "--k", "2-3", "--runs", 2, "--jobs", 0), "comparing the runs"),
    ],
)
def test_other_commands_show_their_phases_too(mccgr, X_file, tmp_path, monkeypatch, command, expected):
    monkeypatch.chdir(tmp_path)
    for before in (("factorize", "X.h5", "--k", 3, "--iterations", 5, "-o", "F.h5"), ("cluster", "F.h5", "-o", "C.h5")):
        assert mccgr(*before, "--quiet").stderr == ""
    done = mccgr(*command)
    assert done.status == 0, done.stderr
    assert expected in lines_of(done.stderr)


def test_short_phases_leave_no_line(mccgr, X_file, tmp_path):
    assert lines_of(mccgr("cluster", X_file, "--k", 3, "-o", tmp_path / "C.h5").stderr) == []


def test_a_long_phase_prints_a_line_now_and_then(capsys, monkeypatch):
    lines = progress.PhaseLines()
    with listening(lines), phase("finding neighbours", "samples", 100):
        lines.active[0].began -= 10
        advance(20, "samples")
        assert capsys.readouterr().err == ""  # too soon
        lines.due = 0.0
        advance(5, "samples")
        assert capsys.readouterr().err == "finding neighbours  25/100 samples  left 00:00:30\n"
        advance(75, "samples")
    assert capsys.readouterr().err == "finding neighbours  100 samples  10.0 s\n"


def drawn(display):
    console = Console(file=io.StringIO(), width=100)
    console.print(display.frame())
    return console.file.getvalue().strip()


def test_a_terminal_shows_the_phase_a_bar_and_the_time(monkeypatch):
    monkeypatch.setattr(displays, "terminal", lambda: Console(file=io.StringIO()))
    display = PhaseDisplay()
    with listening(display), phase("scoring outliers"):
        assert drawn(display) == ""  # too soon: it would flicker
        display.active[0].began -= 12
        assert drawn(display).split(maxsplit=1)[1] == "scoring outliers  00:00:12"
        with phase("finding neighbours", "samples", 100):
            display.active[1].began -= 10
            advance(25, "samples")
            name, _, rest = drawn(display).split(maxsplit=1)[1].partition(" ━")
            assert name == "scoring outliers: finding neighbours"
            assert rest.strip("━╺╸ ") == "25/100 samples 00:00:12 left 00:00:30"
    assert display.live is None


def test_the_time_left_counts_from_when_the_work_was_known(monkeypatch):
    now = [1000.0]
    monkeypatch.setattr(phases, "time", SimpleNamespace(monotonic=lambda: now[0]))
    lines = progress.PhaseLines()
    with listening(lines), phase("finding neighbours", "samples"):
        expect(10, "samples")
        advance(10, "samples")
        with phase("building an index"):
            assert progress.described(lines.active) == ("finding neighbours: building an index", "", "")
        now[0] += 1000
        expect(90, "samples")
        now[0] += 6
        lines.due = math.inf
        advance(20, "samples")
        assert progress.described(lines.active) == ("finding neighbours", "30/100 samples", "left 00:00:21")


def test_a_result_is_printed_below_nothing(monkeypatch):
    monkeypatch.setattr(displays, "terminal", lambda: Console(file=io.StringIO()))
    display = PhaseDisplay()
    with listening(display), phase("writing the result"):
        assert display.live is not None
        display.hide()
        assert display.live is None


def test_bytes_are_shown_with_their_unit():
    assert progress.amount(Phase("reading X.h5", "bytes", 3_000_000, 1_000_000)) == "1 MB/3 MB"
