"""The time of ``mccgr similar`` on a large artificial matrix: for one sample, and for all samples.

    python -m benchmarks.similar [--samples N] [--features N] [--clusters N] [--repeats N]

The features are those of samples around the centres of clusters, in single precision; negative ones are 0. There are no
images, so no pixels are compared. Each time is the median of whole commands in processes of their own, with the time
that Python takes to start and to read the file. Without faiss, the search for all samples is exact.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from benchmarks.timing import machine, seconds, table
from mccgr_cli.blocks.protocol import Array, chunks
from mccgr_cli.core.neighbours.approximate import has_faiss
from mccgr_cli.files.container import Contents, encode

NOISE = 0.5  # of a feature, relative to the spread of the centres
ROWS = 10_000  # that are made at a time


def main(arguments: Sequence[str] | None = None) -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--samples", type=int, default=100_000)
    options.add_argument("--features", type=int, default=1280)
    options.add_argument("--clusters", type=int, default=100)
    options.add_argument("--repeats", type=int, default=3)
    given = options.parse_args(arguments)
    with tempfile.TemporaryDirectory() as place:
        matrix = Path(place) / "X.h5"
        matrix.write_bytes(encode(Contents("matrix", {"X": clustered(given.samples, given.features, given.clusters)})))
        asked = {"one sample": ("0",), "all samples": ()}
        rows = [(name, f"{measure(matrix, words, given.repeats):.1f}") for name, words in asked.items()]
    print(f"{machine()}, {'with' if has_faiss() else 'without'} faiss\n")
    print(table((f"similar among {given.samples:,} x {given.features:,}", "seconds"), rows))


def clustered(samples: int, features: int, clusters: int) -> Array:
    """Samples around the centres of clusters."""
    rng = np.random.default_rng(0)
    centres = rng.standard_normal((clusters, features)).astype(np.float32)
    X = np.empty((samples, features), np.float32)
    for some in chunks(samples, ROWS):
        noise = rng.standard_normal(X[some].shape, np.float32)
        X[some] = np.maximum(centres[rng.integers(clusters, size=len(noise))] + NOISE * noise, 0)
    return X


def measure(matrix: Path, words: Sequence[str], repeats: int) -> float:
    """Seconds of one command."""
    command = [sys.executable, "-m", "mccgr_cli", "similar", str(matrix), *words, "--format", "csv", "-q"]

    def run() -> None:
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)

    return statistics.median(seconds(run) for _ in range(repeats))


if __name__ == "__main__":
    main()
