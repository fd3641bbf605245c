"""The stages of ``mccgr run``: which, in what order, and with which settings."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mccgr_cli.cli.checkpointing import Checkpointing
from mccgr_cli.cli.cluster import cluster
from mccgr_cli.cli.export import Exported, export
from mccgr_cli.cli.extract import ImageInput, extract, extract_texts
from mccgr_cli.cli.factorize import Factorization, factorize
from mccgr_cli.cli.options import MatrixInput, Output, Resources, parameters
from mccgr_cli.cli.rank import Trials, rank
from mccgr_cli.cli.report import Appearance, ReportInput, report
from mccgr_cli.errors import DataError
from mccgr_cli.images.settings import Description, Learning, ModelSettings
from mccgr_cli.settings import ClusterSettings, GraphSettings, RowSettings, Settings
from mccgr_cli.texts.settings import IMAGES, STOP_WORDS, TEXTS, Counting, TextInput

if TYPE_CHECKING:
    from mccgr_cli.cli.job import Caller
    from mccgr_cli.cli.progress import Reporter

RANK = "rank"
MATRIX = "matrix"  # what a source may be, beside IMAGES and TEXTS
# The stages in their order, and the files that they write.
FILES = {
    "extract": "matrix.h5",
    RANK: "ranks.h5",
    "factorize": "factors.h5",
    "cluster": "clusters.h5",
    "export": "clusters.csv",
    "report": "report.html",
}
TRIALS = Trials(runs=10, samples=1000)  # to find k: fewer than the defaults of 'mccgr rank', which take long


@dataclass(frozen=True)
class Request:
    """What ``mccgr run`` is to do."""

    matrix: MatrixInput
    k: int | None  # None: as recommended
    settings: Settings  # its k is replaced
    graph: GraphSettings
    rows: RowSettings
    images: ImageInput
    network: ModelSettings
    learning: Learning
    description: Description
    texts: TextInput
    counting: Counting
    clusters: ClusterSettings
    appearance: Appearance
    labels: str | None
    resources: Resources
    output: Output
    kind: str  # of the source: IMAGES, TEXTS or MATRIX

    @property
    def folder(self) -> Path:
        return Path(str(self.output.path))

    @property
    def files(self) -> dict[str, str]:
        """The stages to do, and their files."""
        left_out = {"extract": self.kind == MATRIX, RANK: self.k is not None}
        return {stage: file for stage, file in FILES.items() if not left_out.get(stage)}

    def inputs(self) -> list[tuple[str, str]]:
        """Files to read, with the names of their options."""
        named = {"SOURCE": self.matrix.source, "--codebook": self.images.codebook, "--labels": self.labels}
        return [(where, name) for where, name in {**named, "--init": self.settings.init}.items() if name is not None]


@dataclass(frozen=True)
class Stage:
    """One stage of a run, and the file that it writes."""

    name: str
    values: tuple[Any, ...]  # input and settings, on which the file depends
    perform: Callable[[Output, Caller], None]
    files: tuple[str | None, ...] = ()  # other files on which it depends
    without: tuple[str, ...] = ()  # settings on which it does not depend

    @property
    def options(self) -> dict[str, Any]:
        """The settings on which it depends."""
        without = ("source", *self.without)
        return {name: value for name, value in parameters(*self.values).items() if name not in without}


def plan(request: Request, reporter: Reporter) -> Iterator[Stage]:
    """The stages in their order, each with its own settings. Do each before you ask for the next: it may decide k."""
    yield from stages_before_k(request)
    k = request.k
    if k is None:
        k = recommended(request.folder / FILES[RANK], request.matrix.source, reporter)
    yield from stages_after_k(request, k)


def matrix_of(request: Request) -> MatrixInput:
    return MatrixInput(str(request.folder / FILES["extract"])) if request.kind != MATRIX else request.matrix


def stages_before_k(request: Request) -> Iterator[Stage]:
    """The matrix, and the number of components, if they are not given."""
    workers = Resources(jobs=request.resources.jobs, scheduler=request.resources.scheduler)
    if request.kind == TEXTS:
        counted = (request.images, request.texts, request.counting)
        files = (request.images.codebook, stop_words_file(request.counting))
        yield Stage("extract", counted, partial(extract_texts, *counted, workers), files)
    elif request.kind == IMAGES:
        described = (request.images, request.network, request.learning, request.description)
        files = (request.images.codebook, model_file(request.network))
        yield Stage("extract", described, partial(extract, *described, workers), files)
    if request.k is None:
        ranked = (matrix_of(request), TRIALS, request.settings, request.graph)
        normalize = RowSettings(request.rows.normalize)
        perform = partial(rank, *ranked, normalize.normalize, None, request.resources)
        yield Stage(RANK, (*ranked, normalize), perform, without=("k",))


def stages_after_k(request: Request, k: int) -> Iterator[Stage]:
    folder, resources, matrix = request.folder, request.resources, matrix_of(request)
    settings = replace(request.settings, k=k)
    factorization = Factorization(matrix, settings, request.graph, request.rows)
    memory = Resources(memory=resources.memory, scheduler=resources.scheduler)
    checkpoint = Checkpointing(str(folder / "factors.part.h5"))
    yield Stage(
        *("factorize", (matrix, settings, request.graph, request.rows)),
        partial(factorize, factorization, memory, checkpoint),
        (settings.init if factorization.starts_from_file else None,),
    )
    factors, clusters = (MatrixInput(str(folder / FILES[stage])) for stage in ("factorize", "cluster"))
    clustering = (factors, request.clusters)
    yield Stage("cluster", clustering, partial(cluster, *clustering, "none"))
    yield Stage("export", (clusters,), partial(export, clusters, Exported(), None))
    about = ReportInput(clusters.source, request.labels, *shown_beside(request), request.images.max_pixels)
    workers = Resources(jobs=resources.jobs, memory=resources.memory)
    reporting = (about, request.appearance)
    yield Stage("report", reporting, partial(report, *reporting, workers), (request.labels,), ("matrix",))


def shown_beside(request: Request) -> tuple[str | None, str | None, bool]:
    """What the report shows beside the clusters: the images, or the matrix unless it is on a cluster for its size."""
    if request.kind == IMAGES:
        return request.matrix.source, None, False
    if request.resources.scheduler is not None:
        return None, None, False
    matrix = matrix_of(request)
    return None, matrix.source, matrix.transpose


def recommended(ranks: Path, source: str, reporter: Reporter) -> int:
    """The k that is recommended in a file, said with the reasons; an error if it is 1."""
    from mccgr_cli.files.readers import load

    found = load(str(ranks), kinds=("ranks",)).contents.attributes
    k, reasons = int(found["recommended"]), str(found["reasons"])
    if k == 1:
        raise DataError(source, reasons.rstrip("."), "give --k to cluster it nevertheless")
    reporter.note(f"k = {k}: {reasons}")
    return k


def stop_words_file(counting: Counting) -> str | None:
    """The file of words that are never counted, if it is not a ready list."""
    return None if counting.stop_words in STOP_WORDS else counting.stop_words


def model_file(network: ModelSettings) -> str | None:
    """The file of the network that describes images, if it is not a ready one."""
    from mccgr_cli.images.network.ready import READY

    return None if network.model in READY else network.model
