"""All images in two readings: a sample of their descriptors to learn words from, then the counts of the words.

What is in memory at a time is one image for each process, the sample, and the counts.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import cv2
import numpy as np

from mccgr_cli.blocks.protocol import Array
from mccgr_cli.blocks.threads import threads_for_blocks
from mccgr_cli.errors import DataError, ParameterError
from mccgr_cli.images import sift
from mccgr_cli.images.codebook import Codebook, check_words, count, draw, learn
from mccgr_cli.images.decode import Limits, Unusable, decode, fingerprint, undecodable
from mccgr_cli.images.find import ImageFile, Skipped
from mccgr_cli.settings import Description, Learning
from mccgr_cli.system.processes import Crew

OnProgress = Callable[[str, int, int], None]  # what is being done, how many are done, of how many
LOST = "its decoder crashed"


@dataclass(frozen=True)
class Counts:
    """The images that could be used, and how often they show each word of each codebook."""

    images: list[ImageFile]
    X: list[Array]  # (images, words) for each codebook
    skipped: list[Skipped]
    remarks: dict[str, tuple[str, ...]]  # how images were converted, by their names
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
    images: Sequence[ImageFile],
    description: Description,
    learning: Learning,
    workers: Crew,
    max_pixels: int,
    strict: bool = False,
    on_progress: OnProgress = lambda *_: None,
) -> list[Codebook]:
    """Words out of a sample to which every image contributes alike."""
    if max(learning.words) > learning.sample:
        what = f"{max(learning.words)} words out of {learning.sample} descriptors"
        raise ParameterError("--words", what, "give a larger --sample")
    items = [(i, images[i], share) for i, share in enumerate(quotas(len(images), learning)) if share]
    sample = room_for(sum(share for _, _, share in items))
    filled, faults = 0, list[Skipped]()
    results = workers.map(sample_image, items, (description, max_pixels, learning.seed), Sampled(NOTHING, LOST))
    for done, ((_, image, _), sampled) in enumerate(zip(items, results, strict=True)):
        on_progress("reading", done + 1, len(items))
        if sampled.fault is not None:
            faults.append(Skipped(image.name, sampled.fault))
            if strict:
                raise unusable(faults[-1])
        sample[filled : filled + len(sampled.descriptors)] = sampled.descriptors
        filled += len(sampled.descriptors)
    if not filled:
        raise none_usable(len(items), faults[0])
    more = "a larger --sample" if filled == len(sample) else "more images, or a smaller --step"
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


def quotas(images: int, learning: Learning) -> list[int]:
    """How many descriptors each image gives to the sample."""
    bounds = [i * learning.sample // images for i in range(images + 1)]
    most = learning.descriptors_per_image or learning.sample
    return [min(most, bounds[i + 1] - bounds[i]) for i in range(images)]


def count_words(
    images: Sequence[ImageFile],
    books: Sequence[Codebook],
    workers: Crew,
    max_pixels: int,
    strict: bool = False,
    on_progress: OnProgress = lambda *_: None,
) -> Counts:
    X = [np.zeros((len(images), len(book.words)), book.counts_dtype) for book in books]
    used, skipped = list[ImageFile](), list[Skipped]()
    remarks: dict[str, tuple[str, ...]] = {}
    digest = hashlib.sha256()
    results = workers.map(count_image, images, (books, max_pixels), Counted([], fault=LOST))
    for done, (image, counted) in enumerate(zip(images, results, strict=True)):
        on_progress("counting words", done + 1, len(images))
        if counted.fault is not None:
            skipped.append(Skipped(image.name, counted.fault))
            if strict:
                raise unusable(skipped[-1])
            continue
        for rows, row in zip(X, counted.counts, strict=True):
            rows[len(used)] = row
        used.append(image)
        if counted.remarks:
            remarks[image.name] = counted.remarks
        digest.update(f"{counted.sha256}  {image.name}\n".encode())
    if not used:
        raise none_usable(len(images), skipped[0])
    return Counts(used, [rows[: len(used)] for rows in X], skipped, remarks, digest.hexdigest())


def none_usable(number: int, first: Skipped) -> DataError:
    what = f"none of {number} can be used; the first is {first.name}: {first.reason}"
    return DataError("images", what, "mend them, or see the limits in 'mccgr extract --help'")


def unusable(one: Skipped) -> DataError:
    return DataError(one.name, one.reason, "mend or remove it, or leave out --strict")


# One image: called in workers


def sample_image(item: tuple[int, ImageFile, int], description: Description, max_pixels: int, seed: int) -> Sampled:
    number, image, share = item
    try:
        with working():
            decoded = decode(image.path, Limits(description.max_size, max_pixels))
            drawn = draw(describe(decoded.grey, description), share, np.random.default_rng([seed, number]))
            if not len(drawn):
                raise Unusable(nothing_found(decoded.grey, description))
            return Sampled(drawn)
    except Unusable as fault:
        return Sampled(NOTHING, str(fault))


def count_image(image: ImageFile, books: Sequence[Codebook], max_pixels: int) -> Counted:
    description = books[0].description
    try:
        with working():
            decoded = decode(image.path, Limits(description.max_size, max_pixels))
            counts = count(describe(decoded.grey, description), books)
            if not counts[0].any():
                raise Unusable(nothing_found(decoded.grey, description))
            return Counted(counts, fingerprint(image.path), decoded.remarks)
    except Unusable as fault:
        return Counted([], fault=str(fault))


@contextmanager
def working() -> Iterator[None]:
    """One core for one image, and faults that are its own."""
    cv2.setNumThreads(1)
    try:
        with threads_for_blocks():
            yield
    except (MemoryError, cv2.error) as fault:  # OpenCV's own word for the former
        raise undecodable(fault) from None


def describe(grey: Array, description: Description) -> Iterator[Array]:
    """The descriptors of an image, some at a time."""
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
