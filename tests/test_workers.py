"""Work shared among processes: in order, whatever dies, and leaving nobody behind."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from mccgr_cli.errors import MccgrError, ParameterError
from mccgr_cli.system.processes import LocalPool
from mccgr_cli.system.signals import postponed_interrupts


def double(number, plus):
    return 2 * number + plus


def sleepy(number):
    time.sleep(0.02 * (number % 3))
    return number


def own_process(_):
    return os.getpid()


def fragile(number):
    if number % 5 == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    return number


def unlucky(number, folder):
    """Dies at the first try."""
    seen = Path(folder) / str(number)
    if not seen.exists():
        seen.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return number


def faulty(number):
    return 1 // number


def first_last(number, folder):
    """The first waits until the others are done."""
    while number == 0 and len(list(Path(folder).iterdir())) < 5:
        time.sleep(0.01)
    (Path(folder) / str(number)).touch()
    return number


def mistaken(number):
    raise ParameterError("--k", f"{number} is too much", "give less")


@pytest.mark.parametrize("jobs", [0, 1, 3])
def test_results_come_in_order(jobs):
    with LocalPool(jobs) as workers:
        assert list(workers.map(sleepy, range(40), (), None)) == list(range(40))
        assert list(workers.map(double, iter(range(5)), (1,), None)) == [1, 3, 5, 7, 9]
        assert list(workers.map(double, [], (1,), None)) == []


def test_results_can_come_as_they_are_done(tmp_path):
    with LocalPool(2) as workers:
        found = list(workers.as_completed(first_last, range(6), (tmp_path,), None))
    assert found[-1] == (0, 0)
    assert sorted(found) == [(i, i) for i in range(6)]


@pytest.mark.parametrize("jobs", [0, 2])
def test_a_fault_that_the_user_can_mend_is_told_as_such(jobs):
    with LocalPool(jobs) as workers, pytest.raises(ParameterError, match=r"^--k: 1 is too much; give less$"):
        list(workers.map(mistaken, [1], (), None))


def test_the_work_is_shared():
    with LocalPool(2) as workers:
        assert os.getpid() not in set(workers.map(own_process, range(20), (), None))
    with LocalPool(0) as workers:
        assert set(workers.map(own_process, range(20), (), None)) == {os.getpid()}


def test_an_item_that_kills_its_process_is_lost_and_the_rest_goes_on():
    with LocalPool(2) as workers:
        results = list(workers.map(fragile, range(20), (), "lost"))
    assert results == ["lost" if i % 5 == 3 else i for i in range(20)]


def test_an_item_is_tried_again_before_it_is_lost(tmp_path):
    with LocalPool(2) as workers:
        assert list(workers.map(unlucky, range(5), (tmp_path,), "lost")) == list(range(5))


def test_workers_that_died_while_they_were_idle_are_replaced():
    with LocalPool(2) as workers:
        for pid in set(workers.map(own_process, range(20), (), None)):
            os.kill(pid, signal.SIGKILL)
        assert list(workers.map(double, range(5), (0,), "lost")) == [0, 2, 4, 6, 8]


def test_workers_that_cannot_start_are_an_error(monkeypatch):
    monkeypatch.setattr("mccgr_cli.system.processes.worker_loop", os.close)  # fails, because a pipe is no descriptor
    with (
        LocalPool(1) as workers,
        pytest.raises(MccgrError, match=r"cannot be started: they end .* --jobs"),
    ):
        list(workers.map(double, range(5), (0,), "lost"))


def test_work_that_was_given_up_does_not_disturb_the_next():
    with LocalPool(2) as workers:
        begun = workers.map(sleepy, range(40), (), None)
        assert next(begun) == 0
        begun.close()
        assert list(workers.map(double, range(5), (0,), None)) == [0, 2, 4, 6, 8]


def test_a_bug_in_a_worker_keeps_its_traceback():
    with LocalPool(2) as workers, pytest.raises(RuntimeError, match=r"(?s)in faulty.*ZeroDivisionError"):
        list(workers.map(faulty, [0], (), None))


@pytest.mark.parametrize("function", [own_process, faulty])
def test_no_process_is_left_when_the_owner_is_done_or_fails(function):
    with contextlib.suppress(RuntimeError), LocalPool(2) as workers:
        pids = set(workers.map(own_process, range(20), (), None))
        list(workers.map(function, range(20), (), None))
    assert pids
    assert not any(alive(pid) for pid in pids)


def blocked_signals(_):
    return sorted(signal.pthread_sigmask(signal.SIG_BLOCK, []))


def test_interrupts_are_left_to_the_owner():
    """Of the very first worker of a process too."""
    code = (
        "from test_workers import blocked_signals\nfrom mccgr_cli.system.processes import LocalPool\n"
        "if __name__ == '__main__':\n"
        "    with LocalPool(2) as workers:\n"
        "        print(*workers.map(blocked_signals, range(8), (), None))\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parent)}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=True)
    assert done.stdout.count("SIGINT") == 8, done.stdout


def test_a_postponed_interrupt_comes_when_all_is_done():
    done = []

    def work():
        with postponed_interrupts():
            signal.raise_signal(signal.SIGINT)
            done.append("the rest")

    with pytest.raises(KeyboardInterrupt):
        work()
    assert done == ["the rest"]


@pytest.mark.skipif(not Path("/proc").exists(), reason="needs /proc")
def test_no_process_is_left_when_the_owner_is_killed():
    code = (
        "from test_workers import own_process\nfrom mccgr_cli.system.processes import LocalPool\nimport time\n"
        "if __name__ == '__main__':\n"
        "    with LocalPool(2) as workers:\n"
        "        print(*set(workers.map(own_process, range(20), (), None)), flush=True)\n"
        "        time.sleep(60)\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parent)}
    owner = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, env=environment)
    try:
        pids = [int(pid) for pid in owner.stdout.readline().split()]
    finally:
        owner.kill()
        owner.wait()
    owner.stdout.close()
    assert pids
    deadline = time.monotonic() + 10
    while any(alive(pid) for pid in pids) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not any(alive(pid) for pid in pids)


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
