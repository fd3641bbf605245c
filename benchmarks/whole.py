"""A default run from the matrix to the clusters, beside scikit-learn's k-means with 10 starts on the same matrix.

    python -m benchmarks.whole [--samples 50000] [--features 500] [--k 10]

X has planted clusters. Both run in this process, one after the other; the time of imports is not counted.
"""

from __future__ import annotations

import argparse
from functools import partial

import numpy as np
from sklearn.cluster import KMeans

from benchmarks.timing import machine, seconds
from mccgr_cli.api import prepare
from mccgr_cli.blocks.in_memory import MemoryBlocks
from mccgr_cli.blocks.protocol import Array
from mccgr_cli.core.kmeans import largest_coefficient
from mccgr_cli.core.metrics import agreement
from mccgr_cli.settings import AUTO, GraphSettings, Settings
from mccgr_cli.workflow import factorization
from mccgr_cli.workflow.choice import settle


def clusters(samples: int, features: int, k: int) -> tuple[Array, Array]:
    """Counts of samples that differ in size and in their cluster, and their clusters."""
    rng = np.random.default_rng(0)
    part = rng.integers(0, k, samples)
    means = rng.gamma(0.5, 2.0, (k, features))[part] * rng.uniform(0.5, 1.5, (samples, 1))
    return rng.poisson(means).astype(np.float64), part


class Run:
    """The steps of ``mccgr_cli.factorize``, one by one."""

    def __init__(self, X: Array, k: int) -> None:
        self.X, self.settings, self.graph = X, Settings(k=k), GraphSettings()

    def choose(self) -> None:
        settled = settle(MemoryBlocks(self.X), self.settings, AUTO, self.graph)
        self.settings, self.graph = settled.settings, settled.graph
        self.rows = MemoryBlocks(prepare(self.X, settled.normalize))

    def build_graph(self) -> None:
        self.A = factorization.choose_graph(self.rows, self.settings, self.graph)

    def factorize(self) -> None:
        self.factors = factorization.factorize(self.rows, self.settings, self.A)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--samples", type=int, default=50_000)
    options.add_argument("--features", type=int, default=500)
    options.add_argument("--k", type=int, default=10)
    given = options.parse_args()
    print(machine(), flush=True)
    X, part = clusters(given.samples, given.features, given.k)
    peer = KMeans(given.k, n_init=10, random_state=0)
    of_peer = seconds(partial(peer.fit, X))
    run, taken = Run(X, given.k), {}
    for name in ("choose", "build_graph", "factorize"):
        taken[name] = seconds(getattr(run, name))
    own = sum(taken.values())
    steps = ", ".join(f"{name} {time:.1f} s" for name, time in taken.items())
    found = agreement(part, largest_coefficient(run.factors.W))
    print(f"{given.samples} x {given.features}, k {given.k}")
    print(f"mccgr {own:.1f} s ({steps}), NMI {found:.3f}")
    print(f"k-means {of_peer:.1f} s, NMI {agreement(part, peer.labels_):.3f}; ratio of the times {own / of_peer:.2f}")


if __name__ == "__main__":
    main()
