"""Arrays by name, for NumPy and MATLAB."""

from __future__ import annotations

import io
import json
import re
from typing import Any

import numpy as np
from scipy import sparse
from scipy.io import savemat

from mccgr_cli import __version__
from mccgr_cli.blocks.protocol import Array
from mccgr_cli.errors import MccgrError, ParameterError
from mccgr_cli.output.export import Export, clean, others
from mccgr_cli.system.memory import available_memory, format_bytes

LARGEST_VARIABLE = 2**31 - 1  # bytes, in version 5 of MATLAB's format
HEADER_TEXT = 116  # bytes
CELL_BYTES = 64  # of a text in a cell, in addition to its letters
LARGEST_WHOLE = 2**53  # double precision holds all whole numbers up to this
MATLAB_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,62}")


def as_npy(export: Export, what: str) -> bytes:
    values = export.contents[what]
    if sparse.issparse(values):
        raise ParameterError(".npy", f"{what} is sparse, and .npy holds dense arrays", "choose .npz or .mtx")
    buffer = io.BytesIO()
    np.save(buffer, values)
    return buffer.getvalue()


def as_npz(export: Export, what: str) -> bytes:
    """All datasets by their names in the container; a sparse matrix as scipy.sparse.save_npz writes it."""
    arrays: dict[str, Any] = {}
    for name, value in export.contents.datasets.items():
        if sparse.issparse(value):
            arrays |= {"format": np.array(b"csr"), "shape": np.array(value.shape)}
            arrays |= {part: getattr(value, part) for part in ("data", "indices", "indptr")}
        else:
            arrays[name] = text_array(value, name, export) if isinstance(value, list) else value
    arrays["parameters"] = np.array(json.dumps(export.contents.attributes, sort_keys=True))
    arrays["provenance"] = np.array(export.provenance())
    buffer = io.BytesIO()
    np.savez(buffer, allow_pickle=False, **arrays)  # dates all members 1980: the same input gives the same bytes
    return buffer.getvalue()


def text_array(texts: list[str], name: str, export: Export) -> Array:
    """Texts as a NumPy array, in which each takes the room of the longest."""
    texts = [clean(text) for text in texts]
    size = 4.0 * len(texts) * max(map(len, texts), default=0)
    if size > available_memory():
        what = f"{name} take {format_bytes(size)}, all as long as the longest, and there is no memory for it"
        raise MccgrError(export.where, what, "choose .h5ad or .mat, or shorten the longest")
    return np.array(texts, dtype=str)


def as_mat(export: Export, what: str) -> bytes:
    """As MATLAB users expect it: clusters count from 1, integers are double, lists are columns, texts are cells."""
    contents = export.contents
    variables: dict[str, Any] = {}
    if "labels" in contents:  # named as in the data sets of D. Cai, the source of most such files
        variables["gnd"] = contents["labels"].astype(np.float64) + ("label_names" in contents)
    if "assignments" in contents:
        variables["assignments"] = contents["assignments"].astype(np.float64) + 1
    for name in ("label_names", "sample_names", "feature_names"):
        if name in contents:
            variables[name] = in_matlab([clean(text) for text in contents[name]])
    variables |= {name: in_matlab(value) for name, value in others(contents, but=("assignments",)).items()}
    parameters = export.parameters(lambda name: MATLAB_NAME.fullmatch(name) is not None)
    if parameters:
        variables["parameters"] = in_matlab(parameters)
    variables["provenance"] = export.provenance()
    for name, value in variables.items():
        if size_of(value) > LARGEST_VARIABLE:
            what = f"{name} takes {format_bytes(size_of(value))}, and a variable in .mat has at most 2 GB"
            raise MccgrError(export.where, what, "choose .h5ad or .npz")
    buffer = io.BytesIO()
    savemat(buffer, variables, oned_as="column", long_field_names=True)
    about = f"MATLAB 5.0 MAT-file, written by mccgr {__version__}".encode()  # scipy's text has the time
    return b"".join((about.ljust(HEADER_TEXT), buffer.getbuffer()[HEADER_TEXT:]))


def in_matlab(value: Any) -> Any:
    """A value with the types that MATLAB has."""
    if isinstance(value, dict):
        return {name: in_matlab(inner) for name, inner in value.items()}
    if sparse.issparse(value):
        return value.astype(np.float64)  # MATLAB's only sparse type
    if isinstance(value, list) and all(isinstance(part, str) for part in value):
        cells = np.empty(len(value), dtype=object)
        cells[:] = value
        return cells
    if isinstance(value, list):
        return in_matlab(np.array(value))
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) <= LARGEST_WHOLE:
        return float(value)
    if isinstance(value, np.ndarray) and value.dtype.kind in "iu" and np.abs(value).max(initial=0) <= LARGEST_WHOLE:
        return value.astype(np.float64)
    return value


def size_of(value: Any) -> float:
    """Bytes in the file, rounded up."""
    if isinstance(value, dict):
        return float(sum(map(size_of, value.values())))
    if sparse.issparse(value):
        return float(12 * value.nnz + 4 * (max(value.shape) + 1))
    if isinstance(value, np.ndarray) and value.dtype == object:
        return float(sum(CELL_BYTES + 4 * len(text) for text in value))
    return float(getattr(value, "nbytes", 4 * len(value) if isinstance(value, str) else 8))
