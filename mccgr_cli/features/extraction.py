"""All pictures in two readings: a sample of their descriptors to learn words from, then the counts of the words.

What is in memory at a time is one picture for each process, the sample, and the counts.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import cv2
import numpy as np

from mccgr_cli.blocks import Array, threads_for_blocks
from mccgr_cli.errors import DataError
from mccgr_cli.features import sift
from mccgr_cli.features.codebook import Codebook, count, draw, learn
from mccgr_cli.features.pictures import Decoded, Limits, Picture, Skipped, Unusable, decode
from mccgr_cli.settings import Description, Learning
from mccgr_cli.workers import Workers

OnProgress = Callable[[str, int, int], None]  # what is being done, how many are done, of how many
LOST = "its decoder crashed"


@dataclass(frozen=True)
class Counts:
    """The pictures that could be used, and how often they show each word of each codebook."""

    pictures: list[Picture]
    X: list[Array]  # (pictures, words) for each codebook
    skipped: list[Skipped]
    remarks: Counter[str]  # how many pictures were converted in which way
    remarked: dict[str, tuple[str, ...]]  # by name of the picture
    sha256: str  # of the names and the contents of all that were used


@dataclass(frozen=True)
class Sampled:
    descriptors: Array
    fault: str | None = None


@dataclass(frozen=True)
class Counted:
    counts: list[Array]
    sha256: str = ""
    remarks: tuple[str, ...] = ()
    fault: str | None = None


def learn_codebooks(
    pictures: Sequence[Picture],
    description: Description,
    learning: Learning,
    workers: Workers,
    max_pixels: int,
    strict: bool = False,
    on_progress: OnProgress = lambda *_: None,
) -> list[Codebook]:
    """Words out of a sample to which every picture contributes alike."""
    shares = quotas(len(pictures), learning)
    items = [(i, pictures[i], share) for i, share in enumerate(shares) if share]
    sample = np.empty((sum(share for _, _, share in items), sift.LENGTH), np.float32)
    filled, faults = 0, list[Skipped]()
    results = workers.map(sample_picture, items, (description, max_pixels, learning.seed), lambda _: LOST_SAMPLE)
    for done, ((_, picture, _), sampled) in enumerate(zip(items, results, strict=True)):
        on_progress("reading", done + 1, len(items))
        if sampled.fault is not None:
            faults.append(Skipped(picture.name, sampled.fault))
            if strict:
                raise unusable(picture, sampled.fault)
        sample[filled : filled + len(sampled.descriptors)] = sampled.descriptors
        filled += len(sampled.descriptors)
    if not filled:
        first = faults[0] if faults else Skipped("all of them", "nothing to describe")
        what = f"no descriptor of any of {len(items)} pictures; {first.name}: {first.reason}"
        raise DataError("pictures", what, "--min-contrast 0 uses patches without contrast too")
    books = []
    for words in learning.words:
        on_progress(f"learning {words} words", 0, 0)
        books.append(learn(sample[:filled], words, learning.seed, description))
    return books


def quotas(pictures: int, learning: Learning) -> list[int]:
    """How many descriptors each picture gives to the sample."""
    bounds = [i * learning.sample // pictures for i in range(pictures + 1)]
    most = learning.descriptors_per_image or learning.sample
    return [min(most, bounds[i + 1] - bounds[i]) for i in range(pictures)]


def count_words(
    pictures: Sequence[Picture],
    books: Sequence[Codebook],
    workers: Workers,
    max_pixels: int,
    strict: bool = False,
    on_progress: OnProgress = lambda *_: None,
) -> Counts:
    X = [np.zeros((len(pictures), len(book.words)), book.counts_dtype) for book in books]
    found = Counts([], X, [], Counter(), {}, "")
    digest = hashlib.sha256()
    results = workers.map(count_picture, pictures, (books, max_pixels), lambda _: LOST_COUNT)
    for done, (picture, counted) in enumerate(zip(pictures, results, strict=True)):
        on_progress("counting words", done + 1, len(pictures))
        if counted.fault is not None:
            if strict:
                raise unusable(picture, counted.fault)
            found.skipped.append(Skipped(picture.name, counted.fault))
            continue
        for rows, row in zip(X, counted.counts, strict=True):
            rows[len(found.pictures)] = row
        found.pictures.append(picture)
        found.remarks.update(counted.remarks)
        if counted.remarks:
            found.remarked[picture.name] = counted.remarks
        digest.update(f"{counted.sha256}  {picture.name}\n".encode())
    n = len(found.pictures)
    return Counts(
        found.pictures, [rows[:n] for rows in X], found.skipped, found.remarks, found.remarked, digest.hexdigest()
    )


def unusable(picture: Picture, fault: str) -> DataError:
    return DataError(picture.name, fault, "mend or remove it, or leave out --strict")


# One picture: called in workers


def sample_picture(item: tuple[int, Picture, int], description: Description, max_pixels: int, seed: int) -> Sampled:
    number, picture, share = item
    random = np.random.default_rng([seed, number])
    try:
        with threads_for_blocks():
            _, blocks = describe(picture, description, max_pixels)
            return Sampled(draw(blocks, share, random))
    except Unusable as fault:
        return Sampled(NOTHING, str(fault))


def count_picture(picture: Picture, books: Sequence[Codebook], max_pixels: int) -> Counted:
    description = books[0].description
    try:
        with threads_for_blocks():
            decoded, blocks = describe(picture, description, max_pixels)
            counts = count(blocks, books)
        if not counts[0].any():
            raise Unusable(nothing_found(decoded, description))
    except Unusable as fault:
        return Counted([], fault=str(fault))
    return Counted(counts, decoded.sha256, decoded.remarks)


def describe(picture: Picture, description: Description, max_pixels: int) -> tuple[Decoded, Iterator[Array]]:
    """The descriptors of a picture, some at a time."""
    cv2.setNumThreads(1)  # the cores are for other pictures
    decoded = decode(picture.path, Limits(description.max_size, max_pixels))
    if description.detector == "keypoints":
        blocks = sift.at_keypoints(decoded.grey)
    elif min(decoded.grey.shape) < sift.SMALLEST:
        raise Unusable(nothing_found(decoded, description))
    else:
        blocks = sift.dense(decoded.grey, description.step, description.radii, description.min_contrast)
    return decoded, map(sift.rooted, blocks) if description.root_sift else blocks


def nothing_found(decoded: Decoded, description: Description) -> str:
    height, width = decoded.grey.shape
    size = f"{width} x {height} pixels"
    if description.detector == "keypoints":
        return f"no keypoints in its {size}"
    if min(height, width) < sift.SMALLEST:
        return f"too small to describe: {size}"
    return f"no patch of its {size} has --min-contrast {description.min_contrast:g}"


NOTHING = np.empty((0, sift.LENGTH), np.float32)
LOST_SAMPLE = Sampled(NOTHING, LOST)
LOST_COUNT = Counted([], fault=LOST)
