"""Clustering quality on COIL-20, measured as in Cai's GNMF demo: NMI of k-means on the coefficients.

    python benchmarks/quality.py COIL20.mat [--seeds 10] [--w-scale 1] [--unit-basis]

Rows have unit length; k = 20, alpha = 100, 5 neighbours, k-means with 20 restarts, default number of iterations.
Cai's demo reports .7436 for NMF and .8760 for GNMF. --w-scale multiplies W at the start (and divides H);
--unit-basis moves the length of each row of H into W before k-means, as Cai's code does.
"""

from __future__ import annotations

import argparse
import time

import numpy as np

from mccgr_cli.blocks.in_memory import MemoryBlocks
from mccgr_cli.blocks.products import moments
from mccgr_cli.core.graph import build_graph
from mccgr_cli.core.kmeans import kmeans
from mccgr_cli.core.metrics import evaluate
from mccgr_cli.core.starts import random_start
from mccgr_cli.files.readers import load
from mccgr_cli.settings import GraphSettings, Settings, by_preset
from mccgr_cli.workflow import factorization, stages


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("matrix")
    options.add_argument("--seeds", type=int, default=10)
    options.add_argument("--methods", default="l2,mcc,grnmf,mccgr")
    options.add_argument("--dtype", default="float64")
    options.add_argument("--w-scale", type=float, default=1.0)
    options.add_argument("--unit-basis", action="store_true")
    given = options.parse_args()
    matrix = load(given.matrix)
    labels = matrix.contents["labels"].tolist()
    X = stages.prepare(matrix, "l2", given.dtype)
    A = build_graph(X, by_preset("paper", GraphSettings))
    source = MemoryBlocks(X)
    mean = moments(source).mean
    print(f"{'method':8}{'NMI':>8}{'spread':>8}{'accuracy':>10}{'seconds':>9}")
    for method in given.methods.split(","):
        began, scores = time.perf_counter(), []
        for seed in range(given.seeds):
            W, H = random_start(source, 20, mean, np.random.default_rng(seed))
            start = W * given.w_scale, H / given.w_scale
            factors = factorization.factorize(X, by_preset("paper", Settings, k=20, method=method), A, [start])
            sizes = np.linalg.norm(factors.H, axis=1) if given.unit_basis else 1.0
            scores.append(evaluate(labels, kmeans(factors.W * sizes, 20, 20, seed)))
        taken = (time.perf_counter() - began) / given.seeds
        nmi = [score.nmi for score in scores]
        accuracy = np.mean([score.accuracy for score in scores])
        print(f"{method:8}{np.mean(nmi):8.4f}{np.std(nmi):8.4f}{accuracy:10.4f}{taken:9.2f}")


if __name__ == "__main__":
    main()
