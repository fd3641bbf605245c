"""``mccgr predict``"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mccgr_cli.cli import options, types
from mccgr_cli.cli.extract import ImageInput
from mccgr_cli.cli.help import GroupedOption
from mccgr_cli.cli.options import MatrixInput, Output, Resources
from mccgr_cli.errors import DataError, ParameterError
from mccgr_cli.fields import settings_of

if TYPE_CHECKING:
    from mccgr_cli.cli.job import Job
    from mccgr_cli.files.container import Contents
    from mccgr_cli.files.readers import Loaded
    from mccgr_cli.images.codebook import Codebook

FORMATS = ("csv", "json", "h5")
FOR_IMAGES = ("jobs", *settings_of(ImageInput))
FOR_MATRICES = ("transpose", "label_key", "memory")
RESULT: dict[str, dict[str, Any]] = {
    "path": {
        "help": "Output file. The suffix decides the format: .csv, .json, or .h5 for other commands of mccgr. - is "
        "standard output.",
        "default_text": "standard output",
    },
}
WORDS: dict[str, dict[str, Any]] = {
    "codebook": {
        "help": "Matrix from 'mccgr extract' whose visual words describe the new images.",
        "default_text": "the matrix that MODEL was made from",
    },
}


@options.command
@click.argument("model", metavar="MODEL", type=types.FILE)
@options.gathered("output", Output, changed=RESULT)
@options.matrix("NEW")
@click.option(
    "--format",
    "form",
    cls=GroupedOption,
    type=click.Choice(FORMATS),
    default_text="the suffix of the output, or csv",
    help="Format of the output.",
)
@options.gathered("images", ImageInput, arguments=("source",), changed=WORDS)
@options.resources("jobs", "memory")
def command(
    model: str, matrix: MatrixInput, images: ImageInput, form: str | None, resources: Resources, output: Output
) -> None:
    """Find the clusters of new samples.

    MODEL is a folder from run, or a file from cluster. NEW is a matrix with the same features, in any format that
    factorize reads. If MODEL was made from images, NEW may also be a folder of images, or one image; they are described
    by the same visual words. If both matrices name their features, features are matched by name.

    A new sample gets the cluster of the most similar old samples: the 5 nearest vote, and near ones count more.
    Silenced features do not count. Samples that MODEL was made from keep their clusters. For each sample, the table has
    the cluster and its certainty, which is the share of the votes (0 to 1), and an outlier score: about 1 if the sample
    is as near to the old samples as they are to each other, larger if it is unlike all of them. If the old samples had
    labels, it also has the class that evaluate matches with the cluster.

    \b
    Examples:
      mccgr predict out new_images/
      mccgr predict out new.h5 -o new.csv
      mccgr predict X.factors.clusters.h5 new.h5 -o new.clusters.h5
      mccgr predict out new_images/ --format h5 -o - | mccgr evaluate -
    """
    from mccgr_cli.cli.job import Job
    from mccgr_cli.workflow import prediction, stages
    from mccgr_cli.workflow.placement import place

    form = options.choose_format(output.path, form, FORMATS)
    new = are_images(matrix.source)
    what = f"{matrix.source} is {'not a matrix' if new else 'a matrix'}"
    options.refuse_given(FOR_MATRICES if new else FOR_IMAGES, what, "leave it out")
    if [model, matrix.source].count("-") > 1:
        raise ParameterError("NEW", "standard input can be read only once", "name files")
    parameters = options.parameters(matrix, images, model=model, form=form)
    output = replace(output, path="-" if output.path is None else output.path)
    with Job("predict", output, parameters, resources=resources, readable=form != "h5") as job:
        learnt = job.load(clusters_file(model), ("clusters",))
        prediction.landmarks_of(learnt)  # before images are described, which may take long
        samples = describe_images(job, images, learnt, model) if new else job.load_matrix(matrix)
        X = place(samples, job.room(None, None), stages.learnt_with(learnt)[1])
        job.note_if_on_disk(X)
        contents = prediction.predict(learnt, samples, X)
        job.reporter.note(describe(contents))
        if form == "h5":
            job.write(contents)
        else:
            job.write_bytes(as_text(contents, samples.name, form, job))


def are_images(source: str) -> bool:
    """Whether NEW is a folder or an image, and not a matrix."""
    from mccgr_cli.files.readers import input_errors
    from mccgr_cli.images.find import SUFFIXES

    with input_errors(source):
        return Path(source).is_dir() or source.lower().endswith(SUFFIXES)


def clusters_file(model: str) -> str:
    """The clusters file that MODEL names."""
    from mccgr_cli.files.readers import input_errors, require_name

    require_name(model)
    with input_errors(model):
        if not Path(model).is_dir():
            return model
        inside = Path(model) / "clusters.h5"
        if not inside.exists():
            raise DataError(
                model, "no clusters.h5 in this folder", "name a folder from 'mccgr run', or a clusters file"
            )
    return str(inside)


def describe_images(job: Job, chosen: ImageInput, learnt: Loaded, model: str) -> Loaded:
    """The matrix of new images, described by the words of the old ones."""
    from mccgr_cli.cli.extract import find_images, note_images
    from mccgr_cli.files.provenance import Input
    from mccgr_cli.files.readers import Loaded
    from mccgr_cli.files.readers.checks import finish_matrix
    from mccgr_cli.images.extract import count_words
    from mccgr_cli.workflow import stages

    book = load_codebook(job, chosen.codebook, learnt, model)
    collection = find_images(job, chosen)
    images, limits = collection.images, (chosen.max_pixels, chosen.strict)
    job.refuse_overwriting(image.path for image in images)
    with job.workers(len(images)) as workers, job.reporter.counting("images") as on_progress:
        counts = count_words(images, [book], workers, *limits, on_progress)
    note_images(job, collection, counts, [book])
    job.inputs.append(Input(chosen.source, counts.sha256))
    skipped = [*collection.skipped, *counts.skipped]
    contents = stages.words_contents(counts, counts.X[0], book, None, skipped)
    finished = finish_matrix(contents.datasets, False, chosen.source)
    return Loaded(replace(contents, datasets=finished), chosen.source, counts.sha256)


def load_codebook(job: Job, given: str | None, learnt: Loaded, model: str) -> Codebook:
    from mccgr_cli.files.provenance import Input
    from mccgr_cli.files.readers import split_inner
    from mccgr_cli.workflow import stages
    from mccgr_cli.workflow.prediction import find_codebook

    if given is not None:
        return stages.read_codebook(job.load(given, ("matrix",)))
    words, book = find_codebook(learnt, Path(split_inner(clusters_file(model))[0]).parent)
    job.refuse_overwriting([words.name])
    job.inputs.append(Input(words.name, words.sha256, words.contents.provenance))
    return book


def describe(contents: Contents) -> str:
    from mccgr_cli.cli import cluster

    return f"{cluster.describe(contents['assignments'])}, mean certainty {contents['certainty'].mean():.2f}"


def as_text(contents: Contents, where: str, form: str, job: Job) -> bytes:
    """The table of ``mccgr export``, or the same as a JSON list with one object per sample."""
    from mccgr_cli.output.export import Export, render
    from mccgr_cli.output.export.text import assignments

    export = Export(contents, where, job.reporter.note)
    if form == "csv":
        return render(export, "assignments", "csv")
    header, *rows = assignments(export)
    return (json.dumps([dict(zip(header, row, strict=True)) for row in rows]) + "\n").encode()
