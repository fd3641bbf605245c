"""Tables, Matrix Market files, lists and journals: changes to their lines and fields."""

from __future__ import annotations

import re
from collections.abc import Callable

from .commands import Rng, one_of
from .mutations import mutate_bytes

FIELDS = (
    *(
        "",
        " ",
        "nan",
        "inf",
        "-1",
        "1e999",
        "1e300",
        "1e-320",
        "NA",
        "?",
        "1_000",
        "\uff11\uff12",
        "0x1p3",
        "1e",
        "--1",
        "+1",
        "1,5",
    ),
    *(
        '"',
        '""',
        '"a',
        "'",
        "\0",
        "é",
        "\ufeff",
        "\u2028",
        "1\r2",
        "a\nb",
        ";",
        "\t",
        "%",
        "#",
        "9" * 400,
        "x" * 200_000,
    ),
    *("1 2", "(1+2j)", "1j", "true", "=1+1", "-0", "00012", "1.0000000000000000000000000001", "99999999999999999999"),
)
HEADERS = (
    "%%MatrixMarket matrix coordinate pattern general",
    "%%MatrixMarket matrix coordinate real symmetric",
    "%%MatrixMarket matrix array real general",
    "%%MatrixMarket matrix array real symmetric",
    "%%MatrixMarket matrix coordinate complex hermitian",
    "%%MatrixMarket vector coordinate real general",
    "%%MatrixMarket matrix coordinate real skew-symmetric",
    "%%MatrixMarket",
    ",,,,,,,,,",
    "1,2,3",
    "a",
    "",
)
SIZES = (
    "0 0 0",
    "12 8",
    "12 8 0",
    "-1 8 3",
    "1000000000000000 8 60",
    "4000000000 4000000000 60",
    "8 12 60",
    "9" * 30 + " 8 60",
    "1.5 8 60",
    "100000 1000000",
    "30000 30000",
)


def mutate_text(rng: Rng, data: bytes, other: bytes) -> tuple[bytes, str]:
    """One to three changes to lines and fields; sometimes to bytes."""
    if rng.random() < 0.15:
        return mutate_bytes(rng, data, other)
    text = data.decode("utf-8", "surrogateescape")
    name = ""
    for _ in range(int(rng.integers(1, 4))):
        change = one_of(rng, TEXT_CHANGES)
        text = change(rng, text)
        name = change.__name__
    return text.encode("utf-8", "surrogatepass"), f"text: {name}"


def change_field(rng: Rng, text: str) -> str:
    """Something else between two separators."""
    fields = list(re.finditer(r"[^,\t\n ]+", text))
    if not fields:
        return one_of(rng, FIELDS)
    spot = one_of(rng, fields)
    return text[: spot.start()] + one_of(rng, FIELDS) + text[spot.end() :]


def change_number(rng: Rng, text: str) -> str:
    numbers = list(re.finditer(r"-?[0-9.]+(?:e[-+]?[0-9]+)?", text))
    if not numbers:
        return text
    spot = one_of(rng, numbers)
    return (
        text[: spot.start()]
        + one_of(rng, ("0", "-1", "nan", "1e300", "1e-300", "4294967296", "9" * 25))
        + text[spot.end() :]
    )


def change_header(rng: Rng, text: str) -> str:
    _, _, rest = text.partition("\n")
    return f"{one_of(rng, HEADERS)}\n{rest}"


def change_size(rng: Rng, text: str) -> str:
    """Another second line, which in a Matrix Market file is the size."""
    first, _, rest = text.partition("\n")
    return f"{first}\n{one_of(rng, SIZES)}\n{rest.partition(chr(10))[2]}"


def change_column(rng: Rng, text: str) -> str:
    """The same field in every line."""
    value, position = one_of(rng, FIELDS[:30]), int(rng.integers(10))
    separator = "\t" if "\t" in text else ","
    lines = [line.split(separator) for line in text.splitlines()]
    for fields in lines:
        if position < len(fields):
            fields[position] = value
    return "\n".join(separator.join(fields) for fields in lines)


def drop_line(rng: Rng, text: str) -> str:
    lines = text.splitlines(keepends=True)
    if lines:
        del lines[int(rng.integers(len(lines)))]
    return "".join(lines)


def repeat_line(rng: Rng, text: str) -> str:
    lines = text.splitlines(keepends=True) or [""]
    position = int(rng.integers(len(lines)))
    return "".join([*lines[:position], *[lines[position]] * int(rng.integers(2, 200)), *lines[position:]])


def widen(rng: Rng, text: str) -> str:
    """Very many columns."""
    separator = "\t" if "\t" in text else ","
    more = separator.join(["1"] * one_of(rng, (1, 2, 50_000)))
    lines = text.splitlines()
    chosen = range(len(lines)) if rng.random() < 0.5 and len(more) < 10 else [int(rng.integers(max(1, len(lines))))]
    return "\n".join(f"{line}{separator}{more}" if i in chosen else line for i, line in enumerate(lines))


def change_endings(rng: Rng, text: str) -> str:
    return text.replace("\n", one_of(rng, ("\r\n", "\r", "\n\n", "\v", "\x85", "\u2028", " \n", ",\n", ""))).replace(
        ",", one_of(rng, (",", ",", ";", ", ", "\t", "|", " "))
    )


def quote(rng: Rng, text: str) -> str:
    position = int(rng.integers(len(text) + 1))
    return (
        text[:position]
        + one_of(rng, ('"', '""', '"""', "'", '"\n', "\0", "\x1a", "\ufeff", "\ud800"))
        + text[position:]
    )


def encode_otherwise(rng: Rng, text: str) -> str:
    """The bytes of another encoding, or marks at the beginning."""
    coded = text.encode(one_of(rng, ("utf-16", "utf-32-le", "utf-8-sig")), "replace")
    return coded.decode("utf-8", "surrogateescape")


TEXT_CHANGES: tuple[Callable[[Rng, str], str], ...] = (
    *(change_field, change_field, change_number, change_header, change_size, change_column, drop_line, repeat_line),
    *(widen, change_endings, quote, encode_otherwise),
)
