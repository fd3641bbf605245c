"""Plant copies among images and count how many ``mccgr duplicates`` finds, and which other pairs.

    python -m benchmarks.duplicates IMAGES/ [--seeds 3] [--images 1000] [--copies 30] [--words]

Copies are saved again (JPEG, quality 30 to 90), resized (by 0.3 to 2), cropped (10 to 25 % of each side), or several of
these. Pairs that were not planted are named: look at them, they may be near-duplicates that were there before. With
--words, visual words describe the images instead of the ready network. ``similar`` is asked for each copy, also with
--features-only.
"""

from __future__ import annotations

import argparse
import csv
import io
import itertools
import subprocess
import sys
import tempfile
from collections import defaultdict
from pathlib import Path

import numpy as np
from PIL import Image

from benchmarks.timing import machine

KINDS = ("jpeg", "resize", "crop", "crop resize", "crop jpeg", "resize jpeg", "crop resize jpeg")


def make_copy(image: Image.Image, kind: str, rng: np.random.Generator) -> bytes:
    """An image as JPEG, changed in this way."""
    image = image.convert("RGB")
    if "crop" in kind:
        left, top, right, bottom = rng.uniform(0.10, 0.25, 4)
        width, height = image.size
        image = image.crop((int(width * left), int(height * top), int(width * (1 - right)), int(height * (1 - bottom))))
    if "resize" in kind:
        factor = float(np.exp(rng.uniform(np.log(0.3), np.log(2))))
        image = image.resize(
            (max(8, int(image.width * factor)), max(8, int(image.height * factor))), Image.Resampling.LANCZOS
        )
    written = io.BytesIO()
    image.save(written, "JPEG", quality=int(rng.integers(30, 91)) if "jpeg" in kind else 95)
    return written.getvalue()


def mccgr(*words: str) -> str:
    return subprocess.run(
        [sys.executable, "-m", "mccgr_cli", *words], check=True, capture_output=True, text=True
    ).stdout


def originals_first(matrix: Path, copies: int, *options: str) -> int:
    """Copies for which ``similar`` lists the original first."""
    asked = [f"copy{i:05}.jpg" for i in range(copies)]
    printed = mccgr("similar", str(matrix), *asked, *options, "--most", "1", "--format", "csv", "-q")
    nearest = csv.DictReader(io.StringIO(printed))
    return sum(Path(row["query"]).stem == f"copy{Path(row['sample']).stem}" for row in nearest)


def measure(images: list[Path], copies: int, seed: int, options: list[str]) -> tuple[list[int], list[str]]:
    """Copies that were found, other pairs, copies whose original comes first, by features too; and the other pairs."""
    rng = np.random.default_rng(seed)
    with tempfile.TemporaryDirectory() as made:
        folder, matrix = Path(made) / "images", Path(made) / "X.h5"
        folder.mkdir()
        for number, path in enumerate(images):
            (folder / f"{number:05}{path.suffix}").symlink_to(path.resolve())
        for number, path in enumerate(images[:copies]):
            with Image.open(path) as image:
                kind = KINDS[int(rng.integers(len(KINDS)))]
                (folder / f"copy{number:05}.jpg").write_bytes(make_copy(image, kind, rng))
        mccgr("extract", str(folder), *options, "-q", "-o", str(matrix))
        groups = defaultdict(list)
        for row in csv.DictReader(io.StringIO(mccgr("duplicates", str(matrix), "--format", "csv", "-q"))):
            groups[row["group"]].append(Path(row["sample"]).stem)
        pairs = {frozenset(pair) for group in groups.values() for pair in itertools.combinations(group, 2)}
        planted = {frozenset((f"{i:05}", f"copy{i:05}")) for i in range(copies)}
        false = [pair for pair in pairs if len({name.removeprefix("copy") for name in pair}) > 1]
        right = [originals_first(matrix, copies, *how) for how in ((), ("--features-only",))]
    return [len(pairs & planted), len(false), *right], [" ".join(sorted(pair)) for pair in false]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--images", type=int, default=1000)
    parser.add_argument("--copies", type=int, default=30)
    parser.add_argument("--words", action="store_true")
    given = parser.parse_args()
    everything = sorted(path for path in given.folder.rglob("*") if path.suffix.lower() in (".jpg", ".png"))
    print(machine())
    print("\n| seed | copies found | pairs that were not planted | original comes first | by features only |")
    print("|---|---|---|---|---|")
    for seed in range(given.seeds):
        chosen = np.random.default_rng([seed, 1]).choice(len(everything), given.images, replace=False)
        options = [] if given.words else ["--model", "efficientnet-lite0"]
        (found, false, *right), named = measure([everything[i] for i in chosen], given.copies, seed, options)
        first = " | ".join(f"{number} of {given.copies}" for number in right)
        print(f"| {seed} | {found} of {given.copies} | {false} | {first} |", flush=True)
        for pair in named:
            paths = (everything[chosen[int(one.removeprefix("copy"))]] for one in pair.split())
            print(f"  not planted: {' and '.join(map(str, paths))}")


if __name__ == "__main__":
    main()
