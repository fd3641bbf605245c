"""Visual words: learnt by k-means from descriptors, and counted in images."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass

import numpy as np
from threadpoolctl import threadpool_limits

from mccgr_cli.blocks.protocol import Array, chunks
from mccgr_cli.errors import ParameterError
from mccgr_cli.images.sift import LENGTH
from mccgr_cli.settings import DETECTORS, LARGEST_RADIUS, Description

BATCH = 4096  # descriptors at a time
PASSES = 30  # over the sample, at most
SHARED_AMONG = 5  # words, where assignment is soft
SOFTNESS = 0.1  # its sigma^2 as a share of the median squared distance from a descriptor to its nearest word
ROUNDING = 1e-6  # of the squared distances between descriptors, which have unit length
MEASURED = 20_000  # descriptors that this median is taken of


@dataclass(frozen=True)
class Codebook:
    """Words, and how the descriptors were made that they stand for."""

    words: Array  # (words, 128) float32
    description: Description
    width: float = 0.0  # sigma^2 of soft assignment

    def is_sound(self) -> bool:
        """Whether it is something that could have been learnt; files can say anything."""
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
        """With a part of the hash, so that words of another codebook are never taken for these."""
        short = self.sha256()[:8]
        return [f"word {i} ({short})" for i in range(len(self.words))]

    @property
    def counts_dtype(self) -> type[np.generic]:
        return np.float64 if self.description.soft else np.uint32


def learn(sample: Array, words: int, seed: int, description: Description) -> Codebook:
    """The centres of so many clusters of descriptors."""
    from sklearn.cluster import MiniBatchKMeans  # workers, which only count, do without

    model = MiniBatchKMeans(words, batch_size=BATCH, max_iter=PASSES, n_init=1, random_state=seed)
    with threadpool_limits(1):  # how many threads there are must not show in the words
        centres: Array = model.fit(sample).cluster_centers_.astype(np.float32)
        width = SOFTNESS * typical_distance(sample[:MEASURED], centres) if description.soft else 0.0
    return Codebook(centres, description, width)


def check_words(sample: Array, words: Sequence[int], more: str) -> None:
    """Refuse more words than there are different descriptors, of which there may be more."""
    distinct = len(np.unique(sample.view(np.dtype((np.void, sample.shape[1] * sample.itemsize)))))
    if distinct < max(words):
        what = f"{max(words)} words out of {distinct} different descriptors"
        raise ParameterError("--words", what, f"give at most {distinct}, or {more}")


def typical_distance(descriptors: Array, words: Array) -> float:
    """The median of the squared distances from descriptors to their nearest words, or what rounding makes of 0."""
    squares = np.einsum("ij,ij->i", descriptors, descriptors)
    return max(ROUNDING, float(np.median(squares - 2 * nearness(descriptors, words).max(axis=1))))


def nearness(descriptors: Array, words: Array) -> Array:
    """xc - |c|^2 / 2, which is the larger, the smaller |x - c|^2 = |x|^2 - 2 (xc - |c|^2 / 2)."""
    near: Array = descriptors @ words.T
    near -= 0.5 * np.einsum("ij,ij->i", words, words)
    return near


def count(descriptors: Iterable[Array], books: Sequence[Codebook]) -> list[Array]:
    """How often each word of each book is the nearest to a descriptor, or how near it is where that is soft.

    A soft descriptor counts 1 in all: exp(-|x - c|^2 / (2 width)) for each of the nearest words, divided by their sum.
    """
    counts = [np.zeros(len(book.words), book.counts_dtype) for book in books]
    blocks = (block[some] for block in descriptors for some in chunks(len(block), BATCH))
    for block in blocks:
        for book, total in zip(books, counts, strict=True):
            near = nearness(block, book.words)
            if not book.description.soft:
                total += np.bincount(near.argmax(axis=1), minlength=len(total)).astype(total.dtype)
                continue
            some = min(SHARED_AMONG, len(total))
            words = np.argpartition(near, -some, axis=1)[:, -some:]
            chosen = np.take_along_axis(near, words, axis=1).astype(np.float64)
            shares = np.exp((chosen - chosen.max(axis=1, keepdims=True)) / book.width)
            shares /= shares.sum(axis=1, keepdims=True)
            total += np.bincount(words.ravel(), shares.ravel(), minlength=len(total))
    return counts


def draw(descriptors: Iterable[Array], number: int, random: np.random.Generator) -> Array:
    """At most so many of the descriptors, each as likely as any other, in one pass."""
    kept, keys = np.empty((0, LENGTH), np.float32), np.empty(0)
    for block in descriptors:
        kept = np.concatenate([kept, block])
        keys = np.concatenate([keys, random.random(len(block))])
        chosen = np.argsort(keys, kind="stable")[:number]
        kept, keys = kept[chosen], keys[chosen]
    return kept


def frequencies(X: Array) -> str:
    """How evenly the words are used."""
    totals = X.sum(axis=0, dtype=np.float64)
    shares = np.sort(totals[totals > 0])[::-1] / totals.sum()
    evenly = np.exp(-(shares * np.log(shares)).sum())
    return (
        f"{totals.sum() / len(X):.0f} descriptors an image; the most frequent word is {shares[0]:.1%} of them, the "
        f"ten most frequent {shares[:10].sum():.1%}; {len(totals) - len(shares)} unused; "
        f"as varied as {evenly:.0f} words used alike"
    )
