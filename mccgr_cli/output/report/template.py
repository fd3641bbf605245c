"""Templates become HTML: Jinja2 escapes all text, and control characters in it are spelled out."""

from __future__ import annotations

import hashlib
from base64 import b64encode
from functools import cache
from importlib.resources import files
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from mccgr_cli.output.curves import COLOURS, MARKERS
from mccgr_cli.output.report.charts import FRAME
from mccgr_cli.output.text import plural, shorten

LONGEST = 20_000  # letters of one text


@cache
def environment() -> Environment:
    made = Environment(
        loader=PackageLoader(__package__),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=readable,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {"thousands": "{:,}".format, "percent": percent, "plural": plural, "base64": base64}
    made.globals |= {"colours": len(COLOURS), "outlines": list(MARKERS.values()), "frame": FRAME}
    made.policies["json.dumps_kwargs"] = {"separators": (",", ":"), "allow_nan": False}
    return made


def readable(value: Any) -> Any:
    """What the page shows of a value: text in one line in which nothing is hidden; nothing for None."""
    if isinstance(value, str) and not isinstance(value, Markup):
        return shorten(value, LONGEST)
    return "" if value is None else value


def percent(share: float) -> str:
    return f"{100 * share:.1f}\u2009%"


def base64(data: bytes) -> Markup:
    return Markup(b64encode(data).decode())


def own_file(name: str) -> Markup:
    """A style or script that belongs to the page."""
    text = files(__package__).joinpath(name).read_text(encoding="utf-8")
    if "</" in text or "<!--" in text:
        raise ValueError(f"{name} holds what would end its element")
    return Markup(text)


def hash_of(text: str) -> str:
    """How a Content-Security-Policy names an inline block."""
    return f"'sha256-{base64(hashlib.sha256(text.encode()).digest())}'"
