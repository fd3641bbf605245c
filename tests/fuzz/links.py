"""HDF5 files where something is missing, called otherwise, or leads elsewhere."""

from __future__ import annotations

import h5py
import numpy as np

from .commands import Rng, one_of
from .nodes import any_name, replace

# Where links lead that must not be followed. Never to a file that matters: a fault here could write to it.
TARGET = "../canary/target.h5"
SECRET = "../canary/secret"
NOWHERE = "/nowhere/passwd"


def remove(rng: Rng, file: h5py.File) -> None:
    del file[any_name(rng, file, groups=True)]


def rename(rng: Rng, file: h5py.File) -> None:
    name = any_name(rng, file, groups=True)
    new = one_of(
        rng, ("x", "Y", "labels", "é", "a\nb", "#x", " ", "X.", "data", "indptr", "n" * 3000, b"\xff\xfe", "gnd")
    )
    file.move(name, new)


def add(rng: Rng, file: h5py.File) -> None:
    """A dataset that was not there, by a name with a meaning."""
    name = one_of(
        rng,
        (
            "labels",
            "Y",
            "gnd",
            "label_names",
            "sample_names",
            "codebook",
            "obs",
            "var",
            "W",
            "skipped/names",
            "fea",
            "bag",
        ),
    )
    value = one_of(
        rng, (np.arange(12), np.ones((12, 8)), ["a"] * 12, np.nan, np.full(12, -1), np.zeros((0, 3)), ["\n"] * 12)
    )
    replace(file, name, value)


def become_group(rng: Rng, file: h5py.File) -> None:
    name = any_name(rng, file)
    values = np.asarray(file[name][()])
    del file[name]
    group = file.create_group(name)
    if rng.random() < 0.6:
        group["data"], group["indices"], group["indptr"] = (
            values.ravel(),
            np.arange(values.size),
            np.arange(values.size + 1),
        )
        group.attrs["shape"] = one_of(
            rng, ((12, 8), (-1, 8), (2**62, 8), (2**40, 8), (12, 2**40), (values.size, values.size))
        )
        group.attrs["encoding-type"] = one_of(rng, ("csr_matrix", "csc_matrix", "coo", 5))


def become_type(rng: Rng, file: h5py.File) -> None:
    """A named type where a dataset should be."""
    name = any_name(rng, file)
    del file[name]
    file[name] = np.dtype("f8")


def link(rng: Rng, file: h5py.File) -> None:
    """A soft link to elsewhere in the file, in a circle, or to nothing."""
    name = any_name(rng, file, groups=True)
    targets = ("/", f"/{name}", ".", "..", "/nothing", f"/{any_name(rng, file)}", "a/" * 2000, "/loop", "\n", "/#refs#")
    del file[name]
    file[name] = h5py.SoftLink(one_of(rng, targets))
    file["loop"] = h5py.SoftLink("/pool")
    file["pool"] = h5py.SoftLink("/loop")


def cycle(rng: Rng, file: h5py.File) -> None:
    """A group that lies in itself."""
    name = any_name(rng, file, groups=True)
    if rng.random() < 0.5 and isinstance(file[name], h5py.Group):
        file[f"{name}/data"] = file[name]
    else:
        del file[name]
        file[name] = file["/"]


def link_outside(rng: Rng, file: h5py.File) -> None:
    name = any_name(rng, file, groups=True)
    del file[name]
    file[name] = h5py.ExternalLink(
        one_of(rng, (TARGET, TARGET, SECRET, NOWHERE, "")), one_of(rng, ("/X", "/", f"/{name}"))
    )
    if rng.random() < 0.3:
        file.move(name, "way")
        file[name] = h5py.SoftLink("/way")


def virtual(rng: Rng, file: h5py.File) -> None:
    """Values that lie in another file, or in the same."""
    name = any_name(rng, file)
    shape, dtype = file[name].shape, file[name].dtype
    del file[name]
    layout = h5py.VirtualLayout(shape, dtype)
    layout[...] = h5py.VirtualSource(one_of(rng, (TARGET, TARGET, ".")), "X", shape)
    file.create_virtual_dataset(name, layout)


def store_outside(rng: Rng, file: h5py.File) -> None:
    name = any_name(rng, file)
    shape, dtype = file[name].shape, file[name].dtype
    del file[name]
    file.create_dataset(name, shape, dtype, external=[(one_of(rng, (SECRET, TARGET, NOWHERE)), 0, h5py.h5f.UNLIMITED)])
