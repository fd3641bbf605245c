"""A folder for each cluster, with its images in it: ``organize`` makes it, ``undoing.undo`` takes it back.

``planning`` decides which image goes where, ``names`` what folders and files are called, ``spots`` puts files in place,
``manifest`` keeps a record in the folder, from which a killed run continues.
"""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
import shutil
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

from mccgr_cli.errors import OutputError
from mccgr_cli.files.atomic_write import REMEDIES, OutputLock, output_errors
from mccgr_cli.files.readers.assignments import Assignments
from mccgr_cli.output.organize import spots
from mccgr_cli.output.organize.manifest import (
    NAME,
    Entry,
    Heading,
    Manifest,
    heading_for,
    read_manifest,
    temporary_name,
    write_manifest,
)
from mccgr_cli.output.organize.planning import Plan, make_plan
from mccgr_cli.output.organize.spots import NO_HARD_LINKS, Spot, opened_folder
from mccgr_cli.system.memory import format_bytes
from mccgr_cli.system.signals import postponed_interrupts

OnProgress = Callable[[str, int, int], None]  # what is being done, how many images are done, of how many
DOING = {"link": "linking", "hardlink": "linking", "copy": "copying", "move": "moving"}
# What systems say where a file system has no symbolic links.
NO_LINKS = (errno.EPERM, errno.EOPNOTSUPP, errno.ENOTSUP, errno.ENOSYS)


def preview(given: Assignments, images: str, by: str, out: str) -> Plan:
    """What :func:`organize` would do. Nothing is written."""
    refuse_file(out)
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(opened_output(out)) if os.path.isdir(out) else None
        manifest = read_manifest(folder, out) if folder is not None else None
        return make_plan(given, images, by, manifest or Manifest(Heading("", 0, 0, True)), out, folder)


def organize(
    given: Assignments,
    images: str,
    by: str,
    out: str,
    check: Callable[[Plan], None],
    on_start: Callable[[], None],
    on_progress: OnProgress,
) -> Plan:
    """Make a folder for each cluster in the folder ``out``.

    Parameters
    ----------
    given, images, by
        See :func:`planning.make_plan`.
    check
        Called with the plan before anything is done; may refuse it.
    on_start
        Called before the first image is touched: from then on, another run continues.
    on_progress
        Called after every image.
    """
    with locked_output(out) as (folder, made):
        manifest = read_manifest(folder, out) or Manifest(heading_for(folder, made))
        plan = make_plan(given, images, by, manifest, out, folder)
        check(plan)
        if plan.pending:
            require_possible(plan, folder)
            on_start()
            with output_errors(out):
                if plan.changes_manifest:
                    write_manifest(manifest, folder)
            place_all(plan, folder, on_progress)
    return plan


# The output folder


def refuse_file(out: str) -> None:
    with output_errors(out):
        if os.path.lexists(out) and not os.path.isdir(out):
            raise OutputError(out, "is not a folder", "name another with -o")


@contextlib.contextmanager
def opened_output(out: str) -> Iterator[int]:
    with output_errors(out):
        folder = spots.open_folder(out)
    try:
        yield folder
    finally:
        os.close(folder)


@contextlib.contextmanager
def locked_output(out: str) -> Iterator[tuple[int, bool]]:
    """The open output folder, and whether it was made just now. Other runs are kept out of it.

    If the block fails and the new folder is empty, it is removed.
    """
    refuse_file(out)
    parent = Path(out).parent
    with output_errors(out):
        if not parent.is_dir():
            raise OutputError(out, f"there is no folder {parent}", "make it first")
        made = not Path(out).exists()
        Path(out).mkdir(exist_ok=True)
    try:
        with opened_output(out) as folder, locked(folder, out):
            yield folder, made
    except BaseException:
        if made:
            with contextlib.suppress(OSError):
                Path(out).rmdir()
        raise


@contextlib.contextmanager
def locked(folder: int, out: str) -> Iterator[None]:
    """Keep other runs out of a folder."""
    status = Spot(NAME, folder).status()
    if status is not None and not stat.S_ISREG(status.st_mode):  # the lock would lie where a link leads
        raise OutputError(f"{out.rstrip('/')}/{NAME}", "is a link or no file", "move it away, or choose another folder")
    with contextlib.ExitStack() as locks:
        with postponed_interrupts():
            locks.callback(OutputLock(Path(out) / NAME, overwrite=True).release)
        yield


# What is done


def require_possible(plan: Plan, folder: int) -> None:
    """Refuse before anything is done what the file system cannot do."""
    by, here = plan.run.by, os.fstat(folder).st_dev
    if by == "copy":
        require_space(plan.out, sum(size for size, _ in plan.devices.values()))
    elif by == "move":
        require_space(plan.out, sum(size for device, (size, _) in plan.devices.items() if device != here))
        for parent in {os.path.dirname(plan.path_of(entry)) for entry in plan.pending}:
            if not os.access(parent, os.W_OK | os.X_OK):
                raise OutputError(parent, "no permission to move images out of this folder", "leave out --move")
    else:
        for _, example in plan.devices.values():
            try_link(plan, example, folder)


def require_space(out: str, size: int) -> None:
    with output_errors(out):
        free = shutil.disk_usage(out).free
    if size > free:
        what = f"the images take {format_bytes(size)}, and {format_bytes(free)} are free"
        raise OutputError(out, what, REMEDIES[errno.ENOSPC])


def try_link(plan: Plan, image: str, folder: int) -> None:
    """Refuse a file system that has no links to the one of an image."""
    probe = Spot(temporary_name(), folder)
    with placing_errors(plan.out, plan.run.by):
        try:
            if plan.run.by == "link":
                os.symlink("nowhere", probe.name, dir_fd=folder)
            else:
                spots.hard_link(Spot(os.path.realpath(image)), probe)
        finally:
            with contextlib.suppress(FileNotFoundError):
                probe.remove()


def place_all(plan: Plan, out: int, on_progress: OnProgress) -> None:
    doing, total, done = DOING[plan.run.by], len(plan.pending), itertools.count(1)
    temporary = Spot(temporary_name(), out)
    ordered = sorted(plan.pending, key=lambda entry: entry.folder)
    try:
        for name, entries in itertools.groupby(ordered, key=lambda entry: entry.folder):
            with contextlib.ExitStack() as stack:
                with placing_errors(f"{plan.out.rstrip('/')}/{name}", plan.run.by):
                    inside = stack.enter_context(opened_folder(name, out, create=True))
                for entry in entries:
                    with placing_errors(plan.place_of(entry), plan.run.by):
                        place(plan, entry, inside, temporary)
                    on_progress(doing, next(done), total)
    except OutputError as fault:
        raise fault.with_remedy(
            f"then the same command continues, and 'mccgr organize --undo {plan.out}' takes it back"
        ) from None


def place(plan: Plan, entry: Entry, folder: int, temporary: Spot) -> None:
    """Put one image into its folder."""
    source, dest = Spot(plan.path_of(entry)), Spot(entry.name, folder)
    if plan.run.by == "link":
        os.symlink(entry.target, dest.name, dir_fd=folder)
    elif plan.run.by == "hardlink":
        spots.hard_link(Spot(os.path.realpath(source.name)), dest)
    elif plan.run.by == "copy":
        spots.copy(source, dest, temporary)
    else:
        with contextlib.suppress(OSError):  # left by an undo that was killed
            Spot(os.path.join(os.path.dirname(source.name), entry.temporary)).remove()
        spots.move(source, dest, temporary)


@contextlib.contextmanager
def placing_errors(where: str, by: str) -> Iterator[None]:
    """Turn errors of the system into an OutputError with a remedy."""
    try:
        yield
    except FileExistsError:
        raise OutputError(where, "exists already, and is not this image", "move it away") from None
    except OSError as fault:
        reason, remedy = (fault.strerror or str(fault)).lower(), REMEDIES.get(fault.errno or 0, "")
        if by == "link" and fault.errno in NO_LINKS:
            reason, remedy = "this file system has no symbolic links", "give --by copy"
        elif by == "hardlink" and fault.errno in (errno.EXDEV, *NO_HARD_LINKS):
            reason, remedy = f"no hard link is possible here ({reason})", "give --by link or --by copy"
        elif fault.errno in (errno.ELOOP, errno.ENOTDIR):
            reason, remedy = "a link or a file has the name of a folder", "move it away"
        elif fault.errno == errno.ENOENT:
            reason, remedy = "the image or its folder is gone", "leave files alone while this command runs"
        raise OutputError(where, f"cannot write: {reason}", remedy) from None
