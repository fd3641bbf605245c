"""``mccgr similar``"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mccgr_cli.cli import options, types
from mccgr_cli.cli.duplicates import Finding, check_choice, has_images
from mccgr_cli.cli.extract import ImageInput
from mccgr_cli.cli.options import MatrixInput, Output, Resources
from mccgr_cli.errors import DataError, ParameterError
from mccgr_cli.fields import basic_option, image_option, whole

if TYPE_CHECKING:
    from mccgr_cli.blocks.protocol import Matrix
    from mccgr_cli.cli.job import Job
    from mccgr_cli.core.similarity import Neighbours
    from mccgr_cli.files.readers import Loaded

COLUMNS = ("query", "rank", "sample", "similarity", "near_duplicate")
PRINTED: dict[str, dict[str, Any]] = {
    "path": {"help": "Write the result to a file.", "default_text": "standard output"},
}
MOST_NAMES = 3  # samples that a message names


@dataclass(frozen=True)
class Asked:
    """What is asked for."""

    most: int = basic_option(10, "Number of similar samples to list, for each.", values=whole(1, 10_000))
    images: str | None = field(default=None, metadata=Finding.__dataclass_fields__["images"].metadata)
    features_only: bool = field(default=False, metadata=Finding.__dataclass_fields__["features_only"].metadata)
    model: str | None = image_option(
        None,
        "ONNX file of the network that described the images, if it was moved.",
        type=types.FILE,
        default_text="the file that 'mccgr extract' was given",
    )
    max_pixels: int = field(default=100_000_000, metadata=ImageInput.__dataclass_fields__["max_pixels"].metadata)


@dataclass(frozen=True)
class Queries:
    """The samples that were asked for: their names, their rows, and their numbers if they are in the matrix."""

    names: list[str]
    rows: Matrix
    own: list[int | None]


@options.command
@options.matrix("MATRIX")
@click.argument("wanted", metavar="[IMAGE]...", nargs=-1, type=types.FILE)
@options.gathered("asked", Asked)
@options.output_format("table", "csv", "json")
@options.gathered("output", Output, changed=PRINTED)
@options.resources("jobs", "memory")
def command(
    matrix: MatrixInput, wanted: tuple[str, ...], asked: Asked, style: str, resources: Resources, output: Output
) -> None:
    """List the samples that are most similar to some images or samples.

    MATRIX is a file from extract, or any matrix. IMAGE is the name of a sample in MATRIX, the end of its name (1.jpg
    for cats/1.jpg), a part of it that no other name has, or a new image file, which is described as the images of
    MATRIX were. Without IMAGE, the most similar samples of every sample are listed.

    The similarity is from 0 to 1: the cosine between the square roots of the features. It is 1 if two samples have the
    same features. Use it to compare: what 0.9 means depends on the features.

    The 50 most similar images are also compared with IMAGE pixel by pixel, as duplicates does. Near-duplicates come
    first and are marked; below them, the most similar samples follow. If the images are not there, with
    --features-only, or without IMAGE, only features are compared.

    \b
    Examples:
      mccgr similar X.h5 cats/1.jpg
      mccgr similar X.h5 new/holiday.jpg --most 3 --format csv
      mccgr similar out/matrix.h5 --most 1 --format csv -o nearest.csv
    """
    from mccgr_cli.blocks.from_file import blocks_of
    from mccgr_cli.cli.job import Job
    from mccgr_cli.core import similarity
    from mccgr_cli.workflow.placement import place

    check_choice(asked.images, asked.features_only)
    if asked.images is not None and not wanted:
        raise ParameterError(
            "--images", "without IMAGE, only features are compared", "name an IMAGE, or see duplicates"
        )
    output = replace(output, path="-" if output.path is None else output.path)
    parameters = options.parameters(matrix, asked, wanted=list(wanted), format=style)
    with Job("similar", output, parameters, resources=resources, readable=True) as job:
        loaded = job.load_matrix(matrix)
        X = place(loaded, job.room(None, None), similarity.NORMALIZATION)
        job.note_if_on_disk(X)
        source = blocks_of(X)
        names = sample_names(loaded, source.shape[0])
        if wanted:
            queries = find_queries(job, loaded, source, names, wanted, asked)
            found, copies = find_similar(job, loaded, source, queries, asked)
            rows = as_rows(found, copies, queries.names, names)
        else:
            found = similarity.most_similar_of_all(source, asked.most)
            rows = as_rows(found, [None] * len(found.samples), names, names)
        job.write_bytes((FORMATS[style](rows) + "\n").encode("utf-8", "backslashreplace"))


def find_similar(
    job: Job, matrix: Loaded, source: Any, queries: Queries, asked: Asked
) -> tuple[Neighbours, list[bool | None]]:
    """The most similar samples of each query, near-duplicates first; and which of them are near-duplicates."""
    from mccgr_cli.core.similarity import most_similar
    from mccgr_cli.workflow.near_duplicates import Pixels, find_images
    from mccgr_cli.workflow.similar_images import COMPARED, copies_first, find_copies

    most = asked.most if asked.features_only else max(asked.most, COMPARED)
    found = most_similar(source, queries.rows, most, queries.own)
    copies: list[bool | None] = [None] * len(found.samples)
    numbers = [source.shape[0] + i if number is None else number for i, number in enumerate(queries.own)]
    old = sorted({*found.neighbours.tolist(), *(number for number in queries.own if number is not None)})
    has_names = "sample_names" in matrix.contents.datasets  # otherwise these are no images
    located = [] if asked.features_only else find_images(matrix, asked.images, old)
    if has_names and not asked.features_only and has_images(job, located):
        paths = dict(zip(numbers, queries.names, strict=True)) | dict(zip(old, located, strict=True))
        with job.workers(len(paths)) as workers, job.reporter.counting("images") as on_progress:
            copies = find_copies(found, numbers, Pixels(paths, workers, asked.max_pixels, on_progress))
    return copies_first(found, copies, asked.most)


def sample_names(matrix: Loaded, count: int) -> list[str]:
    names = matrix.contents.datasets.get("sample_names")
    return [str(number) for number in range(count)] if names is None else list(names)


def find_queries(
    job: Job, matrix: Loaded, source: Any, names: Sequence[str], images: Sequence[str], asked: Asked
) -> Queries:
    """The rows of the named samples and of new images, in the order in which they were named."""
    import numpy as np
    from scipy import sparse

    from mccgr_cli.blocks.rows import take_rows

    known = [number_of(one, names, matrix.name) for one in images]
    new = [one for one, number in zip(images, known, strict=True) if number is None]
    old = [number for number in known if number is not None]
    numbers, places = np.unique(np.array(old, dtype=int), return_inverse=True)
    parts: list[Any] = [take_rows(source, numbers)[places]] if old else []
    if new:
        parts.append(describe_new(job, matrix, new, asked))
    together = sparse.vstack(parts).tocsr() if any(map(sparse.issparse, parts)) else np.concatenate(parts)
    order = np.argsort(np.argsort([number is None for number in known], kind="stable"), kind="stable")
    return Queries(
        [one if n is None else names[n] for one, n in zip(images, known, strict=True)], together[order], known
    )


def number_of(asked: str, names: Sequence[str], where: str) -> int | None:
    """The number of a sample; None for a new image file."""
    ends = (
        [i for i, name in enumerate(names) if name == asked],
        [i for i, name in enumerate(names) if name.endswith(f"/{asked}") or asked.endswith(f"/{name}")],
    )
    for found in ends:
        if len(found) == 1:
            return found[0]
    try:
        if not any(ends) and Path(asked).is_file():
            return None
    except (OSError, ValueError):
        pass
    parts = ends[1] or [i for i, name in enumerate(names) if asked in name]
    if len(parts) == 1:
        return parts[0]
    if not parts:
        raise DataError(where, f"no sample is called {asked}, and there is no such file", "check the name")
    some = ", ".join(names[i] for i in parts[:MOST_NAMES])
    raise ParameterError("IMAGE", f"{asked} may be {len(parts)} samples: {some}, ...", "give more of the name")


def describe_new(job: Job, matrix: Loaded, paths: Sequence[str], asked: Asked) -> Any:
    """The rows of new images, described as those of the matrix and normalized in the same way."""
    from mccgr_cli.blocks.rows import normalize
    from mccgr_cli.cli.describing import describe
    from mccgr_cli.core.similarity import NORMALIZATION
    from mccgr_cli.files.folders import SampleFile, name_as_text
    from mccgr_cli.images.find import Collection
    from mccgr_cli.images.settings import Description, Learning
    from mccgr_cli.workflow.description import read_describer

    known = read_describer(matrix, asked.model)
    collection = Collection([SampleFile(path, name_as_text(path)) for path in paths])
    chosen = ImageInput(paths[0], strict=True, max_pixels=asked.max_pixels)
    (contents,), _ = describe(job, chosen, collection, known, Learning(), Description())
    return normalize(contents["X"].astype("float64"), NORMALIZATION)


def as_rows(
    found: Neighbours, copies: Sequence[bool | None], queries: Sequence[str], names: Sequence[str]
) -> list[list[Any]]:
    """A row for each similar sample of each query; the last cell is None if pixels were not compared."""
    rows, rank, last = [], 0, -1
    pairs = zip(found.samples.tolist(), found.neighbours.tolist(), found.similarities.tolist(), copies, strict=True)
    for query, sample, value, copy in pairs:
        rank = rank + 1 if query == last else 1
        last = query
        rows.append([queries[query], rank, names[sample], round(value, 4), None if copy is None else int(copy)])
    return rows


def as_csv(rows: Sequence[Sequence[Any]]) -> str:
    from mccgr_cli.cli.tables import csv_text

    return csv_text(COLUMNS, (["" if cell is None else cell for cell in row] for row in rows))


def as_json(rows: Sequence[Sequence[Any]]) -> str:
    return json.dumps([dict(zip(COLUMNS, row, strict=True)) for row in rows])


def as_table(rows: Sequence[Sequence[Any]]) -> str:
    from mccgr_cli.cli.tables import aligned

    if not rows:
        return "no similar samples"
    lines: list[list[str]] = []
    for query, rank, sample, value, copy in rows:
        if rank == 1:
            lines.append([query, "", ""])
        lines.append([f"  {sample}", f"{value:.3f}", "near-duplicate" if copy else ""])
    return aligned(lines)


FORMATS = {"table": as_table, "csv": as_csv, "json": as_json}
