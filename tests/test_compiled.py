"""Compiled products are the products, and change nothing but how long it takes."""

from __future__ import annotations

import numpy as np
import pytest
from conftest import paper, paper_graph, planted, relative_gap

from mccgr_cli.blocks import products
from mccgr_cli.blocks.in_memory import MemoryBlocks
from mccgr_cli.core.graph import build_graph
from mccgr_cli.core.methods import coordinate
from mccgr_cli.core.solver import solve

compiled = pytest.importorskip("mccgr_cli.blocks.kernels", reason="numba is not installed")


@pytest.fixture(params=[np.float32, np.float64])
def rng_and_tolerance(request):
    rng = np.random.default_rng(0)
    return (lambda *shape: rng.random(shape).astype(request.param)), 100 * np.finfo(request.param).eps


@pytest.mark.parametrize("rows", [1, 4, 5, 6, 13])
@pytest.mark.parametrize("k", [1, 2, 5, 7, 10])
def test_narrow_products_of_any_shape(rng_and_tolerance, rows, k):
    random, tolerance = rng_and_tolerance
    X, right, left = random(rows, 37), random(37, k), random(rows, k)
    np.testing.assert_allclose(compiled.narrow_product(X, right), X @ right, rtol=tolerance)
    np.testing.assert_allclose(compiled.cross_product(left, X), left.T @ X, rtol=tolerance)


@pytest.mark.parametrize("rows", [1, 5, 13])
@pytest.mark.parametrize("k", [1, 5, 7])
@pytest.mark.parametrize("graph", [False, True])
def test_a_multiplicative_step_of_any_shape(rng_and_tolerance, rows, k, graph):
    random, tolerance = rng_and_tolerance
    X, W, right, gram = random(rows, 37), random(rows, k), random(37, k), random(k, k)
    W[0, 0] = 0
    pull, degrees = (random(rows, k), random(rows)) if graph else (None, None)
    P, new = compiled.multiplicative_step(X, W, pull, degrees, right, gram)
    numerator, denominator = X @ right, W @ gram
    if graph:
        numerator, denominator = numerator + pull, denominator + degrees[:, None] * W
    with np.errstate(invalid="ignore", divide="ignore"):
        expected = np.where(W > 0, W * numerator / denominator, 0)
    np.testing.assert_allclose(new, expected, rtol=tolerance)
    np.testing.assert_allclose(P, expected.T @ X, rtol=tolerance)


@pytest.mark.parametrize("solver", ["multiplicative", "coordinate"])
@pytest.mark.parametrize("method", ["mccgr", "l2", "gdcls", "pg"])
def test_whole_runs_agree_with_blas(monkeypatch, method, solver):
    X, _ = planted()
    A = build_graph(X, paper_graph())
    settings = paper(k=3, method=method, solver=solver, iterations=10, alpha=1.0)
    by_blas = solve(MemoryBlocks(X, 13), settings, A)
    used = []
    monkeypatch.setattr(products, "COMPILED_BYTES", 0)
    monkeypatch.setattr(products.Products, "module", lambda self: used.append(self.compiled) or compiled)
    ours = solve(MemoryBlocks(X, 13), settings, A)
    assert all(used)
    assert used
    assert relative_gap(ours.W, by_blas.W) < 1e-9
    assert relative_gap(ours.H, by_blas.H) < 1e-9


@pytest.mark.parametrize("bounded", [False, True])
@pytest.mark.parametrize("rows", [1, 16, 300])
def test_rounds_over_components(rng_and_tolerance, rows, bounded):
    random, tolerance = rng_and_tolerance
    W, basis = random(rows, 6), random(6, 20)
    gram = basis @ basis.T
    gram[2] = gram[:, 2] = 0  # a component that explains nothing
    target, bound = random(rows, 6) @ gram, random(rows) if bounded else None
    ours = compiled.descended(W, target, gram, bound, 3)
    plain = coordinate.descended(W, target, gram, bound, 3, products.Products())
    np.testing.assert_allclose(ours, plain, atol=tolerance)


def test_small_matrices_and_many_components_do_not_load_them():
    small, large = MemoryBlocks(np.ones((10, 10))), MemoryBlocks(np.ones((9000, 1000)))
    block = np.ones((10, 10))
    assert products.products_for(small).kernels(block, 3) is None
    assert products.products_for(large).kernels(block, 3) is compiled
    assert products.products_for(large).kernels(block, 31) is None
