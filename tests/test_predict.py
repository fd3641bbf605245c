"""New samples get the clusters of the most similar old samples, and old samples keep theirs."""

from __future__ import annotations

import csv
import io
import json
import shutil
from pathlib import Path

import h5py
import numpy as np
import pytest
from conftest import planted
from scipy import sparse

from mccgr_cli.blocks.in_memory import MemoryBlocks
from mccgr_cli.core import landmarks
from mccgr_cli.core.landmarks import learn_landmarks
from mccgr_cli.core.metrics import evaluate
from mccgr_cli.core.neighbours.exact import neighbours_among
from mccgr_cli.files.container import Contents, encode

TEXTURES = Path(__file__).parent.parent / "sample_data" / "textures"
OLD_FILES = Path(__file__).parent / "old_files"
NAMES = ["ant", "bee", "cat"]


@pytest.fixture
def clusters(mccgr, X_file, tmp_path):
    factors, path = tmp_path / "F.h5", tmp_path / "C.h5"
    assert mccgr("factorize", X_file, "--k", 3, "-o", factors).status == 0
    assert mccgr("cluster", factors, "-o", path).status == 0
    return path


def write_new(path, n=30, seed=1, **more):
    X, labels = planted(n=n, seed=seed)
    path.write_bytes(encode(Contents("matrix", {"X": X, "labels": labels, "label_names": NAMES, **more})))
    return path


def rows_of(outcome):
    assert outcome.status == 0, outcome.stderr
    return list(csv.DictReader(io.StringIO(outcome.stdout)))


def assignments_of(path):
    with h5py.File(path) as file:
        return file["assignments"][()]


# Landmarks


@pytest.mark.parametrize("make", [np.asarray, sparse.csr_array], ids=["dense", "sparse"])
@pytest.mark.parametrize("d", [1, 2, 24])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_old_samples_keep_their_clusters_whatever_these_are(make, d, dtype):
    rng = np.random.default_rng(0)
    X = make(rng.random((200, d)).astype(dtype))
    clusters = rng.integers(-3, 7, 200)
    learnt = learn_landmarks(MemoryBlocks(X, block_rows=30), np.ones(d), 3)
    found, certainty = learnt.predict(MemoryBlocks(X[::-1], block_rows=7), clusters)
    np.testing.assert_array_equal(found[::-1], clusters)
    assert certainty.min() > 0.9
    assert certainty.max() == 1


def test_features_without_weight_do_not_count():
    X, _ = planted()
    rho = np.ones(24)
    rho[:4] = 0
    learnt = learn_landmarks(MemoryBlocks(X), rho, 3)
    changed = X.copy()
    changed[:, :4] = 100 * np.random.default_rng(0).random((60, 4))
    np.testing.assert_array_equal(learnt.predict(MemoryBlocks(changed), np.arange(60))[0], np.arange(60))


def test_of_many_samples_evenly_spaced_ones_are_landmarks(monkeypatch):
    X, labels = planted(n=301)
    whole = learn_landmarks(MemoryBlocks(X), np.ones(24), 3)
    monkeypatch.setattr(landmarks, "MOST_LANDMARKS", 31)
    some = learn_landmarks(MemoryBlocks(X, block_rows=50), np.ones(24), 3)
    np.testing.assert_array_equal(some.samples, np.arange(0, 301, 10))
    np.testing.assert_allclose(some.points, whole.points[::10], atol=1e-6)
    np.testing.assert_array_equal(some.predict(MemoryBlocks(X), labels)[0], labels)


def test_near_landmarks_outvote_far_ones():
    points = np.array([[0.0], [1.0], [1.1], [1.2], [1.3]], dtype=np.float32)
    learnt = landmarks.Landmarks(Identity(), points, np.arange(5))
    clusters = np.array([4, 7, 7, 7, 7])
    found, certainty = learnt.predict(MemoryBlocks(np.array([[0.1], [0.9]])), clusters)
    assert found.tolist() == [4, 7]
    squares = (points[:, 0].astype(float) - 0.1) ** 2
    assert certainty[0] == pytest.approx(1 / squares[0] / (1 / squares).sum(), abs=1e-5)


class Identity:
    """A projection that leaves samples where they are."""

    def points(self, source):
        return source.take(slice(0, source.shape[0])).astype(np.float32)


def test_all_samples_the_same_is_no_error():
    learnt = learn_landmarks(MemoryBlocks(np.ones((4, 3))), np.zeros(3), 2)
    found, certainty = learnt.predict(MemoryBlocks(np.eye(3)), np.array([5, 5, 5, 5]))
    assert found.tolist() == [5, 5, 5]
    assert certainty.tolist() == [1, 1, 1]


def test_neighbours_among_others_are_those_of_all_distances():
    rng = np.random.default_rng(0)
    X, queries = (1e-5 * rng.random((n, 3)) + np.arange(n)[:, None] % 2 for n in (500, 40))  # two dense groups
    squares = ((queries[:, None] - X[None]) ** 2).sum(axis=2)
    columns, found = neighbours_among(X, queries, 5)
    np.testing.assert_allclose(found, np.sort(squares, axis=1)[:, :5], rtol=1e-9)
    np.testing.assert_allclose(np.take_along_axis(squares, columns, 1), found, rtol=1e-9)


# The command


def test_old_samples_keep_their_clusters(mccgr, X_file, clusters):
    rows = rows_of(mccgr("predict", clusters, X_file))
    assert [int(row["cluster"]) for row in rows] == assignments_of(clusters).tolist()
    assert [row["sample"] for row in rows] == [f"s{i}" for i in range(60)]
    assert {row["certainty"] for row in rows} == {"1.0"}


@pytest.mark.parametrize("method", ["mccgr", "kl"])
@pytest.mark.parametrize("assign", ["kmeans", "max"])
def test_new_samples_go_to_the_clusters_and_classes_of_their_groups(mccgr, X_file, tmp_path, method, assign):
    factors = mccgr("factorize", X_file, "--k", 3, "--method", method, "-o", "-")
    mccgr("cluster", "-", "--assign", assign, "-o", tmp_path / "C.h5", stdin=factors.output)
    rows = rows_of(mccgr("predict", tmp_path / "C.h5", write_new(tmp_path / "new.h5")))
    assert [row["class"] for row in rows] == [row["label"] for row in rows] == [NAMES[i % 3] for i in range(30)]


def test_without_labels_there_are_no_classes(mccgr, tmp_path):
    X, new = planted()[0], planted(seed=1)[0]
    np.save(tmp_path / "X.npy", X)
    np.save(tmp_path / "new.npy", new)
    mccgr("factorize", tmp_path / "X.npy", "--k", 3, "-o", tmp_path / "F.h5")
    mccgr("cluster", tmp_path / "F.h5", "-o", tmp_path / "C.h5")
    assert list(rows_of(mccgr("predict", tmp_path / "C.h5", tmp_path / "new.npy"))[0]) == [
        *("sample", "cluster", "certainty", "outlier")
    ]


def test_all_formats_say_the_same(mccgr, clusters, tmp_path):
    new = write_new(tmp_path / "new.h5", sample_names=[f"n{i}" for i in range(30)])
    printed = mccgr("predict", clusters, new)
    for form in ("csv", "json", "h5"):
        outcome = mccgr("predict", clusters, new, "-o", tmp_path / f"out.{form}")
        assert outcome.status == 0, outcome.stderr
        assert outcome.stdout == ""
    rows = rows_of(printed)
    assert (tmp_path / "out.csv").read_text() == printed.stdout
    objects = json.loads((tmp_path / "out.json").read_text())
    assert [{name: str(value) for name, value in one.items()} for one in objects] == rows
    assert mccgr("predict", clusters, new, "--format", "json").stdout == (tmp_path / "out.json").read_text()
    with h5py.File(tmp_path / "out.h5") as file:
        assert file["assignments"][()].tolist() == [one["cluster"] for one in objects]
        assert file["certainty"][()].tolist() == [one["certainty"] for one in objects]
        assert list(file["sample_names"].asstr()) == [one["sample"] for one in objects]
    exported = mccgr("export", tmp_path / "out.h5", "--format", "csv", "-o", "-")
    assert exported.stdout == printed.stdout


def test_features_are_matched_by_name(mccgr, refused, clusters, tmp_path):
    X, _ = planted(n=12, seed=5)
    names = [f"f{j}" for j in range(24)]
    for path, order in (("a.csv", names), ("b.csv", names[::-1])):
        columns = X if order is names else X[:, ::-1]
        np.savetxt(tmp_path / path, columns, delimiter=",", header=",".join(order), comments="")
    one, other = (rows_of(mccgr("predict", clusters, tmp_path / path)) for path in ("a.csv", "b.csv"))
    assert [row["cluster"] for row in one] == [row["cluster"] for row in other]
    np.savetxt(tmp_path / "c.csv", X, delimiter=",", header=",".join(["other", *names[1:]]), comments="")
    assert "no feature 'f0'" in refused("predict", clusters, tmp_path / "c.csv", "-q")


def test_the_same_clusters_with_little_memory(mccgr, tmp_path):
    """Landmarks are learnt, and new samples placed, without loading X."""
    X, _ = planted(6000, 240)
    for name, rows in (("old", X), ("new", X[::-1])):
        (tmp_path / f"{name}.h5").write_bytes(encode(Contents("matrix", {"X": rows})))
    tables = []
    for way in ([], ["--memory", "10MB"]):
        factors, clusters = tmp_path / f"F{len(way)}.h5", tmp_path / f"C{len(way)}.h5"
        options = ("--k", 3, "--method", "l2", "--iterations", 5, "--normalize", "hellinger")
        learning = mccgr("factorize", tmp_path / "old.h5", *options, "-o", factors, *way)
        mccgr("cluster", factors, "-o", clusters)
        placing = mccgr("predict", clusters, tmp_path / "new.h5", *way)
        assert [("stays in its file" in one.stderr) for one in (learning, placing)] == [bool(way)] * 2
        tables.append((rows_of(placing), h5py.File(factors)["landmarks/points"][()]))
    assert tables[0][0] == tables[1][0]
    np.testing.assert_allclose(tables[1][1], tables[0][1], atol=1e-6)


# Evaluate


def test_evaluate_uses_the_classes_of_the_old_samples(mccgr, clusters, tmp_path):
    """New samples whose labels were exchanged all count as wrong, although a new matching would fit them."""
    new = write_new(tmp_path / "new.h5")
    with h5py.File(new, "a") as file:
        file["labels"][:] = (file["labels"][()] + 1) % 3
    mccgr("predict", clusters, new, "-o", tmp_path / "P.h5")
    outcome = mccgr("evaluate", tmp_path / "P.h5", "--format", "json")
    assert json.loads(outcome.stdout)["accuracy"] == 0
    assert json.loads(outcome.stdout)["nmi"] == 1
    assert len(outcome.stderr.splitlines()) == 1
    assert "learnt from" in outcome.stderr
    (tmp_path / "other.txt").write_text("\n".join(f"class {i % 3}" for i in range(30)))
    other = mccgr("evaluate", tmp_path / "P.h5", "--labels", tmp_path / "other.txt", "--format", "json")
    assert json.loads(other.stdout)["accuracy"] == 1  # other classes than those of the old samples
    assert "by row order" in other.stderr
    assert "learnt from" not in other.stderr
    assert mccgr("report", tmp_path / "P.h5", "-o", tmp_path / "P.html").status == 0


def test_known_classes_are_used_where_they_occur():
    labels, clusters = ["a", "a", "b", "b"], np.array([5, 5, 5, 9])
    assert evaluate(labels, clusters, {5: "b", 9: "a"}).accuracy == 0.25
    assert evaluate(labels, clusters, {5: "b", 7: "a"}).matches == ["b"]
    assert evaluate(labels, clusters, {}).accuracy == evaluate(labels, clusters, {5: "x"}).accuracy == 0.75


# Images


@pytest.fixture
def model(mccgr, tmp_path):
    """The folder of a run with some images of each texture; ``new`` has others."""
    for category in ("brick", "grass", "gravel"):
        for name, some in (("old", slice(0, 6)), ("new", slice(6, 8))):
            folder = tmp_path / name / category
            folder.mkdir(parents=True)
            for path in sorted((TEXTURES / category).iterdir())[some]:
                shutil.copy(path, folder)
    outcome = mccgr("run", tmp_path / "old", "--k", 3, "--words", 20, "--jobs", 0, "-q", "-o", tmp_path / "out")
    assert outcome.status == 0, outcome.stderr
    return tmp_path / "out"


def test_new_images_are_described_by_the_old_words(mccgr, refused, model, tmp_path):
    known = rows_of(mccgr("predict", model, tmp_path / "old", "--jobs", 0))
    assert [int(row["cluster"]) for row in known] == assignments_of(model / "clusters.h5").tolist()
    by_hand = tmp_path / "new.h5"
    mccgr("extract", tmp_path / "new", "--codebook", model / "matrix.h5", "--jobs", 0, "-o", by_hand)
    rows = rows_of(mccgr("predict", model, tmp_path / "new", "--jobs", 0))
    assert rows == rows_of(mccgr("predict", model / "clusters.h5", by_hand))
    assert rows[0]["sample"] == "brick/brick_06.png"
    one = rows_of(mccgr("predict", model, tmp_path / "new" / "brick" / "brick_06.png", "--jobs", 0))
    assert (one[0]["cluster"], one[0]["certainty"]) == (rows[0]["cluster"], rows[0]["certainty"])

    moved = model.rename(tmp_path / "moved")  # the matrix is beside the clusters
    assert rows_of(mccgr("predict", moved / "clusters.h5", tmp_path / "new", "--jobs", 0)) == rows
    words = (moved / "matrix.h5").rename(tmp_path / "words.h5")
    assert "--codebook" in refused("predict", moved, tmp_path / "new")
    given = mccgr("predict", moved, tmp_path / "new", "--codebook", words, "--jobs", 0)
    assert rows_of(given) == rows


# Refusals


def test_images_for_a_model_of_a_matrix(refused, clusters, tmp_path):
    assert "not made from images" in refused("predict", clusters, TEXTURES)


def test_models_that_cannot_predict(mccgr, refused, X_file, clusters, tmp_path):
    assert "should be" in refused("predict", tmp_path / "F.h5", X_file)
    (tmp_path / "empty").mkdir()
    assert "no clusters.h5" in refused("predict", tmp_path / "empty", X_file)
    mccgr("cluster", X_file, "--k", 3, "-o", tmp_path / "baseline.h5")
    assert "clusters of a matrix" in refused("predict", tmp_path / "baseline.h5", X_file)
    old = next(OLD_FILES.rglob("clusters.h5"))
    message = refused("predict", old, old.with_name("samples.h5"))
    assert "no landmarks" in message
    assert "factorize" in message
    mccgr("predict", clusters, X_file, "-o", tmp_path / "P.h5")
    assert "without the factors" in refused("predict", tmp_path / "P.h5", X_file)


def test_options_without_effect_and_bad_names(refused, X_file, clusters, tmp_path):
    assert "is a matrix" in refused("predict", clusters, X_file, "--no-labels", status=2)
    assert "not a matrix" in refused("predict", clusters, TEXTURES, "--transpose", status=2)
    assert ".csv, .json or .h5" in refused("predict", clusters, X_file, "-o", tmp_path / "P.txt", status=2)
    assert "--format" in refused("predict", clusters, X_file, "-o", tmp_path / "P.csv", "--format", "json", status=2)
    assert "only once" in refused("predict", "-", "-", status=2)
    assert "no such file" in refused("predict", tmp_path / "none.h5", X_file)
    assert "no such file" in refused("predict", clusters, tmp_path / "none.h5")
    assert "also an input" in refused("predict", clusters, X_file, "-o", clusters, "--overwrite")


@pytest.mark.parametrize(
    ("name", "change", "words"),
    [
        ("landmarks/samples", lambda values: values + 1, "points outside"),
        ("landmarks/samples", lambda values: values - 1, "negative"),
        ("landmarks/samples", lambda values: values[:-1], "entries"),
        ("landmarks/points", lambda values: values * np.nan, "values that are not from"),
        ("landmarks/points", lambda values: values[:, :-1], "entries"),
        ("landmarks/right", lambda values: values * 1e30, "values that are not from"),
        ("landmarks/right", lambda values: values[:-1], "entries"),
        ("landmarks/offset", lambda values: values[0], "dimensions"),
        ("landmarks/offset", lambda values: None, "without"),
    ],
)
def test_landmarks_that_do_not_fit(refused, X_file, clusters, name, change, words):
    with h5py.File(clusters, "a") as file:
        changed = change(file[name][()])
        del file[name]
        if changed is not None:
            file[name] = changed
    assert words in refused("predict", clusters, X_file)


@pytest.mark.parametrize("name", ["", "\0", "x" * 5000, "/dev/zero", 3])
def test_a_provenance_that_names_no_file(refused, clusters, name):
    inputs = [{"name": name, "sha256": "", "provenance": {"command": "extract"}}, None, {"provenance": 1}]
    with h5py.File(clusters, "a") as file:
        file.attrs["provenance"] = json.dumps({"inputs": inputs})
    assert "--codebook" in refused("predict", clusters, TEXTURES)
