"""Finding and replacing what is in an HDF5 file."""

from __future__ import annotations

from typing import Any

import h5py
import numpy as np

from .commands import Rng, one_of

LARGEST = 10_000  # values of a dataset that is changed once more


def dataset_names(file: h5py.File) -> list[str]:
    """Those that can be read and written without harm."""
    names: list[str] = []
    file.visititems(lambda name, node: names.append(name) if is_small(node) else None)
    return [name for name in names if not name.startswith("#refs#")] or names


def is_small(node: h5py.Dataset | h5py.Group) -> bool:
    """Whether it is a dataset of this file, and not made huge, or led out of it, by an earlier change."""
    return isinstance(node, h5py.Dataset) and (node.size or 0) < LARGEST and not (node.is_virtual or node.external)


def any_name(rng: Rng, file: h5py.File, groups: bool = False) -> str:
    names = dataset_names(file)
    if groups:
        file.visititems(lambda name, node: names.append(name) if isinstance(node, h5py.Group) else None)
    if not names:
        file["X"] = np.eye(3)
        return "X"
    return str(one_of(rng, names))


def replace(file: h5py.File, name: str, value: Any) -> None:
    """Something else by that name, with the attributes that were there."""
    attributes = dict(file[name].attrs) if name in file else {}
    if name in file:
        del file[name]
    file[name] = value
    if isinstance(file.get(name, getlink=True), h5py.HardLink):
        for key, attribute in attributes.items():
            file[name].attrs[key] = attribute
