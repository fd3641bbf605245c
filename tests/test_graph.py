"""The neighbour graph is the one that the options describe."""

from __future__ import annotations

import numpy as np
import pytest
from conftest import ORACLES, planted
from scipy import sparse
from scipy.linalg import block_diag
from scipy.spatial.distance import cdist

from mccgr_cli.graph import build_graph, examine
from mccgr_cli.settings import SYMMETRIES, WEIGHTS, GraphSettings


def brute_force(X, neighbors, distance, weight, symmetry):
    n = len(X)
    directed = np.zeros((n, n))
    for i in range(n):
        others = sorted((m for m in range(n) if m != i), key=lambda m: distance[i, m])
        for m in others[:neighbors]:
            directed[i, m] = weight(X[i], X[m])
    return np.maximum(directed, directed.T) if symmetry == "union" else np.minimum(directed, directed.T)


def test_equals_cais_graph():
    X = np.load(ORACLES / "small_l2_hfirst.npz")["X"]
    theirs = sparse.load_npz(ORACLES / "small_graph_A.npz").toarray()
    np.testing.assert_array_equal(build_graph(X, GraphSettings()).toarray(), theirs)


@pytest.mark.parametrize("make", [np.asarray, sparse.csr_array], ids=["dense", "sparse"])
@pytest.mark.parametrize("symmetry", SYMMETRIES)
@pytest.mark.parametrize("weight", WEIGHTS)
def test_equals_brute_force(weight, symmetry, make):
    X, _ = planted(n=30)
    X[X < 0.5] = 0
    unit = X / np.linalg.norm(X, axis=1, keepdims=True)
    distance = cdist(unit, unit) if weight == "cosine" else cdist(X, X)
    width = distance.mean()
    weights = {
        "binary": lambda a, b: 1.0,
        "heat": lambda a, b: np.exp(-((a - b) ** 2).sum() / (2 * width**2)),
        "histogram": lambda a, b: np.minimum(a, b).sum(),
        "cosine": lambda a, b: a @ b / np.linalg.norm(a) / np.linalg.norm(b),
    }
    expected = brute_force(X, 4, distance, weights[weight], symmetry)
    A = build_graph(make(X), GraphSettings(neighbors=4, weight=weight, symmetry=symmetry))
    np.testing.assert_allclose(A.toarray(), expected, rtol=1e-9)


def test_metric_and_width_can_be_chosen():
    X, _ = planted(n=30)
    unit = X / np.linalg.norm(X, axis=1, keepdims=True)
    expected = brute_force(X, 3, cdist(unit, unit), lambda a, b: np.exp(-((a - b) ** 2).sum() / 8), "union")
    settings = GraphSettings(neighbors=3, weight="heat", metric="cosine", heat_width=2.0)
    np.testing.assert_allclose(build_graph(X, settings).toarray(), expected, rtol=1e-9)


def test_building_a_graph_leaves_X_alone():
    X, _ = planted(n=20)
    before = X.copy()
    build_graph(X, GraphSettings(weight="cosine"))
    np.testing.assert_array_equal(X, before)


def test_duplicates_do_not_become_their_own_neighbours():
    X = np.repeat([[1.0, 0.0], [0.0, 1.0]], 4, axis=0)
    A = build_graph(X, GraphSettings(neighbors=3))
    assert A.diagonal().sum() == 0
    assert examine(A).components == 2


@pytest.mark.parametrize("n", [1, 2, 4])
def test_few_samples_get_as_many_neighbours_as_there_are(n):
    A = build_graph(np.eye(n), GraphSettings(neighbors=5))
    np.testing.assert_array_equal(A.toarray(), 1 - np.eye(n))


def test_isolated_samples_and_components_are_counted():
    triangle, alone, pair = np.ones((3, 3)) - np.eye(3), np.zeros((1, 1)), np.ones((2, 2)) - np.eye(2)
    health = examine(sparse.csr_array(block_diag(triangle, alone, pair)))
    assert (health.samples, health.edges, health.isolated, health.components) == (6, 4, 1, 3)


@pytest.mark.parametrize("weight", ["binary", "cosine"])
def test_empty_samples_have_no_cosine_neighbours(weight):
    X, _ = planted(n=30)
    X[[4, 9]] = 0
    A = build_graph(X, GraphSettings(metric="cosine", weight=weight)).toarray()
    others = np.setdiff1d(np.arange(30), [4, 9])
    alone = build_graph(X[others], GraphSettings(metric="cosine", weight=weight)).toarray()
    assert A[[4, 9]].sum() == 0
    np.testing.assert_allclose(A[np.ix_(others, others)], alone)
