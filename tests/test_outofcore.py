"""A matrix that stays in its file gives what it gives in memory, and is read no more often than it must be."""

from __future__ import annotations

import json
import os
import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import h5py
import numpy as np
import pytest
from conftest import planted
from scipy import sparse

from mccgr_cli.blocks.from_file import FileBlocks
from mccgr_cli.blocks.in_memory import MemoryBlocks
from mccgr_cli.blocks.products import moments, times, transposed_times
from mccgr_cli.blocks.protocol import Size
from mccgr_cli.errors import DataError, MccgrError
from mccgr_cli.files.container import Contents, encode
from mccgr_cli.files.lazy_matrix import StoredMatrix
from mccgr_cli.files.readers import load
from mccgr_cli.settings import METHODS, GraphSettings, Settings
from mccgr_cli.system import memory
from mccgr_cli.workflow.placement import Room
from mccgr_cli.workflow.stages import prepare

pytestmark = pytest.mark.usefixtures("quick_choice")

EVERYTHING = dict.fromkeys(("shuffle", "fletcher32"), True)
LAYOUTS = {
    "rows together": {"chunks": (7, 24)},
    "tiles": {"chunks": (16, 5)},
    "one chunk": {"chunks": (200, 24)},
    "compressed": {"chunks": (13, 24), "compression": "gzip", **EVERYTHING},
    "compressed tall tiles": {"chunks": (150, 5), "compression": "gzip"},
    "contiguous": {},
}


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    """Of some 20 rows of 24 features, of which some are read at a time."""
    use_blocks(monkeypatch, 20 * 24 * 8)


def use_blocks(monkeypatch, size):
    monkeypatch.setattr("mccgr_cli.blocks.in_memory.DENSE_BLOCK_BYTES", size)
    monkeypatch.setattr("mccgr_cli.blocks.in_memory.WHOLE_BYTES", size // 4)
    monkeypatch.setattr("mccgr_cli.blocks.in_memory.SPARSE_BLOCK_VALUES", size // 16)
    monkeypatch.setattr("mccgr_cli.blocks.from_file.READ_BYTES", 3 * size)
    monkeypatch.setattr("mccgr_cli.blocks.from_file.MOST_BYTES", 5 * size)


def counts(n=200):
    return np.floor(planted(n)[0] * 3)


def write_dense(path, X, **layout):
    with h5py.File(path, "w") as file:
        file.create_dataset("X", data=X, **layout)
    return path


def write_sparse(path, X, shuffled=False):
    """CSR as anndata writes it; ``shuffled``: with the indices of each row in another order."""
    parts = {name: getattr(X, name) for name in ("data", "indices", "indptr")}
    if shuffled:
        order = np.concatenate([np.arange(*ends)[::-1] for ends in zip(X.indptr, X.indptr[1:], strict=False)])
        parts |= {name: parts[name][order] for name in ("data", "indices")}
    with h5py.File(path, "w") as file:
        group = file.create_group("X")
        group.attrs["shape"], group.attrs["encoding-type"] = X.shape, "csr_matrix"
        for name, values in parts.items():
            group[name] = values
    return path


def stored(path, how="none", dtype=None):
    matrix = load(str(path)).contents["X"]
    assert matrix.in_file
    return matrix.prepared_as(how, dtype).stream()


def in_memory(path, how="none", dtype=None):
    return prepare(load(str(path)), how, dtype)


def assert_same_passes(path, how="none", dtype=None, threads=None):
    file, whole = FileBlocks(stored(path, how, dtype), threads=threads), MemoryBlocks(in_memory(path, how, dtype))
    assert (file.shape, file.dtype) == (whole.shape, whole.dtype)
    rng = np.random.default_rng(0)
    right, left = rng.random((file.shape[1], 3)), rng.random((file.shape[0], 3))
    for _ in range(2):  # buffers are used again
        np.testing.assert_array_equal(moments(file).squares, moments(whole).squares)
        np.testing.assert_array_equal(times(file, right), times(whole, right))
        np.testing.assert_array_equal(transposed_times(file, left), transposed_times(whole, left))
    some = slice(33, 150)
    taken, expected = file.take(some), whole.take(some)
    assert abs(taken - expected).max() == 0


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("how", ["none", "hellinger"])
def test_passes_over_a_file_equal_those_over_memory_to_the_last_bit(tmp_path, layout, threads, how):
    assert_same_passes(write_dense(tmp_path / "X.h5", counts(), **LAYOUTS[layout]), how, threads=threads)


@pytest.mark.parametrize("dtype", ["<f4", ">f8", "<f2", "u1", "<i4", ">i8", "bool"])
@pytest.mark.parametrize("computed", [None, "float32"])
def test_numbers_of_any_kind_are_read(tmp_path, dtype, computed):
    assert_same_passes(write_dense(tmp_path / "X.h5", counts().astype(dtype)), "sqrt", computed)


@pytest.mark.parametrize("shuffled", [False, True])
@pytest.mark.parametrize("dtype", ["f8", "f4", "u2"])
def test_sparse_rows_stay_sparse(tmp_path, shuffled, dtype):
    X = sparse.csr_array((counts() * (counts() > 6)).astype(dtype))
    path = write_sparse(tmp_path / "X.h5", X, shuffled)
    assert sparse.issparse(FileBlocks(stored(path)).take(slice(0, 5)))
    assert_same_passes(path, "l2")


def test_a_part_is_read_alone(tmp_path):
    for write, X in ((write_dense, counts()), (write_sparse, sparse.csr_array(counts()))):
        whole = stored(write(tmp_path / f"{write.__name__}.h5", X), "sqrt")
        part = FileBlocks(whole.part(slice(50, 150)).part(slice(10, 90)))
        assert part.shape == (80, 24)
        np.testing.assert_allclose(whole.part(slice(60, 140)).load() @ np.eye(24), np.sqrt(counts()[60:140]))
        np.testing.assert_allclose(times(part, np.eye(24)), np.sqrt(counts()[60:140]))


def test_reading_never_runs_far_ahead(tmp_path):
    """However large the file is, a few buffers do."""
    source = FileBlocks(stored(write_dense(tmp_path / "X.h5", counts(5000), chunks=(20, 24))), threads=2)
    list(source.map(np.sum))
    assert len(source._buffers) <= 4
    assert sum(buffer.nbytes for buffer in source._buffers) <= 4 * 60 * 24 * 8


def fail(X_b):
    raise ArithmeticError("as it must")


def test_a_pass_that_ends_early_leaves_no_thread_and_the_next_one_is_whole(tmp_path):
    path = write_dense(tmp_path / "X.h5", counts(2000), chunks=(20, 24))
    source = FileBlocks(stored(path), threads=2)
    before = set(threading.enumerate())
    with pytest.raises(ArithmeticError):
        list(source.map(fail))
    begun = source.map(np.sum)
    next(begun)
    begun.close()
    np.testing.assert_array_equal(moments(source).squares, moments(MemoryBlocks(in_memory(path))).squares)
    deadline = time.monotonic() + 10
    while len(begun_since(before)) > 1 and time.monotonic() < deadline:
        time.sleep(0.01)
    assert len(begun_since(before)) <= 1  # of the pool


def begun_since(before):
    """Threads, but for those of a cluster that another test may have left to its keeper."""
    return [thread for thread in threading.enumerate() if thread not in before and "Dask" not in thread.name]


def test_a_file_that_changes_meanwhile_is_told(tmp_path):
    path = write_dense(tmp_path / "X.h5", counts())
    source = FileBlocks(stored(path))
    os.utime(path, (1, 1))
    with pytest.raises(DataError, match=r"has changed since it was first read; run the command again"):
        moments(source)
    path.unlink()
    with pytest.raises(DataError, match="cannot be read: no such file"):
        moments(source)


def test_a_block_that_cannot_be_read_is_told(tmp_path):
    path = write_dense(tmp_path / "X.h5", counts(), **LAYOUTS["compressed"])
    matrix = stored(path)
    with h5py.File(path) as file:
        chunk = file["X"].id.get_chunk_info(9)
    content = bytearray(path.read_bytes())
    content[chunk.byte_offset : chunk.byte_offset + chunk.size] = bytes(chunk.size)
    path.write_bytes(content)
    os.utime(path, ns=(matrix.stamp[1], matrix.stamp[1]))
    with pytest.raises(DataError, match="damaged or truncated HDF5 file"):
        moments(FileBlocks(matrix))


def test_values_are_checked_in_the_file(tmp_path):
    X = counts()
    X[150, 3] = X[40, 2] = -1
    for write, make in ((write_dense, np.asarray), (write_sparse, sparse.csr_array)):
        path = write(tmp_path / f"{write.__name__}.h5", make(X))
        with pytest.raises(DataError, match=r"2 negative values, first at row 40, column 2 \(-1\); NMF needs X >= 0"):
            stored(path)


UNFIT = {
    "negative": lambda X: X.__setitem__((150, 3), -1),
    "NaN": lambda X: X.__setitem__((0, 0), np.nan),
    "infinite": lambda X: X.__setitem__((199, 23), np.inf),
    "all zero": lambda X: X.fill(0),
    "too large": lambda X: X.__setitem__((20, 3), 1e200),
    "too large for float32": lambda X: X.__setitem__((20, 3), 1e50),
    "too small": lambda X: np.multiply(X, 1e-120, out=X),
}


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("fault", UNFIT)
@pytest.mark.parametrize("make", [np.asarray, sparse.csr_array])
def test_loading_and_streaming_find_the_same_faults(tmp_path, monkeypatch, fault, make):
    """Before rows are converted or normalized, which would only warn."""
    monkeypatch.setattr("mccgr_cli.files.lazy_matrix.LOAD_BYTES", 5000)
    X = counts()
    UNFIT[fault](X)
    write = write_dense if make is np.asarray else write_sparse
    matrix = load(str(write(tmp_path / "X.h5", make(X)))).contents["X"].prepared_as("hellinger", "float32")
    messages = []
    for read in (matrix.load, matrix.stream):
        with pytest.raises(DataError) as caught:
            read()
        messages.append(str(caught.value))
    assert messages[0] == messages[1]


def test_a_matrix_that_fits_is_read_once(mccgr, tmp_path, readings):
    path = write_dense(tmp_path / "X.h5", counts())
    for option in ("--dtype=float64", "--dtype=float32", "--normalize=l2"):
        readings.clear()
        assert mccgr("factorize", path, "--k", 3, "--overwrite", option).status == 0
        assert len(readings) == 1


def spoil_shape(group, *shape):
    group.attrs["shape"] = shape


SPOILT = {
    "a column that is not there": lambda group: group["indices"].__setitem__(100, 10**6),
    "a row that begins after the end": lambda group: group["indptr"].__setitem__(100, 10**6),
    "rows that go backwards": lambda group: group["indptr"].__setitem__(100, 0),
    "a start that is not the first value": lambda group: group["indptr"].__setitem__(0, 1),
    "fewer rows than are stored": lambda group: spoil_shape(group, 150, 24),
    "more rows than are stored": lambda group: spoil_shape(group, 250, 24),
    "a negative number of rows": lambda group: spoil_shape(group, -200, 24),
}


@pytest.mark.parametrize("spoil", SPOILT)
def test_sparse_indices_are_checked_in_the_file(tmp_path, spoil):
    path = write_sparse(tmp_path / "X.h5", sparse.csr_array(counts()))
    with h5py.File(path, "a") as file:
        SPOILT[spoil](file["X"])
    for read in (StoredMatrix.load, StoredMatrix.stream):
        with pytest.raises(DataError, match="its indices do not fit its shape"):
            read(load(str(path)).contents["X"])


def test_what_is_compressed_is_unpacked_once_for_each_pass(tmp_path):
    """HDF5 finds the chunks again that two readings share, and takes no more memory for it than they need."""
    path = write_dense(tmp_path / "X.h5", counts(2000), chunks=(150, 5), compression="gzip")
    matrix = stored(path)
    assert matrix.packed == 150 * 25 * 8
    assert stored(write_dense(tmp_path / "plain.h5", counts(2000), chunks=(150, 5))).packed == 0
    X = sparse.csr_array(counts(2000))
    write_sparse(tmp_path / "sparse.h5", X)
    with h5py.File(tmp_path / "sparse.h5", "a") as file:
        del file["X/indices"]
        file["X"].create_dataset("indices", data=X.indices, chunks=(X.nnz,), compression="gzip")
    assert stored(tmp_path / "sparse.h5").packed == X.nnz * 4
    assert_same_passes(tmp_path / "sparse.h5")


def test_what_must_be_unpacked_whole_is_read_whole(tmp_path, monkeypatch):
    monkeypatch.setattr("mccgr_cli.files.lazy_matrix.MOST_PACKED", 100_000)
    path = write_dense(tmp_path / "X.h5", counts(2000), chunks=(2000, 1), compression="gzip")
    assert not load(str(path)).contents["X"].in_file


# The command


@pytest.fixture
def large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """More than the least --memory."""
    use_blocks(monkeypatch, 1 << 20)
    X, labels = planted(6000, 240)
    path = tmp_path / "X.h5"
    write_dense(path, X, chunks=(100, 240))
    with h5py.File(path, "a") as file:
        file["labels"] = labels
    return path


def factors_of(path):
    with h5py.File(path) as file:
        return file["W"][()], file["H"][()], file["rho"][()]


def factorize_both(mccgr, path, *options):
    """W, H and rho by way of memory and of the file."""
    outcomes, choices = [], set()
    for way in ([], ["--memory", "10MB"]):
        result = path.with_suffix(f".{len(way)}.h5")
        few = ("--k", 3, "--iterations", 5, "--neighbors", 5)
        outcome = mccgr("factorize", path, *few, "-o", result, *options, *way)
        assert outcome.status == 0, outcome.stderr
        assert ("stays in its file" in outcome.stderr) == bool(way)
        outcomes.append(factors_of(result))
        choices.update(line for line in outcome.stderr.splitlines() if line.startswith("chosen: "))
    assert len(choices) == 1
    return outcomes


@pytest.mark.parametrize("method", METHODS)
def test_the_same_factors_with_little_memory(mccgr, large, method):
    in_memory, by_blocks = factorize_both(mccgr, large, "--method", method)
    for one, other in zip(in_memory, by_blocks, strict=True):
        np.testing.assert_allclose(other, one, rtol=1e-10, atol=1e-10 * one.max())


@pytest.mark.parametrize("option", ["--init=nndsvd", "--init=random", "--dtype=float32", "--solver=coordinate"])
def test_the_same_factors_whatever_the_start_the_precision_and_the_solver(mccgr, large, option):
    in_memory, by_blocks = factorize_both(mccgr, large, option)
    for one, other in zip(in_memory, by_blocks, strict=True):
        np.testing.assert_array_equal(one, other)


def test_the_same_factors_of_a_sparse_matrix(mccgr, tmp_path, monkeypatch):
    use_blocks(monkeypatch, 1 << 20)
    X = counts(8000)
    path = write_sparse(tmp_path / "X.h5", sparse.csr_array(np.tile(X * (X > 2), 10)))
    in_memory, by_blocks = factorize_both(mccgr, path)
    for one, other in zip(in_memory, by_blocks, strict=True):
        np.testing.assert_allclose(other, one, rtol=1e-10, atol=1e-10 * one.max())


@pytest.fixture
def readings(monkeypatch):
    """Of matrices that stay in their files."""
    readings = []
    reading = StoredMatrix.reading

    @contextmanager
    def counted(self):
        readings.append(self)
        with reading(self) as read:
            yield read

    monkeypatch.setattr(StoredMatrix, "reading", counted)
    return readings


def test_an_iteration_reads_the_file_once(mccgr, large, readings):
    options = ["--k", 3, "--memory", "14MB", "--tolerance", 0, "--overwrite"]

    def readings_of(iterations):
        readings.clear()
        assert mccgr("factorize", large, *options, "--iterations", iterations).status == 0
        return len(readings)

    assert readings_of(14) - readings_of(10) == 4


def test_the_same_graph_with_little_memory(mccgr, large):
    graphs = []
    for way in ([], ["--memory", "10MB"]):
        path = large.with_name(f"A{len(way)}.h5")
        outcome = mccgr("graph", large, "-o", path, *way)
        assert outcome.status == 0
        assert ("stays in its file" in outcome.stderr) == bool(way)
        with h5py.File(path) as file:
            graphs.append([file[f"A/{part}"][()] for part in ("indptr", "indices", "data")])
    for one, other in zip(*graphs, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("method", ["mcc", "kl"])
def test_the_same_coefficients_of_new_samples_with_little_memory(mccgr, large, method):
    """Also when the features of the new ones are in another order."""
    names = [f"f{j}" for j in range(240)]
    learnt, new = large.with_name("learnt.h5"), large.with_name("new.h5")
    X = planted(300, 240)[0]
    learnt.write_bytes(encode(Contents("matrix", {"X": X, "feature_names": names})))
    new.write_bytes(encode(Contents("matrix", {"X": planted(6000, 240)[0][:, ::-1], "feature_names": names[::-1]})))
    assert mccgr("factorize", learnt, "--k", 3, "--method", method, "--iterations", 5).status == 0
    found = []
    for way in ([], ["--memory", "10MB"]):
        path = large.with_name(f"W{len(way)}.h5")
        outcome = mccgr("transform", learnt.with_name("learnt.factors.h5"), new, "-o", path, *way)
        assert outcome.status == 0
        assert ("stays in its file" in outcome.stderr) == bool(way)
        found.append(factors_of(path)[0])
    assert found[0].shape == (6000, 3)
    np.testing.assert_allclose(found[1], found[0], rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("way", [write_dense, write_sparse])
def test_info_looks_at_a_matrix_row_by_row(mccgr, tmp_path, readings, way):
    X = counts() * (counts() > 6)
    X[:, 5] = X[17] = 0
    path = way(tmp_path / "X.h5", X if way is write_dense else sparse.csr_array(X))
    facts = json.loads(mccgr("info", path, "--format", "json").stdout)
    assert len(readings) == 2  # to check it, and to look
    piped = json.loads(mccgr("info", "-", "--format", "json", stdin=path.read_bytes()).stdout)
    assert facts["datasets"] == piped["datasets"]
    assert facts["health"] == piped["health"]
    assert facts["health"]["empty samples"] == int((X.max(axis=1) == 0).sum()) >= 1
    assert facts["health"]["empty features"] == int((X.max(axis=0) == 0).sum()) >= 1
    assert facts["health"]["share of zeros"] == pytest.approx((X == 0).mean(), abs=1e-4)
    assert facts["health"]["largest value"] == X.max()


def test_columns_are_read_whole_if_there_is_room(mccgr, refused, tmp_path, monkeypatch):
    use_blocks(monkeypatch, 1 << 20)
    path = write_dense(tmp_path / "X.h5", planted(6000, 240)[0].T.copy())
    found = factorize_with(mccgr, path, "--transpose"), factorize_with(mccgr, path, "--transpose", "--memory", "14MB")
    assert "loaded whole" in found[1].stderr
    np.testing.assert_array_equal(found[0].W, found[1].W)
    monkeypatch.setattr("mccgr_cli.files.readers.checks.available_memory", lambda: 10**7)
    message = refused("factorize", path, "--k", 3, "--transpose", "--memory", "14MB", "--overwrite")
    assert message.endswith("its columns cannot be read some at a time; store it with samples in rows")


@dataclass(frozen=True)
class Way:
    stderr: str
    W: np.ndarray


def factorize_with(mccgr, path, *options):
    result = path.with_suffix(".factors.h5")
    options = ("--k", 3, "--iterations", 3, "--overwrite", "-o", result, *options)
    outcome = mccgr("factorize", path, *options)
    assert outcome.status == 0, outcome.stderr
    return Way(outcome.stderr, factors_of(result)[0])


def test_it_is_the_precision_asked_for_that_must_fit(mccgr, large):
    """11.5 MB in double precision and half of that in single; W and the graph take some more."""
    halved = factorize_with(mccgr, large, "--dtype", "float32", "--memory", "17MB")
    assert "stays in its file" not in halved.stderr
    assert "stays in its file" in factorize_with(mccgr, large, "--memory", "17MB").stderr
    np.testing.assert_array_equal(halved.W, factorize_with(mccgr, large, "--dtype", "float32").W)
    single = write_dense(large.with_name("single.h5"), planted(6000, 240)[0].astype("f4"))
    assert "stays in its file" not in factorize_with(mccgr, single, "--memory", "17MB").stderr
    assert "stays in its file" in factorize_with(mccgr, single, "--memory", "17MB", "--dtype", "float64").stderr


def test_neighbours_among_the_rows_themselves_take_a_copy_of_x():
    def room(**settings):
        return Room(1e9, True, Settings(k=5), GraphSettings(**settings))

    size = Size(10**5, 1000, 8)
    assert not room(axes=10).is_exceeded_by(size)
    assert room(axes=0).is_exceeded_by(size)
    smaller = Size(62_000, 1000, 8)
    assert not room(axes=0).is_exceeded_by(smaller)
    assert room(axes=0, metric="cosine").is_exceeded_by(smaller)


def test_what_is_not_hdf5_is_in_memory_and_that_is_said(mccgr, tmp_path, monkeypatch):
    use_blocks(monkeypatch, 1 << 20)
    np.save(tmp_path / "X.npy", planted(6000, 240)[0])
    outcome = mccgr("factorize", tmp_path / "X.npy", "--k", 3, "--memory", "14MB", "--iterations", 2)
    assert outcome.status == 0
    assert "loaded whole" in outcome.stderr


def test_factors_that_do_not_fit_are_told_before_anything_is_computed(refused, large):
    message = refused("factorize", large, "--k", 200, "--memory", "10MB")
    assert message.startswith("--memory 10 MB: too little even without X: the factors ")
    assert "the graph" in message
    assert "give more --memory" in message


@pytest.mark.parametrize("amount", ["much", "-1GB", "1 TBB", "1MB", "1e30", ""])
def test_amounts_of_memory_that_are_none_are_refused(refused, large, amount):
    assert "--memory" in refused("factorize", large, "--k", 3, "--memory", amount, status=2)


# How much there is


def test_the_limits_of_control_groups_are_heeded(tmp_path):
    group = tmp_path / "slurm" / "job"
    group.mkdir(parents=True)
    (tmp_path / "own").write_text("0::/slurm/job\n")
    (group / "memory.max").write_text("4000\n")
    (group / "memory.current").write_text("3000\n")
    (group / "memory.stat").write_text("anon 1000\nfile 1500\nshmem 200\n")
    (group.parent / "memory.max").write_text("max\n")
    assert list(memory.left_by_limits(tmp_path, tmp_path / "own")) == [2300]


def test_there_is_some_memory():
    assert 10**7 < memory.available_memory() < 10**15


def test_x_stays_in_its_file_only_if_it_must():
    room = Room(1e9, True, Settings(k=5), GraphSettings())
    small, larger, endless = (Size(n, 1000, 8) for n in (10**4, 3 * 10**5, 10**8))
    assert not room.is_exceeded_by(small)
    assert room.is_exceeded_by(larger)
    with pytest.raises(MccgrError, match=r"give more --memory, a smaller --k, or fewer --axes"):
        room.is_exceeded_by(endless)
