"""Coordinate steps reach the same objective in fewer passes over X, and keep what must be kept."""

from __future__ import annotations

from dataclasses import replace

import h5py
import numpy as np
import pytest
from conftest import ORACLES, paper, paper_graph, planted, relative_gap
from scipy.optimize import nnls

from mccgr_cli.blocks.in_memory import MemoryBlocks
from mccgr_cli.blocks.products import Products, moments
from mccgr_cli.core.graph import build_graph
from mccgr_cli.core.methods.coordinate import GRAPH_STEPS, descended, graph_steps_for
from mccgr_cli.core.solver import make_update, solve
from mccgr_cli.settings import SOLVERS, GraphSettings, Settings
from mccgr_cli.workflow import factorization


def smooth(n=300, d=40, k=5, seed=0):
    """Samples along a curve, so that the graph is a long chain, on which plain steps are slow."""
    rng = np.random.default_rng(seed)
    place = np.linspace(0, 1, n)[:, None]
    W = np.exp(-(((place - np.linspace(0, 1, k)) * k) ** 2))
    return W @ rng.gamma(1.0, 1.0, (k, d)) * rng.uniform(0.8, 1.2, (n, d))


@pytest.mark.parametrize("bounded", [False, True])
def test_rounds_end_at_the_minimum(bounded):
    rng = np.random.default_rng(0)
    basis, samples = rng.random((6, 20)), rng.random((5, 20)) - 0.3
    bound = rng.random(5) if bounded else np.zeros(5)
    F = descended(np.zeros((5, 6)), samples @ basis.T, basis @ basis.T, bound if bounded else None, 2000, Products()).T
    for m in range(5):
        root = np.vstack([basis.T, np.sqrt(bound[m]) * np.eye(6)])
        exact, _ = nnls(root, np.concatenate([samples[m], np.zeros(6)]))
        np.testing.assert_allclose(F[:, m], exact, atol=1e-8)


@pytest.mark.parametrize(("bound", "steps"), [(0.0, 0), (0.1, 0), (4.0, 4), (1e6, GRAPH_STEPS)])
def test_steps_along_the_graph_are_taken_where_it_binds_more_than_the_data(bound, steps):
    assert graph_steps_for(np.eye(3), np.full(5, bound)) == steps
    assert graph_steps_for(np.zeros((3, 3)), np.full(5, bound)) == GRAPH_STEPS


def test_a_component_that_nothing_depends_on_stays():
    W = descended(np.ones((3, 2)), np.array([[2.0, 5.0]] * 3), np.diag([1.0, 0.0]), None, 3, Products())
    np.testing.assert_array_equal(W, [[2, 1]] * 3)


@pytest.mark.parametrize("alpha", [0.1, 1.0, 100.0, 1e4])
@pytest.mark.parametrize("method", ["mccgr", "grnmf"])
def test_few_passes_reach_what_many_multiplicative_updates_reach(method, alpha):
    X = smooth()
    A = build_graph(X, paper_graph())
    first = solve(MemoryBlocks(X), paper(k=5, method=method, alpha=alpha, iterations=30), A)
    sigma = float(first.history["sigma"][-1]) if method == "mccgr" else "adaptive"
    settings = paper(k=5, method=method, alpha=alpha, bandwidth=sigma, tolerance=0, iterations=400)
    slow = solve(MemoryBlocks(X), settings, A)
    fast = solve(MemoryBlocks(X), paper(**{**vars(settings), "solver": "coordinate", "iterations": 50}), A)
    assert fast.objective <= slow.objective


def test_the_first_step_is_that_of_an_independent_program(monkeypatch):
    theirs = np.load(ORACLES / "small_hals_hfirst.npz")
    monkeypatch.setattr("mccgr_cli.core.methods.coordinate.ROUNDS", 1)
    settings = paper(k=4, method="l2", solver="coordinate", iterations=1)
    ours = solve(MemoryBlocks(theirs["X"], block_rows=17), settings, starts=[(theirs["W0"], theirs["H0"])])
    assert relative_gap(ours.W @ ours.H, theirs["W_T1"] @ theirs["H_T1"]) < 1e-9


def test_the_following_steps_are_ahead_of_an_independent_program():
    theirs = np.load(ORACLES / "small_hals_hfirst.npz")
    settings = paper(k=4, method="l2", solver="coordinate", iterations=15, tolerance=0)
    ours = solve(MemoryBlocks(theirs["X"]), settings, starts=[(theirs["W0"], theirs["H0"])])
    assert ours.objective / 2 <= theirs["obj"][50]


@pytest.mark.parametrize(("method", "strength"), [("l2", 0.0), ("mcc", 0.0), ("mccgr", 10.0), ("grnmf", 1e4)])
def test_components_keep_their_lengths_where_only_the_product_matters(method, strength):
    X, _ = planted()
    A = build_graph(X, paper_graph())
    rng = np.random.default_rng(0)
    W, H = rng.random((60, 3)), rng.random((3, 24))
    settings = paper(k=3, method=method, alpha=None, strength=strength, solver="coordinate", iterations=30)
    ours = solve(MemoryBlocks(X), settings, A, [(W, H)])
    np.testing.assert_allclose(np.linalg.norm(ours.W, axis=0), np.linalg.norm(W, axis=0), rtol=1e-9)


def test_a_graph_told_by_its_strength_keeps_its_weight():
    """With alpha the graph is argued away by a smaller W and a larger H; with a strength it is not."""
    X, _ = planted()
    A = build_graph(X, paper_graph())

    def graph_share(**weight):
        settings = paper(k=3, method="grnmf", solver="coordinate", iterations=300, tolerance=0, **weight)
        last = solve(MemoryBlocks(X), settings, A)
        return last.history["graph"][-1] / last.objective, last.alpha

    held, alpha = graph_share(alpha=None, strength=1.0)
    argued_away, _ = graph_share(alpha=alpha)
    assert held > 10 * argued_away


@pytest.mark.parametrize("weight", [{"alpha": 1.0}, {"alpha": None, "strength": 100.0}], ids=["alpha", "strength"])
def test_what_is_expected_of_the_next_pass_starts_from_the_last(weight):
    X, _ = planted()
    source, rng = MemoryBlocks(X), np.random.default_rng(0)
    settings = paper(k=3, solver="coordinate", **weight)
    start = rng.random((len(X), 3)), rng.random((3, X.shape[1]))
    update = make_update(source, settings, build_graph(X, paper_graph()), moments(source), *start)
    update.start()
    for _ in range(3):
        update.step()
        np.testing.assert_allclose(update.numerator, X @ update.weighted.T, rtol=1e-9)


def test_restarts_share_the_weight_of_the_graph_and_hold_their_scale():
    X, _ = planted()
    A = build_graph(X, paper_graph())
    rng = np.random.default_rng(0)
    starts = [(rng.random((60, 3)), rng.random((3, 24))) for _ in range(2)]
    settings = paper(k=3, alpha=None, strength=10.0, solver="coordinate", iterations=30)
    ours = solve(MemoryBlocks(X), settings, A, starts)
    lengths = [np.linalg.norm(W, axis=0) for W, _ in starts]
    assert any(np.allclose(np.linalg.norm(ours.W, axis=0), length, rtol=1e-9) for length in lengths)


def test_the_graph_does_not_depend_on_the_solver():
    X, _ = planted(n=90)
    settings = Settings(k=3)
    graphs = [factorization.choose_graph(X, replace(settings, solver=solver), GraphSettings()) for solver in SOLVERS]
    assert abs(graphs[0] - graphs[1]).max() == 0


def test_the_solver_is_chosen_and_recorded(mccgr, X_file, tmp_path):
    options = ("factorize", X_file, "--k", 3, "--strength", 10)
    assert mccgr(*options, "--solver", "coordinate", "-o", tmp_path / "c.h5").status == 0
    assert mccgr(*options, "-o", tmp_path / "m.h5").status == 0
    with h5py.File(tmp_path / "c.h5") as c, h5py.File(tmp_path / "m.h5") as m:
        assert (c.attrs["solver"], m.attrs["solver"]) == ("coordinate", "multiplicative")
        assert c["W"][()].tobytes() != m["W"][()].tobytes()


@pytest.mark.parametrize("method", ["kl", "gdcls", "pg"])
def test_methods_with_updates_of_their_own_refuse_another(refused, X_file, method):
    said = refused("factorize", X_file, "--k", 3, "--method", method, "--solver", "coordinate", status=2)
    assert "--solver" in said
    assert method in said
