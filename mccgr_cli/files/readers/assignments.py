"""Which sample is in which cluster: from a clusters file, or from a table that people may have edited."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TextIO

from mccgr_cli.errors import DataError
from mccgr_cli.files.container import Contents
from mccgr_cli.files.readers import TABLES, Source, opened, read_contents, require_kind
from mccgr_cli.files.readers.text import opened_text

DELIMITERS = ",;\t"  # some spreadsheets write semicolons
WHOLE = re.compile(r"\s*([+-]?[0-9]{1,18})(?:\.0*)?\s*")  # some spreadsheets write 3.0


@dataclass(frozen=True)
class Assignments:
    """The cluster of every sample, and what is known of the clusters."""

    source: str  # for messages
    samples: list[str]
    clusters: list[int]
    labels: list[str] = field(default_factory=list)  # of the samples; empty if there are none
    classes: dict[int, str] = field(default_factory=dict)  # of clusters, if old samples have decided it
    names: dict[int, str] = field(default_factory=dict)  # of clusters, if a person chose some


def load_assignments(typed: str) -> Assignments:
    """Read a clusters file, a table with the columns sample and cluster, or one of both from standard input (-)."""
    with opened(typed) as file:
        if file.is_hdf5:
            contents = read_contents(file, None)
            require_kind(contents, ("clusters",), file.name)
            return of_contents(contents, file.name)
        if file.suffix not in TABLES and typed != "-":
            what = "neither HDF5 nor a table" if file.suffix else "a name without a suffix, and not HDF5"
            raise DataError(file.name, what, "name a clusters file, or a table (.csv) from 'mccgr export'")
        return read_assignments(file)


def of_contents(contents: Contents, name: str) -> Assignments:
    samples = contents.datasets.get("sample_names")
    if samples is None:
        remedy = "use clusters of images from mccgr extract"
        raise DataError(name, "holds no names of samples to find images by", remedy)
    labels, clusters = contents.labels_as_text(), contents["assignments"].tolist()
    return Assignments(name, list(samples), clusters, labels or [], contents.correspondence())


def read_assignments(file: Source) -> Assignments:
    """Read a table. Its other columns are not used."""
    found = Assignments(file.name, [], [])
    with opened_text(file.handle, file.name) as text:
        for line, row in rows_of(text, file.name):
            found.samples.append(row["sample"])
            found.clusters.append(whole(row["cluster"], line, file.name))
            if row.get("label"):
                found.labels.append(row["label"])
            for column, known in (("class", found.classes), ("name", found.names)):
                cluster, title = found.clusters[-1], row.get(column, "").strip()
                if title and known.setdefault(cluster, title) != title:
                    what = f"line {line}: cluster {cluster} has the {column} {title!r}, and {known[cluster]!r} before"
                    raise DataError(file.name, what, f"give every cluster one {column}")
    if not found.samples:
        raise DataError(file.name, "names no samples", "make it again")
    if len(found.labels) < len(found.samples):  # labels of some samples only say nothing of the others
        found.labels.clear()
    return found


def rows_of(text: TextIO, where: str) -> Iterator[tuple[int, dict[str, str]]]:
    """Yield the number of the line and the cells of every row, by the names of the columns."""
    first = text.readline()
    for delimiter in DELIMITERS:
        header = [name.strip().lower() for name in next(csv.reader([first], delimiter=delimiter), [])]
        if {"sample", "cluster"} <= set(header):
            break
    else:
        remedy = "name a clusters file, or a table from 'mccgr export'"
        raise DataError(where, "no columns sample and cluster in its first line", remedy)
    reader = csv.reader(text, delimiter=delimiter)
    for cells in reader:
        if any(map(str.strip, cells)):
            line = reader.line_num + 1
            if len(cells) != len(header):
                what = f"line {line} has {len(cells)} cells where the first line has {len(header)}"
                raise DataError(where, what, "mend this line")
            yield line, dict(zip(header, cells, strict=True))


def whole(text: str, line: int, where: str) -> int:
    found = WHOLE.fullmatch(text)
    if found is None:
        what = f"line {line}: cluster {text!r} is not a whole number" if text.strip() else f"line {line} has no cluster"
        raise DataError(where, what, "number the clusters; names of clusters go into a column 'name'")
    return int(found[1])
