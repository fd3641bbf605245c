"""The quality of clusters on many sets, beside simple ways to cluster, as Markdown tables (docs/QUALITY.md).

    python -m benchmarks suite DATA [--sets yale,umist] [--texts NAME,...] [--seeds 3] [-o results.csv]
    python -m benchmarks suite DATA --noise [-o results.csv]
    python -m benchmarks suite DATA --held-out [-o results.csv]

DATA is a folder with suite/*.mat and matrices/ (the development sets; then the images of sample_data/textures and the
digits of scikit-learn are sets too), or any folder of .mat and .h5 files with samples (fea or X) and classes (gnd or
labels). k is the number of classes. Scores are means over the seeds. With -o every result is written at once, and what
the file has already is not measured again; remove the file when the program has changed.

--noise compares on sets with noise, --held-out predicts the clusters of new samples, each instead of the comparison.
The named texts (and pcmac, relathe, TDT2) get tf-idf rows where a method is usually given them.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from benchmarks.datasets import DataSet, Source, noisy_sources, sources
from benchmarks.heldout import SCORES, held_out
from benchmarks.scoreboard import Scoreboard, by_set, number, paired_tests, summary
from benchmarks.timing import machine, table
from benchmarks.ways import NOISE_WAYS, OURS, WAYS, Way, cluster
from mccgr_cli.core.metrics import evaluate

HELD_OUT = "predict"  # the method of these scores in the file


def main(arguments: Sequence[str] | None = None) -> None:
    options = argparse.ArgumentParser(
        prog="python -m benchmarks suite", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("data", type=Path, metavar="DATA")
    options.add_argument("--sets", type=names, help="only these sets, separated by commas")
    options.add_argument("--texts", type=names, default=(), help="sets that are word counts of texts")
    options.add_argument("--seeds", type=int, default=3)
    options.add_argument("--noise", action="store_true")
    options.add_argument("--held-out", action="store_true")
    options.add_argument("-o", "--output", type=Path, help="CSV file for the results, also to continue from")
    given = options.parse_args(arguments)
    board = Scoreboard(given.output)
    print(machine(), flush=True)
    if given.noise:
        compare_on_noise(board, chosen(noisy_sources(given.data), given.sets), given.seeds)
    if given.held_out:
        predict_held_out(board, chosen(sources(given.data, given.texts), given.sets), given.seeds)
    if not (given.noise or given.held_out):
        compare(board, chosen(sources(given.data, given.texts), given.sets), given.seeds)


def names(text: str) -> tuple[str, ...]:
    return tuple(text.split(","))


def chosen(found: list[Source], wanted: Sequence[str] | None) -> list[Source]:
    """The sets with the wanted names."""
    known = [source.name for source in found]
    unknown = [name for name in wanted or () if name not in known]
    if unknown or not known:
        raise SystemExit(f"no set {', '.join(unknown)}; there are: {', '.join(known)}")
    return [source for source in found if wanted is None or source.name in wanted]


# Measuring


@dataclass(frozen=True)
class Measurement:
    """Something to measure on every set."""

    methods: tuple[str, ...]
    scores: Callable[[DataSet, int], list[dict[str, float]]]  # from a set and a seed, for each of the methods
    for_texts: bool = False  # only for texts


def measurement_of(way: Way) -> Measurement:
    return Measurement(way.names, partial(scores_of, way), way.for_texts)


def scores_of(way: Way, data: DataSet, seed: int) -> list[dict[str, float]]:
    """Agreement of the clusters with the classes."""
    compared = [evaluate(data.labels.tolist(), clusters) for clusters in cluster(way, data, seed)]
    return [{"nmi": one.nmi, "accuracy": one.accuracy, "ari": one.ari} for one in compared]


def measure(board: Scoreboard, found: Sequence[Source], wanted: Sequence[Measurement], seeds: int) -> None:
    """Add what is not on the board yet."""
    for source in found:
        missing = [
            (one, seed)
            for one in wanted
            for seed in range(seeds)
            if source.is_text or not one.for_texts
            if not all(board.has(source.name, method, seed) for method in one.methods)
        ]
        data = source.load() if missing else None
        for one, seed in missing:
            if data is not None:
                add(board, source.name, one, source.draw(data, seed), seed)


def add(board: Scoreboard, name: str, one: Measurement, data: DataSet, seed: int) -> None:
    """Measure and add to the board. A method that fails leaves a gap: a long run must not end for it."""
    began = time.perf_counter()
    try:
        results = one.scores(data, seed)
    except Exception as fault:
        print(f"{name}, {one.methods[0]}, seed {seed}: failed: {fault!r}", file=sys.stderr, flush=True)
        return
    taken = time.perf_counter() - began
    for method, scores in zip(one.methods, results, strict=True):
        board.add(name, method, seed, {**scores, "seconds": taken})
    print(f"{name}, {one.methods[0]}, seed {seed}: {taken:.1f} s", file=sys.stderr, flush=True)


# Parts


def compare(board: Scoreboard, found: Sequence[Source], seeds: int) -> None:
    """All methods on all sets."""
    has_texts = any(source.is_text for source in found)
    ways = [way for way in WAYS if has_texts or not way.for_texts]
    measure(board, found, [measurement_of(way) for way in ways], seeds)
    methods, sets = [name for way in ways for name in way.names], [source.name for source in found]
    simple = [way.simple for way in ways for _ in way.names]
    scores = {
        title: board.means(score, methods, sets, seeds)
        for title, score in (("NMI", "nmi"), ("accuracy", "accuracy"), ("ARI", "ari"))
    }
    for title, means in scores.items():
        show(f"{title} by set", by_set(title, means, methods, sets))
    seconds = board.means("seconds", methods, sets, seeds)
    show("Summary", summary(scores, seconds, methods, sets, simple))
    show("Paired tests of NMI", paired_tests(scores["NMI"], methods, OURS))


def compare_on_noise(board: Scoreboard, found: Sequence[Source], seeds: int) -> None:
    """mccgr beside grnmf, and beside a graph in which all features count equally."""
    measure(board, found, [measurement_of(way) for way in NOISE_WAYS], seeds)
    methods, sets = [way.names[0] for way in NOISE_WAYS], [source.name for source in found]
    show("NMI with noise", by_set("NMI", board.means("nmi", methods, sets, seeds), methods, sets))


def predict_held_out(board: Scoreboard, found: Sequence[Source], seeds: int) -> None:
    """The clusters of samples that were not fitted."""
    one = Measurement((HELD_OUT,), lambda data, seed: [held_out(data, seed)])
    measure(board, found, [one], seeds)
    sets = [source.name for source in found]
    means = np.array([board.means(score, [HELD_OUT], sets, seeds)[0] for score in SCORES])
    rows = [[name, *map(number, shares)] for name, shares in zip(sets, means.T, strict=True)]
    rows.append(["mean", *map(number, means.mean(axis=1))])
    show("Held-out samples", table(["set", *SCORES], rows))


def show(title: str, text: str) -> None:
    print(f"\n### {title}\n\n{text}", flush=True)
