"""True classes from a file, joined to the samples by name, or by row order where there are no names."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

from mccgr_cli.errors import DataError
from mccgr_cli.files.joining import only_in, such_as
from mccgr_cli.files.readers import FORMATS, Loaded, foreign_path, opened
from mccgr_cli.files.readers.arrays import NamedLabels
from mccgr_cli.files.readers.checks import code_labels, plain_text
from mccgr_cli.files.readers.hdf5 import read_hdf5_labels
from mccgr_cli.files.readers.table import read_table_labels
from mccgr_cli.files.readers.text import counted, read_label_lines

ONLY_LABELS = "or give labels without names, one for each sample in the order of the rows"


def true_classes(clusters: Loaded, labels: str | None, note: Callable[[str], None]) -> list[str] | None:
    """The class of every sample from the file ``labels``, or else from the file of clusters; None without labels."""
    if labels is None:
        return clusters.contents.labels_as_text()
    samples = clusters.contents.datasets.get("sample_names")
    given, where = load_labels(labels, samples or ()), "standard input" if labels == "-" else labels
    return join_labels(given, where, samples, len(clusters.contents["assignments"]), clusters.name, note)


def load_labels(source: str, samples: Sequence[str] = ()) -> NamedLabels:
    """Labels, and names of samples if there are any, from ``PATH`` or ``PATH::INNER``.

    ``samples`` are names that samples have: they show whether the first line of a table is a header.
    """
    with opened(source) as file:
        if file.is_hdf5:
            found = read_hdf5_labels(file.handle, file.inner, file.name, file.suffix == ".mat")
        elif isinstance(file.handle, Path):
            _, read = FORMATS.get(file.suffix, (None, read_label_lines))
            found = read(foreign_path(file), file.inner, file.name)
        else:  # from a pipe
            found = read_table_labels(file.handle, file.inner, file.name)
    names, stored = found.names, found.labels
    if names is not None and found.first is not None and found.first[0] in samples:
        names, stored = [found.first[0], *names], [found.first[1], *stored]
    codes, classes = code_labels(stored, file.name)
    if names is not None:
        names = [str(name) for name in plain_text(names, file.name)]
    return NamedLabels(names if names is not None and len(names) == len(codes) else None, [classes[c] for c in codes])


def join_labels(
    given: NamedLabels, where: str, samples: Sequence[str] | None, count: int, of: str, note: Callable[[str], None]
) -> list[str]:
    """The label of each of ``count`` samples; ``of`` is the file that has the samples."""
    labels: list[str] = given.labels
    nameless = without_names({where: given.names, of: samples})
    if nameless or given.names is None or samples is None:
        if len(labels) != count:
            raise DataError(where, f"{len(labels)} labels for {count} samples", "give one label for each sample")
        note(f"{where}: labels are joined by row order: no names of samples in {' and '.join(nameless)}")
        return labels
    if list(samples) == list(given.names):
        return labels
    refuse_repeated(of, samples, f"make them unique, {ONLY_LABELS}")
    label_of = dict(zip(given.names, labels, strict=True))
    missing, unknown = only_in(samples, label_of), only_in(given.names, samples)
    if missing:
        what = f"no label for {len(missing)} of the {count} samples in {of}{such_as(missing)}"
        others = f", and {len(unknown)} of its {len(given.names)} names are not there{such_as(unknown)}"
        raise DataError(where, what + (others if unknown else ""), f"use the same names, {ONLY_LABELS}")
    refuse_repeated(where, [name for name in given.names if name not in set(unknown)], "keep one label for each name")
    if unknown:
        note(f"{where}: left out {counted(len(unknown), 'name')} not in {of}{such_as(unknown)}")
    return [label_of[name] for name in samples]


def without_names(names: dict[str, Sequence[str] | None]) -> list[str]:
    """The files without names of samples. Numbers of rows, which programs add, are no names if they fit no others."""
    nameless = [file for file, given in names.items() if given is None]
    theirs, ours = names.values()
    if theirs is not None and ours is not None and not set(ours) <= set(theirs):
        return [file for file, given in names.items() if given is not None and is_numbering(given)]
    return nameless


def is_numbering(names: Sequence[str]) -> bool:
    return any(list(names) == [str(i + first) for i in range(len(names))] for first in (0, 1))


def refuse_repeated(where: str, names: Sequence[str], remedy: str) -> None:
    repeated = [name for name, times in Counter(names).items() if times > 1]
    if repeated:
        raise DataError(where, f"{counted(len(repeated), 'name')} more than once{such_as(repeated)}", remedy)
