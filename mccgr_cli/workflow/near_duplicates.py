"""Near-duplicates among the samples of a matrix: candidates by their features, then a comparison of the pixels.

Features alone cannot tell a cropped copy from another photograph of the same object. So each image is compared with the
few most similar ones pixel by pixel, where the images can be found. Exact copies are known by their checksums.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np

from mccgr_cli.blocks.protocol import BlockSource
from mccgr_cli.core.duplicates import Likeness, Pair, group_duplicates
from mccgr_cli.core.similarity import candidate_pairs, pair_similarities
from mccgr_cli.errors import ParameterError
from mccgr_cli.files.readers import Loaded
from mccgr_cli.images.agreement import DIFFERENT, compare_with
from mccgr_cli.images.decode import DECODER_CRASHED
from mccgr_cli.images.keypoints import Sketch, sketch
from mccgr_cli.images.thumbnails import locate_images
from mccgr_cli.system.processes import WorkerPool

CANDIDATES = 10  # most similar samples that each sample is compared with
BY_PIXELS, BY_FEATURES = 0.5, 0.98  # similarity from which on samples are near-duplicates
KEEP = ("largest", "sharpest")

OnProgress = Callable[[str, int, int], None]


@dataclass(frozen=True)
class Group:
    """Samples that are near-duplicates, the one to keep first, and their similarities to it."""

    samples: tuple[int, ...]
    similarities: tuple[float, ...]
    exact: tuple[bool, ...]  # whether a sample has the same bytes as the first one

    @property
    def similarity(self) -> float:
        return min(self.similarities)


@dataclass(frozen=True)
class Pixels:
    """Where the images of samples are, by number, and who compares them."""

    paths: Sequence[str | None] | Mapping[int, str | None]
    workers: WorkerPool
    max_pixels: int
    on_progress: OnProgress = lambda *_: None


def image_folder(matrix: Loaded) -> str | None:
    """The folder of the images that a matrix was made from, if its history says so and it is still there."""
    provenance: Any = matrix.contents.provenance
    inputs = provenance.get("inputs") if provenance.get("command") == "extract" else None
    first = inputs[0] if isinstance(inputs, list) and inputs and isinstance(inputs[0], dict) else {}
    name = first.get("name")
    try:
        return name if isinstance(name, str) and Path(name).is_dir() else None
    except (OSError, ValueError):  # not a possible file name
        return None


def find_images(matrix: Loaded, folder: str | None, samples: Sequence[int] | None = None) -> list[str | None]:
    """The paths of the images of all samples, or of these; None for those that are not there.

    ``folder`` is the one that the user named; otherwise that of the history of the matrix.
    """
    names = matrix.contents.datasets.get("sample_names")
    where = folder or image_folder(matrix)
    if names is None or where is None:
        if folder is not None:
            raise ParameterError("--images", f"{matrix.name} has no names of samples", "leave it out")
        return []
    names = names if samples is None else [names[sample] for sample in samples]
    found = locate_images(where, names)
    if folder is not None and len(names) and not any(found):
        what = f"{folder}: none of the {len(names)} images named in {matrix.name} is there"
        raise ParameterError("--images", what, "name the folder that extract was given")
    return found if any(found) else []


def near_duplicates(
    matrix: Loaded,
    source: BlockSource,
    pixels: Pixels | None,
    least: float | None = None,
    keep: str = KEEP[0],
) -> list[Group]:
    """Groups of near-duplicates.

    Parameters
    ----------
    source
        X with rows normalized by :data:`~mccgr_cli.core.similarity.NORMALIZATION`.
    pixels
        None: only features are compared.
    least
        The smallest similarity of near-duplicates; by default that of pixels or of features.
    keep
        Which sample of a group is the first: the largest or the sharpest image.
    """
    contents, n = matrix.contents, source.shape[0]
    preference = preference_of(matrix, keep)
    same = copies(contents.datasets.get("images/sha256"), n, preference)
    usable = [first for first in same if pixels is None or pixels.paths[first] is not None]
    pairs, _ = candidate_pairs(source, np.array(usable, dtype=int), CANDIDATES)
    if pixels is None:
        least = BY_FEATURES if least is None else least

        def compare(some: Sequence[Pair]) -> Iterator[Likeness]:
            ends = np.array(some).T
            yield from (Likeness(float(value)) for value in pair_similarities(source, *ends))

        found = group_duplicates(map(tuple, pairs.tolist()), compare, least, preference)
    else:
        least = BY_PIXELS if least is None else least
        images = Images(pixels, sorted({int(i) for i in pairs.ravel()}))
        known = [(i, j) for i, j in pairs.tolist() if i in images.sketches and j in images.sketches]
        found = group_duplicates(known, images.compare, least, preference)
    grouped = {group[0][0]: group for group in found}
    members = {sample for group in found for sample, _ in group}
    alone = [first for first, others in same.items() if others and first not in members]
    ordered = sorted([*grouped, *alone], key=preference)
    return [with_copies(grouped.get(first, [(first, 1.0)]), same) for first in ordered]


def preference_of(matrix: Loaded, keep: str) -> Callable[[int], tuple[float, ...]]:
    """The order in which images are kept: the best has the smallest value."""
    datasets = matrix.contents.datasets
    if "images/width" not in datasets:
        return lambda sample: (sample,)
    area = datasets["images/width"] * datasets["images/height"]
    sharpness, size = datasets["images/sharpness"], datasets["images/bytes"]
    first, second = (area, sharpness) if keep == KEEP[0] else (sharpness, area)
    return lambda sample: (-float(first[sample]), -float(size[sample]), -float(second[sample]), sample)


def copies(
    checksums: Sequence[str] | None, n: int, preference: Callable[[int], tuple[float, ...]]
) -> dict[int, list[int]]:
    """For each different file its first sample, and the others with the same bytes."""
    if checksums is None:
        return {sample: [] for sample in range(n)}
    by_file: dict[str, list[int]] = {}
    for sample, checksum in enumerate(checksums):
        by_file.setdefault(checksum, []).append(sample)
    ranked = [sorted(samples, key=preference) for samples in by_file.values()]
    return {samples[0]: samples[1:] for samples in ranked}


def with_copies(group: Sequence[tuple[int, float]], same: dict[int, list[int]]) -> Group:
    """A group with the exact copies of its members, each behind its member."""
    rows: list[tuple[int, float, bool]] = []
    for place, (sample, similarity) in enumerate(group):
        rows.append((sample, similarity, place == 0))
        rows += [(copy, similarity, place == 0) for copy in same[sample]]
    samples, similarities, exact = zip(*rows, strict=True)
    return Group(samples, similarities, exact)


class Images:
    """The images of candidates. Each is read once for its sketch, and again only where two may be the same."""

    def __init__(self, pixels: Pixels, samples: Sequence[int]) -> None:
        self.pixels = pixels
        paths = [str(pixels.paths[sample]) for sample in samples]
        self.sketches: dict[int, Sketch] = {}
        lost: Sketch | str = DECODER_CRASHED
        results = pixels.workers.map(sketch, paths, (pixels.max_pixels,), lost)
        for done, (sample, found) in enumerate(zip(samples, results, strict=True), 1):
            pixels.on_progress("reading", done, len(samples))
            if not isinstance(found, str):
                self.sketches[sample] = found

    def compare(self, pairs: Sequence[Pair]) -> Iterator[Likeness]:
        """How alike the images of each pair are."""
        order = sorted(range(len(pairs)), key=pairs.__getitem__)
        rows = [(first, [pairs[i][1] for i in some]) for first, some in groupby(order, lambda i: pairs[i][0])]
        lost: list[Likeness] | str = DECODER_CRASHED
        results = self.pixels.workers.map(compare_with, map(self.item, rows), (self.pixels.max_pixels,), lost)
        found: list[Likeness] = []
        for (_, others), likenesses in zip(rows, results, strict=True):
            found += [DIFFERENT] * len(others) if isinstance(likenesses, str) else likenesses
            self.pixels.on_progress("comparing pairs", len(found), len(pairs))
        by_pair = {pairs[i]: likeness for i, likeness in zip(order, found, strict=True)}
        yield from (by_pair[pair] for pair in pairs)

    def item(self, row: tuple[int, list[int]]) -> tuple[str, Sketch, list[tuple[str, Sketch]]]:
        first, others = row
        paths = self.pixels.paths
        return str(paths[first]), self.sketches[first], [(str(paths[other]), self.sketches[other]) for other in others]
