"""Work shared among processes: in order, whatever dies, and leaving nobody behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from mccgr_cli.workers import Workers


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


def faulty(number):
    return 1 // number


@pytest.mark.parametrize("jobs", [1, 2, 3])
def test_results_come_in_order(jobs):
    with Workers(jobs) as workers:
        assert list(workers.map(sleepy, range(40), (), str)) == list(range(40))
        assert list(workers.map(double, iter(range(5)), (1,), str)) == [1, 3, 5, 7, 9]
        assert list(workers.map(double, [], (1,), str)) == []


def test_the_work_is_shared():
    with Workers(2) as workers:
        assert os.getpid() not in set(workers.map(own_process, range(20), (), str))
    with Workers(1) as workers:
        assert set(workers.map(own_process, range(20), (), str)) == {os.getpid()}


def test_an_item_that_kills_its_process_is_named_and_the_rest_goes_on():
    with Workers(2) as workers:
        results = list(workers.map(fragile, range(20), (), lambda item: f"lost {item}"))
    assert results == [f"lost {i}" if i % 5 == 3 else i for i in range(20)]


def test_a_bug_in_a_worker_keeps_its_traceback():
    with Workers(2) as workers, pytest.raises(RuntimeError, match=r"(?s)in faulty.*ZeroDivisionError"):
        list(workers.map(faulty, [0], (), str))


def test_no_process_is_left_when_the_owner_is_done_or_fails():
    with Workers(2) as workers:
        pids = set(workers.map(own_process, range(20), (), str))
    assert not any(alive(pid) for pid in pids)


@pytest.mark.skipif(not Path("/proc").exists(), reason="needs /proc")
def test_no_process_is_left_when_the_owner_is_killed():
    code = (
        "from test_workers import own_process\nfrom mccgr_cli.workers import Workers\nimport time\n"
        "if __name__ == '__main__':\n"
        "    with Workers(2) as workers:\n"
        "        print(*set(workers.map(own_process, range(20), (), str)), flush=True)\n"
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
