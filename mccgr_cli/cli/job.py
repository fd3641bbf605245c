"""What the commands that write a file share: what was given, what was read, and where the result goes."""

from __future__ import annotations

import itertools
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mccgr_cli.blocks.from_file import blocks_of
from mccgr_cli.blocks.in_memory import size_of
from mccgr_cli.blocks.protocol import BlockSource, Matrix
from mccgr_cli.cli import options, stand
from mccgr_cli.cli.progress import Reporter
from mccgr_cli.cli.retyping import BEFORE_WRITING, COMMAND_LINE
from mccgr_cli.cli.tables import shape_of
from mccgr_cli.errors import OutputError, ParameterError
from mccgr_cli.files.atomic_write import Claim, check_destination, check_space, write_files, write_stream, writing
from mccgr_cli.files.container import Contents, encode
from mccgr_cli.files.lazy_matrix import StoredMatrix
from mccgr_cli.files.provenance import Input, record
from mccgr_cli.files.readers import FORMATS, HDF5_SUFFIXES, Loaded, accessing, load, split_inner
from mccgr_cli.settings import GraphSettings, Settings
from mccgr_cli.system.memory import available, in_words, require_least
from mccgr_cli.system.processes import Crew, Workers
from mccgr_cli.system.signals import postponed_interrupts
from mccgr_cli.workflow.placement import USABLE, Room, place

if TYPE_CHECKING:
    from mccgr_cli.distributed.connection import Cluster


class Job:
    """One run of a command. That its output can be written is checked before anything is read."""

    def __init__(
        self, given: dict[str, Any], stage: str | None, parts: Sequence[str] = ("",), readable: bool = False
    ) -> None:
        """``parts`` tell several outputs apart: X.h5 with the parts 300 and 1000 means X.300.h5 and X.1000.h5.

        Without a stage, an output that the user does not name is named later, with ``aim``. What is ``readable`` can
        go to a terminal.
        """
        require_least()
        self.given = given
        by_user = click.get_current_context().get_parameter_source("jobs") is click.core.ParameterSource.COMMANDLINE
        if by_user and given.get("scheduler") is not None:
            raise ParameterError("--jobs", "a cluster (--scheduler) has workers of its own", "give one of them")
        self.reporter = Reporter(given["quiet"], given["verbose"])
        self.inputs: list[Input] = []
        self.paths: list[Path] = []
        self.takes = 0.0  # bytes of memory, once X is known
        self.afterwards: list[Callable[[], None]] = []  # what is to be done when the result is out
        self._claims = ExitStack()
        click.get_current_context().call_on_close(self._claims.close)
        output = given["output"]
        self.announce = output is None
        self.readable = readable
        self.to_stdout = output == "-"
        if output == "":
            raise ParameterError("-o", "no file name", "the command that should give it may have failed")
        if output is not None:
            self.aim(Path(output), parts)
        elif stage is not None:
            self.aim(derived_path(given["source"], stage), parts)

    def aim(self, whole: Path, parts: Sequence[str] = ("",)) -> None:
        """Choose where the result goes, if it can go there."""
        overwrite = self.given["overwrite"]
        if not self.to_stdout:
            check_destination(whole, overwrite=overwrite or len(parts) > 1)
        self.paths = [whole.with_suffix(f".{part}{whole.suffix}") if part else whole for part in parts]
        if self.to_stdout:
            if len(parts) > 1:
                raise ParameterError("-o -", f"{len(parts)} results in one stream", "give a file name, or ask for one")
            if sys.stdout is None:
                raise OutputError("standard output", "closed", "pipe it on or give a file")
            if sys.stdout.isatty() and not self.readable:
                raise ParameterError("-o -", "the file would garble the terminal", "pipe it on or give a file")
        else:
            for path in self.paths:
                self.claim(path, overwrite)

    def claim(self, path: Path, overwrite: bool) -> None:
        """Keep other runs from writing this file, until the command ends."""
        with postponed_interrupts():
            self._claims.callback(Claim(path, overwrite).release)

    def expect(self, *sizes: float) -> None:
        """Refuse before anything is computed outputs of so many bytes for which there is no room on the disk."""
        for path, size in zip(() if self.to_stdout else self.paths, sizes, strict=False):
            check_space(path, size)

    def load(self, source: str, kinds: Sequence[str]) -> Loaded:
        """An input, remembered for the provenance of the output."""
        about_matrix = [name for name in ("transpose", "label_key") if "matrix" in kinds and name in self.given]
        loaded = load(source, kinds=kinds, **{name: self.given[name] for name in about_matrix})
        main = next((name for name in ("X", "W", "A", "assignments") if name in loaded.contents), None)
        self.reporter.detail(f"read {loaded.name}: {main} {shape_of(loaded.contents[main])}" if main else loaded.name)
        if source != "-":
            self.spare([split_inner(source)[0]])
        self.inputs.append(Input(loaded.name, loaded.sha256, loaded.contents.provenance))
        return loaded

    @contextmanager
    def samples(self, settings: Settings | None, graph: GraphSettings | None) -> Iterator[tuple[Loaded, BlockSource]]:
        """The matrix that is factorized, or whose graph is built, or both, wherever it fits; and what comes with it."""
        with self.cluster() as cluster:  # before anything is read, which may take long
            room = self.room(settings, graph)
            loaded = self.load(self.given["source"], ("matrix",))
            X = place(loaded, room, self.given["normalize"], self.given["dtype"], keep_in_file=cluster is not None)
            if cluster is not None:
                from mccgr_cli.distributed.blocks import ClusterBlocks

                yield loaded, ClusterBlocks(X, cluster)
                return
            self.note_stay(X)
            in_file = isinstance(X, StoredMatrix)
            size = X.size if isinstance(X, StoredMatrix) else size_of(X)
            if not in_file and room.is_exceeded_by(size):
                room.check_whole(size, loaded.name)
                what = "all of it is in memory, as only HDF5 by rows is read some at a time"
                self.reporter.note(f"{loaded.name}: {what}")
            self.takes = room.taken(size, in_file)
            yield loaded, blocks_of(X)

    def note_stay(self, X: Matrix | StoredMatrix) -> None:
        if isinstance(X, StoredMatrix):
            self.reporter.note(f"X, {in_words(X.size.bytes)}, stays in its file")

    def room(self, settings: Settings | None, graph: GraphSettings | None) -> Room:
        given = self.given["memory"]
        kept = 2 if self.given.get("resume") else int(self.given.get("checkpoint") is not None)
        return Room(given or USABLE * available(), given is not None, settings, graph, kept)

    @contextmanager
    def cluster(self) -> Iterator[Cluster | None]:
        """The one that was asked for, if any."""
        if self.given.get("scheduler") is None:
            yield None
            return
        from mccgr_cli.distributed.connection import joined

        with joined(self.given["scheduler"], self.reporter.note) as cluster:
            cluster.await_workers()
            yield cluster

    @contextmanager
    def crew(self, items: int, files: Sequence[str] = ()) -> Iterator[Crew]:
        """Whoever shares the work on so many items, and sees the files: processes of this machine, or a cluster."""
        with self.cluster() if items else nullcontext() as cluster:
            if cluster is None:
                with Workers(min(self.given["jobs"], items)) as workers:
                    yield workers
                return
            from mccgr_cli.distributed.processes import ClusterWorkers

            cluster.require_files(files)
            yield ClusterWorkers(cluster)

    def spare(self, inputs: Iterable[str], outputs: Iterable[Path] | None = None) -> None:
        """Refuse to write over an input."""
        outputs = ([] if self.to_stdout else self.paths) if outputs is None else outputs
        there = [path for path in outputs if path.exists()]
        if there:
            for given, path in itertools.product(inputs, there):
                if os.path.exists(given) and path.samefile(given):  # noqa: PTH110
                    raise OutputError(str(path), "is also an input", "choose another name with -o")

    def write(self, *results: Contents) -> None:
        provenance = self.provenance()
        self.deliver(*(encode(replace(contents, provenance=provenance)) for contents in results))

    def provenance(self) -> dict[str, Any]:
        context = click.get_current_context()
        return record(str(context.info_name), self.parameters(), self.inputs, context.meta.get(COMMAND_LINE))

    def parameters(self) -> dict[str, Any]:
        """What is computed, apart from the inputs."""
        return {name: value for name, value in self.given.items() if name not in options.MANNERS}

    def deliver(self, *encoded: bytes) -> None:
        """Bytes to where they are wanted."""
        if self.to_stdout:
            write_stream(encoded[0], sys.stdout.buffer)
            self.stand()
        else:
            click.get_current_context().meta.get(BEFORE_WRITING, lambda *_: None)(*encoded)
            write_files(dict(zip(self.paths, encoded, strict=True)), self.given["overwrite"], self.tell)

    def stand(self) -> None:
        """The result is out."""
        stand()
        for action in self.afterwards:
            action()

    def tell(self) -> None:
        """The names of the files that were written, to whom they are of use."""
        self.stand()
        for path in self.paths:
            if self.announce and sys.stdout is not None:
                show(str(path))
            else:
                self.reporter.note(f"wrote {path}")


def show(text: str) -> None:
    """Print a result."""
    if sys.stdout is None:
        raise OutputError("standard output", "closed", "pipe it on or to a file")
    with writing("standard output"):
        click.echo(text)
        sys.stdout.flush()


def derived_path(source: str, stage: str, suffix: str = ".h5") -> Path:
    """``data/X.h5`` and the stage ``factors`` make ``data/X.factors.h5``; a folder ``data/X/`` makes ``data/X.h5``.

    Without a stage only the suffix is another.
    """
    if source == "-":
        raise ParameterError("-o", "missing, and standard input has no name to derive one from", "add it")
    path = Path(split_inner(source)[0])
    with accessing(source):
        folder = path.is_dir()
    if folder:
        whole = Path(os.path.abspath(path))  # noqa: PTH100 - unlike absolute(), this knows what .. is
        if not whole.name:
            raise ParameterError("-o", f"missing, and {source} has no name to derive one from", "add it")
        return (path if path.name == whole.name else whole).with_name(f"{whole.name}.h5")
    ending = max((end for end in (*FORMATS, *HDF5_SUFFIXES) if path.name.lower().endswith(end)), key=len, default="")
    stem = path.name[: len(path.name) - len(ending)] or path.name
    return path.parent / (f"{stem}.{stage}{suffix}" if stage else f"{stem}{suffix}")
