"""HDF5 files of mccgr, version 1: what each kind of file holds, and how it is read, checked and written.

``docs/FORMAT.md`` is the specification in prose, ``SCHEMA`` in code.
"""

from __future__ import annotations

import contextlib
import fnmatch
import io
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import h5py
import numpy as np
from scipy import sparse

from mccgr_cli.catalog import HISTORY, RANK_HEADINGS, SCORES
from mccgr_cli.errors import DataError
from mccgr_cli.files.hdf5 import check_dtype, read_matrix, resolve, values_of
from mccgr_cli.files.lazy_matrix import find_matrix
from mccgr_cli.files.values import as_float, stored_values

FORMAT = "mccgr"
VERSION = 1
ROOT_ATTRIBUTES = ("format", "version", "kind", "provenance")
LONGEST_LIST = 1000  # in an attribute
LONGEST_PROVENANCE = 1 << 24  # characters
DEEPEST_PROVENANCE = 200  # levels of inputs within inputs


@dataclass(frozen=True)
class Field:
    """One dataset: its dimensions by letter (equal letters must be equal lengths) and its type.

    A name ``GROUP/*`` in a schema is any number of datasets in this group, of any shape: ``dims`` is ``*``.
    """

    dims: str
    type: str  # "real", "whole", "text" or "matrix" (real; dense or CSR)
    required: bool = False
    within: tuple[float, float] | None = None  # the least and the largest value; then all must be finite


NON_NEGATIVE = (0.0, np.inf)
ROUNDING = 1e-9  # a value may be outside its bounds by this much
NAMES = {
    "labels": Field("n", "whole"),
    "label_names": Field("c", "text"),
    "sample_names": Field("n", "text"),
    "feature_names": Field("d", "text"),
}
FACTORS = {
    "W": Field("nk", "real", required=True, within=NON_NEGATIVE),
    "H": Field("kd", "real", required=True, within=NON_NEGATIVE),
    "rho": Field("d", "real", required=True, within=NON_NEGATIVE),
    **{f"history/{name}": Field("t", "real", required=True) for name in HISTORY},
}
LEARNT = {"idf": Field("d", "real", within=NON_NEGATIVE)}  # what the normalization tfidf learns
# Old samples as points, with which new samples are compared: how samples become points, and those of some samples.
LANDMARKS = {
    "landmarks/right": Field("da", "real", within=(-1e15, 1e15)),
    "landmarks/offset": Field("a", "real", within=(-1e120, 1e120)),
    "landmarks/points": Field("pa", "real", within=(-2, 2)),
    "landmarks/samples": Field("p", "whole", within=NON_NEGATIVE),
}
# How densely some of the landmarks lie, with which the outlier scores of new samples are computed.
DENSITY = {
    "density/landmarks": Field("q", "whole", within=NON_NEGATIVE),
    "density/radii": Field("q", "real", within=NON_NEGATIVE),
    "density/spacings": Field("q", "real", within=NON_NEGATIVE),
}
# How certain the cluster of each sample is, and how isolated each sample is. With clusters of new samples, also the
# classes that clusters of the old samples are.
PREDICTED = {
    "certainty": Field("n", "real", within=(-1, 1)),
    "outlier": Field("n", "real", within=NON_NEGATIVE),
    "correspondence/clusters": Field("m", "whole"),
    "correspondence/classes": Field("m", "text"),
}
# Comes with a matrix made from images or texts: facts of image files, visual words, stop words, what was skipped.
EXTRACTED = {
    "images/sha256": Field("n", "text"),
    "images/bytes": Field("n", "whole", within=NON_NEGATIVE),
    "images/width": Field("n", "whole", within=NON_NEGATIVE),
    "images/height": Field("n", "whole", within=NON_NEGATIVE),
    "images/sharpness": Field("n", "real", within=NON_NEGATIVE),
    "codebook": Field("dv", "real"),
    "texts/stop_words": Field("u", "text"),
    "skipped/names": Field("s", "text"),
    "skipped/reasons": Field("s", "text"),
}


def columns(type: str, names: str) -> dict[str, Field]:
    """Required columns of a table with ``r`` rows."""
    return {name: Field("r", type, required=True) for name in names.split()}


# One row for every factorization (or k-means) of an experiment.
RESULTS = {
    **columns("text", "method normalize weight"),
    **columns("whole", "k run neighbors iterations settled converged"),
    **columns("real", "alpha strength theta keep seconds"),
    **{name: Field("r", "real", required=True, within=(-1.0 if name == "ari" else 0.0, 1.0)) for name in SCORES},
}
# One row for every number of components that was tried; NaN where a criterion has no value.
RANKS = {name: Field("r", "whole" if name in ("k", "runs") else "real", required=True) for name in RANK_HEADINGS}
# A run between two iterations: the factors, the names of samples and features, what else the solver must know
# (Update.restore checks that it fits), and the best of earlier starts.
CHECKPOINT = {
    **FACTORS,
    **LEARNT,
    **NAMES,
    "state/*": Field("*", "real", within=(-1e300, 1e300)),
    **{f"best/{name}": replace(FACTORS[name], required=False) for name in ("W", "H", "rho")},
    **{f"best/history/{name}": Field("b", "real") for name in HISTORY},
    "A": Field("nn", "matrix", within=NON_NEGATIVE),
}
SCHEMA: Mapping[str, Mapping[str, Field]] = {
    "matrix": {"X": Field("nd", "matrix", required=True), **NAMES, **EXTRACTED},
    "graph": {"A": Field("nn", "matrix", required=True, within=NON_NEGATIVE), "sample_names": NAMES["sample_names"]},
    "factors": {**FACTORS, **LEARNT, **NAMES, **LANDMARKS, **DENSITY, "outlier": PREDICTED["outlier"]},
    "clusters": {
        "assignments": Field("n", "whole", required=True),
        **{name: replace(field, required=False) for name, field in FACTORS.items()},  # if factors were clustered
        **LEARNT,
        **NAMES,
        **LANDMARKS,
        **DENSITY,
        **PREDICTED,
    },
    "results": RESULTS,
    "ranks": RANKS,
    "checkpoint": CHECKPOINT,
}
# If one of these is in a file, all must be.
TOGETHER = (
    tuple(FACTORS),
    tuple(LANDMARKS),
    tuple(DENSITY),
    tuple(name for name in PREDICTED if name.startswith("correspondence/")),
    tuple(name for name in EXTRACTED if name.startswith("skipped/")),
    tuple(name for name in EXTRACTED if name.startswith("images/")),
    tuple(name for name in CHECKPOINT if name.startswith("best/")),
)


@dataclass(frozen=True)
class Contents:
    """What a file holds: its kind, its datasets by path, its root attributes and its provenance."""

    kind: str
    datasets: dict[str, Any]
    attributes: dict[str, Any] = field(default_factory=dict)
    provenance: dict[str, Any] = field(default_factory=dict)

    def __getitem__(self, name: str) -> Any:
        return self.datasets[name]

    def __contains__(self, name: str) -> bool:
        return name in self.datasets

    def names(self) -> dict[str, Any]:
        """Labels and names, which every stage copies to its result."""
        return {name: self.datasets[name] for name in NAMES if name in self.datasets}

    def labels_as_text(self) -> list[str] | None:
        """The label of every sample by name."""
        if "labels" not in self:
            return None
        names = self.datasets.get("label_names")
        return [str(code) if names is None else names[code] for code in self["labels"]]

    def correspondence(self) -> dict[int, str]:
        """The class of each cluster, if old samples have decided it; otherwise empty."""
        if "correspondence/clusters" not in self:
            return {}
        return dict(zip(self["correspondence/clusters"].tolist(), self["correspondence/classes"], strict=True))


# Reading


def is_container(file: h5py.File) -> bool:
    return bool(file.attrs.get("format") == FORMAT)


def read(file: h5py.File, where: str) -> Contents:
    """Read a file of mccgr and check it against the schema of its kind. X stays in the file until it is loaded."""
    kind, version = file.attrs.get("kind"), file.attrs.get("version")
    if not isinstance(version, (int, np.integer)) or version < 1:
        raise DataError(where, f"its format version is {version!r}, not a number", "the file is damaged")
    if version > VERSION:
        raise DataError(where, f"format version {version} is newer than this mccgr reads", "update mccgr")
    if not isinstance(kind, str) or kind not in SCHEMA:
        raise DataError(where, f"unknown kind of file {kind!r}", f"mccgr reads {', '.join(SCHEMA)}")
    datasets = {}
    for name, spec in _fields_of(file, kind, where):
        node = resolve(file, name, where)
        if node is not None:
            datasets[name] = _read_field(node, name, spec, where)
        elif spec.required:
            raise DataError(where, f"a {kind} file without /{name}", "make it again")
    _check_lengths(kind, datasets, where)
    for names in TOGETHER:
        there = [name for name in names if name in datasets]
        missing = [name for name in names if name in SCHEMA[kind] and name not in datasets]
        if there and missing:
            raise DataError(where, f"/{there[0]} without /{missing[0]}", "make it again")
    return Contents(kind, datasets, _read_attributes(file), _read_provenance(file))


def _fields_of(file: h5py.File, kind: str, where: str) -> Iterator[tuple[str, Field]]:
    """The fields of the schema, with those of an open group by the names that the file has."""
    for name, spec in SCHEMA[kind].items():
        if spec.dims != "*":
            yield name, spec
        elif isinstance(group := resolve(file, name.removesuffix("/*"), where), h5py.Group):
            found: list[str] = []
            group.visit(found.append)
            inner = [name.replace("*", one) for one in found]
            yield from ((one, spec) for one in inner if isinstance(resolve(file, one, where), h5py.Dataset))


def _read_attributes(file: h5py.File) -> dict[str, Any]:
    """Text, numbers, and short lists of these. Other attributes are not written by mccgr."""
    found = {}
    for name in file.attrs:
        value = file.attrs[name] if name not in ROOT_ATTRIBUTES else None
        if isinstance(value, (np.generic, np.ndarray)) and value.size <= LONGEST_LIST:
            value = value.tolist()
        parts = value if isinstance(value, list) else [value]
        if all(isinstance(part, (str, bool, int, float)) for part in parts) and is_text(name, *parts):
            found[name] = value
    return found


def is_text(*parts: Any) -> bool:
    """Whether the texts among these can be written: h5py reads bytes that are not UTF-8 as lone surrogates."""
    try:
        "".join(part for part in parts if isinstance(part, str)).encode()
    except UnicodeEncodeError:
        return False
    return True


def read_text(node: h5py.Dataset, name: str, where: str) -> list[str]:
    if h5py.check_string_dtype(node.dtype) is None or node.ndim != 1:
        raise DataError(where, f"/{name} is not a list of names", "the file is damaged")
    return [str(text) for text in values_of(node, where)]


def _read_field(node: h5py.Dataset | h5py.Group, name: str, spec: Field, where: str) -> Any:
    if spec.type == "matrix" and spec.within is None:
        return find_matrix(node, name, where)
    if spec.type == "matrix":
        found = read_matrix(node, name, where)
    elif not isinstance(node, h5py.Dataset) or (spec.dims != "*" and node.ndim != len(spec.dims)):
        raise DataError(where, f"/{name} is not a dataset of {len(spec.dims)} dimensions", "make it again")
    elif spec.type == "text":
        return read_text(node, name, where)
    else:
        check_dtype(node, name, spec.type, where)
        found = np.asarray(values_of(node, where))
    if spec.type != "whole":
        found = as_float(found)
    if spec.within is None:
        return found
    values, (least, largest) = stored_values(found), spec.within
    open_ended = largest == np.inf
    slack = 0.0 if open_ended else ROUNDING
    if values.size and not (float(values.min()) >= least - slack and float(values.max()) < largest + slack):  # or NaN
        what = "negative or non-finite values" if open_ended else f"values that are not from {least:g} to {largest:g}"
        raise DataError(where, f"{what} in /{name}", "make it again")
    return found


def _check_lengths(kind: str, datasets: Mapping[str, Any], where: str) -> None:
    seen: dict[str, tuple[int, str]] = {}
    for name, value in ((name, datasets[name]) for name in SCHEMA[kind] if name in datasets):
        lengths = value.shape if hasattr(value, "shape") else (len(value),)
        for letter, length in zip(SCHEMA[kind][name].dims, lengths, strict=True):
            known, first = seen.setdefault(letter, (length, name))
            if length == 0 and letter != "c":
                raise DataError(where, f"/{name} is empty", "make it again")
            if known != length:
                what = f"/{name} has {length} entries where /{first} has {known}"
                raise DataError(where, what, "the file is damaged or was put together wrongly")
    if "labels" in datasets and "label_names" in datasets:
        codes = datasets["labels"]
        if len(codes) and (codes.min() < 0 or codes.max() >= len(datasets["label_names"])):
            raise DataError(where, "/labels points outside /label_names", "the file is damaged")
    if "landmarks/samples" in datasets and "n" in seen and datasets["landmarks/samples"].max() >= seen["n"][0]:
        raise DataError(where, f"/landmarks/samples points outside /{seen['n'][1]}", "the file is damaged")
    if "density/landmarks" in datasets and datasets["density/landmarks"].max() >= seen.get("p", (0, ""))[0]:
        raise DataError(where, "/density/landmarks points outside /landmarks/points", "the file is damaged")


def _read_provenance(file: h5py.File) -> dict[str, Any]:
    """The provenance; an empty one if it is damaged, as it is only for people."""
    with contextlib.suppress(ValueError, TypeError, RecursionError):
        text = file.attrs.get("provenance", "{}")
        value = json.loads(text) if len(text) <= LONGEST_PROVENANCE else None
        if isinstance(value, dict) and is_shallow(value):
            return value
    return {}


def is_shallow(value: Any) -> bool:
    """Whether a value is nested so little that json can write it, which takes one call per level."""
    level: list[Any] = [value]
    for _ in range(DEEPEST_PROVENANCE):
        inner = [one.values() if isinstance(one, dict) else one for one in level if isinstance(one, (dict, list))]
        level = [one for some in inner for one in some]
        if not level:
            return True
    return False


# Writing


def encode(contents: Contents) -> bytes:
    """The bytes of a file. It is made in memory: HDF5 cannot write to a pipe, nor fail cleanly on a full disk."""
    buffer = io.BytesIO()
    with h5py.File(buffer, "w") as file:
        file.attrs.update({"format": FORMAT, "version": VERSION, "kind": contents.kind})
        file.attrs["provenance"] = json.dumps(contents.provenance, sort_keys=True)
        file.attrs.update(contents.attributes)
        for pattern, spec in SCHEMA[contents.kind].items():
            for name in fnmatch.filter(contents.datasets, pattern):
                _write_field(file, name, spec, contents[name])
    return buffer.getvalue()


def _write_field(file: h5py.File, name: str, spec: Field, value: Any) -> None:
    if spec.type == "text":
        texts = [str(text).replace("\0", "\N{REPLACEMENT CHARACTER}") for text in value]  # HDF5 ends a text at 0
        file.create_dataset(name, data=texts, dtype=h5py.string_dtype())
    elif sparse.issparse(value):
        group = file.create_group(name)
        group.attrs["shape"] = value.shape
        group.attrs["encoding-type"] = "csr_matrix"
        for part in ("data", "indices", "indptr"):
            group.create_dataset(part, data=getattr(value, part))
    else:
        file.create_dataset(name, data=value)
