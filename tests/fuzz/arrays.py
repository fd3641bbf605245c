"""Headers of .npy files, and arrays of pickled objects."""

from __future__ import annotations

import io
import struct
from typing import Any

import numpy as np

from .commands import Rng, one_of
from .mutations import mutate_bytes

MAGIC = b"\x93NUMPY"
UNPICKLED = "../canary/unpickled"  # the folder that an unpickled array makes

DESCRIPTIONS = (
    *("'<f4'", "'>f8'", "'<f2'", "'<f16'", "'|b1'", "'<i8'", "'<u1'", "'<c16'", "'|O'", "'<U3'", "'|S5'", "'<M8[s]'"),
    *(
        "'|V8'",
        "[('a', '<f8'), ('b', '|O')]",
        "'<f8,<f8'",
        "('<f8', (2, 2))",
        "''",
        "5",
        "None",
        "'<f9'",
        "'|S0'",
        "'<U0'",
    ),
)
SHAPES = (
    *("()", "(0,)", "(96,)", "(0, 8)", "(12, 0)", "(12, 8, 1)", "(12, -8)", "(-1, 8)", "(13, 8)", "(8, 12)", "(1, 1)"),
    *("(1000000000000000, 8)", "(4000000000, 4000000000)", "(2**62, 2)", "(9223372036854775807,)", "(12.0, 8)", "12"),
    *("('a', 8)", "(True, 8)", "(None,)", "[12, 8]", "(99999999999999999999999, 8)", "(1,) * 100", "(0, 10**18)"),
    "(" + "1, " * 70 + ")",
)


class Payload:
    """What makes a folder if it is ever unpickled."""

    def __reduce__(self) -> tuple[Any, ...]:
        import os

        return os.mkdir, (UNPICKLED,)


def pickled() -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, np.array([[Payload()]], dtype=object), allow_pickle=True)
    return buffer.getvalue()


def mutate_npy(rng: Rng, data: bytes, other: bytes) -> tuple[bytes, str]:
    """Another type, shape or order in the header, a header that is none, or objects."""
    if not data.startswith(MAGIC):
        return mutate_bytes(rng, data, other)
    length = struct.unpack_from("<H", data, 8)[0]
    header, values = data[10 : 10 + length].decode("latin-1"), data[10 + length :]
    what = one_of(rng, ("descr", "descr", "shape", "shape", "order", "header", "version", "pickle", "values"))
    if what == "pickle":
        return pickled(), "npy: pickle"
    if what == "values":
        return data[: 10 + length] + mutate_bytes(rng, values, other)[0], "npy: values"
    if what == "descr":
        header = replaced(header, "'descr': ", one_of(rng, DESCRIPTIONS), "'fortran_order'")
    elif what == "shape":
        header = replaced(header, "'shape': ", one_of(rng, SHAPES), "}")
    elif what == "order":
        header = replaced(header, "'fortran_order': ", one_of(rng, ("True", "1", "'x'", "None")), "'shape'")
    elif what == "header":
        header = odd_header(rng, header)
    version = one_of(rng, ((1, 0), (2, 0), (3, 0), (4, 0), (0, 0), (255, 255))) if what == "version" else (1, 0)
    encoded = header.rstrip().encode() + b"\n"
    counted = struct.pack("<H" if version == (1, 0) else "<I", min(len(encoded), 65535))
    return MAGIC + bytes(version) + counted + encoded + values, f"npy: {what}"


def replaced(header: str, key: str, value: str, following: str) -> str:
    before, _, rest = header.partition(key)
    _, found, after = rest.partition(following)
    return f"{before}{key}{value}, {found}{after}"


def odd_header(rng: Rng, header: str) -> str:
    """Text that is no header, or too deep or too long to be parsed."""
    odd = ("", "{}", "[]", "{" * 300, "-" * 9000 + "1", "(" * 150 + ")" * 150, header.strip()[:-1], "{'descr': 1}")
    return str(
        one_of(rng, (*odd, header + " " * 20000, "__import__('os')", "{'a': 1}" * 1000, header.replace("'", "\0")))
    )
