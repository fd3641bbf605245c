"""The output folder of ``mccgr run``: no other run works in it, and no earlier result in it is lost."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from mccgr_cli import __version__
from mccgr_cli.cli.help import as_typed
from mccgr_cli.cli.run_plan import RANK, Request, Stage, stages_after_k, stages_before_k
from mccgr_cli.errors import OutputError
from mccgr_cli.files.run_manifest import Manifest

OTHER_OPTIONS = "holds results of other options: "
REMEDY = "choose another folder with -o, or give --overwrite"


@contextmanager
def locked(request: Request) -> Iterator[Manifest]:
    """What was done in the folder. Other runs are kept out, and files that no run made are not replaced."""
    from mccgr_cli.files.atomic_write import OutputLock, output_errors
    from mccgr_cli.files.run_manifest import NAME, files_of_others
    from mccgr_cli.system.signals import postponed_interrupts

    folder, files = request.folder, request.files
    with output_errors(str(folder)):
        if os.path.lexists(folder) and not folder.is_dir():
            raise OutputError(str(folder), "is not a folder", "name another with -o")
        if not folder.parent.is_dir():
            raise OutputError(str(folder), f"there is no folder {folder.parent}", "make it first")
        folder.mkdir(exist_ok=True)
    with ExitStack() as locks:
        with postponed_interrupts():
            locks.callback(OutputLock(folder / NAME, overwrite=True).release)
        manifest = Manifest(folder)
        others = [] if request.output.overwrite else files_of_others(manifest, list(files.values()))
        if others:
            what = "exists already, and was changed or not made by 'mccgr run'"
            raise OutputError(str(folder / others[0]), what, REMEDY)
        yield manifest


def check_earlier_result(manifest: Manifest, request: Request, contents: str) -> None:
    """Refuse to replace the result of another run, unless the user allows it; ``contents``: hash of the source."""
    from mccgr_cli.files.readers import split_inner

    source = os.path.realpath(split_inner(request.matrix.source)[0])
    what = difference(manifest, request, source, contents)
    if what is not None and not request.output.overwrite:
        raise OutputError(str(request.folder), what, REMEDY)
    same = manifest.source == source
    manifest.source, manifest.contents, manifest.version = source, contents, __version__
    manifest.remove_other_stages([*request.files, RANK] if same else [*request.files])


def difference(manifest: Manifest, request: Request, source: str, contents: str) -> str | None:
    """In what the result in the folder differs from the one to make, in words; None if it does not."""
    if not manifest.holds_results():
        return None
    if manifest.source not in ("", source):
        return f"holds results of {manifest.source}"
    if manifest.contents not in ("", contents):
        return f"holds results of {request.matrix.source} as it was before it changed"
    if manifest.version not in ("", __version__):
        return f"holds results of mccgr {manifest.version}"
    changed = changed_options(manifest, request)
    return OTHER_OPTIONS + ", ".join(changed) if changed else None


def changed_options(manifest: Manifest, request: Request) -> list[str]:
    """Options that differ from those of the stages that are done, with their values."""
    k = request.k or manifest.options("factorize").get("k", 1)
    stages = [*stages_before_k(request), *stages_after_k(request, k)]
    if request.k is None and not manifest.options(RANK) and manifest.options("factorize"):
        return [f"--k was {k}"]
    return changes(manifest, stages)


def changes(manifest: Manifest, stages: Sequence[Stage]) -> list[str]:
    """Options of these stages that differ from those with which they are done, as the user would type them."""
    told: dict[str, None] = {}
    for stage in stages:
        done = manifest.options(stage.name)
        for name, value in stage.options.items():
            if name in done and as_stored(value) != as_stored(done[name]):
                flag = "cluster_restarts" if (stage.name, name) == ("cluster", "restarts") else name
                was = "not given" if done[name] is None else as_typed(as_stored(done[name]))
                told[f"--{flag.replace('_', '-')} was {was}"] = None
    return list(told)


def refuse_replacing(manifest: Manifest, stage: Stage, folder: Path, file: str) -> None:
    """Say why the result of a stage is not replaced: another k was recommended, or a file that it reads has changed."""
    told = changes(manifest, [stage])
    if told:
        raise OutputError(str(folder), OTHER_OPTIONS + ", ".join(told), REMEDY)
    raise OutputError(str(folder / file), "would be replaced: a file that it depends on has changed", REMEDY)


def as_stored(value: Any) -> Any:
    """A value as it comes back from JSON, with tuples for lists."""
    return tuple(value) if isinstance(value, list) else value
