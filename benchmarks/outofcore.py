"""Factorize a matrix of 8 GB with 1 GB of memory, and compare the time with reading the file.

    python -m benchmarks.outofcore [--folder DIR] [--samples 1000000] [--memory 1GB]

It makes the file in a temporary folder in DIR, runs ``mccgr factorize --memory`` on it, and reads it before and after,
by rows with h5py and as bytes. Each is done from the disk (the cache of the system is emptied all the time, as if the
file were larger than the memory) and from the cache. A smaller matrix is factorized in memory and from its file, and
the factors are compared. It takes about 25 minutes.
"""

from __future__ import annotations

import argparse
import itertools
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from benchmarks.timing import machine, seconds, table

FEATURES = 1000
GROUPS = 10
CHUNK_ROWS = 128
WRITTEN = 10_000  # rows at a time
FORGET_SECONDS = 0.1
WAYS: dict[str, list[str]] = {
    "mccgr": [],
    "mccgr, rows as they are": ["--normalize", "none", "--graph-features", "plain", "--init", "random"],
    "mcc, rows as they are": ["--method", "mcc", "--normalize", "none"],
}


def make(path: Path, samples: int) -> None:
    """Groups of samples with different features, with noise."""
    rng = np.random.default_rng(0)
    basis = rng.gamma(0.5, 1.0, (GROUPS, FEATURES))
    with h5py.File(path, "w") as file:
        X = file.create_dataset("X", (samples, FEATURES), "f8", chunks=(CHUNK_ROWS, FEATURES))
        for start in range(0, samples, WRITTEN):
            rows = min(WRITTEN, samples - start)
            shares = rng.dirichlet(np.full(GROUPS, 0.1), rows)
            X[start : start + rows] = (shares @ basis) * (rng.random((rows, FEATURES)) + 0.5)


def read_by_rows(path: Path) -> None:
    """Read all rows into a buffer, as an iteration does, without computing."""
    with h5py.File(path, rdcc_nbytes=0) as file:
        X = file["X"]
        buffer = np.empty((32 * CHUNK_ROWS, X.shape[1]))
        for start in range(0, len(X), len(buffer)):
            rows = min(len(buffer), len(X) - start)
            X.read_direct(buffer[:rows], np.s_[start : start + rows])


def read_as_bytes(path: Path) -> None:
    buffer = bytearray(32 << 20)
    with path.open("rb", buffering=0) as file:
        while file.readinto(buffer):
            pass


def read(path: Path, cold: bool) -> tuple[float, float]:
    """Seconds to read the file by rows, and as bytes."""
    with forgetting(path) if cold else nullcontext():
        return seconds(partial(read_by_rows, path)), seconds(partial(read_as_bytes, path))


@contextmanager
def forgetting(path: Path) -> Iterator[None]:
    """Empty the system's cache of the file again and again in a thread."""
    done = threading.Event()

    def forget() -> None:
        with path.open("rb") as file:
            os.fsync(file.fileno())
            while not done.wait(FORGET_SECONDS):
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)

    thread = threading.Thread(target=forget)
    thread.start()
    time.sleep(2 * FORGET_SECONDS)
    try:
        yield
    finally:
        done.set()
        thread.join()


def factorize(path: Path, result: Path, options: Sequence[str]) -> tuple[float, str]:
    """The peak memory of the command in bytes, and its messages."""
    command = [sys.executable, "-m", "mccgr_cli", "factorize", str(path), "--k", str(GROUPS), "--overwrite"]
    with tempfile.TemporaryFile("w+") as said:
        process = subprocess.Popen([*command, "-o", str(result), *options], stderr=said)
        _, status, usage = os.wait4(process.pid, 0)
        said.seek(0)
        words = said.read()
    if status:
        sys.exit(words)
    return usage.ru_maxrss * 1024.0, words


def factors_of(path: Path) -> dict[str, Any]:
    with h5py.File(path) as file:
        return {name: file[name][()] for name in ("W", "H", "rho", "history/seconds")}


def gap(path: Path, result: Path, memory: str, options: Sequence[str]) -> float:
    """The largest difference of factors in memory and from the file, relative to the largest value."""
    found = []
    for way in ([], ["--memory", memory]):
        _, said = factorize(path, result, [*options, *way])
        assert ("stays in its file" in said) == bool(way), said
        found.append(factors_of(result))
    return max(
        float(np.abs(found[0][name] - found[1][name]).max() / found[0][name].max()) for name in ("W", "H", "rho")
    )


def main(arguments: list[str] | None = None) -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--folder", type=Path)
    options.add_argument("--samples", type=int, default=1_000_000)
    options.add_argument("--memory", default="1GB")
    options.add_argument("--iterations", default="15")
    given = options.parse_args(arguments)
    print(machine(), flush=True)
    with tempfile.TemporaryDirectory(dir=given.folder) as folder:
        large, small, result = (Path(folder) / name for name in ("large.h5", "small.h5", "factors.h5"))
        make(large, given.samples)
        make(small, 20_000)
        print(f"\n{large.stat().st_size / 1e9:.2f} GB, --memory {given.memory}\n", flush=True)
        rows = []
        for way, cold in itertools.product(WAYS, (True, False)):
            run = [*WAYS[way], "--iterations", given.iterations, "--tolerance", "0"]
            readings = [read(large, cold) for _ in range(2)]
            with forgetting(large) if cold else nullcontext():
                peak = factorize(large, result, [*run, "--memory", given.memory])[0]
            readings.append(read(large, cold))
            by_rows, as_bytes = (statistics.median(each) for each in zip(*readings, strict=True))
            iteration = float(np.median(np.diff(factors_of(result)["history/seconds"])))
            apart = gap(small, result, "100MB", run)
            about = way, "disk" if cold else "cache", f"{peak / 1e9:.2f} GB", f"{iteration:.2f} s"
            rows.append([*about, f"{by_rows:.2f} s", f"{as_bytes:.2f} s", f"{iteration / by_rows:.2f}", f"{apart:.0e}"])
            print(*rows[-1], sep="  ", flush=True)
        columns = ("method", "from", "peak", "iteration", "reading by rows", "as bytes", "iteration / by rows", "gap")
        print("\n" + table(columns, rows))


if __name__ == "__main__":
    main()
