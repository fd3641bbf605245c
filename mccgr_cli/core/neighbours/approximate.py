"""The approximate search, by the library faiss."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from mccgr_cli.blocks.protocol import Array, chunks
from mccgr_cli.blocks.threads import blas_threads, threads_for_blocks
from mccgr_cli.core.neighbours.distances import TIE, centre, half_squares
from mccgr_cli.core.neighbours.exact import neighbours_of
from mccgr_cli.errors import ParameterError
from mccgr_cli.system.phases import advance, expect, phase

RECALL = 0.96  # must be reached on a random sample, so that all samples have 0.95
SAMPLE = 1000
PER_CELL = 40  # samples per cell that are used to find its centre
TRAINING_STEPS = 8
PROBES = (4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512)  # number of cells to search
LARGEST_SHARE = 0.1  # of all cells; searching more takes about as long as the exact search
QUERIES = 1 << 14  # at a time


def has_faiss() -> bool:
    """Whether faiss is installed."""
    return importlib.util.find_spec("faiss") is not None


def check_search(search: str) -> None:
    """Raise an error if the search needs faiss and it is not installed."""
    if search == "approximate" and not has_faiss():
        raise ParameterError("--search approximate", "needs faiss", "pip install 'mccgr-cli[neighbours]'")


def approximate_neighbours(X: Array, neighbors: int) -> tuple[Array | None, float]:
    """Nearly all of the nearest others of every sample, (n, neighbors), and the recall on a random sample.

    k-means divides the samples into cells. Neighbours are searched in the nearest cells, in as many as are needed to
    find nearly all neighbours of the random sample. If that takes too many cells, the result is None.

    J. Sivic, A. Zisserman: Video Google: a text retrieval approach to object matching in videos. ICCV 2003.
    """
    n = X.shape[0]
    # Before the index is made, because both need much memory: half the squared distance to the last of the nearest.
    sample = np.sort(np.random.default_rng(0).choice(n, min(n, SAMPLE), replace=False))
    farthest = half_squares(X[sample], X, neighbours_of(X, sample, neighbors)[:, -1:])
    points = centred(X)
    with faiss_library() as faiss:
        cells = max(1, min(int(4 * np.sqrt(n)), n // PER_CELL))
        index = faiss.index_factory(points.shape[1], f"IVF{cells},Flat")
        index.cp.seed, index.cp.niter = 1, TRAINING_STEPS
        index.cp.min_points_per_centroid, index.cp.max_points_per_centroid = 1, PER_CELL
        with phase("building an index"):
            index.train(points)
            index.add(points)
        recall = 0.0
        with phase("measuring the recall"):
            for probes in PROBES:
                if recall >= RECALL or (probes > LARGEST_SHARE * index.nlist and probes > PROBES[0]):
                    break
                index.nprobe = probes
                found = others_found(index, points, sample, neighbors)
                near = half_squares(X[sample], X, found) <= farthest * (1 + TIE)
                recall = float(np.mean(near & (found >= 0)))
        if recall < RECALL:
            return None, recall
        with phase("sorting samples by their cells"):
            cell = index.quantizer.assign(points, 1)[:, 0]
        order = np.argsort(cell, kind="stable")  # samples of one cell search the same cells
        columns = np.empty((n, neighbors), dtype=int)
        expect(n, "samples")
        for some in chunks(n, QUERIES):
            columns[order[some]] = others_found(index, points, order[some], neighbors)
            advance(some.stop - some.start, "samples")
    missing = np.flatnonzero(columns.min(axis=1) < 0)  # too few samples in the cells
    if len(missing):
        columns[missing] = neighbours_of(X, missing, neighbors)
    return columns, recall


@threads_for_blocks()
def centred(X: Array) -> Array:
    points = np.empty(X.shape, np.float32)
    centre(X, points)
    return points


@contextmanager
def faiss_library() -> Iterator[Any]:
    """faiss with as many threads as BLAS has; its result does not depend on their number."""
    import faiss

    before = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(blas_threads())
    try:
        yield faiss
    finally:
        faiss.omp_set_num_threads(before)


def others_found(index: Any, points: Array, samples: Array, neighbors: int) -> Array:
    """The neighbours that the index finds, without the samples themselves; -1 if there are too few."""
    found: Array = index.search(points[samples], neighbors + 1)[1]
    others = found != samples[:, None]
    others[others.all(axis=1), -1] = False  # the sample itself is missing if it has many duplicates
    return np.asarray(found[others].reshape(-1, neighbors))
