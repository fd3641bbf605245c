"""Styles and scripts of the page: files of ``page/``, one for each concept, put together into blocks of the page."""

from __future__ import annotations

import hashlib
from base64 import b64encode
from collections.abc import Sequence
from functools import cache
from importlib.resources import files

from markupsafe import Markup

from mccgr_cli.output.colours import COLOURS, DARK_COLOURS

# In the order in which they are put together: those that others build on come first.
STYLES = ("colours", "base", "tables", "map", "clusters", "charts", "viewer", "search", "editing", "media")
SCRIPTS = (
    *("basics", "samples", "editing", "csv", "sheets", "headings", "selection", "viewer"),
    *("map", "map_names", "map_legend", "map_moves", "search", "changes", "theme", "navigation"),
)


@cache
def blocks() -> dict[str, str]:
    """The style, the two scripts, and the Content-Security-Policy that allows these blocks and nothing else."""
    style, theme = together(STYLES, "css") + palette(), own_file("remembered_theme.js")
    script = in_one_function(together(SCRIPTS, "js"))
    policy = (
        f"default-src 'none'; img-src data:; style-src {hash_of(style)}; "
        f"script-src {hash_of(theme)} {hash_of(script)}; base-uri 'none'; form-action 'none'"
    )
    return {"style": style, "theme": theme, "script": script, "policy": policy}


def together(names: Sequence[str], kind: str) -> Markup:
    return Markup("\n").join(own_file(f"{name}.{kind}") for name in names)


def palette() -> Markup:
    """The colours of groups as variables c0, c1, ..., which follow the theme, and as classes of signs."""
    light, dark = (
        "".join(f" --c{look}: {colour};" for look, colour in enumerate(colours)) for colours in (COLOURS, DARK_COLOURS)
    )
    rules = [
        f":root {{{light} }}",
        f'@media screen and (prefers-color-scheme: dark) {{ :root:not([data-theme="light"]) {{{dark} }} }}',
        f'@media screen {{ :root[data-theme="dark"] {{{dark} }} }}',
        *(f".c{look} {{ fill: var(--c{look}); }}" for look in range(len(COLOURS))),
    ]
    return Markup("\n".join(["", *rules, ""]))


def in_one_function(script: Markup) -> Markup:
    """A script whose names nothing outside sees. The last statement says that the page is ready."""
    ready = 'document.documentElement.dataset.ready = "true";'
    return Markup('(() => {{\n"use strict";\n{}\n{}\n}})();\n').format(script, Markup(ready))


def own_file(name: str) -> Markup:
    """A style or script that belongs to the page."""
    text = files(__package__).joinpath("page", name).read_text(encoding="utf-8")
    if "</" in text or "<!--" in text:
        raise ValueError(f"{name} holds what would end its element")
    return Markup(text)


def hash_of(text: str) -> str:
    """How a Content-Security-Policy names an inline block."""
    return f"'sha256-{b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
