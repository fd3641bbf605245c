"""The samples that a command computes with: read or left on disk, and what is chosen for them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from mccgr_cli.blocks.from_file import blocks_of
from mccgr_cli.blocks.in_memory import size_of
from mccgr_cli.blocks.protocol import BlockSource
from mccgr_cli.cli.job import Job
from mccgr_cli.cli.options import MatrixInput
from mccgr_cli.files.lazy_matrix import LazyMatrix, MatrixInMemory, StoredMatrix
from mccgr_cli.files.readers import Loaded
from mccgr_cli.settings import GraphSettings, RowSettings, Settings
from mccgr_cli.workflow.placement import place

if TYPE_CHECKING:
    from mccgr_cli.workflow.choice import Choice, Settled


@dataclass(frozen=True)
class Samples:
    """A matrix that is ready to compute with."""

    loaded: Loaded
    X: BlockSource
    memory: float  # bytes that the run takes
    settled: Settled  # settings of which nothing is open any more


@contextmanager
def prepared(
    job: Job,
    matrix: MatrixInput,
    rows: RowSettings,
    settings: Settings,
    graph: GraphSettings,
    builds: bool = True,
    kept: int = 0,
) -> Iterator[Samples]:
    """The matrix to factorize or to build a graph of, with its normalization settled.

    ``builds``: whether a graph is built. ``kept``: copies of a checkpoint in memory.
    """
    with job.cluster() as cluster:  # before anything is read, which may take long
        room, loaded = job.room(settings, graph if builds else None, kept), job.load_matrix(matrix)
        job.inputs.insert(0, job.inputs.pop())  # the matrix comes first, before a graph
        raw = loaded.contents.datasets["X"].prepared_as("none", rows.dtype)
        stays = room.is_exceeded_by(raw.size) or cluster is not None
        settled = chosen_for(job, loaded, raw, stays, rows, settings, graph)
        X = place(loaded, room, settled.normalize, rows.dtype, cluster is not None, settled.idf)
        if cluster is not None:
            from mccgr_cli.distributed.blocks import ClusterBlocks

            yield Samples(loaded, ClusterBlocks(X, cluster), 0.0, settled)
            return
        job.note_if_on_disk(X)
        in_file = isinstance(X, StoredMatrix)
        size = X.size if isinstance(X, StoredMatrix) else size_of(X)
        if not in_file and room.is_exceeded_by(size):
            room.check_whole(size, loaded.name)
            job.reporter.note(f"{loaded.name}: loaded whole; only HDF5 by rows can stay on disk")
        yield Samples(loaded, blocks_of(X), room.taken(size, in_file), settled)


def chosen_for(
    job: Job,
    loaded: Loaded,
    raw: LazyMatrix,
    stays: bool,
    rows: RowSettings,
    settings: Settings,
    graph: GraphSettings,
) -> Settled:
    """Choose what the user left open, from rows as they are in the file; unless X stays there, it is read once."""
    from mccgr_cli.workflow.choice import Settled, is_open, settle
    from mccgr_cli.workflow.texts import normalization_for

    rows = replace(rows, normalize=normalization_for(loaded, rows.normalize))
    settled = Settled(rows.normalize, settings, graph)
    if is_open(rows.normalize, settings, graph):
        X = raw.stream() if stays else raw.load()
        loaded.contents.datasets["X"] = X if isinstance(X, StoredMatrix) else MatrixInMemory(X, raw.where)
        settled = settle(blocks_of(X), settings, rows.normalize, graph)
    job.parameters["normalize"] = settled.normalize  # a run that continues does not choose again
    if settled.choice is not None:
        chosen = {"evenness": settled.graph.evenness, "neighbors": settled.graph.neighbors}
        job.parameters |= {**chosen, "init": settled.settings.init}
    return settled


def note_choice(job: Job, choice: Choice | None) -> str | None:
    """Say what was chosen, once nothing else can be wrong. Returns the line."""
    if choice is None:
        return None
    job.reporter.note(str(choice))
    if choice.doubt is not None:
        job.reporter.note(choice.doubt)
    return str(choice)
