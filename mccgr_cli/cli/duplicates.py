"""``mccgr duplicates``"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from mccgr_cli.cli import options, types
from mccgr_cli.cli.extract import ImageInput
from mccgr_cli.cli.options import MatrixInput, Output, Resources
from mccgr_cli.errors import ParameterError
from mccgr_cli.fields import Bounds, basic_option

if TYPE_CHECKING:
    from mccgr_cli.cli.job import Job
    from mccgr_cli.files.readers import Loaded
    from mccgr_cli.workflow.near_duplicates import Group

COLUMNS = ("group", "keep", "sample", "similarity", "exact", "width", "height", "bytes")
PRINTED: dict[str, dict[str, Any]] = {
    "path": {"help": "Write the result to a file.", "default_text": "standard output"},
}


@dataclass(frozen=True)
class Finding:
    """What counts as a near-duplicate, and which of several is kept."""

    similarity: float | None = basic_option(
        None,
        "Smallest similarity of near-duplicates, from 0 to 1.",
        values=Bounds(0, 1),
        default_text="0.5 where pixels are compared, 0.98 where only features are",
    )
    keep: str = basic_option(
        "largest",
        "Which image of a group comes first. largest: the one with the most pixels. sharpest: the one with the "
        "sharpest edges. An image that shows only a part of another one is never kept instead of it.",
        values=("largest", "sharpest"),
    )
    images: str | None = basic_option(
        None,
        "Folder of the images, whose pixels are compared.",
        type=types.FILE,
        metavar="FOLDER",
        default_text="the folder that 'mccgr extract' was given",
    )
    features_only: bool = basic_option(False, "Do not compare pixels, only the features in MATRIX.")
    max_pixels: int = field(default=100_000_000, metadata=ImageInput.__dataclass_fields__["max_pixels"].metadata)


@options.command
@options.gathered("finding", Finding)
@options.output_format("table", "csv", "json")
@options.gathered("output", Output, changed=PRINTED)
@options.matrix("MATRIX")
@options.resources("jobs", "memory")
def command(matrix: MatrixInput, finding: Finding, style: str, resources: Resources, output: Output) -> None:
    """Find near-duplicates: images that were saved again, resized or cropped.

    MATRIX is a file from extract, or any matrix whose sample names are names of images. Each image is compared with the
    10 most similar ones, first by a few local features, then pixel by pixel where both show the same. Each group begins
    with the image to keep. Files with the same bytes are marked as exact copies.

    If the images are not there, or with --features-only, only the features in MATRIX are compared. That finds copies
    with hardly a difference, and nothing cropped.

    \b
    Examples:
      mccgr duplicates X.h5
      mccgr duplicates out/matrix.h5 --keep sharpest --format csv -o duplicates.csv
      mccgr duplicates embeddings.csv --images images/
    """
    from mccgr_cli.blocks.from_file import blocks_of
    from mccgr_cli.cli.job import Job
    from mccgr_cli.core.similarity import NORMALIZATION
    from mccgr_cli.workflow.placement import place

    check_choice(finding.images, finding.features_only)
    output = replace(output, path="-" if output.path is None else output.path)
    parameters = options.parameters(matrix, finding, format=style)
    with Job("duplicates", output, parameters, resources=resources, readable=True) as job:
        loaded = job.load_matrix(matrix)
        X = place(loaded, job.room(None, None), NORMALIZATION)
        job.note_if_on_disk(X)
        groups = find_groups(job, loaded, blocks_of(X), finding)
        job.write_bytes((FORMATS[style](groups, loaded) + "\n").encode("utf-8", "backslashreplace"))
        surplus = sum(len(group.samples) - 1 for group in groups)
        exact = sum(sum(group.exact) - 1 for group in groups)
        found = f"groups of near-duplicates: {len(groups)}"
        job.reporter.note(f"{found}; samples beside those to keep: {surplus}, exact copies among them: {exact}")


def check_choice(images: str | None, features_only: bool) -> None:
    if features_only and images is not None:
        raise ParameterError("--images", "with --features-only, no image is read", "leave one of them out")


def find_groups(job: Job, matrix: Loaded, source: Any, finding: Finding) -> list[Group]:
    """The groups, by pixels where the images are there."""
    from mccgr_cli.workflow.near_duplicates import Pixels, find_images, near_duplicates

    paths = [] if finding.features_only else find_images(matrix, finding.images)
    chosen = (finding.similarity, finding.keep)
    if finding.features_only or not has_images(job, paths):
        return near_duplicates(matrix, source, None, *chosen)
    with job.workers(len(paths)) as workers, job.reporter.counting("images") as on_progress:
        return near_duplicates(matrix, source, Pixels(paths, workers, finding.max_pixels, on_progress), *chosen)


def has_images(job: Job, paths: Sequence[str | None]) -> bool:
    """Whether there are images whose pixels can be compared; says if some are not there."""
    if not any(paths):
        job.reporter.note("the images were not found, so only features are compared; --images names their folder")
        return False
    missing = sum(path is None for path in paths)
    if missing:
        job.reporter.note(f"{missing} of {len(paths)} images are not there, and are not compared")
    job.refuse_overwriting(path for path in paths if path is not None)
    return True


def rows_of(groups: Sequence[Group], matrix: Loaded) -> Iterator[list[Any]]:
    """A row for each sample in a group; facts of images are None if they are unknown."""
    datasets = matrix.contents.datasets
    names = datasets.get("sample_names")
    facts = [datasets.get(f"images/{name}") for name in COLUMNS[-3:]]
    for number, group in enumerate(groups):
        for place, sample in enumerate(group.samples):
            known = [None if values is None else int(values[sample]) for values in facts]
            shared = [round(group.similarities[place], 4), int(group.exact[place] and place > 0)]
            name = names[sample] if names is not None else str(sample)
            yield [number, int(place == 0), name, *shared, *known]


def as_csv(groups: Sequence[Group], matrix: Loaded) -> str:
    from mccgr_cli.cli.tables import csv_text

    return csv_text(COLUMNS, (["" if cell is None else cell for cell in row] for row in rows_of(groups, matrix)))


def as_json(groups: Sequence[Group], matrix: Loaded) -> str:
    found: list[list[dict[str, Any]]] = [[] for _ in groups]
    for number, *row in rows_of(groups, matrix):
        found[number].append(dict(zip(COLUMNS[1:], row, strict=True)))
    return json.dumps(found)


def as_table(groups: Sequence[Group], matrix: Loaded) -> str:
    from mccgr_cli.cli.tables import aligned

    if not groups:
        return "no near-duplicates"
    lines: list[list[str]] = [["sample", "similarity", "", "size"]]
    for _, keep, name, similarity, exact, width, height, _ in rows_of(groups, matrix):
        size = "" if width is None else f"{width} x {height}"
        lines.append(
            [name if keep else f"  {name}", f"{similarity:.3f}", "keep" if keep else "exact" if exact else "", size]
        )
    return aligned(lines)


FORMATS = {"table": as_table, "csv": as_csv, "json": as_json}
