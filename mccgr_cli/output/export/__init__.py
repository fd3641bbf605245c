"""What is in a file of ours, as bytes of the formats that other programs read.

Begin with ``gather``, which puts a file together with the matrix and the graph that it was made from, ``choose``, and
``render``, which writes them. ``settings.EXPORT_FORMATS`` lists all formats.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from typing import Any

from mccgr_cli.catalog import EXPORT_FORMATS, EXPORTED
from mccgr_cli.errors import DataError, ParameterError
from mccgr_cli.files.container import NAMES, SCHEMA, Contents
from mccgr_cli.files.readers import KINDS, Loaded
from mccgr_cli.output.provenance import checksums, first_input
from mccgr_cli.workflow.factorization import check_graph

Note = Callable[[str], None]

DEFAULTS = ("assignments", "W", "X", "A")
# Dimensions of SCHEMA: n samples, d features.
NOUNS = {"n": "sample", "d": "feature"}


@dataclass(frozen=True)
class Export:
    """Datasets by the names of the container; X and A may have been added."""

    contents: Contents
    where: str  # for messages
    note: Note  # called with what the user should know
    neighbors: int = 0  # of a sample in the graph

    def provenance(self) -> str:
        return json.dumps(self.contents.provenance, sort_keys=True)

    def names(self, dim: str) -> list[str]:
        """Names of the samples (n) or features (d); without names their numbers, from 0 on like clusters."""
        known = self.contents.datasets.get(f"{NOUNS[dim]}_names")
        if known is None:
            return [str(number) for number in range(length(self.contents, dim) or 0)]
        return [clean(name) for name in known]

    def components(self) -> list[str]:
        return [f"component_{number}" for number in range(self.contents["H"].shape[0])]

    def parameters(self, fits: Callable[[str], bool]) -> dict[str, Any]:
        """The attributes of the file, except those with names that do not fit the format."""
        known = self.contents.attributes
        odd = [name for name in known if not fits(name)]
        if odd:
            self.note(f"left out parameters with names that the format cannot hold: {', '.join(odd)}")
        return {name: cleaned(value) for name, value in known.items() if fits(name)}


def gather(
    given: Loaded, matrix: Loaded | None, graph: Loaded | None, provenance: dict[str, Any], note: Note
) -> Export:
    """Put a file and its matrix and graph together; refuse those of other samples or features."""
    datasets = dict(given.contents.datasets)
    if matrix is not None:
        check_fit(matrix, given, note)
        datasets["X"] = matrix.contents["X"]
        named = {name: value for name, value in matrix.contents.names().items() if name not in datasets}
        if "labels" in datasets:  # the numbers of the file may mean other classes than those of the matrix
            named.pop("label_names", None)
        datasets |= named
    if "X" in datasets:
        datasets["X"] = datasets["X"].load()
    neighbors = 0
    if graph is not None:
        check_fit(graph, given, note)
    elif given.contents.kind == "graph":
        graph = given
    if graph is not None:
        A = datasets["A"] = check_graph(graph.contents["A"], length(given.contents, "n") or 0, graph.name)
        stated = graph.contents.attributes.get("neighbors")
        neighbors = stated if isinstance(stated, int) else round(A.nnz / A.shape[0])
    return Export(replace(given.contents, datasets=datasets, provenance=provenance), given.name, note, neighbors)


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


def check_fit(other: Loaded, given: Loaded, note: Note) -> None:
    """Refuse a matrix or graph whose samples or features differ in number or names from those of a file."""
    origin = first_input(given.contents.provenance)
    remedy = f"name the file that {given.name} was made from{f' ({origin})' if origin else ''}"
    for dim, noun in NOUNS.items():
        here, there = length(given.contents, dim), length(other.contents, dim)
        if None in (here, there):
            continue
        if here != there:
            raise DataError(other.name, f"{there} {noun}s where {given.name} has {here}", remedy)
        ours, theirs = (one.contents.datasets.get(f"{noun}_names") for one in (given, other))
        if ours is not None and theirs is not None and list(ours) != list(theirs):
            first = next(i for i, pair in enumerate(zip(ours, theirs, strict=True)) if len(set(pair)) > 1)
            what = f"its {noun}s have other names: number {first} is {theirs[first]!r}, not {ours[first]!r}"
            raise DataError(other.name, what, remedy)
    known = given.contents.provenance
    if other.contents.kind == "matrix" and known and other.sha256 not in checksums(known):
        note(
            f"{other.name}: same shape as the file that {given.name} was made from, but another file, or changed since"
        )


def length(contents: Contents, dim: str) -> int | None:
    """The number of samples (n), features (d) or components (k) of a file; None if it does not say."""
    for name, field in SCHEMA[contents.kind].items():
        if name in contents and dim in field.dims:
            value = contents[name]
            return int(value.shape[field.dims.index(dim)]) if hasattr(value, "shape") else len(value)
    return None


def others(contents: Contents, but: Sequence[str]) -> dict[str, Any]:
    """All datasets except names and ``but``; the datasets of a group as a dictionary."""
    found: dict[str, Any] = {}
    for path, value in contents.datasets.items():
        if path not in (*but, *NAMES):
            group, _, name = path.rpartition("/")
            (found.setdefault(group, {}) if group else found)[name] = cleaned(value)
    return found


def cleaned(value: Any) -> Any:
    """Clean a text, or the texts in a list."""
    if isinstance(value, str):
        return clean(value)
    return [cleaned(part) for part in value] if isinstance(value, list) else value


def clean(text: str) -> str:
    """Replace characters that formats cannot hold: zeros, which end a text, and halves of surrogate pairs."""
    whole = str(text).encode(errors="replace").decode()
    return whole.replace("\0", "\N{REPLACEMENT CHARACTER}")
