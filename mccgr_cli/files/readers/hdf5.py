"""Matrices and labels in HDF5: files of mccgr, .h5ad, .mat from version 7.3 on, and any other."""

from __future__ import annotations

import mmap
import re
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import h5py
import numpy as np

from mccgr_cli.blocks.protocol import Array
from mccgr_cli.errors import DataError, UnusableValues
from mccgr_cli.files.container import Contents, is_container, read, read_text
from mccgr_cli.files.hdf5 import check_filters, compressed_matrix, opened, read_matrix, resolve, values_of
from mccgr_cli.files.lazy_matrix import find_matrix
from mccgr_cli.files.readers.arrays import Found, NamedLabels, missing, read_label_variable, read_variables, shown

SIGNATURE = b"\x89HDF\r\n\x1a\n"
HEAP = b"GCOL\x01\0\0\0"  # every heap of texts begins with this
HEAP_HEADER = 16
SHOWN_MATRICES = 3
SCALED = re.compile("scale", re.IGNORECASE)  # names of layers that have negative values too
ENTRY = struct.Struct("<HHIQ")  # of a heap: index, references, padding, length


def is_hdf5(file: BinaryIO) -> bool:
    """Whether the signature of HDF5 is at byte 0 or, after a block of the user, at 512, 1024, 2048, ..."""
    size, offset = file.seek(0, 2), 0
    while offset < size:
        file.seek(offset)
        if file.read(len(SIGNATURE)) == SIGNATURE:
            return True
        offset = 2 * offset or 512
    return False


def kind_of(path: str) -> str | None:
    """The kind of a file of mccgr, as its root says; None for any other file."""
    try:
        if not Path(path).is_file():  # such as a pipe, which can be read only once
            return None
        with h5py.File(path, "r") as file:
            return str(file.attrs.get("kind")) if is_container(file) else None
    except (OSError, KeyError, RuntimeError, ValueError, TypeError, OverflowError):
        return None


def check_heaps(file: BinaryIO, places: Sequence[int], where: str) -> None:
    """An error if a heap of texts has an entry of length 0: HDF5 may loop for ever. It finds other faults itself."""
    if not places:
        return
    with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        left = len(content) // ENTRY.size  # the most entries that all heaps together can have
        for heap in places:
            length = int.from_bytes(content[heap + len(HEAP) : heap + HEAP_HEADER], "little")
            place, end = heap + HEAP_HEADER, min(heap + length, len(content))
            while place + ENTRY.size <= end:
                index, _, _, length = ENTRY.unpack_from(content, place)
                step = (ENTRY.size + (length + 7) // 8 * 8) % 2**64 if index else length  # as HDF5 computes it
                left -= 1
                if step == 0 or left < 0:
                    what = f"damaged HDF5 file (a heap at byte {heap})"
                    raise DataError(where, what, "make, copy or download it again")
                place += step


def read_hdf5(
    source: Path | BinaryIO, inner: str | None, label_key: str | None, where: str, matlab: bool
) -> Contents | Found:
    """All of a mccgr file; from any other file, or if a dataset is named, its matrix, labels and names."""
    with opened(source, where) as file:
        if is_container(file) and inner is None:
            if label_key is not None:
                raise DataError(where, "a mccgr file has its labels in /labels", "leave out --label-key")
            return read(file, where)
        if is_h5ad(file):
            return read_h5ad(HDF5Variables(file, where, False), inner, label_key)
        return read_variables(HDF5Variables(file, where, matlab), inner, label_key)


def read_hdf5_labels(source: Path | BinaryIO, inner: str | None, where: str, matlab: bool) -> NamedLabels:
    with opened(source, where) as file:
        if is_container(file) and inner is None:
            contents = read(file, where)
            labels = contents.labels_as_text()
            if labels is None:
                raise DataError(where, "no labels in it", "make it from a matrix that has them")
            return NamedLabels(contents.datasets.get("sample_names"), labels)
        if is_h5ad(file):
            frame, _, column = (inner or "").strip("/").rpartition("/")
            labels = read_column(file, frame or "obs", column, where)
            return NamedLabels(read_index(file, frame or "obs", where), labels)
        return read_label_variable(HDF5Variables(file, where, matlab), inner)


@dataclass(frozen=True)
class HDF5Variables:
    """The datasets of a file, by name or, below the root, by path."""

    file: h5py.File
    where: str
    matlab: bool  # MATLAB stores by columns, so everything appears transposed

    @property
    def counts_from_one(self) -> bool:
        return self.matlab

    def names(self) -> list[str]:
        return [name for name in self.file if not name.startswith("#")]  # "#refs#" is MATLAB's own

    def shape(self, name: str) -> tuple[int, ...] | None:
        node = resolve(self.file, name, self.where)
        if isinstance(node, h5py.Dataset):
            holds_numbers = node.dtype.kind in "fiub" and matlab_class(node) != "char"
            return tuple(node.shape or ()) if holds_numbers else None
        is_sparse = isinstance(node, h5py.Group) and {"data", "MATLAB_sparse"} & {*node, *node.attrs}
        return (0, 0) if is_sparse else None  # it has two dimensions; the lengths do not matter

    def matrix(self, name: str) -> Any:
        node = self.find(name)
        if "MATLAB_sparse" in node.attrs:
            return read_matlab_sparse(node, name, self.where)
        if "MATLAB_empty" in node.attrs:  # then the values are the lengths
            return np.empty((0, 0))
        check_filters(node, name, self.where)
        if isinstance(node, h5py.Dataset) and (self.matlab or "MATLAB_class" in node.attrs):
            return read_matrix(node, name, self.where).T
        return find_matrix(node, name, self.where)

    def labels(self, name: str) -> Any:
        node = self.find(name)
        if not isinstance(node, h5py.Dataset) or "MATLAB_object_decode" in node.attrs:
            what = f"/{name} holds no labels that can be read"
            raise UnusableValues(self.where, what, "store them as numbers or as a list of text")
        if matlab_class(node) == "char":
            return matlab_text(values_of(node, self.where))
        if h5py.check_ref_dtype(node.dtype) is h5py.Reference:
            return [self.cell_text(reference, name) for reference in values_of(node, self.where).ravel()]
        return read_values(node, name, self.where)

    def find(self, name: str) -> h5py.Dataset | h5py.Group:
        node = resolve(self.file, name, self.where)
        if node is None:
            raise missing(self, name)
        return node

    def cell_text(self, reference: h5py.Reference, name: str) -> str:
        """One text of a MATLAB cell array, which is an array of references."""
        node = resolve(self.file, self.file[reference].name or "", self.where)
        if not isinstance(node, h5py.Dataset) or matlab_class(node) != "char":
            raise UnusableValues(self.where, f"/{name} holds cells that are not text", "store the labels as text")
        return "".join(matlab_text(values_of(node, self.where)))


def matlab_class(node: h5py.Dataset) -> str:
    value = node.attrs.get("MATLAB_class", b"")
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)


def matlab_text(characters: Array) -> list[str]:
    """Each row of a character matrix (here a column) as text, without padding."""
    rows = np.atleast_2d(characters).T.astype("<u2")
    return [row.tobytes().decode("utf-16-le", errors="replace").rstrip(" \0") for row in rows]


def read_matlab_sparse(group: h5py.Group, name: str, where: str) -> Any:
    """A CSC matrix of MATLAB: rows in ``ir``, starts of columns in ``jc``, no data if all values are 0."""
    parts = {}
    for part, stored in (("indptr", "jc"), ("indices", "ir"), ("data", "data")):
        node = resolve(group, stored, where)
        if not isinstance(node, h5py.Dataset) and part == "indptr":
            raise DataError(where, f"/{name} is a sparse matrix without {stored}", "the file is damaged")
        parts[part] = np.empty(0, np.int64) if node is None else np.ravel(values_of(node, where))
    shape = (int(group.attrs["MATLAB_sparse"]), len(parts["indptr"]) - 1)
    starts = {part: parts[part].astype(np.int64) for part in ("indptr", "indices")}  # stored unsigned
    return compressed_matrix({**parts, **starts}, shape, by_column=True, where=f"{where}: /{name}")


def read_values(node: h5py.Dataset, name: str, where: str) -> Any:
    """Numbers as an array, text as a list."""
    return read_text(node, name, where) if h5py.check_string_dtype(node.dtype) else np.asarray(values_of(node, where))


# .h5ad


def is_h5ad(file: h5py.File) -> bool:
    return file.attrs.get("encoding-type") == "anndata" or all(
        isinstance(file.get(name, getlink=True), h5py.HardLink) and isinstance(file[name], h5py.Group)
        for name in ("obs", "var")
    )


def read_h5ad(variables: HDF5Variables, inner: str | None, label_key: str | None) -> Found:
    """X, a layer or raw, with the names of the samples and of its own features."""
    file, where = variables.file, variables.where
    known = matrices_of(file, where)
    asked = (inner or "X").strip("/")
    name = known.get(asked, asked)
    if resolve(file, name, where) is None:
        raise DataError(where, f"nothing called {asked!r} in it", f"it has {shown(list(known))}")
    found: Found = {"X": variables.matrix(name)}
    path = where.removesuffix(f"::{inner}")
    others = [f"{path}::{one}" for one, place in known.items() if place != name and not SCALED.search(one)]
    if Path(path).is_file():  # not what came down a pipe
        found["instead"] = " or ".join(others[:SHOWN_MATRICES])
    genes = "raw/var" if name.startswith("raw/") else "var"
    for axis, (kind, frame) in enumerate((("sample_names", "obs"), ("feature_names", genes))):
        names = read_index(file, frame, where)
        if names is not None and len(names) == found["X"].shape[axis]:  # an embedding has columns of its own
            found[kind] = names
    if label_key is not None:
        found["labels"] = read_column(file, "obs", label_key, where)
    return found


def read_index(file: h5py.File, frame: str, where: str) -> list[str] | None:
    """The names of the rows of a data frame, if it has any."""
    group = resolve(file, frame, where)
    index = group.attrs.get("_index") if isinstance(group, h5py.Group) else None
    if not isinstance(index, str) or resolve(group, index, where) is None:
        return None
    return [str(one) for one in read_column(file, frame, index, where)]


def matrices_of(file: h5py.File, where: str) -> dict[str, str]:
    """Where the matrices of an .h5ad file are, by the names that users give them. Counts come first."""
    layers = resolve(file, "layers", where)
    names = sorted(layers, key=lambda name: "count" not in name.lower()) if isinstance(layers, h5py.Group) else []
    places = {"raw": "raw/X", **{f"layers/{name}": f"layers/{name}" for name in names}, "X": "X"}
    return {name: place for name, place in places.items() if resolve(file, place, where) is not None}


def read_column(file: h5py.File, frame: str, column: str, where: str) -> Any:
    """A column of a data frame: plain, categorical, or values with a mask for missing ones."""
    group = resolve(file, frame, where)
    node = resolve(group, column, where) if isinstance(group, h5py.Group) and column else None
    if node is None:
        known = [name for name in group if not name.startswith("_")] if isinstance(group, h5py.Group) else []
        what = f"no column {column!r} in {frame}" if column else "its labels need a name, FILE::obs/COLUMN"
        raise DataError(where, what, f"{frame} has {shown(known)}")
    path = f"{frame}/{column}"
    if isinstance(node, h5py.Dataset):
        values = read_values(node, path, where)
        categories = resolve(group, f"__categories/{column}", where)  # anndata before 0.8
        return values if categories is None else pick(values, categories, path, where)
    parts = {part: resolve(node, part, where) for part in ("codes", "categories", "values", "mask")}
    if isinstance(parts["codes"], h5py.Dataset):
        return pick(values_of(parts["codes"], where), parts["categories"], path, where)
    if not isinstance(parts["values"], h5py.Dataset):
        raise DataError(where, f"/{path} is not a column of labels", f"name another column of {frame}")
    if isinstance(parts["mask"], h5py.Dataset):
        refuse_missing(np.asarray(values_of(parts["mask"], where), dtype=bool), path, where)
    return read_values(parts["values"], path, where)


def pick(codes: Array, categories: Any, path: str, where: str) -> Any:
    if not isinstance(categories, h5py.Dataset) or codes.dtype.kind not in "iu":
        raise DataError(where, f"/{path} has codes but no categories", "the file is damaged")
    names = np.asarray(read_values(categories, path, where))
    refuse_missing(codes < 0, path, where)
    if len(codes) and codes.max() >= len(names):
        raise DataError(where, f"/{path} has codes outside its categories", "the file is damaged")
    return names[codes]


def refuse_missing(is_missing: Array, path: str, where: str) -> None:
    if is_missing.any():
        what = f"/{path} has no label for {is_missing.sum()} samples, first sample {is_missing.argmax()}"
        raise DataError(where, what, "leave those samples out or give them a label")
