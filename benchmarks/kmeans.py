"""Our k-means beside scikit-learn's: seconds and the sum of squared distances, with 10 starts each.

python -m benchmarks.kmeans
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from functools import partial

import numpy as np
from sklearn.cluster import KMeans

from benchmarks.timing import machine, seconds
from mccgr_cli.blocks.protocol import Array
from mccgr_cli.core.kmeans import kmeans


def measured(cluster: Callable[[], Array], X: Array) -> tuple[float, float]:
    """The seconds, and the sum of the squared distances of samples to the centres of their clusters."""
    found: list[Array] = []
    taken = seconds(lambda: found.append(cluster()))
    member = np.eye(int(found[0].max()) + 1)[found[0]]
    centres = member.T @ X / member.sum(axis=0)[:, None]
    return taken, float(((X - centres[found[0]]) ** 2).sum())


def main() -> None:
    print(machine())
    for name in ("mccgr_cli.core.kmeans", "sklearn.cluster"):
        code = (
            f"import numpy, scipy.sparse, time; t = time.perf_counter(); import {name}; print(time.perf_counter() - t)"
        )
        taken = min(float(subprocess.check_output([sys.executable, "-c", code])) for _ in range(5))
        print(f"import {name}: {taken:.2f} s")
    rng = np.random.default_rng(0)
    for n, k in ((60, 3), (1000, 10), (1200, 100), (50_000, 10), (50_000, 50)):
        d = k + k // 2 + 2  # as many as spectral coordinates
        X = rng.normal(size=(k, d))[rng.integers(0, k, n)] + rng.normal(size=(n, d))
        X /= np.linalg.norm(X, axis=1, keepdims=True)
        peer, of_peer = measured(partial(KMeans(k, n_init=10, random_state=0).fit_predict, X), X)
        own, of_own = measured(partial(kmeans, X, k, 10, 0), X)
        print(
            f"n {n}, k {k}, {d} features: ours {own:.3f} s, {of_own:.4g}; scikit-learn {peer:.3f} s, {of_peer:.4g}; "
            f"ratio of the times {own / peer:.2f}"
        )


if __name__ == "__main__":
    main()
