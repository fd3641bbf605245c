"""What a terminal shows of a command, with the time of every write: whether it is ever silent for long.

    python -m benchmarks display [--samples 400000] [--features 100] [--every 5] [--frames FILE] [-- COMMAND ...]

Makes a matrix with planted clusters (float32), runs ``mccgr factorize`` on it on a pseudo-terminal, and records what it
writes to standard error. Prints a frame every few seconds, and the longest times without a write and without a change
of what can be seen. COMMAND: other arguments for mccgr, where MATRIX stands for the matrix, for example
``-- rank MATRIX --k 2-5``.
"""

from __future__ import annotations

import argparse
import itertools
import os
import pty
import re
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import h5py
import numpy as np

from benchmarks.timing import machine

ROWS, COLUMNS = 30, 110  # of the terminal
CLUSTERS = 10
BLOCK = 20_000  # samples that are made together
CODES = re.compile(rb"\x1b\[([0-9;?]*)([A-Za-z])")


@dataclass(frozen=True)
class Write:
    """What a command wrote at a moment."""

    seconds: float
    text: bytes


def main(arguments: Sequence[str] | None = None) -> None:
    options = argparse.ArgumentParser(
        prog="python -m benchmarks display", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    options.add_argument("--samples", type=int, default=400_000)
    options.add_argument("--features", type=int, default=100)
    options.add_argument("--every", type=float, default=5, help="seconds between two frames that are printed")
    options.add_argument("--frames", type=Path, help="file for every frame that differs from the one before")
    options.add_argument("command", nargs="*", default=["factorize", "MATRIX", "--k", str(CLUSTERS)])
    given = options.parse_args(arguments)
    print(machine(), flush=True)
    with tempfile.TemporaryDirectory() as folder:
        matrix = Path(folder) / "planted.h5"
        write_planted(matrix, given.samples, given.features)
        words = [str(matrix) if word == "MATRIX" else word for word in given.command]
        print(f"mccgr {' '.join(given.command)}: MATRIX is {given.samples} x {given.features}", flush=True)
        writes, status = recorded(words)
    report(writes, status, given.every, given.frames)


def write_planted(path: Path, samples: int, features: int, clusters: int = CLUSTERS) -> None:
    """A matrix of clusters with noise, in single precision."""
    rng = np.random.default_rng(0)
    centres = rng.gamma(1.0, 1.0, (clusters, features))
    with h5py.File(path, "w") as file:
        X = file.create_dataset("X", (samples, features), np.float32)
        for first in range(0, samples, BLOCK):
            part = rng.integers(0, clusters, min(BLOCK, samples - first))
            X[first : first + BLOCK] = centres[part] * rng.gamma(4.0, 0.25, (len(part), features))


def recorded(arguments: Sequence[str]) -> tuple[list[Write], int]:
    """Run ``mccgr`` with standard error on a terminal; all that it writes there, and its exit status."""
    import fcntl
    import termios

    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
    began = time.monotonic()
    process = subprocess.Popen(
        [sys.executable, "-m", "mccgr_cli", *arguments],
        stdout=subprocess.DEVNULL,
        stderr=theirs,
        env={**os.environ, "TERM": "xterm-256color"},
    )
    os.close(theirs)
    writes = [Write(0.0, b"")]
    while True:
        try:
            text = os.read(ours, 1 << 16)
        except OSError:  # Linux says so that the other end is closed
            break
        if not text:
            break
        writes.append(Write(time.monotonic() - began, text))
    os.close(ours)
    status = process.wait()
    return [*writes, Write(time.monotonic() - began, b"")], status


class Screen:
    """The lines of a terminal, as far as mccgr uses one."""

    def __init__(self) -> None:
        self.lines: list[str] = [""]
        self.row = self.column = 0

    def write(self, text: bytes) -> None:
        position = 0
        for code in CODES.finditer(text):
            self.put(text[position : code.start()].decode(errors="replace"))
            self.control(code[1].decode(), code[2].decode())
            position = code.end()
        self.put(text[position:].decode(errors="replace"))

    def put(self, text: str) -> None:
        for character in text:
            if character == "\n":
                self.row += 1
                self.lines += [""] * (self.row + 1 - len(self.lines))
            elif character == "\r":
                self.column = 0
            else:
                line = self.lines[self.row].ljust(self.column)
                self.lines[self.row] = line[: self.column] + character + line[self.column + 1 :]
                self.column += 1

    def control(self, number: str, what: str) -> None:
        if what == "A":
            self.row = max(self.row - int(number or 1), 0)
        elif what == "K":
            self.lines[self.row] = "" if number == "2" else self.lines[self.row][: self.column]

    def shown(self) -> list[str]:
        return [line.rstrip() for line in self.lines if line.strip()][-ROWS:]


def report(writes: Sequence[Write], status: int, every: float, file: Path | None) -> None:
    """Print some frames and the longest silences; write all frames to a file."""
    screen, due, changed = Screen(), 0.0, 0.0
    before: list[str] = []
    printed: list[str] = []
    frames: list[str] = []
    silent = still = (0.0, 0.0)  # how long, and until when
    for previous, write in itertools.pairwise(writes):
        screen.write(write.text)
        silent = max(silent, (write.seconds - previous.seconds, write.seconds))
        shown = screen.shown()
        if shown != before or write is writes[-1]:
            still = max(still, (write.seconds - changed, write.seconds))
            before, changed = shown, write.seconds
            frames.append(f"--- {write.seconds:.2f} s\n" + "\n".join(shown))
            if write.seconds >= due or write is writes[-1]:
                new = [line for line in shown if line not in printed]
                print(f"--- {write.seconds:.2f} s", *new, sep="\n", flush=True)
                due, printed = write.seconds + every, shown
    print(f"\nstatus {status} after {writes[-1].seconds:.1f} s, {len(writes) - 2} writes, {len(frames)} frames")
    print(f"longest time without a write: {silent[0]:.2f} s, until {silent[1]:.1f} s")
    print(f"longest time without a change: {still[0]:.2f} s, until {still[1]:.1f} s")
    if file is not None:
        file.write_text("\n".join(frames) + "\n")


if __name__ == "__main__":
    main()
