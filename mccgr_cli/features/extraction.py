"""All pictures in two readings: a sample of their descriptors to learn words from, then the counts of the words.

What is in memory at a time is one picture for each process, the sample, and the counts.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import cv2
import numpy as np

from mccgr_cli.blocks import Array, threads_for_blocks
from mccgr_cli.errors import DataError, ParameterError
from mccgr_cli.features import sift
from mccgr_cli.features.codebook import Codebook, check_words, count, draw, learn
from mccgr_cli.features.decoding import Limits, Unusable, decode, fingerprint, undecodable
from mccgr_cli.features.pictures import Picture, Skipped
from mccgr_cli.settings import Description, Learning
from mccgr_cli.workers import Crew

OnProgress = Callable[[str, int, int], None]  # what is being done, how many are done, of how many
LOST = "its decoder crashed"


@dataclass(frozen=True)
class Counts:
    """The pictures that could be used, and how often they show each word of each codebook."""

    pictures: list[Picture]
    X: list[Array]  # (pictures, words) for each codebook
    skipped: list[Skipped]
    remarks: dict[str, tuple[str, ...]]  # how pictures were converted, by their names
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
    workers: Crew,
    max_pixels: int,
    strict: bool = False,
    on_progress: OnProgress = lambda *_: None,
) -> list[Codebook]:
    """Words out of a sample to which every picture contributes alike."""
    if max(learning.words) > learning.sample:
        what = f"{max(learning.words)} words out of {learning.sample} descriptors"
        raise ParameterError("--words", what, "give a larger --sample")
    items = [(i, pictures[i], share) for i, share in enumerate(quotas(len(pictures), learning)) if share]
    sample = room_for(sum(share for _, _, share in items))
    filled, faults = 0, list[Skipped]()
    results = workers.map(sample_picture, items, (description, max_pixels, learning.seed), Sampled(NOTHING, LOST))
    for done, ((_, picture, _), sampled) in enumerate(zip(items, results, strict=True)):
        on_progress("reading", done + 1, len(items))
        if sampled.fault is not None:
            faults.append(Skipped(picture.name, sampled.fault))
            if strict:
                raise unusable(faults[-1])
        sample[filled : filled + len(sampled.descriptors)] = sampled.descriptors
        filled += len(sampled.descriptors)
    if not filled:
        raise none_usable(len(items), faults[0])
    more = "a larger --sample" if filled == len(sample) else "more pictures, or a smaller --step"
    check_words(sample[:filled], learning.words, more)
    books = []
    for words in learning.words:
        on_progress(f"learning {words} words", 0, 0)
        books.append(learn(sample[:filled], words, learning.seed, description))
    return books


def room_for(descriptors: int) -> Array:
    try:
        return np.empty((descriptors, sift.LENGTH), np.float32)
    except (MemoryError, ValueError):  # the latter for sizes beyond all measure
        what = f"{descriptors} descriptors take {descriptors * sift.LENGTH * 4 / 1e9:.3g} GB of memory"
        raise ParameterError("--sample", what, "give fewer") from None


def quotas(pictures: int, learning: Learning) -> list[int]:
    """How many descriptors each picture gives to the sample."""
    bounds = [i * learning.sample // pictures for i in range(pictures + 1)]
    most = learning.descriptors_per_image or learning.sample
    return [min(most, bounds[i + 1] - bounds[i]) for i in range(pictures)]


def count_words(
    pictures: Sequence[Picture],
    books: Sequence[Codebook],
    workers: Crew,
    max_pixels: int,
    strict: bool = False,
    on_progress: OnProgress = lambda *_: None,
) -> Counts:
    X = [np.zeros((len(pictures), len(book.words)), book.counts_dtype) for book in books]
    used, skipped = list[Picture](), list[Skipped]()
    remarks: dict[str, tuple[str, ...]] = {}
    digest = hashlib.sha256()
    results = workers.map(count_picture, pictures, (books, max_pixels), Counted([], fault=LOST))
    for done, (picture, counted) in enumerate(zip(pictures, results, strict=True)):
        on_progress("counting words", done + 1, len(pictures))
        if counted.fault is not None:
            skipped.append(Skipped(picture.name, counted.fault))
            if strict:
                raise unusable(skipped[-1])
            continue
        for rows, row in zip(X, counted.counts, strict=True):
            rows[len(used)] = row
        used.append(picture)
        if counted.remarks:
            remarks[picture.name] = counted.remarks
        digest.update(f"{counted.sha256}  {picture.name}\n".encode())
    if not used:
        raise none_usable(len(pictures), skipped[0])
    return Counts(used, [rows[: len(used)] for rows in X], skipped, remarks, digest.hexdigest())


def none_usable(number: int, first: Skipped) -> DataError:
    what = f"none of {number} can be used; the first is {first.name}: {first.reason}"
    return DataError("pictures", what, "mend them, or see the limits in 'mccgr extract --help'")


def unusable(one: Skipped) -> DataError:
    return DataError(one.name, one.reason, "mend or remove it, or leave out --strict")


# One picture: called in workers


def sample_picture(item: tuple[int, Picture, int], description: Description, max_pixels: int, seed: int) -> Sampled:
    number, picture, share = item
    try:
        with working():
            decoded = decode(picture.path, Limits(description.max_size, max_pixels))
            drawn = draw(describe(decoded.grey, description), share, np.random.default_rng([seed, number]))
            if not len(drawn):
                raise Unusable(nothing_found(decoded.grey, description))
            return Sampled(drawn)
    except Unusable as fault:
        return Sampled(NOTHING, str(fault))


def count_picture(picture: Picture, books: Sequence[Codebook], max_pixels: int) -> Counted:
    description = books[0].description
    try:
        with working():
            decoded = decode(picture.path, Limits(description.max_size, max_pixels))
            counts = count(describe(decoded.grey, description), books)
            if not counts[0].any():
                raise Unusable(nothing_found(decoded.grey, description))
            return Counted(counts, fingerprint(picture.path), decoded.remarks)
    except Unusable as fault:
        return Counted([], fault=str(fault))


@contextmanager
def working() -> Iterator[None]:
    """One core for one picture, and faults that are its own."""
    cv2.setNumThreads(1)
    try:
        with threads_for_blocks():
            yield
    except (MemoryError, cv2.error) as fault:  # OpenCV's own word for the former
        raise undecodable(fault) from None


def describe(grey: Array, description: Description) -> Iterator[Array]:
    """The descriptors of a picture, some at a time."""
    if description.detector == "keypoints":
        blocks = sift.at_keypoints(grey)
    elif min(grey.shape) < sift.SMALLEST:
        return iter(())
    else:
        blocks = sift.dense(grey, description.step, description.radii, description.min_contrast)
    return map(sift.rooted, blocks) if description.root_sift else blocks


def nothing_found(grey: Array, description: Description) -> str:
    height, width = grey.shape
    size = f"{width} x {height} pixels"
    if description.detector == "keypoints":
        return f"no keypoints in its {size}"
    if min(height, width) < sift.SMALLEST:
        return f"too small to describe: {size}"
    return f"no patch of its {size} has --min-contrast {description.min_contrast:g}"


NOTHING = np.empty((0, sift.LENGTH), np.float32)
