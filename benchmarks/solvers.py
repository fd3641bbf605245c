"""Compare the clusters of both solvers with the defaults: why multiplicative updates are the default.

python -m benchmarks.solvers --data matrices/ [--seeds 3]
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.timing import line, table
from mccgr_cli.core.kmeans import kmeans
from mccgr_cli.core.metrics import evaluate
from mccgr_cli.files.readers import load
from mccgr_cli.settings import GraphSettings, RowSettings, Settings
from mccgr_cli.workflow import factorization, stages

WAYS: dict[str, dict[str, Any]] = {
    "multiplicative": {},
    "coordinate, tolerance 0.01": {"solver": "coordinate", "tolerance": 1e-2},
    "coordinate, tolerance 0.001": {"solver": "coordinate"},
}


def main(arguments: list[str] | None = None) -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--data", type=Path)
    options.add_argument("--seeds", type=int, default=3)
    given = options.parse_args(arguments)
    if given.data is None:
        print("this benchmark needs --data")
        return
    print(table(["NMI (iterations)", *WAYS], []), flush=True)
    for file in ("COIL20.mat", "TDT2.mat"):
        for method in ("mccgr", "grnmf", "mcc", "l2"):
            matrix = load(str(given.data / file))
            labels = [str(label) for label in matrix.contents["labels"]]
            X = stages.prepare(matrix, RowSettings.normalize)
            cells: list[object] = [f"{file.removesuffix('.mat')}, {method}"]
            found: dict[str, list[tuple[float, int]]] = {name: [] for name in WAYS}
            for seed in range(given.seeds):
                settings = Settings(k=len(set(labels)), method=method, seed=seed)
                A = factorization.choose_graph(X, settings, GraphSettings())
                for name, way in WAYS.items():
                    factors = factorization.factorize(X, replace(settings, **way), A)
                    scores = evaluate(labels, kmeans(factors.W, settings.k, 20, seed))
                    found[name].append((scores.nmi, factors.iterations))
            for results in found.values():
                nmi, iterations = np.mean(results, axis=0)
                cells.append(f"{nmi:.3f} ({iterations:.0f})")
            print(line(cells), flush=True)


if __name__ == "__main__":
    main()
