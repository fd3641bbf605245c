"""Groups of near-duplicates from pairs of samples that were compared.

A group is a sample, the one to keep, and others that are all similar to it: similar pairs alone could form a chain
whose ends have nothing in common.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

Pair = tuple[int, int]  # the smaller number first


class Likeness(NamedTuple):
    """How alike two samples are."""

    similarity: float
    crop: int = 0  # 1: the first shows only a part of the second, -1: the reverse, 0: neither

    def reversed(self) -> Likeness:
        return Likeness(self.similarity, -self.crop)


Compare = Callable[[Sequence[Pair]], Iterable[Likeness]]


@dataclass
class Comparisons:
    """What is known of pairs of samples. Pairs that are not known yet are compared when they are needed."""

    compare: Compare
    least: float  # similarity of near-duplicates

    def __post_init__(self) -> None:
        self.known: dict[Pair, Likeness] = {}
        self.near: dict[int, set[int]] = {}  # near-duplicates of each sample, as far as they are known
        self.crops: dict[int, int] = {}  # number of images of which a sample shows only a part

    def add(self, pairs: Iterable[Pair]) -> None:
        new = [pair for pair in dict.fromkeys(pairs) if pair not in self.known]
        for (one, other), likeness in zip(new, self.compare(new) if new else (), strict=True):
            self.known[one, other] = likeness
            if likeness.similarity >= self.least:
                self.near.setdefault(one, set()).add(other)
                self.near.setdefault(other, set()).add(one)
                if likeness.crop:
                    part = one if likeness.crop > 0 else other
                    self.crops[part] = self.crops.get(part, 0) + 1

    def likeness(self, one: int, other: int) -> Likeness:
        return self.known[one, other] if one < other else self.known[other, one].reversed()

    def may_replace(self, kept: int, other: int) -> bool:
        """Whether ``other`` can be removed if ``kept`` is kept: it is similar, and does not show more."""
        likeness = self.likeness(kept, other)
        return likeness.similarity >= self.least and likeness.crop <= 0


def group_duplicates(
    pairs: Iterable[Pair], compare: Compare, least: float, preference: Callable[[int], tuple[float, ...]]
) -> list[list[tuple[int, float]]]:
    """Groups of near-duplicates: samples and their similarity to the first one, which is the one to keep.

    Parameters
    ----------
    pairs
        Candidates, which are compared first.
    compare
        Compares pairs.
    least
        The smallest similarity of near-duplicates.
    preference
        Of two near-duplicates, the one with the smaller value is kept; unless it shows only a part of the other.
    """
    found = Comparisons(compare, least)
    found.add(pairs)
    ranked = sorted(found.near, key=lambda sample: (found.crops.get(sample, 0), preference(sample)))
    rank = {sample: number for number, sample in enumerate(ranked)}
    waiting = [sorted(part, key=rank.__getitem__) for part in parts_of(found.near)]
    groups: list[list[tuple[int, float]]] = []
    while waiting:  # each part of the graph gives at most one group in a round; all are compared together
        kept = [part[0] for part in waiting]
        for part, members in zip(waiting, gather(kept, waiting, found), strict=True):
            if members:
                similar = [(one, found.likeness(part[0], one).similarity) for one in part if one in members]
                groups.append([(part[0], 1.0), *similar])
            part[:] = [one for one in part[1:] if one not in members]
        waiting = [part for part in waiting if len(part) > 1]
    return sorted(groups, key=lambda group: rank[group[0][0]])


def gather(kept: Sequence[int], parts: Sequence[list[int]], found: Comparisons) -> list[set[int]]:
    """The members of the group of each kept sample.

    They are sought among the near-duplicates of it, then among those of its members, and so on.
    """
    members: list[set[int]] = [set() for _ in kept]
    free = [set(part[1:]) for part in parts]
    fresh = [{one} for one in kept]
    while any(fresh):
        asked: list[set[int]] = []
        for number, samples in enumerate(fresh):
            near = set().union(*(found.near[one] for one in samples)) & free[number]
            free[number] -= near
            asked.append(near)
        found.add(ordered(one, other) for one, near in zip(kept, asked, strict=True) for other in sorted(near))
        fresh = [{x for x in near if found.may_replace(one, x)} for one, near in zip(kept, asked, strict=True)]
        for group, more in zip(members, fresh, strict=True):
            group |= more
    return members


def ordered(one: int, other: int) -> Pair:
    return (one, other) if one < other else (other, one)


def parts_of(near: dict[int, set[int]]) -> list[set[int]]:
    """Samples that are connected by near-duplicates."""
    parts, seen = [], set[int]()
    for sample in near:
        if sample in seen:
            continue
        part, fresh = {sample}, {sample}
        while fresh:
            fresh = set().union(*(near[one] for one in fresh)) - part
            part |= fresh
        parts.append(part)
        seen |= part
    return parts
