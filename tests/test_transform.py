"""New samples get the coefficients that fit them best on the learnt basis."""

from __future__ import annotations

import numpy as np
import pytest
from conftest import planted
from scipy import sparse
from scipy.optimize import nnls

from mccgr_cli.blocks.in_memory import MemoryBlocks
from mccgr_cli.core.solver import solve, transform
from mccgr_cli.settings import Settings


@pytest.fixture(scope="module")
def learnt():
    X, _ = planted()
    return solve(MemoryBlocks(X), Settings(k=3, method="mcc", theta=5.0, iterations=100))


@pytest.mark.parametrize("make", [np.asarray, sparse.csr_array], ids=["dense", "sparse"])
def test_equals_weighted_nonnegative_least_squares(learnt, make):
    X, _ = planted(n=20, seed=1)
    root = np.sqrt(learnt.rho)
    expected = np.stack([nnls((root * learnt.H).T, root * x)[0] for x in X])
    W = transform(MemoryBlocks(make(X), block_rows=7), learnt.H, learnt.rho, "mcc")
    np.testing.assert_allclose(W, expected, atol=1e-6)


@pytest.mark.parametrize("make", [np.asarray, sparse.csr_array], ids=["dense", "sparse"])
def test_kl_coefficients_meet_the_conditions_of_optimality(make):
    X, _ = planted(n=40)
    learnt = solve(MemoryBlocks(X), Settings(k=3, method="kl", iterations=100))
    W = transform(MemoryBlocks(make(X), block_rows=7), learnt.H, learnt.rho, "kl")
    gradient = learnt.H.sum(axis=1) - (X / (W @ learnt.H)) @ learnt.H.T
    assert np.abs(W * gradient).max() < 1e-3 * X.mean()
    assert gradient.min() > -1e-2 * learnt.H.sum(axis=1).max()


def test_unused_components_and_empty_samples_give_zeros():
    H = np.array([[1.0, 2.0], [0.0, 0.0]])
    for method in ("l2", "kl"):
        W = transform(MemoryBlocks(np.array([[2.0, 4.0], [0.0, 0.0]])), H, np.ones(2), method)
        np.testing.assert_allclose(W[0, 0], 2.0, rtol=1e-6)
        np.testing.assert_allclose(W[1], 0.0, atol=1e-12)


def test_a_nearly_dependent_basis_is_solved_exactly():
    rng = np.random.default_rng(0)
    row = rng.random(20)
    H = row + 1e-3 * rng.random((3, 20))
    X = rng.random((10, 20))
    W = transform(MemoryBlocks(X), H, np.ones(20), "l2")
    best = [nnls(H.T, x)[1] ** 2 for x in X]
    np.testing.assert_allclose(((X - W @ H) ** 2).sum(axis=1), best, rtol=1e-6)
