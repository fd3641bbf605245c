"""The section on duplicates: groups of samples that are alike, the one to keep first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from mccgr_cli.output.report.clusters import Findings

MOST_GROUPS = 200
MOST_OF_A_GROUP = 24


@dataclass(frozen=True)
class DuplicateGroup:
    samples: tuple[int, ...]  # their numbers, the one to keep first
    similarity: float  # the smallest similarity of a sample to the first one
    exact: bool  # all are byte-for-byte copies


def duplicates_section(findings: Findings, groups: Sequence[DuplicateGroup]) -> dict[str, Any]:
    """What the page shows of each group: its first samples, and the number of clusters in which they are."""
    return {
        "groups": [group_row(findings, group) for group in groups[:MOST_GROUPS]],
        "all": len(groups),
        "surplus": sum(len(group.samples) - 1 for group in groups),  # samples that are not the one to keep
    }


def group_row(findings: Findings, group: DuplicateGroup) -> dict[str, Any]:
    samples = group.samples
    items = [
        {
            "place": int(findings.places[sample]),  # -1 if it is not on the page
            "name": findings.name(sample),
            "cluster": findings.clusters[findings.cluster_places[sample]],
        }
        for sample in samples[:MOST_OF_A_GROUP]
    ]
    return {
        "items": items,
        "more": len(samples) - len(items),
        "size": len(samples),
        "similarity": group.similarity,
        "exact": group.exact,
        "clusters": len({int(findings.cluster_places[sample]) for sample in samples}),
    }
