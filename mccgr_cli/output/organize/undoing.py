"""Take back what ``mccgr organize`` did. Nothing else is touched, and the last copy of an image is never removed."""

from __future__ import annotations

import contextlib
import os
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

from mccgr_cli.errors import DataError, ParameterError
from mccgr_cli.files.atomic_write import output_errors
from mccgr_cli.output.organize import OnProgress, locked, opened_output, spots
from mccgr_cli.output.organize.manifest import NAME, Entry, Manifest, Run, read_manifest, write_manifest
from mccgr_cli.output.organize.planning import is_unchanged, link_target, root_of
from mccgr_cli.output.organize.spots import Spot, is_regular, is_same, opened_below


class Stays(Exception):
    """An image is left where it is; the text says why."""


class StaysForNow(Stays):
    """It should be taken back later: it stays in the manifest."""


@dataclass
class Undone:
    """What an undo did."""

    removed: Counter[str] = field(default_factory=Counter)  # links and copies, by the way they came there
    moved: int = 0  # images that are back
    folders: int = 0  # removed
    left: list[tuple[str, str]] = field(default_factory=list)  # what stays for good, and why
    waiting: list[tuple[str, str]] = field(default_factory=list)  # what stays for now, and why


@dataclass(frozen=True)
class Root:
    """A folder of images."""

    path: str
    is_trusted: bool  # whether images may be moved to it


@dataclass(frozen=True)
class Step:
    """What is done with one image: the place that it leaves, and where it goes if it is moved back."""

    entry: Entry
    place: str
    root: Root
    is_move: bool

    @property
    def back(self) -> str:
        return os.path.join(self.root.path, self.entry.source)


def preview_undo(out: str, images: str | None) -> tuple[list[Step], Undone]:
    """What :func:`undo` would do. Nothing is written."""
    refuse_no_folder(out)
    with opened_output(out) as folder:
        manifest = required_manifest(folder, out)
        roots, undone, steps = choose_roots(manifest, out, images), Undone(), []
        for run, entry, inside in entries_with_folders(manifest, folder):
            step = step_of(run, entry, roots[run], out)
            with noted(step, undone):
                if is_to_do(step, run, inside):
                    steps.append(step)
    return steps, undone


def undo(out: str, images: str | None, on_start: Callable[[], None], on_progress: OnProgress) -> Undone:
    """Take everything back that the manifest of a folder names.

    Parameters
    ----------
    out
        The organized folder.
    images
        The folder to which moved images go back. It is needed only if the manifest cannot be trusted, or if the folder
        has moved.
    on_start
        Called before the first image is touched.
    on_progress
        Called after every image.
    """
    refuse_no_folder(out)
    with opened_output(out) as folder:
        required_manifest(folder, out)  # before anything is locked
        with locked(folder, out):
            manifest = required_manifest(folder, out)
            roots, undone = choose_roots(manifest, out, images), Undone()
            on_start()
            waiting: list[tuple[Run, Entry]] = []
            for number, (run, entry, inside) in enumerate(entries_with_folders(manifest, folder), 1):
                step, before = step_of(run, entry, roots[run], out), len(undone.waiting)
                with noted(step, undone):
                    if is_to_do(step, run, inside) and inside is not None:
                        take_back(step, run, inside, undone)
                if len(undone.waiting) > before:
                    waiting.append((run, entry))
                on_progress("taking back", number, len(manifest.entries))
            with output_errors(out):
                remove_folders(manifest, folder, out, undone)
                if waiting:
                    write_manifest(replace(manifest, entries=waiting), folder)
                else:
                    os.unlink(NAME, dir_fd=folder)
        if manifest.heading.made and not waiting:
            try:
                os.rmdir(out)
            except OSError:
                if not undone.left:
                    undone.left.append((out, "other files are in it"))
    return undone


def refuse_no_folder(out: str) -> None:
    if not os.path.isdir(out):
        raise DataError(out, "no such folder", "name a folder that 'mccgr organize' made")


def required_manifest(folder: int, out: str) -> Manifest:
    manifest = read_manifest(folder, out)
    if manifest is None:
        raise DataError(out, f"no {NAME} in this folder", "name a folder that 'mccgr organize' made")
    return manifest


def choose_roots(manifest: Manifest, out: str, images: str | None) -> dict[Run, Root]:
    """The folder of images of each run, and whether moved images may go back to it.

    A manifest from elsewhere could name any folder. Its moved images go back only into a folder that the user names.
    """
    real_out, real = os.path.realpath(out), None if images is None else os.path.realpath(images)
    found = {run: root_of(run, real_out) for run in manifest.runs()}
    if real is not None and len(set(found.values())) == 1:
        return dict.fromkeys(found, Root(real, True))  # they were moved, perhaps
    if real is not None and found and real not in found.values():
        what = f"{images}: the images came from {', '.join(sorted(set(found.values())))}"
        raise ParameterError("--images", what, "name one of these folders")
    moved = [root for run, root in found.items() if run.by == "move"]
    if real is None and moved and not manifest.is_own:
        what = f"{out} was copied or made by somebody else, and its images would be moved to {moved[0]}"
        raise ParameterError("--undo", what, f"if that is right, add --images {moved[0]}")
    return {run: Root(root, manifest.is_own or root == real) for run, root in found.items()}


def step_of(run: Run, entry: Entry, root: Root, out: str) -> Step:
    return Step(entry, f"{out.rstrip('/')}/{entry.folder}/{entry.name}", root, run.by == "move")


def entries_with_folders(manifest: Manifest, out: int) -> Iterator[tuple[Run, Entry, int | None]]:
    """Yield the entries with their open folders; None if the folder is gone or a link."""
    by_folder: dict[str, list[tuple[Run, Entry]]] = {}
    for run, entry in manifest.entries:
        by_folder.setdefault(entry.folder, []).append((run, entry))
    for name, entries in by_folder.items():
        inside = None
        with contextlib.suppress(OSError):
            inside = spots.open_folder(name, out)
        try:
            yield from ((run, entry, inside) for run, entry in entries)
        finally:
            if inside is not None:
                os.close(inside)


@contextlib.contextmanager
def noted(step: Step, undone: Undone) -> Iterator[None]:
    """Record why an image stays."""
    try:
        yield
    except StaysForNow as why:
        undone.waiting.append((step.place, str(why)))
    except Stays as why:
        undone.left.append((step.place, str(why)))
    except OSError as fault:
        undone.waiting.append((step.place, (fault.strerror or str(fault)).lower()))


def is_to_do(step: Step, run: Run, folder: int | None) -> bool:
    """Whether there is something to take back. Raises :class:`Stays` if what is there must stay."""
    there = None if folder is None else Spot(step.entry.name, folder).status()
    original = Spot(step.back)
    if there is None or folder is None:
        if step.is_move and original.status() is None:
            raise StaysForNow("is not there any more; if you renamed its folder, give it its old name")
        return False
    here = Spot(step.entry.name, folder)
    if run.by == "link":
        if link_target(here) != step.entry.target:
            raise Stays("was changed")
    elif not is_regular(there):
        raise StaysForNow("is no regular file") if step.is_move else Stays("was changed")
    elif step.is_move:
        if not step.root.is_trusted:
            raise StaysForNow(f"add --images {step.root.path}, if it should go back there")
        if original.status() is not None and not is_same(original, here):
            raise StaysForNow(f"another file is at {step.back}; move it away")
    else:
        original = Spot(os.path.realpath(step.back))
        if not is_regular(original.status()):
            raise Stays("the image is no longer in its folder, and this is the last copy")
        is_copy = run.by == "copy" and is_unchanged(step.entry, here)
        if not is_copy and not is_same(original, here):
            raise Stays("was changed")
    return True


def take_back(step: Step, run: Run, folder: int, undone: Undone) -> None:
    here = Spot(step.entry.name, folder)
    if not step.is_move:
        here.remove()
        undone.removed[run.by] += 1
        return
    try:
        with opened_below(step.root.path, step.entry.source) as back:
            spots.move(here, back, Spot(step.entry.temporary, back.folder))
    except FileExistsError:
        raise StaysForNow(f"another file is at {step.back}; move it away") from None
    undone.moved += 1


def remove_folders(manifest: Manifest, out: int, name: str, undone: Undone) -> None:
    """Remove the folders that were made, if they are empty."""
    known = {os.path.dirname(place) for place, _ in (*undone.left, *undone.waiting)}
    for one in manifest.folders.values():
        place = f"{name.rstrip('/')}/{one.name}"
        try:
            if one.made:
                os.rmdir(one.name, dir_fd=out)
                undone.folders += 1
        except FileNotFoundError:
            continue
        except OSError:
            if place not in known:
                undone.left.append((place, "other files are in it"))
