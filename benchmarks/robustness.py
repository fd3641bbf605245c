"""NMI and accuracy on a matrix, also with some features replaced by uniform noise, as a Markdown table.

    python benchmarks/robustness.py COIL20.mat [--noise 0,0.1,0.3] [--draws 5]

k is the number of classes. Noise is uniform from 0 to the largest value of X. Every draw has another seed and replaces
other features. "grnmf, Cai" has the settings of Cai's code: rows of unit length, 5 nearest neighbours, 0-1 weights,
alpha 100, random start. The others have the defaults except for the named options.
"""

from __future__ import annotations

import argparse
from dataclasses import replace

import numpy as np

from mccgr_cli.blocks.protocol import Matrix
from mccgr_cli.blocks.rows import normalize
from mccgr_cli.core.kmeans import kmeans
from mccgr_cli.core.metrics import Scores, evaluate
from mccgr_cli.files.readers import load
from mccgr_cli.settings import GraphSettings, RowSettings, Settings, by_preset
from mccgr_cli.workflow import factorization


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("matrix")
    options.add_argument("--noise", default="0", help="fractions of the features, separated by commas")
    options.add_argument("--draws", type=int, default=5)
    given = options.parse_args()
    contents = load(given.matrix).contents
    X, labels = contents["X"].load().astype(np.float64), [str(label) for label in contents["labels"]]
    k, shares = len(set(labels)), [float(share) for share in given.noise.split(",")]
    mine, graph = Settings(k=k), GraphSettings()
    ways = {
        "k-means": None,
        "grnmf, Cai": (by_preset("paper", Settings, k=k, method="grnmf"), by_preset("paper", GraphSettings), "l2"),
        "grnmf": (replace(mine, method="grnmf"), graph, RowSettings.normalize),
        "mccgr": (mine, graph, RowSettings.normalize),
        "mccgr, `--graph-features weighted`": (mine, replace(graph, graph_features="weighted"), RowSettings.normalize),
        "mccgr, `--graph-features plain`": (mine, replace(graph, graph_features="plain"), RowSettings.normalize),
        "mccgr, `--preset paper`, unit rows": (
            *(by_preset("paper", Settings, k=k), by_preset("paper", GraphSettings)),
            "l2",
        ),
    }
    print(f"| {given.matrix.rsplit('/', 1)[-1]}, noise: | {' | '.join(f'{share:.0%}' for share in shares)} |")
    print("|---" * (1 + len(shares)) + "|")
    for name, way in ways.items():
        cells = []
        for share in shares:
            scores = [cluster(disturbed(X, share, seed), labels, k, way, seed) for seed in range(given.draws)]
            nmi, accuracy = [score.nmi for score in scores], [score.accuracy for score in scores]
            cells.append(f"NMI {np.mean(nmi):.3f} ±{np.std(nmi, ddof=1):.3f}, accuracy {np.mean(accuracy):.3f}")
        print(f"| {name} | {' | '.join(cells)} |", flush=True)


def disturbed(X: Matrix, share: float, seed: int) -> Matrix:
    rng = np.random.default_rng(seed)
    if not share:
        return X.copy()
    noisy = X.copy() if isinstance(X, np.ndarray) else X.toarray()
    features = rng.choice(X.shape[1], int(share * X.shape[1]), replace=False)
    noisy[:, features] = rng.random((X.shape[0], len(features))) * X.max()
    return noisy


def cluster(X: Matrix, labels: list[str], k: int, way: tuple[Settings, GraphSettings, str] | None, seed: int) -> Scores:
    if way is None:
        return evaluate(labels, kmeans(normalize(X, RowSettings.normalize), k, 20, seed))
    settings, graph, normalization = replace(way[0], seed=seed), way[1], way[2]
    X = normalize(X, normalization)
    factors = factorization.factorize(X, settings, factorization.choose_graph(X, settings, graph))
    return evaluate(labels, kmeans(factors.W, k, 20, seed))


if __name__ == "__main__":
    main()
