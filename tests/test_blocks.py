"""Blocks see all of X, and cutting products up changes nothing."""

from __future__ import annotations

import subprocess
import sys
import threading
import time

import numpy as np
import pytest
from scipy import sparse

from mccgr_cli.blocks.in_memory import MemoryBlocks
from mccgr_cli.blocks.products import moments, narrow_product, times, transposed_times


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("rows", [1, 99, 100, 101, 250])
def test_a_product_in_slices_is_the_product(rows, dtype):
    rng = np.random.default_rng(0)
    X, right = rng.random((rows, 1000), dtype=dtype), rng.random((1000, 10), dtype=dtype)
    product = narrow_product(X, right)
    assert product.dtype == dtype
    np.testing.assert_allclose(
        product, X.astype(float) @ right.astype(float), rtol=1e-4 if dtype == np.float32 else 1e-12
    )


@pytest.mark.parametrize("make", [np.asarray, sparse.csr_array], ids=["dense", "sparse"])
@pytest.mark.parametrize("block_rows", [None, 1, 7, 50, 1000])
def test_passes_equal_whole_products(make, block_rows):
    rng = np.random.default_rng(0)
    X = rng.random((50, 6)) * (rng.random((50, 6)) < 0.5)
    source = MemoryBlocks(make(X), block_rows)
    right, left = rng.random((6, 2)), rng.random((50, 3))
    np.testing.assert_allclose(times(source, right), X @ right)
    np.testing.assert_allclose(transposed_times(source, left), X.T @ left)
    known = moments(source)
    assert known.mean == pytest.approx(X.mean())
    np.testing.assert_allclose(known.squares, (X**2).sum(axis=0))


def fail_on(block, unwanted):
    if unwanted in block:
        raise ValueError(f"met {unwanted}")
    return float(block[0, 0])


@pytest.mark.parametrize("unwanted", [0, 7, 39])
def test_a_failing_block_fails_the_pass_and_the_next_pass_runs(unwanted):
    source = MemoryBlocks(np.arange(40.0)[:, None], 1)
    with pytest.raises(ValueError, match=f"met {unwanted}"):
        list(source.map(fail_on, shared=(unwanted,)))
    assert [value for _, value in source.map(fail_on, shared=(-1,))] == list(range(40))


def thread_of(block):
    time.sleep(0.01)
    return threading.get_ident()


def test_the_thread_that_waits_for_blocks_works_on_them_too(monkeypatch):
    monkeypatch.setattr("mccgr_cli.blocks.threads.blas_threads", lambda: 2)
    worked = [thread for _, thread in MemoryBlocks(np.ones((12, 1)), 1).map(thread_of)]
    assert len(set(worked)) == 2
    assert 3 <= worked.count(threading.get_ident()) <= 9


@pytest.mark.slow
def test_the_number_of_threads_does_not_change_a_byte():
    code = (
        "import hashlib, numpy as np\n"
        "from mccgr_cli.workflow import factorization, stages\n"
        "from mccgr_cli.settings import GraphSettings, Settings\n"
        "rng = np.random.default_rng(0)\n"
        "large = rng.random((3000, 400))\n"  # three blocks and more
        "loose = rng.poisson(1.0, (1200, 60)).astype(float)\n"  # whose graph has more parts than there are components
        "for X, k, method in ((large, 5, 'mcc'), (loose, 10, 'mccgr')):\n"
        "    settings = Settings(k=k, method=method, iterations=5)\n"
        "    A = factorization.choose_graph(X, settings, GraphSettings(neighbors=1))\n"
        "    factors = factorization.factorize(X, settings, A)\n"
        "    print(hashlib.sha256(factors.W.tobytes() + factors.H.tobytes()).hexdigest())\n"
    )
    digests = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={"OPENBLAS_NUM_THREADS": threads, "OMP_NUM_THREADS": threads},
            capture_output=True,
            check=True,
            text=True,
        ).stdout
        for threads in ("1", "2", "4")
    }
    assert len(digests) == 1
