"""How names and numbers are written, in figures and on the page."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from unicodedata import category

import numpy as np

from mccgr_cli.blocks.protocol import Array
from mccgr_cli.files.container import Contents

JOINERS = "\u200c\u200d"  # some scripts and emoji need these invisible characters
SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def shorten(text: str, most: int) -> str:
    """The beginning and the end of a long text. Characters that break lines, hide or reorder text are spelled out.

    >>> shorten("abcdefghijklmnopqrst", 10), shorten("a\\nb\\u202ec", 50), shorten("né 猫", 50)
    ('abcd…pqrst', 'a\\\\nb\\\\u202ec', 'né 猫')
    """
    if len(text) > 2 * most:
        text = text[:most] + text[-most:]
    if not text.isprintable():
        kept = [c.isprintable() or c in JOINERS or category(c) in ("Zs", "Co") for c in text]  # spaces, private use
        text = "".join(c if keep else repr(c)[1:-1] for c, keep in zip(text, kept, strict=True))
    half = most // 2
    return text if len(text) <= most else f"{text[: most - half - 1]}…{text[-half:]}"


def name_of(contents: Contents, kind: str, number: int, most: int) -> str:
    """The name of a sample or feature (``kind``); its number if the file has no names."""
    names = contents.datasets.get(f"{kind}_names")
    return shorten(str(names[number]), most) if names is not None else f"{kind} {number}"


def file_labels(names: Sequence[str], most: int) -> list[str]:
    """File names without folder and suffix; with them where the names would be equal otherwise."""
    for brief in (lambda name: Path(name).name.partition(".")[0], lambda name: Path(name).name, str):
        labels = [shorten(brief(name), most) for name in names]
        if len(set(labels)) == len(names):
            break
    return labels


def plural(number: int, noun: str) -> str:
    """
    >>> plural(1, "image"), plural(1200, "image"), plural(2, "class")
    ('1 image', '1,200 images', '2 classes')
    """
    ending = "" if number == 1 else "es" if noun.endswith("s") else "s"
    return f"{number:,} {noun}{ending}"


def number_format(values: Array) -> Callable[[float], str]:
    """How to write the numbers on one axis: all of them with powers of ten, or none.

    >>> [number_format(np.array([0.01, 2000]))(value) for value in (0.01, 2000)]
    ['0.01', '2,000']
    >>> [number_format(np.array([1, 5e6]))(value) for value in (0, 1, 1000, 5e6)]
    ['0', '1', '10³', '5·10⁶']
    """
    sizes = np.abs(values[values != 0])
    if not len(sizes) or (sizes.min() >= 1e-4 and sizes.max() < 1e5):
        return lambda value: f"{value:,g}"
    return with_power


def with_power(value: float) -> str:
    if value in (0, 1, 10):
        return f"{value:g}"
    mantissa, _, exponent = f"{value:.5e}".partition("e")
    mantissa, power = f"{float(mantissa):g}", f"10{str(int(exponent)).translate(SUPERSCRIPTS)}"
    return power if mantissa == "1" else f"{mantissa}·{power}"
