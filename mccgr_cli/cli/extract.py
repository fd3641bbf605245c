"""``mccgr extract``"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mccgr_cli.cli import options
from mccgr_cli.errors import DataError, ParameterError
from mccgr_cli.settings import Description, Learning

if TYPE_CHECKING:
    from mccgr_cli.cli.job import Job
    from mccgr_cli.features.codebook import Codebook
    from mccgr_cli.features.extraction import Counts
    from mccgr_cli.features.pictures import Collection

MAX_PIXELS = 100_000_000


@click.command()
@click.argument("source", metavar="IMAGES", type=options.FILE)
@options.learning
@options.description
@click.option(
    "--codebook",
    type=options.FILE,
    metavar="FILE",
    help="Use the words, and describe as described, of a matrix that was extracted before.",
)
@click.option("--no-labels", is_flag=True, help="Folders are not categories.")
@click.option("--strict", is_flag=True, help="Fail if any picture cannot be used.")
@click.option(
    "--max-pixels",
    type=click.IntRange(min=1),
    metavar="N",
    default=MAX_PIXELS,
    show_default=True,
    help="Skip pictures with more, without decoding them.",
)
@click.option(
    "--jobs",
    type=click.IntRange(min=1),
    metavar="N",
    help="Processes that share the work; the result is the same.  [default: one for each core]",
)
@options.seed
@options.output
@options.verbosity
def command(**given: Any) -> None:
    """Describe pictures by histograms of visual words.

    IMAGES is a folder. Each folder in it is a category, which becomes a label; pictures that lie in it directly
    have none. Or it is - for a list of files on standard input, one a line (or between zero bytes, as find -print0
    writes them). SIFT descriptors are taken on a regular grid, a sample of them is clustered into words, and each
    picture becomes a row that counts its words. Pictures that cannot be used are skipped, named at the end and in
    the file.

    \b
    Examples:
      mccgr extract pictures/ -o X.h5 --words 300
      mccgr extract pictures/ --words 300,1000 --radii 4,8,12,16
      find pictures -name '*.jpg' -print0 | mccgr extract - -o X.h5
      mccgr extract new/ --codebook X.h5 -o new.h5
      mccgr extract pictures/ -o - | mccgr factorize - --k 5 --normalize sqrt -o factors.h5
    """
    from mccgr_cli import stages
    from mccgr_cli.cli.job import Job
    from mccgr_cli.features.extraction import count_words, learn_codebooks
    from mccgr_cli.provenance import Input
    from mccgr_cli.workers import Workers, usable_cores

    learning = options.chosen(Learning, given)
    known = given["codebook"]
    if known is not None:
        refuse_what_a_codebook_decides()
    several = known is None and len(learning.words) > 1
    job = Job(given, "words", [str(words) for words in learning.words] if several else [""])
    books = [] if known is None else [stages.read_codebook(job.load(known, ("matrix",)))]
    collection = find_pictures(given, job)
    pictures, shared = collection.pictures, (given["max_pixels"], given["strict"])
    with Workers(given["jobs"] or usable_cores()) as workers, job.reporter.counting("pictures") as on_progress:
        if not books:
            described = options.chosen(Description, given)
            books = learn_codebooks(pictures, described, learning, workers, *shared, on_progress)
        counts = count_words(pictures, books, workers, *shared, on_progress)
    report(job, collection, counts, books)
    if not counts.pictures:
        raise DataError(given["source"], "none of its pictures can be used", "see the lines above")
    job.inputs.insert(0, Input(given["source"], counts.sha256))
    skipped = [*collection.skipped, *counts.skipped]
    learnt = learning if known is None else None
    job.write(
        *(stages.words_contents(counts, X, book, learnt, skipped) for X, book in zip(counts.X, books, strict=True))
    )


def refuse_what_a_codebook_decides() -> None:
    context = click.get_current_context()
    for parameter in context.command.params:
        decided = parameter.name in (*Description.__dataclass_fields__, *Learning.__dataclass_fields__)
        if decided and context.get_parameter_source(str(parameter.name)) is click.core.ParameterSource.COMMANDLINE:
            raise ParameterError(parameter.opts[0], "the codebook decides it", "leave it out, or leave out --codebook")


def find_pictures(given: dict[str, Any], job: Job) -> Collection:
    from mccgr_cli.features.pictures import Collection, Picture, counted, find, from_list, text_of

    source, labelled = given["source"], not given["no_labels"]
    if source == "-":
        if sys.stdin is None:
            raise DataError("standard input", "closed", "pipe a list in, or name a folder")
        collection = from_list(sys.stdin.buffer.read(), labelled)
    elif Path(source).is_file():
        collection = Collection([Picture(source, text_of(source))])
    else:
        collection = find(source, labelled)
    for skipped in collection.skipped:
        if given["strict"]:
            raise DataError(skipped.name, skipped.reason, "mend or remove it, or leave out --strict")
    for category in collection.empty:
        job.reporter.note(f"{category}: no pictures in this folder")
    if collection.ignored:
        job.reporter.note(f"{counted(collection.ignored, 'file')} ignored that are not pictures by their names")
    categories = len({picture.label for picture in collection.pictures} - {None})
    job.reporter.detail(f"found {counted(len(collection.pictures), 'picture')}, {categories} categories")
    return collection


def report(job: Job, collection: Collection, counts: Counts, books: list[Codebook]) -> None:
    from mccgr_cli.features.codebook import frequencies
    from mccgr_cli.features.pictures import counted

    for name, remarks in counts.remarked.items():
        job.reporter.detail(f"{name}: {', '.join(remarks)}")
    for remark, number in sorted(counts.remarks.items()):
        job.reporter.note(f"{counted(number, 'picture')} {remark}")
    skipped = [*collection.skipped, *counts.skipped]
    for one in skipped:
        job.reporter.note(f"skipped {one.name}: {one.reason}")
    total = len(counts.pictures) + len(skipped)
    job.reporter.note(f"pictures: {len(counts.pictures)} of {total} used" + (", all" if not skipped else ""))
    for X, book in zip(counts.X, books, strict=True):
        if len(X):
            job.reporter.note(f"{len(book.words)} words: {frequencies(X)}")
