"""Visual words (Csurka et al., ECCV workshop 2004): k-means centres of descriptors, counted in images."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass

import numpy as np
from threadpoolctl import threadpool_limits

from mccgr_cli.blocks.protocol import Array, chunks
from mccgr_cli.images.settings import DETECTORS, LARGEST_RADIUS, Description
from mccgr_cli.images.sift import LENGTH

BATCH = 4096  # descriptors at a time
PASSES = 30  # over the sample, at most
SOFT_WORDS = 5  # nearest words that share a descriptor in soft assignment
SOFTNESS = 0.1  # sigma^2 of soft assignment, relative to the median squared distance to the nearest word
ROUNDING = 1e-6  # error of squared distances between descriptors, which have unit length
MEASURED = 20_000  # descriptors in this median


@dataclass(frozen=True)
class Codebook:
    """Visual words, and the description of images that they were learnt with."""

    words: Array  # (words, 128) float32
    description: Description
    width: float = 0.0  # sigma^2 of soft assignment

    def is_sound(self) -> bool:
        """Whether this can be a learnt codebook: a file may hold anything."""
        chosen = self.description
        numbers = (chosen.min_contrast, self.width)
        return (
            (chosen.detector in DETECTORS and chosen.step >= 1 and chosen.max_size >= 0)
            and all(isinstance(number, int) for number in (chosen.step, chosen.max_size, *chosen.radii))
            and (len(chosen.radii) > 0 and all(2 <= radius <= LARGEST_RADIUS for radius in chosen.radii))
            and all(math.isfinite(number) and number >= 0 for number in numbers)
            and (self.width > 0 or not chosen.soft)
            and (self.words.shape[1] == LENGTH and bool(np.isfinite(self.words).all()))
        )

    def sha256(self) -> str:
        description = {**asdict(self.description), "width": self.width}
        digest = hashlib.sha256(json.dumps(description, sort_keys=True).encode())
        digest.update(np.ascontiguousarray(self.words, dtype="<f4").tobytes())
        return digest.hexdigest()

    def feature_names(self) -> list[str]:
        """Names that contain a part of the hash, so that words of different codebooks are never confused."""
        short = self.sha256()[:8]
        return [f"word {i} ({short})" for i in range(len(self.words))]

    @property
    def counts_dtype(self) -> type[np.generic]:
        return np.float64 if self.description.soft else np.uint32


def learn(sample: Array, words: int, seed: int, description: Description) -> Codebook:
    """Learn a codebook: the k-means centres of a sample of descriptors."""
    from sklearn.cluster import MiniBatchKMeans  # not at the top: workers only count, and do not need it

    model = MiniBatchKMeans(words, batch_size=BATCH, max_iter=PASSES, n_init=1, random_state=seed)
    with threadpool_limits(1):  # so that the words do not depend on the number of threads
        centres: Array = model.fit(sample).cluster_centers_.astype(np.float32)
        width = SOFTNESS * typical_distance(sample[:MEASURED], centres) if description.soft else 0.0
    return Codebook(centres, description, width)


def typical_distance(descriptors: Array, words: Array) -> float:
    """The median squared distance from a descriptor to its nearest word; not below the rounding error."""
    squares = np.einsum("ij,ij->i", descriptors, descriptors)
    return max(ROUNDING, float(np.median(squares - 2 * nearness(descriptors, words).max(axis=1))))


def nearness(descriptors: Array, words: Array) -> Array:
    """xc - |c|^2 / 2 for descriptors x and words c: largest for the nearest word, as |x - c|^2 = |x|^2 - 2 times it."""
    near: Array = descriptors @ words.T
    near -= 0.5 * np.einsum("ij,ij->i", words, words)
    return near


def count(descriptors: Iterable[Array], books: Sequence[Codebook]) -> list[Array]:
    """Count for each word of each book the descriptors nearest to it.

    In soft assignment the nearest words c share a descriptor x in proportion to exp(-|x - c|^2 / (2 width)).
    """
    counts = [np.zeros(len(book.words), book.counts_dtype) for book in books]
    blocks = (block[some] for block in descriptors for some in chunks(len(block), BATCH))
    for block in blocks:
        for book, total in zip(books, counts, strict=True):
            near = nearness(block, book.words)
            if not book.description.soft:
                total += np.bincount(near.argmax(axis=1), minlength=len(total)).astype(total.dtype)
                continue
            some = min(SOFT_WORDS, len(total))
            words = np.argpartition(near, -some, axis=1)[:, -some:]
            chosen = np.take_along_axis(near, words, axis=1).astype(np.float64)
            shares = np.exp((chosen - chosen.max(axis=1, keepdims=True)) / book.width)
            shares /= shares.sum(axis=1, keepdims=True)
            total += np.bincount(words.ravel(), shares.ravel(), minlength=len(total))
    return counts


def draw(descriptors: Iterable[Array], number: int, random: np.random.Generator) -> Array:
    """Draw at most ``number`` descriptors uniformly, in one pass."""
    kept, keys = np.empty((0, LENGTH), np.float32), np.empty(0)
    for block in descriptors:
        kept = np.concatenate([kept, block])
        keys = np.concatenate([keys, random.random(len(block))])
        chosen = np.argsort(keys, kind="stable")[:number]
        kept, keys = kept[chosen], keys[chosen]
    return kept


def describe_word_use(X: Array) -> str:
    """A sentence about how evenly the words are used."""
    totals = X.sum(axis=0, dtype=np.float64)
    shares = np.sort(totals[totals > 0])[::-1] / totals.sum()
    evenly = np.exp(-(shares * np.log(shares)).sum())
    return (
        f"{totals.sum() / len(X):.0f} descriptors an image; the most frequent word is {shares[0]:.1%} of them, the "
        f"ten most frequent {shares[:10].sum():.1%}; {len(totals) - len(shares)} unused; "
        f"as varied as {evenly:.0f} words used equally often"
    )
