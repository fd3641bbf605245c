"""Our k-means finds what scikit-learn's finds, and nothing depends on chance."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from conftest import planted
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from sklearn.cluster import KMeans

from mccgr_cli.core.kmeans import kmeans
from mccgr_cli.core.metrics import agreement


def sum_of_squares(X, part):
    return sum(((X[part == one] - X[part == one].mean(axis=0)) ** 2).sum() for one in np.unique(part))


def blobs(n=300, k=6, d=8, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(k, d))[rng.integers(0, k, n)] + 0.6 * rng.normal(size=(n, d))


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("k", [2, 6, 15])
def test_as_good_as_scikit_learns(k, seed):
    X = blobs(seed=seed)
    peer = KMeans(k, n_init=10, random_state=seed).fit(X).inertia_
    assert sum_of_squares(X, kmeans(X, k, 10, seed)) < 1.02 * peer


def test_more_restarts_are_not_worse():
    X = blobs(k=20)
    assert sum_of_squares(X, kmeans(X, 20, 20, 0)) <= sum_of_squares(X, kmeans(X, 20, 1, 0))


@pytest.mark.parametrize("make", [sparse.csr_array, np.float32], ids=["sparse", "single precision"])
def test_the_kind_of_matrix_does_not_matter(make):
    X, _ = planted(n=150)
    assert agreement(kmeans(X, 3, 10, 0), kmeans(make(X), 3, 10, 0)) == 1


def test_blocks_of_samples_give_the_clusters_of_all(monkeypatch):
    X = blobs()
    whole = kmeans(X, 6, 3, 0)
    monkeypatch.setattr("mccgr_cli.core.kmeans.BLOCK_ROWS", 50)
    assert agreement(whole, kmeans(X, 6, 3, 0)) > 0.99


@given(st.integers(1, 12), st.integers(1, 6), st.integers(0, 3))
def test_fewer_distinct_samples_than_clusters(n, k, offset):
    X = np.repeat(np.arange(n)[:, None] // 2 + offset * 1e3, 3, axis=1).astype(float)
    part = kmeans(X, k, 2, 0)
    assert len(set(part.tolist())) == min(k, len(np.unique(X)))
    assert all((part[::2][: n // 2] == part[1::2]).tolist())  # equal samples are together


def test_samples_that_are_all_equal_or_zero():
    for value in (0.0, 7.0):
        assert kmeans(np.full((5, 2), value), 3, 2, 0).tolist() == [0] * 5
        assert kmeans(sparse.csr_array(np.full((5, 2), value)), 3, 2, 0).tolist() == [0] * 5


@pytest.mark.slow
def test_the_number_of_threads_changes_nothing():
    code = (
        "import hashlib, numpy as np\n"
        "from mccgr_cli.core.kmeans import kmeans\n"
        "X = np.random.default_rng(0).random((20_000, 12))\n"
        "print(hashlib.sha256(kmeans(X, 7, 2, 0).tobytes()).hexdigest())\n"
    )
    found = {
        subprocess.run(
            [sys.executable, "-c", code], env={"OPENBLAS_NUM_THREADS": threads}, capture_output=True, check=True
        ).stdout
        for threads in ("1", "2", "4")
    }
    assert len(found) == 1
