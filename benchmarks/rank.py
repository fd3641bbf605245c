"""How often ``mccgr rank`` finds the true number of parts, as a Markdown table.

    python -m benchmarks.rank [FILE:K ...] [--seeds 5] [--levels easy,noisy,hard] [--ks 3,5,8,12] [--jobs 1]
                              [--normalize l2]

Synthetic matrices have k parts that share features, clusters of unequal size, mixtures of parts, multiplicative noise,
and features that are only noise. FILE:K are files whose true number of classes is K, for example COIL20.mat:20. Each
matrix is ranked with the defaults and --k 2-15 (or up to K + 5). "At k" is the agreement (adjusted Rand index) of the
clusters of ``mccgr factorize --k K`` with the truth: if it is low, the number of clusters cannot be found. For matrices
without clusters (noise, permuted features of textures) the right answer is 1; for a line between two parts it is 2.
The rows of the planted matrices differ in size at random, so --normalize is l2. auto: as the command chooses.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import sklearn.cluster  # noqa: F401 - its threads are limited only if it is imported before
from threadpoolctl import threadpool_limits

from mccgr_cli.blocks.in_memory import MemoryBlocks
from mccgr_cli.blocks.protocol import Array, Matrix
from mccgr_cli.blocks.rows import normalize
from mccgr_cli.cli.rank import Trials
from mccgr_cli.core.kmeans import largest_coefficient
from mccgr_cli.core.metrics import evaluate
from mccgr_cli.files.readers import load
from mccgr_cli.settings import GraphSettings, Settings
from mccgr_cli.system.processes import LocalPool
from mccgr_cli.workflow import factorization, ranking
from mccgr_cli.workflow.choice import settle

TEXTURES = Path(__file__).parent.parent / "sample_data" / "textures.h5"


@dataclass(frozen=True)
class Level:
    """The difficulty of a synthetic matrix."""

    mixing: float  # share of other parts in a sample
    noise: float  # relative standard deviation
    useless: float  # features of noise for each useful feature


LEVELS = {"easy": Level(0.25, 0.6, 0.25), "noisy": Level(0.4, 0.8, 0.5), "hard": Level(0.6, 1.0, 0.5)}


def planted(k: int, seed: int, level: Level, samples: int = 30, features: int = 12) -> tuple[Array, Array]:
    """X with ``samples`` and ``features`` for each of k parts, and the main part of each sample."""
    rng = np.random.default_rng([seed, k])
    sizes = np.maximum(samples * k * rng.dirichlet(np.full(k, 6.0)), 8).astype(int)
    labels = rng.permutation(np.repeat(np.arange(k), sizes))
    n, d = len(labels), features * k
    parts = 0.05 + rng.gamma(1.0, 1.0, (k, d)) * (rng.random((k, d)) < max(1.5 / k, 0.25))
    others = rng.dirichlet(np.full(k, 0.5), n) * rng.random((n, 1))
    X = (np.eye(k)[labels] + 2 * level.mixing * others) @ parts
    X *= rng.gamma(level.noise**-2, level.noise**2, X.shape)
    X += 0.1 * rng.random(X.shape)
    X *= rng.gamma(4, 0.25, (n, 1))
    useless = rng.gamma(1.0, parts.mean(), (n, int(level.useless * d)))
    return np.hstack([X, useless])[:, rng.permutation(d + useless.shape[1])], labels


def without_clusters(seed: int) -> dict[str, tuple[Array, int]]:
    rng = np.random.default_rng(seed)
    textures = load(str(TEXTURES)).contents["X"].load().astype(np.float64)
    parts, where = rng.gamma(1.0, 1.0, (2, 60)), rng.random((150, 1))
    return {
        "noise": (rng.gamma(2.0, 1.0, (150, 60)), 1),
        "textures, permuted": (rng.permuted(textures, axis=0), 1),
        "a line": ((where * parts[0] + (1 - where) * parts[1]) * rng.gamma(4, 0.25, (150, 60)), 2),
    }


def rank(X: Matrix, most: int, jobs: int, normalization: str) -> ranking.Ranking:
    plan = ranking.Plan(tuple(range(2, most + 1)), 20, 0.8, 0, Settings(k=1), GraphSettings())
    if X.shape[0] > Trials.samples:
        X = ranking.draw_samples(MemoryBlocks(X), Trials.samples, 0)
    X, plan, _ = ranking.settled(X.astype(np.float64), plan, normalization)
    tasks = plan.tasks()
    with LocalPool(jobs) as workers:
        results = list(workers.map(ranking.run_task, tasks, (X, plan), None))
    return ranking.combine(tasks, results, X, plan)


def attainable(X: Matrix, labels: Array, k: int, normalization: str) -> float:
    raw = X.astype(np.float64)
    with threadpool_limits(limits=1):
        chosen = settle(MemoryBlocks(raw), Settings(k=k), normalization, GraphSettings())
        X = normalize(raw, chosen.normalize)
        A = factorization.choose_graph(X, chosen.settings, chosen.graph)
        factors = factorization.factorize(X, chosen.settings, A)
        return evaluate(labels.tolist(), largest_coefficient(factors.W)).ari


def show(name: str, X: Matrix, labels: Array | None, k: int, given: argparse.Namespace) -> bool:
    """Print a row, and return whether the recommendation differs from the truth by at most 1."""
    began = time.perf_counter()
    best = rank(X, max(15, k + 5), given.jobs, given.normalize).recommendation
    agrees = "-" if labels is None else f"{attainable(X, labels, k, given.normalize):.2f}"
    votes = f"{best.by_stability} | {best.by_heldout} | {best.bracket[0]}-{best.bracket[1]} | {best.by_silhouette}"
    shape = f"{X.shape[0]} x {X.shape[1]}"
    recommended = f"**{best.k}**{'' if best.firm else ' (in doubt)'}"
    print(
        f"| {name} | {shape} | {k} | {recommended} | {votes} | {agrees} | {time.perf_counter() - began:.0f} |",
        flush=True,
    )
    return abs(best.k - k) <= 1


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("files", nargs="*", metavar="FILE:K")
    options.add_argument("--seeds", type=int, default=5)
    options.add_argument("--levels", default=",".join(LEVELS))
    options.add_argument("--ks", default="3,5,8,12")
    options.add_argument("--jobs", type=int, default=1)
    options.add_argument("--normalize", default="l2")
    given = options.parse_args()
    print("| problem | size | k | recommended | stability | held-out | bracket | silhouette | at k | seconds |")
    print("|---" * 10 + "|", flush=True)
    counts: dict[str, list[bool]] = {}
    for level in filter(None, given.levels.split(",")):
        for k in map(int, given.ks.split(",")):
            for seed in range(given.seeds):
                X, labels = planted(k, seed, LEVELS[level])
                right = show(f"{level} {seed}", X, labels, k, given)
                counts.setdefault(f"{level}, k = {k}", []).append(right)
    for seed in range(min(given.seeds, 2)):
        for name, (X, k) in without_clusters(seed).items():
            show(f"{name} {seed}", X, None, k, given)
    for one in given.files:
        path, _, k = one.rpartition(":")
        contents = load(path).contents
        show(Path(path).name, contents["X"].load(), contents["labels"], int(k), given)
    if counts:
        print("\n| parts | recommended k within 1 |\n|---|---|")
        for name, found in counts.items():
            print(f"| {name} | {sum(found)} of {len(found)} |")


if __name__ == "__main__":
    main()
