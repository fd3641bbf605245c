"""Runs that go on after an end that nobody wanted: what ``--checkpoint`` and ``--resume`` do."""

from __future__ import annotations

import shlex
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mccgr_cli.cli import keep
from mccgr_cli.cli.options import MANNERS
from mccgr_cli.cli.retyping import TYPED, Retypable, Typed, can_be_typed
from mccgr_cli.errors import DataError, MccgrError, OutputError, ParameterError

if TYPE_CHECKING:
    from scipy import sparse

    from mccgr_cli.blocks.protocol import BlockSource
    from mccgr_cli.cli.job import Job
    from mccgr_cli.core.solver import OnPause, Progress
    from mccgr_cli.files.readers import Loaded
    from mccgr_cli.settings import Settings
    from mccgr_cli.workflow.checkpoints import Checkpoint, Run

LOADED = "mccgr.checkpoint"  # in the context: what it goes on from


class Resumable(Retypable):
    """A command whose ``--resume FILE`` stands for the options that the run in FILE was started with.

    They go through the same parser as if they were typed again: what is in a file is not trusted more than a user.
    """

    def retyped(self, ctx: click.Context, typed: Typed) -> Typed:
        return self._with_what_was_kept(ctx, typed) if "resume" in typed else typed

    def _with_what_was_kept(self, ctx: click.Context, typed: Typed) -> Typed:
        from mccgr_cli.files.readers import load
        from mccgr_cli.workflow.checkpoints import damaged, read_run

        for parameter in self.params:
            if parameter.name in typed and parameter.name not in MANNERS:
                name = parameter.opts[-1] if isinstance(parameter, click.Option) else parameter.make_metavar(ctx)
                raise ParameterError(name, "the run that goes on has decided it", "leave it out")
        if "checkpoint" in typed:
            raise ParameterError("--checkpoint", "a run that goes on keeps to its file", "leave it out")
        if typed["resume"] == "-":
            raise ParameterError("--resume", "the run goes on keeping its state there", "name a file")
        loaded = load(str(typed["resume"]), kinds=("checkpoint",))
        kept = read_run(loaded).typed
        allowed = {str(one.name): one for one in self.params if one.name not in MANNERS or one.name == "output"}
        if not kept.keys() <= allowed.keys() or not all(can_be_typed(allowed[name], kept[name]) for name in kept):
            raise damaged(loaded)
        ctx.meta[LOADED] = loaded
        return {**kept, **typed}


class Keeper:
    """Keeps the state of a run in a file, when that is due and when a signal asks the run to end."""

    def __init__(self, job: Job, path: Path, every: float, restarted: Loaded | None) -> None:
        from mccgr_cli.files.atomic_write import writing

        self.job, self.path, self.every = job, path, every
        self.due = time.monotonic() + every
        self.found = restarted  # what was in the file
        self.resumes = restarted is not None
        self.remedy = ""  # how to go on from what is in the file now
        self.save: Callable[[], None] = lambda: None  # write where the run is
        with writing(str(path)):
            for other in job.paths:
                if not job.to_stdout and path.resolve() == other.resolve():
                    raise ParameterError("--checkpoint", f"{path} is the output", "name another file")
            job.spare([job.given["source"]], [path])
        job.claim(path, overwrite=True)
        job.afterwards.append(self.done)
        if self.found is None and path.exists():
            self.found = self._read()
        if self.found is not None:
            self.tell("")

    def _read(self) -> Loaded:
        from mccgr_cli.files.readers import load

        try:
            return load(str(self.path), kinds=("checkpoint",))
        except DataError as fault:
            what = f"exists already, and is no checkpoint ({fault.fault})"
            raise OutputError(str(self.path), what, "name another file") from None

    def take_up(self, settings: Settings, X: BlockSource) -> Checkpoint | None:
        """Where the run was, if it is there already; from now on an interrupt leaves that."""
        from mccgr_cli.core.solver import uses_graph
        from mccgr_cli.workflow.checkpoints import Checkpoint, damaged, read_progress, read_run
        from mccgr_cli.workflow.stages import check_graph

        found, anew = self.found, self.job.given["overwrite"] and not self.resumes
        if found is None:
            return None
        try:
            run = read_run(found)
        except DataError:
            if not anew:
                raise
            self.found = None
            return None
        if self.resumes:
            self._check_matrix(run)
            self.job.inputs = run.inputs
        elif not run.same_as(self.run()):
            if anew:
                self.found = None
                return None
            what = "holds part of a run with other data or options"
            raise OutputError(str(self.path), what, "give those, name another file, or give --overwrite")
        if ("A" in found.contents) != uses_graph(settings):
            raise damaged(found)
        A = check_graph(found.contents["A"], X.shape[0], found.name) if "A" in found.contents else None
        progress = read_progress(found, settings, X)
        self.tell(where_in(progress))
        self.job.reporter.note(f"going on{where_in(progress)}")
        return Checkpoint(run, progress, A)

    def _check_matrix(self, run: Run) -> None:
        matrix = self.job.inputs[0]
        if matrix.sha256 != run.inputs[0].sha256:
            what = f"is not as it was when the run in {self.path} read it"
            raise DataError(matrix.name, what, "bring that back, or run it anew")

    def run(self) -> Run:
        from mccgr_cli.workflow.checkpoints import Run

        typed = click.get_current_context().meta[TYPED]
        lasting = {name: value for name, value in typed.items() if name not in MANNERS or name == "output"}
        return Run(lasting, self.job.parameters(), self.job.inputs)

    @contextmanager
    def watching(self, A: sparse.csr_array[Any] | None) -> Iterator[OnPause]:
        """A function for the solver to call between iterations. Signals wait for it, and end the run there."""
        from mccgr_cli.system.signals import noted_interrupts
        from mccgr_cli.workflow.checkpoints import damaged

        with noted_interrupts() as noted:

            def pause(progress: Callable[[], Progress]) -> None:
                self.save = partial(self.write, progress, A)
                if noted.number is not None or time.monotonic() >= self.due:
                    self.save()
                noted.act()

            try:
                with warnings.catch_warnings():
                    if self.found is not None:  # what its numbers lead to is found out in other ways
                        warnings.simplefilter("ignore", RuntimeWarning)
                    yield pause
                if noted.number is not None:  # after the last iteration
                    self.save()
            except (ValueError, ArithmeticError) as fault:
                if self.found is None:
                    raise
                raise damaged(self.found) from fault
            except (DataError, ParameterError):  # which would come again
                raise
            except MccgrError as fault:
                raise fault.with_remedy(self.remedy) if self.remedy else fault from None

    @contextmanager
    def until_written(self) -> Iterator[None]:
        """A result that cannot be written is not lost: the run can go on to write it elsewhere."""
        try:
            yield
        except OutputError as fault:
            self.save()
            raise fault.with_remedy(self.remedy) if self.remedy else fault from None

    def write(self, told: Callable[[], Progress], A: sparse.csr_array[Any] | None) -> None:
        """That it cannot be kept is no reason to end the run."""
        from mccgr_cli.files.atomic_write import write_files
        from mccgr_cli.files.container import encode
        from mccgr_cli.system.signals import postponed_interrupts
        from mccgr_cli.workflow.checkpoints import Checkpoint, checkpoint_contents

        progress = told()
        contents = checkpoint_contents(Checkpoint(self.run(), progress, A))
        encoded = encode(replace(contents, provenance=self.job.provenance()))
        try:
            write_files({self.path: encoded}, overwrite=True, later=postponed_interrupts)
        except OutputError as fault:
            self.job.reporter.note(f"{fault}; the run goes on")
        else:
            self.tell(where_in(progress))
        self.due = time.monotonic() + self.every

    def tell(self, where: str) -> None:
        """What to do if the run ends now."""
        self.remedy = f"go on{where} with: {self.command()}"
        keep(self.remedy)

    def command(self) -> str:
        """What goes on from the file, run in the same manner."""
        context = click.get_current_context()
        parts = [*context.command_path.split(), "--resume", str(self.path)]
        typed = context.meta[TYPED]
        for parameter in context.command.params:
            value = typed.get(str(parameter.name))
            if parameter.name in MANNERS and parameter.name not in ("output", "checkpoint", "resume") and value:
                parts += [parameter.opts[-1]] if value is True else [parameter.opts[-1], value]
        return shlex.join(parts)

    def done(self) -> None:
        """The result is out: there is nothing left to go on with."""
        from mccgr_cli.files.atomic_write import remove

        remove(self.path.resolve())


def where_in(progress: Progress) -> str:
    start = f" of start {progress.restart + 1}" if progress.restart else ""
    return f" after iteration {len(progress.history['objective']) - 1}{start}"
