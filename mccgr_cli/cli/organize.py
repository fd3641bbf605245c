"""``mccgr organize``"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from mccgr_cli.cli import options, types
from mccgr_cli.cli.group import invocation
from mccgr_cli.cli.options import Output
from mccgr_cli.errors import DataError, OutputError, ParameterError
from mccgr_cli.fields import basic_option

if TYPE_CHECKING:
    from mccgr_cli.cli.progress import Reporter
    from mccgr_cli.output.organize.planning import Plan
    from mccgr_cli.output.organize.undoing import Undone

MOST_NAMED = 10  # images that are missing or stay are listed up to this number
RESULTS = {"link": "links", "hardlink": "hard links", "copy": "copies", "move": "moved"}
ONE = {"link": "link", "hardlink": "hard link", "copy": "copy"}
FOLDER: dict[str, dict[str, Any]] = {
    "path": {
        "help": "Output folder. It is created if it does not exist. Files in it are never overwritten.",
        "metavar": "FOLDER",
        "default_text": "",
    },
}


@dataclass(frozen=True)
class Organizing:
    """Which images are organized, and how."""

    clusters: str | None = None
    images: str | None = basic_option(
        None,
        "Folder of the images: the one that you gave to 'mccgr extract' or 'mccgr run'. If you gave a list of files, "
        "give the folder to which the names in the list are relative.",
        type=types.FILE,
        metavar="FOLDER",
    )
    by: str = basic_option(
        "link",
        "link: symbolic links, which take no space. They are relative, so you can move both folders together, but not "
        "one of them alone. hardlink: a second name of the same file, on the same file system. copy: copies.",
        values=("link", "hardlink", "copy"),
    )
    move: bool = basic_option(False, "Move the images: they are no longer in their folder. --undo moves them back.")
    strict: bool = basic_option(False, "Fail before anything is done if an image is missing or cannot be moved.")
    dry_run: bool = basic_option(False, "Print what would be done, one line for each image, and do nothing.")
    undo: str | None = basic_option(
        None,
        "Take back what organize did in this folder: remove its links and copies, move images back, and remove its "
        "empty folders. What you changed or added stays.",
        type=types.FILE,
        metavar="FOLDER",
    )


@options.command
@options.file_argument("clusters", "CLUSTERS", unless="undo", holds="table")
@options.gathered("output", Output, exclude=("overwrite",), changed=FOLDER)
@options.gathered("organizing", Organizing, arguments=("clusters",))
def command(organizing: Organizing, output: Output) -> None:
    """Make a folder for each cluster, with its images in it.

    CLUSTERS is a folder from run, a file from cluster or predict, or a table (.csv) from export, run or predict with
    the columns sample and cluster; without it, standard input is read. You can edit the table first. A column name in
    it says what the clusters are called.

    Folders are called cluster-00, cluster-01 and so on. If the clusters have names, or classes that evaluate matches
    with them, these are added: cluster-03-airplanes. Images keep their names. Where two images of a cluster have the
    same name, the names of their folders come before it: cats_1.jpg and dogs_1.jpg.

    The output folder gets a hidden file, .mccgr-organize.jsonl, which says what was done. The same command given again
    does only what is missing. More images can be added later, from other CLUSTERS, if no image changes its cluster.

    \b
    Examples:
      mccgr organize out --images images/ -o sorted
      mccgr organize clusters.csv --images images/ -o sorted --by copy
      mccgr organize out --images images/ -o sorted --move --dry-run
      mccgr organize --undo sorted
      mccgr predict out new_images/ | mccgr organize --images new_images/ -o sorted
    """
    from mccgr_cli.cli.progress import Reporter

    reporter = Reporter(output.quiet, output.verbose)
    if organizing.undo is not None:
        remedy = "leave it out: the folder itself says what was done"
        options.refuse_given(("clusters", "path", "by", "move", "strict"), "has no effect with --undo", remedy)
        undo(organizing.undo, organizing.images, organizing.dry_run, reporter)
    else:
        organize(organizing, output.path, reporter)


def organize(organizing: Organizing, out: str | None, reporter: Reporter) -> None:
    """Organize images, or print what would be done."""
    from mccgr_cli.files.readers import clusters_file
    from mccgr_cli.files.readers.assignments import load_assignments
    from mccgr_cli.output import organize as work

    if organizing.move and options.is_given("by"):
        raise ParameterError("--by", "--move says already what happens to the images", "give one of them")
    clusters = required("CLUSTERS", organizing.clusters, "name a clusters file, or a folder from 'mccgr run'")
    images = required("--images", organizing.images, "name the folder of the images")
    out = required("-o", out, "name the folder to make")
    if "-" in (images, out):
        raise ParameterError("--images" if images == "-" else "-o", "a folder cannot be a stream", "name a folder")
    given, by = load_assignments(clusters_file(clusters)), "move" if organizing.move else organizing.by
    if organizing.dry_run:
        plan = work.preview(given, images, by, out)
        check(plan, organizing.strict, reporter)
        show_lines([f"{by} {plan.path_of(entry)} -> {plan.place_of(entry)}" for entry in plan.pending])
        reporter.note(f"nothing was done; {describe(plan, 'would organize')}")
        return

    def on_start() -> None:
        invocation().leaves = f"the same command continues, and 'mccgr organize --undo {out}' takes it back"

    with reporter.counting("images") as on_progress:
        plan = work.organize(
            *(given, images, by, out), lambda plan: check(plan, organizing.strict, reporter), on_start, on_progress
        )
    invocation().written = True
    reporter.note(describe(plan))


def required(where: str, value: str | None, remedy: str) -> str:
    if not value:
        raise ParameterError(where, "missing", remedy)
    return value


def check(plan: Plan, strict: bool, reporter: Reporter) -> None:
    """Say which images are left out, or refuse to leave any out."""
    from mccgr_cli.output.text import plural

    left = [*((sample, "not there") for sample in plan.missing), *plan.left]
    if left and strict:
        sample, why = left[0]
        more = f", and {plural(len(left) - 1, 'other image')}" if len(left) > 1 else ""
        raise DataError(sample, f"{why}{more}", "mend it, or leave out --strict; nothing was done")
    list_some(left, "left out", reporter)
    if left:
        reporter.note(f"left out: {plural(len(left), 'image')}")


def list_some(named: Sequence[tuple[str, str]], what: str, reporter: Reporter) -> None:
    for number, (name, why) in enumerate(named):
        (reporter.note if number < MOST_NAMED else reporter.detail)(f"{what}: {name}: {why}")


def describe(plan: Plan, done: str = "organized") -> str:
    from mccgr_cli.output.text import plural

    how = RESULTS[plan.run.by]
    if not plan.pending:
        return f"nothing to do: {plural(plan.placed, 'image')} in {plan.out} already ({how})"
    before = f"; {plan.placed:,} were there already" if plan.placed else ""
    folders = plural(len({entry.folder for entry in plan.pending}), "folder")
    return f"{done} {plural(len(plan.pending), 'image')} into {folders} in {plan.out} ({how}){before}"


def show_lines(lines: Sequence[str]) -> None:
    from mccgr_cli.cli.job import show
    from mccgr_cli.errors import one_line

    if lines:
        show("\n".join(map(one_line, lines)))


def undo(out: str, images: str | None, dry_run: bool, reporter: Reporter) -> None:
    """Take back what organize did, or print what would be taken back."""
    from mccgr_cli.output.organize import undoing

    required("--undo", out, "name the folder that 'mccgr organize' made")
    if dry_run:
        steps, undone = undoing.preview_undo(out, images)
        show_lines([f"move {step.place} -> {step.back}" if step.is_move else f"remove {step.place}" for step in steps])
        list_some((*undone.left, *undone.waiting), "stays", reporter)
        reporter.note("nothing was done")
        return

    def on_start() -> None:
        invocation().leaves = "the same command continues"

    with reporter.counting("images") as on_progress:
        undone = undoing.undo(out, images, on_start, on_progress)
    invocation().written = True
    report_undone(undone, out, reporter)


def report_undone(undone: Undone, out: str, reporter: Reporter) -> None:
    from mccgr_cli.output.text import plural

    list_some((*undone.left, *undone.waiting), "stays", reporter)
    done = [f"{count:,} {ONE[by] if count == 1 else RESULTS[by]} removed" for by, count in undone.removed.items()]
    done += [f"{plural(undone.moved, 'image')} moved back"] if undone.moved else []
    done += [f"{plural(undone.folders, 'folder')} removed"] if undone.folders else []
    reporter.note(f"took back {out}: {', '.join(done) or 'nothing was left in it'}")
    if undone.waiting:
        place, why = undone.waiting[0]
        what = f"{plural(len(undone.waiting), 'image')} could not be taken back; the first is {place}: {why}"
        raise OutputError(out, what, "then give the same command again")
