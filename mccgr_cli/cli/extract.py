"""``mccgr extract``"""

from __future__ import annotations

import os
import sys
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from mccgr_cli.cli import options, types
from mccgr_cli.cli.options import Output, Resources
from mccgr_cli.errors import DataError, ParameterError
from mccgr_cli.fields import image_option, settings_of, whole
from mccgr_cli.images.settings import Description, Learning

if TYPE_CHECKING:
    from mccgr_cli.cli.job import Caller, Job
    from mccgr_cli.images.codebook import Codebook
    from mccgr_cli.images.extract import Counts
    from mccgr_cli.images.find import Collection


@dataclass(frozen=True)
class ImageInput:
    """Which images are used, and what is done with those that cannot be used."""

    source: str
    codebook: str | None = image_option(
        None,
        "Use the visual words and the image options of FILE, a matrix from an earlier 'mccgr extract'. New and old "
        "images can then be compared.",
        type=types.FILE,
    )
    no_labels: bool = image_option(False, "Folders are not categories.")
    strict: bool = image_option(False, "Fail if an image cannot be used.")
    max_pixels: int = image_option(
        100_000_000,
        "Skip images with more pixels in total (width x height), without decoding them.",
        values=whole(1, 10**12),
    )


@options.command
@click.argument("source", metavar="IMAGES", type=types.FILE)
@options.gathered("learning", Learning)
@options.output
@options.gathered("images", ImageInput, arguments=("source",))
@options.gathered("description", Description)
@options.resources("jobs", "scheduler")
def command(
    images: ImageInput, learning: Learning, description: Description, resources: Resources, output: Output
) -> None:
    """Describe images by histograms of visual words.

    IMAGES is a folder, one image, or - for a list of files on standard input (one per line, or separated by zero bytes,
    as from find -print0). In a folder, each subfolder is a category and becomes a label; a folder without subfolders
    gives no labels. SIFT descriptors are computed on a regular grid. A sample of them is clustered into visual words.
    Each image becomes a row with the counts of its words. Images that cannot be used are skipped, and listed at the end
    and in the file.

    \b
    Examples:
      mccgr extract images/ -o X.h5 --words 300
      mccgr extract images/ --words 300,1000 --radii 4,8,12,16
      find images -name '*.jpg' -print0 | mccgr extract - -o X.h5
      mccgr extract new/ --codebook X.h5 -o new.h5
      mccgr extract images/ -o - | mccgr factorize - --k 5 --normalize sqrt -o factors.h5
    """
    if images.codebook is not None:
        decided = (*settings_of(Description), *settings_of(Learning))
        options.refuse_given(decided, "the codebook decides it", "leave it out, or leave out --codebook")
        if images.source == images.codebook == "-":
            raise ParameterError("--codebook", "standard input is the list of images already", "name a file")
    extract(images, learning, description, resources, output)


def extract(
    chosen: ImageInput,
    learning: Learning,
    description: Description,
    resources: Resources,
    output: Output,
    caller: Caller | None = None,
) -> None:
    """Describe images and write a matrix file for each number of words."""
    from mccgr_cli.cli.job import Job
    from mccgr_cli.files.provenance import Input
    from mccgr_cli.images.extract import count_words, learn_codebooks
    from mccgr_cli.workflow import stages

    learns = chosen.codebook is None  # otherwise the codebook decides everything else
    parameters = options.parameters(chosen, *((learning, description) if learns else ()))
    parts = [str(words) for words in learning.words] if learns and len(learning.words) > 1 else [""]
    derived = (chosen.source, "words")
    with Job("extract", output, parameters, derived=derived, parts=parts, resources=resources, caller=caller) as job:
        books = [] if chosen.codebook is None else [stages.read_codebook(job.load(chosen.codebook, ("matrix",)))]
        collection = find_images(job, chosen)
        job.refuse_overwriting(image.path for image in collection.images)
        images, shared = collection.images, (chosen.max_pixels, chosen.strict)
        if resources.scheduler is not None:
            images = [replace(image, path=os.path.abspath(image.path)) for image in images]  # noqa: PTH100
        visible = [image.path for image in images if os.path.isfile(image.path)]  # noqa: PTH113
        sizes = [len(book.words) for book in books] or learning.words
        job.require_space(*(4.0 * words * len(images) for words in sizes))
        with job.workers(len(images), visible[:1]) as workers, job.reporter.counting("images") as on_progress:
            if learns:
                books = learn_codebooks(images, description, learning, workers, *shared, on_progress)
            counts = count_words(images, books, workers, *shared, on_progress)
        note_images(job, collection, counts, books)
        job.inputs.insert(0, Input(chosen.source, counts.sha256))
        skipped = [*collection.skipped, *counts.skipped]
        learnt = learning if learns else None
        matrices = zip(counts.X, books, strict=True)
        job.write(*(stages.words_contents(counts, X, book, learnt, skipped) for X, book in matrices))


def find_images(job: Job, chosen: ImageInput) -> Collection:
    from mccgr_cli.files.readers import input_errors, require_name
    from mccgr_cli.images.extract import unusable_image
    from mccgr_cli.images.find import (
        Collection,
        ImageFile,
        count_of,
        describe_ignored,
        images_in_folder,
        images_on_list,
        name_as_text,
        unreadable_files,
    )

    source, labelled = chosen.source, not chosen.no_labels
    require_name(source)
    with input_errors(source):
        is_one_image = source != "-" and Path(source).is_file()
    if source == "-":
        if sys.stdin is None:
            raise DataError("standard input", "closed", "pipe a list in, or name a folder")
        collection = images_on_list(sys.stdin.buffer.read(), labelled)
    elif is_one_image:
        collection = Collection([ImageFile(source, name_as_text(source))])
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
    for name in collection.ignored:
        job.reporter.detail(f"ignored {name}")
    categories = len({image.label for image in collection.images} - {None})
    job.reporter.detail(f"found {count_of(len(collection.images), 'image')}, {categories} categories")
    return collection


def note_images(job: Job, collection: Collection, counts: Counts, books: list[Codebook]) -> None:
    """Say which images were converted, skipped and used, and how the words are distributed."""
    from mccgr_cli.images.codebook import describe_word_use
    from mccgr_cli.images.find import count_of

    for name, remarks in counts.remarks.items():
        job.reporter.detail(f"{name}: {', '.join(remarks)}")
    converted = Counter(remark for remarks in counts.remarks.values() for remark in remarks)
    for remark, number in sorted(converted.items()):
        job.reporter.note(f"{count_of(number, 'image')} {remark}")
    for one in (*collection.skipped, *counts.skipped):
        job.reporter.note(f"skipped {one.name}: {one.reason}")
    found, used = ({image.label for image in some} for some in (collection.images, counts.images))
    for category in sorted(label for label in found - used if label is not None):
        job.reporter.note(f"{category}: none of its images can be used")
    of_all = f" of {len(collection.images)}" if counts.skipped else ", all of them"
    job.reporter.note(f"images used: {len(counts.images)}{of_all}")
    for X, book in zip(counts.X, books, strict=True):
        job.reporter.note(f"{len(book.words)} words: {describe_word_use(X)}")
