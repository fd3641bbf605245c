"""Read what the user names: a file of mccgr, a file of another program, or standard input. Begin with :func:`load`.

Each format has a reader (``hdf5``, ``arrays``, ``matlab``, ``table``, ``matrix_market``, ``text``) that returns what it
found. ``checks`` turns that into types that mccgr computes with. ``labels`` joins true classes to samples.
"""

from __future__ import annotations

import hashlib
import os
import re
import shlex
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import BinaryIO

from mccgr_cli.errors import DataError, one_line
from mccgr_cli.files.container import Contents
from mccgr_cli.files.readers import arrays, hdf5, matlab, matrix_market, table
from mccgr_cli.files.readers.arrays import Found, NamedLabels, read_listed, read_listed_labels
from mccgr_cli.files.readers.checks import finish_matrix
from mccgr_cli.files.temporary_file import temporary_errors, temporary_file
from mccgr_cli.system.phases import advance

HASH_BYTES = 1 << 20


@dataclass(frozen=True)
class Loaded:
    contents: Contents
    name: str  # what the user typed
    sha256: str  # of the file's bytes
    notes: tuple[str, ...] = ()  # what was taken for what, where the format does not say it


TABLES = (".csv", ".tsv", ".csv.gz", ".tsv.gz")
HEADERS = {"auto": None, "yes": True, "no": False}  # whether the first line of a table names the columns

# The functions that read the matrix and the labels of a file that is not HDF5.
FORMATS: dict[str, tuple[Callable[..., Found], Callable[[Path, str | None, str], NamedLabels]]] = {
    ".mat": (partial(read_listed, matlab.mat_variables), partial(read_listed_labels, matlab.mat_variables)),
    ".npy": (arrays.read_npy, arrays.read_npy_labels),
    ".npz": (partial(read_listed, arrays.npz_variables), partial(read_listed_labels, arrays.npz_variables)),
    **dict.fromkeys((".mtx", ".mtx.gz"), (matrix_market.read_mtx, matrix_market.refuse_mtx_labels)),
    **dict.fromkeys(TABLES, (table.read_table, table.read_table_labels)),
}
HDF5_SUFFIXES = (".h5", ".hdf5", ".h5ad")

# kind of file: how messages call it, and where it comes from
KINDS = {
    "matrix": ("a matrix", "mccgr extract or your own data"),
    "graph": ("a graph", "mccgr graph"),
    "factors": ("factors", "mccgr factorize"),
    "clusters": ("clusters", "mccgr cluster"),
    "results": ("the results of an experiment", "mccgr experiment"),
    "ranks": ("the criteria for a number of components", "mccgr rank"),
    "checkpoint": ("the state of a run", "mccgr factorize --checkpoint"),
}


def load(
    source: str,
    *,
    kinds: Sequence[str] = ("matrix",),
    transpose: bool = False,
    label_key: str | None = None,
    header: str = "auto",
) -> Loaded:
    """Read ``PATH``, ``PATH::INNER`` or ``-`` (standard input), and check it.

    Only files of these ``kinds`` are accepted. With ``transpose``, samples are in columns. ``label_key`` names the
    labels, if the file does not make it obvious. ``header`` says whether a table has one. X of a matrix file is a
    :data:`mccgr_cli.files.lazy_matrix.LazyMatrix`: rows of an HDF5 file are not read yet.
    """
    with opened(source) as file:
        contents = read_contents(file, label_key, HEADERS[header])
    require_kind(contents, kinds, file.name)
    notes: list[str] = []
    if contents.kind == "matrix":
        found = contents.datasets
        contents = replace(contents, datasets=finish_matrix(found, transpose, file.name, notes))
        if "about" in found:
            n, d = contents["X"].shape
            notes.insert(0, f"{file.name}: {n} samples x {d} features; {found['about']}")
    elif transpose:
        raise DataError(file.name, f"holds {KINDS[contents.kind][0]}, not a matrix", "leave out --transpose")
    return Loaded(contents, file.name, file.sha256, tuple(map(one_line, notes)))


def require_kind(contents: Contents, kinds: Sequence[str], where: str) -> None:
    """Refuse a file of another kind."""
    if contents.kind not in kinds:
        raise refuse_kind(contents.kind, kinds, where)


def refuse_kind(kind: str, kinds: Sequence[str], where: str) -> DataError:
    """An error about a file of another kind than these."""
    named = [kind for kind in kinds if kind != "checkpoint" or "factors" not in kinds]  # it stands for factors
    wanted, origins = zip(*(KINDS[kind] for kind in named), strict=True)
    remedy = f"such a file comes from {' or '.join(origins)}"
    if kind == "checkpoint":
        remedy = f"continue this run with: mccgr factorize --resume {shlex.quote(where)}"
    return DataError(where, f"holds {KINDS[kind][0]} where {' or '.join(wanted)} should be", remedy)


def clusters_file(model: str) -> str:
    """The clusters file that the user means: this file, or the one in a folder from ``mccgr run``."""
    require_name(model)
    with input_errors(model):
        if not Path(model).is_dir():
            return model
        inside = Path(model) / "clusters.h5"
        if not inside.exists():
            remedy = "name a folder from 'mccgr run', or a clusters file"
            raise DataError(model, "no clusters.h5 in this folder", remedy)
    return str(inside)


def read_contents(file: Source, label_key: str | None, has_header: bool | None = None) -> Contents:
    if has_header is not None and file.suffix not in TABLES:
        raise DataError(file.name, "not a table", "leave out --header")
    if file.is_hdf5:
        found = hdf5.read_hdf5(file.handle, file.inner, label_key, file.name, file.suffix == ".mat")
        return found if isinstance(found, Contents) else Contents("matrix", found)
    path = foreign_path(file)
    if file.suffix not in FORMATS:
        what = f"unknown format {file.suffix}" if file.suffix else "a name without a suffix, and not HDF5"
        others = "; images and texts are for 'mccgr extract' and 'mccgr run'"
        raise DataError(file.name, what, f"mccgr reads {', '.join((*HDF5_SUFFIXES, *FORMATS))}{others}")
    read, _ = FORMATS[file.suffix]
    more = {"has_header": has_header} if file.suffix in TABLES else {}
    return Contents("matrix", read(path, file.inner, label_key, file.name, **more))


# From what the user typed to a file


@dataclass(frozen=True)
class Source:
    """A file that has been read once, for its checksum."""

    name: str  # for messages
    handle: Path | BinaryIO  # BinaryIO for what came down a pipe
    inner: str | None
    suffix: str
    sha256: str
    is_hdf5: bool


@contextmanager
def opened(typed: str) -> Iterator[Source]:
    location, inner = split_inner(typed)
    path = Path(location)
    piped = location == "-"
    if piped and sys.stdin is None:
        raise DataError("standard input", "closed", "pipe something in, or name a file")
    name = "standard input" if piped else typed
    with ExitStack() as stack, ExitStack() as first_look:
        handle: Path | BinaryIO = path
        with input_errors(name):
            if path.is_char_device():
                raise DataError(name, "a device", "name a file")
            if piped or path.is_fifo():  # HDF5 must seek, and a pipe cannot
                stream = sys.stdin.buffer if piped else first_look.enter_context(path.open("rb"))
                file: BinaryIO = stack.enter_context(temporary_file())
                handle = file
                digest, heaps = look_through(stream, file)
            else:
                file = first_look.enter_context(path.open("rb"))
                digest, heaps = look_through(file)
            if file.seek(0, 2) == 0:
                raise nothing_arrived(name) if handle is file else DataError(name, "empty file", "make it again")
            has_signature = hdf5.is_hdf5(file)
            if has_signature:
                hdf5.check_heaps(file, heaps, name)
        first_look.close()
        yield Source(name, handle, inner, suffix_of(path), digest, has_signature)


def split_inner(typed: str) -> tuple[str, str | None]:
    """Split ``PATH::INNER``, unless a file has this name."""
    require_name(typed)
    location, separator, inner = typed.rpartition("::")
    with input_errors(typed):
        return (typed, None) if not separator or Path(typed).exists() else (location, inner or None)


def is_same(path: Path, typed: str) -> bool:
    """Whether what the user typed is in this file."""
    other = split_inner(typed)[0]
    return path.exists() and os.path.exists(other) and path.samefile(other)  # noqa: PTH110 - it takes odd names


def require_name(typed: str) -> None:
    if not typed:
        raise DataError("''", "no file name", "the command that should give it may have failed")


def nothing_arrived(where: str) -> DataError:
    """What is said of an empty pipe."""
    return DataError(where, "nothing arrived", "did the command before the pipe fail, or write to -o FILE?")


@contextmanager
def input_errors(name: str) -> Iterator[None]:
    """Turn errors of the system about an input into a DataError with a remedy."""
    try:
        yield
    except FileNotFoundError:
        raise DataError(name, "no such file", "check its name and folder") from None
    except IsADirectoryError:
        raise DataError(
            name, "is a folder", "name a file in it; a folder of images or texts is for 'mccgr extract'"
        ) from None
    except PermissionError:
        raise DataError(name, "permission denied", "ask its owner for permission to read it") from None
    except OSError as fault:
        raise DataError(name, f"cannot be read: {(fault.strerror or str(fault)).lower()}") from None


def look_through(stream: BinaryIO, copy: BinaryIO | None = None) -> tuple[str, list[int]]:
    """The SHA-256 of a stream, and where HDF5 may have heaps in it. A pipe is copied, as it cannot be read twice."""
    digest, heaps = hashlib.sha256(), []
    before, tail = 0, b""  # bytes before the tail, which may hold the beginning of a mark
    while chunk := stream.read(HASH_BYTES):
        digest.update(chunk)
        advance(len(chunk), "bytes")
        if copy is not None:
            with temporary_errors():
                copy.write(chunk)
        window = tail + chunk
        if hdf5.HEAP in window:
            heaps += [before + mark.start() for mark in re.finditer(hdf5.HEAP, window)]
        tail = window[1 - len(hdf5.HEAP) :]
        before += len(window) - len(tail)
    with temporary_errors():
        if copy is not None:
            copy.flush()
    return digest.hexdigest(), heaps


def suffix_of(path: Path) -> str:
    parts = path.suffixes[-2:] if path.suffix.lower() == ".gz" else [path.suffix]
    return "".join(parts).lower()


def foreign_path(file: Source) -> Path:
    """The path of a file that is not HDF5; an error if it should be."""
    if not isinstance(file.handle, Path):
        raise DataError(file.name, "not HDF5", "only HDF5 or a file name comes down a pipe; give other files by name")
    if file.suffix in HDF5_SUFFIXES:
        raise DataError(file.name, "not an HDF5 file", "it may be damaged, or another format by that name")
    return file.handle
