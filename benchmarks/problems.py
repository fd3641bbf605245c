"""The matrices of the speed benchmarks: random ones, and real ones from a folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from mccgr_cli.blocks.in_memory import MemoryBlocks
from mccgr_cli.blocks.products import moments
from mccgr_cli.blocks.protocol import Array, Matrix
from mccgr_cli.core.solver import make_update
from mccgr_cli.core.starts import random_start
from mccgr_cli.files.readers import load
from mccgr_cli.settings import Settings, by_preset
from mccgr_cli.workflow import stages


def planted(samples: int, features: int, k: int, dtype: str = "float64") -> Array:
    """Samples that are mixtures of few of k parts, with multiplicative noise."""
    rng = np.random.default_rng(0)
    X = rng.gamma(0.5, 1.0, (samples, k)) @ rng.gamma(0.5, 1.0, (k, features))
    X *= rng.random((samples, features)) + 0.5
    return X.astype(dtype, copy=False)


def stored(folder: Path, name: str, normalization: str, dtype: str = "float64") -> Matrix:
    return stages.prepare(load(str(folder / name)), normalization, dtype)


def random_graph(samples: int, neighbors: int, seed: int = 0) -> Any:
    """A graph of random neighbours, which is the hardest case for the cache."""
    rng = np.random.default_rng(seed)
    rows = np.repeat(np.arange(samples), neighbors)
    directed = sparse.csr_array((np.ones(len(rows)), (rows, rng.integers(0, samples, len(rows)))))
    directed.setdiag(0)
    A = (directed + directed.T).tocsr()
    A.eliminate_zeros()
    A.data[:] = 1
    return A


def start(X: Matrix, k: int, seed: int = 0) -> tuple[Array, Array]:
    source = MemoryBlocks(X)
    return random_start(source, k, moments(source).mean, np.random.default_rng(seed))


def update_of(n: int, d: int, k: int, dtype: Any, method: str = "mccgr") -> Any:
    """The update of mccgr for a matrix of noise and a graph of random neighbours."""
    rng = np.random.default_rng(0)
    source = MemoryBlocks(rng.random((n, d), dtype=dtype))
    W, H = rng.random((n, k)).astype(dtype), rng.random((k, d)).astype(dtype)
    settings = by_preset("paper", Settings, k=k, method=method, alpha=1.0, tolerance=0)
    update = make_update(source, settings, random_graph(n, 5), moments(source), W, H)
    update.start()
    return update
