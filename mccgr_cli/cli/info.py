"""``mccgr info``"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from mccgr_cli.catalog import OUTLIER, RANK_CRITERIA, SILENCED
from mccgr_cli.cli import options
from mccgr_cli.cli.options import MatrixInput

MOST_NAMES = 10  # features or images that are listed
MOST_OUTLIERS = 3  # samples that are listed
LONGEST_NAME = 100

if TYPE_CHECKING:
    from mccgr_cli.blocks.protocol import Partial
    from mccgr_cli.files.container import Contents


@options.command
@options.matrix("FILE")
@options.output_format("table", "json")
def command(matrix: MatrixInput, style: str) -> None:
    """Show what a file contains and how it was made.

    Prints the shapes of its datasets, facts that can show a problem (such as empty samples), its parameters, and every
    command that led to it. FILE is any file that mccgr reads or writes; without it, standard input is
    read.

    \b
    Examples:
      mccgr info X.h5
      mccgr info X.factors.h5 --format json
    """
    from mccgr_cli.cli.job import show
    from mccgr_cli.cli.progress import say
    from mccgr_cli.cli.tables import shape_of
    from mccgr_cli.files.container import SCHEMA
    from mccgr_cli.files.readers import load

    kinds = tuple(SCHEMA)
    loaded = load(
        matrix.source, kinds=kinds, transpose=matrix.transpose, label_key=matrix.label_key, header=matrix.header
    )
    for note in loaded.notes:
        say(note)
    contents = loaded.contents
    facts = {
        "file": loaded.name,
        "kind": contents.kind,
        "sha256": loaded.sha256,
        "datasets": {name: shape_of(value) for name, value in contents.datasets.items()},
        "attributes": contents.attributes,
        "health": health(contents),
        "provenance": contents.provenance,
    }
    show(as_json(facts) if style == "json" else as_text(facts))


def health(contents: Contents) -> dict[str, Any]:
    """Facts to check before you use a file."""
    import numpy as np

    from mccgr_cli.core.graph import graph_health
    from mccgr_cli.texts.settings import COUNTS_OF, WORDS
    from mccgr_cli.workflow.checkpoints import position

    facts: dict[str, Any] = {}
    if "X" in contents:
        samples, features, largest = count_nonzero(contents["X"].stream())
        facts["share of zeros"] = round(1 - float(samples.sum()) / (len(samples) * len(features)), 4)
        facts["empty samples"] = int(np.count_nonzero(samples == 0))
        facts["empty features"] = int(np.count_nonzero(features == 0))
        facts["largest value"] = float(largest.max())
    if "skipped/names" in contents:
        noun = "texts" if contents.attributes.get(COUNTS_OF) == WORDS else "images"
        facts[f"skipped {noun}"] = len(contents["skipped/names"])
        shown = map(": ".join, zip(contents["skipped/names"], contents["skipped/reasons"], strict=True))
        facts["skipped"] = first_few(list(shown), "; ")
    if "A" in contents:
        facts["graph"] = str(graph_health(contents["A"]))
    if "W" in contents:
        facts["unused components"] = int(np.count_nonzero(contents["W"].max(axis=0) == 0))
        facts["samples without coefficients"] = int(np.count_nonzero(contents["W"].max(axis=1) == 0))
    if contents.kind == "checkpoint":
        facts["state"] = position(contents)
    if "history/objective" in contents:
        facts["iterations done"] = len(contents["history/objective"]) - 1
        facts["objective"] = float(contents["history/objective"][-1])
    if "rho" in contents:
        silenced = np.flatnonzero(contents["rho"] < SILENCED)
        facts["silenced features"] = len(silenced)
        if len(silenced) and "feature_names" in contents:
            facts["silenced"] = first_few([contents["feature_names"][j] for j in silenced])
    if "assignments" in contents:
        facts["clusters"] = len(np.unique(contents["assignments"]))
    if "outlier" in contents:
        facts |= outliers(contents)
    if contents.kind == "ranks":
        facts |= {f"k = {k}": criteria for k, criteria in ranked(contents)}
    if "labels" in contents:
        facts["classes"] = len(np.unique(contents["labels"]))
    return facts


def outliers(contents: Contents) -> dict[str, Any]:
    """The number of samples that are much more isolated than their neighbours, and the most isolated samples."""
    import numpy as np

    from mccgr_cli.output.text import name_of, plural

    scores = contents["outlier"]
    most = np.argsort(-scores, kind="stable")[:MOST_OUTLIERS]
    named = [f"{name_of(contents, 'sample', int(sample), LONGEST_NAME)} ({scores[sample]:.2f})" for sample in most]
    count = plural(int(np.count_nonzero(scores >= OUTLIER)), "sample")
    return {"outliers": f"{count} with a score of {OUTLIER} or more", "least typical": ", ".join(named)}


def ranked(contents: Contents) -> Iterator[tuple[int, str]]:
    """The criteria of every number of components."""
    names = {criterion.name: criterion.heading for criterion in RANK_CRITERIA}
    for row, k in enumerate(contents["k"].tolist()):
        values = ((shown, float(contents[name][row])) for name, shown in names.items())
        known = ", ".join(f"{shown} {value:.3f}" for shown, value in values if value == value)
        marked = " (recommended)" if k == contents.attributes.get("recommended") else ""
        yield k, f"{known or 'unknown'}{marked}"


def count_nonzero(X: Any) -> tuple[Any, Any, Any]:
    """Number of non-zero values of every sample (n,) and feature (d,), and the largest value of every sample (n,)."""
    import numpy as np

    from mccgr_cli.blocks.from_file import blocks_of
    from mccgr_cli.blocks.protocol import sum_over_blocks

    samples, largest = np.empty(X.shape[0], dtype=int), np.empty(X.shape[0])
    (features,) = sum_over_blocks(blocks_of(X), block_nonzero, into=(samples, largest))
    return samples, features, largest


def block_nonzero(X_b: Any) -> Partial:
    from mccgr_cli.blocks.protocol import Partial

    there = X_b > 0
    largest = X_b.max(axis=1)
    largest = largest.toarray() if hasattr(largest, "toarray") else largest
    return Partial((there.sum(axis=0),), (there.sum(axis=1), largest.ravel()))


def first_few(names: list[str], between: str = ", ") -> str:
    return between.join(names[:MOST_NAMES]) + (f"{between}..." if len(names) > MOST_NAMES else "")


def as_json(facts: dict[str, Any]) -> str:
    """JSON has no NaN, and attributes that other programs wrote may have any type."""
    return json.dumps(json.loads(json.dumps(facts, default=str), parse_constant=lambda _: None), allow_nan=False)


def as_text(facts: dict[str, Any]) -> str:
    from mccgr_cli.cli.tables import pairs

    parts = [pairs([(name, facts[name]) for name in ("file", "kind", "sha256")])]
    for section in ("datasets", "health", "attributes"):
        if facts[section]:
            parts.append(f"{section}\n{pairs(facts[section].items())}")
    steps = list(history(facts["provenance"]))
    if steps:
        parts.append("history\n" + pairs(steps))
    return "\n\n".join(parts)


def history(provenance: Any) -> Iterator[tuple[str, str]]:
    """Time and command line of every step that led to the file, oldest first."""
    if not isinstance(provenance, dict):
        return
    inputs = provenance.get("inputs")
    for one in inputs if isinstance(inputs, list) else []:
        if isinstance(one, dict):
            yield from history(one.get("provenance"))
    if "command_line" in provenance:
        yield str(provenance.get("time")), str(provenance["command_line"])
