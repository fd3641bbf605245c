"""``mccgr run``"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mccgr_cli import __version__
from mccgr_cli.cli import computing, extract, options, report, types
from mccgr_cli.cli.evaluate import labels_option
from mccgr_cli.cli.retyping import BEFORE_WRITING, COMMAND_LINE, TYPED, Retypable, Typed, arguments
from mccgr_cli.errors import OutputError, ParameterError
from mccgr_cli.settings import CLUSTER_RESTARTS, Description

if TYPE_CHECKING:
    from mccgr_cli.cli.progress import Staging
    from mccgr_cli.files.run_manifest import Manifest
    from mccgr_cli.images.find import ImageFile

OF_IMAGES = (
    *("words", "sample", "descriptors_per_image", "codebook", "no_labels", "strict", "max_pixels", "thumbnail"),
    *(field.name for field in fields(Description)),
)
OF_MATRICES = ("transpose", "label_key")
OF_CLUSTERS = ("assign", "seed")  # --k and --restarts mean the components and their starts


@dataclass(frozen=True)
class Stage:
    """A command to be called, and the file in the folder that it writes."""

    command: str
    file: str
    typed: Typed  # what it is told by the names of its options, without input and output
    source: str  # what it reads


@click.command(cls=Retypable)
@options.matrix_input("SOURCE")
@computing.preset
@computing.solver
@computing.graph
@computing.graph_features
@computing.preprocessing
@extract.learning
@extract.description
@click.option(
    "--codebook", type=types.FILE, metavar="FILE", help="Describe images as in this matrix, and with its words."
)
@click.option("--no-labels", is_flag=True, help="Folders are not categories.")
@click.option("--strict", is_flag=True, help="Fail if any image cannot be used.")
@extract.max_pixels("Leave out images with more, without decoding them.")
@computing.assignment
@computing.kmeans_restarts("--cluster-restarts", CLUSTER_RESTARTS)
@labels_option("SOURCE", "without them, there are no scores")
@report.appearance
@options.output_format("table", "json", "csv")
@options.jobs
@options.memory
@options.scheduler
@options.seed
@click.option(
    "-o", "--output", type=types.FILE, metavar="FOLDER", required=True, help="Write everything into FOLDER, made anew."
)
@click.option(
    "--overwrite", is_flag=True, help="Replace files in FOLDER that were made of another SOURCE, or not by 'mccgr run'."
)
@options.verbosity
def command(**given: Any) -> None:
    """Go all the way: from images or a matrix to clusters and a page that shows them.

    SOURCE is a folder of images as extract takes it, or a matrix as factorize takes it. FOLDER gets what each stage
    makes: matrix.h5 (of images), factors.h5, clusters.h5, clusters.csv and report.html; the scores are printed if
    there are labels. Run again, only what depends on something that has changed is done again, and a run that was
    killed goes on where it was. Options are those of the stages. Images that are smaller than usual get a finer grid
    of patches, unless --step or --radii is given.

    \b
    Examples:
      mccgr run images/ --k 5 -o out
      mccgr run counts.h5ad --k 8 --label-key cell_type -o out
      mccgr run images/ --k 5 --words 1000 --preset paper -o out
    """
    from mccgr_cli.cli import expect_more, keep
    from mccgr_cli.cli.progress import Reporter

    reporter = Reporter(given["quiet"], given["verbose"])
    folder = Path(given["output"])
    typed: Typed = click.get_current_context().meta[TYPED]
    options.told_once(given)
    check(given)
    images = images_of(given["source"], typed)
    grid = grid_for(images, typed, given) if images is not None else {}
    if images is not None and given["k"] > len(images):
        what = f"{given['k']} components are more than {len(images)} images have room for"
        raise ParameterError("--k", what, f"give at most {len(images)}")
    stages = list(plan(typed, grid, folder, images is not None, given["source"]))
    manifest = claim(folder, stages, given["source"], given["overwrite"])
    if grid:
        reporter.note(f"the images are small: --step {grid['step']} --radii {grid['radii']}")
    key = fingerprint_of(given["source"], images)
    with reporter.staging([stage.command for stage in stages]) as staging:
        for number, stage in enumerate(stages, 1):
            keep(f"what is done is kept in {folder}; the same command goes on")
            expect_more(number < len(stages))
            key = follow(stage, key, manifest, folder, staging)
    if labels_are_known(folder, given["labels"]):
        call(Stage("evaluate", "", some_of(typed, "labels", "style"), str(folder / "clusters.h5")))
    reporter.note(f"look at {folder / 'report.html'}")


def check(given: dict[str, Any]) -> None:
    """Refuse at once what a stage would refuse late, or would do otherwise than a run needs it."""
    from mccgr_cli.files.readers import accessing, load_labels, split_inner

    if not given["output"]:
        raise ParameterError("-o", "no folder name", "the command that should give it may have failed")
    if given["output"] == "-":
        raise ParameterError("-o", "a folder does not go to standard output", "name one")
    if len(given["words"]) > 1:
        raise ParameterError("--words", f"{len(given['words'])} sizes, and one matrix is clustered", "give one of them")
    for parameter in inputs_of(click.get_current_context().command, given):
        name = str(given[str(parameter.name)])
        with accessing(name):
            path = Path(split_inner(name)[0])
            if name == "-" or (path.exists() and not path.is_file() and not path.is_dir()):
                what = f"{'standard input' if name == '-' else name} cannot be read again, as it will be"
                where = parameter.opts[-1] if isinstance(parameter, click.Option) else "SOURCE"
                raise ParameterError(where, what, "give it as a file")
    if given["labels"] is not None:
        load_labels(given["labels"])


def inputs_of(command: click.Command, given: Mapping[str, Any]) -> list[click.Parameter]:
    """Of what was given, that which names a file to read."""
    of_files = [one for one in command.params if one.type is types.FILE and one.name not in options.MANNERS]
    return [one for one in of_files if given.get(str(one.name)) is not None]


def images_of(source: str, typed: Typed) -> list[ImageFile] | None:
    """Those in the folder, or None if it is a matrix."""
    from mccgr_cli.files.readers import accessing
    from mccgr_cli.images.find import find

    with accessing(source):
        is_folder = Path(source).is_dir()
    unused = OF_MATRICES if is_folder else OF_IMAGES
    for parameter in click.get_current_context().command.params:
        if parameter.name in unused and parameter.name in typed:
            what = f"{source} is {'a folder of images' if is_folder else 'a matrix'}"
            raise ParameterError(parameter.opts[-1], what, "leave it out")
    return find(source, "no_labels" not in typed).images if is_folder else None


def plan(typed: Typed, grid: Typed, folder: Path, of_images: bool, source: str) -> Iterator[Stage]:
    """The stages in their order, each with those of the options that concern it."""
    everything = {name: value for name, value in typed.items() if name not in ("source", "output", "overwrite")}
    manners = some_of(typed, "quiet", "verbose")
    shown: Typed = {}
    if of_images:
        yield Stage("extract", "matrix.h5", {**grid, **everything}, source)
        source, shown = str(folder / "matrix.h5"), {"images": source}
    unfinished: Typed = {"checkpoint": str(folder / "factors.part.h5")}
    yield Stage("factorize", "factors.h5", {**everything, **unfinished}, source)
    chosen = some_of(typed, *OF_CLUSTERS)
    if "cluster_restarts" in typed:
        chosen["restarts"] = typed["cluster_restarts"]
    yield Stage("cluster", "clusters.h5", {**chosen, **manners}, str(folder / "factors.h5"))
    clusters = str(folder / "clusters.h5")
    yield Stage("export", "clusters.csv", manners, clusters)
    yield Stage("report", "report.html", {**everything, **shown}, clusters)


def some_of(typed: Typed, *names: str) -> Typed:
    return {name: typed[name] for name in names if name in typed}


def grid_for(images: Sequence[ImageFile], typed: Typed, given: dict[str, Any]) -> Typed:
    """The grid of patches that suits the images, if it is not the usual one and nobody has decided it."""
    from mccgr_cli.images.grid import suited

    usual = options.chosen(Description, given)
    if {"step", "radii", "codebook"} & typed.keys() or usual.detector != Description.detector:
        return {}
    chosen = suited(images, usual, given["max_pixels"])
    return {} if chosen == usual else {"step": str(chosen.step), "radii": extract.listed(chosen.radii)}


def claim(folder: Path, stages: Sequence[Stage], source: str, overwrite: bool) -> Manifest:
    """Keep other runs from the folder until this one ends, and refuse to replace what no run of this source made."""
    from mccgr_cli.files.atomic_write import Claim, writing
    from mccgr_cli.files.readers import split_inner
    from mccgr_cli.files.run_manifest import NAME, Manifest, foreign
    from mccgr_cli.system.signals import postponed_interrupts

    with writing(str(folder)):
        if os.path.lexists(folder) and not folder.is_dir():
            raise OutputError(str(folder), "is not a folder", "name another with -o")
        if not folder.parent.is_dir():
            raise OutputError(str(folder), f"there is no folder {folder.parent}", "make it first")
        folder.mkdir(exist_ok=True)
    with postponed_interrupts():
        click.get_current_context().call_on_close(Claim(folder / NAME, overwrite=True).release)
    manifest, source = Manifest(folder), os.path.realpath(split_inner(source)[0])
    remedy = "choose another folder with -o, or give --overwrite"
    others = [] if overwrite else foreign(manifest, [stage.file for stage in stages])
    if others:
        what = "exists already, and was changed or not made by 'mccgr run'"
        raise OutputError(str(folder / others[0]), what, remedy)
    if not overwrite and manifest.source not in ("", source):
        raise OutputError(str(folder), f"holds what a run made of {manifest.source}", remedy)
    manifest.source = source
    manifest.leave_out([stage.command for stage in stages])
    return manifest


def fingerprint_of(source: str, images: list[ImageFile] | None) -> str:
    """The hash of all that is in the source."""
    from mccgr_cli.files.readers import accessing, split_inner
    from mccgr_cli.files.run_manifest import checksum_of, key_of
    from mccgr_cli.images.decode import Unusable, fingerprint

    if images is None:
        path, inner = split_inner(source)
        with accessing(source):
            return key_of(checksum_of(Path(path)), Path(path).name, inner)  # whose ending tells how to read it
    contents = []
    for image in images:
        try:
            contents.append([image.name, image.label, fingerprint(image.path)])
        except Unusable as fault:
            contents.append([image.name, image.label, str(fault)])
    return key_of(contents)


def contents_of(command: click.Command, typed: Typed) -> dict[str, str]:
    """The checksums of the files that were named."""
    from mccgr_cli.files.readers import accessing, split_inner
    from mccgr_cli.files.run_manifest import checksum_of

    found = {}
    for parameter in inputs_of(command, typed):
        name = str(typed[str(parameter.name)])
        with accessing(name):
            path = Path(split_inner(name)[0])
            if path.is_file():
                found[name] = checksum_of(path)
    return found


def follow(stage: Stage, before: str, manifest: Manifest, folder: Path, staging: Staging) -> str:
    """Do a stage, unless it is done; its key, on which those that come after it depend."""
    from mccgr_cli.cli import keep
    from mccgr_cli.files.run_manifest import key_of

    called = command_of(stage)
    names = [str(one.name) for one in called.params if one.name not in options.MANNERS]
    computed = some_of(stage.typed, *names)
    key = key_of(__version__, stage.command, computed, contents_of(called, computed), before)
    if manifest.is_current(stage.command, key, stage.file):
        staging.skip(stage.command)
        return key
    staging.begin(stage.command)
    click.get_current_context().meta[BEFORE_WRITING] = partial(manifest.add, stage.command, key, stage.file)
    try:
        call(stage, folder / stage.file)
    except KeyboardInterrupt:
        keep(f"what is done is kept in {folder}; the same command goes on")
        raise
    staging.end(stage.command)
    return key


def command_of(stage: Stage) -> click.Command:
    root = click.get_current_context().find_root()
    group = root.command
    assert isinstance(group, click.Group)
    found = group.get_command(root, stage.command)
    assert found is not None
    return found


def call(stage: Stage, output: Path | None = None) -> None:
    """A stage as if the user had typed it."""
    called, root = command_of(stage), click.get_current_context().find_root()
    takes = {str(parameter.name) for parameter in called.params}
    typed: Typed = {name: value for name, value in stage.typed.items() if name in takes}
    typed["source"] = stage.source
    if output is not None:
        typed |= {"output": str(output), "overwrite": True}
    with called.make_context(stage.command, arguments(called, typed), parent=root) as context:
        lasting = {name: value for name, value in typed.items() if name not in options.MANNERS or name == "output"}
        context.meta[COMMAND_LINE] = ["mccgr", stage.command, *arguments(called, lasting, for_people=True)]
        called.invoke(context)


def labels_are_known(folder: Path, given: str | None) -> bool:
    from mccgr_cli.files.readers import load

    if given is not None:
        return True
    return "labels" in load(str(folder / "clusters.h5"), kinds=("clusters",)).contents
