"""``--checkpoint`` and ``--resume``: a run that was interrupted continues where it stopped."""

from __future__ import annotations

import os
import shlex
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mccgr_cli.cli import options, types
from mccgr_cli.cli.group import invocation
from mccgr_cli.cli.help import GroupedOption
from mccgr_cli.errors import DataError, MccgrError, OutputError, ParameterError
from mccgr_cli.fields import RESOURCES, Bounds, checked, resource_option
from mccgr_cli.settings import INITS, GraphSettings, RowSettings, Settings
from mccgr_cli.system.time_limit import TimeUp

if TYPE_CHECKING:
    from scipy import sparse

    from mccgr_cli.blocks.protocol import BlockSource
    from mccgr_cli.cli.job import Job
    from mccgr_cli.core.solver import OnPause, Progress
    from mccgr_cli.files.readers import Loaded
    from mccgr_cli.workflow.checkpoints import Checkpoint, Run

EVERY = 60.0  # seconds


def take_stored_options(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    """Use the options of the interrupted run as defaults. They pass the same checks as options that are typed."""
    if value is None or ctx.resilient_parsing:
        return value
    if value == "-":
        raise ParameterError("--resume", "the run saves its state there again", "name a file")
    from mccgr_cli.files.readers import load
    from mccgr_cli.workflow.checkpoints import damaged, read_run

    loaded = load(value, kinds=("checkpoint",))
    run = read_run(loaded)
    try:
        stored = stored_options(run)
    except (KeyError, TypeError, ValueError, ParameterError):
        raise damaged(loaded) from None
    ctx.default_map = {**(ctx.default_map or {}), **stored}
    return value


def stored_options(run: Run) -> dict[str, Any]:
    """The options in a checkpoint, as if they were typed; an error if they cannot have been typed."""
    found = dict(run.parameters)
    init = found.pop("init")
    values = [checked(kind, {"init": INITS[0], **found}) for kind in (Settings, GraphSettings, RowSettings)]
    names = {name: found[name] for name in ("source", "label_key", "header", "graph_file")} | {
        "path": run.output,
        "init": init,
    }
    for name in names.values():
        if name is not None and (not isinstance(name, str) or "\0" in name or not os.fsencode(name)):
            raise TypeError
    stored = {**options.parameters(*values), **names, "transpose": found["transpose"]}
    complete = stored["source"] is not None and init is not None and isinstance(stored["transpose"], bool)
    if not complete or found.keys() - stored.keys():
        raise TypeError
    return {name: value for name, value in stored.items() if value is not None}


@dataclass(frozen=True)
class Checkpointing:
    """Where the state of a run is saved, and how often."""

    checkpoint: str | None = resource_option(
        None,
        "Save the state of the run in FILE, regularly and when the run is interrupted. The same command continues from "
        "there and gives the same factors. FILE is deleted when the result is complete.",
        type=types.FILE,
        default_text="with --time-limit: beside the output",
    )
    checkpoint_every: float | None = resource_option(
        None,
        "Seconds between two checkpoints. 0: after every iteration.",
        values=Bounds(0),
        metavar="SECONDS",
        default_text=f"{EVERY:g}",
    )
    resume: str | None = None

    @property
    def path(self) -> str | None:
        return self.checkpoint if self.resume is None else self.resume

    @property
    def copies(self) -> int:
        """Checkpoints in memory: the one that is written, and the one that the run continues from."""
        return 2 if self.resume is not None else int(self.path is not None)


resume = click.option(
    "--resume",
    cls=GroupedOption,
    group=RESOURCES,
    type=types.FILE,
    is_eager=True,
    callback=take_stored_options,
    help="Continue the run in FILE. Do not give MATRIX, --k or options of the method: they are in FILE. You may give "
    "-o and the options under Resources and Output.",
)
checkpointing = options.stack(options.gathered("checkpointing", Checkpointing, arguments=("resume",)), resume)


class Keeper:
    """Saves the state of a run in a file: at intervals, and when a signal asks the run to end."""

    def __init__(self, job: Job, chosen: Checkpointing) -> None:
        from mccgr_cli.files.atomic_write import output_errors
        from mccgr_cli.files.readers import is_same

        assert chosen.path is not None
        self.job, self.chosen, self.path = job, chosen, Path(chosen.path)
        self.every = EVERY if chosen.checkpoint_every is None else chosen.checkpoint_every
        self.due = time.monotonic() + self.every
        self.remedy = self.where = ""  # how to continue from what is in the file now, and where that is
        self.save: Callable[[], None] = lambda: None  # write the current state
        with output_errors(str(self.path)):
            for other in job.paths:
                if not job.to_stdout and self.path.resolve() == other.resolve():
                    raise ParameterError("--checkpoint", f"{self.path} is the output", "name another file")
            inputs = (job.parameters[name] for name in ("source", "graph_file", "init"))
            if any(is_same(self.path, name) for name in inputs if name):
                raise ParameterError("--checkpoint", f"{self.path} is an input", "name another file")
        job.lock(self.path, overwrite=True)
        self.stopped = False
        job.when_written.append(self.delete)
        self.found = self._read() if self.resumes or self.path.exists() else None
        if self.found is not None:
            self.say_how_to_continue("")

    @property
    def resumes(self) -> bool:
        return self.chosen.resume is not None

    def _read(self) -> Loaded:
        from mccgr_cli.files.readers import load

        try:
            return load(str(self.path), kinds=("checkpoint",))
        except DataError as fault:
            if self.resumes:
                raise
            what = f"exists already, and is not a checkpoint ({fault.fault})"
            raise OutputError(str(self.path), what, "name another file") from None

    def restored(self, settings: Settings, X: BlockSource) -> Checkpoint | None:
        """The state that the run continues from, if the file has one."""
        from mccgr_cli.core.solver import uses_graph
        from mccgr_cli.workflow.checkpoints import Checkpoint, damaged, read_progress, read_run
        from mccgr_cli.workflow.factorization import check_graph

        found, may_replace = self.found, self.job.output.overwrite and not self.resumes
        if found is None:
            return None
        try:
            run = read_run(found)
        except DataError:
            if not may_replace:
                raise
            self.found = None
            return None
        if self.resumes:
            self._check_matrix(run)
            self.job.inputs = run.inputs
        elif not run.same_as(self.run()):
            if may_replace:
                self.found = None
                return None
            what = "holds part of a run with other data or options"
            raise OutputError(str(self.path), what, "give those, name another file, or give --overwrite")
        if ("A" in found.contents) != uses_graph(settings):
            raise damaged(found)
        A = check_graph(found.contents["A"], X.shape[0], found.name) if "A" in found.contents else None
        progress = read_progress(found, settings, X)
        self.say_how_to_continue(position(progress))
        self.job.reporter.note(f"continuing{position(progress)}")
        choice = found.contents.attributes.get("choice")
        return Checkpoint(run, progress, A, None if choice is None else str(choice))

    def _check_matrix(self, run: Run) -> None:
        matrix = self.job.inputs[0]
        if matrix.sha256 != run.inputs[0].sha256:
            what = f"has changed since the run in {self.path} read it"
            raise DataError(matrix.name, what, "restore it, or start a new run")

    def run(self) -> Run:
        from mccgr_cli.workflow.checkpoints import Run

        return Run(self.job.parameters, self.job.output.path, self.job.inputs)

    @contextmanager
    def watching(
        self, A: sparse.csr_array[Any] | None, choice: str | None, names: Mapping[str, Any]
    ) -> Iterator[OnPause]:
        """A function for the solver to call between iterations. Signals wait for it, then end the run."""
        from mccgr_cli.system.signals import recorded_interrupts
        from mccgr_cli.workflow.checkpoints import damaged

        with recorded_interrupts() as noted:

            def pause(progress: Callable[[], Progress]) -> bool:
                self.save = partial(self.write, progress, A, choice, names)
                limit = invocation().limit
                ends = limit is not None and limit.ends_steps()
                if ends or noted.number is not None or time.monotonic() >= self.due:
                    self.save()
                noted.act()
                if limit is not None and ends and self.job.caller is not None:  # no result of a stage that is not done
                    raise TimeUp(limit)
                return ends

            try:
                with warnings.catch_warnings():
                    if self.found is not None:  # bad numbers in the file are found in other ways
                        warnings.simplefilter("ignore", RuntimeWarning)
                    yield pause
                if noted.number is not None:  # after the last iteration
                    self.save()
            except (ValueError, ArithmeticError) as fault:
                if self.found is None:
                    raise
                raise damaged(self.found) from fault
            except (DataError, ParameterError) as fault:  # would happen again
                raise (
                    damaged(self.found) if self.found is not None and fault.parts[0] == "checkpoint" else fault
                ) from None
            except MccgrError as fault:
                raise fault.with_remedy(self.remedy) if self.remedy else fault from None

    @contextmanager
    def finishing(self, stopped: bool) -> Iterator[None]:
        """In the block the result is written. If that fails, the run can continue and write it elsewhere.

        ``stopped``: it is the result of a run that has not ended, so the checkpoint is kept.
        """
        self.stopped = stopped
        try:
            yield
        except OutputError as fault:
            self.save()
            raise fault.with_remedy(self.remedy) if self.remedy else fault from None

    def write(
        self,
        current: Callable[[], Progress],
        A: sparse.csr_array[Any] | None,
        choice: str | None,
        names: Mapping[str, Any],
    ) -> None:
        """Save the state. If that fails, the run continues."""
        from mccgr_cli.files.atomic_write import write_files
        from mccgr_cli.files.container import encode
        from mccgr_cli.system.signals import postponed_interrupts
        from mccgr_cli.workflow.checkpoints import Checkpoint, checkpoint_contents

        progress = current()
        contents = checkpoint_contents(Checkpoint(self.run(), progress, A, choice, names))
        encoded = encode(replace(contents, provenance=self.job.provenance()))
        try:
            write_files({self.path: encoded}, overwrite=True, later=postponed_interrupts)
        except OutputError as fault:
            self.job.reporter.note(f"{fault}; the run continues")
        else:
            self.say_how_to_continue(position(progress))
        self.due = time.monotonic() + self.every

    def say_how_to_continue(self, where: str) -> None:
        """What an interrupt prints from now on."""
        self.where = where
        self.remedy = self.how_to_continue(self.job.output.overwrite)
        invocation().leaves = self.remedy

    def how_to_continue(self, overwrite: bool) -> str:
        words = options.command_line(
            "factorize",
            Checkpointing(None, self.chosen.checkpoint_every),
            self.job.resources,
            replace(self.job.output, path=None, overwrite=overwrite),
            resume=self.path,
        )
        return f"continue{self.where} with: {shlex.join(words)}"

    def delete(self) -> None:
        """If the result is complete, the checkpoint is not needed any more."""
        from mccgr_cli.files.atomic_write import remove

        if not self.stopped:
            remove(self.path.resolve())


def position(progress: Progress) -> str:
    start = f" of start {progress.restart + 1}" if progress.restart else ""
    return f" after iteration {len(progress.history['objective']) - 1}{start}"


def checkpoint_as_matrix(ctx: click.Context | None) -> DataError | None:
    """How to continue, if the matrix of a command that lacks an option is a checkpoint."""
    from mccgr_cli.files.readers import opened, refuse_kind
    from mccgr_cli.files.readers.hdf5 import kind_of

    source = ctx.params.get("source") if ctx is not None else None
    try:
        if isinstance(source, str) and can_be_read_again(source):
            with opened(source):  # refuses what HDF5 cannot read
                if kind_of(source) == "checkpoint":
                    return refuse_kind("checkpoint", ("matrix",), source)
    except (MccgrError, OSError, ValueError):
        pass
    return None


def keeper_for(job: Job, chosen: Checkpointing, source: str) -> Keeper | None:
    """The keeper of the run's state, if the user wants one."""
    if chosen.path is None:
        if chosen.checkpoint_every is not None:
            raise ParameterError("--checkpoint-every", "has no effect without --checkpoint", "give that too")
        return None
    if chosen.path in ("", "-"):
        raise ParameterError("--checkpoint", "no file name", "name one")
    if not can_be_read_again(source):
        raise ParameterError("--checkpoint", f"{source} cannot be read again", "give MATRIX as a file")
    return Keeper(job, chosen)


def can_be_read_again(source: str) -> bool:
    from mccgr_cli.files.readers import split_inner

    location = split_inner(source)[0]
    return location != "-" and not Path(location).is_fifo()


def refuse_what_resume_decides(decided: Mapping[str, Any]) -> None:
    """With --resume, refuse options that the stored run has decided already."""
    options.refuse_given([*decided, "preset"], "the run in the checkpoint has decided it", "leave it out")
    options.refuse_given(["checkpoint"], "the run continues in the file of --resume", "leave it out")
