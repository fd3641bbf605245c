"""Compare the time and memory that `mccgr factorize` predicts with those that it needs.

    python -m benchmarks.estimates

Time is predicted and measured for the graph and for one iteration; memory for the peak of the process.
"""

from __future__ import annotations

import os
import re
import sys
import tempfile
import time
from pathlib import Path
from subprocess import PIPE, Popen

import h5py
import numpy as np
from scipy import sparse

from benchmarks.timing import machine, table

ITERATIONS = 40
SIZES = {
    "20,000 x 1,000": (20_000, 1_000, 10, ()),
    "40,000 x 300": (40_000, 300, 20, ()),
    "100,000 x 200": (100_000, 200, 10, ()),
    "20,000 x 1,000, rows as they are": (20_000, 1_000, 10, ("--axes", "0", "--graph-features", "plain")),
    "20,000 x 1,000, coordinate": (20_000, 1_000, 10, ("--solver", "coordinate")),
    "20,000 x 1,000 in its file": (20_000, 1_000, 10, ("--memory", "120MB")),
    "20,000 x 10,000 sparse": (20_000, 10_000, 20, ()),
}
UNITS = {"s": 1.0, "min": 60.0, "h": 3600.0, "kB": 1e3, "MB": 1e6, "GB": 1e9}


def main() -> None:
    print(machine(), flush=True)
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for name, (n, d, k, options) in SIZES.items():
            path = write(Path(folder) / "X.h5", n, d, "sparse" in name)
            estimate, measured, peak = run(path, k, ("--iterations", str(ITERATIONS), "--tolerance", "0", *options))
            rows.append([name, k, *compared(estimate, measured), *memory(estimate, peak)])
    columns = ("graph", "measured", "iteration", "measured", "memory", "measured")
    print(table(("X", "k", *columns), rows))


def write(path: Path, n: int, d: int, is_sparse: bool) -> Path:
    rng = np.random.default_rng(0)
    centres = rng.gamma(0.3, 1.0, (10, d))
    with h5py.File(path, "w") as file:
        if is_sparse:
            X = sparse.random_array((n, d), density=0.01, format="csr", rng=rng)
            group = file.create_group("X")
            group.attrs["shape"] = X.shape
            for part in ("data", "indices", "indptr"):
                group[part] = getattr(X, part)
        else:
            X = file.create_dataset("X", (n, d), "f8")
            for start in range(0, n, 10_000):
                stop = min(n, start + 10_000)
                X[start:stop] = rng.gamma(2.0, centres[np.arange(start, stop) % 10] + 0.05)
    return path


def run(path: Path, k: int, options: tuple[str, ...]) -> tuple[str, dict[str, float], int]:
    """The line with the estimate, the seconds of the graph and of one iteration, and the peak memory."""
    command = [sys.executable, "-m", "mccgr_cli", "factorize", str(path), "--k", str(k), "-o", "F.h5", "--overwrite"]
    process = Popen([*command, *options], stderr=PIPE, text=True, cwd=path.parent)
    assert process.stderr is not None
    estimate, began, graph, iteration = "", 0.0, 0.0, 0.0
    for line in process.stderr:
        now = time.perf_counter()
        if line.startswith("estimate:"):
            estimate, began = line, now
        elif line.startswith("graph:"):
            graph = now - began if began else 0.0
        elif found := re.search(r"(\d+) iterations in ([0-9.]+) s", line):
            iteration = float(found[2]) / float(found[1])
    _, _, usage = os.wait4(process.pid, 0)
    return estimate, {"graph": graph, "iteration": iteration}, usage.ru_maxrss * 1024


def compared(estimate: str, measured: dict[str, float]) -> list[str]:
    found = re.search(r"the graph ([0-9.e+]+) (\w+), at most \d+ iterations of ([0-9.e-]+) (\w+)", estimate)
    assert found is not None, estimate
    graph, iteration = float(found[1]) * UNITS[found[2]], float(found[3]) * UNITS[found[4]]
    return [f"{seconds:.3g} s" for seconds in (graph, measured["graph"], iteration, measured["iteration"])]


def memory(estimate: str, measured: int) -> list[str]:
    found = re.search(r"([0-9.]+) ([kMG]B) of memory", estimate)
    assert found is not None, estimate
    return [f"{amount / 1e6:.0f} MB" for amount in (float(found[1]) * UNITS[found[2]], measured)]


if __name__ == "__main__":
    main()
