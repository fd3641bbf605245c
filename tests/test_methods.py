"""The methods do what their formulas say, whatever form X has."""

from __future__ import annotations

import os
from dataclasses import replace

import hypothesis
import numpy as np
import pytest
from conftest import ORACLES, paper, paper_graph, planted, relative_gap
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from mccgr_cli import settings as names
from mccgr_cli.blocks.in_memory import MemoryBlocks
from mccgr_cli.blocks.products import moments
from mccgr_cli.core.graph import build_graph
from mccgr_cli.core.methods import METHODS, SOLVERS
from mccgr_cli.core.solver import solve
from mccgr_cli.core.starts import random_start
from mccgr_cli.errors import DataError

# Every method, with every solver and every form that it has.
WAYS = [
    {"method": method, "solver": solver}
    for method in METHODS
    for solver in (SOLVERS if METHODS[method].own_update is None else ["multiplicative"])
]
WAYS += [{"method": method, "solver": "multiplicative", "form": "orthogonal"} for method in ("mccgr", "grnmf")]
EXAMPLES = int(os.environ.get("MCCGR_EXAMPLES", "40"))  # of random problems
MONOTONE = [way for way in WAYS if way["method"] in ("l2", "kl", "grnmf", "mcc", "mccgr")]


def name_of(way):
    return "-".join(way.values())


@pytest.fixture(params=WAYS, ids=name_of)
def way(request):
    return request.param


@pytest.fixture
def graph_of_oracles():
    return sparse.csr_array(sparse.load_npz(ORACLES / "small_graph_A.npz"))


def run(X, settings, graph=None, start=None, block_rows=None):
    return solve(MemoryBlocks(X, block_rows), settings, graph, None if start is None else [start])


def oracle(name):
    return np.load(ORACLES / f"small_{name}_hfirst.npz")


# Against others and the textbook


@pytest.mark.parametrize("make", [np.asarray, sparse.csr_array], ids=["dense", "sparse"])
@pytest.mark.parametrize(
    ("method", "name", "result"), [("l2", "l2", ""), ("l2", "l2", "_lib"), ("kl", "kl", "_lib"), ("grnmf", "gnmf", "")]
)
def test_factors_equal_those_of_independent_programs(method, name, result, make, graph_of_oracles):
    theirs = oracle(name)
    settings = paper(k=4, method=method, alpha=100, iterations=50, tolerance=0)
    ours = run(make(theirs["X"]), settings, graph_of_oracles, (theirs["W0"], theirs["H0"]), block_rows=17)
    assert relative_gap(ours.W, theirs[f"W{result}"]) < 1e-9
    assert relative_gap(ours.H, theirs[f"H{result}"]) < 1e-9


def test_kl_equals_scikit_learn_but_for_its_clipping():
    theirs = oracle("kl")
    ours = run(theirs["X"], paper(k=4, method="kl", iterations=50, tolerance=0), start=(theirs["W0"], theirs["H0"]))
    assert relative_gap(ours.W, theirs["W"]) < 1e-6
    np.testing.assert_allclose(ours.history["objective"], theirs["obj"], rtol=1e-6)


def test_pg_ends_where_lins_program_ends():
    theirs = oracle("pg_lin")
    ours = run(theirs["X"], paper(k=4, method="pg", iterations=50, tolerance=0), start=(theirs["W0"], theirs["H0"]))
    np.testing.assert_allclose(ours.history["objective"] / 2, theirs["obj"], rtol=0.01)


def textbook_gdcls(X, W, H, ridge, iterations):
    """Shahnaz et al. 2006, line by line, with lambda relative to the basis."""
    for _ in range(iterations):
        H = H * (W.T @ X) / (W.T @ W @ H)
        S = H @ H.T
        damped = S + ridge * np.trace(S) / len(S) * np.eye(len(S))
        W = np.maximum(0, np.stack([np.linalg.solve(damped, H @ x) for x in X]))
    return W, H


def test_gdcls_ends_where_the_textbook_form_ends():
    start = oracle("l2")
    settings = paper(k=4, method="gdcls", iterations=50, tolerance=0)
    ours = run(start["X"], settings, start=(start["W0"], start["H0"]), block_rows=17)
    W, H = textbook_gdcls(start["X"], start["W0"], start["H0"], settings.ridge, 50)
    assert ours.objective <= 1.01 * ((start["X"] - W @ H) ** 2).sum()
    assert relative_gap(ours.W @ ours.H, W @ H) < 1e-9


def textbook_mccgr(X, W, H, A, alpha, theta, iterations):
    """The paper's algorithm 1, with whole matrices and none of our short cuts."""
    U = np.diag(A.sum(axis=0))
    for _ in range(iterations):
        e = ((X - W @ H) ** 2).sum(axis=0)
        sigma2 = theta / (2 * X.shape[1]) * e.sum()
        rho = np.diag(np.exp(-e / (2 * sigma2)))
        H = H * (W.T @ X @ rho) / (W.T @ W @ H @ rho)
        W = W * (X @ rho @ H.T + alpha * A @ W) / (W @ H @ rho @ H.T + alpha * U @ W)
    return W, H


@pytest.mark.parametrize("make", [np.asarray, sparse.csr_array], ids=["dense", "sparse"])
@pytest.mark.parametrize("theta", [0.3, 1.0, 10.0])
@pytest.mark.parametrize(("method", "alpha"), [("mcc", 0.0), ("mccgr", 0.1), ("mccgr", 100.0)])
def test_correntropy_equals_the_textbook(method, alpha, theta, make, graph_of_oracles):
    given = oracle("l2")
    settings = paper(k=4, method=method, alpha=alpha, theta=theta, iterations=50, tolerance=0)
    ours = run(make(given["X"]), settings, graph_of_oracles, (given["W0"], given["H0"]), block_rows=17)
    W, H = textbook_mccgr(given["X"], given["W0"], given["H0"], graph_of_oracles.toarray(), alpha, theta, 50)
    assert relative_gap(ours.W, W) < 1e-9
    assert relative_gap(ours.H, H) < 1e-9


def textbook_orthogonal(X, W, H, A, alpha, theta, iterations):
    """The orthogonal form, with whole matrices: the root z^2 of b z^4 + a z^2 = c for every coefficient."""
    U, k = np.diag(A.sum(axis=0)), len(H)
    size = np.trace(U) / k
    lengths = np.sqrt(np.diag(W.T @ U @ W) / size)
    W, H = W / lengths, H * lengths[:, None]
    for _ in range(iterations):
        e = ((X - W @ H) ** 2).sum(axis=0)
        rho = np.diag(np.exp(-e / (theta * e.mean())))
        H = H * (W.T @ X @ rho) / (W.T @ W @ H @ rho)
        a, b = W @ H @ rho @ H.T, alpha * U @ W @ (W.T @ U @ W) / size
        c = X @ rho @ H.T + alpha * A @ W
        W = W * np.sqrt((-a + np.sqrt(a**2 + 4 * b * c)) / (2 * b))
    return W, H


@pytest.mark.parametrize("make", [np.asarray, sparse.csr_array], ids=["dense", "sparse"])
@pytest.mark.parametrize(("alpha", "theta"), [(0.1, 1.0), (3.0, 0.3), (100.0, 10.0)])
def test_the_orthogonal_form_equals_the_textbook(alpha, theta, make, graph_of_oracles):
    given = oracle("l2")
    settings = paper(k=4, form="orthogonal", alpha=alpha, theta=theta, iterations=50, tolerance=0)
    ours = run(make(given["X"]), settings, graph_of_oracles, (given["W0"], given["H0"]), block_rows=17)
    W, H = textbook_orthogonal(given["X"], given["W0"], given["H0"], graph_of_oracles.toarray(), alpha, theta, 50)
    assert relative_gap(ours.W, W) < 1e-9
    assert relative_gap(ours.H, H) < 1e-9
    A, last = graph_of_oracles.toarray(), {name: values[-1] for name, values in ours.history.items()}
    U = np.diag(A.sum(axis=0))
    size = np.trace(U) / 4
    excess = W.T @ U @ W - size * np.eye(4)
    graph = alpha * (np.trace(W.T @ (U - A) @ W) + (excess**2).sum() / (2 * size))
    assert last["graph"] == pytest.approx(graph, rel=1e-9)


def test_components_of_the_orthogonal_form_are_clusters():
    X, labels = planted()
    A = build_graph(X, paper_graph())
    W = run(X, replace(paper(k=3, form="orthogonal", alpha=None), init="graph"), A).W
    overlap = W.T @ (np.asarray(A.sum(axis=1)).ravel()[:, None] * W)
    lengths = np.sqrt(np.diag(overlap))
    assert (overlap / np.outer(lengths, lengths) - np.eye(3)).max() < 0.1
    assert {tuple(sorted(set(W[labels == label].argmax(axis=1)))) for label in range(3)} == {(0,), (1,), (2,)}


def test_terms_add_up_to_what_the_factors_say(graph_of_oracles):
    X = oracle("l2")["X"]
    ours = run(X, paper(k=4, alpha=3.0, iterations=20, tolerance=0), graph_of_oracles)
    last = {name: values[-1] for name, values in ours.history.items()}
    errors = ((X - ours.W @ ours.H) ** 2).sum(axis=0)
    rho = np.exp(-errors / (2 * last["sigma"] ** 2))
    A = graph_of_oracles.toarray()
    graph = sum(A[i, m] * ((ours.W[i] - ours.W[m]) ** 2).sum() / 2 for i in range(60) for m in range(60))
    assert last["data"] == pytest.approx(2 * last["sigma"] ** 2 * (1 - rho).sum(), rel=1e-9)
    assert last["graph"] == pytest.approx(3.0 * graph, rel=1e-9)
    assert last["objective"] == pytest.approx(last["data"] + last["graph"])
    np.testing.assert_allclose(ours.rho, rho, rtol=1e-9)


def test_a_wide_kernel_makes_correntropy_the_squared_error(graph_of_oracles):
    X = oracle("l2")["X"]
    wide = run(X, paper(k=4, method="mccgr", theta=1e9, iterations=30), graph_of_oracles)
    squared = run(X, paper(k=4, method="grnmf", iterations=30), graph_of_oracles)
    np.testing.assert_allclose(wide.W, squared.W, rtol=1e-5)
    assert wide.objective == pytest.approx(squared.objective, rel=1e-5)


# One contract for all methods


def test_the_settings_name_the_methods_and_solvers_there_are():
    assert tuple(METHODS) == names.METHODS
    assert tuple(SOLVERS) == names.SOLVERS


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("make", [np.asarray, sparse.csr_array], ids=["dense", "sparse"])
def test_factors_are_finite_and_not_negative(way, make, dtype):
    X, _ = planted()
    X[3], X[:, 5] = 0, 0
    graph = build_graph(X, paper_graph())
    ours = run(make(X.astype(dtype)), paper(k=3, **way, iterations=30), graph)
    for factor in (ours.W, ours.H):
        assert factor.dtype == dtype
        assert np.isfinite(factor).all()
        assert factor.min() >= 0
    assert ((ours.rho >= 0) & (ours.rho <= 1)).all()


def test_every_method_reduces_the_error(way):
    X, _ = planted()
    graph = build_graph(X, paper_graph())
    ours = run(X, paper(k=3, **way, alpha=0.01, theta=5.0, iterations=60), graph)
    assert ((X - ours.W @ ours.H) ** 2).sum() < 0.2 * (X**2).sum()


def test_same_seed_same_bytes(way):
    X, _ = planted()
    graph = build_graph(X, paper_graph())
    first, second = (run(X, paper(k=3, **way, seed=5, iterations=10), graph) for _ in range(2))
    assert first.W.tobytes() == second.W.tobytes()
    assert first.H.tobytes() == second.H.tobytes()
    other = run(X, paper(k=3, **way, seed=6, iterations=10), graph)
    assert first.W.tobytes() != other.W.tobytes()


@pytest.mark.parametrize("make", [np.asarray, sparse.csr_array], ids=["dense", "sparse"])
def test_blocks_do_not_change_the_result(way, make):
    X, _ = planted()
    graph = build_graph(X, paper_graph())
    settings = paper(k=3, **way, iterations=15)
    whole = run(X, settings, graph, block_rows=len(X))
    parts = run(make(X), settings, graph, block_rows=7)
    np.testing.assert_allclose(parts.W, whole.W, rtol=1e-8, atol=1e-12)
    np.testing.assert_allclose(parts.history["objective"], whole.history["objective"], rtol=1e-9)


def test_single_precision_follows_double(way):
    X, _ = planted()
    graph = build_graph(X, paper_graph())
    settings = paper(k=3, **way, iterations=15)
    double, single = run(X, settings, graph), run(X.astype(np.float32), settings, graph)
    np.testing.assert_allclose(single.W @ single.H, double.W @ double.H, rtol=0.01, atol=0.01)
    assert single.objective == pytest.approx(double.objective, rel=1e-3)


# The objective never rises where it must not


@st.composite
def problems(draw):
    """Small matrices with zeros, empty rows and columns, any scale, and k from 1 to beyond n."""
    n, d = draw(st.integers(1, 12)), draw(st.integers(1, 12))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    X = rng.gamma(0.5, 1.0, (n, d)) * 10.0 ** draw(st.integers(-3, 3))
    X[rng.random((n, d)) < draw(st.sampled_from([0.0, 0.5, 0.9]))] = 0
    if draw(st.booleans()):
        X[rng.integers(n)] = 0
    if draw(st.booleans()):
        X[:, rng.integers(d)] = 0
    X = sparse.csr_array(X) if draw(st.booleans()) else X
    return X, draw(st.integers(1, 14)), draw(st.integers(0, 1000))


@pytest.mark.parametrize("way", MONOTONE, ids=name_of)
@hypothesis.settings(max_examples=EXAMPLES)
@given(
    problem=problems(),
    alpha=st.sampled_from([0.0, 0.1, 100.0, 1e6, None]),  # None: the strength weighs the graph
    theta=st.sampled_from([0.01, 0.5, 1.0, 100.0]),
)
def test_the_objective_never_rises_with_sigma_fixed(way, problem, alpha, theta):
    X, k, seed = problem
    graph = build_graph(X, paper_graph(neighbors=3))
    settings = paper(k=k, **way, alpha=alpha, theta=theta, iterations=25, tolerance=0, seed=seed)
    if METHODS[way["method"]].weighted:
        first = run(X, replace(settings, iterations=1), graph)
        settings = replace(settings, bandwidth=float(first.history["sigma"][-1]) or 1.0)
    ours = run(X, settings, graph, block_rows=5)
    objective = ours.history["objective"]
    units = float(X.sum() if way["method"] == "kl" else (X * X).sum())
    rounding = 1e-9 * objective[:-1] + 1e-13 * units
    assert np.isfinite(objective).all()
    assert np.isfinite(ours.W).all()
    assert np.isfinite(ours.H).all()
    assert (np.diff(objective) <= rounding).all(), np.diff(objective).max()


@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("bandwidth", ["adaptive", "settle"])
def test_each_step_lowers_the_objective_at_its_own_sigma(bandwidth, solver):
    X, _ = planted()
    seen = []
    settings = paper(k=3, bandwidth=bandwidth, solver=solver, iterations=150, tolerance=0)
    solve(MemoryBlocks(X), settings, build_graph(X, paper_graph()), on_step=seen.append)
    assert all(step.change >= -1e-12 for step in seen)


# The bandwidth and when to stop


def test_settled_bandwidth_is_frozen_and_the_objective_then_falls():
    X, _ = planted()
    ours = run(X, paper(k=3, bandwidth="settle", iterations=150, tolerance=0), build_graph(X, paper_graph()))
    sigma, objective = ours.history["sigma"], ours.history["objective"]
    frozen = int(np.flatnonzero(np.diff(sigma))[-1]) + 1
    assert frozen < 100
    assert (np.diff(objective[frozen:]) <= 1e-12 * objective[frozen]).all()


def test_adaptive_bandwidth_follows_the_errors():
    X, _ = planted()
    ours = run(X, paper(k=3, theta=2.0, method="mcc", iterations=5, tolerance=0))
    before = run(X, paper(k=3, theta=2.0, method="mcc", iterations=4, tolerance=0))
    errors = ((X - before.W @ before.H) ** 2).sum(axis=0)
    assert ours.history["sigma"][-1] == pytest.approx(np.sqrt(2.0 / (2 * X.shape[1]) * errors.sum()))


def test_converged_means_that_nothing_moves(way):
    X, _ = planted()
    graph = build_graph(X, paper_graph())
    settings = paper(k=3, **way, alpha=0.1, iterations=2000, tolerance=1e-4)
    ours = run(X, settings, graph)
    assert ours.converged
    assert ours.iterations < 2000
    further = run(X, replace(settings, iterations=1, tolerance=0), graph, start=(ours.W, ours.H))
    slow = "form" in way  # its steps are shorter
    assert further.objective == pytest.approx(ours.objective, rel=2e-3 if slow else 2e-4)


def test_stopping_at_the_limit_is_not_converging():
    X, _ = planted()
    ours = run(X, paper(k=3, method="l2", iterations=4, tolerance=1e-9))
    assert not ours.converged
    assert ours.iterations == 4
    assert len(ours.history["objective"]) == 5


def test_nearly_exact_fits_are_measured_exactly():
    """The expansion of the error cancels here: plain, it would be off by more than the error itself."""
    rng = np.random.default_rng(0)
    W, H = rng.random((50, 3)) + 0.1, rng.random((3, 20)) + 0.1
    X = W @ H
    near = H * (1 + 1e-9 * rng.standard_normal(H.shape))
    ours = run(X, paper(k=3, method="l2", iterations=0), start=(W, near))
    assert ours.objective == pytest.approx(((X - W @ near) ** 2).sum(), rel=1e-6, abs=0)


def test_smooth_coefficients_have_an_exact_graph_term():
    X, _ = planted()
    A = build_graph(X, paper_graph())
    rng = np.random.default_rng(0)
    W = 1 + 1e-9 * rng.random((len(X), 3))
    ours = run(X, paper(k=3, method="grnmf", alpha=1.0, iterations=0), A, start=(W, rng.random((3, 24))))
    edges = A.tocoo()
    exact = (edges.data * ((W[edges.row] - W[edges.col]) ** 2).sum(axis=1)).sum() / 2
    assert ours.history["graph"][0] == pytest.approx(exact, rel=1e-6, abs=0)


def test_noisy_features_are_silenced():
    X, _ = planted(n=90, d=24)
    noisy = np.random.default_rng(1).integers(0, 2, (90, 6)) * 12.0
    ours = run(np.hstack([X, noisy]), paper(k=3, method="mcc", iterations=100))
    assert ours.rho[24:].max() < 0.1 * np.median(ours.rho[:24])


def test_restarts_keep_the_best():
    X, _ = planted()
    seen = []
    settings = paper(k=5, method="l2", restarts=4, iterations=10, tolerance=0)
    best = solve(MemoryBlocks(X), settings, on_step=seen.append)
    ends = [step.objective for step in seen if step.iteration == 10]
    assert len(ends) == 4
    assert best.objective == min(ends)
    alone = run(X, replace(settings, restarts=1))
    assert alone.objective == ends[0]


# What only shows at the edge of what numbers can hold


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_zeros_in_the_start_do_no_harm(way, dtype):
    X, _ = planted()
    rng = np.random.default_rng(0)
    W, H = rng.random((60, 3)), rng.random((3, 24))
    W[3], H[:, 5] = 0, 0
    ours = run(X.astype(dtype), paper(k=3, **way, iterations=20), build_graph(X, paper_graph()), (W, H))
    assert np.isfinite(ours.W).all()
    assert np.isfinite(ours.H).all()
    assert np.isfinite(ours.objective)


@pytest.mark.parametrize("scale", [1e160, 1e-170])
def test_data_whose_squares_cannot_be_held_are_refused(scale):
    X, _ = planted()
    with pytest.raises(DataError, match="rescale"):
        run(X * scale, paper(k=3, method="l2"))


def test_numbers_that_overflow_on_the_way_are_refused():
    X, _ = planted()
    with pytest.raises(DataError, match="rescale"), np.errstate(all="ignore"):
        run((X * 1e17).astype(np.float32), paper(k=3, method="mcc"), start=(np.full((60, 3), 1e30), np.ones((3, 24))))


def test_silencing_everything_is_not_converging():
    X, _ = planted()
    ours = run(X, paper(k=3, method="mcc", bandwidth=1e-3))
    assert ours.rho.max() == 0
    assert not ours.converged


def test_single_precision_measures_close_fits_beside_a_silenced_feature():
    """One large error must not hide that the small ones, which make up the objective, are lost in rounding."""
    rng = np.random.default_rng(0)
    W, H = rng.random((200, 3)) + 0.5, rng.random((3, 20)) + 0.5
    X = (W @ H + 1e-4 * rng.random((200, 20))).astype(np.float32)
    X[:, -1] = 1e4 * rng.random(200)
    ours = run(X, paper(k=3, method="mcc", bandwidth=1e-3, iterations=0), start=(W, H))
    errors = ((X.astype(float) - ours.W.astype(float) @ ours.H.astype(float)) ** 2).sum(axis=0)
    assert ours.objective == pytest.approx(2e-6 * (1 - np.exp(-errors / 2e-6)).sum(), rel=1e-2, abs=0)


def test_restarts_are_compared_at_a_common_bandwidth():
    X, _ = planted(seed=3)
    graph = build_graph(X, paper_graph())
    settings = paper(k=3, bandwidth="settle", iterations=60, alpha=0.1)
    rng = np.random.default_rng(settings.seed)
    known = moments(MemoryBlocks(X))
    values = []
    for _ in range(4):
        alone = run(X, settings, graph, start=random_start(MemoryBlocks(X), 3, known.mean, rng))
        errors = ((X - alone.W @ alone.H) ** 2).sum(axis=0)
        values.append(errors.mean() * (1 - np.exp(-errors / errors.mean())).sum() + alone.history["graph"][-1])
    best = run(X, replace(settings, restarts=4), graph)
    errors = ((X - best.W @ best.H) ** 2).sum(axis=0)
    value = errors.mean() * (1 - np.exp(-errors / errors.mean())).sum() + best.history["graph"][-1]
    assert value == pytest.approx(min(values))


def test_stopping_takes_three_quiet_steps_in_a_row(monkeypatch):
    X, _ = planted()
    quiet = iter([True, True, False, True, True, True, False])
    monkeypatch.setattr("mccgr_cli.core.solver.has_settled", lambda *_: next(quiet))
    ours = run(X, paper(k=3, method="l2", iterations=50))
    assert ours.iterations == 6
    assert ours.converged


def test_an_empty_matrix_costs_no_time():
    ours = run(np.zeros((4, 3)), paper(k=2, method="pg", iterations=25, tolerance=0))
    assert ours.objective == 0
