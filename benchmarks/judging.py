"""Compare ways to weight features for the neighbour graph, also by the true classes, as a Markdown table.

    python benchmarks/judging.py X.h5 [--k 2,4,6,8,10] [--runs 24]

It draws classes as ``mccgr experiment`` does and runs mccgr with its defaults except for these weights. "Sharper"
weights are nearly proportional to the explained share; the default gives nearly equal weights to all features that
explain something. Weights by the true classes are not a method: they show how much could be gained.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from typing import Any, TypeAlias

import numpy as np
from threadpoolctl import threadpool_limits

from mccgr_cli.blocks.in_memory import MemoryBlocks
from mccgr_cli.blocks.protocol import Array, Matrix
from mccgr_cli.blocks.rows import normalize
from mccgr_cli.core.graph import build_graph
from mccgr_cli.core.kmeans import kmeans
from mccgr_cli.core.metrics import evaluate
from mccgr_cli.core.parts import explained_variance, spectral_clusters
from mccgr_cli.files.readers import load
from mccgr_cli.settings import GraphSettings, RowSettings, Settings, axes_for
from mccgr_cli.workflow.experiment import Trial, draw_classes
from mccgr_cli.workflow.factorization import HALF_WEIGHT, factorize, learn_weights

SHARP = 10.0  # instead of HALF_WEIGHT: weights are nearly proportional to the shares

Weighting: TypeAlias = Callable[[Matrix, Any, Settings, Array], Array]  # from X, graph, settings and true classes


def by_parts(X: Matrix, A: Any, settings: Settings, labels: Array, sizes: tuple[int, ...] = (1,)) -> Array:
    """The share of each feature that parts of the graph explain; the mean over k times ``sizes`` parts."""
    source = MemoryBlocks(X)
    shares = [explained_variance(source, spectral_clusters(A, size * settings.k, settings.seed)) for size in sizes]
    return np.asarray(np.mean(shares, axis=0))


def by_smoothness(X: Matrix, A: Any, settings: Settings, labels: Array) -> Array:
    """How well neighbours predict a sample: the squared correlation with their mean, by feature."""
    centred = X - X.mean(axis=0)
    near = A @ centred / np.maximum(np.asarray(A.sum(axis=1)), np.finfo(float).tiny)[:, None]
    lengths = np.sqrt((centred**2).sum(axis=0) * (near**2).sum(axis=0))
    cosines: Array = np.divide((centred * near).sum(axis=0), lengths, out=np.zeros(X.shape[1]), where=lengths > 0)
    return np.maximum(cosines, 0) ** 2


def by_classes(X: Matrix, A: Any, settings: Settings, labels: Array) -> Array:
    return explained_variance(MemoryBlocks(X), np.unique(labels, return_inverse=True)[1])


# Each way has rounds: how to get shares s, and c in the weights s / (s + c mean(s)).
WAYS: dict[str, list[tuple[Weighting, float]]] = {
    "by k parts (the default)": [(by_parts, HALF_WEIGHT)],
    "not at all (ρ only)": [],
    "by 2k parts": [(partial(by_parts, sizes=(2,)), HALF_WEIGHT)],
    "by k, 2k and 3k parts": [(partial(by_parts, sizes=(1, 2, 3)), HALF_WEIGHT)],
    "by smoothness": [(by_smoothness, HALF_WEIGHT)],
    "by k parts, sharper": [(by_parts, SHARP)],
    "by k parts, then again, sharper": [(by_parts, HALF_WEIGHT), (by_parts, SHARP)],
    "by the true classes": [(by_classes, HALF_WEIGHT)],
    "by the true classes, sharper": [(by_classes, SHARP)],
}


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("matrix")
    options.add_argument("--k", default="2,4,6,8,10")
    options.add_argument("--runs", type=int, default=24)
    given = options.parse_args()
    contents = load(given.matrix).contents
    trials = [Trial(RowSettings.normalize, int(k), run) for k in given.k.split(",") for run in range(given.runs)]
    score = partial(perform, X=contents["X"].load(), labels=contents["labels"])
    with ProcessPoolExecutor() as pool:
        found = np.array(list(pool.map(score, trials)))  # (trials, ways, scores)
    print("| feature weights | accuracy | nmi |\n|---|---|---|")
    for way, scores in zip(WAYS, np.moveaxis(found, 1, 0), strict=True):
        gaps = scores - found[:, 0]
        errors = gaps.std(axis=0, ddof=1) / np.sqrt(len(trials))
        shown = zip(scores.mean(axis=0), gaps.mean(axis=0), errors, strict=True)
        print(f"| {way} | {' | '.join(f'{mean:.3f} ({gap:+.3f} ±{error:.3f})' for mean, gap, error in shown)} |")


def perform(trial: Trial, X: Matrix, labels: Array) -> list[tuple[float, float]]:
    """Accuracy and NMI of every way in one trial."""
    samples, seed = draw_classes(labels, trial, seed=0)
    X, true = normalize(X[samples].astype(np.float64), trial.normalize), labels[samples]
    settings, graph = Settings(k=trial.k, seed=seed), GraphSettings(axes=axes_for(trial.k))
    scores = []
    with threadpool_limits(limits=1):
        first = build_graph(X, graph, learn_weights(X, settings))
        for rounds in WAYS.values():
            A = first
            for weighting, half_weight in rounds:
                shares = weighting(X, A, settings, true)
                A = build_graph(X, graph, shares / (shares + half_weight * shares.mean()))
            W = factorize(X, settings, A).W
            score = evaluate(true.tolist(), kmeans(W, trial.k, 10, seed))
            scores.append((score.accuracy, score.nmi))
    return scores


if __name__ == "__main__":
    main()
