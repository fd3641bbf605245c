"""Visual words: learnt by k-means from descriptors, and counted in pictures."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass

import numpy as np
from threadpoolctl import threadpool_limits

from mccgr_cli.blocks import Array
from mccgr_cli.errors import ParameterError
from mccgr_cli.settings import Description

BATCH = 4096  # descriptors at a time
PASSES = 30  # over the sample, at most


@dataclass(frozen=True)
class Codebook:
    """Words, and how the descriptors were made that they stand for."""

    words: Array  # (words, 128) float32
    description: Description

    def sha256(self) -> str:
        digest = hashlib.sha256(json.dumps(asdict(self.description), sort_keys=True).encode())
        digest.update(np.ascontiguousarray(self.words, dtype="<f4").tobytes())
        return digest.hexdigest()

    def feature_names(self) -> list[str]:
        """With a part of the hash, so that words of another codebook are never taken for these."""
        short = self.sha256()[:8]
        return [f"word {i} ({short})" for i in range(len(self.words))]


def learn(sample: Array, words: int, seed: int) -> Array:
    """The centres of so many clusters of descriptors."""
    from sklearn.cluster import MiniBatchKMeans  # workers, which only count, do without

    distinct = len(np.unique(sample.view(np.dtype((np.void, sample.shape[1] * sample.itemsize)))))
    if distinct < words:
        what = f"{words} words out of {distinct} different descriptors"
        raise ParameterError("--words", what, f"give at most {distinct}, or a larger --sample, or more pictures")
    model = MiniBatchKMeans(words, batch_size=BATCH, max_iter=PASSES, n_init=1, random_state=seed)
    with threadpool_limits(1):  # how many threads there are must not show in the words
        centres: Array = model.fit(sample).cluster_centers_
    return centres.astype(np.float32)


def count(descriptors: Iterable[Array], books: Iterable[Array]) -> list[Array]:
    """How often each word of each book is the nearest to a descriptor."""
    searched = [(words.T, 0.5 * np.einsum("ij,ij->i", words, words)) for words in books]
    counts = [np.zeros(columns.shape[1], np.uint32) for columns, _ in searched]
    for block in descriptors:
        for (columns, half_norms), total in zip(searched, counts, strict=True):
            nearness = block @ columns  # |x - c|^2 = |x|^2 - 2 (xc - |c|^2 / 2)
            nearness -= half_norms
            total += np.bincount(nearness.argmax(axis=1), minlength=len(total)).astype(np.uint32)
    return counts


def draw(descriptors: Iterable[Array], number: int, random: np.random.Generator) -> Array:
    """At most so many of the descriptors, each as likely as any other, in one pass."""
    kept, keys = np.empty((0, 0), np.float32), np.empty(0)
    for block in descriptors:
        kept = np.concatenate([kept, block]) if kept.size else block
        keys = np.concatenate([keys, random.random(len(block))])
        chosen = np.argsort(keys, kind="stable")[:number]
        kept, keys = kept[chosen], keys[chosen]
    return kept


def frequencies(X: Array) -> str:
    """How evenly the words are used."""
    totals = X.sum(axis=0, dtype=np.int64)
    shares = np.sort(totals[totals > 0])[::-1] / totals.sum()
    evenly = np.exp(-(shares * np.log(shares)).sum())
    return (
        f"{totals.sum() / len(X):.0f} descriptors a picture; the most frequent word is {shares[0]:.1%} of them, the "
        f"ten most frequent {shares[:10].sum():.1%}; {len(totals) - len(shares)} unused; "
        f"as varied as {evenly:.0f} words used alike"
    )
