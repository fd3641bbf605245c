"""``mccgr report``"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mccgr_cli.cli import options, types
from mccgr_cli.cli.extract import ImageInput
from mccgr_cli.cli.options import MatrixInput, Output, Resources
from mccgr_cli.errors import DataError, MccgrError, ParameterError
from mccgr_cli.fields import OUTPUT, basic_option, option, output_option, whole
from mccgr_cli.system.phases import phase

if TYPE_CHECKING:
    from mccgr_cli.cli.job import Caller, Job
    from mccgr_cli.files.readers import Loaded
    from mccgr_cli.images.thumbnails import Thumbnail
    from mccgr_cli.output.report import Findings
    from mccgr_cli.output.report.duplicates import DuplicateGroup

MOST_COMPARED = 20_000  # images among which near-duplicates are sought
MOST_FAULTS = 10  # images that cannot be shown are listed up to this number


@dataclass(frozen=True)
class Appearance:
    """What the page shows."""

    title: str | None = option(
        OUTPUT, None, "Title of the report.", metavar="TEXT", default_text="derived from what was clustered"
    )
    thumbnail: int = output_option(
        128, "Longer side of an image in the report, at most.", values=whole(16, 1024), metavar="PIXELS"
    )
    show: int = output_option(
        10_000,
        "Maximum number of samples in the report. If there are more, the report shows the most typical and the least "
        "certain samples of each cluster; larger clusters show more samples.",
        values=whole(100, 200_000),
    )
    no_duplicates: bool = output_option(
        False, "Do not look for near-duplicates among the images. With thousands of images this takes most of the time."
    )


@dataclass(frozen=True)
class ReportInput:
    """The clusters that a report is about, and what belongs to them."""

    source: str
    labels: str | None = None
    images: str | None = basic_option(
        None,
        "Show the images in this folder: the one that you gave to 'mccgr extract'. If you gave a list of files "
        "to it, give the folder to which the names in the list are relative.",
        type=types.FILE,
        metavar="FOLDER",
        default_text="no images",
    )
    matrix: str | None = basic_option(
        None,
        "The matrix that CLUSTERS was made from. Then top features have their means and fractions of samples. Clusters "
        "of k-means on a matrix have top features only with it.",
        type=types.INPUT,
        metavar="MATRIX",
        default_text="top features show what the factors give",
    )
    transpose: bool = basic_option(False, "Samples are the columns of MATRIX, not the rows.")
    max_pixels: int = field(default=100_000_000, metadata=ImageInput.__dataclass_fields__["max_pixels"].metadata)


@options.command
@options.file_argument("source", "CLUSTERS")
@options.output
@options.gathered("clusters", ReportInput, arguments=("source", "labels"))
@options.labels("CLUSTERS", "without labels, the report has no scores")
@options.gathered("appearance", Appearance)
@options.resources("jobs")
def command(clusters: ReportInput, appearance: Appearance, resources: Resources, output: Output) -> None:
    """Write an HTML report of a clustering.

    The report shows the scores (if there are labels); a map of the samples; the images or names of each cluster, most
    typical first and least certain last, and the features that distinguish it; outliers; the objective in each
    iteration; the weights of the features; the neighbour graph; and every command that led to CLUSTERS. In the report
    you can search, select samples, rename and merge clusters, and download the result as CSV.

    CLUSTERS is a file from cluster, predict or factorize, or the folder of mccgr run; without it, standard input is
    read. Factors are clustered first, as by 'mccgr cluster'. The report is one file that loads nothing from elsewhere.
    The same input gives the same bytes.

    \b
    Examples:
      mccgr report X.factors.clusters.h5 --images images/
      mccgr report X.factors.clusters.h5 --images images/ -o report.html --title "Textures"
      mccgr report clusters.h5 --labels classes.txt -o report.html
      mccgr report X.factors.clusters.h5 --matrix X.h5
      mccgr cluster X.factors.h5 | mccgr report -o report.html
    """
    from mccgr_cli.files.readers import clusters_file

    report(replace(clusters, source=clusters_file(clusters.source)), appearance, resources, output)


def report(
    clusters: ReportInput, appearance: Appearance, resources: Resources, output: Output, caller: Caller | None = None
) -> None:
    """Write the HTML report of a clusters file."""
    from mccgr_cli.cli.cluster import clustered
    from mccgr_cli.cli.cluster_values import with_matrix
    from mccgr_cli.cli.job import Job
    from mccgr_cli.files.readers.labels import true_classes
    from mccgr_cli.images.find import SUFFIXES
    from mccgr_cli.output import report as page

    with Job("report", output, options.parameters(clusters, appearance), resources=resources, caller=caller) as job:
        if job.has_default_name:
            job.write_beside(clusters.source, "report", ".html")
        loaded = clustered(job.load(clusters.source, ("clusters", "factors")), job.reporter.note)
        values = None
        if clusters.matrix is not None:
            loaded, values = with_matrix(job, loaded, MatrixInput(clusters.matrix, clusters.transpose))
        note = job.reporter.note if caller is None else job.reporter.detail  # 'mccgr run' says it with the scores
        truth = true_classes(loaded, clusters.labels, note)
        with phase("choosing samples to show"):
            findings = page.find(loaded, truth, appearance.show)
        images = duplicates = None
        if clusters.images is not None:
            shared = (appearance.thumbnail, clusters.max_pixels)
            images = thumbnails(job, findings, clusters.images, shared)
            duplicates = None if appearance.no_duplicates else find_duplicates(job, loaded, clusters)
        elif str(loaded.contents.datasets.get("sample_names", [""])[0]).lower().endswith(SUFFIXES):
            job.reporter.note("the samples are images; --images FOLDER shows them")
        shown = len(findings.order)
        if shown < findings.samples:
            job.reporter.note(f"{shown} of {findings.samples} samples are shown; --show N shows more")
        with phase("drawing the report"):
            html = page.render(findings, images, appearance.title, duplicates, values)
        job.write_bytes(html)


def find_duplicates(job: Job, loaded: Loaded, clusters: ReportInput) -> list[DuplicateGroup] | None:
    """Near-duplicates among the images, if the matrix that the clusters were made from is there."""
    from mccgr_cli.blocks.from_file import blocks_of
    from mccgr_cli.core.similarity import NORMALIZATION
    from mccgr_cli.files.readers import split_inner
    from mccgr_cli.output.report.duplicates import DuplicateGroup
    from mccgr_cli.workflow.description import find_described
    from mccgr_cli.workflow.near_duplicates import Pixels, find_images, near_duplicates
    from mccgr_cli.workflow.placement import place

    names = loaded.contents.datasets.get("sample_names")
    try:
        matrix = find_described(loaded, Path(split_inner(clusters.source)[0]).parent)
    except MccgrError:
        return None
    if matrix.contents.datasets.get("sample_names") != names or len(names or ()) > MOST_COMPARED:
        return None  # clusters of new samples, or too many images to read them all once more
    paths = find_images(matrix, clusters.images)
    source = blocks_of(place(matrix, job.room(None, None), NORMALIZATION))
    with job.workers(len(paths)) as workers, job.reporter.counting("images") as on_progress:
        groups = near_duplicates(matrix, source, Pixels(paths, workers, clusters.max_pixels, on_progress))
    return [DuplicateGroup(one.samples, one.similarity, all(one.exact)) for one in groups]


def thumbnails(job: Job, findings: Findings, folder: str, shared: tuple[int, int]) -> dict[int, Any]:
    """The image of every sample in the report, by its number."""
    from mccgr_cli.files.folders import count_of
    from mccgr_cli.images.decode import DECODER_CRASHED
    from mccgr_cli.images.thumbnails import Thumbnail, locate_images, make_thumbnail

    contents, order = findings.contents, findings.order.tolist()
    names = contents.datasets.get("sample_names")
    if names is None:
        remedy = "leave --images out, or use clusters of images from mccgr extract"
        raise DataError(findings.given.name, "holds no names of samples to find images by", remedy)
    paths = locate_images(folder, [names[i] for i in order])
    if not any(paths):
        what = f"none of the {count_of(len(paths), 'image')} named in {findings.given.name} is there"
        raise ParameterError("--images", f"{folder}: {what}", "name the folder that extract was given")
    job.refuse_overwriting(path for path in paths if path is not None)
    made: list[Thumbnail] = []
    with job.workers(len(paths)) as workers, job.reporter.counting("images") as on_progress:
        for one in workers.map(make_thumbnail, paths, shared, Thumbnail(fault=DECODER_CRASHED)):
            made.append(one)
            on_progress("reading", len(made), len(paths))
    faults = [(names[i], one.fault) for i, one in zip(order, made, strict=True) if one.fault is not None]
    for number, (name, fault) in enumerate(faults):
        (job.reporter.note if number < MOST_FAULTS else job.reporter.detail)(f"not shown: {name}: {fault}")
    of_all = f" of {len(made)}" if faults else ", all of them"
    job.reporter.note(f"images shown: {len(made) - len(faults)}{of_all}")
    return dict(zip(order, made, strict=True))
