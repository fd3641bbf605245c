"""HDF5 files with odd attributes."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import h5py
import numpy as np

from .commands import Rng, one_of
from .nodes import any_name


def odd_attribute(rng: Rng, file: h5py.File) -> Any:
    return one_of(
        rng,
        (
            *(
                0,
                -1,
                2,
                1 << 62,
                1.5,
                np.nan,
                True,
                "",
                "mccgr",
                "matrix",
                "factors",
                "graph",
                "clusters",
                "results",
                "é",
            ),
            *(np.bytes_(b"\xff\xfe"), b"mccgr", "x" * 2_000_000, "a\nb\0c", [1, 2, 3], np.zeros((2, 3)), ["a", "b"]),
            *(np.array([], "i8"), h5py.Empty("f8"), h5py.Empty("S1"), file.ref, np.complex128(1j), np.void(b"abc")),
            *(
                np.array((1, 2.0), np.dtype([("a", "i4"), ("b", "f8")])),
                np.array([12, 8], "u8"),
                np.array([12, 8], "f8"),
            ),
            *(
                np.array([-12, 8]),
                np.array([8, 12]),
                np.array([1 << 47, 1 << 47]),
                "anndata",
                "csc_matrix",
                "l2",
                "none",
            ),
        ),
    )


def change_attribute(rng: Rng, file: h5py.File) -> None:
    """One that is there, or one that has a meaning."""
    inside = file[any_name(rng, file, groups=True)]
    place = one_of(rng, (file, inside, inside))
    known = (
        "format",
        "version",
        "kind",
        "shape",
        "encoding-type",
        "_index",
        "MATLAB_class",
        "MATLAB_sparse",
        "MATLAB_empty",
    )
    name = one_of(rng, [*place.attrs, *place.attrs] or known) if rng.random() < 0.8 else one_of(rng, known)
    place.attrs[name] = odd_attribute(rng, file)


def change_setting(rng: Rng, file: h5py.File) -> None:
    """A parameter in the root of a file of ours."""
    names = [name for name in file.attrs if name not in ("format", "version", "kind", "provenance")]
    file.attrs[one_of(rng, names or ["k"])] = odd_attribute(rng, file)


def remove_attribute(rng: Rng, file: h5py.File) -> None:
    place = one_of(rng, (file, file[any_name(rng, file, groups=True)]))
    del place.attrs[one_of(rng, list(place.attrs) or ["none"])]


def change_provenance(rng: Rng, file: h5py.File) -> None:
    """What is no JSON, or other JSON than it should be."""
    file.attrs["provenance"] = one_of(
        rng,
        (
            *(
                "",
                "{",
                "[]",
                "5",
                "null",
                "[" * 100_000,
                '{"a":' * 50_000,
                nested(30),
                nested(300),
                nested(900),
                nested(3000),
            ),
            *(
                '{"inputs": 5}',
                '{"inputs": [5, null]}',
                '{"command_line": {"a": NaN}, "time": []}',
                '"' + "x" * 3_000_000 + '"',
            ),
            *(
                '{"command_line": "a\\nb\\u0000\\ud800", "time": "\\u001b[31m"}',
                '{"inputs": [{"provenance": "x"}]}',
                b"\xff{}",
            ),
            *('{"command_line": 1e999, "big": ' + "9" * 5000 + "}", np.arange(3), h5py.Empty("S1"), np.bytes_(b"{}")),
        ),
    )


@cache
def nested(depth: int) -> str:
    """A history of so many steps."""
    text = '{"command_line": "first", "time": "then"}'
    for _ in range(depth):
        text = f'{{"command_line": "next", "time": {json.dumps("later")}, "inputs": [{{"provenance": {text}}}]}}'
    return text
