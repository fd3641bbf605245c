"""The neighbour graph is the one that the options describe."""

from __future__ import annotations

import numpy as np
import pytest
from conftest import ORACLES, paper_graph, planted
from scipy import sparse
from scipy.linalg import block_diag
from scipy.spatial.distance import cdist

from mccgr_cli.blocks.in_memory import MemoryBlocks
from mccgr_cli.blocks.products import moments
from mccgr_cli.core.graph import build_graph, graph_health
from mccgr_cli.core.metrics import evaluate
from mccgr_cli.core.parts import Spectrum, explained_variance, parts_of, spectral_clusters
from mccgr_cli.core.principal_axes import coordinates
from mccgr_cli.settings import SYMMETRIES, WEIGHTS, GraphSettings


def brute_force(X, neighbors, distance, weight, symmetry):
    n = len(X)
    directed = np.zeros((n, n))
    near = [sorted((m for m in range(n) if m != i), key=lambda m: distance[i, m])[:neighbors] for i in range(n)]
    for i in range(n):
        for m in near[i]:
            both = len({i, *near[i]} & {m, *near[m]})
            directed[i, m] = both / (2 * neighbors + 2 - both) if weight == "shared" else weight(X[i], X[m])
    return np.maximum(directed, directed.T) if symmetry == "union" else np.minimum(directed, directed.T)


def test_equals_cais_graph():
    X = np.load(ORACLES / "small_l2_hfirst.npz")["X"]
    theirs = sparse.load_npz(ORACLES / "small_graph_A.npz").toarray()
    np.testing.assert_array_equal(build_graph(X, paper_graph()).toarray(), theirs)


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
        "shared": "shared",
        "binary": lambda a, b: 1.0,
        "heat": lambda a, b: np.exp(-((a - b) ** 2).sum() / (2 * width**2)),
        "histogram": lambda a, b: np.minimum(a, b).sum(),
        "cosine": lambda a, b: a @ b / np.linalg.norm(a) / np.linalg.norm(b),
    }
    expected = brute_force(X, 4, distance, weights[weight], symmetry)
    A = build_graph(make(X), paper_graph(neighbors=4, weight=weight, symmetry=symmetry))
    np.testing.assert_allclose(A.toarray(), expected, rtol=1e-9)


def test_metric_and_width_can_be_chosen():
    X, _ = planted(n=30)
    unit = X / np.linalg.norm(X, axis=1, keepdims=True)
    expected = brute_force(X, 3, cdist(unit, unit), lambda a, b: np.exp(-((a - b) ** 2).sum() / 8), "union")
    settings = paper_graph(neighbors=3, weight="heat", metric="cosine", heat_width=2.0)
    np.testing.assert_allclose(build_graph(X, settings).toarray(), expected, rtol=1e-9)


def test_building_a_graph_leaves_X_alone():
    X, _ = planted(n=20)
    before = X.copy()
    build_graph(X, paper_graph(weight="cosine"))
    np.testing.assert_array_equal(X, before)


def test_duplicates_do_not_become_their_own_neighbours():
    X = np.repeat([[1.0, 0.0], [0.0, 1.0]], 4, axis=0)
    A = build_graph(X, paper_graph(neighbors=3))
    assert A.diagonal().sum() == 0
    assert graph_health(A).components == 2


@pytest.mark.parametrize("n", [1, 2, 4])
def test_few_samples_get_as_many_neighbours_as_there_are(n):
    A = build_graph(np.eye(n), paper_graph(neighbors=5))
    np.testing.assert_array_equal(A.toarray(), 1 - np.eye(n))


def test_isolated_samples_and_components_are_counted():
    triangle, alone, pair = np.ones((3, 3)) - np.eye(3), np.zeros((1, 1)), np.ones((2, 2)) - np.eye(2)
    health = graph_health(sparse.csr_array(block_diag(triangle, alone, pair)))
    assert (health.samples, health.edges, health.isolated, health.components) == (6, 4, 1, 3)


@pytest.mark.parametrize("weight", ["binary", "cosine"])
def test_empty_samples_have_no_cosine_neighbours(weight):
    X, _ = planted(n=30)
    X[[4, 9]] = 0
    A = build_graph(X, paper_graph(metric="cosine", weight=weight)).toarray()
    others = np.setdiff1d(np.arange(30), [4, 9])
    alone = build_graph(X[others], paper_graph(metric="cosine", weight=weight)).toarray()
    assert A[[4, 9]].sum() == 0
    np.testing.assert_allclose(A[np.ix_(others, others)], alone)


# On principal axes


def test_principal_axes_are_those_of_the_scaled_and_centred_features():
    X, _ = planted(n=40)
    scale = np.linspace(0, 1, X.shape[1])
    source = MemoryBlocks(X, block_rows=7)
    ours = coordinates(source, moments(source).means, 4, 0.25, scale)
    U, S, _ = np.linalg.svd((X - X.mean(axis=0)) * scale, full_matrices=False)
    theirs = U[:, :4] * S[:4] ** 0.75
    theirs /= np.linalg.norm(theirs, axis=1, keepdims=True)
    np.testing.assert_allclose(np.abs(ours), np.abs(theirs), atol=1e-3)  # the sign of an axis is arbitrary


@pytest.mark.parametrize("make", [np.asarray, sparse.csr_array], ids=["dense", "sparse"])
@pytest.mark.parametrize("axes", [0, 100])
def test_neighbours_do_not_depend_on_scale_and_ignore_what_counts_nothing(make, axes):
    X, _ = planted(n=40)
    noise = np.random.default_rng(0).random((40, 30)) * 100
    counts = np.r_[np.ones(X.shape[1]), np.zeros(30)]
    settings = GraphSettings(axes=axes)
    alone = build_graph(make(X), settings)
    beside = build_graph(make(1000 * np.hstack([X, noise])), settings, counts)
    assert abs(alone - beside).max() < 1e-12
    disturbed = build_graph(make(np.hstack([X, noise])), settings)
    assert abs(alone - disturbed).max() > 0.1


@pytest.mark.parametrize("weight", WEIGHTS)
def test_every_weight_is_at_least_0_on_axes_too(weight):
    X, _ = planted(n=30)
    A = build_graph(X, GraphSettings(weight=weight))
    assert A.nnz > 0
    assert A.data.min() > 0
    assert abs(A - A.T).max() < 1e-12


def test_a_graph_falls_into_its_components():
    blocks = [np.ones((size, size)) - np.eye(size) for size in (5, 7, 9)]
    A = sparse.csr_array(block_diag(*blocks))
    truth = np.repeat([0, 1, 2], [5, 7, 9])
    assert evaluate(truth.tolist(), spectral_clusters(A, 3, 0)).accuracy == 1


@pytest.mark.parametrize("merged", [False, True])
def test_eigenvectors_for_many_parts_give_the_same_few_parts(merged, monkeypatch):
    from mccgr_cli.core import eigenvectors

    A = build_graph(planted(n=90)[0], GraphSettings())
    alone = parts_of(A, 3, 0, merged=merged)
    asked = []
    compute = eigenvectors.leading_eigenvectors
    monkeypatch.setattr(eigenvectors, "leading_eigenvectors", lambda *given: asked.append(given) or compute(*given))
    spectrum = Spectrum(A, most=12)
    np.testing.assert_array_equal(parts_of(A, 3, 0, merged=merged, spectrum=spectrum), alone)
    parts_of(A, 5, 0, merged=merged, spectrum=spectrum)
    assert len(asked) == 1


def test_a_large_graph_falls_into_parts_as_a_small_one(monkeypatch):
    X, _ = planted(n=90)
    A = build_graph(X, GraphSettings())
    densely = spectral_clusters(A, 3, 0)
    monkeypatch.setattr("mccgr_cli.core.eigenvectors.FEW", 10)
    assert evaluate(densely.tolist(), spectral_clusters(A, 3, 0)).accuracy == 1


def test_all_components_of_a_large_graph_are_parts(monkeypatch):
    """The method of Lanczos finds one vector of each eigenvalue, and every component has one of eigenvalue 1."""

    def exact_lanczos(K, k, **_):
        values, vectors = np.linalg.eigh(K @ np.eye(K.shape[0]))
        _, first = np.unique(values.round(9), return_index=True)
        return values[first[-k:]], vectors[:, first[-k:]]

    monkeypatch.setattr("mccgr_cli.core.eigenvectors.FEW", 10)
    monkeypatch.setattr("mccgr_cli.core.eigenvectors.eigsh", exact_lanczos)
    rng, sizes = np.random.default_rng(0), np.arange(20, 32)
    blocks = [rng.random((size, size)) for size in sizes]
    A = block_diag(*(np.triu(block, 1) + np.triu(block, 1).T for block in blocks), np.zeros((1, 1)))
    part = spectral_clusters(sparse.csr_array(A), 12, 0)
    assert evaluate(np.repeat(np.arange(12), sizes).tolist(), part[:-1]).accuracy == 1


@pytest.mark.parametrize("n", [1, 2, 3])
def test_fewer_samples_than_parts_are_parts_of_their_own(n):
    assert spectral_clusters(sparse.csr_array((n, n)), 3, 0).tolist() == list(range(n))


def test_isolated_samples_have_a_part_too():
    part = spectral_clusters(sparse.csr_array((6, 6)), 2, 0)
    assert part.shape == (6,)
    assert set(part.tolist()) <= {0, 1}


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("mean", [0, 100])
def test_what_parts_explain_is_the_adjusted_share_of_the_variance(dtype, mean):
    rng = np.random.default_rng(0)
    part = np.repeat([0, 1, 2], 100)
    noise = 0.03 * rng.standard_normal((300, 4))
    X = (mean + np.array([[0.0, 0, 0, 0], [0.05, 0, 0.1, 0], [0.1, 0, 0, 0]])[part] + noise).astype(dtype)
    exact = X.astype(np.float64)
    centred = exact - np.array([exact[part == one].mean(axis=0) for one in range(3)])[part]
    expected = 1 - (centred**2).sum(axis=0) / 297 / exact.var(axis=0, ddof=1)
    np.testing.assert_allclose(explained_variance(MemoryBlocks(X), part), np.maximum(expected, 0), atol=0.02)
