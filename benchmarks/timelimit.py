"""Whether a long run ends when its time is over, and ends with the same bytes when it is continued.

    python -m benchmarks timelimit [--limit 5] [--samples 20000] [--features 200] [--iterations 3000]

Makes a matrix with planted clusters (float32) and factorizes it without a limit. Then the same with ``--time-limit``,
and again and again from its checkpoint, until it is done. Prints the seconds of each part and compares W and H.
"""

from __future__ import annotations

import argparse
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import h5py

from benchmarks.display import CLUSTERS, write_planted
from benchmarks.timing import machine

TIME_LIMIT = 124  # exit status
MOST_PARTS = 100


def main(arguments: Sequence[str] | None = None) -> None:
    options = argparse.ArgumentParser(
        prog="python -m benchmarks timelimit", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--limit", type=int, default=5, help="seconds")
    options.add_argument("--samples", type=int, default=20_000)
    options.add_argument("--features", type=int, default=200)
    options.add_argument("--iterations", type=int, default=3000)
    given = options.parse_args(arguments)
    print(machine(), flush=True)
    with tempfile.TemporaryDirectory() as folder:
        matrix, whole, parts = (Path(folder) / name for name in ("X.h5", "whole.h5", "parts.h5"))
        write_planted(matrix, given.samples, given.features)
        command = ["factorize", str(matrix), "--k", str(CLUSTERS), "--tolerance", "0"]
        command += ["--iterations", str(given.iterations), "--quiet", "-o"]
        print(f"{given.samples} x {given.features}, {given.iterations} iterations", flush=True)
        seconds, done = timed([*command, str(whole)])
        print(f"without a limit: status {done.returncode} after {seconds:.1f} s", flush=True)
        words = [*command, str(parts), "--time-limit", f"{given.limit}s"]
        longest = 0.0
        for number in range(1, MOST_PARTS):
            seconds, done = timed(words)
            last = (done.stderr.splitlines() or [""])[-1].replace(f"{folder}/", "")
            print(f"part {number}: status {done.returncode} after {seconds:.1f} s  {last}", flush=True)
            longest = max(longest, seconds)
            if done.returncode != TIME_LIMIT or " with: mccgr " not in done.stderr:
                break
            words = shlex.split(done.stderr.rpartition(" with: mccgr ")[2])
        print(f"longest part: {longest:.1f} s, with a limit of {given.limit} s")
        if done.returncode == 0:
            print(f"W and H are {'the same' if factors(whole) == factors(parts) else 'NOT the same'} bytes")


def timed(arguments: Sequence[str]) -> tuple[float, subprocess.CompletedProcess[str]]:
    """Run ``mccgr``; how long it took, from the start of its process."""
    began = time.monotonic()
    done = subprocess.run([sys.executable, "-m", "mccgr_cli", *arguments], capture_output=True, text=True)
    return time.monotonic() - began, done


def factors(path: Path) -> tuple[bytes, bytes]:
    with h5py.File(path) as file:
        return file["W"][()].tobytes(), file["H"][()].tobytes()


if __name__ == "__main__":
    main()
