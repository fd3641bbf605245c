"""What is in a file of ours, as bytes of the formats that other programs read.

Begin with ``gather``, which puts the parts together, and ``render``, which writes them. ``settings.EXPORT_FORMATS``
lists all formats.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module

from mccgr_cli.catalog import EXPORT_FORMATS, EXPORTED
from mccgr_cli.errors import ParameterError
from mccgr_cli.files.readers import KINDS
from mccgr_cli.output.export.gather import Export, gather

__all__ = ["Export", "choose", "gather", "render"]

DEFAULTS = ("assignments", "W", "X", "A")


def choose(what: str | None, export: Export, form: str) -> str:
    """The dataset that was asked for, or the most important one; "" if the format holds all of them."""
    if EXPORT_FORMATS[form].holds_all:
        return ""
    there = [name for name in EXPORTED if name in export.contents]
    if not there:
        held = KINDS[export.contents.kind][0]
        remedy = "mccgr table prints them as CSV; .npz and .mat hold them" if held.startswith("the results") else ""
        raise ParameterError(f".{form}", f"{export.where} holds {held}", remedy or ".npz and .mat hold any kind")
    if what is None:
        return next(name for name in DEFAULTS if name in there)
    if what not in there:
        raise ParameterError("--what", f"no {what} in {export.where}", f"it has {', '.join(there)}")
    return what


def render(export: Export, what: str, form: str) -> bytes:
    """The bytes of a file. The same contents give the same bytes."""
    module, _, function = EXPORT_FORMATS[form].written_by.partition(".")
    write: Callable[[Export, str], bytes] = getattr(import_module(f"{__package__}.{module}"), function)
    return write(export, what)
