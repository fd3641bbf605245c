"""``mccgr run``"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import MISSING, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mccgr_cli import __version__
from mccgr_cli.cli import options, types
from mccgr_cli.cli.evaluate import evaluate
from mccgr_cli.cli.extract import ABOUT_TEXTS, LISTED, MODEL, ImageInput, refuse_about_images, refuse_unused
from mccgr_cli.cli.factorize import INIT
from mccgr_cli.cli.group import invocation
from mccgr_cli.cli.help import GroupedOption, as_typed
from mccgr_cli.cli.options import MatrixInput, Output, Resources
from mccgr_cli.cli.report import Appearance
from mccgr_cli.cli.run_folder import check_earlier_result, locked, refuse_replacing
from mccgr_cli.cli.run_plan import FILES, MATRIX, RANK, TRIALS, Request, Stage, plan
from mccgr_cli.cli.time_limit import limited
from mccgr_cli.errors import ParameterError
from mccgr_cli.fields import settings_of, whole
from mccgr_cli.images.settings import Description, Learning, ModelSettings
from mccgr_cli.settings import AUTO, INITS, ClusterSettings, GraphSettings, RowSettings, Settings
from mccgr_cli.texts.settings import IMAGES, TEXTS, Counting, TextInput

if TYPE_CHECKING:
    from mccgr_cli.cli.progress import Reporter, Staging
    from mccgr_cli.files.folders import SampleFile
    from mccgr_cli.files.run_manifest import Manifest

FOR_IMAGES = (
    "words",
    "sample",
    "descriptors_per_image",
    "thumbnail",
    *settings_of(Description),
    *settings_of(ImageInput),
    *settings_of(ModelSettings),
)
TOP = 10  # words of each cluster that are shown at the end
FOR_MATRICES = ("transpose", "label_key", "header")
FOLDER: dict[str, dict[str, Any]] = {
    "path": {
        "help": "Output folder. It is created if it does not exist.",
        "metavar": "FOLDER",
        "default": MISSING,
        "default_text": "",
    },
    "overwrite": {
        "help": "Replace output files of the same names, whatever made them. Without it, nothing is replaced: the same "
        "command continues a run, and a command with another --k, SOURCE or option is refused."
    },
}


@options.command
@click.option(
    "-k",
    "--k",
    cls=GroupedOption,
    type=types.WordOrNumber((AUTO,), whole(1)),
    default=AUTO,
    show_default=True,
    metavar=f"[{AUTO}|N]",
    help=f"Number of components (clusters). auto: the number that 'mccgr rank SOURCE --runs {TRIALS.runs} --samples "
    f"{TRIALS.samples}' recommends. It takes seconds for small data, minutes for {TRIALS.samples} samples or more.",
)
@options.gathered("settings", Settings, changed={"init": INIT}, k=1)
@options.gathered("output", Output, changed=FOLDER)
@options.gathered("rows", RowSettings)
@options.preset
@options.matrix("SOURCE")
@options.labels("SOURCE", "without labels, there are no scores")
@options.output_format("table", "json", "csv")
@options.gathered("network", ModelSettings, changed=MODEL)
@options.gathered("learning", Learning, changed={"words": {"help": "Number of visual words.", "metavar": "N"}})
@options.gathered("images", ImageInput, arguments=("source",))
@options.gathered("description", Description)
@options.gathered("texts", TextInput)
@options.gathered("counting", Counting, changed=LISTED)
@options.gathered("graph", GraphSettings)
@options.gathered("clusters", ClusterSettings, renamed={"restarts": "cluster_restarts"}, k=None)
@options.gathered("appearance", Appearance)
@options.resources("jobs", "memory", "scheduler", "time_limit")
def command(
    matrix: MatrixInput,
    k: int | str,
    settings: Settings,
    graph: GraphSettings,
    rows: RowSettings,
    network: ModelSettings,
    learning: Learning,
    description: Description,
    images: ImageInput,
    texts: TextInput,
    counting: Counting,
    clusters: ClusterSettings,
    appearance: Appearance,
    labels: str | None,
    style: str,
    resources: Resources,
    output: Output,
) -> None:
    """Cluster images, texts or a matrix, and write a report: all stages in one command.

    SOURCE is a folder of images or texts, as for extract, or a matrix, as for factorize. Texts may also be in a .jsonl
    file, or with --text-field in a .csv file. The output folder gets a file from each stage: matrix.h5 (from images
    or texts), ranks.h5 (without --k), factors.h5, clusters.h5, clusters.csv and report.html. The
    scores are printed if there are labels. Small images get a finer grid and smaller patches, unless you give --step
    or --radii.

    If a run is interrupted, the same command continues it. To change --k, SOURCE or another option, choose another
    folder or give --overwrite. With --overwrite, only stages whose inputs or options changed are repeated.

    For texts, and for a matrix that names its features, the run ends with the top words (or features) of each cluster,
    as 'mccgr top' lists them.

    Without --k, the number of clusters is found as 'mccgr rank' does it, and printed with the reasons. Read them: they
    say if the number is doubtful. If the data show no structure, the run ends there.

    \b
    Examples:
      mccgr run images/ --model efficientnet-lite0 -o out
      mccgr run images/ --model efficientnet-lite0 --k 5 -o out
      mccgr run images/ --k 5 -o out
      mccgr run texts/ --k 8 -o topics
      mccgr run articles.jsonl --text-field body --k 8 -o topics
      mccgr run counts.h5ad --k 8 --label-key cell_type -o out
      mccgr run images/ --k 5 --words 1000 --preset paper -o out
    """
    from mccgr_cli.cli.progress import Reporter

    about_images = (images, network, learning, description)
    chosen = (k if isinstance(k, int) else None, settings, graph, rows)
    kind, shown = kind_of(matrix.source, texts), (clusters, appearance, labels)
    request = Request(matrix, *chosen, *about_images, texts, counting, *shown, resources, output, kind)
    with limited(resources.time_limit):
        run(request)
        if labels is not None or has_labels(request.folder):
            reporter = Reporter(output.quiet, output.verbose)
            evaluate((str(request.folder / "clusters.h5"),), labels, style, reporter)


def run(request: Request) -> None:
    """Do all stages that are not done yet."""
    from mccgr_cli.cli.progress import Reporter
    from mccgr_cli.files.folders import count_of

    reporter, folder = Reporter(request.output.quiet, request.output.verbose), request.folder
    check(request)
    samples = find_samples(request)
    usual = request.description
    if samples is not None and request.k is not None and request.k > len(samples):
        what = f"{request.k} components, but only {count_of(len(samples), request.kind.removesuffix('s'))}"
        raise ParameterError("--k", what, f"give at most {len(samples)}")
    if request.kind == IMAGES:
        request = replace(request, description=grid_for(request, samples))
    files = request.files
    with locked(request) as manifest:
        if request.description != usual:
            radii = as_typed(request.description.radii)
            reporter.note(f"the images are small: --step {request.description.step} --radii {radii}")
        key = fingerprint_of(request.matrix.source, samples)
        check_earlier_result(manifest, request, key)
        with reporter.staging(list(files)) as staging:
            for number, stage in enumerate(plan(request, reporter), 1):
                done = do_stage(stage, key, manifest, request.output, staging, last=number == len(files))
                key = key if stage.name == RANK else done  # the next stages depend only on k
    if request.kind != IMAGES:
        note_top_features(folder, reporter)
    reporter.note(f"open {folder / 'report.html'} in a browser")


def check(request: Request) -> None:
    """Refuse at once what a stage would refuse late."""
    from mccgr_cli.files.readers import input_errors, split_inner
    from mccgr_cli.files.readers.labels import load_labels

    words = request.learning.words
    if not request.output.path:
        raise ParameterError("-o", "no folder name", "the command that should give it may have failed")
    if request.output.path == "-":
        raise ParameterError("-o", "a folder cannot go to standard output", "name a folder")
    if len(words) > 1:
        raise ParameterError("--words", f"{len(words)} sizes, but one matrix is clustered", "give one of them")
    if request.k is None and request.settings.init not in INITS:
        what = f"{request.settings.init} has a number of components already"
        raise ParameterError("--init", what, "give this number with --k")
    for where, name in request.inputs():
        with input_errors(name):
            path = Path(split_inner(name)[0])
            if name == "-" or (path.exists() and not path.is_file() and not path.is_dir()):
                what = f"{'standard input' if name == '-' else name} cannot be read again"
                raise ParameterError(where, what, "give it as a file")
    if request.labels is not None:
        load_labels(request.labels)


def kind_of(source: str, texts: TextInput) -> str:
    """What a source is; options that have no effect on it are refused."""
    from mccgr_cli.files.readers import input_errors
    from mccgr_cli.workflow.texts import holds_texts

    with input_errors(source):
        is_folder = Path(source).is_dir()
    if holds_texts(source, texts):
        options.refuse_given(FOR_MATRICES, f"{source} holds texts", "leave it out")
        refuse_about_images(source, used=("seed",))
        return TEXTS
    kind, unused = (IMAGES, FOR_MATRICES) if is_folder else (MATRIX, (*FOR_IMAGES, "kind"))
    what = f"{source} is {'a folder of images' if is_folder else 'a matrix'}"
    options.refuse_given((*unused, *ABOUT_TEXTS), what, "leave it out")
    return kind


def find_samples(request: Request) -> Sequence[SampleFile] | None:
    """The images or texts in a folder; None if the source is a file."""
    from mccgr_cli.images.find import images_in_folder
    from mccgr_cli.texts.find import texts_in_folder

    source, labelled = request.matrix.source, not request.images.no_labels
    if request.kind == IMAGES:
        refuse_unused(request.images, request.network, used=("seed",))
        return images_in_folder(source, labelled).images
    return texts_in_folder(source, labelled).texts if Path(source).is_dir() else None


def grid_for(request: Request, images: Any) -> Description:
    """The grid of patches: the usual one, or a finer one for small images if the user did not choose."""
    from mccgr_cli.images.grid import adapt_to_images

    usual = request.description
    chosen = options.is_given("step") or options.is_given("radii") or request.images.codebook is not None
    chosen = chosen or request.network.model is not None
    if chosen or usual.detector != Description.detector:
        return usual
    return adapt_to_images(images, usual, request.images.max_pixels)


def do_stage(stage: Stage, before: str, manifest: Manifest, output: Output, staging: Staging, last: bool) -> str:
    """Do a stage unless its file is current; return its key, on which the next stages depend."""
    from mccgr_cli.cli.job import Caller
    from mccgr_cli.files.run_manifest import hash_of

    folder, file = Path(str(output.path)), FILES[stage.name]
    leaves = f"finished stages are kept in {folder}; the same command continues"
    key = hash_of(__version__, stage.name, stage.options, checksums(stage.files), before)
    if manifest.is_current(stage.name, key, file):
        staging.skip(stage.name)
        return key
    if manifest.would_replace(stage.name, key, file) and not output.overwrite:
        refuse_replacing(manifest, stage, folder, file)
    path = str(folder / file)
    words = [*options.command_line(stage.name, *stage.values, without=stage.without), "-o", path]
    caller = Caller(words, partial(manifest.add, stage.name, key, stage.options, file), last)
    staging.begin(stage.name)
    invocation().leaves = leaves
    try:
        limit = invocation().limit
        if limit is not None:
            limit.arm()  # an earlier stage may have switched the alarm off
        stage.perform(replace(output, path=path, overwrite=True), caller)
    except KeyboardInterrupt:
        invocation().leaves = leaves
        raise
    staging.end(stage.name)
    return key


def checksums(names: Sequence[str | None]) -> dict[str, str]:
    """Checksums of the files that a stage reads beside its input."""
    from mccgr_cli.files.readers import input_errors, split_inner
    from mccgr_cli.files.run_manifest import checksum_of

    found = {}
    for name in names:
        if name is not None:
            with input_errors(name):
                found[name] = checksum_of(Path(split_inner(name)[0]))
    return found


def fingerprint_of(source: str, samples: Sequence[SampleFile] | None) -> str:
    """The hash of everything in the source."""
    from mccgr_cli.files.readers import input_errors, split_inner
    from mccgr_cli.files.run_manifest import checksum_of, hash_of
    from mccgr_cli.images.decode import UnusableImage, file_sha256

    if samples is None:
        path, inner = split_inner(source)
        with input_errors(source):
            return hash_of(checksum_of(Path(path)), Path(path).name, inner)  # the suffix decides how to read it
    contents = []
    for one in samples:
        try:
            contents.append([one.name, one.label, file_sha256(one.path)])
        except UnusableImage as fault:
            contents.append([one.name, one.label, str(fault)])
    return hash_of(contents)


def has_labels(folder: Path) -> bool:
    from mccgr_cli.files.readers import load

    return "labels" in load(str(folder / "clusters.h5"), kinds=("clusters",)).contents


def note_top_features(folder: Path, reporter: Reporter) -> None:
    """Say which words, or other features that have names, set each cluster apart."""
    from mccgr_cli.cli.top import as_list
    from mccgr_cli.files.readers import load
    from mccgr_cli.workflow.top_features import top_features

    contents = load(str(folder / FILES["cluster"]), kinds=("clusters",)).contents
    if "feature_names" in contents:
        for line in as_list(top_features(contents, TOP), contents, "cluster", measured=False).splitlines():
            reporter.note(line)
