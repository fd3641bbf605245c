"""Files of named arrays: which one is the matrix and which the labels. And the formats .npy and .npz.

A reader returns what it found as it is stored (:data:`Found`); :mod:`mccgr_cli.files.readers.checks` checks it.
"""

from __future__ import annotations

import math
import sys
import warnings
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np
from scipy import sparse

from mccgr_cli.blocks.protocol import Array
from mccgr_cli.errors import DataError, MccgrError, UnusableValues
from mccgr_cli.files.hdf5 import compressed_matrix
from mccgr_cli.files.readers.beside import (
    LABEL_NAMES,
    add_labels,
    guess_labels,
    read_names,
    same_name,
    with_class_names,
)
from mccgr_cli.system.memory import require_memory

if TYPE_CHECKING:
    from mccgr_cli.files.readers.hdf5 import HDF5Variables

# "X", and where the file has them "labels" (not yet coded; "labels_are_guessed": nobody asked for them), "sample_names"
# and "feature_names". In words, "about": what was taken for what, and "instead": what to use if X has negative values;
# "notes" are for the user. "names": of samples and features that may be fewer or more than X has.
Found: TypeAlias = dict[str, Any]


class NamedLabels(NamedTuple):
    """The label of every sample, and the names of the samples if the file has them."""

    names: Any  # None if there are none
    labels: Any
    first: tuple[str, str] | None = None  # of a table: its first line, if that may be a header or a name and a label


MATRIX_NAMES = ("X", "fea", "arr_0")  # arr_0: what numpy.savez calls an array without a name
SHOWN_NAMES = 10

SPARSE_PARTS = frozenset(("format", "shape", "data", "indices", "indptr", "row", "col", "_is_array"))


# The named arrays of a file. Each is read when it is asked for.
Variables: TypeAlias = "ListedVariables | HDF5Variables"


def read_variables(variables: Variables, inner: str | None, label_key: str | None) -> Found:
    """The matrix ``inner`` and the labels ``label_key``; if they are None, those with one of the usual names."""
    matrix_name = inner or choose_matrix(variables)
    found: Found = {"X": variables.matrix(matrix_name), "notes": []}
    add_labels(found, variables, label_key, matrix_name, is_only=inner is None)
    found["names"] = read_names(variables, found["notes"])
    return found


def read_label_variable(variables: Variables, name: str | None) -> NamedLabels:
    chosen = name or guess_labels(variables)
    if chosen is None:
        what = f"no labels called {', '.join(LABEL_NAMES)}"
        raise DataError(variables.where, what, f"name them with FILE::NAME; it has {shown(variables.names())}")
    names = read_names(variables, []).get("sample_names")
    return NamedLabels(names, with_class_names(variables.labels(chosen), variables))


def choose_matrix(variables: Variables) -> str:
    for wanted in MATRIX_NAMES:
        if name := same_name(wanted, variables.names()):
            return name
    label_names = {name.lower() for name in LABEL_NAMES}
    shapes = {name: variables.shape(name) for name in variables.names() if name.lower() not in label_names}
    matrices = {name: shape for name, shape in shapes.items() if shape is not None and len(shape) == 2}
    # MATLAB stores vectors as matrices of one row or column: they count only if there is nothing else.
    choice = [name for name, shape in matrices.items() if min(shape) > 1] or list(matrices)
    if len(choice) == 1:
        return choice[0]
    if choice:
        raise DataError(variables.where, f"several matrices ({shown(choice)})", "name one with FILE::NAME")
    what = f"no matrix of numbers in it (X, fea or any other), only {shown(variables.names())}"
    raise DataError(variables.where, what, "name one with FILE::NAME if it lies deeper")


def shown(names: list[str]) -> str:
    rest = ", ..." if len(names) > SHOWN_NAMES else ""
    return (", ".join(names[:SHOWN_NAMES]) or "nothing") + rest


def missing(variables: Variables, name: str) -> DataError:
    return DataError(variables.where, f"nothing called {name!r} in it", f"it has {shown(variables.names())}")


@dataclass(frozen=True)
class ListedVariables:
    """Variables of a file whose shapes are known without reading them."""

    where: str
    format_name: str
    shapes: Mapping[str, tuple[int, ...] | None]
    read: Callable[[str], Any]

    def names(self) -> list[str]:
        return list(self.shapes)

    def shape(self, name: str) -> tuple[int, ...] | None:
        """The shape of a numeric array or sparse matrix; None for anything else."""
        return self.shapes[name]

    def matrix(self, name: str) -> Any:
        if name not in self.shapes:
            raise missing(self, name)
        with parsing(self.format_name, self.where):
            value = self.read(name)
            if not sparse.issparse(value):
                return value
            if value.format not in ("csr", "csc"):
                return sparse.csr_array(value)  # scipy checks the coordinates of a COO matrix
            parts = {part: getattr(value, part) for part in ("data", "indices", "indptr")}
            return compressed_matrix(parts, value.shape, value.format == "csc", self.where)

    @property
    def counts_from_one(self) -> bool:
        return self.format_name == ".mat"

    labels = matrix  # numbers or text, one per sample, in any shape


ListVariables: TypeAlias = Callable[[Path, str], ListedVariables]


def read_listed(listed: ListVariables, path: Path, inner: str | None, label_key: str | None, where: str) -> Found:
    return read_variables(listed(path, where), inner, label_key)


def read_listed_labels(listed: ListVariables, path: Path, inner: str | None, where: str) -> NamedLabels:
    return read_label_variable(listed(path, where), inner)


@contextmanager
def parsing(format_name: str, where: str) -> Iterator[None]:
    """Turn any error of a library that parses a file into a DataError. Only the parser may run in this context."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    except (MccgrError, MemoryError):
        raise
    except Exception as fault:
        what = f"not a readable {format_name} file ({' '.join(str(fault).split()) or type(fault).__name__})"
        raise DataError(where, what, "it may be damaged or cut short") from fault


# .npy and .npz. Nothing is ever unpickled.


def read_npy(path: Path, inner: str | None, label_key: str | None, where: str) -> Found:
    refuse_names(inner, label_key, ".npy", where)
    with parsing(".npy", where), path.open("rb") as file:
        return {"X": read_array(file, path.stat().st_size, where)}


def read_npy_labels(path: Path, inner: str | None, where: str) -> NamedLabels:
    return NamedLabels(None, read_npy(path, inner, None, where)["X"])


def read_array(file: IO[bytes], length: int, where: str) -> Array:
    """An array from a file of ``length`` bytes. Its declared size is checked before memory is taken."""
    about = array_header(file)
    if about is not None:
        shape, dtype = about
        size = dtype.itemsize * math.prod(shape)
        if size > length and not dtype.hasobject:
            raise ValueError(f"{size} bytes of values in a file of {length}")
        converted = dtype.kind != "f" or dtype.itemsize not in (4, 8)
        require_memory(size + (8 * math.prod(shape) if converted else 0), where)
    file.seek(0)
    if about is not None and about[1].hasobject:
        what = "an array of Python objects, which mccgr does not open"
        raise UnusableValues(where, what, "save numbers or text: X.astype(float), names.astype(str)")
    values = np.asarray(np.lib.format.read_array(file, allow_pickle=False))
    if values.dtype.kind == "U" and values.size and values.ravel().view(np.uint32).max() > sys.maxunicode:
        raise ValueError("characters that are not Unicode")
    return values


def array_header(file: IO[bytes]) -> tuple[tuple[int, ...], np.dtype[Any]] | None:
    """Shape and type; None for arrays of records, which have a newer header."""
    headers = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
    version = np.lib.format.read_magic(file)
    if version not in headers:
        return None
    shape, _, dtype = headers[version](file)
    return shape, dtype


def npz_variables(path: Path, where: str) -> ListedVariables:
    """The arrays of an archive. The parts of a sparse matrix that scipy saved count as one array, X."""
    with parsing(".npz", where), zipfile.ZipFile(path) as archive:
        shapes: dict[str, tuple[int, ...] | None] = {}
        for member in (name for name in archive.namelist() if name.endswith(".npy")):
            with archive.open(member) as file:
                about = array_header(file)
            shapes[member.removesuffix(".npy")] = about[0] if about and about[1].kind in "fiub" else None
    read: Callable[[str], Any] = partial(read_npz_member, path, where)
    if {"format", "shape", "data"} <= shapes.keys():
        shapes = {name: shape for name, shape in shapes.items() if name not in SPARSE_PARTS} | {"X": (0, 0)}
        read = partial(read_npz_sparse, read, where)
    return ListedVariables(where, ".npz", shapes, read)


def read_npz_member(path: Path, where: str, name: str) -> Array:
    with zipfile.ZipFile(path) as archive, archive.open(f"{name}.npy") as file:
        return read_array(file, archive.getinfo(f"{name}.npy").file_size, where)


def read_npz_sparse(read_part: Callable[[str], Array], where: str, name: str) -> Any:
    if name != "X":
        return read_part(name)
    layout = str(read_part("format").astype(str))
    rows, columns = (int(length) for length in read_part("shape"))
    if layout == "coo":
        require_memory(8.0 * rows, where)
        coordinates = (read_part("row"), read_part("col"))
        return sparse.coo_array((read_part("data"), coordinates), shape=(rows, columns))
    if layout not in ("csr", "csc"):
        raise DataError(where, f"a sparse matrix in {layout!r} layout", "save it as CSR: X.tocsr()")
    parts = {part: read_part(part) for part in ("data", "indices", "indptr")}
    return compressed_matrix(parts, (rows, columns), layout == "csc", where)


def refuse_names(inner: str | None, label_key: str | None, format_name: str, where: str) -> None:
    if inner:
        raise DataError(where, f"a {format_name} file holds one matrix", f"leave out ::{inner}")
    if label_key:
        raise DataError(where, f"a {format_name} file holds no labels", "leave out --label-key")
