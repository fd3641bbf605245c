"""Compare single and double precision: time per iteration with and without a graph, and NMI on COIL-20.

python -m benchmarks.precision [--data matrices/] [--seeds 3]
"""

from __future__ import annotations

import argparse
import itertools
from functools import partial
from pathlib import Path

import numpy as np

from benchmarks.problems import update_of
from benchmarks.timing import in_turn, per_step, table
from mccgr_cli.core.kmeans import kmeans
from mccgr_cli.core.metrics import evaluate
from mccgr_cli.files.readers import load
from mccgr_cli.settings import GraphSettings, RowSettings, Settings
from mccgr_cli.workflow import factorization, stages

SIZES = ((50_000, 1_000, 10), (50_000, 1_000, 20), (20_000, 1_000, 2))
METHODS = ("mccgr", "mcc")


def nmi(path: Path, dtype: str, seeds: int) -> float:
    """The mean NMI of the clusters found with the defaults."""
    scores = []
    for seed in range(seeds):
        matrix = load(str(path))
        labels = [str(label) for label in matrix.contents["labels"]]
        X = stages.prepare(matrix, RowSettings.normalize, dtype)
        settings = Settings(k=len(set(labels)), seed=seed)
        factors = factorization.factorize(X, settings, factorization.choose_graph(X, settings, GraphSettings()))
        scores.append(evaluate(labels, kmeans(factors.W, settings.k, 20, seed)).nmi)
    return float(np.mean(scores))


def main(arguments: list[str] | None = None) -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--data", type=Path)
    options.add_argument("--seeds", type=int, default=3)
    given = options.parse_args(arguments)
    rows: list[list[object]] = []
    for sizes, method in itertools.product(SIZES, METHODS):
        updates = {name: update_of(*sizes, np.dtype(name), method) for name in ("float32", "float64")}
        taken = in_turn({name: partial(per_step, update) for name, update in updates.items()}, 5)
        times = [f"{1000 * taken[name]:.1f}" for name in updates]
        rows.append(
            ["{} x {}, k = {}, {}".format(*sizes, method), *times, f"{taken['float64'] / taken['float32']:.2f}x"]
        )
    print(table(["time per iteration, ms", "float32", "float64", "ratio"], rows))
    if given.data is not None:
        scores = [nmi(given.data / "COIL20.mat", name, given.seeds) for name in ("float32", "float64")]
        row = ["COIL-20", *(f"{score:.4f}" for score in scores), f"{scores[0] - scores[1]:+.4f}"]
        print("\n" + table(["NMI, defaults", "float32", "float64", "difference"], [row]))


if __name__ == "__main__":
    main()
