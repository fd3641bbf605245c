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
from mccgr_cli.fields import IMAGES, settings_of
from mccgr_cli.images.settings import ModelSettings
from mccgr_cli.texts.settings import TextInput

if TYPE_CHECKING:
    from mccgr_cli.cli.job import Job
    from mccgr_cli.files.container import Contents
    from mccgr_cli.files.readers import Loaded

FORMATS = ("csv", "json", "h5")
ABOUT_TEXTS = tuple(name for name in settings_of(TextInput) if name != "kind")
DESCRIBING = ("jobs", "network_file", *settings_of(ImageInput), *ABOUT_TEXTS)
FOR_MATRICES = ("transpose", "label_key", "header", "memory")
RESULT: dict[str, dict[str, Any]] = {
    "path": {
        "help": "Output file. The suffix decides the format: .csv, .json, or .h5 for other commands of mccgr. - is "
        "standard output.",
        "default_text": "standard output",
    },
}
DESCRIBED: dict[str, dict[str, Any]] = {
    "codebook": {
        "help": "Matrix from 'mccgr extract' that says how images or texts are described.",
        "default_text": "the matrix that CLUSTERS was made from",
    },
}
NETWORK: dict[str, dict[str, Any]] = {
    "model": {
        "help": "ONNX file of the network that described the old images, if it was moved.",
        "default_text": "the file that 'mccgr extract' was given",
        "metavar": "FILE",
        "group": IMAGES,
        "flags": ("--model",),
        "type": types.FILE,
    },
}


@options.command
@click.argument("model", metavar="CLUSTERS", type=types.INPUT)
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
@options.gathered("images", ImageInput, arguments=("source",), changed=DESCRIBED)
@options.gathered("network", ModelSettings, only=("model",), renamed={"model": "network_file"}, changed=NETWORK)
@options.gathered("texts", TextInput, only=ABOUT_TEXTS)
@options.resources("jobs", "memory")
def command(
    model: str,
    matrix: MatrixInput,
    images: ImageInput,
    network: ModelSettings,
    texts: TextInput,
    form: str | None,
    resources: Resources,
    output: Output,
) -> None:
    """Find the clusters of new samples.

    CLUSTERS is a folder from run, or a file from cluster. NEW is a matrix with the same features, in any format that
    factorize reads. If CLUSTERS was made from images or texts, NEW may also be a folder, or a single image or text.
    They are described by the same visual words, network or words. Texts may also be in a .jsonl file, or with
    --text-field in a .csv file. If both matrices name their features, features are matched by name.

    A new sample gets the cluster of the most similar old samples: the 5 nearest vote, and near ones count more.
    Silenced features do not count. Samples that CLUSTERS was made from keep their clusters. For each sample, the table
    has the cluster and its certainty, which is the share of the votes (0 to 1), and an outlier score: about 1 if the
    sample is as near to the old samples as they are to each other, larger if it is unlike all of them. If the old
    samples had labels, it also has the class that evaluate matches with the cluster.

    \b
    Examples:
      mccgr predict out new_images/
      mccgr predict out new_texts/ -o new.csv
      mccgr predict out new.h5 -o new.csv
      mccgr predict X.factors.clusters.h5 new.h5 -o new.clusters.h5
      mccgr predict out new_images/ --format h5 | mccgr evaluate
    """
    from mccgr_cli.cli.job import Job
    from mccgr_cli.files.readers import clusters_file
    from mccgr_cli.workflow import prediction, stages
    from mccgr_cli.workflow.placement import place

    form = options.choose_format(output.path, form, FORMATS)
    new = is_to_be_described(matrix.source, texts)
    what = f"{matrix.source} is {'not a matrix' if new else 'a matrix'}"
    options.refuse_given(FOR_MATRICES if new else DESCRIBING, what, "leave it out")
    parameters = options.parameters(matrix, images, texts, model=model, form=form)
    output = replace(output, path="-" if output.path is None else output.path)
    with Job("predict", output, parameters, resources=resources, readable=form != "h5") as job:
        learnt = job.load(clusters_file(model), ("clusters",))
        prediction.landmarks_of(learnt)  # before images are described, which may take long
        if new:
            samples = described(job, images, texts, network.model, learnt, clusters_file(model))
        else:
            samples = job.load_matrix(matrix)
        normalization, idf = stages.rows_like(learnt, samples, samples.contents["X"].shape[1])
        X = place(samples, job.room(None, None), normalization, idf=idf)
        job.note_if_on_disk(X)
        contents = prediction.predict(learnt, samples, X)
        job.reporter.note(describe(contents))
        if form == "h5":
            job.write(contents)
        else:
            job.write_bytes(as_text(contents, samples.name, form, job))


def is_to_be_described(source: str, texts: TextInput) -> bool:
    """Whether NEW is a folder, an image or texts, and not a matrix."""
    from mccgr_cli.files.readers import input_errors
    from mccgr_cli.images.find import SUFFIXES
    from mccgr_cli.workflow.texts import holds_texts

    with input_errors(source):
        return Path(source).is_dir() or source.lower().endswith(SUFFIXES) or holds_texts(source, texts)


def described(
    job: Job, images: ImageInput, texts: TextInput, network: str | None, learnt: Loaded, clusters: str
) -> Loaded:
    """The matrix of new images or texts, described as those that the clusters were made from."""
    from mccgr_cli.cli.describing import describe_like, described_matrix
    from mccgr_cli.workflow.description import read_describer
    from mccgr_cli.workflow.texts import is_word_counts, read_vocabulary

    matrix = described_matrix(job, images.codebook, learnt, clusters)
    if is_word_counts(matrix):
        from mccgr_cli.cli.counting import count_like

        options.refuse_given(("network_file", "max_pixels", "jobs"), f"{learnt.name} is about texts", "leave it out")
        return count_like(job, images, texts, read_vocabulary(matrix))
    options.refuse_given(ABOUT_TEXTS, f"{learnt.name} is about images", "leave it out")
    return describe_like(job, images, read_describer(matrix, network))


def describe(contents: Contents) -> str:
    from mccgr_cli.cli import cluster

    return f"{cluster.sizes(contents['assignments'])}, mean certainty {contents['certainty'].mean():.2f}"


def as_text(contents: Contents, where: str, form: str, job: Job) -> bytes:
    """The table of ``mccgr export``, or the same as a JSON list with one object per sample."""
    from mccgr_cli.output.export import Export, render
    from mccgr_cli.output.export.text import assignments

    export = Export(contents, where, job.reporter.note)
    if form == "csv":
        return render(export, "assignments", "csv")
    header, *rows = assignments(export)
    return (json.dumps([dict(zip(header, row, strict=True)) for row in rows]) + "\n").encode()
