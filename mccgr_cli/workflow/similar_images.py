"""Copies of an image among the samples that are most similar to it, by their pixels.

Features alone may rank another image of the same kind above the original of a cropped copy. So the most similar images
are also compared pixel by pixel, as near-duplicates are. Those that are near-duplicates come first.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mccgr_cli.blocks.protocol import Array
from mccgr_cli.core.similarity import Neighbours
from mccgr_cli.workflow.near_duplicates import BY_PIXELS, Images, Pixels

COMPARED = 50  # most similar images whose pixels are compared with those of an image


def places(samples: Array) -> Array:
    """The place of each neighbour among those of its sample, from 0; ``samples`` increase."""
    return np.asarray(np.arange(len(samples)) - np.searchsorted(samples, samples))


def find_copies(found: Neighbours, queries: Sequence[int], pixels: Pixels) -> list[bool | None]:
    """Whether each neighbour is a near-duplicate of its query; None if they were not compared.

    ``queries`` says under which number the paths have the image of each query.
    """
    pairs = [(queries[query], near) for query, near in zip(found.samples, found.neighbours.tolist(), strict=True)]
    there = {number for number in {i for pair in pairs for i in pair} if pixels.paths[number] is not None}
    asked = [pair for pair, place in zip(pairs, places(found.samples), strict=True) if place < COMPARED]
    asked = [pair for pair in dict.fromkeys(asked) if there.issuperset(pair)]
    images = Images(pixels, sorted({i for pair in asked for i in pair}))
    usable = [pair for pair in asked if images.sketches.keys() >= set(pair)]
    likenesses = zip(usable, images.compare(usable), strict=True)
    known = {pair: likeness.similarity >= BY_PIXELS for pair, likeness in likenesses}
    return [known.get(pair) for pair in pairs]


def copies_first(found: Neighbours, copies: Sequence[bool | None], most: int) -> tuple[Neighbours, list[bool | None]]:
    """The first ``most`` neighbours of each query if near-duplicates come first, and which are near-duplicates.

    Near-duplicates, and all others, keep their order: the most similar one is the first.
    """
    order = np.lexsort((np.array([copy is not True for copy in copies], dtype=bool), found.samples))
    order = order[places(found.samples) < most]
    ordered = Neighbours(found.samples[order], found.neighbours[order], found.similarities[order], found.search)
    return ordered, [copies[i] for i in order]
