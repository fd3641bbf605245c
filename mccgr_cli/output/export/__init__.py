"""What is in a file of ours, as bytes of the formats that other programs read."""

from __future__ import annotations

from collections.abc import Callable

from mccgr_cli.errors import ParameterError
from mccgr_cli.files.readers import KINDS
from mccgr_cli.output.export import arrays, h5ad, text
from mccgr_cli.output.export.gather import Export, gather
from mccgr_cli.settings import EXPORTED

__all__ = ["Export", "choose", "gather", "render"]

# Formats that hold one thing, and those that hold all there is.
OF_ONE: dict[str, Callable[[Export, str], bytes]] = {
    "csv": text.as_csv,
    "tsv": text.as_tsv,
    "npy": arrays.as_npy,
    "mtx": text.as_mtx,
}
OF_ALL: dict[str, Callable[[Export], bytes]] = {"npz": arrays.as_npz, "mat": arrays.as_mat, "h5ad": h5ad.as_h5ad}
DEFAULTS = ("assignments", "W", "X", "A")


def choose(what: str | None, export: Export, form: str) -> str:
    """What was asked for, if it is there, else what the file is about; '' where the format holds all."""
    if form in OF_ALL:
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
    """The same contents give the same bytes."""
    return OF_ALL[form](export) if form in OF_ALL else OF_ONE[form](export, what)
