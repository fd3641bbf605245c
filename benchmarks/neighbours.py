"""Compare the search of nearest neighbours with scikit-learn: time and recall.

    python -m benchmarks.neighbours [--images DIR] [--rounds 3] [--samples 100000] [--only TEXT]
    python -m benchmarks.neighbours --libraries [--images DIR] [--only TEXT]

Prints Markdown tables. After a warm-up on few samples, all searches of a table run in turn for some rounds; times are
medians. All get the same matrix in double precision and all cores. --images adds descriptors of the images in DIR.
--libraries compares the installed libraries for approximate search, each in its own process, so that memory and the
time to load and compile count too.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.timing import line, table
from mccgr_cli.blocks.protocol import Array
from mccgr_cli.core.neighbours import nearest
from mccgr_cli.core.neighbours.distances import half_squares
from mccgr_cli.core.neighbours.exact import neighbours_of

NEIGHBORS = 5
QUERIES = 1000  # samples for the recall
PER_IMAGE = 100  # descriptors

Finder = Callable[[Array, int], Array]


def mixture(n: int, d: int) -> Array:
    """50 clusters on a curved surface of 10 dimensions, with a little noise."""
    rng = np.random.default_rng(0)
    places = 0.5 * rng.standard_normal((n, 10)) + 2 * rng.standard_normal((50, 10))[rng.integers(50, size=n)]
    return np.tanh(places @ rng.standard_normal((10, d)) / 3) + 0.02 * rng.standard_normal((n, d))


def noise(n: int, d: int) -> Array:
    return np.random.default_rng(0).random((n, d))


def descriptors(images: str, n: int) -> Array:
    """SIFT descriptors at random points of random images."""
    from mccgr_cli.images.decode import UnusableImage, decode
    from mccgr_cli.images.settings import Description
    from mccgr_cli.images.sift import dense

    rng = np.random.default_rng(0)
    paths = sorted(str(path) for path in Path(images).rglob("*.jpg"))
    described = Description()
    found: list[Array] = []
    for number in rng.permutation(len(paths)):
        try:
            grey = decode(paths[number], described.max_size, 10**8).grey
        except UnusableImage:
            continue
        rows = np.concatenate(list(dense(grey, described.step, described.radii, described.min_contrast)))
        found.append(rows[rng.permutation(len(rows))[: max(PER_IMAGE, -(-n // len(paths)))]])
        if sum(map(len, found)) >= n:
            break
    return np.concatenate(found)[:n].astype(np.float64)


def principal(X: Array, axes: int) -> Array:
    """Unit vectors on principal axes, as the graph uses by default."""
    from mccgr_cli.core.graph import principal_coordinates

    return principal_coordinates(X, axes, None)


# Searches


def by_sklearn(X: Array, neighbors: int) -> Array:
    from sklearn.neighbors import NearestNeighbors

    search = NearestNeighbors(n_neighbors=neighbors, algorithm="brute").fit(X)
    found: Array = search.kneighbors(return_distance=False)
    return found


def by_mccgr(search: str) -> Finder:
    def find(X: Array, neighbors: int) -> Array:
        return nearest(X, neighbors, "euclidean", search).columns.reshape(-1, neighbors)

    return find


def others(found: Array, neighbors: int) -> Array:
    """The neighbours found, without the samples themselves."""
    keep = found != np.arange(len(found))[:, None]
    keep[keep.all(axis=1), -1] = False
    kept: Array = found[keep].reshape(len(found), -1)[:, :neighbors]
    return kept


def by_faiss(X: Array, neighbors: int) -> Array:
    return by_mccgr("approximate")(X, neighbors)


def by_hnswlib(X: Array, neighbors: int) -> Array:
    import hnswlib

    index = hnswlib.Index("l2", X.shape[1])
    index.init_index(len(X), ef_construction=60, M=16, random_seed=1)
    index.add_items(X.astype(np.float32))
    index.set_ef(20)
    return others(index.knn_query(X.astype(np.float32), neighbors + 1)[0].astype(int), neighbors)


def by_usearch(X: Array, neighbors: int) -> Array:
    from usearch.index import Index

    index = Index(ndim=X.shape[1], metric="l2sq", dtype="f32", connectivity=16, expansion_add=60, expansion_search=20)
    threads = os.cpu_count() or 1
    index.add(np.arange(len(X)), X.astype(np.float32), threads=threads)
    found = index.search(X.astype(np.float32), neighbors + 1, threads=threads)
    return others(np.asarray(found.keys).astype(int), neighbors)


def by_pynndescent(X: Array, neighbors: int) -> Array:
    from pynndescent import NNDescent

    index = NNDescent(X.astype(np.float32), n_neighbors=max(15, neighbors + 1), random_state=1)
    return others(index.neighbor_graph[0], neighbors)


LIBRARIES: dict[str, Finder] = {
    "faiss": by_faiss,
    "hnswlib": by_hnswlib,
    "usearch": by_usearch,
    "pynndescent": by_pynndescent,
}


# Measuring


def recall(X: Array, found: Array) -> float:
    """The fraction of the nearest neighbours of some samples that was found."""
    asked = np.sort(np.random.default_rng(1).choice(len(X), min(QUERIES, len(X)), replace=False))
    neighbors = found.shape[1]
    farthest = half_squares(X[asked], X, neighbours_of(X, asked, neighbors)[:, -1:])
    return float((half_squares(X[asked], X, found[asked]) <= farthest * (1 + 1e-9)).mean())


def timed(find: Finder, X: Array, neighbors: int) -> tuple[float, Array]:
    began = time.perf_counter()
    found = find(X, neighbors)
    return time.perf_counter() - began, found


def compare(data: Iterator[tuple[str, Array, tuple[str, ...]]], rounds: int) -> None:
    print(table(["data", "search", "seconds", "speed-up", "recall@5"], []), flush=True)
    for name, X, modes in data:
        searches: dict[str, Finder] = {
            "scikit-learn": by_sklearn,
            **{f"mccgr, {mode}": by_mccgr(mode) for mode in modes},
        }
        took: dict[str, list[float]] = {search: [] for search in searches}
        shares: dict[str, float] = {}
        for find in searches.values():
            find(X[:2000], NEIGHBORS)
        for _ in range(rounds):
            for search, find in searches.items():
                spent, found = timed(find, X, NEIGHBORS)
                took[search].append(spent)
                shares[search] = shares.get(search) or recall(X, found)
        theirs = statistics.median(took["scikit-learn"])
        for search, times in took.items():
            ours = statistics.median(times)
            print(line([name, search, f"{ours:.2f}", f"{theirs / ours:.1f}", f"{shares[search]:.3f}"]), flush=True)


def data_of(given: argparse.Namespace) -> Iterator[tuple[str, Array, tuple[str, ...]]]:
    n, both = given.samples, ("exact", "approximate")
    data: list[tuple[str, Callable[[], Array], tuple[str, ...]]] = [
        ("noise, 10,000 x 1,000", lambda: noise(10_000, 1_000), both[:1]),
        ("mixture, 10,000 x 1,000", lambda: mixture(10_000, 1_000), both[:1]),
        ("mixture, 20,000 x 50", lambda: mixture(20_000, 50), both[:1]),
        (f"mixture, {n:,} x 128", lambda: mixture(n, 128), both),
        (f"noise, {n:,} x 128", lambda: noise(n, 128), both),
    ]
    if given.images:
        data += [
            (f"SIFT, {n:,} x 128", lambda: descriptors(given.images, n), both),
            (f"SIFT on axes, {n:,} x 50", lambda: principal(descriptors(given.images, n), 50), both),
        ]
    for name, make, modes in data:
        if given.only in name:
            yield name, make(), modes


def compare_libraries(given: argparse.Namespace) -> None:
    columns = ["data", "library", "first, seconds", "again", "recall@5", "recall@10", "MB beyond X", "same again"]
    print(table(columns, []), flush=True)
    kinds = ["mixture", "noise", *(["SIFT"] if given.images else [])]
    for kind in (kind for kind in kinds if given.only in kind):
        for library in LIBRARIES:
            if importlib.util.find_spec(library) is None:
                print(line([kind, library, "not installed", *[""] * 5]), flush=True)
                continue
            part = ["--one", kind, library, "--samples", str(given.samples)]
            if given.images:
                part += ["--images", given.images]
            subprocess.run([sys.executable, "-W", "ignore", "-m", "benchmarks.neighbours", *part], check=True)


def compare_one(given: argparse.Namespace) -> None:
    """Measure one library on one kind of data in this process."""
    kind, library = given.one
    n = given.samples
    X = descriptors(given.images, n) if kind == "SIFT" else {"mixture": mixture, "noise": noise}[kind](n, 128)
    before = memory_now()
    find = LIBRARIES[library]
    first, found = timed(find, X, 10)
    memory = memory_peak() - before
    again, repeated = timed(find, X, 10)
    shares = recall(X, found[:, :5]), recall(X, found)
    same = "yes" if np.array_equal(found, repeated) else "no"
    found_of = (f"{share:.3f}" for share in shares)
    print(line([kind, library, f"{first:.1f}", f"{again:.1f}", *found_of, f"{memory:.0f}", same]), flush=True)


def memory_now() -> float:
    """Memory in MB (Linux only); the peak counts from now on."""
    Path("/proc/self/clear_refs").write_text("5")
    return status("VmRSS")


def memory_peak() -> float:
    return status("VmHWM")


def status(field: str) -> float:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(text.split()[1]) for text in lines if text.startswith(f"{field}:")) / 1024


def main(arguments: list[str] | None = None) -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--images", metavar="DIR")
    options.add_argument("--rounds", type=int, default=3)
    options.add_argument("--samples", type=int, default=100_000)
    options.add_argument("--only", default="", metavar="TEXT", help="only data with this text in their names")
    options.add_argument("--libraries", action="store_true")
    options.add_argument("--one", nargs=2, metavar=("DATA", "LIBRARY"), help=argparse.SUPPRESS)
    given: Any = options.parse_args(arguments)
    if given.one:
        compare_one(given)
    elif given.libraries:
        compare_libraries(given)
    else:
        compare(data_of(given), given.rounds)


if __name__ == "__main__":
    main()
