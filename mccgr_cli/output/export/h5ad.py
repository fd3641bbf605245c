"""AnnData files, by the specification of the format: attributes of each group and dataset say what it encodes.

https://anndata.readthedocs.io/en/stable/fileformat-prose.html
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import h5py
import numpy as np
from scipy import sparse

from mccgr_cli.blocks.protocol import Array
from mccgr_cli.catalog import SILENCED
from mccgr_cli.errors import ParameterError
from mccgr_cli.files.container import Contents
from mccgr_cli.files.readers import KINDS
from mccgr_cli.output.export import NOUNS, Export, clean, length, others

VERSIONS = {"anndata": "0.1.0", "dict": "0.1.0", "csr_matrix": "0.1.0"}  # of each encoding
VERSION = "0.2.0"  # of all other encodings
OF_SAMPLES = ("certainty", "outlier")
PLACED = ("X", "A", "W", "H", "rho", "assignments", *OF_SAMPLES, "codebook")  # datasets that do not go into uns


@dataclass(frozen=True)
class Frame:
    """Columns, and a name for each row."""

    index: list[str]
    columns: dict[str, Any]


@dataclass(frozen=True)
class Categories:
    """Values as positions in a list of different names."""

    names: list[str]
    codes: Array


def as_h5ad(export: Export, what: str) -> bytes:
    buffer = io.BytesIO()
    with h5py.File(buffer, "w") as file:
        mark(file, "anndata")
        for name, value in parts(export).items():
            write(file, name, value)
    return buffer.getvalue()


def parts(export: Export) -> dict[str, Any]:
    """The parts of an AnnData object."""
    contents = export.contents
    if length(contents, "n") is None:
        what = f"{export.where} holds {KINDS[contents.kind][0]}, which AnnData has no place for"
        raise ParameterError(".h5ad", what, "choose .npz or .mat")
    for dim, call in (("n", "obs_names_make_unique"), ("d", "var_names_make_unique")):
        names = contents.datasets.get(f"{NOUNS[dim]}_names", [])
        repeated = len(names) - len(set(names))
        if repeated:  # AnnData accepts them with a warning
            remedy = f"in AnnData, {call}() makes them unique"
            export.note(f"{repeated} {NOUNS[dim]}s have the name of an earlier one; {remedy}")
    observed = of_samples(contents)
    labels = contents.labels_as_text()
    if labels is not None:
        observed["label"] = categories(labels, contents.datasets.get("label_names"))
    found: dict[str, Any] = {"X": contents["X"]} if "X" in contents else {}
    found["obs"] = Frame(export.names("n"), observed)
    found["var"] = Frame(export.names("d"), of_features(contents))
    found["obsm"] = {"X_mccgr": contents["W"]} if "W" in contents else {}
    found["varm"] = {"mccgr": contents["H"].T} if "H" in contents else {}
    if "codebook" in contents:
        found["varm"]["codebook"] = contents["codebook"]
    found["obsp"] = {"connectivities": sparse.csr_array(contents["A"])} if "A" in contents else {}
    found |= {"varp": {}, "layers": {}}
    found["uns"] = {"mccgr": about(export, PLACED)}
    if "A" in contents:  # scanpy looks here for the graph to use
        found["uns"]["neighbors"] = about_graph(export, "connectivities")
    return found


def of_samples(contents: Contents) -> dict[str, Any]:
    """The columns of ``obs`` that mccgr computes."""
    found: dict[str, Any] = {}
    if "assignments" in contents:
        ids, codes = np.unique(contents["assignments"], return_inverse=True)
        found["cluster"] = Categories([str(number) for number in ids], codes)
    return found | {name: contents[name] for name in OF_SAMPLES if name in contents}


def of_features(contents: Contents) -> dict[str, Any]:
    """The columns of ``var`` that mccgr computes."""
    return {"weight": contents["rho"], "silenced": contents["rho"] < SILENCED} if "rho" in contents else {}


def about(export: Export, but: Sequence[str]) -> dict[str, Any]:
    """Parameters, history, provenance and all datasets except ``but``."""
    known = export.parameters(lambda name: "/" not in name and name not in ("", "."))
    return {**others(export.contents, but), "parameters": known, "provenance": export.provenance()}


def about_graph(export: Export, place: str) -> dict[str, Any]:
    """What scanpy must know about the graph in ``obsp[place]``."""
    return {"connectivities_key": place, "params": {"method": "mccgr", "n_neighbors": export.neighbors}}


def categories(texts: list[str], known: list[str] | None) -> Categories:
    """Texts as categories: all known names in their order, or the texts in the order in which they occur."""
    names = list(dict.fromkeys(clean(name) for name in (texts if known is None else known)))
    place = {name: code for code, name in enumerate(names)}
    return Categories(names, np.array([place[clean(text)] for text in texts], dtype=np.int64))


def write(parent: h5py.Group, name: str, value: Any) -> None:
    """Write a value by its type."""
    if isinstance(value, dict):
        group = mark(parent.create_group(name), "dict")
        for key, inner in value.items():
            write(group, key, inner)
    elif isinstance(value, Frame):
        group = mark(parent.create_group(name), "dataframe")
        group.attrs["_index"] = "_index"
        group.attrs.create("column-order", list(value.columns), (len(value.columns),), h5py.string_dtype())
        for key, column in {"_index": value.index, **value.columns}.items():
            write(group, key, column)
    elif isinstance(value, Categories):
        group = mark(parent.create_group(name), "categorical")
        group.attrs["ordered"] = False
        write(group, "categories", value.names)
        write(group, "codes", value.codes.astype(np.min_scalar_type(-len(value.names))))
    elif sparse.issparse(value):
        group = mark(parent.create_group(name), "csr_matrix")
        group.attrs["shape"] = value.shape
        for part in ("data", "indices", "indptr"):
            group.create_dataset(part, data=getattr(value, part))
    elif isinstance(value, list) and all(isinstance(part, str) for part in value):
        mark(parent.create_dataset(name, (len(value),), h5py.string_dtype(), value), "string-array")
    elif isinstance(value, str):
        mark(parent.create_dataset(name, data=value, dtype=h5py.string_dtype()), "string")
    elif isinstance(value, (bool, int, float)):
        mark(parent.create_dataset(name, data=value), "numeric-scalar")
    else:
        mark(parent.create_dataset(name, data=np.asarray(value)), "array")


def mark(node: Any, encoding: str) -> Any:
    node.attrs["encoding-type"] = encoding
    node.attrs["encoding-version"] = VERSIONS.get(encoding, VERSION)
    return node
