"""What is to be exported: the contents of a file, perhaps with the matrix and the graph that it came from."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from mccgr_cli.errors import DataError
from mccgr_cli.files.container import NAMES, SCHEMA, Contents
from mccgr_cli.files.readers import Loaded
from mccgr_cli.workflow.stages import check_graph

Note = Callable[[str], None]


@dataclass(frozen=True)
class Export:
    """Datasets by the names of the container; X and A may have been added to them."""

    contents: Contents
    where: str  # for messages
    note: Note  # is told what the user should know
    neighbors: int = 0  # that the graph joins a sample to

    def provenance(self) -> str:
        return json.dumps(self.contents.provenance, sort_keys=True)

    def length(self, letter: str) -> int | None:
        return length(self.contents, letter)

    def names(self, letter: str) -> list[str]:
        """Of the samples (n) or features (d); their numbers if they have none, from 0 as clusters are counted."""
        known = self.contents.datasets.get(OWN_NAMES[letter])
        if known is None:
            return [str(number) for number in range(self.length(letter) or 0)]
        return [clean(name) for name in known]

    def components(self) -> list[str]:
        return [f"component_{number}" for number in range(self.contents["H"].shape[0])]

    def parameters(self, fits: Callable[[str], bool]) -> dict[str, Any]:
        """The attributes of the file, but for those whose names the format cannot hold."""
        known = self.contents.attributes
        odd = [name for name in known if not fits(name)]
        if odd:
            self.note(f"left out parameters of names that the format cannot hold: {', '.join(odd)}")
        return {name: cleaned(value) for name, value in known.items() if fits(name)}


OWN_NAMES = {"n": "sample_names", "d": "feature_names"}
WORDS = {"n": "samples", "d": "features"}


def gather(
    given: Loaded, matrix: Loaded | None, graph: Loaded | None, provenance: dict[str, Any], note: Note
) -> Export:
    """One whole, if its parts belong together."""
    datasets = dict(given.contents.datasets)
    if matrix is not None:
        check_fit(matrix, given, note)
        datasets["X"] = matrix.contents["X"]
        named = {name: value for name, value in matrix.contents.names().items() if name not in datasets}
        if "labels" in datasets:  # by its own numbers
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


def check_fit(other: Loaded, given: Loaded, note: Note) -> None:
    """Refuse what is about other samples or features, as far as can be told."""
    remedy = f"name the file that {given.name} was made from"
    for letter, names in OWN_NAMES.items():
        here, there = length(given.contents, letter), length(other.contents, letter)
        if None in (here, there):
            continue
        if here != there:
            raise DataError(other.name, f"{there} {WORDS[letter]} where {given.name} has {here}", remedy)
        ours, theirs = (one.contents.datasets.get(names) for one in (given, other))
        if ours is not None and theirs is not None and list(ours) != list(theirs):
            first = next(i for i, pair in enumerate(zip(ours, theirs, strict=True)) if len(set(pair)) > 1)
            what = f"its {WORDS[letter]} have other names: number {first} is {theirs[first]!r}, not {ours[first]!r}"
            raise DataError(other.name, what, remedy)
    known = given.contents.provenance
    if other.contents.kind == "matrix" and known and other.sha256 not in checksums(known):
        note(f"{other.name}: of the same shape, but by its checksum not the file that {given.name} was made from")


def checksums(provenance: Any) -> Iterator[str]:
    """Of all that led to a file."""
    inputs = provenance.get("inputs") if isinstance(provenance, dict) else None
    for one in inputs if isinstance(inputs, list) else []:
        if isinstance(one, dict):
            yield str(one.get("sha256"))
            yield from checksums(one.get("provenance"))


def length(contents: Contents, letter: str) -> int | None:
    """How many samples (n), features (d), ... a file has; None if it does not say."""
    for name, field in SCHEMA[contents.kind].items():
        if name in contents and letter in field.dims:
            value = contents[name]
            return int(value.shape[field.dims.index(letter)]) if hasattr(value, "shape") else len(value)
    return None


def others(contents: Contents, but: Sequence[str]) -> dict[str, Any]:
    """The datasets that have no place of their own, those in groups as dictionaries."""
    found: dict[str, Any] = {}
    for path, value in contents.datasets.items():
        if path not in (*but, *NAMES):
            group, _, name = path.rpartition("/")
            (found.setdefault(group, {}) if group else found)[name] = cleaned(value)
    return found


def cleaned(value: Any) -> Any:
    """Text that any format can hold, alone or in a list."""
    if isinstance(value, str):
        return clean(value)
    return [cleaned(part) for part in value] if isinstance(value, list) else value


def clean(text: str) -> str:
    """Without zeros, at which many formats end a text, and halves of letters, which have no code."""
    whole = str(text).encode(errors="replace").decode()
    return whole.replace("\0", "\N{REPLACEMENT CHARACTER}")
