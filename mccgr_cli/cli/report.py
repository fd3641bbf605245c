"""``mccgr report``"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from mccgr_cli.cli import options, types
from mccgr_cli.cli.evaluate import labels_option, true_classes
from mccgr_cli.cli.extract import max_pixels
from mccgr_cli.errors import DataError, ParameterError

if TYPE_CHECKING:
    from mccgr_cli.cli.job import Job
    from mccgr_cli.images.thumbnails import Thumbnail
    from mccgr_cli.output.report import Findings

MOST_FAULTS = 10  # that are told one by one


appearance = options.stack(
    click.option("--title", metavar="TEXT", help="Above the page.  [default: named after what was clustered]"),
    click.option(
        "--thumbnail",
        type=types.Whole(min=16, max=1024),
        metavar="PIXELS",
        default=128,
        show_default=True,
        help="The longer side of an image in the page, at most.",
    ),
    click.option(
        "--show",
        type=types.Whole(min=100, max=200_000),
        metavar="N",
        default=10_000,
        show_default=True,
        help="At most about so many samples, of each cluster its share, with the most typical and the least certain.",
    ),
)


@click.command()
@click.argument("source", metavar="CLUSTERS", type=types.FILE)
@click.option(
    "--images",
    type=types.FILE,
    metavar="FOLDER",
    help="Show the images that were clustered: the folder that 'mccgr extract' was given, or, if that was a list, "
    "the one that its names start from.  [default: no images]",
)
@labels_option("CLUSTERS", "without them, there are no scores")
@appearance
@max_pixels("Leave out images with more, without decoding them.")
@options.jobs
@options.output
@options.verbosity
def command(**given: Any) -> None:
    """Show what a clustering found, as one HTML page.

    The page has the scores, if there are labels; a map of the samples; for each cluster its images (or names), the
    most typical first and the least certain last, and the features that set it apart; the course of the objective;
    the weights of the features; the graph's health; and every command that led to CLUSTERS, which is a file made by
    cluster, or - for standard input. It is one file that loads nothing from elsewhere, for a browser or paper. The
    same input gives the same bytes.

    \b
    Examples:
      mccgr report X.factors.clusters.h5 --images images/
      mccgr report X.factors.clusters.h5 --images images/ -o report.html --title "Textures"
      mccgr report clusters.h5 --labels classes.txt -o report.html
      mccgr cluster X.factors.h5 -o - | mccgr report - -o report.html
    """
    from mccgr_cli.cli.job import Job, derived_path
    from mccgr_cli.images.find import SUFFIXES
    from mccgr_cli.output import report

    job = Job(given, stage=None)
    if job.announce:
        job.aim(derived_path(given["source"], "report", ".html"))
    if given["source"] == given["labels"] == "-":
        raise ParameterError("--labels", "standard input is the clusters already", "name a file")
    loaded = job.load(given["source"], ("clusters",))
    findings = report.find(loaded, true_classes(loaded, given["labels"]), given["show"])
    images = None
    if given["images"] is not None:
        images = thumbnails(job, findings)
    elif str(loaded.contents.datasets.get("sample_names", [""])[0]).lower().endswith(SUFFIXES):
        job.reporter.note("samples have names of images; --images FOLDER shows them")
    shown = len(findings.order)
    if shown < findings.samples:
        job.reporter.note(f"{shown} of {findings.samples} samples are shown; --show N shows more")
    job.deliver(report.render(findings, images, given["title"]))


def thumbnails(job: Job, findings: Findings) -> dict[int, Any]:
    """Of every sample on the page, by its number."""
    from mccgr_cli.images.find import counted
    from mccgr_cli.images.thumbnails import LOST, Thumbnail, locate, make_thumbnail

    given, contents, order = job.given, findings.contents, findings.order.tolist()
    names = contents.datasets.get("sample_names")
    if names is None:
        remedy = "leave --images out, or name clusters of images from mccgr extract"
        raise DataError(findings.given.name, "holds no names of samples to find images by", remedy)
    paths = locate(given["images"], [names[i] for i in order])
    if not any(paths):
        what = f"none of the {counted(len(paths), 'image')} named in {findings.given.name} is there"
        raise ParameterError("--images", f"{given['images']}: {what}", "name the folder that extract was given")
    job.spare(path for path in paths if path is not None)
    made: list[Thumbnail] = []
    shared = (given["thumbnail"], given["max_pixels"])
    with job.crew(len(paths)) as workers, job.reporter.counting("images") as on_progress:
        for one in workers.map(make_thumbnail, paths, shared, Thumbnail(fault=LOST)):
            made.append(one)
            on_progress("reading", len(made), len(paths))
    faults = [(names[i], one.fault) for i, one in zip(order, made, strict=True) if one.fault is not None]
    for number, (name, fault) in enumerate(faults):
        (job.reporter.note if number < MOST_FAULTS else job.reporter.detail)(f"not shown: {name}: {fault}")
    shown = f"{len(made) - len(faults)} of {len(made)} shown" if faults else f"{len(made)} shown, all of them"
    job.reporter.note(f"images: {shown}")
    return dict(zip(order, made, strict=True))
