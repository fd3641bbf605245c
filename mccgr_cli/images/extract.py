"""Describe all images, by visual words or by a network.

Visual words take two passes: sample descriptors to learn the words, then count them. A network takes one pass. Only one
image per process, the sample and the result are in memory at a time.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import cv2
import numpy as np

from mccgr_cli.blocks.protocol import Array
from mccgr_cli.blocks.threads import threads_for_blocks
from mccgr_cli.errors import DataError, ParameterError
from mccgr_cli.files.folders import SampleFile, Skipped
from mccgr_cli.images import sift
from mccgr_cli.images.codebook import Codebook, count, draw, learn
from mccgr_cli.images.decode import DECODER_CRASHED, UnusableImage, decode, decode_colours, undecodable
from mccgr_cli.images.facts import MEASURED_SIZE, ImageFacts, facts_from
from mccgr_cli.images.network.describe import Network, count_features
from mccgr_cli.images.settings import Description, Learning
from mccgr_cli.system.processes import WorkerPool

OnProgress = Callable[[str, int, int], None]  # what is being done, how many images are done, of how many
DescribedImage = tuple[list[Array], ImageFacts, tuple[str, ...]]  # a row for each matrix, facts, remarks
Result = TypeVar("Result")


@dataclass(frozen=True)
class Described:
    """The usable images, and one or more matrices with a row for each of them."""

    images: list[SampleFile]
    X: list[Array]  # (images, features) for each codebook, or for the network
    skipped: list[Skipped]
    remarks: dict[str, tuple[str, ...]]  # by name: how an image was converted
    facts: list[ImageFacts]
    sha256: str  # of the names and contents of the usable images


def learn_codebooks(
    images: Sequence[SampleFile],
    description: Description,
    learning: Learning,
    workers: WorkerPool,
    max_pixels: int,
    strict: bool = False,
    on_progress: OnProgress = lambda *_: None,
) -> list[Codebook]:
    """Learn words from a sample of descriptors to which every image contributes equally; one codebook a size.

    Unusable images, and those with more than ``max_pixels``, are skipped; with ``strict`` the first one is an error.
    """
    if max(learning.words) > learning.sample:
        what = f"{max(learning.words)} words out of {learning.sample} descriptors"
        raise ParameterError("--words", what, "give a larger --sample")
    items = [(i, images[i], share) for i, share in enumerate(quotas(len(images), learning)) if share]
    size = sum(share for _, _, share in items)
    try:
        sample = np.empty((size, sift.LENGTH), np.float32)
    except (MemoryError, ValueError):  # ValueError if the size is beyond what numpy can address
        what = f"{size} descriptors take {size * sift.LENGTH * 4 / 1e9:.3g} GB of memory"
        raise ParameterError("--sample", what, "give fewer") from None
    shared = (description, max_pixels, learning.seed)
    results: Iterator[Array | str] = workers.map(sample_image, items, shared, DECODER_CRASHED)
    sampled = usable([image for _, image, _ in items], results, [], strict, lambda *done: on_progress("reading", *done))
    filled = 0
    for _, descriptors in sampled:
        sample[filled : filled + len(descriptors)] = descriptors
        filled += len(descriptors)
    more = "a larger --sample" if filled == len(sample) else "more images, or a smaller --step"
    sample = sample[:filled]
    distinct = len(np.unique(sample.view(np.dtype((np.void, sift.LENGTH * sample.itemsize)))))
    if distinct < max(learning.words):
        what = f"{max(learning.words)} words out of {distinct} different descriptors"
        raise ParameterError("--words", what, f"give at most {distinct}, or {more}")
    books = []
    for words in learning.words:
        on_progress(f"learning {words} words", 0, 0)
        books.append(learn(sample, words, learning.seed, description))
    return books


def quotas(images: int, learning: Learning) -> list[int]:
    """How many descriptors each image contributes to the sample."""
    bounds = [i * learning.sample // images for i in range(images + 1)]
    most = learning.descriptors_per_image or learning.sample
    return [min(most, bounds[i + 1] - bounds[i]) for i in range(images)]


def count_words(
    images: Sequence[SampleFile],
    books: Sequence[Codebook],
    workers: WorkerPool,
    max_pixels: int,
    strict: bool = False,
    on_progress: OnProgress = lambda *_: None,
) -> Described:
    """Count the words of each codebook in each image; see :func:`learn_codebooks` for the parameters."""
    X = [np.zeros((len(images), len(book.words)), book.counts_dtype) for book in books]
    results: Iterator[DescribedImage | str] = workers.map(count_image, images, (books, max_pixels), DECODER_CRASHED)
    return collect(images, results, X, strict, lambda *done: on_progress("counting words", *done))


def try_network(network: Network, workers: WorkerPool) -> int:
    """Run a network once, in a worker if there is one; return the number of its features."""
    lost: int | str = "it ends the process that runs it"
    (found,) = workers.map(count_features, [None], (network,), lost)
    if isinstance(found, str):
        raise DataError(network.name, f"{network.engine} cannot run this model: {found}", "give another --model")
    return found


def run_network(
    images: Sequence[SampleFile],
    network: Network,
    features: int,
    workers: WorkerPool,
    max_pixels: int,
    strict: bool = False,
    on_progress: OnProgress = lambda *_: None,
) -> Described:
    """Describe each image by a network with this number of features; see :func:`learn_codebooks` for the parameters."""
    X = [np.zeros((len(images), features), np.float32)]
    results: Iterator[DescribedImage | str] = workers.map(run_on_image, images, (network, max_pixels), DECODER_CRASHED)
    return collect(images, results, X, strict, lambda *done: on_progress("describing", *done))


def collect(
    images: Sequence[SampleFile],
    results: Iterator[DescribedImage | str],
    X: list[Array],
    strict: bool,
    on_progress: Callable[[int, int], Any],
) -> Described:
    """Write the rows of all usable images into the matrices X."""
    used, skipped, facts = list[SampleFile](), list[Skipped](), list[ImageFacts]()
    remarks: dict[str, tuple[str, ...]] = {}
    digest = hashlib.sha256()
    for image, (rows, fact, remarked) in usable(images, results, skipped, strict, on_progress):
        for matrix, row in zip(X, rows, strict=True):
            matrix[len(used)] = row
        used.append(image)
        facts.append(fact)
        if remarked:
            remarks[image.name] = remarked
        digest.update(f"{fact.sha256}  {image.name}\n".encode())
    return Described(used, [matrix[: len(used)] for matrix in X], skipped, remarks, facts, digest.hexdigest())


def usable(
    images: Sequence[SampleFile],
    results: Iterator[Result | str],
    skipped: list[Skipped],
    strict: bool,
    on_progress: Callable[[int, int], Any],
) -> Iterator[tuple[SampleFile, Result]]:
    """Yield the images that have a result, not a reason why there is none. The others are added to ``skipped``."""
    for done, (image, result) in enumerate(zip(images, results, strict=True), 1):
        on_progress(done, len(images))
        if not isinstance(result, str):
            yield image, result
            continue
        skipped.append(Skipped(image.name, result))
        if strict:
            raise unusable_image(skipped[-1])
    if len(skipped) == len(images):
        what = f"none of {len(images)} can be used; the first is {skipped[0].name}: {skipped[0].reason}"
        raise DataError("images", what, "mend them, or see the limits in 'mccgr extract --help'")


def unusable_image(one: Skipped) -> DataError:
    return DataError(one.name, one.reason, "mend or remove it, or leave out --strict")


def for_one_image(function: Callable[..., Result]) -> Callable[..., Result | str]:
    """Make workers use one core for an image. A failure becomes a text: the reason why the image is skipped."""

    @functools.wraps(function)
    def describe_one(*args: Any) -> Result | str:
        cv2.setNumThreads(1)
        try:
            with threads_for_blocks():
                return function(*args)
        except UnusableImage as fault:
            return str(fault)
        except (MemoryError, cv2.error) as fault:  # OpenCV reports a lack of memory as its own error
            return str(undecodable(fault))

    return describe_one


@for_one_image
def sample_image(item: tuple[int, SampleFile, int], description: Description, max_pixels: int, seed: int) -> Array:
    number, image, share = item
    grey = decode(image.path, description.max_size, max_pixels).grey
    return draw(describe(grey, description), share, np.random.default_rng([seed, number]))


@for_one_image
def count_image(image: SampleFile, books: Sequence[Codebook], max_pixels: int) -> DescribedImage:
    description = books[0].description
    decoded = decode(image.path, description.max_size, max_pixels)
    rows = count(describe(decoded.grey, description), books)
    return rows, facts_from(image.path, decoded, decoded.grey), decoded.remarks


@for_one_image
def run_on_image(image: SampleFile, network: Network, max_pixels: int) -> DescribedImage:
    decoded = decode_colours(image.path, max(2 * network.preparation.model_size, MEASURED_SIZE), max_pixels)
    grey = cv2.cvtColor(decoded.colours, cv2.COLOR_RGB2GRAY)
    return [network.describe(decoded.colours)], facts_from(image.path, decoded, grey), decoded.remarks


def describe(grey: Array, description: Description) -> Iterator[Array]:
    """Yield the descriptors of an image, some at a time. An image without descriptors is an error."""
    size = f"{grey.shape[1]} x {grey.shape[0]} pixels"
    if description.detector == "keypoints":
        blocks, nothing = sift.at_keypoints(grey), f"no keypoints in its {size}"
    elif min(grey.shape) < sift.SMALLEST:
        raise UnusableImage(f"too small to describe: {size}")
    else:
        blocks = sift.dense(grey, description.step, description.radii, description.min_contrast)
        nothing = f"no patch of its {size} has --min-contrast {description.min_contrast:g}"
    found = 0
    for block in blocks:
        found += len(block)
        yield sift.rooted(block) if description.root_sift else block
    if not found:
        raise UnusableImage(nothing)
