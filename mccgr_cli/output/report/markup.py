"""HTML that is right by construction: text is escaped wherever it goes, and only :class:`Markup` is not.

>>> tag("p", "1 < 2 & ", tag("b", "bold"), class_="note", title='say "hi"')
'<p class="note" title="say &quot;hi&quot;">1 &lt; 2 &amp; <b>bold</b></p>'
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
import unicodedata
from collections.abc import Iterable
from typing import Any

VOID = ("img", "input", "link", "meta")  # elements without an end
JOINERS = "\u200c\u200d"  # that scripts and emoji are written with
LONGEST = 20_000  # letters of one text


class Markup(str):
    """What is HTML already."""

    __slots__ = ()


def tag(name: str, /, *children: Any, **attributes: Any) -> Markup:
    """An element. ``class_`` and ``aria_label`` mean class and aria-label; what is None or False is left out."""
    told = "".join(attribute(key.rstrip("_").replace("_", "-"), value) for key, value in attributes.items())
    return Markup(f"<{name}{told}>" if name in VOID else f"<{name}{told}>{inner(children)}</{name}>")


def inner(children: Iterable[Any]) -> str:
    return "".join(part(child) for child in children)


def part(child: Any) -> str:
    if isinstance(child, Markup):
        return child
    if child is None:
        return ""
    if isinstance(child, (str, int, float)):
        return html.escape(readable(str(child)), quote=False)
    return inner(child)


def attribute(name: str, value: Any) -> str:
    if value is None or value is False:
        return ""
    if value is True:
        return f" {name}"
    return f' {name}="{value if isinstance(value, Markup) else html.escape(readable(str(value)))}"'


def readable(text: str) -> str:
    """One line in which nothing is hidden or turned around: characters that control others are spelled out.

    >>> readable("a\\nb\\u202ec"), readable("né 猫")
    ('a\\\\nb\\\\u202ec', 'né 猫')
    """
    if len(text) > LONGEST:
        text = shorten(text, LONGEST)
    if text.isprintable():
        return text
    return "".join(char if is_harmless(char) else repr(char)[1:-1] for char in text)


def shorten(text: str, most: int) -> str:
    """The beginning and the end of a long text.

    >>> shorten("abcdefghijklmnopqrst", 10)
    'abcdefg…st'
    """
    if len(text) <= most:
        return text
    end = most // 4
    return f"{text[: most - end - 1]}…{text[len(text) - end :]}"


def is_harmless(char: str) -> bool:
    return char.isprintable() or char in JOINERS or unicodedata.category(char) in ("Zs", "Co")


def script_data(identity: str, value: Any) -> Markup:
    """Data for the script of the page, which no text in them can end."""
    coded = json.dumps(value, separators=(",", ":"), allow_nan=False)
    coded = coded.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
    return Markup(f'<script type="application/json" id="{html.escape(identity)}">{coded}</script>')


def inline(name: str, text: str) -> Markup:
    """A style or script of our own."""
    if "</" in text or "<!--" in text:
        raise ValueError(f"the {name} would end early")
    return Markup(f"<{name}>{text}</{name}>")


def hash_of(text: str) -> str:
    """By which a Content-Security-Policy knows an inline block."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
