"""The defaults do not depend on units, ignore noisy features, and start from the parts of the graph."""

from __future__ import annotations

import h5py
import numpy as np
import pytest
from conftest import planted
from scipy import sparse

from mccgr_cli.blocks.in_memory import MemoryBlocks
from mccgr_cli.blocks.rows import normalize
from mccgr_cli.core.kmeans import kmeans
from mccgr_cli.core.methods.losses import FAIR_STEPS, Correntropy, scale_that_keeps
from mccgr_cli.core.metrics import evaluate
from mccgr_cli.core.parts import explained_variance
from mccgr_cli.core.starts import graph_start
from mccgr_cli.settings import GRAPH_FEATURES, GraphSettings, Settings, by_preset
from mccgr_cli.workflow import factorization


def factors_of(X, **given):
    settings, graph = Settings(k=3, **given), GraphSettings()
    return factorization.factorize(X, settings, factorization.choose_graph(X, settings, graph))


@pytest.mark.parametrize("factor", [1e-3, 1e3])
def test_the_strength_of_the_graph_does_not_depend_on_the_scale_of_X(factor):
    X, _ = planted()
    one, other = factors_of(X, iterations=20), factors_of(X * factor, iterations=20)
    np.testing.assert_allclose(one.W @ one.H * factor, other.W @ other.H, rtol=1e-6)
    assert other.alpha == pytest.approx(one.alpha * factor**2, rel=1e-6)


def test_the_strength_does_not_depend_on_the_scale_of_W():
    X, _ = planted()
    graph = factorization.choose_graph(X, Settings(k=3), GraphSettings())
    W, H = graph_start(MemoryBlocks(X), 3, graph, np.random.default_rng(0))
    one = factorization.factorize(X, Settings(k=3, iterations=20), graph, [(W, H)])
    other = factorization.factorize(X, Settings(k=3, iterations=20), graph, [(8 * W, H / 8)])
    np.testing.assert_allclose(one.W, other.W, rtol=1e-6)  # the graph term sets the scale
    loose = Settings(k=3, iterations=20, form="paper")
    one = factorization.factorize(X, loose, graph, [(W, H)])
    other = factorization.factorize(X, loose, graph, [(8 * W, H / 8)])
    np.testing.assert_allclose(8 * one.W, other.W, rtol=1e-6)


def test_alpha_is_taken_as_it_is_and_replaces_the_strength():
    X, _ = planted()
    assert factors_of(X, alpha=12.0, strength=5.0, iterations=2).alpha == 12.0
    assert factors_of(X, alpha=0.0, iterations=2).alpha == 0.0
    assert factors_of(X, method="l2", iterations=2).alpha == 0.0


def test_restarts_have_the_same_alpha_whatever_their_starts():
    X, _ = planted(seed=1)
    for seed in range(4):
        one = factors_of(X, init="random", iterations=5, seed=seed)
        assert factors_of(X, init="random", iterations=5, seed=seed, restarts=4).alpha == one.alpha


def test_more_components_use_more_axes():
    X = np.random.default_rng(0).random((150, 120))
    settings = Settings(k=20, method="grnmf")
    by_itself, few, many = (
        factorization.choose_graph(X, settings, GraphSettings(axes=axes)) for axes in (None, 50, 80)
    )
    assert abs(by_itself - many).max() == 0
    assert abs(by_itself - few).max() > 0


def test_without_a_graph_runs_start_from_singular_vectors():
    X, _ = planted()
    by_itself, other = (factors_of(X, method="l2", iterations=3, init=init) for init in ("graph", "nndsvd"))
    np.testing.assert_array_equal(by_itself.W, other.W)


def test_a_graph_start_is_the_parts_and_their_means():
    X, labels = planted()
    graph = factorization.choose_graph(X, Settings(k=3), GraphSettings())
    W, H = graph_start(MemoryBlocks(X), 3, graph, np.random.default_rng(0))
    part = W.argmax(axis=1)
    assert evaluate(labels.tolist(), part).accuracy == 1
    means = np.array([X[part == c].mean(axis=0) for c in range(3)])
    np.testing.assert_allclose(H / H.mean(), means / means.mean(), rtol=0.01)
    assert W.mean() == pytest.approx(0.5)
    assert W.min() > 0
    assert H.min() > 0


def test_no_run_ends_before_its_weights_are_learnt():
    X, _ = planted()
    few, many = (factors_of(X, keep=keep) for keep in (0.2, 0.9))
    assert few.converged
    assert few.iterations > FAIR_STEPS
    assert few.rho.mean() < many.rho.mean() < 1


def test_restarts_do_not_prefer_a_run_that_gave_up_its_features():
    rng = np.random.default_rng(0)
    spread = 10 * rng.random(30)
    loss = Correntropy(None, "adaptive", 0.5, spread)
    for _ in range(100):
        errors = spread * rng.random(30)
        assert loss.comparable_value(errors * (0.9 + 0.1 * rng.random(30))) < loss.comparable_value(errors)


@pytest.mark.parametrize("keep", [0.2, 0.5, 0.9])
def test_the_bandwidth_keeps_the_share_of_what_is_explained(keep):
    rng = np.random.default_rng(0)
    errors, spread = rng.random(50), 1 + rng.random(50)
    spread[:5] = 0  # not explained at all
    loss = Correntropy(None, "adaptive", keep, spread)
    for step in range(FAIR_STEPS + 1):
        loss.adapt(errors, step)
        np.testing.assert_allclose(loss.weights(errors), 1)
    loss.adapt(errors, FAIR_STEPS + 1)
    explained = np.maximum(spread - errors, 0)
    assert loss.weights(errors) @ explained == pytest.approx(keep * explained.sum(), rel=1e-6)


def test_a_share_of_1_weighs_all_features_alike():
    assert np.exp(-1 / scale_that_keeps(1.0, np.ones(3), np.full(3, 1 / 3))) == pytest.approx(1)


def test_as_long_as_nothing_is_explained_all_features_weigh_alike():
    loss = Correntropy(None, "adaptive", 0.5, np.zeros(4))
    errors = np.array([1.0, 2.0, 3.0, 100.0])
    loss.adapt(errors, FAIR_STEPS + 1)
    np.testing.assert_allclose(loss.weights(errors), 1)


def test_noise_is_weighed_down_and_does_not_choose_the_neighbours():
    X, labels = planted(n=90)
    rng = np.random.default_rng(0)
    noisy = np.hstack([X, X.max() * rng.random((90, 40))])
    factors = factors_of(noisy)
    d = X.shape[1]
    assert factors.rho[d:].max() < factors.rho[:d].mean()
    assert evaluate(labels.tolist(), kmeans(factors.W, 3, 10, 0)).accuracy > 0.95


@pytest.mark.parametrize("make", [np.asarray, sparse.csr_array], ids=["dense", "sparse"])
def test_the_explained_share_of_a_feature_is_its_adjusted_r2(make):
    X, labels = planted(n=90)
    X[:, 0] = 2.0  # no variance to explain
    noisy = np.hstack([X, np.random.default_rng(0).random((90, 20))])
    part = np.unique(labels, return_inverse=True)[1]
    shares = explained_variance(MemoryBlocks(make(noisy), block_rows=7), part)
    within = sum(noisy[part == c].var(axis=0) * (part == c).sum() for c in range(3))
    r2 = 1 - within[1:] / (90 * noisy[:, 1:].var(axis=0))
    np.testing.assert_allclose(shares[1:], np.maximum(1 - (1 - r2) * 89 / 87, 0), atol=1e-9)
    assert shares[0] == 0
    assert shares[X.shape[1] :].mean() < 0.05 < 0.5 < shares[1 : X.shape[1]].mean()


def test_features_that_differ_between_parts_have_nearly_equal_weights_and_others_none():
    X, labels = planted(n=90)
    d = X.shape[1]
    noisy = np.hstack([X, 5 * X.max() * np.random.default_rng(0).random((90, 20))])
    counts = factorization.weights_by_parts(noisy, np.unique(labels, return_inverse=True)[1])
    assert counts[d:].mean() < 0.3 < 0.8 < counts[:d].min()
    np.testing.assert_array_equal(factorization.weights_by_parts(np.ones((6, 4)), np.arange(6) % 2), 1)


@pytest.mark.parametrize("make", [np.asarray, sparse.csr_array], ids=["dense", "sparse"])
def test_noise_much_larger_than_what_matters_does_not_matter(make):
    X, labels = planted(n=90)
    accuracy = {}
    for features in GRAPH_FEATURES:
        settings, graph = Settings(k=3), GraphSettings(graph_features=features)
        noise = 5 * X.max() * np.random.default_rng(2).random((90, 40))
        noisy = make(normalize(np.hstack([X, noise]), "hellinger"))
        factors = factorization.factorize(noisy, settings, factorization.choose_graph(noisy, settings, graph))
        accuracy[features] = evaluate(labels.tolist(), kmeans(factors.W, 3, 10, 0)).accuracy
    assert accuracy["explained"] == 1
    assert accuracy["plain"] < 0.8


@pytest.mark.parametrize("make", [np.asarray, sparse.csr_array], ids=["dense", "sparse"])
def test_some_of_many_samples_show_which_features_matter(monkeypatch, make):
    X, labels = planted(n=300)
    noise = 5 * X.max() * np.random.default_rng(2).random((300, 40))
    noisy = make(normalize(np.hstack([X, noise]), "hellinger"))
    monkeypatch.setattr(factorization, "WEIGHING_SAMPLES", 100)
    monkeypatch.setattr(factorization, "WEIGHING_SAMPLES_PER_CLUSTER", 20)
    assert factorization.some_samples(noisy, 3).shape == (100, noisy.shape[1])
    settings = Settings(k=3)
    A = factorization.choose_graph(noisy, settings, GraphSettings())
    part = factorization.factorize(noisy, settings, A).W.argmax(axis=1)
    assert evaluate(labels.tolist(), part).accuracy > 0.95


def test_rare_features_are_not_kept_at_the_price_of_those_that_matter():
    """Words that separate topics are frequent, so their errors are the largest."""
    rng = np.random.default_rng(0)
    topics = np.repeat(np.eye(3), 8, axis=1)
    truth = np.arange(120) % 3
    frequent = rng.poisson(4 * topics[truth] + 0.2)
    rare = rng.random((120, 2000)) < 0.003
    factors = factors_of(np.hstack([frequent, rare]).astype(float), method="mcc")
    assert factors.rho[:24].mean() > 0.3
    mean_error = factorization.factorize(
        np.hstack([frequent, rare]).astype(float), by_preset("paper", Settings, k=3, method="mcc")
    )
    assert mean_error.rho[:24].mean() < 0.05


def test_defaults_take_sparse_matrices():
    X, _ = planted(n=90)
    X[X < 0.5] = 0
    dense, thin = factors_of(X), factors_of(sparse.csr_array(X))
    np.testing.assert_allclose(dense.W, thin.W, rtol=1e-6)


def test_the_preset_of_the_paper_can_be_given_and_overruled(mccgr, X_file, tmp_path):
    mccgr("factorize", X_file, "--k", 3, "--preset", "paper", "--theta", 2, "-o", tmp_path / "a.h5")
    mccgr(
        *("factorize", X_file, "--k", 3, "--theta", 2, "--alpha", 100, "--normalize", "none", "--init", "random"),
        *("--axes", 0, "--weight", "binary", "--graph-features", "plain", "--tolerance", 1e-5),
        *("--form", "paper", "-o", tmp_path / "b.h5"),
    )
    with h5py.File(tmp_path / "a.h5") as a, h5py.File(tmp_path / "b.h5") as b:
        assert a["W"][()].tobytes() == b["W"][()].tobytes()
        assert (a.attrs["theta"], a.attrs["alpha"], a.attrs["normalize"]) == (2, 100, "none")


def test_what_the_user_says_in_other_units_overrules_the_preset(mccgr, refused, X_file, tmp_path):
    options = ("factorize", X_file, "--k", 3, "--preset", "paper", "--iterations", 2)
    assert mccgr(*options, "--strength", 10, "--keep", 0.4, "-o", tmp_path / "f.h5").status == 0
    with h5py.File(tmp_path / "f.h5") as file:
        assert file.attrs["alpha"] != 100
        assert "theta" not in file.attrs
    assert "give one of them" in refused(*options, "--alpha", 1, "--strength", 1, status=2)
    assert "give one of them" in refused(*options, "--theta", 1, "--keep", 1, status=2)
