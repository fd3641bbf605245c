"""mccgr factorize, as its users call it."""

from __future__ import annotations

import json

import h5py
import numpy as np
import pytest
from conftest import planted
from scipy import sparse

from mccgr_cli.settings import METHODS


def datasets(path):
    with h5py.File(path) as file:
        return {name: file[name][()] for name in ("W", "H", "rho")}


def test_names_its_output_after_the_input_and_prints_it(mccgr, X_file):
    outcome = mccgr("factorize", X_file, "--alpha", 100, "--k", 5)
    expected = X_file.with_name("X.factors.h5")
    assert outcome.status == 0
    assert outcome.stdout == f"{expected}\n"
    assert expected.exists()


@pytest.mark.parametrize("method", METHODS)
def test_every_method_writes_factors(mccgr, X_file, tmp_path, method):
    outcome = mccgr("factorize", X_file, "--k", 3, "--method", method, "-o", tmp_path / "F.h5", "--iterations", 5)
    assert outcome.status == 0
    assert outcome.stdout == ""
    found = datasets(tmp_path / "F.h5")
    assert found["W"].shape == (60, 3)
    assert found["H"].shape == (3, 24)
    with h5py.File(tmp_path / "F.h5") as file:
        assert file.attrs["kind"] == "factors"
        assert file.attrs["method"] == method
        assert [len(file["history"][name]) for name in file["history"]] == [6] * 5
        assert file["sample_names"].asstr()[3] == "s3"
        assert file["label_names"].asstr()[()].tolist() == ["ant", "bee", "cat"]


def test_same_seed_same_bytes(mccgr, X_file, tmp_path):
    for name, seed in (("a", 4), ("b", 4), ("c", 5)):
        mccgr("factorize", X_file, "--k", 3, "--init", "random", "--seed", seed, "-o", tmp_path / name)
    a, b, c = (datasets(tmp_path / name) for name in "abc")
    assert a["W"].tobytes() == b["W"].tobytes()
    assert a["H"].tobytes() == b["H"].tobytes()
    assert a["W"].tobytes() != c["W"].tobytes()


def test_a_graph_made_before_gives_the_same_factors(mccgr, X_file, tmp_path):
    mccgr("graph", X_file, "--k", 3, "--graph-features", "plain", "-o", tmp_path / "A.h5")
    mccgr("factorize", X_file, "--k", 3, "--graph-features", "plain", "-o", tmp_path / "a.h5")
    mccgr("factorize", X_file, "--k", 3, "--graph", tmp_path / "A.h5", "-o", tmp_path / "b.h5")
    assert datasets(tmp_path / "a.h5")["W"].tobytes() == datasets(tmp_path / "b.h5")["W"].tobytes()


def test_graph_options_matter(mccgr, X_file, tmp_path):
    mccgr("factorize", X_file, "--k", 3, "-o", tmp_path / "a.h5")
    mccgr("factorize", X_file, "--k", 3, "--neighbors", 2, "-o", tmp_path / "b.h5")
    assert datasets(tmp_path / "a.h5")["W"].tobytes() != datasets(tmp_path / "b.h5")["W"].tobytes()


def test_starting_from_a_file_goes_on_from_there(mccgr, X_file, tmp_path):
    options = ("--k", 3, "--preset", "paper", "--bandwidth", "2.5", "--tolerance", 0)
    mccgr("factorize", X_file, *options, "--iterations", 4, "-o", tmp_path / "a.h5")
    mccgr("factorize", X_file, *options, "--iterations", 6, "--init", tmp_path / "a.h5", "-o", tmp_path / "b.h5")
    mccgr("factorize", X_file, *options, "--iterations", 10, "-o", tmp_path / "c.h5")
    np.testing.assert_allclose(datasets(tmp_path / "b.h5")["W"], datasets(tmp_path / "c.h5")["W"], rtol=1e-9)


def test_sparse_single_precision_and_normalization(mccgr, tmp_path):
    X, _ = planted()
    X[X < 1] = 0
    sparse.save_npz(tmp_path / "X.npz", sparse.csr_matrix(X))
    np.save(tmp_path / "X.npy", (X / np.linalg.norm(X, axis=1, keepdims=True)).astype(np.float32))
    mccgr("factorize", tmp_path / "X.npz", "--k", 3, "--normalize", "l2", "--dtype", "float32", "-o", tmp_path / "a.h5")
    mccgr("factorize", tmp_path / "X.npy", "--k", 3, "--normalize", "none", "-o", tmp_path / "b.h5")
    a, b = datasets(tmp_path / "a.h5"), datasets(tmp_path / "b.h5")
    assert a["W"].dtype == b["W"].dtype == np.float32
    np.testing.assert_allclose(a["W"] @ a["H"], b["W"] @ b["H"], atol=0.01)


def test_transpose_takes_samples_from_columns(mccgr, tmp_path):
    X, _ = planted()
    np.save(tmp_path / "X.npy", X)
    np.save(tmp_path / "T.npy", X.T)
    mccgr("factorize", tmp_path / "X.npy", "--k", 3, "-o", tmp_path / "a.h5")
    mccgr("factorize", tmp_path / "T.npy", "--k", 3, "--transpose", "-o", tmp_path / "b.h5")
    np.testing.assert_allclose(datasets(tmp_path / "a.h5")["W"], datasets(tmp_path / "b.h5")["W"], rtol=1e-6)


def test_provenance_says_how_it_came_to_be(mccgr, X_file, tmp_path):
    import hashlib

    mccgr("factorize", X_file, "--k", 3, "--seed", 7, "-o", tmp_path / "F.h5")
    with h5py.File(tmp_path / "F.h5") as file:
        provenance = json.loads(file.attrs["provenance"])
    assert provenance["command"] == "factorize"
    assert provenance["parameters"]["seed"] == 7
    assert provenance["inputs"][0]["sha256"] == hashlib.sha256(X_file.read_bytes()).hexdigest()
    assert {"mccgr", "python", "numpy"} <= provenance["versions"].keys()


def test_quiet_says_nothing_and_the_rest_goes_to_stderr(mccgr, X_file, tmp_path):
    quiet = mccgr("factorize", X_file, "--k", 3, "-q", "-o", tmp_path / "a.h5")
    assert (quiet.stdout, quiet.stderr) == ("", "")
    told = mccgr("factorize", X_file, "--k", 3, "-o", tmp_path / "b.h5")
    assert told.stdout == ""
    assert "graph: 60 samples" in told.stderr
    assert "objective" in told.stderr


def test_a_graph_that_is_not_used_is_said_so(mccgr, X_file, tmp_path):
    mccgr("graph", X_file, "-o", tmp_path / "A.h5")
    outcome = mccgr("factorize", X_file, "--k", 3, "--method", "l2", "--graph", tmp_path / "A.h5", "-o", tmp_path / "F")
    assert "--graph: not used" in outcome.stderr
