"""What makes each component and sets each cluster apart: the same features in ``mccgr top``, figures and the report."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import replace

import numpy as np
import pytest
from conftest import planted
from far import FarBlocks
from reports import WITHOUT_FACTORS, clustering, save
from scipy import sparse

from mccgr_cli.blocks.in_memory import MemoryBlocks
from mccgr_cli.core.profiles import group_values
from mccgr_cli.errors import DataError
from mccgr_cli.files.container import Contents
from mccgr_cli.workflow.top_features import COMPONENTS, SHARE, top_features

# Component 0 has feature 0 alone, component 1 features 1 and 2, all have feature 3, the strongest.
H = np.array([[2.0, 0, 0, 5], [0, 3, 1, 5], [0, 0, 0, 5]])


def contents_of(H, rho=None, **more):
    d = H.shape[1]
    rho = np.ones(d) if rho is None else rho
    return clustering(d=d, H=H, rho=rho, W=np.eye(3)[np.arange(90) % 3], assignments=np.arange(90) % 3, **more)


def numbers(group):
    return [feature.number for feature in group.features]


# Which features


@pytest.mark.parametrize("of", ["clusters", COMPONENTS])
def test_features_that_all_have_set_nothing_apart(of):
    found = top_features(contents_of(H), 10, of)
    assert [numbers(group) for group in found] == [[0], [1, 2], [3]]
    assert [group.size for group in found] == ([30, 30, 30] if of == "clusters" else [None] * 3)
    assert found[0].features[0].times == pytest.approx((2 / 7) / (2 / 21))


def test_by_share_the_strongest_features_come_first():
    found = top_features(contents_of(H), 2, by=SHARE)
    assert [numbers(group) for group in found] == [[3, 0], [3, 1], [3]]
    assert [feature.share for feature in found[1].features] == pytest.approx([5 / 9, 3 / 9])


def test_weights_of_the_features_count_and_silenced_features_are_left_out():
    found = top_features(contents_of(H, np.array([0.5, 0.009, 1, 0.5])), 10)
    assert [numbers(group) for group in found] == [[0], [2], [3]]
    assert found[0].features[0].share == pytest.approx(2 / 7)


@pytest.mark.parametrize("scale", [1e-300, 1.0, 1e300])
def test_the_scale_of_the_factors_does_not_matter(scale):
    plain, scaled = (top_features(contents_of(H * factor), 10) for factor in (1, scale))
    assert [numbers(group) for group in scaled] == [numbers(group) for group in plain]
    components = contents_of(H * np.array([[scale], [1], [1]]))
    assert numbers(top_features(components, 1, COMPONENTS)[0]) == [0]


def test_nothing_sets_a_single_cluster_apart():
    H = np.random.default_rng(0).random((1, 60))
    W = np.full((90, 1), 1.01)
    contents = clustering(90, 1, 60, W=W, H=H, rho=np.ones(60), assignments=np.zeros(90, dtype=int))
    assert [numbers(group) for group in top_features(contents, 10)] == [[]]


def test_clusters_keep_their_numbers():
    contents = contents_of(H)
    contents.datasets["assignments"] = np.array([7, -2, 40])[contents["assignments"]]
    assert [(group.number, numbers(group)) for group in top_features(contents, 10)] == [
        (-2, [1, 2]),
        (7, [0]),
        (40, [3]),
    ]


# Values of X


@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("source", [MemoryBlocks, FarBlocks])
def test_means_and_fractions_of_groups_are_those_of_their_rows(kind, source):
    X, labels = planted()
    X[X < 1] = 0
    found = group_values(source(kind(X)), labels)
    parts, others = ([X[(labels == g) == own] for g in range(3)] for own in (True, False))
    expected = [[one.mean(axis=0) for one in some] for some in (parts, others, [p > 0 for p in parts])]
    np.testing.assert_allclose(found.compared()[:3], expected)
    np.testing.assert_allclose(found.compared()[3], [(one > 0).mean(axis=0) for one in others], atol=1e-15)
    np.testing.assert_array_equal(found.sizes, [20, 20, 20])


def test_clusters_without_factors_are_judged_by_the_values_of_the_matrix():
    X, labels = planted()
    contents = clustering(60, **WITHOUT_FACTORS)
    contents.datasets["assignments"] = labels
    with pytest.raises(DataError, match="give the matrix"):
        top_features(contents, 8)
    found = top_features(contents, 8, values=group_values(MemoryBlocks(X), labels))
    assert [set(numbers(group)) for group in found] == [set(range(start, start + 8)) for start in (0, 8, 16)]
    first = found[1].features[0]
    assert first.mean == pytest.approx(X[labels == 1, first.number].mean())
    assert first.mean_elsewhere == pytest.approx(X[labels != 1, first.number].mean())
    assert (first.fraction, first.fraction_elsewhere) == (1, 1)


# The command


@pytest.fixture
def saved(tmp_path):
    """A clusters file of three planted groups, and the matrix that it is of."""
    X, labels = planted()
    H = np.kron(np.eye(3), np.ones((1, 8))) + np.linspace(0, 0.1, 24)
    names = {"feature_names": [f"f{j}" for j in range(24)], "sample_names": [f"s{i}" for i in range(60)]}
    named = {**names, "W": np.eye(3)[labels], "assignments": labels, "labels": labels}
    contents = clustering(60, H=H, rho=np.ones(24), **named)
    contents = replace(contents, attributes={**contents.attributes, "normalize": "l1"})
    X[:, 0] *= np.arange(60) % 2  # half of the samples have feature 0
    matrix = save(tmp_path / "X.h5", Contents("matrix", {"X": X, **names}))
    return save(tmp_path / "C.h5", contents), matrix, X


def test_all_formats_list_the_same_features(mccgr, saved):
    clusters, _, _ = saved
    as_json = json.loads(mccgr("top", clusters, "--format", "json", "--count", 3).stdout)
    expected = [[feature["feature"] for feature in group["features"]] for group in as_json]
    assert [set(names) <= {f"f{j}" for j in range(8 * g, 8 * g + 8)} for g, names in enumerate(expected)] == [True] * 3
    rows = list(csv.DictReader(io.StringIO(mccgr("top", clusters, "--format", "csv", "--count", 3).stdout)))
    assert [row["feature"] for row in rows] == [name for names in expected for name in names]
    assert [float(row["share"]) for row in rows[:3]] == [feature["share"] for feature in as_json[0]["features"]]
    lines = mccgr("top", clusters, "--format", "list", "--count", 3).stdout.splitlines()
    assert lines[1] == f"cluster 1 (20 samples): {', '.join(expected[1])}"
    table = mccgr("top", clusters, "--count", 3).stdout.splitlines()
    assert table[0].split() == ["cluster", "0", "(20", "samples)", "score", "times", "share"]
    assert [line.split()[0] for line in table[1:4]] == expected[0]
    assert mccgr("top", "-", stdin=clusters.read_bytes()).stdout == mccgr("top", clusters).stdout


def test_the_matrix_adds_means_and_fractions_as_it_was_factorized(mccgr, saved):
    clusters, matrix, X = saved
    found = json.loads(mccgr("top", clusters, "--matrix", matrix, "--format", "json", "--count", 8).stdout)
    (first,) = (feature for feature in found[0]["features"] if feature["feature"] == "f0")
    shares = (X / X.sum(axis=1, keepdims=True))[:, 0]
    own = np.arange(60) % 3 == 0
    assert first["mean"] == pytest.approx(shares[own].mean())
    assert first["mean_elsewhere"] == pytest.approx(shares[~own].mean())
    assert (first["fraction"], first["fraction_elsewhere"]) == (0.5, 0.5)
    assert "50%" in mccgr("top", clusters, "--matrix", matrix).stdout


def test_features_without_names_are_numbers(mccgr, tmp_path):
    contents = clustering(feature_names=None)
    path = save(tmp_path / "C.h5", contents)
    first = csv.DictReader(io.StringIO(mccgr("top", path, "--format", "csv").stdout)).__next__()
    assert first["feature"] == first["number"]
    assert f"feature {first['number']}" in mccgr("top", path, "--format", "list").stdout.splitlines()[0]


def test_clusters_by_k_means_on_a_matrix_need_the_matrix(mccgr, refused, saved, tmp_path):
    _, matrix, _ = saved
    baseline = tmp_path / "baseline.h5"
    assert mccgr("cluster", matrix, "--k", 3, "--normalize", "l1", "-q", "-o", baseline).status == 0
    assert "give --matrix" in refused("top", baseline)
    assert "from mccgr factorize" in refused("top", baseline, "--of", "components")
    found = json.loads(mccgr("top", baseline, "--matrix", matrix, "--format", "json", "--count", 5).stdout)
    names = [{int(feature["feature"][1:]) // 8 for feature in group["features"]} for group in found]
    assert sorted(names) == [{0}, {1}, {2}]
    assert all(feature["mean"] < 1 for group in found for feature in group["features"])  # of normalized rows


def test_what_does_not_fit_is_refused(refused, saved, tmp_path):
    clusters, matrix, _ = saved
    contents = clustering(feature_names=None)
    del contents.datasets["assignments"]
    factors = save(tmp_path / "F.h5", replace(contents, kind="factors"))
    assert "name a file from mccgr cluster" in refused("top", factors, "--matrix", matrix, status=2)
    other = save(tmp_path / "C12.h5", clustering())
    assert "60 samples where" in refused("top", other, "--matrix", matrix)
    assert "standard input" in refused("top", "-", "--matrix", "-", status=2, stdin=clusters.read_bytes())
