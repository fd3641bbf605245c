"""Time of ``mccgr rank --k 2-15`` in another checkout and in this one, as a Markdown table.

    python -m benchmarks rank-time --before CHECKOUT [FILE ...] [--jobs 2] [--ks 2-15]

CHECKOUT is a folder with an older version, for example made by ``git worktree add CHECKOUT COMMIT``. Both versions run
one after the other on each FILE. Without FILE there are two: the textures, and a planted matrix of 1,123 samples and
1,000 features. "CPU" is the processor time of all processes together; it hardly depends on what else the machine does.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from benchmarks.rank import LEVELS, TEXTURES, planted
from benchmarks.timing import machine, table

HERE = Path(__file__).parent.parent
SAMPLES, FEATURES, PARTS = 1123, 1000, 12


def planted_file(folder: str) -> Path:
    """A planted matrix, with rows of equal length as those of images."""
    X, _ = planted(PARTS, 0, LEVELS["noisy"], samples=SAMPLES // PARTS + 10, features=FEATURES // PARTS)
    path = Path(folder) / f"planted{PARTS}.npy"
    X = X[:SAMPLES, :FEATURES]
    np.save(path, X / np.linalg.norm(X, axis=1, keepdims=True))
    return path


def timed(checkout: Path, file: Path, given: argparse.Namespace) -> tuple[float, float, str]:
    """Seconds, CPU seconds and the recommendation of the version in a checkout."""
    command = [sys.executable, "-m", "mccgr_cli", "rank", str(file.resolve()), "--k", given.ks]
    command += ["--jobs", str(given.jobs), "--format", "json", "-q"]
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    found = subprocess.run(
        command, cwd=checkout, env={**os.environ, "PYTHONPATH": str(checkout)}, stdout=subprocess.PIPE, check=True
    )
    seconds, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    best = json.loads(found.stdout)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return seconds, cpu, f"{best['recommended']}{'' if best['firm'] else ' (in doubt)'}"


def main(arguments: Sequence[str]) -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("files", nargs="*", type=Path, metavar="FILE")
    options.add_argument("--before", type=Path, required=True, metavar="CHECKOUT")
    options.add_argument("--jobs", type=int, default=2)
    options.add_argument("--ks", default="2-15")
    given = options.parse_args(arguments)
    print(machine(), flush=True)
    columns = ["matrix"]
    for what in ("seconds", "CPU", "recommended"):
        columns += [f"{what} before", f"{what} after"]
    with tempfile.TemporaryDirectory() as folder:
        rows = []
        for file in given.files or [TEXTURES, planted_file(folder)]:
            old, new = (timed(checkout.resolve(), file, given) for checkout in (given.before, HERE))
            cells = [f"{old[0]:.1f}", f"{new[0]:.1f} ({new[0] / old[0]:.2f})"]
            cells += [f"{old[1]:.1f}", f"{new[1]:.1f} ({new[1] / old[1]:.2f})", old[2], new[2]]
            rows.append([file.name, *cells])
            print(f"{file.name}: {', '.join(cells)}", file=sys.stderr, flush=True)
    print(table(columns, rows))
