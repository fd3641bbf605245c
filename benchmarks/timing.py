"""How benchmarks measure time (in turn, after a warm-up, medians), and the limits of the machine."""

from __future__ import annotations

import platform
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import scipy
import sklearn
from threadpoolctl import threadpool_info

from mccgr_cli.blocks.threads import threads_for_blocks
from mccgr_cli.core.methods.base import Update


def seconds(action: Callable[[], Any]) -> float:
    began = time.perf_counter()
    action()
    return time.perf_counter() - began


def in_turn(actions: Mapping[str, Callable[[], float]], repeats: int) -> dict[str, float]:
    """The median of the results of each action. They run in turn, so that other load affects all of them."""
    taken: dict[str, list[float]] = {name: [] for name in actions}
    for _ in range(repeats):
        for name, action in actions.items():
            taken[name].append(action())
    return {name: statistics.median(values) for name, values in taken.items()}


def per_step(update: Update) -> float:
    with threads_for_blocks():
        for _ in range(2):  # not timed: threads of BLAS that have just worked spin for a while
            update.step()
        return seconds(lambda: [update.step() for _ in range(20)]) / 20


def threads() -> int:
    return max([1, *(int(pool["num_threads"]) for pool in threadpool_info())])


def peak_flops(dtype: Any, size: int = 3000) -> float:
    """Operations per second of a large square product with all threads."""
    A = np.random.default_rng(0).random((size, size)).astype(dtype)
    A @ A
    return float(2 * size**3 / min(seconds(lambda: A @ A) for _ in range(5)))


def bandwidth(bytes_: int = 400 << 20) -> float:
    """Bytes per second that all threads read from memory."""
    numbers = np.ones(bytes_ // 8)
    parts = np.array_split(numbers, threads())
    with ThreadPoolExecutor(threads()) as pool:
        return float(bytes_ / min(seconds(lambda: list(pool.map(np.max, parts))) for _ in range(7)))


def roofline(samples: int, features: int, k: int, dtype: Any) -> float:
    """The least possible time of an iteration on dense X: the larger of arithmetic (two products) and reading X."""
    arithmetic = 4 * samples * features * k / peak_flops(dtype)
    return max(arithmetic, float(samples * features * np.dtype(dtype).itemsize) / bandwidth())


def machine() -> str:
    blas = ", ".join(sorted({f"{pool['internal_api']} {pool['version']}" for pool in threadpool_info()}))
    versions = f"Python {platform.python_version()}, numpy {np.__version__}, scipy {scipy.__version__}"
    return f"{platform.machine()}, {threads()} threads, {versions}, scikit-learn {sklearn.__version__}, {blas}"


def table(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """A Markdown table."""
    return "\n".join([line(columns), "|---" * len(columns) + "|", *map(line, rows)])


def line(cells: Sequence[object]) -> str:
    return f"| {' | '.join(map(str, cells))} |"
