"""A long run first prints its time and memory, or refuses what does not fit into memory or onto the disk."""

from __future__ import annotations

import numpy as np
import pytest
from conftest import planted
from grain import make_folder

from mccgr_cli.blocks.protocol import Size
from mccgr_cli.errors import MccgrError
from mccgr_cli.files import atomic_write as storage
from mccgr_cli.settings import GraphSettings, Settings
from mccgr_cli.system import memory
from mccgr_cli.workflow import estimate, factorization, stages
from mccgr_cli.workflow.placement import Room


@pytest.fixture
def always(monkeypatch):
    """Also where runs are short."""
    monkeypatch.setattr(estimate, "WORTHWHILE", 0)


@pytest.mark.parametrize(
    "options",
    [
        (),
        ("--solver", "coordinate"),
        ("--method", "kl"),
        ("--method", "pg", "--dtype", "float32"),
        ("--axes", 0, "--weight", "cosine"),
        ("--graph-features", "plain", "--method", "grnmf"),
        ("--metric", "histogram", "--restarts", 3),
        ("--memory", "10MB"),
    ],
)
def test_a_long_run_prints_time_and_memory(mccgr, tmp_path, always, options):
    np.save(tmp_path / "X.npy", planted(600, 30)[0])
    outcome = mccgr("factorize", tmp_path / "X.npy", "--k", 3, "--iterations", 7, "-o", tmp_path / "F.h5", *options)
    assert outcome.status == 0
    (line,) = [line for line in outcome.stderr.splitlines() if line.startswith("estimate: ")]
    iterations = 21 if "--restarts" in options else 7
    assert f"at most {iterations} iterations of " in line
    assert line.endswith("of memory")
    has_graph = not {"kl", "pg"} & set(options)
    assert ("the graph" in line) == has_graph


def test_a_short_or_quiet_run_does_not(mccgr, X_file, tmp_path, monkeypatch):
    assert "estimate" not in mccgr("factorize", X_file, "--k", 3, "-o", tmp_path / "F.h5").stderr
    monkeypatch.setattr(estimate, "WORTHWHILE", 0)
    assert mccgr("factorize", X_file, "--k", 3, "-o", tmp_path / "G.h5", "-q").stderr == ""


@pytest.mark.parametrize("shape", [(1, 1), (1, 5), (2, 1), (3, 400)])
def test_the_smallest_matrices_have_an_estimate_too(mccgr, tmp_path, always, shape):
    np.save(tmp_path / "X.npy", np.ones(shape))
    assert mccgr("factorize", tmp_path / "X.npy", "--k", 1, "-o", tmp_path / "F.h5").status == 0


def test_sampled_rows_of_zeros_are_no_error(mccgr, tmp_path, always, monkeypatch):
    monkeypatch.setattr(estimate, "SAMPLE_BYTES", 24 * 8 * 30)
    X, _ = planted()
    X[:30] = 0
    np.save(tmp_path / "X.npy", X)
    command = ("factorize", tmp_path / "X.npy", "--k", 2, "--method", "gdcls", "--ridge", 5, "--normalize", "none")
    outcome = mccgr(*command, "-o", tmp_path / "F.h5")
    assert outcome.status == 0, outcome.stderr
    assert "estimate" not in outcome.stderr


def test_an_exact_search_that_takes_long_names_the_other(mccgr, X_file, tmp_path, always, monkeypatch):
    monkeypatch.setattr(estimate, "LONG_SEARCH", 0)
    outcome = mccgr("factorize", X_file, "--k", 3, "-o", tmp_path / "F.h5")
    assert "--search approximate finds nearly all" in outcome.stderr
    outcome = mccgr("factorize", X_file, "--k", 3, "-o", tmp_path / "G.h5", "--search", "exact")
    assert "--search approximate" not in outcome.stderr
    outcome = mccgr("factorize", X_file, "--k", 3, "-o", tmp_path / "H.h5", "--metric", "histogram")
    assert "--search approximate" not in outcome.stderr


# Disk


def test_no_room_on_the_disk_is_found_before_anything_is_computed(refused, X_file, tmp_path, monkeypatch):
    def never(*_, **__):
        raise AssertionError("it computes")

    monkeypatch.setattr(factorization, "factorize", never)
    monkeypatch.setattr(stages, "make_graph", never)
    monkeypatch.setattr("mccgr_cli.images.extract.learn_codebooks", never)
    monkeypatch.setattr(storage.shutil, "disk_usage", lambda _: storage.shutil._ntuple_diskusage(100, 90, 10))
    output = tmp_path / "out.h5"
    assert "10 B are free" in refused("factorize", X_file, "--k", 3, "-o", output)
    assert "10 B are free" in refused("graph", X_file, "-o", output)
    make_folder(tmp_path / "images", 2)
    assert "10 B are free" in refused("extract", tmp_path / "images", "-o", output)
    assert not output.exists()


# Memory


def room(limit, given=False, **more):
    return Room(limit, given, Settings(k=10, **more), GraphSettings())


def test_single_precision_is_named_where_it_helps():
    size = Size(10**6, 10_000_000, 8)
    enough = room(1).needed(Size(10**6, 10_000_000, 4)) * 1.01
    assert room(1).needed(size) > enough
    with pytest.raises(MccgrError, match="use a larger machine, --dtype float32, a smaller --k, or fewer --axes"):
        room(enough).check_rest(size)
    with pytest.raises(MccgrError, match="use a larger machine, a smaller --k"):
        room(enough / 2).check_rest(size)


def test_a_matrix_that_cannot_stay_in_its_file_must_fit_with_the_rest():
    size = Size(10**5, 1000, 8)
    room(2e9).check_whole(size, "X.npy")
    with pytest.raises(MccgrError, match=r"850 MB of free memory: X.npy takes 800 MB and the rest .*as HDF5 by rows"):
        room(8.5e8).check_whole(size, "X.npy")
    room(8.5e8, given=True).check_whole(size, "X.npy")  # a limit given by the user is only a warning


def test_checkpoints_are_counted():
    size = Size(10**6, 100, 8)
    plain, kept = (Room(1e12, False, Settings(k=100), None, checkpoints) for checkpoints in (0, 1))
    assert kept.needed(size) - plain.needed(size) == kept.kept(size) > 8 * 10**8


def test_what_is_clustered_or_compared_whole_is_refused_if_it_does_not_fit(refused, X_file, tmp_path, monkeypatch):
    monkeypatch.setattr(memory, "available_memory", lambda: 10_000)
    for command in (("cluster", X_file, "--k", 3), ("experiment", X_file, "--k", 2, "--runs", 1)):
        message = refused(*command, "-o", tmp_path / "out.h5")
        assert "X takes 11.5 kB of memory, and 10 kB are free" in message
