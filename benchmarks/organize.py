"""The time that ``mccgr organize`` takes for many small images: by links, hard links, copies, and moves; and back.

    python -m benchmarks organize
    python -m benchmarks.organize [--images N] [--bytes N] [--clusters N] [--repeats N]

Each number is the median of whole commands in processes of their own, with the time that Python takes to start. The
time of the processor depends less on what else the machine does.
"""

from __future__ import annotations

import argparse
import resource
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from benchmarks.timing import seconds, table
from mccgr_cli.files.container import Contents, encode

WAYS = {"links": (), "hard links": ("--by", "hardlink"), "copies": ("--by", "copy"), "moves": ("--move",)}


def main(arguments: Sequence[str] | None = None) -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--images", type=int, default=5000)
    options.add_argument("--bytes", type=int, default=20_000, help="size of an image")
    options.add_argument("--clusters", type=int, default=50)
    options.add_argument("--repeats", type=int, default=3)
    given = options.parse_args(arguments)
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        make_images(folder, given.images, given.bytes, given.clusters)
        rows = []
        for name, way in WAYS.items():
            times = [measure(folder, way) for _ in range(given.repeats)]
            medians = (statistics.median(values) for values in zip(*times, strict=True))
            rows.append((name, *(f"{value:.2f}" for value in medians)))
    columns = ("organize (s)", "of the processor (s)", "again, nothing to do (s)", "undo (s)")
    print(table((f"{given.images:,} images by", *columns), rows))


def make_images(folder: Path, images: int, size: int, clusters: int) -> None:
    """Files of random bytes: organize does not decode images."""
    rng = np.random.default_rng(0)
    names = [f"{number % 10}/{number:06}.jpg" for number in range(images)]
    for name in names:
        path = folder / "images" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(rng.bytes(size))
    datasets = {"assignments": np.arange(images) % clusters, "sample_names": names}
    (folder / "clusters.h5").write_bytes(encode(Contents("clusters", datasets)))


def measure(folder: Path, way: Sequence[str]) -> tuple[float, float, float, float]:
    """Seconds of organize, elapsed and of the processor; of the same command again, and of undo."""
    organize = ["clusters.h5", "--images", "images", "-o", "out", *way]
    before = processor_time()
    first = seconds(lambda: run(folder, organize))
    used = processor_time() - before
    return first, used, seconds(lambda: run(folder, organize)), seconds(lambda: run(folder, ["--undo", "out"]))


def processor_time() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def run(folder: Path, arguments: Sequence[str]) -> None:
    subprocess.run([sys.executable, "-m", "mccgr_cli", "organize", *arguments, "-q"], cwd=folder, check=True)


if __name__ == "__main__":
    main()
