"""Starts are where they should be."""

from __future__ import annotations

import numpy as np
import pytest
from conftest import planted
from scipy import sparse

from mccgr_cli.blocks.in_memory import MemoryBlocks
from mccgr_cli.blocks.products import moments
from mccgr_cli.core.principal_axes import leading_axes
from mccgr_cli.core.solver import solve
from mccgr_cli.core.starts import nndsvd_start, random_start
from mccgr_cli.settings import Settings


def rng():
    return np.random.default_rng(0)


@pytest.mark.parametrize("make", [np.asarray, sparse.csr_array], ids=["dense", "sparse"])
@pytest.mark.parametrize("start", [random_start, nndsvd_start])
def test_starts_are_positive_and_W_has_the_size_of_uniform_numbers(start, make):
    X, _ = planted()
    source = MemoryBlocks(make(X * 1000), block_rows=13)
    W, H = start(source, 4, moments(source).mean, rng())
    assert W.min() > 0  # a multiplicative update never leaves 0
    assert H.min() > 0
    np.testing.assert_allclose(W.mean(axis=0), 0.5, atol=0.15)
    assert (W @ H).mean() == pytest.approx(1000 * X.mean(), rel=0.5)


@pytest.mark.parametrize(("centred", "rank"), [(False, 3), (True, 2)])
def test_axes_are_the_singular_vectors_of_the_whole_matrix(centred, rank):
    X, _ = planted()
    shift = X.mean(axis=0) if centred else np.zeros(X.shape[1])
    scale = np.linspace(0.5, 2, X.shape[1]) if centred else np.ones(X.shape[1])
    source = MemoryBlocks(X, block_rows=13)
    axes = leading_axes(source, rank, rng(), shift, scale)
    u, s, v = np.linalg.svd((X - shift) * scale, full_matrices=False)
    np.testing.assert_allclose(axes.sizes, s[:rank], rtol=1e-8)
    places = axes.project(source, np.ones(rank))
    np.testing.assert_allclose(places @ axes.directions, (u[:, :rank] * s[:rank]) @ v[:rank], atol=1e-4)


def test_axes_beyond_the_rank_are_nothing():
    X = np.outer(np.arange(1.0, 8), np.ones(5))
    axes = leading_axes(MemoryBlocks(X), 4, rng())
    np.testing.assert_allclose(axes.sizes, [np.linalg.norm(X), 0, 0, 0], atol=1e-6)
    np.testing.assert_allclose(axes.project(MemoryBlocks(X), np.ones(4))[:, 1:], 0, atol=1e-6)


def test_nndsvd_starts_nearer_than_random_and_moves():
    X, _ = planted()
    near = solve(MemoryBlocks(X), Settings(k=3, method="l2", init="nndsvd", iterations=50))
    far = solve(MemoryBlocks(X), Settings(k=3, method="l2", init="random", iterations=50))
    assert near.history["objective"][0] < far.history["objective"][0]
    assert near.objective < 0.9 * near.history["objective"][0]


def test_nndsvd_serves_more_components_than_the_rank():
    W, H = nndsvd_start(MemoryBlocks(np.ones((6, 5))), 5, 1.0, rng())
    assert np.isfinite(W).all()
    assert np.isfinite(H).all()
    assert W.min() > 0
