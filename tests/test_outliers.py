"""Every sample has a certainty and an outlier score, which all files, tables and commands tell alike."""

from __future__ import annotations

import csv
import io
import json
import subprocess
import sys
from pathlib import Path

import anndata
import h5py
import numpy as np
import pytest
from conftest import planted
from far import FarBlocks
from reports import clustering
from scipy import sparse
from sklearn.metrics import roc_auc_score
from sklearn.neighbors import LocalOutlierFactor
from test_predict import clusters, rows_of, write_new  # noqa: F401

from mccgr_cli import MCCGR
from mccgr_cli.blocks.in_memory import MemoryBlocks
from mccgr_cli.core import landmarks, outliers
from mccgr_cli.core.landmarks import learn_landmarks
from mccgr_cli.core.outliers import learn_density, neighbours_for, score_new
from mccgr_cli.core.typicality import certainty_of, typicality
from mccgr_cli.files.container import encode

SAMPLE_DATA = Path(__file__).parent.parent / "sample_data"


def learn(X, k=3):
    source = MemoryBlocks(X) if isinstance(X, np.ndarray) else X
    learnt = learn_landmarks(source, np.ones(X.shape[1]), k)
    return learnt, *learn_density(source, learnt, k)


def read(path, name):
    with h5py.File(path) as file:
        return file[name][()]


# Scores


@pytest.mark.parametrize(("n", "k", "neighbors"), [(300, 3, 20), (300, 10, 15), (300, 60, 10), (8, 3, 7)])
def test_scores_are_scikit_learns_local_outlier_factors(n, k, neighbors):
    rng = np.random.default_rng(0)
    X, new = rng.gamma(2, size=(n, 12)), rng.gamma(2, size=(40, 12))
    learnt, density, scores = learn(X, k)
    peer = LocalOutlierFactor(neighbors, novelty=True).fit(learnt.points.astype(float))
    np.testing.assert_allclose(scores, -peer.negative_outlier_factor_, atol=6e-5)
    points = learnt.projection.points(MemoryBlocks(new))
    np.testing.assert_allclose(density.score(points), -peer.score_samples(points.astype(float)), atol=6e-5)
    assert density.neighbors == neighbors == neighbours_for(n, k)


@pytest.mark.parametrize("name", ["textures", "textures_noisy"])
def test_foreign_images_have_the_highest_scores(name):
    """Two textures with three images of the third, and all textures with four images whose words were exchanged."""
    X, labels = (read(SAMPLE_DATA / f"{name}.h5", part) for part in ("X", "labels"))
    for foreign in (1, 2):
        mixed = np.vstack([X[labels != foreign], X[labels == foreign][::24]])
        scores = MCCGR(n_components=2).fit(mixed).outlier_scores_
        assert roc_auc_score(np.arange(131) >= 128, scores) > 0.95
    exchanged = np.array([np.random.default_rng(row).permutation(X[row]) for row in range(0, 192, 48)])
    scores = MCCGR(n_components=3).fit(np.vstack([X, exchanged])).outlier_scores_
    assert scores[192:].min() > scores[:192].max()


def test_new_samples_of_another_kind_score_higher_than_those_of_the_same():
    model = MCCGR(n_components=3).fit(planted(n=90)[0])
    same, other = planted(n=90, seed=1)[0], np.roll(planted(n=90, seed=2)[0], 4, axis=1)
    known, foreign = model.score_outliers(same), model.score_outliers(other)
    assert 0.9 < np.median(known) < 1.2
    assert foreign.min() > known.max()


@pytest.mark.parametrize("copies", [2, 15, 60])
def test_copies_of_a_sample_are_not_isolated_and_leave_scores_finite(copies):
    X, _ = planted(n=60)
    X = np.vstack([X, np.repeat(X[:1], copies, axis=0)])
    learnt, density, scores = learn(X)
    assert np.isfinite(scores).all()
    assert scores.max() < 200
    same = scores[np.r_[0, 60 : 60 + copies]]
    assert np.ptp(same) == 0
    assert 0.5 < same[0] < 1.5
    np.testing.assert_array_equal(density.score(learnt.points), scores)


def test_all_samples_the_same_have_the_score_1():
    learnt, density, scores = learn(np.ones((40, 5)))
    assert scores.tolist() == [1.0] * 40
    assert np.isfinite(score_new(MemoryBlocks(np.eye(5)), learnt, density)).all()


@pytest.mark.parametrize("n", [1, 2, 3])
def test_few_samples_are_no_error(n):
    X = planted(n=n)[0]
    learnt, density, scores = learn(X, 1)
    assert scores.shape == (n,)
    assert np.isfinite(scores).all()
    assert scores[0] == 1 or n > 2
    again = score_new(MemoryBlocks(X), learnt, density)
    np.testing.assert_array_equal(again, scores)


@pytest.mark.parametrize("make", [np.asarray, sparse.csr_array], ids=["dense", "sparse"])
def test_of_many_samples_some_are_compared_with_and_all_are_scored(make, monkeypatch):
    """Wherever the samples are: in memory as points, or only in a source that is visited."""
    X = planted(n=301)[0]
    X[[7, 150]] = np.roll(X[[7, 150]], 4, axis=1)  # one is a landmark that is compared with, one is not a landmark
    monkeypatch.setattr(outliers, "MOST_COMPARED", 44)
    learnt, density, as_points = learn(X)
    assert len(density.landmarks) == 44
    assert set(np.argsort(-as_points)[:2]) == {7, 150}
    monkeypatch.setattr(landmarks, "MOST_LANDMARKS", 151)
    monkeypatch.setattr(outliers, "BATCH", 40)
    source = FarBlocks(make(X))
    learnt, density, visited = learn(source)
    assert (len(learnt.points), len(density.landmarks)) == (151, 44)
    assert set(np.argsort(-visited)[:2]) == {7, 150}
    whole = density.score(learnt.projection.points(MemoryBlocks(make(X))))
    np.testing.assert_allclose(visited, whole, atol=2e-4)


def test_the_number_of_threads_changes_nothing():
    code = (
        "import hashlib\nimport numpy as np\nfrom mccgr_cli.blocks.in_memory import MemoryBlocks\n"
        "from mccgr_cli.core import outliers\nfrom mccgr_cli.core.landmarks import learn_landmarks\n"
        "outliers.MOST_COMPARED = 500\nX = MemoryBlocks(np.random.default_rng(0).random((1200, 90)), block_rows=100)\n"
        "learnt = learn_landmarks(X, np.ones(90), 3)\ndensity, scores = outliers.learn_density(X, learnt, 3)\n"
        "found = (scores, density.radii, density.spacings)\n"
        "print(hashlib.sha256(b''.join(one.tobytes() for one in found)).hexdigest())"
    )
    done = [
        subprocess.run(
            [sys.executable, "-c", code],
            env={"OPENBLAS_NUM_THREADS": threads, "PYTHONPATH": ":".join(sys.path)},
            check=True,
            capture_output=True,
        ).stdout
        for threads in "123"
    ]
    assert done[0] == done[1] == done[2]


# Certainties


@pytest.mark.parametrize("make", [np.asarray, np.float32, sparse.csr_array], ids=["double", "single", "sparse"])
def test_the_certainty_of_a_matrix_is_its_simplified_silhouette(make, monkeypatch):
    X, labels = planted(n=90)
    X[X < 0.3] = 0
    labels[:2] = labels[2]
    monkeypatch.setattr("mccgr_cli.core.typicality.ROWS", 7)
    found, kind = certainty_of(make(X), labels + 5, "kmeans")
    means = np.array([X[labels == one].mean(axis=0) for one in range(3)])
    far = np.linalg.norm(X[:, None] - means, axis=2)
    own = far[np.arange(90), labels]
    other = np.where(np.eye(3, dtype=bool)[labels], np.inf, far).min(axis=1)
    np.testing.assert_allclose(found, (other - own) / np.maximum(own, other), atol=2e-6)
    assert found[:2].max() < 0 < np.median(found)
    assert kind == "silhouette"
    of_copies, _ = certainty_of(make(X[[0, 0, 0, 1, 1, 1]]), np.array([0, 0, 0, 1, 1, 1]), "kmeans")
    np.testing.assert_allclose(of_copies, 1, atol=1e-5)


def test_one_cluster_has_no_certainty(mccgr, X_file, tmp_path):
    assert certainty_of(np.eye(3), np.zeros(3, int), "kmeans")[0] is None
    mccgr("cluster", X_file, "--k", 1, "-o", tmp_path / "one.h5")
    assert "certainty" not in h5py.File(tmp_path / "one.h5")
    assert mccgr("report", tmp_path / "one.h5", "-o", tmp_path / "one.html").status == 0


@pytest.mark.parametrize(("assign", "kind"), [("max", "lead"), ("kmeans", "silhouette")])
def test_clusters_of_factors_have_the_certainty_of_the_report(mccgr, X_file, tmp_path, assign, kind):
    mccgr("factorize", X_file, "--k", 3, "-o", tmp_path / "F.h5")
    mccgr("cluster", tmp_path / "F.h5", "--assign", assign, "-o", tmp_path / "C.h5")
    W, assignments, certainty = (read(tmp_path / "C.h5", name) for name in ("W", "assignments", "certainty"))
    np.testing.assert_allclose(certainty, typicality(W, assignments, assign)[0], atol=1e-6)
    np.testing.assert_array_equal(certainty, np.round(certainty, 6))
    assert h5py.File(tmp_path / "C.h5").attrs["certainty_kind"] == kind


# Files and tables


def test_clusters_have_the_scores_of_their_factors_whatever_their_number(mccgr, clusters, tmp_path):  # noqa: F811
    scores = read(tmp_path / "F.h5", "outlier")
    assert scores.shape == (60,)
    np.testing.assert_array_equal(scores, np.round(scores, 4))
    mccgr("cluster", tmp_path / "F.h5", "--k", 2, "-o", tmp_path / "two.h5")
    for path in (clusters, tmp_path / "two.h5"):
        np.testing.assert_array_equal(read(path, "outlier"), scores)


def test_tables_have_both_after_the_cluster(mccgr, X_file, clusters, tmp_path):  # noqa: F811
    printed = mccgr("export", clusters, "--format", "csv", "-o", "-").stdout
    rows = list(csv.DictReader(io.StringIO(printed)))
    assert list(rows[0]) == ["sample", "cluster", "certainty", "outlier", "label"]
    for name in ("certainty", "outlier"):
        assert [float(row[name]) for row in rows] == read(clusters, name).tolist()
    mccgr("cluster", X_file, "--k", 3, "-o", tmp_path / "baseline.h5")
    printed = mccgr("export", tmp_path / "baseline.h5", "--format", "tsv", "-o", "-").stdout
    assert printed.splitlines()[0] == "sample\tcluster\tcertainty\tlabel"  # a matrix has no landmarks
    new = rows_of(mccgr("predict", clusters, write_new(tmp_path / "new.h5")))
    assert list(new[0]) == ["sample", "cluster", "certainty", "outlier", "class", "label"]


def test_anndata_has_both_as_columns(mccgr, clusters, tmp_path):  # noqa: F811
    assert mccgr("export", clusters, "-o", tmp_path / "C.h5ad").status == 0
    exported = anndata.read_h5ad(tmp_path / "C.h5ad")
    assert list(exported.obs) == ["cluster", "certainty", "outlier", "label"]
    for name in ("certainty", "outlier"):
        assert exported.obs[name].tolist() == read(clusters, name).tolist()
        assert name not in exported.uns["mccgr"]
    assert exported.uns["mccgr"]["density"]["radii"].tolist() == read(clusters, "density/radii").tolist()
    for suffix in ("npz", "mat"):
        assert mccgr("export", clusters, "-o", tmp_path / f"C.{suffix}").status == 0
    assert np.load(tmp_path / "C.npz")["outlier"].tolist() == read(clusters, "outlier").tolist()


def test_info_names_the_least_typical_samples(mccgr, tmp_path):
    scores = np.ones(90)
    scores[[4, 2, 9, 7]] = 1.5, 3.25, 1.49, 2
    contents = clustering(outlier=scores)
    (tmp_path / "C.h5").write_bytes(encode(contents))
    health = json.loads(mccgr("info", tmp_path / "C.h5", "--format", "json").stdout)["health"]
    assert health["outliers"] == "3 samples with a score of 1.5 or more"
    assert health["least typical"] == "cat/2.png (3.25), bee/7.png (2.00), bee/4.png (1.50)"
    assert "cat/2.png (3.25)" in mccgr("info", tmp_path / "C.h5").stdout


# New samples


def test_old_samples_keep_their_scores(mccgr, X_file, clusters):  # noqa: F811
    rows = rows_of(mccgr("predict", clusters, X_file))
    np.testing.assert_allclose([float(row["outlier"]) for row in rows], read(clusters, "outlier"), atol=2e-4)


def test_the_estimator_has_the_numbers_of_the_commands(mccgr, X_file, clusters, tmp_path):  # noqa: F811
    X, new = planted()[0], write_new(tmp_path / "new.h5")
    model = MCCGR(n_components=3).fit(X)
    np.testing.assert_array_equal(model.outlier_scores_, read(clusters, "outlier"))
    np.testing.assert_array_equal(model.certainty_, read(clusters, "certainty"))
    np.testing.assert_allclose(model.score_outliers(X), model.outlier_scores_, atol=2e-4)
    rows = rows_of(mccgr("predict", clusters, new))
    np.testing.assert_array_equal(model.score_outliers(read(new, "X")), [float(row["outlier"]) for row in rows])
    assert MCCGR(n_components=1, n_clusters=1).fit(X[:1]).score_outliers(X).tolist() == [1.0] * 60


def test_a_model_without_density_predicts_without_scores(mccgr, X_file, clusters, tmp_path):  # noqa: F811
    with h5py.File(clusters, "a") as file:
        del file["density"], file["outlier"]
    assert "outlier" not in rows_of(mccgr("predict", clusters, X_file))[0]
    assert "outliers" not in mccgr("info", clusters).stdout


@pytest.mark.parametrize(
    ("name", "change", "words"),
    [
        ("density/landmarks", lambda values: values + 1, "points outside"),
        ("density/landmarks", lambda values: values - 1, "negative"),
        ("density/radii", lambda values: values[:-1], "entries"),
        ("density/radii", lambda values: -values, "negative"),
        ("density/spacings", lambda values: values * np.nan, "non-finite"),
        ("density/spacings", lambda values: None, "without"),
        ("outlier", lambda values: values - 3, "negative"),
        ("certainty", lambda values: values - 3, "not from -1 to 1"),
    ],
)
def test_scores_that_do_not_fit(refused, X_file, clusters, name, change, words):  # noqa: F811
    with h5py.File(clusters, "a") as file:
        changed = change(file[name][()])
        del file[name]
        if changed is not None:
            file[name] = changed
    assert words in refused("predict", clusters, X_file)


@pytest.mark.parametrize("neighbors", [0, 60, "ten", None])
def test_a_number_of_neighbours_that_does_not_fit(refused, X_file, clusters, neighbors):  # noqa: F811
    with h5py.File(clusters, "a") as file:
        del file.attrs["outlier_neighbors"]
        if neighbors is not None:
            file.attrs["outlier_neighbors"] = neighbors
    assert "outlier_neighbors" in refused("predict", clusters, X_file)


def test_density_without_landmarks_is_refused(refused, X_file, clusters):  # noqa: F811
    with h5py.File(clusters, "a") as file:
        del file["landmarks"]
    assert "points outside" in refused("info", clusters)


def test_new_coefficients_have_no_scores(mccgr, X_file, clusters, tmp_path):  # noqa: F811
    mccgr("transform", clusters, X_file, "-o", tmp_path / "new.h5")
    mccgr("cluster", tmp_path / "new.h5", "-o", tmp_path / "C2.h5")
    with h5py.File(tmp_path / "C2.h5") as file:
        assert "certainty" in file
        assert "outlier" not in file
        assert "outlier_neighbors" not in file.attrs


# The report


def page_of(mccgr, contents, tmp_path):
    (tmp_path / "C.h5").write_bytes(encode(contents))
    assert mccgr("report", tmp_path / "C.h5", "-o", tmp_path / "C.html", "--overwrite").status == 0
    return (tmp_path / "C.html").read_text()


def test_the_report_shows_the_stored_certainty(mccgr, tmp_path):
    stored = np.linspace(1, -1, 90)
    without_factors = (
        "W",
        "H",
        "rho",
        *(f"history/{name}" for name in ("objective", "data", "graph", "sigma", "seconds")),
    )
    for left_out in ((), without_factors):
        contents = clustering(certainty=stored, **dict.fromkeys(left_out))
        page = page_of(mccgr, contents, tmp_path)
        _, _, part = page.partition('id="cluster-1"')
        members = np.flatnonzero(contents["assignments"] == 1)
        first, second = (part.index(contents["sample_names"][i]) for i in members[:2])
        assert first < second < part.index(contents["sample_names"][members[-1]])
        assert f"{stored[members[0]]:.2f}" in part
    computed = page_of(mccgr, clustering(), tmp_path)
    assert computed != page


def test_the_report_says_what_a_certainty_is(mccgr, X_file, clusters, tmp_path):  # noqa: F811
    texts = {"lead": "its largest coefficient and the next", "silhouette": "at the mean of its", "votes": "old samples"}
    mccgr("cluster", X_file, "--k", 3, "-o", tmp_path / "silhouette.h5")
    mccgr("predict", clusters, X_file, "-o", tmp_path / "votes.h5")
    clusters.rename(tmp_path / "lead.h5")
    for kind in texts:
        mccgr("report", tmp_path / f"{kind}.h5", "-o", tmp_path / f"{kind}.html")
        page = (tmp_path / f"{kind}.html").read_text()
        assert [text for text in texts.values() if text in page] == [texts[kind]]
    with h5py.File(tmp_path / "votes.h5", "a") as file:
        del file.attrs["certainty_kind"]  # only predict stored certainties before there was this attribute
    mccgr("report", tmp_path / "votes.h5", "-o", tmp_path / "older.html")
    assert texts["votes"] in (tmp_path / "older.html").read_text()
