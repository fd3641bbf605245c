"""Results added to an AnnData file that exists. Everything else in the file stays as it is.

Begin with ``opened_target``, which reads the names in the file. ``additions`` joins the results to them.
``add`` writes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from scipy import sparse

from mccgr_cli.blocks.protocol import Array
from mccgr_cli.errors import DataError, OutputError
from mccgr_cli.files import hdf5
from mccgr_cli.files.container import DENSITY, LANDMARKS
from mccgr_cli.files.joining import only_in, such_as
from mccgr_cli.files.readers import opened
from mccgr_cli.files.readers.hdf5 import read_column
from mccgr_cli.output.export import Export, length
from mccgr_cli.output.export.h5ad import (
    OF_SAMPLES,
    PLACED,
    Categories,
    Frame,
    about,
    about_graph,
    mark,
    of_features,
    of_samples,
    write,
)

# All places that mccgr may write to. With --overwrite, whatever an earlier result left there is removed.
KEYS = (
    *("obs/mccgr_cluster", "obs/mccgr_certainty", "obs/mccgr_outlier", "var/mccgr_weight", "var/mccgr_silenced"),
    *("obsm/X_mccgr", "varm/mccgr", "obsp/mccgr_connectivities", "uns/mccgr", "uns/mccgr_neighbors"),
)
FRAMES = ("obs", "var")
FRAME_VERSION = "0.2.0"  # of the encoding of a data frame, since anndata 0.8
OVERHEAD = 1 << 20  # bytes that a file grows by beside the values
REMEDY = "name the file that the results were made from"


@dataclass(frozen=True)
class Target:
    """An AnnData file to which results are added."""

    where: str  # for messages
    samples: list[str]
    features: list[str]
    keys: list[str]  # of KEYS, those that it has


@contextmanager
def opened_target(path: str) -> Iterator[Target]:
    """What must be known of the file. Until the block ends, programs that respect the locks of HDF5 cannot write it."""
    with opened(path) as source:
        if source.inner is not None:
            raise DataError(path, "results go into the whole file", f"leave out ::{source.inner}")
        if not source.is_hdf5:
            raise DataError(path, "not an AnnData file", "name an .h5ad file")
        with hdf5.opened(source.handle, path) as file:
            samples, features = (names_in(file, frame, path) for frame in FRAMES)
            yield Target(path, samples, features, [key for key in KEYS if hdf5.resolve(file, key, path) is not None])


def names_in(file: h5py.File, frame: str, where: str) -> list[str]:
    group = hdf5.resolve(file, frame, where)
    about = dict(group.attrs) if isinstance(group, h5py.Group) else {}
    if about.get("encoding-version") != FRAME_VERSION or not isinstance(about.get("_index"), str):
        what = f"/{frame} is not stored as anndata since version 0.8 stores it"
        raise DataError(where, what, "if it is an AnnData file, read it with anndata and write it again")
    return [str(name) for name in read_column(file, frame, about["_index"], where)]


def refuse_existing(target: Target) -> None:
    if target.keys:
        raise OutputError(target.where, f"has {', '.join(target.keys)} already", "give --overwrite to replace them")


# What is added


def additions(export: Export, target: Target) -> dict[str, Any]:
    """Values by their places in the file, in its order of samples and features."""
    contents, order = export.contents, sample_order(export, target)
    per_sample = ("W", "assignments", *OF_SAMPLES)
    datasets = {name: contents[name][order] for name in per_sample if name in contents}
    found: dict[str, Any] = {}
    for name, column in of_samples(replace(contents, datasets=datasets)).items():
        found[f"obs/mccgr_{name}"] = column
    if "W" in datasets:
        found["obsm/X_mccgr"] = datasets["W"]
    if "A" in contents:
        found["obsp/mccgr_connectivities"] = sparse.csr_array(contents["A"])[order][:, order]
        found["uns/mccgr_neighbors"] = about_graph(export, "mccgr_connectivities")
    found["uns/mccgr"] = about(export, (*PLACED, *LANDMARKS, *DENSITY))
    return found | of_basis(export, target, found["uns/mccgr"])


def of_basis(export: Export, target: Target, others: dict[str, Any]) -> dict[str, Any]:
    """H and the weights of the features: beside the features of the file or, if they are others, among ``others``."""
    contents = export.contents
    if "H" not in contents:
        return {}
    columns, H = of_features(contents), contents["H"]
    order = feature_order(export, target)
    if order is None:
        place = "H and the weights go into uns['mccgr']['features']"
        export.note(f"{target.where}: the features of {export.where} are not those in var; {place}")
        others["features"] = Frame(export.names("d"), {**dict(zip(export.components(), H, strict=True)), **columns})
        return {}
    return {"varm/mccgr": H.T[order], **{f"var/mccgr_{name}": column[order] for name, column in columns.items()}}


def sample_order(export: Export, target: Target) -> Array:
    """The position in the results of every sample of the file."""
    ours, theirs, n = export.contents.datasets.get("sample_names"), target.samples, length(export.contents, "n")
    if ours is None:
        if n != len(theirs):
            raise DataError(target.where, f"{len(theirs)} samples where {export.where} has {n}", REMEDY)
        export.note(f"{export.where} has no names of samples: joined to {target.where} by their order")
        return np.arange(n)
    order = joined(ours, theirs, some=True)
    if order is not None:
        if len(order) < len(ours):
            export.note(f"{target.where}: has {len(order)} of the {len(ours)} samples of {export.where}")
        return order
    missing, unknown = only_in(theirs, ours), only_in(ours, theirs)
    if not missing and not unknown:
        what = f"some of its samples have the same name, and they are not in the order of {export.where}"
        raise DataError(target.where, what, "make names unique (in AnnData, obs_names_make_unique) and begin again")
    what = f"{len(missing)} of its {len(theirs)} samples are not in {export.where}{such_as(missing)}"
    raise DataError(
        target.where, f"{what}, and {len(unknown)} of the {n} there are not in it{such_as(unknown)}", REMEDY
    )


def feature_order(export: Export, target: Target) -> Array | None:
    """The position in the results of every feature of the file; None if the features are others."""
    ours, theirs, d = export.contents.datasets.get("feature_names"), target.features, length(export.contents, "d")
    if ours is not None:
        return joined(ours, theirs)
    if d != len(theirs):
        return None
    export.note(f"{export.where} has no names of features: joined to {target.where} by their order")
    return np.arange(d)


def joined(ours: Sequence[str], theirs: Sequence[str], some: bool = False) -> Array | None:
    """The position among ``ours`` of each of ``theirs``; None if they are others, or some are the same.

    ``some``: ``theirs`` may be a part of ``ours``.
    """
    if list(ours) == list(theirs):
        return np.arange(len(theirs))
    place = {name: position for position, name in enumerate(ours)}
    named = set(theirs)
    if len(place) < len(ours) or len(named) < len(theirs) or not named <= place.keys():
        return None
    if not some and len(named) < len(place):
        return None
    return np.array([place[name] for name in theirs])


def size_of(value: Any) -> int:
    """About how many bytes a value takes in a file."""
    if isinstance(value, dict):
        return sum(map(size_of, value.values())) + OVERHEAD
    if isinstance(value, Frame):
        return size_of({"_index": value.index, **value.columns})
    if isinstance(value, Categories):
        return int(value.codes.nbytes)
    if sparse.issparse(value):
        return int(value.data.nbytes + value.indices.nbytes + value.indptr.nbytes)
    return len(value) if isinstance(value, str) else int(np.asarray(value).nbytes)


# Writing


def add(copy: Path, found: dict[str, Any], target: Target) -> None:
    """Write values into a copy of the file, in place of those of an earlier result."""
    try:
        with h5py.File(copy, "r+") as file:
            for key in target.keys:
                del file[key]
            for key, value in found.items():
                parent, _, name = key.partition("/")
                write(place(file, parent, target.where), name, value)
            for frame in FRAMES:
                order_columns(file[frame])
    except (OSError, RuntimeError, ValueError, KeyError, TypeError) as fault:
        what = f"cannot be changed: {' '.join(str(fault).split())}"
        raise OutputError(
            target.where, what, "it is as it was; check that it is whole and the disk has room"
        ) from fault


def place(file: h5py.File, name: str, where: str) -> h5py.Group:
    group = hdf5.resolve(file, name, where)
    if group is None:
        return mark(file.create_group(name), "dict")
    if not isinstance(group, h5py.Group):
        raise DataError(where, f"/{name} is not a group", "read it with anndata and write it again")
    return group


def order_columns(frame: h5py.Group) -> None:
    """State the columns of a data frame: those of mccgr come last."""
    parent = str(frame.name).strip("/")
    ours = [name for place, _, name in (key.partition("/") for key in KEYS) if place == parent]
    stated = [one.decode() if isinstance(one, bytes) else str(one) for one in frame.attrs.get("column-order", ())]
    columns = [*(name for name in stated if name not in ours), *(name for name in ours if name in frame)]
    frame.attrs.create("column-order", columns, (len(columns),), h5py.string_dtype())
