"""Blocks that workers of a cluster hold: the factors of memory, whatever dies."""

from __future__ import annotations

import gc
import os
import signal
import time
from pathlib import Path

import numpy as np
import pytest
from conftest import planted, relative_gap
from scipy import sparse

pytest.importorskip("distributed")

from test_distributed import a_worker, mccgr_process, offspring, scheduler  # noqa: F401
from test_outofcore import factors_of, stored, write_dense, write_sparse

from mccgr_cli.blocks.in_memory import MemoryBlocks
from mccgr_cli.blocks.products import block_times, moments, times, transposed_times
from mccgr_cli.blocks.protocol import Partial, sum_over_blocks
from mccgr_cli.core import landmarks, outliers
from mccgr_cli.core.solver import solve
from mccgr_cli.distributed import blocks
from mccgr_cli.distributed.blocks import ClusterBlocks, HeldRows
from mccgr_cli.distributed.connection import connect
from mccgr_cli.distributed.shared_arrays import ArrayExchange, SharedArray, open_shared
from mccgr_cli.errors import DataError, MccgrError
from mccgr_cli.files.lazy_matrix import StoredMatrix
from mccgr_cli.settings import GraphSettings, Settings
from mccgr_cli.workflow.factorization import choose_graph

pytestmark = pytest.mark.usefixtures("quick_choice")


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    """Of some 100 rows of 24 features, also on the workers, who are told."""
    monkeypatch.setattr("mccgr_cli.blocks.in_memory.DENSE_BLOCK_BYTES", 100 * 24 * 8)
    monkeypatch.setattr("mccgr_cli.blocks.in_memory.WHOLE_BYTES", 1000)
    monkeypatch.setattr("mccgr_cli.blocks.in_memory.SPARSE_BLOCK_VALUES", 1000)


@pytest.fixture(scope="module")
def cluster():
    with connect("local:2") as cluster:
        cluster.wait_for_workers()
        yield cluster
    assert not offspring(os.getpid())


def samples(n=3000):
    return planted(n)[0]


MAKERS = {
    "dense": lambda path, X: stored(write_dense(path, X)),
    "sparse": lambda path, X: stored(write_sparse(path, sparse.csr_array(X))),
    "sent": lambda path, X: X,
    "sparse, sent": lambda path, X: sparse.csr_array(X),
}


@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.parametrize("held", [0.6, 0.0], ids=["held in memory", "left in the file"])
def test_passes_over_workers_equal_those_over_memory(cluster, tmp_path, make, held, monkeypatch):
    monkeypatch.setattr(blocks, "HELD_SHARE", held)
    X = samples() * (samples() > 1)
    far, near = ClusterBlocks(MAKERS[make](tmp_path / "X.h5", X), cluster), MemoryBlocks(X)
    assert sources(cluster, far) == {"FileBlocks" if held == 0 and "sent" not in make else "MemoryBlocks"}
    assert (far.shape, far.dtype, far.whole) == (near.shape, near.dtype, None)
    rng = np.random.default_rng(0)
    right, left = rng.random((24, 3)), rng.random((3000, 3))
    np.testing.assert_allclose(moments(far).squares, moments(near).squares, rtol=1e-12)
    np.testing.assert_allclose(times(far, right), times(near, right), rtol=1e-12)
    np.testing.assert_allclose(transposed_times(far, left), transposed_times(near, left), rtol=1e-12)
    assert abs(far.take(slice(7, 2000)) - X[7:2000]).max() == 0


def test_outlier_scores_are_those_of_samples_in_memory(cluster, tmp_path, monkeypatch):
    """Also where there are more samples than landmarks, so that points are computed on the workers."""
    monkeypatch.setattr(landmarks, "MOST_LANDMARKS", 1000)
    monkeypatch.setattr(outliers, "MOST_COMPARED", 300)
    X = samples()
    far, near = ClusterBlocks(MAKERS["dense"](tmp_path / "X.h5", X), cluster), MemoryBlocks(X)
    scores = []
    for source in (far, near):
        learnt = landmarks.learn_landmarks(source, np.ones(24), 3)
        scores.append(outliers.learn_density(source, learnt, 3)[1])
    np.testing.assert_allclose(scores[0], scores[1], atol=2e-4)


def sources(cluster, source):
    """Where workers have the rows of a source; those of earlier ones may not have gone yet."""

    def kinds(keys, dask_worker):
        return {type(dask_worker.state.actors[key]._source).__name__ for key in keys if key in dask_worker.state.actors}

    keys = [part._future.key for part in source._parts]
    return set().union(*cluster.client.run(kinds, keys).values())


def test_parts_are_even_and_shared_by_all_workers(cluster, tmp_path):
    source = ClusterBlocks(stored(write_dense(tmp_path / "X.h5", samples())), cluster)
    lengths = [part.rows.stop - part.rows.start for part in source._parts]
    assert sum(lengths) == 3000
    assert max(lengths) <= 1.5 * min(lengths)
    assert {part.worker for part in source._parts} == set(cluster.workers())


def test_a_pass_is_one_call_to_each_part(cluster, tmp_path, monkeypatch):
    source = ClusterBlocks(stored(write_dense(tmp_path / "X.h5", samples())), cluster)
    calls = []
    call = blocks.HeldPart.call
    monkeypatch.setattr(blocks.HeldPart, "call", lambda part, *given: calls.append(part) or call(part, *given))

    def calls_of(iterations):
        calls.clear()
        solve(source, Settings(k=3, method="mcc", tolerance=0, init="random", iterations=iterations))
        return len(calls)

    assert calls_of(8) - calls_of(3) == 5 * len(source._parts)


def fail(X_b):
    raise ZeroDivisionError("as it must")


def refuse(X_b):
    raise DataError("X", "is not to be liked", "take another")


def test_faults_are_those_of_the_function(cluster, tmp_path):
    source = ClusterBlocks(stored(write_dense(tmp_path / "X.h5", samples())), cluster)
    with pytest.raises(RuntimeError, match=r"(?s)in fail.*ZeroDivisionError: as it must"):
        sum_over_blocks(source, fail)
    with pytest.raises(DataError, match=r"^X: is not to be liked; take another$"):
        sum_over_blocks(source, refuse)
    assert moments(source).mean == pytest.approx(samples().mean())


def test_any_error_of_a_pass_is_about_the_scheduler_once_it_is_gone(cluster, monkeypatch):
    """So whoever keeps the state of a run can say how to go on, whatever Dask raises."""

    def breaks(part):
        raise RuntimeError("the loop is closed")

    source = ClusterBlocks(samples(), cluster)
    monkeypatch.setattr(blocks.HeldPart, "answer", breaks)
    monkeypatch.setattr(type(cluster), "connected", lambda _: False)
    with pytest.raises(MccgrError, match="the scheduler has gone"):
        moments(source)


def test_a_file_that_workers_do_not_see_is_told(cluster, tmp_path):
    matrix = stored(write_dense(tmp_path / "X.h5", samples()))
    (tmp_path / "X.h5").unlink()
    with pytest.raises(
        DataError, match=r"^worker tcp://.*: .*X.h5.* all workers must see the file under the same path$"
    ):
        ClusterBlocks(matrix, cluster)


def own_process(X_b):
    return Partial(rows=(np.full(X_b.shape[0], os.getpid()),))


def processes(source):
    found = np.empty(source.shape[0], dtype=int)
    sum_over_blocks(source, own_process, into=(found,))
    return set(found.tolist())


@pytest.mark.parametrize("near", [True, False])
def test_workers_of_this_machine_share_its_memory_and_others_do_not(cluster, tmp_path, near, monkeypatch):
    if not near:
        monkeypatch.setattr(blocks.HeldPart, "_is_near", lambda part: False)
    X = samples()
    source = ClusterBlocks(stored(write_dense(tmp_path / "X.h5", X)), cluster)
    assert all((part._exchange is not None) == near for part in source._parts)
    settings = Settings(k=3, iterations=8, tolerance=0)
    graph = choose_graph(X, settings, GraphSettings())
    there, here = solve(source, settings, graph), solve(MemoryBlocks(X), settings, graph)
    assert relative_gap(there.W, here.W) < 1e-8
    assert relative_gap(there.H, here.H) < 1e-8


def test_what_is_lent_is_found_only_as_long_as_it_is_there():
    lent = SharedArray((3, 2), np.dtype(np.float32))
    lent.array[...] = 7
    np.testing.assert_array_equal(open_shared(lent.location), lent.array)
    elsewhere = lent.location._replace(process=2**22 + 1)
    assert open_shared(elsewhere) is None
    assert open_shared(lent.location._replace(inode=lent.location.inode + 1)) is None
    handle = lent.location.handle
    del lent
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(handle)


def test_arrays_are_lent_again_if_they_suit():
    exchange = ArrayExchange()
    one, other = np.ones((4, 2)), np.zeros((4, 2))
    first = exchange.send((one, None, one))
    assert exchange.send((other, None, other)) == first
    np.testing.assert_array_equal(open_shared(first[0]), other)
    assert exchange.send(()) == []
    assert exchange.send((one,)) == first[:1]
    assert exchange.send((one, one)) == [first[0], first[2]]
    assert exchange.send((one[:3], None)) != first[:2]
    assert exchange.answer_locations() == []
    assert exchange.receive((one,)) == (one,)
    (room,) = exchange.answer_locations()
    open_shared(room)[...] = 5
    assert (exchange.receive((room,))[0] == 5).all()


def test_workers_keep_no_array_longer_than_they_need_it(cluster, tmp_path):
    source = ClusterBlocks(stored(write_dense(tmp_path / "X.h5", samples())), cluster)
    rng = np.random.default_rng(0)
    for width in range(1, 9):
        left = rng.random((3000, width))
        np.testing.assert_allclose(transposed_times(source, left), samples().T @ left, rtol=1e-12)

    def borrowed_arrays(keys, dask_worker):
        return [len(dask_worker.state.actors[key]._opened) for key in keys if key in dask_worker.state.actors]

    keys = [part._future.key for part in source._parts]
    counts = cluster.client.run(borrowed_arrays, keys).values()
    assert [number for numbers in counts for number in numbers] == [1] * len(keys)


def once(X_b, W_b, mark):
    """Kill the process that comes first, in the middle of its work; then do it."""
    try:
        Path(mark).touch(exist_ok=False)
        os.kill(os.getpid(), signal.SIGKILL)
    except FileExistsError:
        pass
    return Partial((X_b.T @ W_b,), (W_b + 1,))


@pytest.mark.parametrize("near", [True, False])
def test_a_worker_killed_in_the_middle_of_its_work_changes_nothing(cluster, tmp_path, near, monkeypatch):
    if not near:
        monkeypatch.setattr(blocks.HeldPart, "_is_near", lambda part: False)
    source = ClusterBlocks(stored(write_dense(tmp_path / "X.h5", samples())), cluster)
    W = np.random.default_rng(0).random((3000, 3))
    (tmp_path / "spared").touch()
    found = []
    for mark in ("spared", "killed"):
        new = np.zeros_like(W)
        found.append((sum_over_blocks(source, once, (W,), (str(tmp_path / mark),), into=(new,)), new))
    assert (tmp_path / "killed").exists()
    np.testing.assert_array_equal(found[0][1], W + 1)
    np.testing.assert_array_equal(found[1][1], W + 1)
    np.testing.assert_array_equal(found[0][0], found[1][0])
    cluster.wait_for_workers()


class Unreadable:
    def __reduce__(self):
        return getattr, (os, "no_such_thing")


def test_what_a_worker_cannot_read_is_told(cluster, tmp_path):
    """Dask's own calls of actors would wait for ever."""
    source = ClusterBlocks(stored(write_dense(tmp_path / "X.h5", samples())), cluster)
    with pytest.raises(AttributeError, match="no_such_thing"):
        sum_over_blocks(source, block_times, shared=(Unreadable(),))


def spoil():
    StoredMatrix.unspoilt = StoredMatrix.load
    StoredMatrix.load = fail


def mend():
    StoredMatrix.load = StoredMatrix.unspoilt


def test_a_fault_of_ours_is_no_loss_of_a_worker(cluster, tmp_path):
    matrix = stored(write_dense(tmp_path / "X.h5", samples()))
    cluster.client.run(spoil)
    try:
        with pytest.raises(RuntimeError, match=r"(?s)in a worker process:.*ZeroDivisionError: as it must"):
            moments(ClusterBlocks(matrix, cluster))
    finally:
        cluster.client.run(mend)
    assert moments(ClusterBlocks(matrix, cluster)).mean == pytest.approx(samples().mean())


@pytest.mark.parametrize("make", ["dense", "sent"])
def test_killed_workers_change_nothing(cluster, tmp_path, make):
    """To the last bit: whoever takes the rows over does what the lost one would have done."""
    X = samples()
    source = ClusterBlocks(MAKERS[make](tmp_path / "X.h5", X), cluster)
    settings = Settings(k=3, iterations=12, tolerance=0)
    graph = choose_graph(X, settings, GraphSettings())
    undisturbed = solve(source, settings, graph)

    def kill(step):
        if step.iteration in (3, 7):
            victim = sorted(processes(source))[step.iteration % 2]
            assert victim != os.getpid()
            os.kill(victim, signal.SIGKILL)

    disturbed = solve(source, settings, graph, on_step=kill)
    np.testing.assert_array_equal(disturbed.W, undisturbed.W)
    np.testing.assert_array_equal(disturbed.H, undisturbed.H)
    cluster.wait_for_workers()


def die(X_b):
    os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.slow
def test_work_that_kills_every_worker_ends(cluster, tmp_path, monkeypatch):
    monkeypatch.setattr(blocks, "MOST_LOSSES", 2)
    source = ClusterBlocks(stored(write_dense(tmp_path / "X.h5", samples())), cluster)
    with pytest.raises(MccgrError, match=r"^local:2: 3 workers in a row were lost with the same rows; .* their logs$"):
        sum_over_blocks(source, die)
    cluster.wait_for_workers()


def full(dask_worker=None):
    return False, 1e9, 1e9, 1e9


def nearly_full(dask_worker=None):
    return True, 1e9, 0.6e9 - 200_000, 1e9


def test_rows_are_held_only_as_long_as_there_is_room(cluster, tmp_path, monkeypatch):
    """Of 576 kB in four parts each worker can take one, and leaves the other in the file."""
    workers = cluster.wait_for_workers()
    assert all(1e7 < bytes_ < 1e12 for bytes_ in blocks.free_memory(cluster, workers).values())
    assert set(blocks.free_memory(cluster, workers)) == set(workers)
    path = write_dense(tmp_path / "X.h5", samples())
    monkeypatch.setattr(blocks, "memory_of_worker", nearly_full)
    source = ClusterBlocks(stored(path), cluster)
    assert sources(cluster, source) == {"MemoryBlocks", "FileBlocks"}
    assert moments(source).mean == pytest.approx(samples().mean())


def test_workers_that_are_too_full_to_begin_anything_are_not_waited_for_in_silence(cluster, tmp_path, monkeypatch):
    monkeypatch.setattr(blocks, "memory_of_worker", full)
    monkeypatch.setattr(blocks, "WORKER_SECONDS", 0.5)
    with pytest.raises(MccgrError, match=r"^local:2: its workers have no free memory; give them more memory$"):
        ClusterBlocks(stored(write_dense(tmp_path / "X.h5", samples())), cluster)


def test_nothing_is_held_when_the_source_is_gone(cluster, tmp_path):
    source = ClusterBlocks(stored(write_dense(tmp_path / "X.h5", samples())), cluster)
    moments(source)
    assert held(cluster)
    del source
    deadline = time.monotonic() + 10
    while held(cluster) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not held(cluster)


def held(cluster):
    gc.collect()
    actors = cluster.client.run(lambda dask_worker: list(dask_worker.state.actors))
    return [key for keys in actors.values() for key in keys if key.startswith(HeldRows.__name__)]


# The command


@pytest.fixture
def matrix(tmp_path):
    return write_dense(tmp_path / "X.h5", samples(4000), chunks=(100, 24))


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 3])
def test_any_number_of_workers_gives_the_factors_of_memory(mccgr, matrix, workers, monkeypatch):
    found, before = [], set(offspring(os.getpid()))
    asked = []
    ask = blocks.HeldPart._ask
    monkeypatch.setattr(blocks.HeldPart, "_ask", lambda part, *given: asked.append(part.worker) or ask(part, *given))
    for way in ([], ["--scheduler", f"local:{workers}"]):
        path = matrix.with_name(f"{len(way)}.h5")
        outcome = mccgr("factorize", matrix, "--k", 3, "--iterations", 15, "--tolerance", 0, "-o", path, *way)
        assert outcome.status == 0, outcome.stderr
        found.append(factors_of(path))
    for one, other in zip(*found, strict=True):
        assert relative_gap(other, one) < 1e-8
    assert len(asked) > 15 * workers
    assert len(set(asked)) == workers
    assert set(offspring(os.getpid())) <= before


@pytest.mark.slow
@pytest.mark.parametrize(
    "option", ["--axes=0", "--method=kl", "--method=pg", "--solver=coordinate", "--transpose", "--normalize=tfidf"]
)
def test_every_part_of_a_run_works_on_a_cluster(cluster, mccgr, tmp_path, option):
    cluster.wait_for_workers()
    path = write_dense(tmp_path / "X.h5", samples())
    found = []
    for way in ([], ["--scheduler", cluster.client.scheduler.address]):
        result = path.with_name(f"{len(way)}.h5")
        assert mccgr("factorize", path, "--k", 3, "--iterations", 10, option, "-o", result, *way).status == 0
        found.append(factors_of(result))
    for one, other in zip(*found, strict=True):
        assert relative_gap(other, one) < 1e-8


def test_a_wrong_address_is_told_before_anything_is_read(refused, matrix):
    began = time.monotonic()
    said = refused("factorize", matrix, "--k", 3, "--scheduler", "tcp://127.0.0.1:9")
    assert time.monotonic() - began < 10
    assert said.startswith("tcp://127.0.0.1:9: cannot be reached")


def written_anew(path, run):
    """Wait until a file is there, or another in its place."""
    before = path.stat().st_mtime_ns if path.exists() else None
    deadline = time.monotonic() + 60
    while run.poll() is None and time.monotonic() < deadline:
        if path.exists() and path.stat().st_mtime_ns != before:
            return True
        time.sleep(0.01)
    return False


@pytest.mark.slow
def test_a_killed_worker_and_a_killed_scheduler(scheduler, matrix, tmp_path):  # noqa: F811
    process, address = scheduler
    with a_worker(address) as first, a_worker(address):
        options = ("--k", 3, "--iterations", 10**6, "--tolerance", 0, "--scheduler", address)
        checkpoint = tmp_path / "C.h5"
        run = mccgr_process("factorize", matrix, *options, "--checkpoint", checkpoint, "--checkpoint-every", 0)
        assert written_anew(checkpoint, run)
        first.kill()
        for _ in range(2):  # an iteration that was under way, and one without the lost worker
            assert written_anew(checkpoint, run)
        process.kill()
        began = time.monotonic()
        _, said = run.communicate(timeout=60)
    assert time.monotonic() - began < 20
    assert run.returncode == 1
    last = said.strip().splitlines()[-1]
    assert last.startswith(f"{address}: the scheduler has gone")
    assert "Traceback" not in said
    assert not list(tmp_path.glob("*.factors.h5"))
