"""``mccgr extract``"""

from __future__ import annotations

import os
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mccgr_cli.cli import options, types
from mccgr_cli.errors import DataError, ParameterError
from mccgr_cli.settings import DETECTORS, LARGEST_RADIUS, Description, Learning

if TYPE_CHECKING:
    from collections.abc import Callable

    from mccgr_cli.cli.job import Job
    from mccgr_cli.images.codebook import Codebook
    from mccgr_cli.images.extract import Counts
    from mccgr_cli.images.find import Collection

MAX_PIXELS = 100_000_000


def max_pixels(about: str) -> Callable[[options.Function], options.Function]:
    return click.option(
        "--max-pixels",
        type=types.Whole(min=1, max=10**12),
        metavar="N",
        default=MAX_PIXELS,
        show_default=True,
        help=about,
    )


def listed(numbers: tuple[int, ...]) -> str:
    return ",".join(str(number) for number in numbers)


description = options.stack(
    click.option(
        "--detector",
        type=click.Choice(DETECTORS),
        default=Description.detector,
        show_default=True,
        help="Describe patches on a regular grid, or at the keypoints that OpenCV's SIFT finds.",
    ),
    click.option(
        "--step",
        type=types.Whole(min=1, max=1_000_000),
        metavar="PIXELS",
        default=Description.step,
        show_default=True,
        help="From one point of the grid to the next.",
    ),
    click.option(
        "--radii",
        type=types.Numbers(min=2, max=LARGEST_RADIUS),
        metavar="PIXELS,...",
        default=listed(Description.radii),
        show_default=True,
        help="From the centre of a patch to its side; at every point of the grid there is a patch of each.",
    ),
    click.option(
        "--min-contrast",
        type=types.Number(min=0, max=255),
        metavar="NUMBER",
        default=Description.min_contrast,
        show_default=True,
        help="Leave out patches with less: 1 is brightness that rises by one grey level (of 256) a pixel.",
    ),
    click.option(
        "--max-size",
        type=types.Whole(min=0, max=1_000_000),
        metavar="PIXELS",
        default=Description.max_size,
        show_default=True,
        help="Scale larger images down until their longer side is this; 0: never.",
    ),
    click.option("--root-sift", is_flag=True, help="Compare descriptors by the square roots of their parts."),
    click.option(
        "--soft",
        is_flag=True,
        help="Share each descriptor among the words that are near it: helps where images have few descriptors.",
    ),
)

learning = options.stack(
    click.option(
        "--words",
        type=types.Numbers(min=1, max=1_000_000),
        metavar="N,...",
        default=listed(Learning.words),
        show_default=True,
        help="Size of the dictionary. For several sizes, several files: X.h5 becomes X.300.h5 and X.1000.h5.",
    ),
    click.option(
        "--sample",
        type=types.Whole(min=1, max=10**9),
        metavar="N",
        default=Learning.sample,
        show_default=True,
        help="Learn the words from so many descriptors, drawn from all images alike.",
    ),
    click.option(
        "--descriptors-per-image",
        type=types.Whole(min=1, max=10**9),
        metavar="N",
        help="Draw at most so many from one image.  [default: any number]",
    ),
)


@click.command()
@click.argument("source", metavar="IMAGES", type=types.FILE)
@learning
@description
@click.option(
    "--codebook",
    type=types.FILE,
    metavar="FILE",
    help="A matrix that was extracted before: use its words, and describe images as it did.",
)
@click.option("--no-labels", is_flag=True, help="Folders are not categories.")
@click.option("--strict", is_flag=True, help="Fail if any image cannot be used.")
@max_pixels("Skip images with more, without decoding them.")
@options.jobs
@options.scheduler
@options.seed
@options.output
@options.verbosity
def command(**given: Any) -> None:
    """Describe images by histograms of visual words.

    IMAGES is a folder, or one image, or - for a list of files on standard input, one a line (or between zero
    bytes, as find -print0 writes them). Each folder in the folder is a category, which becomes a label; a folder
    of nothing but images has none. SIFT descriptors are taken on a regular grid, a sample of them is clustered
    into words, and each image becomes a row that counts its words. Images that cannot be used are skipped,
    named at the end and in the file.

    \b
    Examples:
      mccgr extract images/ -o X.h5 --words 300
      mccgr extract images/ --words 300,1000 --radii 4,8,12,16
      find images -name '*.jpg' -print0 | mccgr extract - -o X.h5
      mccgr extract new/ --codebook X.h5 -o new.h5
      mccgr extract images/ -o - | mccgr factorize - --k 5 --normalize sqrt -o factors.h5
    """
    from mccgr_cli.cli.job import Job
    from mccgr_cli.files.provenance import Input
    from mccgr_cli.images.extract import count_words, learn_codebooks
    from mccgr_cli.workflow import stages

    known = given["codebook"]
    learning = options.chosen(Learning, given)
    description = options.chosen(Description, given)
    if known is not None:
        leave_to_the_codebook(given)
    several = known is None and len(learning.words) > 1
    job = Job(given, "words", [str(words) for words in learning.words] if several else [""])
    books = [] if known is None else [stages.read_codebook(job.load(known, ("matrix",)))]
    collection = find_images(given, job)
    job.spare(image.path for image in collection.images)
    images, shared = collection.images, (given["max_pixels"], given["strict"])
    if given["scheduler"] is not None:
        images = [replace(image, path=os.path.abspath(image.path)) for image in images]  # noqa: PTH100
    seen = [image.path for image in images if os.path.isfile(image.path)]  # noqa: PTH113
    sizes = learning.words if known is None else [len(books[0].words)]
    job.expect(*(4.0 * words * len(images) for words in sizes))
    with job.crew(len(images), seen[:1]) as workers, job.reporter.counting("images") as on_progress:
        if known is None:
            books = learn_codebooks(images, description, learning, workers, *shared, on_progress)
        counts = count_words(images, books, workers, *shared, on_progress)
    report(job, collection, counts, books)
    job.inputs.insert(0, Input(given["source"], counts.sha256))
    skipped = [*collection.skipped, *counts.skipped]
    learnt = learning if known is None else None
    job.write(
        *(stages.words_contents(counts, X, book, learnt, skipped) for X, book in zip(counts.X, books, strict=True))
    )


def leave_to_the_codebook(given: dict[str, Any]) -> None:
    """Refuse, and forget the defaults of, what a codebook decides."""
    context = click.get_current_context()
    for parameter in context.command.params:
        name = str(parameter.name)
        if name in (*Description.__dataclass_fields__, *Learning.__dataclass_fields__):
            if context.get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE:
                raise ParameterError(
                    parameter.opts[0], "the codebook decides it", "leave it out, or leave out --codebook"
                )
            del given[name]
    if given["source"] == given["codebook"] == "-":
        raise ParameterError("--codebook", "standard input is the list of images already", "name a file")


def find_images(given: dict[str, Any], job: Job) -> Collection:
    from mccgr_cli.files.readers import accessing, require_name
    from mccgr_cli.images.extract import unusable
    from mccgr_cli.images.find import Collection, ImageFile, counted, find, from_list, text_of

    source, labelled = given["source"], not given["no_labels"]
    require_name(source)
    with accessing(source):
        one_image = source != "-" and Path(source).is_file()
    if source == "-":
        if sys.stdin is None:
            raise DataError("standard input", "closed", "pipe a list in, or name a folder")
        collection = from_list(sys.stdin.buffer.read(), labelled)
    elif one_image:
        collection = Collection([ImageFile(source, text_of(source))])
    else:
        collection = find(source, labelled)
    if collection.skipped and given["strict"]:
        raise unusable(collection.skipped[0])
    for category in collection.empty:
        job.reporter.note(f"{category}: no images in this folder")
    if collection.ignored:
        job.reporter.note(f"{counted(len(collection.ignored), 'file')} ignored that are not images by their names")
    for name in collection.ignored:
        job.reporter.detail(f"ignored {name}")
    categories = len({image.label for image in collection.images} - {None})
    job.reporter.detail(f"found {counted(len(collection.images), 'image')}, {categories} categories")
    return collection


def report(job: Job, collection: Collection, counts: Counts, books: list[Codebook]) -> None:
    from mccgr_cli.images.codebook import frequencies
    from mccgr_cli.images.find import counted

    for name, remarks in counts.remarks.items():
        job.reporter.detail(f"{name}: {', '.join(remarks)}")
    converted = Counter(remark for remarks in counts.remarks.values() for remark in remarks)
    for remark, number in sorted(converted.items()):
        job.reporter.note(f"{counted(number, 'image')} {remark}")
    for one in (*collection.skipped, *counts.skipped):
        job.reporter.note(f"skipped {one.name}: {one.reason}")
    given, used = ({image.label for image in some} for some in (collection.images, counts.images))
    for category in sorted(label for label in given - used if label is not None):
        job.reporter.note(f"{category}: none of its images can be used")
    number = len(counts.images)
    of_all = f"of {len(collection.images)} used" if counts.skipped else "used, all of them"
    job.reporter.note(f"images: {number} {of_all}")
    for X, book in zip(counts.X, books, strict=True):
        job.reporter.note(f"{len(book.words)} words: {frequencies(X)}")
