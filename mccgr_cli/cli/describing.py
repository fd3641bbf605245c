"""What commands that describe images share: find the images, describe them, say what was skipped."""

from __future__ import annotations

import os
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from mccgr_cli.errors import DataError
from mccgr_cli.files.container import Contents
from mccgr_cli.files.folders import SampleFile, count_of, describe_ignored, name_as_text
from mccgr_cli.files.provenance import Input
from mccgr_cli.files.readers import Loaded, input_errors, require_name, split_inner
from mccgr_cli.files.readers.checks import finish_matrix
from mccgr_cli.images.codebook import Codebook, describe_word_use
from mccgr_cli.images.extract import (
    Described,
    count_words,
    learn_codebooks,
    run_network,
    try_network,
    unusable_image,
)
from mccgr_cli.images.find import Collection, images_in_folder, images_on_list, unreadable_files
from mccgr_cli.images.network.describe import Network
from mccgr_cli.images.settings import Description, Learning
from mccgr_cli.texts.find import SUFFIXES
from mccgr_cli.workflow.description import (
    Describer,
    find_described,
    network_contents,
    words_contents,
)

if TYPE_CHECKING:
    from mccgr_cli.cli.extract import ImageInput
    from mccgr_cli.cli.job import Job


def find_images(job: Job, chosen: ImageInput) -> Collection:
    source, labelled = chosen.source, not chosen.no_labels
    require_name(source)
    with input_errors(source):
        is_one_image = source != "-" and Path(source).is_file()
    if source == "-":
        if sys.stdin is None:
            raise DataError("standard input", "closed", "pipe a list in, or name a folder")
        collection = images_on_list(sys.stdin.buffer.read(), labelled)
    elif is_one_image:
        collection = Collection([SampleFile(source, name_as_text(source))])
    else:
        collection = images_in_folder(source, labelled)
    if collection.skipped and chosen.strict:
        raise unusable_image(collection.skipped[0])
    for category in collection.empty:
        job.reporter.note(f"{category}: no images in this folder")
    for files, remedy in unreadable_files(collection.unreadable):
        if chosen.strict:
            raise DataError(collection.unreadable[0], "cannot be read here", f"{remedy}, or leave out --strict")
        job.reporter.note(f"skipped {files}: to read them, {remedy}")
    if collection.ignored:
        job.reporter.note(describe_ignored(collection.ignored))
        texts = sum(name.lower().endswith(SUFFIXES) for name in collection.ignored)
        if texts > len(collection.images):
            job.reporter.note(f"{source} has {count_of(texts, 'text')} too; 'mccgr extract --kind texts' reads those")
    for name in collection.ignored:
        job.reporter.detail(f"ignored {name}")
    categories = len({image.label for image in collection.images} - {None})
    job.reporter.detail(f"found {count_of(len(collection.images), 'image')}, {categories} categories")
    return collection


def describe(
    job: Job,
    chosen: ImageInput,
    collection: Collection,
    known: Describer | None,
    learning: Learning,
    description: Description,
) -> tuple[list[Contents], str]:
    """Matrices of images, described by what is known or by words that are learnt; and the SHA-256 of the images."""
    images, limits = collection.images, (chosen.max_pixels, chosen.strict)
    visible = [image.path for image in images if os.path.isfile(image.path)]  # noqa: PTH113
    network = known if isinstance(known, Network) else None
    books = [known] if isinstance(known, Codebook) else []
    if network is None:
        sizes = [len(book.words) for book in books] or learning.words
        job.require_space(*(4.0 * words * len(images) for words in sizes))
    with job.workers(len(images), visible[:1]) as workers, job.reporter.counting("images") as on_progress:
        if network is not None:
            features = try_network(network, workers)
            job.require_space(4.0 * features * len(images))
            described = run_network(images, network, features, workers, *limits, on_progress)
        else:
            books = books or learn_codebooks(images, description, learning, workers, *limits, on_progress)
            described = count_words(images, books, workers, *limits, on_progress)
    note_images(job, collection, described)
    skipped = [*collection.skipped, *described.skipped]
    if network is not None:
        note_network(job, network, described)
        return [network_contents(described, network, skipped)], described.sha256
    for X, book in zip(described.X, books, strict=True):
        job.reporter.note(f"{len(book.words)} words: {describe_word_use(X)}")
    learnt = learning if known is None else None
    matrices = zip(described.X, books, strict=True)
    return [words_contents(described, X, book, learnt, skipped) for X, book in matrices], described.sha256


def describe_like(job: Job, chosen: ImageInput, known: Describer) -> Loaded:
    """The matrix of new images, described as those of another matrix."""
    collection = find_images(job, chosen)
    job.refuse_overwriting(image.path for image in collection.images)
    (contents,), sha256 = describe(job, chosen, collection, known, Learning(), Description())
    job.inputs.append(Input(chosen.source, sha256))
    finished = finish_matrix(contents.datasets, False, chosen.source, [])
    return Loaded(replace(contents, datasets=finished), chosen.source, sha256)


def described_matrix(job: Job, given: str | None, learnt: Loaded, file: str) -> Loaded:
    """The matrix of images or texts that a clustering was made from.

    ``given``: this matrix, if the user named it; ``file``: the clusters.
    """
    if given is not None:
        return job.load(given, ("matrix",))
    matrix = find_described(learnt, Path(split_inner(file)[0]).parent)
    job.refuse_overwriting([matrix.name])
    job.inputs.append(Input(matrix.name, matrix.sha256, matrix.contents.provenance))
    return matrix


def note_images(job: Job, collection: Collection, described: Described) -> None:
    """Say which images were converted, skipped and used."""
    for name, remarks in described.remarks.items():
        job.reporter.detail(f"{name}: {', '.join(remarks)}")
    converted = Counter(remark for remarks in described.remarks.values() for remark in remarks)
    for remark, number in sorted(converted.items()):
        job.reporter.note(f"{count_of(number, 'image')} {remark}")
    for one in (*collection.skipped, *described.skipped):
        job.reporter.note(f"skipped {one.name}: {one.reason}")
    found, used = ({image.label for image in some} for some in (collection.images, described.images))
    for category in sorted(label for label in found - used if label is not None):
        job.reporter.note(f"{category}: none of its images can be used")
    of_all = f" of {len(collection.images)}" if described.skipped else ", all of them"
    job.reporter.note(f"images used: {len(described.images)}{of_all}")


def note_network(job: Job, network: Network, described: Described) -> None:
    """Say which features the network gave."""
    (X,) = described.X
    unused = int((X.max(axis=0) == 0).sum())
    job.reporter.note(
        f"{X.shape[1]} features: layer {network.preparation.model_layer} of {network.name}, computed by "
        f"{network.engine}{f'; {unused} are 0 in all images' if unused else ''}"
    )
