"""Work on a Dask cluster: the same results, whatever dies, every fault one line, and nobody left behind."""

from __future__ import annotations

import contextlib
import http.server
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time

import h5py
import numpy as np
import pytest
from conftest import planted
from grain import make_folder
from test_workers import blocked_signals, double, faulty, first_last, fragile, mistaken, own_process, sleepy, unlucky

from mccgr_cli.distributed import connection
from mccgr_cli.distributed.address import local_processes
from mccgr_cli.errors import MccgrError, ParameterError
from mccgr_cli.files.container import RESULTS, Contents, encode

psutil = pytest.importorskip("psutil")
pytest.importorskip("distributed")

import dask  # noqa: E402

from mccgr_cli.distributed.connection import Cluster, connect  # noqa: E402
from mccgr_cli.distributed.processes import ClusterPool  # noqa: E402

PROMPT = 10  # seconds within which a fault must be told


@pytest.fixture(scope="module")
def cluster():
    with connect("local:2") as cluster:
        cluster.wait_for_workers()
        yield cluster
    assert not offspring(os.getpid())


@pytest.fixture
def workers(cluster):
    cluster.wait_for_workers()
    return ClusterPool(cluster)


def offspring(pid):
    """Living processes that a process has started, but for the one of Python's that tidies up after it."""
    found = psutil.Process(pid).children(recursive=True)
    alive = [child for child in found if child.is_running() and child.status() != psutil.STATUS_ZOMBIE]
    return [child for child in alive if "resource_tracker" not in told(child)]


def told(process):
    try:
        return " ".join(process.cmdline())
    except psutil.Error:
        return ""


def gone(processes, within=5.0):
    return not psutil.wait_procs(processes, timeout=within)[1]


def mccgr_process(*arguments, **options):
    command = [sys.executable, "-m", "mccgr_cli", *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options)


# The work


def test_results_come_in_order(workers):
    assert list(workers.map(sleepy, range(20), (), None)) == list(range(20))
    assert list(workers.map(double, iter(range(5)), (1,), None)) == [1, 3, 5, 7, 9]
    assert list(workers.map(double, [], (1,), None)) == []


def test_results_can_come_as_they_are_done(workers, tmp_path):
    found = list(workers.as_completed(first_last, range(6), (tmp_path,), None))
    assert (0, 0) in found[4:]  # it ends together with the last of the others
    assert sorted(found) == [(i, i) for i in range(6)]


def test_the_work_is_shared_and_interrupts_are_left_to_the_owner(workers):
    assert len(set(workers.map(own_process, range(20), (), None)) - {os.getpid()}) == 2
    for blocked in workers.map(blocked_signals, range(4), (), None):
        assert {signal.SIGINT, signal.SIGTERM, signal.SIGHUP} <= set(blocked)


def test_faults_are_those_of_the_work(workers):
    with pytest.raises(ParameterError, match=r"^--k: 1 is too much; give less$"):
        list(workers.map(mistaken, [1], (), None))
    with pytest.raises(RuntimeError, match=r"(?s)in faulty.*ZeroDivisionError"):
        list(workers.map(faulty, [0], (), None))
    assert list(workers.map(double, [1], (0,), None)) == [2]


def test_only_so_many_items_are_ahead_of_a_slow_one(workers, tmp_path):
    assert list(workers.map(waits_for_a_file, [1, 2], (tmp_path / "go",), None)) == [1, 2]  # which has it imported
    taken = []
    items = (taken.append(number) or number for number in range(1000))
    results = workers.map(waits_for_a_file, items, (tmp_path / "go",), None)
    threading.Timer(1.0, (tmp_path / "go").touch).start()
    assert next(results) == 0
    assert 8 < len(taken) <= 20
    results.close()


def waits_for_a_file(number, path):
    while number == 0 and not path.exists():
        time.sleep(0.01)
    return number


def size_of_message(number, shared):
    return number + len(shared)


def test_what_is_shared_is_sent_once(workers, cluster, monkeypatch):
    sent = []
    scatter = cluster.client.scatter
    monkeypatch.setattr(cluster.client, "scatter", lambda *a, **k: sent.append(a) or scatter(*a, **k))
    assert list(workers.map(size_of_message, range(10), (bytes(1000),), None)) == list(range(1000, 1010))
    assert len(sent) == 1


def test_workers_that_only_the_scheduler_reaches(workers, cluster, monkeypatch):
    def unreachable(*_):
        raise OSError("no route to host")

    monkeypatch.setattr("distributed.client.scatter_to_workers", unreachable)
    monkeypatch.setattr(cluster.client, "direct_to_workers", True)  # and so again afterwards
    assert list(workers.map(double, range(5), (1,), None)) == [1, 3, 5, 7, 9]


@pytest.mark.slow
def test_an_item_that_kills_its_process_is_lost_and_the_rest_goes_on(workers):
    assert list(workers.map(fragile, range(6), (), "lost")) == [0, 1, 2, "lost", 4, 5]


@pytest.mark.slow
def test_an_item_is_tried_again_before_it_is_lost(workers, tmp_path):
    assert list(workers.map(unlucky, range(3), (tmp_path,), "lost")) == list(range(3))


@pytest.mark.slow
def test_nothing_is_lost_when_all_workers_are_killed_with_what_was_sent_to_them(workers):
    pids = set(workers.map(own_process, range(20), (), None))
    found = []
    for number, result in workers.as_completed(dozing, range(12), (bytes(100),), "lost"):
        found.append((number, result))
        while pids:
            os.kill(pids.pop(), signal.SIGKILL)
    assert sorted(found) == [(i, i + 100) for i in range(12)]


def dozing(number, shared):
    time.sleep(0.1)
    return number + len(shared)


# What a worker must have


def fresh(cluster):
    return Cluster(cluster.scheduler, cluster.client, print)


def test_workers_without_our_version_are_refused(cluster, monkeypatch):
    monkeypatch.setattr(connection, "__version__", "9.9")
    with pytest.raises(MccgrError, match=r"^worker tcp://\S+: has mccgr 0\S+, and this is 9.9; install mccgr-cli==9.9"):
        fresh(cluster).workers()
    monkeypatch.setattr(connection, "PACKAGE", "no-such-package")
    with pytest.raises(MccgrError, match=r"^worker tcp://\S+: mccgr is not installed there; install"):
        fresh(cluster).workers()


def test_a_wrong_worker_that_comes_later_is_left_out(cluster, monkeypatch):
    notes = []
    later = Cluster(cluster.scheduler, cluster.client, notes.append)
    first, second = cluster.workers()
    monkeypatch.setattr(type(cluster.client), "nthreads", lambda self: {first: 1})
    assert later.workers() == [first]
    monkeypatch.setattr(type(cluster.client), "nthreads", lambda self: {first: 1, second: 1})
    monkeypatch.setattr(connection, "__version__", "9.9")
    for _ in range(2):
        assert later.workers() == [first]
    (note,) = notes
    assert note.startswith(f"worker {second}: has mccgr 0")
    assert note.endswith("it is not used")


def test_workers_that_do_not_see_the_files_are_refused(cluster, tmp_path):
    (tmp_path / "here").touch()
    other = fresh(cluster)
    other.require_files([str(tmp_path / "here")])
    assert len(other.workers()) == 2
    other.require_files([str(tmp_path / "elsewhere")])
    with pytest.raises(MccgrError, match=r"elsewhere is not there; workers need the same files under the same paths"):
        other.workers()


# Addresses


@pytest.mark.parametrize(
    "address", ["local:0", "local:", "local:x", "local:9999", "8786", "host:8786", "http://host:80", "tcp://host", ""]
)
def test_what_is_no_address_is_bad_usage(refused, X_file, address):
    assert "--scheduler" in refused("experiment", X_file, "--k", 2, "--scheduler", address, status=2)
    with pytest.raises(ParameterError):
        local_processes(address)


def test_processes_and_a_cluster_are_not_for_the_same_work(refused, X_file):
    arguments = ("experiment", X_file, "--k", 2, "--jobs", 2, "--scheduler", "local:2")
    assert "leave one of them out" in refused(*arguments, status=2)


def test_a_missing_dask_is_told_with_the_remedy(refused, X_file, monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    said = refused("experiment", X_file, "--k", 2, "--scheduler", "tcp://127.0.0.1:1")
    assert said == "--scheduler: dask is not installed; pip install 'mccgr-cli[dask]'"


def fails_in_time(refused, X_file, address):
    began = time.monotonic()
    said = refused("experiment", X_file, "--k", 2, "--scheduler", address)
    assert time.monotonic() - began < PROMPT
    return said


def test_an_address_where_nobody_listens(refused, X_file):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"tcp://127.0.0.1:{taken.getsockname()[1]}"
    assert f"{address}: cannot be reached: connection refused; give" in fails_in_time(refused, X_file, address)
    assert "cannot be reached" in fails_in_time(refused, X_file, "tcp://no-such-host.invalid:8786")


class Silent(http.server.BaseHTTPRequestHandler):
    def log_message(self, *_):
        pass


@pytest.mark.slow
def test_an_address_of_something_else(refused, X_file, monkeypatch):
    assert connection.PROBE_SECONDS + connection.CONNECT_SECONDS < PROMPT
    monkeypatch.setattr(connection, "CONNECT_SECONDS", 1.0)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Silent) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        said = fails_in_time(refused, X_file, f"tcp://127.0.0.1:{server.server_port}")
        server.shutdown()
    assert "no dask scheduler of our version answers there" in said


def test_certificates_that_are_missing(refused, X_file):
    with socket.create_server(("127.0.0.1", 0)) as server:
        said = fails_in_time(refused, X_file, f"tls://127.0.0.1:{server.getsockname()[1]}")
    assert "dask knows no certificates" in said


# Another cluster


@contextlib.contextmanager
def started(module, *arguments):
    command = [sys.executable, "-m", f"distributed.cli.{module}", *map(str, arguments)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


@pytest.fixture
def scheduler(tmp_path):
    """A scheduler without workers: its process and its address."""
    told = tmp_path / "scheduler.json"
    options = ("--host", "127.0.0.1", "--port", 0, "--no-dashboard", "--dashboard-address", "127.0.0.1:0")
    with started("dask_scheduler", *options, "--scheduler-file", told) as process:
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline:
            with contextlib.suppress(OSError, ValueError):
                yield process, json.loads(told.read_text())["address"]
                break
            time.sleep(0.05)


def a_worker(address):
    return started("dask_worker", address, "--nthreads", 1, "--no-dashboard", "--no-nanny")


@pytest.mark.slow
def test_a_worker_that_dies_again_and_again_is_begun_anew(monkeypatch):
    """LocalCluster gives up those that are away when it looks, some time after they were lost."""
    monkeypatch.setattr(connection, "WORKER_SECONDS", 30)
    with dask.config.set({"distributed.deploy.lost-worker-timeout": "50ms"}), connect("local:1") as cluster:
        for _ in range(2):
            before = cluster.wait_for_workers()
            cluster.client.run(os.kill, cluster.client.run(os.getpid)[before[0]], signal.SIGKILL, on_error="return")
            deadline = time.monotonic() + PROMPT
            while before[0] in cluster.workers() and time.monotonic() < deadline:
                time.sleep(0.05)
            assert cluster.wait_for_workers() != before


def test_some_workers_are_better_than_none(cluster, monkeypatch):
    monkeypatch.setattr(connection, "WORKER_SECONDS", 0.3)
    notes = []
    two = cluster.wait_for_workers()
    three = Cluster("local:3", cluster.client, notes.append)
    for _ in range(2):  # and are not waited for again
        assert three.wait_for_workers() == two
    assert notes == ["local:3: 2 workers connected within 0 seconds; continuing with them"]


@pytest.mark.slow
def test_workers_are_waited_for(scheduler, monkeypatch):
    monkeypatch.setattr(connection, "WORKER_SECONDS", 0.5)
    notes = []
    _, address = scheduler
    with (
        pytest.raises(MccgrError, match=r"no workers connected within .* start some with 'dask worker tcp://"),
        connect(address, notes.append) as cluster,
    ):
        cluster.wait_for_workers()
    assert notes == [f"waiting for workers at {address}"]


@pytest.fixture
def classes(tmp_path):
    """Samples of six classes, of which three look alike."""
    X, labels = planted(n=120)
    labels = labels + 3 * (np.arange(120) % 2)
    path = tmp_path / "X.h5"
    path.write_bytes(encode(Contents("matrix", {"X": X, "labels": labels, "label_names": list("abcdef")})))
    return path


LONG = ("--methods", "l2", "--k", "2-5", "--runs", 200)


def begun(part, trials=1):
    """Wait until some trials of an experiment are done."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        if part.exists() and part.read_bytes().count(b"\n") > trials:
            return True
        time.sleep(0.05)
    return False


@pytest.mark.slow
def test_a_worker_and_then_the_scheduler_are_killed(scheduler, classes, tmp_path):
    process, address = scheduler
    with a_worker(address) as first, a_worker(address):
        out = tmp_path / "r.h5"
        experiment = mccgr_process("experiment", classes, *LONG, "-q", "--scheduler", address, "-o", out)
        assert begun(tmp_path / "r.h5.part")
        first.kill()
        done = (tmp_path / "r.h5.part").read_bytes().count(b"\n")
        assert begun(tmp_path / "r.h5.part", done + 2)
        process.kill()
        began = time.monotonic()
        _, said = experiment.communicate(timeout=60)
        assert time.monotonic() - began < 2 * PROMPT
    assert experiment.returncode == 1
    assert said == f"{address}: the scheduler has gone; see its log, start it again, and run this again\n"


# Commands


@pytest.mark.slow
def test_a_factorization_goes_on_without_the_scheduler_that_was_killed(mccgr, scheduler, X_file, tmp_path):
    process, address = scheduler
    options = ("--k", 3, "--method", "mcc", "--init", "random", "--tolerance", 0, "--iterations", 400)
    assert mccgr("factorize", X_file, *options, "-o", tmp_path / "whole.h5", "-q").status == 0
    checkpoint = tmp_path / "C.h5"
    kept = ("--checkpoint", checkpoint, "--checkpoint-every", 0, "-o", tmp_path / "parts.h5")
    with a_worker(address):
        run = mccgr_process("factorize", X_file, *options, *kept, "-q", "--scheduler", address)
        deadline = time.monotonic() + 60
        while not checkpoint.exists() and time.monotonic() < deadline:
            time.sleep(0.01)
        process.kill()
        _, said = run.communicate(timeout=60)
    assert run.returncode == 1
    assert "the scheduler has gone" in said
    assert f"with: mccgr factorize --resume {checkpoint} --checkpoint-every 0 --scheduler {address} --quiet" in said
    assert mccgr("factorize", "--resume", checkpoint, "-q").status == 0
    with h5py.File(tmp_path / "whole.h5") as whole, h5py.File(tmp_path / "parts.h5") as parts:
        for name in ("W", "H"):
            np.testing.assert_allclose(parts[name], whole[name], rtol=1e-8, atol=1e-12)


def contents(path, names):
    with h5py.File(path) as file:
        found = {name: file[name][()] for name in names}
    return {name: values.tobytes() if values.dtype.kind in "iuf" else list(values) for name, values in found.items()}


@pytest.mark.slow
def test_an_experiment_has_the_same_table_and_says_nothing_else(mccgr, classes, tmp_path):
    arguments = ("experiment", classes, "--methods", "mccgr,pg,k-means-weighted", "--k", "2,4", "--runs", 2)
    process = mccgr_process(*arguments, "-q", "--scheduler", "local:2", "-o", tmp_path / "b.h5")
    assert mccgr(*arguments, "--jobs", 0, "-o", tmp_path / "a.h5").status == 0
    assert process.communicate() == ("", "")
    assert process.returncode == 0
    names = [name for name in RESULTS if name != "seconds"]
    assert contents(tmp_path / "a.h5", names) == contents(tmp_path / "b.h5", names)


@pytest.mark.slow
def test_an_experiment_goes_on_with_or_without_a_cluster(mccgr, classes, tmp_path, monkeypatch):
    arguments = ("experiment", classes, "--methods", "l2", "--k", 2, "--runs", 3, "-o", tmp_path / "r.h5")
    with monkeypatch.context() as patch:
        patch.setattr("mccgr_cli.workflow.experiment.results_columns", interrupt)
        assert mccgr(*arguments, "--jobs", 0).status == 130
    outcome = mccgr(*arguments, "--scheduler", "local:2")
    assert outcome.status == 0, outcome.stderr
    assert "continuing after 3 of 3 trials" in outcome.stderr


def interrupt(_):
    raise KeyboardInterrupt


@pytest.mark.slow
def test_images_of_a_relative_folder_have_the_same_words(mccgr, tmp_path, monkeypatch):
    make_folder(tmp_path / "images")
    monkeypatch.chdir(tmp_path)
    required = []
    monkeypatch.setattr(Cluster, "require_files", lambda _, paths: required.extend(paths))
    for name, how in (("a.h5", ("--jobs", 0)), ("b.h5", ("--scheduler", "local:2"))):
        outcome = mccgr("extract", "images", "--words", 6, "--step", 6, *how, "-o", name)
        assert outcome.status == 0, outcome.stderr
    names = ("X", "labels", "sample_names", "codebook")
    assert contents("a.h5", names) == contents("b.h5", names)
    assert contents("b.h5", names)["sample_names"][0] == b"coarse/0.png"
    assert required == [str(tmp_path / "images" / "coarse" / "0.png")]


# Nobody is left behind


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_no_process_is_left_when_mccgr_is_ended(classes, tmp_path, number):
    out = tmp_path / "r.h5"
    process = mccgr_process(
        "experiment", classes, *LONG, "-q", "--scheduler", "local:2", "-o", out, start_new_session=True
    )
    assert begun(tmp_path / "r.h5.part")
    children = offspring(process.pid)
    assert len(children) == 2
    began = time.monotonic()
    if number == signal.SIGKILL:
        process.kill()
    else:
        os.killpg(process.pid, number)
    _, said = process.communicate(timeout=30)
    assert gone(children)
    assert time.monotonic() - began < PROMPT
    if number == signal.SIGKILL:
        assert said == ""
    else:
        assert process.returncode == 128 + number
        assert said.endswith("r.h5.part; the same command continues\n")
        assert len(said.splitlines()) == 1


def test_no_process_is_left_when_the_work_fails():
    def fail():
        with connect("local:1") as cluster:
            cluster.wait_for_workers()
            raise ParameterError("--k", "a fault")

    before = offspring(os.getpid())
    with pytest.raises(ParameterError, match="a fault"):
        fail()
    assert {child.pid for child in offspring(os.getpid())} <= {child.pid for child in before}
