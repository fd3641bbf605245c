"""Which image goes where: the clusters, the images that are there, and what earlier runs have done."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from mccgr_cli.errors import DataError, OutputError, ParameterError
from mccgr_cli.files.folders import count_of
from mccgr_cli.files.readers.assignments import Assignments
from mccgr_cli.images.thumbnails import locate_images, path_within
from mccgr_cli.output.organize.manifest import Entry, Folder, Manifest, Run
from mccgr_cli.output.organize.names import digits_for, distinct_names, folder_name, titles_of
from mccgr_cli.output.organize.spots import Spot, is_regular, is_same, open_folder

COARSEST_TIME = 2_000_000_000  # nanoseconds: some file systems round times to two seconds


@dataclass(frozen=True)
class Image:
    """An image of the clusters file that was found."""

    sample: str
    cluster: int
    path: str  # absolute, in the folder of images


@dataclass
class Plan:
    """What is to be done. The manifest has all of it, also what is done already."""

    out: str
    run: Run
    manifest: Manifest
    pending: list[Entry] = field(default_factory=list)
    devices: dict[int, tuple[int, str]] = field(default_factory=dict)  # with pending images: bytes, and one of them
    placed: int = 0  # images that are in place already
    missing: list[str] = field(default_factory=list)  # samples whose images are not there
    left: list[tuple[str, str]] = field(default_factory=list)  # samples that cannot be moved, and why
    changes_manifest: bool = False
    _real: dict[str, str] = field(default_factory=dict)

    def real_folder(self, path: str) -> str:
        """The folder of an image, without links."""
        folder = os.path.dirname(path)
        if folder not in self._real:
            self._real[folder] = os.path.realpath(folder)
        return self._real[folder]

    def path_of(self, entry: Entry) -> str:
        return os.path.join(self.run.images, entry.source)  # any bytes

    def place_of(self, entry: Entry) -> str:
        return f"{self.out.rstrip('/')}/{entry.folder}/{entry.name}"


def make_plan(given: Assignments, images: str, by: str, manifest: Manifest, out: str, folder: int | None) -> Plan:
    """Decide what is to be done.

    Parameters
    ----------
    given
        The cluster of every sample.
    images
        The folder of images.
    by
        How images get into the folder: one of ``manifest.WAYS``.
    manifest
        What earlier runs have done; the plan is added to it.
    out, folder
        The organized folder: its name, and the open folder if it exists.
    """
    real_out, real_images = os.path.realpath(out), os.path.realpath(images)
    if real_out == real_images:
        raise OutputError(out, "is the folder of the images", "choose another folder with -o")
    run = Run(real_images, os.path.relpath(real_images, real_out), by)
    plan = Plan(out, run, manifest)
    known = known_entries(plan, real_out)
    found = find_images(given, images, plan, known)
    if by == "move":
        found = [image for image in found if can_be_moved(image, plan)]
    assign_folders(found, given, plan, folder)
    entries, fresh = assign_names(found, plan, known, real_out)
    sort_by_state(entries, fresh, plan, folder)
    return plan


# Images


def known_entries(plan: Plan, real_out: str) -> dict[str, tuple[Run, Entry]]:
    """What earlier runs have planned, by the paths of the images."""
    roots = {run: root_of(run, real_out) for run in plan.manifest.runs()}
    for run, root in roots.items():
        if run.by == "link" and not os.path.isdir(root):
            raise other_clusters(plan, f"its links lead to {root}, which is not there any more")
    return {os.path.join(roots[run], entry.source): (run, entry) for run, entry in plan.manifest.entries}


def root_of(run: Run, real_out: str) -> str:
    """The folder of images, also if it was moved together with the organized folder."""
    if os.path.isdir(run.images):
        return run.images
    beside = os.path.normpath(os.path.join(real_out, run.beside))
    return beside if os.path.isdir(beside) else run.images


def find_images(given: Assignments, folder: str, plan: Plan, known: dict[str, tuple[Run, Entry]]) -> list[Image]:
    """The images of all samples. One that an earlier run has moved counts as found."""
    root = plan.run.images
    here = [(path, entry) for path, (_, entry) in known.items() if path == os.path.join(root, entry.source)]
    by_sample = {entry.sample: path for path, entry in here}
    unknown = list(dict.fromkeys(sample for sample in given.samples if sample not in by_sample))
    paths: dict[str, str | None] = {**by_sample, **dict(zip(unknown, locate(folder, root, unknown), strict=True))}
    samples = dict.fromkeys(given.samples)
    if not any(paths[sample] for sample in samples):
        what = f"none of the {count_of(len(samples), 'image')} named in {given.source} is there"
        remedy = "name the folder that extract was given; for a list, the folder to which its names are relative"
        raise ParameterError("--images", f"{folder}: {what}", remedy)
    plan.missing += [sample for sample in samples if paths[sample] is None]
    found: dict[str, Image] = {}
    for sample, cluster in zip(given.samples, given.clusters, strict=True):
        path = paths[sample]
        if path is not None:
            place = os.path.join(plan.real_folder(path), os.path.basename(path))  # the same for all names of one file
            first = found.setdefault(place, Image(sample, cluster, path))
            if first.cluster != cluster:
                what = f"{sample} is in cluster {cluster}, and in cluster {first.cluster}"
                if first.sample != sample:
                    what += f" as {first.sample}"
                raise DataError(given.source, what, "put every image into one cluster")
    return list(found.values())


def locate(folder: str, root: str, samples: Sequence[str]) -> list[str | None]:
    """The paths of images below the root; None for missing ones. No name leads out of the folder.

    Names on a list may be relative to the current folder.
    """
    base = os.path.abspath(folder)
    found: list[str | None] = []
    for sample, path in zip(samples, locate_images(folder, samples), strict=True):
        if path is None and "\0" not in sample:
            path = path_within(base, os.path.abspath(sample))
        there = path is not None and os.path.isfile(path)
        found.append(os.path.join(root, os.path.relpath(os.path.abspath(path), base)) if path and there else None)
    return found


def can_be_moved(image: Image, plan: Plan) -> bool:
    """Only files that lie in the folder of images are moved, not links, nor what is behind links."""
    status, root = Spot(image.path).status(), os.path.join(plan.run.images, "")
    if status is not None and not is_regular(status):
        plan.left.append((image.sample, "a link is not moved"))
    elif not os.path.join(plan.real_folder(image.path), "").startswith(root):
        plan.left.append((image.sample, "lies behind a link that leads out of the folder of images"))
    else:
        return True
    return False


# Folders and names


def assign_folders(found: Sequence[Image], given: Assignments, plan: Plan, out: int | None) -> None:
    """Add the folders of all clusters to the manifest. A cluster keeps the folder that it has."""
    titles, digits = titles_of(given), digits_for(given.clusters)
    known = {one.cluster: one for one in plan.manifest.folders.values()}
    for cluster in sorted({image.cluster for image in found}):
        title = titles.get(cluster, "")
        if cluster not in known:
            name = folder_name(cluster, digits, title)
            made = out is None or Spot(name, out).status() is None
            plan.manifest.folders[name] = Folder(name, cluster, title, made)
            plan.changes_manifest = True
        elif known[cluster].title != title:
            raise other_clusters(plan, f"cluster {cluster} is {known[cluster].title or 'without a name'} there")


def other_clusters(plan: Plan, why: str) -> OutputError:
    remedy = f"choose another folder with -o, or first take back what is there: mccgr organize --undo {plan.out}"
    return OutputError(plan.out, f"holds another result: {why}", remedy)


def assign_names(
    found: Sequence[Image], plan: Plan, known: dict[str, tuple[Run, Entry]], real_out: str
) -> tuple[list[Entry], set[Entry]]:
    """The entries of all images, and which of them are new. An image keeps the name that it has."""
    folders = {one.cluster: one.name for one in plan.manifest.folders.values()}
    entries: list[Entry] = []
    new: dict[str, dict[str, Image]] = {}
    for image in found:
        if image.path not in known:
            new.setdefault(folders[image.cluster], {})[image.path] = image
            continue
        run, entry = known[image.path]
        if entry.folder != folders[image.cluster]:
            raise other_clusters(plan, f"{image.sample} is in {entry.folder}, and would be in {folders[image.cluster]}")
        if run.by != plan.run.by:
            raise other_clusters(plan, f"{image.sample} came there by {run.by}, not by {plan.run.by}")
        if entry.target != target_of(plan.run.by, image.path, real_out, entry.folder):
            raise other_clusters(plan, f"{entry.folder}/{entry.name} leads to {entry.target}")
        entries.append(replace(entry, source=os.path.relpath(image.path, plan.run.images), sample=image.sample))
    taken: dict[str, list[str]] = {}
    for _, entry in plan.manifest.entries:
        taken.setdefault(entry.folder, []).append(entry.name)
    fresh: set[Entry] = set()
    for folder, images in new.items():
        names = distinct_names(list(images), taken.get(folder, ()))
        for path, image in images.items():
            target = target_of(plan.run.by, path, real_out, folder)
            source = os.path.relpath(path, plan.run.images)
            fresh.add(Entry(source, folder, names[path], image.sample, target, 0, 0))
    return [*entries, *fresh], fresh


def target_of(by: str, path: str, real_out: str, folder: str) -> str:
    """What a symbolic link contains: a path relative to its folder."""
    return os.path.relpath(path, os.path.join(real_out, folder)) if by == "link" else ""


# What is done already


def sort_by_state(entries: Iterable[Entry], fresh: set[Entry], plan: Plan, out: int | None) -> None:
    """Find out what is in place, and add the rest to the plan. A name that something else has is an error."""
    by_folder: dict[str, list[Entry]] = {}
    for entry in entries:
        by_folder.setdefault(entry.folder, []).append(entry)
    added: dict[str, Entry] = {}
    for name, some in sorted(by_folder.items()):
        folder = None if out is None or Spot(name, out).status() is None else open_in(out, name, plan)
        try:
            for entry in sorted(some, key=lambda one: os.fsencode(one.name)):
                add_entry(entry, entry in fresh, plan, folder, added)
        finally:
            if folder is not None:
                os.close(folder)
    if added:
        kept = [(run, entry) for run, entry in plan.manifest.entries if place(entry) not in added]
        plan.manifest.entries = [*kept, *((plan.run, entry) for entry in added.values())]
        plan.changes_manifest = True


def open_in(out: int, name: str, plan: Plan) -> int:
    try:
        return open_folder(name, out)
    except OSError:
        what = "is a link or no folder, and was not made by 'mccgr organize'"
        raise OutputError(f"{plan.out.rstrip('/')}/{name}", what, "move it away, or choose another -o") from None


def add_entry(entry: Entry, is_fresh: bool, plan: Plan, folder: int | None, added: dict[str, Entry]) -> None:
    source = Spot(plan.path_of(entry))
    try:
        status = os.stat(source.name)  # of what a link leads to
    except OSError:
        status = None
    there = None if folder is None else Spot(entry.name, folder).status()
    if there is not None and folder is not None:
        state = "foreign" if is_fresh else state_of(entry, plan.run.by, source, Spot(entry.name, folder))
        if state == "foreign":
            what = "exists already, and was changed or not made by 'mccgr organize'"
            raise OutputError(plan.place_of(entry), what, "move it away, or choose another folder with -o")
        if state == "placed" and (status is not None or plan.run.by != "link"):
            plan.placed += 1
            return
    if status is None:
        plan.missing.append(entry.sample)
        return
    current = replace(entry, size=status.st_size, mtime=status.st_mtime_ns)
    plan.pending.append(current)
    size, example = plan.devices.get(status.st_dev, (0, source.name))
    plan.devices[status.st_dev] = size + status.st_size, example
    if current != entry or is_fresh:
        added[place(current)] = current


def place(entry: Entry) -> str:
    return f"{entry.folder}/{entry.name}"


def state_of(entry: Entry, by: str, source: Spot, dest: Spot) -> str:
    """Whether what is there is the image (placed), the image whose source is still to be removed (half), or foreign."""
    status, there = source.status(), dest.status()
    if by == "link":
        return "placed" if link_target(dest) == entry.target else "foreign"
    if not is_regular(there):
        return "foreign"
    if by == "hardlink":
        real = Spot(os.path.realpath(source.name))
        return "placed" if status is None or is_same(real, dest) else "foreign"
    if by == "copy":
        return "placed" if is_unchanged(entry, dest) else "foreign"
    if status is None:
        return "placed"
    return "half" if is_same(source, dest) else "foreign"


def is_unchanged(entry: Entry, dest: Spot) -> bool:
    """Whether a copy is as it was made."""
    status = dest.status()
    if status is None or not is_regular(status) or status.st_size != entry.size:
        return False
    return abs(status.st_mtime_ns - entry.mtime) <= COARSEST_TIME


def link_target(spot: Spot) -> str | None:
    try:
        return os.readlink(spot.name, dir_fd=spot.folder)
    except OSError:
        return None
