"""The time of an iteration in memory, from a file and on workers: measured, and by the model of docs/SCALING.md.

    python -m benchmarks.scaling [--folder DIR]

It measures the rates of this machine (products, reading a file, sending rows to a worker and back). Then it compares
the time of an iteration of mccgr with the model based on these rates, and prints predictions for larger matrices.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from benchmarks.neighbours import mixture
from benchmarks.outofcore import read_by_rows
from benchmarks.problems import random_graph
from benchmarks.timing import in_turn, machine, seconds, table, threads
from mccgr_cli.blocks.from_file import FileBlocks
from mccgr_cli.blocks.in_memory import MemoryBlocks
from mccgr_cli.blocks.products import moments
from mccgr_cli.blocks.protocol import Array, BlockSource, Matrix, Partial, sum_over_blocks
from mccgr_cli.blocks.protocol import Size as MatrixSize
from mccgr_cli.blocks.threads import threads_for_blocks
from mccgr_cli.core.methods.base import GraphTerm
from mccgr_cli.core.neighbours import nearest
from mccgr_cli.core.solver import make_update
from mccgr_cli.distributed import blocks as distributed
from mccgr_cli.distributed.blocks import ClusterBlocks
from mccgr_cli.distributed.connection import Cluster, connect
from mccgr_cli.files.readers import load
from mccgr_cli.settings import GraphSettings, Settings, by_preset
from mccgr_cli.system.memory import format_bytes
from mccgr_cli.workflow.placement import Room

K, NEIGHBORS, BYTES = 10, 5, 8
SEARCHED = 200_000  # samples for the timed search, whose time grows as n^1.5
NODE_CORES = 32  # of the cluster in the predictions
STEPS, ROUNDS = 6, 5


@dataclass(frozen=True)
class Size:
    samples: int
    features: int
    k: int = K

    @property
    def matrix_bytes(self) -> float:
        """The bytes of X, read once per iteration."""
        return float(BYTES * self.samples * self.features)

    @property
    def operations(self) -> float:
        """The operations of the two products with X."""
        return 4.0 * self.samples * self.features * self.k

    @property
    def sent_bytes(self) -> float:
        """The bytes sent: W, the graph term and the degrees to the workers, W back."""
        return BYTES * self.samples * (3.0 * self.k + 1)

    @property
    def graph_values(self) -> float:
        """The values of W read for sums over neighbours; edges have two directions, so about twice the neighbours."""
        return 2.0 * NEIGHBORS * self.samples * self.k


@dataclass(frozen=True)
class Rates:
    """The speed of a core, a disk and a network."""

    operations: float  # a second, in one core
    reading: float  # bytes a second
    sending: float  # bytes a second, to all workers and back
    gathering: float  # values a second, by the client
    searching: float  # seconds for neighbours of SEARCHED samples, by one core

    def seconds(self, size: Size, cores: int, where: str) -> float:
        """The time of an iteration: reading overlaps with computing, sending does not."""
        work = size.operations / self.operations / cores
        graph = size.graph_values / self.gathering
        if where == "file":
            return max(work + size.matrix_bytes / self.reading / cores, size.matrix_bytes / self.reading) + graph
        return work + graph + (size.sent_bytes / self.sending if where == "workers" else 0.0)


def make(path: Path, size: Size) -> Any:
    rng = np.random.default_rng(0)
    with h5py.File(path, "w") as file:
        X = file.create_dataset("X", (size.samples, size.features), "f8", chunks=(256, size.features))
        for start in range(0, size.samples, 20_000):
            X[start : start + 20_000] = rng.random((min(20_000, size.samples - start), size.features))
    return load(str(path)).contents["X"].stream()


def iteration(source: BlockSource, size: Size, graph: Any) -> float:
    rng = np.random.default_rng(0)
    W, H = rng.random((size.samples, size.k)), rng.random((size.k, size.features))
    settings = by_preset("paper", Settings, k=size.k, alpha=1.0, tolerance=0)
    with threads_for_blocks():
        update = make_update(source, settings, graph, moments(source), W, H)
        update.start()
        update.step()
        return statistics.median(seconds(update.step) for _ in range(STEPS))


def echo(X_b: Matrix, W_b: Array, pull_b: Array, degrees_b: Array) -> Partial:
    return Partial(rows=(W_b,))


def rates(source: Any, path: Path, size: Size, cluster: Cluster, graph: Any) -> Rates:
    settings = by_preset("paper", Settings, k=size.k, alpha=1.0, tolerance=0, method="mcc")
    rng = np.random.default_rng(0)
    W, H = rng.random((size.samples, size.k)), rng.random((size.k, size.features))
    with threads_for_blocks():
        memory = MemoryBlocks(source.load())
        update = make_update(memory, settings, None, moments(memory), W, H)
        update.start()
        update.step()
        work = statistics.median(seconds(update.step) for _ in range(STEPS))
        term = GraphTerm(graph, 1.0, np.dtype(np.float64))
        term.weigh(np.ones(size.features), H)
        gathering = statistics.median(seconds(lambda: term.value(W, term.pull(W))) for _ in range(STEPS))
        far = ClusterBlocks(source, cluster)
        rows = (W, W.copy(), np.ones(size.samples))
        sending = statistics.median(seconds(lambda: sum_over_blocks(far, echo, rows, into=(W,))) for _ in range(STEPS))
    read_by_rows(path)
    reading = min(seconds(lambda: read_by_rows(path)) for _ in range(3))
    places = mixture(SEARCHED, GraphSettings().axes_for(size.k))
    searching = seconds(lambda: nearest(places, NEIGHBORS, "euclidean", "approximate"))
    return Rates(
        size.operations / work / threads(),
        size.matrix_bytes / reading,
        size.sent_bytes / sending,
        size.graph_values / gathering,
        searching * threads(),
    )


@contextmanager
def over_the_network() -> Iterator[None]:
    """Treat workers on this machine as if they were on another."""
    near = distributed.HeldPart._is_near
    distributed.HeldPart._is_near = lambda self: False  # type: ignore[method-assign]
    try:
        yield
    finally:
        distributed.HeldPart._is_near = near  # type: ignore[method-assign]


def measure(path: Path, size: Size, found: Rates | None) -> tuple[dict[str, float], Rates]:
    """Seconds of an iteration by the place of X, and the rates of this machine, measured unless they are given."""
    source = make(path, size)
    graph = random_graph(size.samples, NEIGHBORS)
    sources: dict[str, BlockSource] = {"memory": MemoryBlocks(source.load()), "file": FileBlocks(source)}
    with ExitStack() as stack:
        for number in (1, 2):
            cluster = stack.enter_context(connect(f"local:{number}"))
            plural = "" if number == 1 else "s"
            sources[f"{number} worker{plural}, shared memory"] = ClusterBlocks(source, cluster)
            with over_the_network():
                sources[f"{number} worker{plural}"] = ClusterBlocks(source, cluster)
                found = found or (rates(source, path, size, cluster, graph) if number > 1 else None)
        ways = {where: partial(iteration, one, size, graph) for where, one in sources.items()}
        assert found is not None
        return in_turn(ways, ROUNDS), found


def main(arguments: list[str] | None = None) -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--folder", type=Path)
    given = options.parse_args(arguments)
    print(machine(), flush=True)
    rows: list[list[object]] = []
    found: Rates | None = None
    with tempfile.TemporaryDirectory(dir=given.folder) as folder:
        for size in (Size(200_000, 500), Size(100_000, 1000), Size(400_000, 250), Size(400_000, 500)):
            measured, found = measure(Path(folder) / "X.h5", size, found)
            for where, taken in measured.items():
                kind = where if where in ("memory", "file") else "memory" if "shared" in where else "workers"
                model = found.seconds(size, threads(), kind)
                figures = 1000 * taken, taken / measured["memory"], 1000 * model, taken / model
                shown = (f"{figure:.0f}" if figure > 10 else f"{figure:.2f}" for figure in figures)
                rows.append([f"{size.samples:,} x {size.features}", where, *shown])
    assert found is not None
    print(
        f"\none core {found.operations / 1e9:.1f} GFLOP/s in a pass, reading {found.reading / 1e9:.1f} GB/s, "
        f"to workers and back {found.sending / 1e9:.1f} GB/s, graph {found.gathering / 1e9:.2f} billion values/s, "
        f"neighbours of {SEARCHED:,} samples {found.searching:.0f} s on one core\n"
    )
    print(table(("X", "where", "ms", "/ memory", "model, ms", "measured / model"), rows))
    print("\n" + predictions(found))


def predictions(here: Rates) -> str:
    """Predictions for d = 1000, k = 10 on nodes (one is the client) with disks of 1 GB/s and a network of 10 Gbit/s."""
    far = replace(here, reading=1e9, sending=1.25e9)
    room = Room(np.inf, False, Settings(k=K), GraphSettings())
    rows = []
    for samples, nodes in ((10**7, 4), (10**8, 32), (10**9, 256)):
        size = Size(samples, 1000)
        work = size.operations / far.operations / (NODE_CORES * nodes)
        sent, graph = size.sent_bytes / far.sending, size.graph_values / far.gathering
        reading = size.matrix_bytes / far.reading / nodes
        from_disk = max(work + reading / NODE_CORES, reading)
        cells = (work, sent, graph, work + sent + graph, from_disk + sent + graph)
        hours = far.searching * (samples / SEARCHED) ** 1.5 / NODE_CORES / 3600
        memory = format_bytes(room.needed(MatrixSize(size.samples, size.features, BYTES)))
        times = (f"{cell:.2g} s" for cell in cells)
        rows.append([f"{samples:.0e}", format_bytes(size.matrix_bytes), nodes, *times, f"{hours:.2g} h", memory])
    columns = ("products", "sending W", "graph", "iteration", "iteration, X on disk", "neighbour search", "memory")
    return table(("samples", "X", "nodes", *columns), rows)


if __name__ == "__main__":
    main()
