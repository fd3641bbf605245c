"""What commands that write a file share: inputs are loaded, a result is written with its provenance."""

from __future__ import annotations

import itertools
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

import click

from mccgr_cli.blocks.protocol import Matrix
from mccgr_cli.cli.group import invocation
from mccgr_cli.cli.options import MatrixInput, Output, Resources
from mccgr_cli.cli.piping import STREAM, continues_pipe
from mccgr_cli.cli.progress import Reporter
from mccgr_cli.cli.tables import shape_of
from mccgr_cli.errors import MccgrError, OutputError, ParameterError
from mccgr_cli.files.atomic_write import (
    OutputLock,
    changed_copy,
    check_destination,
    check_space,
    output_errors,
    write_files,
    write_stream,
)
from mccgr_cli.files.container import Contents, encode
from mccgr_cli.files.lazy_matrix import StoredMatrix
from mccgr_cli.files.provenance import Input, record
from mccgr_cli.files.readers import FORMATS, HDF5_SUFFIXES, Loaded, input_errors, load, split_inner
from mccgr_cli.settings import GraphSettings, Settings
from mccgr_cli.system.memory import available_memory, format_bytes, require_minimum
from mccgr_cli.system.phases import listening, phase
from mccgr_cli.system.processes import LocalPool, WorkerPool, usable_cores
from mccgr_cli.system.signals import postponed_interrupts
from mccgr_cli.workflow.placement import USABLE, Room

if TYPE_CHECKING:
    from mccgr_cli.distributed.connection import Cluster


@dataclass(frozen=True)
class Caller:
    """``mccgr run``, where it calls the stage of another command."""

    command_line: Sequence[str]  # that would do the same
    before_writing: Callable[[bytes], None]  # called with the bytes of the result
    last: bool  # whether no other stage follows


class Job:
    """One run of a command. Before anything is read, it checks that the output can be written.

    Parameters
    ----------
    command
        Name of the command.
    output
        Where the result goes.
    parameters
        What is computed, for provenance.
    derived
        The input and the stage that name the output if the user does not. Without it, :meth:`write_to` is called later.
    parts
        Names of several outputs: X.h5 with the parts 300 and 1000 means X.300.h5 and X.1000.h5.
    readable
        Whether the result may be printed on a terminal.
    streams
        Whether the result may go to a pipe.
    """

    def __init__(
        self,
        command: str,
        output: Output,
        parameters: Mapping[str, Any],
        *,
        derived: tuple[str, str] | None = None,
        parts: Sequence[str] = ("",),
        resources: Resources | None = None,
        caller: Caller | None = None,
        readable: bool = False,
        streams: bool = True,
    ) -> None:
        require_minimum()
        self.command, self.output, self.parameters, self.caller = command, output, dict(parameters), caller
        self.resources = resources or Resources()
        self.reporter = Reporter(output.quiet, output.verbose)
        self.phases = self.reporter.phases()
        self.inputs: list[Input] = []
        self.paths: list[Path] = []
        self.when_written: list[Callable[[], None]] = []
        self.to_stdout, self.readable, self.streams = output.path == "-", readable, streams
        self._locks = ExitStack()
        if output.path == "":
            raise ParameterError("-o", "no file name", "the command that should give it may have failed")
        try:
            if output.path is not None:
                self.write_to(Path(output.path), parts)
            elif derived is not None:
                self.write_beside(*derived, parts=parts)
        except BaseException:
            self._locks.close()
            raise

    def __enter__(self) -> Job:
        self._locks.enter_context(listening(self.phases))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._locks.close()

    @property
    def has_default_name(self) -> bool:
        """Whether the user named no output: then the name is printed."""
        return self.output.path is None

    def write_to(self, whole: Path, parts: Sequence[str] = ("",)) -> None:
        """Choose where the result goes, and lock it."""
        overwrite = self.output.overwrite
        if not self.to_stdout:
            check_destination(whole, overwrite=overwrite or len(parts) > 1)
        self.paths = [whole.with_suffix(f".{part}{whole.suffix}") if part else whole for part in parts]
        if not self.to_stdout:
            for path in self.paths:
                self.lock(path, overwrite)
            return
        if len(parts) > 1:
            raise ParameterError("-o -", f"{len(parts)} results do not fit one stream", "give a file name")
        if sys.stdout is None:
            raise OutputError("standard output", "closed", "pipe it on or give a file")
        if sys.stdout.isatty() and not self.readable:
            raise ParameterError("-o -", "HDF5 would garble the terminal", "pipe it on or give a file")

    def write_beside(self, source: str, stage: str, suffix: str = ".h5", parts: Sequence[str] = ("",)) -> None:
        """Choose where the result goes if the user did not: beside the input, or further down the pipe."""
        self.to_stdout = self.streams and continues_pipe()
        self.write_to(Path(STREAM) if self.to_stdout else derived_path(source, stage, suffix), parts)

    def lock(self, path: Path, overwrite: bool) -> None:
        """Keep other runs from writing this file until the job ends."""
        with postponed_interrupts():
            self._locks.callback(OutputLock(path, overwrite).release)

    def require_space(self, *sizes: float) -> None:
        """Refuse outputs of these sizes (bytes) if the disk has no room, before anything is computed."""
        for path, size in zip(() if self.to_stdout else self.paths, sizes, strict=False):
            check_space(path, size)

    # Inputs

    def load(self, source: str, kinds: Sequence[str], matrix: MatrixInput | None = None) -> Loaded:
        """An input, remembered for provenance; ``matrix`` says how to read a matrix."""
        from mccgr_cli.workflow.checkpoints import as_factors, with_checkpoints

        how = matrix or MatrixInput(source)
        with phase(f"reading {'standard input' if source == '-' else source}", "bytes", size_of_file(source)):
            loaded = load(
                source,
                kinds=with_checkpoints(kinds),
                transpose=how.transpose,
                label_key=how.label_key,
                header=how.header,
            )
            loaded = as_factors(loaded, kinds)
        for note in loaded.notes:
            if note not in invocation().notes:  # several stages may read the same file
                self.reporter.note(note)
                invocation().notes.append(note)
        main = next((name for name in ("X", "W", "A", "assignments") if name in loaded.contents), None)
        self.reporter.detail(f"read {loaded.name}: {main} {shape_of(loaded.contents[main])}" if main else loaded.name)
        if source != "-":
            self.refuse_overwriting([split_inner(source)[0]])
        self.inputs.append(Input(loaded.name, loaded.sha256, loaded.contents.provenance))
        return loaded

    def load_matrix(self, matrix: MatrixInput) -> Loaded:
        """The matrix that a command is about."""
        return self.load(matrix.source, ("matrix",), matrix)

    def note_if_on_disk(self, X: Matrix | StoredMatrix) -> None:
        if isinstance(X, StoredMatrix):
            self.reporter.note(f"X, {format_bytes(X.size.bytes)}, stays in its file")

    def room(self, settings: Settings | None, graph: GraphSettings | None, kept: int = 0) -> Room:
        limit = self.resources.memory
        return Room(limit or USABLE * available_memory(), limit is not None, settings, graph, kept)

    def refuse_overwriting(self, inputs: Iterable[str], outputs: Iterable[Path] | None = None) -> None:
        """Refuse to write over an input."""
        outputs = ([] if self.to_stdout else self.paths) if outputs is None else outputs
        existing = [path for path in outputs if path.exists()]
        for name, path in itertools.product(inputs, existing) if existing else ():
            if os.path.exists(name) and path.samefile(name):  # noqa: PTH110
                raise OutputError(str(path), "is also an input", "name another output file")

    # Workers

    @contextmanager
    def cluster(self) -> Iterator[Cluster | None]:
        """The Dask cluster that the user asked for, if any."""
        if self.resources.scheduler is None:
            yield None
            return
        from mccgr_cli.distributed.connection import connect

        with connect(self.resources.scheduler, self.reporter.note) as cluster:
            cluster.wait_for_workers()
            yield cluster

    @contextmanager
    def workers(self, items: int, files: Sequence[str] = ()) -> Iterator[WorkerPool]:
        """Workers for this number of items: processes of this machine, or a cluster whose workers see the ``files``."""
        with self.cluster() if items else nullcontext() as cluster:
            if cluster is None:
                jobs = usable_cores() if self.resources.jobs is None else self.resources.jobs
                with LocalPool(min(jobs, items)) as workers:
                    yield workers
                return
            from mccgr_cli.distributed.processes import ClusterPool

            cluster.require_files(files)
            yield ClusterPool(cluster)

    # Results

    def write(self, *results: Contents) -> None:
        provenance = self.provenance()
        with phase("writing the result"):
            self.write_bytes(*(encode(replace(contents, provenance=provenance)) for contents in results))

    def provenance(self) -> dict[str, Any]:
        words = self.caller.command_line if self.caller is not None else invocation().command_line
        return record(self.command, self.parameters, self.inputs, words)

    def write_bytes(self, *encoded: bytes) -> None:
        if self.to_stdout:
            write_stream(encoded[0], sys.stdout.buffer)
            self._complete()
            return
        if self.caller is not None:
            self.caller.before_writing(encoded[0])
        write_files(dict(zip(self.paths, encoded, strict=True)), self.output.overwrite, self._announce)

    @contextmanager
    def changed_copy(self, extra: float) -> Iterator[Path]:
        """A copy of the output, which grows by ``extra`` bytes in the block. Then it replaces the output."""
        with changed_copy(self.paths[0], extra, self._announce) as copy:
            yield copy

    def _complete(self) -> None:
        """The result is complete: from now on an interrupt comes too late."""
        invocation().written = self.caller is None or self.caller.last
        self.phases.hide()
        for action in self.when_written:
            action()

    def _announce(self) -> None:
        """Print the names of the files: on standard output if the user did not choose them."""
        self._complete()
        for path in self.paths:
            if self.has_default_name and sys.stdout is not None:
                show_name(path)
            else:
                self.reporter.note(f"wrote {path}")


def size_of_file(source: str) -> int:
    """The bytes of an input; 0 if that cannot be known before it is read."""
    with suppress(MccgrError, OSError, ValueError):
        path = Path(split_inner(source)[0])
        return path.stat().st_size if path.is_file() else 0
    return 0


def show(text: str) -> None:
    """Print a result."""
    if sys.stdout is None:
        raise OutputError("standard output", "closed", "pipe it on or to a file")
    with output_errors("standard output"):
        click.echo(text)
        sys.stdout.flush()


def show_name(path: Path) -> None:
    """Print the name of a file, with the bytes that it has on disk."""
    assert sys.stdout is not None
    write_stream(os.fsencode(path) + b"\n", sys.stdout.buffer)


def derived_path(source: str, stage: str, suffix: str = ".h5") -> Path:
    """``data/X.h5`` and the stage ``factors`` give ``data/X.factors.h5``; a folder ``data/X/`` gives ``data/X.h5``.

    Without a stage only the suffix changes.
    """
    if source == "-":
        raise ParameterError("-o", "missing, and standard input has no name to derive one from", "add it")
    path = Path(split_inner(source)[0])
    with input_errors(source):
        is_folder = path.is_dir()
    if is_folder:
        whole = Path(os.path.abspath(path))  # noqa: PTH100 - unlike absolute(), this resolves ..
        if not whole.name:
            raise ParameterError("-o", f"missing, and {source} has no name to derive one from", "add it")
        return (path if path.name == whole.name else whole).with_name(f"{whole.name}.h5")
    ending = max((end for end in (*FORMATS, *HDF5_SUFFIXES) if path.name.lower().endswith(end)), key=len, default="")
    stem = path.name[: len(path.name) - len(ending)] or path.name
    return path.parent / (f"{stem}.{stage}{suffix}" if stage else f"{stem}{suffix}")
