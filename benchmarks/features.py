"""The effect of the options of ``mccgr extract`` on clustering: NMI over random draws of categories.

    python benchmarks/features.py IMAGES/ [--each 60] [--draws 20] [--words 300] [--only NAME,...]

IMAGES has a folder for each of 20 or more categories. The first images of each (--each) are used. One half of the
categories (the first, third, ...) is for choosing options, the other for reporting; each half has a line. The numbers
are mean NMIs over the draws, of k-means on X, on its square roots, and on the coefficients of mccgr on both.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import replace

import numpy as np

from mccgr_cli.blocks.protocol import Array
from mccgr_cli.blocks.rows import normalize
from mccgr_cli.core.graph import build_graph
from mccgr_cli.core.kmeans import kmeans
from mccgr_cli.core.metrics import evaluate
from mccgr_cli.files.folders import SampleFile
from mccgr_cli.images.extract import count_words, learn_codebooks
from mccgr_cli.images.find import images_in_folder
from mccgr_cli.images.settings import Description, Learning
from mccgr_cli.settings import GraphSettings, Settings, by_preset
from mccgr_cli.system.processes import LocalPool, usable_cores
from mccgr_cli.workflow import factorization

PAPER = Description(min_contrast=0.0)
CHOICES = {
    "paper": PAPER,
    "default": Description(),
    "contrast 0.5": replace(PAPER, min_contrast=0.5),
    "contrast 2": replace(PAPER, min_contrast=2.0),
    "contrast 4": replace(PAPER, min_contrast=4.0),
    "radii x 2": Description(radii=(8, 16, 24, 32)),
    "radii x 6": Description(radii=(24, 48, 72, 96)),
    "paper radii x 6": replace(PAPER, radii=(24, 48, 72, 96)),
    "radii 8 to 64": Description(radii=(8, 16, 32, 64)),
    "radii 4 to 64": Description(radii=(4, 8, 16, 32, 64)),
    "radii 8 to 72": Description(radii=(8, 24, 72)),
    "radii x 6 contrast 2": Description(radii=(24, 48, 72, 96), min_contrast=2.0),
    "step 5": Description(step=5),
    "root-sift": Description(root_sift=True),
    "soft": Description(soft=True),
    "keypoints": Description(detector="keypoints"),
}
CLUSTERS = (5, 10)
MAX_PIXELS = 10**8


def scores(X: Array, labels: Array, k: int, draws: int) -> dict[str, list[float]]:
    """The NMI of every draw of k categories, by method and normalization."""
    found: dict[str, list[float]] = {}
    for draw in range(draws):
        chosen = np.random.default_rng([k, draw]).choice(np.unique(labels), k, replace=False)
        some = np.isin(labels, chosen)
        truth = [str(label) for label in labels[some]]
        for normalization in ("none", "sqrt"):
            rows = normalize(X[some].astype(np.float64), normalization)
            settings = by_preset("paper", Settings, k=k, iterations=100, seed=draw)
            factors = factorization.factorize(rows, settings, build_graph(rows, by_preset("paper", GraphSettings)))
            for name, samples in (("k-means", rows), ("mccgr", factors.W)):
                score = evaluate(truth, kmeans(samples, k, 5, draw))
                found.setdefault(f"{name} {normalization}", []).append(score.nmi)
    return found


def every_category(images: str, each: int) -> list[SampleFile]:
    """The first images of each category."""
    taken: dict[str | None, int] = {}
    chosen = []
    for image in images_in_folder(images).images:
        taken[image.label] = taken.get(image.label, 0) + 1
        if taken[image.label] <= each:
            chosen.append(image)
    return chosen


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("images")
    options.add_argument("--each", type=int, default=60)
    options.add_argument("--draws", type=int, default=20)
    options.add_argument("--words", type=int, default=300)
    options.add_argument("--only", help="names of choices, with commas between them")
    given = options.parse_args()
    images = every_category(given.images, given.each)
    names = given.only.split(",") if given.only else list(CHOICES)
    heads = [f"{name} {normalization}" for name in ("k-means", "mccgr") for normalization in ("none", "sqrt")]
    print(f"{len(images)} images, {given.words} words; NMI, for K = {' and '.join(map(str, CLUSTERS))}")
    print(f"{'':22}{'half':>7}{'top word':>9}" + "".join(f"{head:>14}" for head in heads) + f"{'mean':>7}{'s':>6}")
    with LocalPool(usable_cores()) as workers:
        for name in names:
            began = time.perf_counter()
            books = learn_codebooks(images, CHOICES[name], Learning(words=(given.words,)), workers, MAX_PIXELS)
            counts = count_words(images, books, workers, MAX_PIXELS)
            taken = time.perf_counter() - began
            X = counts.X[0]
            _, labels = np.unique([str(image.label) for image in counts.images], return_inverse=True)
            top = X.sum(axis=0).max() / X.sum()
            for half, title in enumerate(("choose", "report")):
                mine = labels % 2 == half
                by_k = [scores(X[mine], labels[mine], k, given.draws) for k in CLUSTERS]
                nmi = [[float(np.mean(found[head])) for found in by_k] for head in heads]
                cells = "".join(f"{a:8.3f}{b:6.3f}" for a, b in nmi)
                print(f"{name:22}{title:>7}{top:9.1%}{cells}{np.mean(nmi):7.3f}{taken:6.0f}", flush=True)


if __name__ == "__main__":
    main()
