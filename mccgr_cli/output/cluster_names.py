"""What clusters and classes are called and look like: the same in figures, on the page and in tables."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import count

import numpy as np

from mccgr_cli.blocks.protocol import Array
from mccgr_cli.core.metrics import Scores, evaluate
from mccgr_cli.files.container import Contents


@dataclass(frozen=True)
class NamedCluster:
    number: int  # as in the file
    look: int  # decides on its colour and marker: its place among the numbers, whether there are classes or not
    matched: str | None  # class
    classes: list[tuple[str, int]]  # of its samples, with their counts, the most frequent first

    @property
    def mostly(self) -> str | None:
        """The most frequent class of its samples; the matched class if no other is more frequent."""
        most_frequent = [name for name, count in self.classes if count == self.classes[0][1]]
        return self.matched if self.matched in most_frequent else next(iter(most_frequent), None)

    @property
    def name(self) -> str | None:
        """The class that it is matched with, if no other is more frequent: its name in tables and on folders."""
        return self.matched if self.matched == self.mostly else None

    @property
    def class_text(self) -> str | None:
        """Its most frequent class, and whether it is matched with this class."""
        return self.mostly if self.mostly is None or self.mostly == self.matched else f"mostly {self.mostly}"

    @property
    def title(self) -> str:
        """Its number, with its class if that is known."""
        return str(self.number) if self.class_text is None else f"{self.number} ({self.class_text})"


def own_scores(contents: Contents) -> Scores | None:
    """The clusters of a file compared with the labels in it; None if it has none."""
    labels = contents.labels_as_text()
    return None if labels is None else evaluate(labels, contents["assignments"], contents.correspondence())


def named_clusters(assignments: Array, scores: Scores | None) -> list[NamedCluster]:
    """All clusters by their numbers; ``scores`` compare them with classes."""
    known: dict[int, tuple[str | None, list[tuple[str, int]]]] = {}
    if scores is not None:
        for column, number in enumerate(scores.clusters):
            matched = scores.matches[column] if column < len(scores.matches) else None
            classes = [
                pair for pair in zip(scores.classes, scores.confusion[:, column].tolist(), strict=True) if pair[1]
            ]
            known[number] = matched, sorted(classes, key=lambda pair: -pair[1])
    numbers = np.unique(assignments).tolist()
    return [NamedCluster(number, look, *known.get(number, (None, []))) for look, number in enumerate(numbers)]


def class_looks(scores: Scores) -> dict[str, int]:
    """The look of each class: that of the cluster that it is matched with, or one that no cluster has."""
    looks = {cluster: look for look, cluster in enumerate(sorted(scores.clusters))}
    found = {name: looks[cluster] for cluster, name in zip(scores.clusters, scores.matches, strict=False)}
    unmatched = count(len(looks))
    return {name: found[name] if name in found else next(unmatched) for name in scores.classes}
