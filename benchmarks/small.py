"""The time of small fits (100 samples, as in experiments), where the overhead matters.

python -m benchmarks.small
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from sklearn.decomposition import NMF
from sklearn.exceptions import ConvergenceWarning

from benchmarks.timing import in_turn, seconds, table
from mccgr_cli.core.kmeans import kmeans
from mccgr_cli.settings import SOLVERS, GraphSettings, Settings, by_preset
from mccgr_cli.workflow import factorization

ITERATIONS = 100


def main(arguments: list[str] | None = None) -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.parse_args(arguments)
    X = np.random.default_rng(0).random((100, 300))
    settings = by_preset("paper", Settings, k=2, iterations=ITERATIONS, tolerance=0)
    plain = by_preset("paper", GraphSettings)
    A = factorization.choose_graph(X, settings, plain)
    W = factorization.factorize(X, settings, A).W

    def scikit_learn(solver: str) -> None:
        NMF(2, init="random", solver=solver, tol=1e-15, max_iter=ITERATIONS, random_state=0).fit_transform(X)

    actions: dict[str, Callable[[], Any]] = {
        f"{method}, {solver}": partial(factorization.factorize, X, replace(settings, method=method, solver=solver), A)
        for method in ("mccgr", "l2")
        for solver in SOLVERS
    }
    actions |= {f"scikit-learn {solver}": partial(scikit_learn, solver) for solver in ("mu", "cd")}
    actions["graph of the paper"] = partial(factorization.choose_graph, X, settings, plain)
    actions["graph of the defaults"] = partial(factorization.choose_graph, X, Settings(k=2), GraphSettings())
    actions["k-means, 20 restarts"] = partial(kmeans, W, 2, 20, 0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        for action in actions.values():
            action()
        taken = in_turn({name: partial(seconds, action) for name, action in actions.items()}, 15)
    rows = [[name, f"{1000 * value:.1f}"] for name, value in taken.items()]
    print(table([f"100 x 300, k = 2, {ITERATIONS} iterations", "ms"], rows))


if __name__ == "__main__":
    main()
