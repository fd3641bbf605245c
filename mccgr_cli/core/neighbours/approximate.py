"""The approximate search, by the library faiss."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from mccgr_cli.blocks.protocol import Array, chunks
from mccgr_cli.blocks.threads import blas_threads, threads_for_blocks
from mccgr_cli.core.neighbours.distances import TIE, centre, half_squares
from mccgr_cli.core.neighbours.exact import nearest_of
from mccgr_cli.errors import ParameterError

RECALL = 0.96  # to be reached on a sample, for 0.95 of all
SAMPLE = 1000
PER_CELL = 40  # samples that place the centre of a cell
TRAINING_STEPS = 8
PROBES = (4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512)  # cells to look into
LARGEST_SHARE = 0.1  # of all cells; to look into more takes about as long as the exact search
QUERIES = 1 << 14  # at a time


def has_library() -> bool:
    return importlib.util.find_spec("faiss") is not None


def check_search(search: str) -> None:
    if search == "approximate" and not has_library():
        raise ParameterError("--search approximate", "needs faiss", "pip install 'mccgr-cli[neighbours]'")


def approximately(X: Array, neighbors: int) -> tuple[Array | None, float]:
    """Nearly all of the nearest others of every sample, (n, neighbors), and the recall on a random sample.

    Samples fall into cells around the centres that k-means finds, and neighbours are sought in the cells that are
    nearest: in so many that nearly all of the sample's are found. Where that takes too many there is no result.

    J. Sivic, A. Zisserman: Video Google: a text retrieval approach to object matching in videos. ICCV 2003.
    """
    n = X.shape[0]
    trial = Trial.of(X, neighbors)  # first: it takes memory that the index needs later
    places = centred(X)
    with library() as faiss:
        cells = max(1, min(int(4 * np.sqrt(n)), n // PER_CELL))
        index = faiss.index_factory(places.shape[1], f"IVF{cells},Flat")
        index.cp.seed, index.cp.niter = 1, TRAINING_STEPS
        index.cp.min_points_per_centroid, index.cp.max_points_per_centroid = 1, PER_CELL
        index.train(places)
        index.add(places)
        recall = raise_effort(index, places, X, trial, neighbors)
        if recall < RECALL:
            return None, recall
        cell = index.quantizer.assign(places, 1)[:, 0]
        order = np.argsort(cell, kind="stable")  # those of one cell look into the same ones
        columns = np.empty((n, neighbors), dtype=int)
        for part in chunks(n, QUERIES):
            columns[order[part]] = others_found(index, places, order[part], neighbors)
    missing = np.flatnonzero(columns.min(axis=1) < 0)  # too few samples in the cells
    if len(missing):
        columns[missing] = nearest_of(X, missing, neighbors)
    return columns, recall


@threads_for_blocks()
def centred(X: Array) -> Array:
    places = np.empty(X.shape, np.float32)
    centre(X, places)
    return places


@dataclass(frozen=True)
class Trial:
    """A random sample, by which the search is judged."""

    sample: Array  # (r,)
    farthest: Array  # (r, 1) half the squared distance to the last of the nearest

    @classmethod
    def of(cls, X: Array, neighbors: int) -> Trial:
        n = X.shape[0]
        sample = np.sort(np.random.default_rng(0).choice(n, min(n, SAMPLE), replace=False))
        return cls(sample, half_squares(X[sample], X, nearest_of(X, sample, neighbors)[:, -1:]))


@contextmanager
def library() -> Iterator[Any]:
    """faiss, with as many threads as the rest; its result does not depend on how many."""
    import faiss

    before = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(blas_threads())
    try:
        yield faiss
    finally:
        faiss.omp_set_num_threads(before)


def raise_effort(index: Any, places: Array, X: Array, trial: Trial, neighbors: int) -> float:
    """Look into more and more cells until nearly all neighbours of a random sample are found; the share of them."""
    recall = 0.0
    for probes in PROBES:
        if recall >= RECALL or (probes > LARGEST_SHARE * index.nlist and probes > PROBES[0]):
            break
        index.nprobe = probes
        found = others_found(index, places, trial.sample, neighbors)
        near = half_squares(X[trial.sample], X, found) <= trial.farthest * (1 + TIE)
        recall = float(np.mean(near & (found >= 0)))
    return recall


def others_found(index: Any, places: Array, samples: Array, neighbors: int) -> Array:
    """What the index finds but the samples themselves; -1 where it finds too few."""
    found: Array = index.search(places[samples], neighbors + 1)[1]
    others = found != samples[:, None]
    others[others.all(axis=1), -1] = False  # duplicates may have crowded the sample itself out
    chosen: Array = found[others].reshape(-1, neighbors)
    return chosen
