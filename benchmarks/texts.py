"""How well clusters of texts agree with their classes, with and without tf-idf rows.

    python -m benchmarks texts DATA/matrices/TDT2.mat [--seeds 3] [--restarts 10]
                               [--rows tfidf,hellinger,l2] [--half first|second]

FILE holds word counts with labels. Every row of the table is what two commands give, with each seed from 0 on:
``mccgr factorize --normalize ...`` and ``mccgr cluster``, or for k-means ``mccgr cluster FILE --k ... --normalize``.
k is the number of classes. ``--half`` takes every other class only.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from benchmarks.timing import machine, table
from mccgr_cli.api import run, settled_rows
from mccgr_cli.blocks.protocol import Array, Matrix
from mccgr_cli.blocks.rows import normalize
from mccgr_cli.core.kmeans import kmeans, largest_coefficient
from mccgr_cli.core.metrics import evaluate
from mccgr_cli.files.readers import load
from mccgr_cli.settings import TFIDF, GraphSettings, RowSettings, Settings

ROWS = (TFIDF, "hellinger", "l2")
INITS = ("auto", "merged")  # starts of mccgr on tf-idf rows
HALVES = ("first", "second")


def main(arguments: Sequence[str] | None = None) -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("file", type=Path)
    options.add_argument("--seeds", type=int, default=3)
    options.add_argument("--restarts", type=int, default=10, help="of k-means")
    options.add_argument("--rows", default=",".join(ROWS), help="normalizations of the rows")
    options.add_argument("--half", choices=HALVES)
    given = options.parse_args(arguments)
    X, labels = read(given.file, given.half)
    k = len(np.unique(labels))
    print(f"{machine()}\n\n{X.shape[0]:,} texts, {X.shape[1]:,} words, {k} classes; means of {given.seeds} seeds\n")
    lines = []
    for how in given.rows.split(","):
        for init in INITS if how == TFIDF else INITS[:1]:
            found = [clusters_of_mccgr(X, Settings(k=k, seed=seed, init=init), how) for seed in range(given.seeds)]
            lines.append(line(f"mccgr, {how}{'' if init == INITS[0] else f', --init {init}'}", labels, found))
        rows = normalize(X.copy(), how)
        lines.append(line(f"k-means, {how}", labels, [kmeans(rows, k, given.restarts, s) for s in range(given.seeds)]))
    print(table(("clusters of", "NMI", "NMI of each seed", "accuracy"), lines))


def read(file: Path, half: str | None) -> tuple[Matrix, Array]:
    contents = load(str(file)).contents
    X, labels = contents["X"].load(), contents["labels"]
    if half is None:
        return X, labels
    some = np.isin(labels, np.unique(labels)[HALVES.index(half) :: 2])
    return X[some], labels[some]


def clusters_of_mccgr(X: Matrix, settings: Settings, how: str) -> Array:
    rows, settled = settled_rows(X, settings, GraphSettings(), RowSettings(how))
    return largest_coefficient(run(rows, settled.settings, settled.graph)[0].W)


def line(name: str, labels: Array, found: Sequence[Array]) -> list[str]:
    scores = [evaluate(labels.tolist(), clusters) for clusters in found]
    each = ", ".join(f"{one.nmi:.3f}" for one in scores)
    return [name, f"{np.mean([one.nmi for one in scores]):.3f}", each, f"{np.mean([s.accuracy for s in scores]):.3f}"]


if __name__ == "__main__":
    main()
