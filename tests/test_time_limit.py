"""A command with a time limit ends in time, keeps what is done, and can be continued."""

from __future__ import annotations

import re
import shlex
import signal

import click
import numpy as np
import pytest
from conftest import after_calls

from mccgr_cli.cli.types import Duration
from mccgr_cli.core import neighbours, solver
from mccgr_cli.files.readers import load
from mccgr_cli.system import time_limit
from mccgr_cli.system.signals import ALARM, postponed_interrupts
from mccgr_cli.system.time_limit import TimeLimit, TimeUp, alarmed
from mccgr_cli.workflow import experiment, ranking, stages

STEP = 200.0  # seconds of an iteration, on the clock of the tests
LIMIT = ("--time-limit", "1h")  # 17 iterations, one more, and a minute for writing
OPTIONS = ("--k", 3, "--iterations", 30, "--tolerance", 0)
needs_alarms = pytest.mark.skipif(ALARM is None, reason="needs alarms")


class Clock:
    """A clock on which only iterations take time."""

    def __init__(self):
        self.time = 0.0

    def __call__(self):
        return self.time


@pytest.fixture
def clock(monkeypatch):
    made, step = Clock(), solver.SolverRun.step

    def slow(run):
        assert ALARM is None or signal.getitimer(signal.ITIMER_REAL)[0] == 0.0  # nothing cuts an iteration short
        made.time += STEP
        step(run)

    monkeypatch.setattr(solver.SolverRun, "step", slow)
    monkeypatch.setattr(time_limit, "now", made)
    return made


@pytest.fixture
def alarm_in_search(monkeypatch):
    """The time is over while neighbours are sought."""

    def late(*_):
        signal.raise_signal(signal.SIGALRM)

    monkeypatch.setattr(neighbours, "exact_neighbours", late)


def factors(path):
    return load(str(path), kinds=("factors",)).contents


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def is_same(ours, theirs):
    return all(np.array_equal(ours[name], theirs[name]) for name in ("W", "H", "rho"))


@pytest.mark.usefixtures("clock")
def test_the_result_so_far_is_written_and_continued_to_the_same_bytes(mccgr, X_file, tmp_path):
    assert mccgr("factorize", X_file, *OPTIONS, "-o", tmp_path / "whole.h5").status == 0
    ended = mccgr("factorize", X_file, *OPTIONS, *LIMIT, "-q")
    assert ended.status == 124
    assert ended.stdout.strip() == str(tmp_path / "X.factors.h5")
    message, command = re.fullmatch(r"(.*) with: mccgr (.*)\n", ended.stderr).groups()
    result = tmp_path / "X.factors.h5"
    how = "continue after iteration 17"
    assert message == f"mccgr: ended by --time-limit 3600s; {result} has the result so far; {how}"
    found = factors(result)
    assert len(found["history/objective"]) == 18
    assert found.attributes["ended_by"] == "time limit"
    assert not found.attributes["converged"]
    assert "landmarks/points" in found
    assert names(tmp_path) == ["X.factors.checkpoint.h5", "X.factors.h5", "X.h5", "whole.h5"]
    done = mccgr(*shlex.split(command), "--time-limit", "10h")
    assert done.status == 0, done.stderr
    assert is_same(factors(result), factors(tmp_path / "whole.h5"))
    assert "ended_by" not in factors(result).attributes
    assert names(tmp_path) == ["X.factors.h5", "X.h5", "whole.h5"]


@pytest.mark.usefixtures("clock")
def test_the_user_names_the_checkpoint_and_the_same_command_continues(mccgr, X_file, tmp_path):
    checkpoint = ("--checkpoint", tmp_path / "C.h5", "-o", tmp_path / "F.h5", "--overwrite")
    ended = mccgr("factorize", X_file, *OPTIONS, *LIMIT, *checkpoint)
    assert ended.status == 124
    assert names(tmp_path) == ["C.h5", "F.h5", "X.h5"]
    done = mccgr("factorize", X_file, *OPTIONS, *LIMIT, *checkpoint)
    assert done.status == 0
    assert "continuing after iteration 17" in done.stderr
    assert names(tmp_path) == ["F.h5", "X.h5"]


@pytest.mark.usefixtures("clock")
def test_a_run_that_ends_in_time_is_as_without_a_limit(mccgr, X_file, tmp_path):
    command = ("factorize", X_file, "--k", 3, "--tolerance", 0, "--iterations", 17)
    assert mccgr(*command, "-o", tmp_path / "whole.h5").status == 0
    done = mccgr(*command, *LIMIT, "-o", tmp_path / "F.h5")  # its time is over after its last iteration
    assert done.status == 0, done.stderr
    assert is_same(factors(tmp_path / "F.h5"), factors(tmp_path / "whole.h5"))
    assert names(tmp_path) == ["F.h5", "X.h5", "whole.h5"]


@pytest.mark.usefixtures("clock")
def test_the_best_start_so_far_is_the_result(mccgr, X_file, tmp_path):
    starts = ("--method", "l2", "--init", "random", "--restarts", 4, "--seed", 3)
    command = ("factorize", X_file, *OPTIONS[:2], "--iterations", 7, "--tolerance", 0, *starts)
    ended = mccgr(*command, *LIMIT, "-o", tmp_path / "F.h5")
    assert ended.status == 124
    assert "continue after iteration 3 of start 3" in ended.stderr
    assert len(factors(tmp_path / "F.h5")["history/objective"]) == 8
    assert mccgr(*command, "-o", tmp_path / "whole.h5").status == 0
    assert mccgr("factorize", "--resume", tmp_path / "F.checkpoint.h5", "--overwrite").status == 0
    assert is_same(factors(tmp_path / "F.h5"), factors(tmp_path / "whole.h5"))


@needs_alarms
@pytest.mark.usefixtures("clock")
def test_without_time_for_landmarks_the_result_so_far_has_none(mccgr, X_file, tmp_path, monkeypatch):
    def late(*_):
        signal.raise_signal(signal.SIGALRM)

    with monkeypatch.context() as patch:
        patch.setattr("mccgr_cli.workflow.prediction.learn_density", late)
        assert mccgr("factorize", X_file, *OPTIONS, *LIMIT, "-o", tmp_path / "F.h5").status == 124
    assert "landmarks/points" not in factors(tmp_path / "F.h5")
    assert mccgr("cluster", tmp_path / "F.h5", "-o", tmp_path / "C.h5").status == 0
    assert mccgr("factorize", "--resume", tmp_path / "F.checkpoint.h5", "--overwrite").status == 0
    assert "landmarks/points" in factors(tmp_path / "F.h5")


@pytest.mark.usefixtures("clock")
def test_a_matrix_from_a_pipe_has_a_result_but_no_checkpoint(mccgr, X_file, tmp_path):
    ended = mccgr("factorize", "-", *OPTIONS, *LIMIT, "-o", tmp_path / "F.h5", stdin=X_file.read_bytes())
    assert ended.status == 124
    assert ended.stderr.splitlines()[-1].endswith("F.h5 has the result so far")
    assert names(tmp_path) == ["F.h5", "X.h5"]


def test_a_limit_that_is_over_at_once_writes_nothing(refused, X_file, tmp_path, monkeypatch):
    times = iter([0.0])
    monkeypatch.setattr(time_limit, "now", lambda: next(times, 9.0))
    message = refused("factorize", X_file, *OPTIONS, "--time-limit", "5s", status=124)
    assert message == "mccgr: ended by --time-limit 5s; nothing was written; give more time"
    assert names(tmp_path) == ["X.h5"]


@needs_alarms
@pytest.mark.usefixtures("alarm_in_search")
def test_before_the_first_iteration_nothing_is_written_and_the_phase_is_named(refused, X_file, tmp_path):
    message = refused("factorize", X_file, *OPTIONS, *LIMIT, "-q", status=124)
    assert message == "mccgr: ended by --time-limit 3600s while choosing options; nothing was written; give more time"
    assert names(tmp_path) == ["X.h5"]


def ring() -> None:
    """The time is over."""
    signal.raise_signal(signal.SIGALRM)


@needs_alarms
def test_an_experiment_keeps_its_finished_runs_and_the_same_command_continues(mccgr, X_file, tmp_path):
    command = ("experiment", X_file, "--methods", "l2", "--k", 2, "--runs", 4, "--jobs", 0, "-o", tmp_path / "R.h5")
    with after_calls(2, experiment, "run_trial", ring):
        ended = mccgr(*command, *LIMIT, "-q")
    kept = f"finished runs are saved in {tmp_path / 'R.h5'}.part; the same command continues"
    assert (ended.status, ended.stderr) == (124, f"mccgr: ended by --time-limit 3600s; {kept}\n")
    done = mccgr(*command, *LIMIT)
    assert done.status == 0
    assert "continuing after 2 of 4 trials" in done.stderr
    assert names(tmp_path) == ["R.h5", "X.h5"]


@needs_alarms
def test_a_ranking_keeps_its_finished_tasks_and_the_same_command_continues(mccgr, X_file, tmp_path):
    command = ("rank", X_file, "--k", "2-3", "--runs", 2, "--jobs", 0, "-o", tmp_path / "R.h5")
    with after_calls(2, ranking, "run_task", ring):
        ended = mccgr(*command[:-2], *LIMIT, "-q")
    assert ended.stderr.endswith("nothing was written; -o FILE saves finished tasks\n")
    with after_calls(2, ranking, "run_task", ring):
        ended = mccgr(*command, *LIMIT, "-q")
    kept = f"finished tasks are saved in {tmp_path / 'R.h5'}.part; the same command continues"
    assert (ended.status, ended.stderr) == (124, f"mccgr: ended by --time-limit 3600s; {kept}\n")
    done = mccgr(*command, *LIMIT)
    assert done.status == 0
    assert "continuing after 2 of" in done.stderr
    assert names(tmp_path) == ["R.h5", "X.h5"]


@pytest.mark.usefixtures("clock")
def test_a_folder_is_continued_where_the_time_was_over(mccgr, X_file, tmp_path):
    command = ("run", X_file, *OPTIONS, *LIMIT, "-o", tmp_path / "out")
    ended = mccgr(*command)
    how = f"finished stages are kept in {tmp_path / 'out'}; the same command continues"
    assert (ended.status, ended.stderr.splitlines()[-1]) == (124, f"mccgr: ended by --time-limit 3600s; {how}")
    assert names(tmp_path / "out") == ["factors.part.h5"]
    done = mccgr(*command)
    assert done.status == 0, done.stderr
    assert "continuing after iteration 17" in done.stderr
    assert names(tmp_path / "out") == ["clusters.csv", "clusters.h5", "factors.h5", "report.html", "run.json"]
    assert mccgr("factorize", X_file, *OPTIONS, "-o", tmp_path / "whole.h5").status == 0
    assert is_same(factors(tmp_path / "out" / "factors.h5"), factors(tmp_path / "whole.h5"))


@needs_alarms
def test_stages_after_the_iterations_of_a_run_end_in_time_too(mccgr, X_file, tmp_path, monkeypatch):
    real = stages.cluster

    def late(*given):
        assert signal.getitimer(signal.ITIMER_REAL)[0] > 0
        signal.raise_signal(signal.SIGALRM)
        return real(*given)

    monkeypatch.setattr(stages, "cluster", late)
    ended = mccgr("run", X_file, "--k", 3, *LIMIT, "-o", tmp_path / "out")
    assert ended.status == 124
    assert ended.stderr.splitlines()[-1].endswith("the same command continues")
    assert names(tmp_path / "out") == ["factors.h5", "run.json"]


@needs_alarms
def test_an_alarm_ends_what_has_no_steps_but_not_what_must_be_finished():
    handler, done = signal.getsignal(signal.SIGALRM), []

    def endless():
        with alarmed(TimeLimit(0.01, time_limit.now())):
            with postponed_interrupts():
                while signal.getitimer(signal.ITIMER_REAL)[0] != 0.0:
                    pass
                done.append("a short work")
            while True:
                pass

    with pytest.raises(TimeUp):
        endless()
    assert done == ["a short work"]
    assert signal.getsignal(signal.SIGALRM) is handler
    assert signal.getitimer(signal.ITIMER_REAL)[0] == 0.0


@pytest.mark.parametrize(
    ("typed", "seconds"),
    [
        *(("90", 90), ("5s", 5), ("30m", 1800), ("2h", 7200), ("1.5H", 5400), ("1d", 86400)),
        *(("1:30:00", 5400), ("05:00", 300), ("1-12:00:00", 129600)),
    ],
)
def test_times_as_people_and_batch_systems_write_them(typed, seconds):
    assert Duration().convert(typed, None, None) == seconds


@pytest.mark.parametrize("typed", ["0", "-5", "soon", "1:2", "5 weeks", "nan", "1e3", "", "1e9d", "9999d"])
def test_what_is_no_time_is_refused(typed):
    with pytest.raises(click.BadParameter):
        Duration().convert(typed, None, None)
