"""Cluster images that a network has described: mccgr beside k-means and spectral clustering, and visual words.

    python -m benchmarks.networks IMAGES/ [TEXTURES/] [--model efficientnet-lite0] [--most 60] [--draws 20]
    python -m benchmarks.networks IMAGES/ --held-out

IMAGES has a folder for each class. Classes are drawn at random, as ``mccgr experiment`` draws them: K = 5 and K = 10,
then all classes at once. --most takes at most this many images of each class, the first by name (0: all). The scores
are means of the draws; mccgr has its defaults. --held-out clusters 90 % of the images and predicts the other 10 %.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from benchmarks.datasets import DataSet
from benchmarks.timing import machine
from benchmarks.ways import MCCGR, WAYS, cluster
from mccgr_cli import MCCGR as Estimator
from mccgr_cli.blocks.protocol import Array, Matrix
from mccgr_cli.blocks.threads import one_thread
from mccgr_cli.core.metrics import evaluate
from mccgr_cli.files.readers import load
from mccgr_cli.system.processes import LocalPool, usable_cores
from mccgr_cli.workflow.experiment import Trial, draw_classes

COMPARED = ("k-means, raw rows", "k-means, unit rows", "spectral clustering")
SHARE = 0.1  # of the images are held out
Scores = dict[str, tuple[float, float]]  # accuracy and NMI by the name of the way


def describe(folder: Path, options: list[str], most: int) -> tuple[Matrix, Array]:
    """The rows and labels of the images in a folder."""
    with tempfile.TemporaryDirectory() as made:
        chosen, output = Path(made) / "images", Path(made) / "X.h5"
        for category in sorted(path for path in folder.iterdir() if path.is_dir()):
            (chosen / category.name).mkdir(parents=True)
            for image in sorted(category.iterdir())[: most or None]:
                (chosen / category.name / image.name).symlink_to(image.resolve())
        command = [sys.executable, "-m", "mccgr_cli", "extract", str(chosen), *options, "-q", "-o", str(output)]
        subprocess.run(command, check=True)
        contents = load(str(output)).contents
        return contents["X"].load().astype(np.float64), np.asarray(contents["labels"])


def run_trial(trial: Trial, X: Matrix, labels: Array) -> Scores:
    samples, seed = draw_classes(labels, trial, 0)
    codes = np.unique(labels[samples], return_inverse=True)[1]
    data = DataSet(X[samples], codes)
    found: Scores = {}
    with one_thread():
        for way in [*(one for one in WAYS if one.names[0] in COMPARED), MCCGR]:
            scores = evaluate(codes.tolist(), cluster(way, data, seed)[0])
            found[way.names[0]] = scores.accuracy, scores.nmi
    return found


def compare(X: Matrix, labels: Array, trials: list[Trial]) -> Scores:
    """Mean scores over some draws of classes."""
    with LocalPool(min(usable_cores(), len(trials))) as workers:
        none: Scores = {}
        found = [one for one in workers.map(run_trial, trials, (X, labels), none) if one]
    pairs = {name: np.mean([one[name] for one in found], axis=0) for name in found[0]}
    return {name: (float(pair[0]), float(pair[1])) for name, pair in pairs.items()}


def show_quality(given: argparse.Namespace) -> None:
    table: dict[str, dict[str, Scores]] = {}
    network = ["--model", given.model]
    for name, options in {given.model: network, "300 visual words": []}.items():
        X, labels = describe(given.images, options, given.most)
        classes = len(np.unique(labels))
        draws = {f"K = {k}": [Trial("auto", k, run) for run in range(given.draws)] for k in (5, 10)}
        draws[f"all {classes}"] = [Trial("auto", classes, 0)]
        table[name] = {draw: compare(X, labels, trials) for draw, trials in draws.items()}
        if given.textures is not None:
            X, labels = describe(given.textures, options, 0)
            table[name]["textures"] = compare(X, labels, [Trial("auto", len(np.unique(labels)), 0)])
        show(name, table[name])


def show(name: str, found: dict[str, Scores]) -> None:
    print(f"\n{name}: accuracy / NMI\n\n| | {' | '.join(found)} | mean |\n|---|{'---|' * (len(found) + 1)}")
    for way in next(iter(found.values())):
        pairs = np.array([scores[way] for scores in found.values()])
        cells = [f"{accuracy:.3f} / {nmi:.3f}" for accuracy, nmi in [*pairs, pairs.mean(axis=0)]]
        print(f"| {way} | {' | '.join(cells)} |", flush=True)


def show_held_out(given: argparse.Namespace) -> None:
    """Shares of images whose cluster is matched with their class: of those that were clustered, and of new ones."""
    X, labels = describe(given.images, ["--model", given.model], given.most)
    scores = [held_out(X, labels, seed) for seed in range(given.seeds)]
    print("| seed | clustered | predicted | difference |\n|---|---|---|---|")
    for seed, (old, new) in [*enumerate(scores), ("mean", np.mean(scores, axis=0))]:
        print(f"| {seed} | {old:.3f} | {new:.3f} | {old - new:+.3f} |")


def held_out(X: Matrix, labels: Array, seed: int) -> tuple[float, float]:
    order = np.random.default_rng(seed).permutation(len(labels))
    new, old = np.split(order, [round(SHARE * len(order))])
    model = Estimator(n_components=len(np.unique(labels)), random_state=seed).fit(X[np.sort(old)])
    scores = evaluate(labels[np.sort(old)].tolist(), model.labels_)
    matched = dict(zip(scores.clusters, scores.matches, strict=False))
    pairs = zip(model.predict(X[new]).tolist(), labels[new].tolist(), strict=True)
    right = [matched.get(found) == str(label) for found, label in pairs]
    return scores.accuracy, float(np.mean(right))


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("images", type=Path)
    options.add_argument("textures", type=Path, nargs="?")
    options.add_argument("--model", default="efficientnet-lite0")
    options.add_argument("--most", type=int, default=60)
    options.add_argument("--draws", type=int, default=20)
    options.add_argument("--held-out", action="store_true")
    options.add_argument("--seeds", type=int, default=5, help="for --held-out")
    given = options.parse_args()
    print(machine())
    (show_held_out if given.held_out else show_quality)(given)


if __name__ == "__main__":
    main()
