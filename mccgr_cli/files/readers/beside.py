"""Labels and names that a file holds beside its matrix, found by the names of its variables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from mccgr_cli.errors import UnusableValues
from mccgr_cli.files.readers.checks import plain_text

if TYPE_CHECKING:
    from mccgr_cli.files.readers.arrays import Found, Variables

LABEL_NAMES = ("Y", "gnd", "labels")
MORE_LABEL_NAMES = ("label", "target", "targets", "classes")  # which may also hold something else
CLASS_NAMES = ("label_names", "target_names", "class_names")  # what the codes of labels stand for
ITEM_NAMES = {
    "sample_names": (
        *("sample_names", "samples", "obs_names", "cell_names", "cells", "barcodes", "row_names", "rownames", "rows"),
        *("names", "ids", "files", "filenames"),
    ),
    "feature_names": (
        *("feature_names", "features", "var_names", "gene_names", "genes", "column_names", "colnames", "columns"),
        *("words", "terms", "vocabulary"),
    ),
}


def add_labels(found: Found, variables: Variables, asked: str | None, matrix_name: str, is_only: bool) -> None:
    """Labels called ``asked`` or, if nobody asks for any, those with a usual name. ``is_only``: for the only matrix."""
    name = asked or guess_labels(variables, but=matrix_name)
    if name is None:
        return
    try:
        labels = variables.labels(name)
    except UnusableValues as fault:
        if asked:
            raise
        found["notes"].append(f"{variables.where}: {fault.parts[1]}, so {name} is left out")
        return
    # The file may have several matrices: labels of another length belong to another one.
    certain = asked or (is_only and name.lower() not in MORE_LABEL_NAMES)
    if certain or np.size(labels) in found["X"].shape:
        found["labels"] = with_class_names(labels, variables)
        found["labels_are_guessed"] = not asked


def guess_labels(variables: Variables, but: str | None = None) -> str | None:
    for wanted in (*LABEL_NAMES, *MORE_LABEL_NAMES):
        name = same_name(wanted, variables.names())
        if name and name != but:
            shape = variables.shape(name)
            if shape is None or len(shape) < 2 or 1 in shape:  # a real matrix called Y is a second view
                return name
    return None


def with_class_names(labels: Any, variables: Variables) -> Any:
    """Codes as the names that they stand for, if the file has these. MATLAB counts from 1."""
    names = first_text(variables, CLASS_NAMES)
    codes = np.ravel(labels)
    if names is None or codes.dtype.kind not in "iuf" or not len(codes):
        return labels
    first = int(variables.counts_from_one)
    if not np.isin(codes, np.arange(first, first + len(names))).all():
        return labels
    return [names[int(code) - first] for code in codes]


def read_names(variables: Variables, notes: list[str]) -> dict[str, list[str]]:
    """Names of samples and features. Their number is not checked yet."""
    found = {kind: first_text(variables, usual, notes) for kind, usual in ITEM_NAMES.items()}
    return {kind: names for kind, names in found.items() if names is not None}


def first_text(variables: Variables, usual: Sequence[str], notes: list[str] | None = None) -> list[str] | None:
    """The first list of text with one of these names."""
    for name in filter(None, (same_name(wanted, variables.names()) for wanted in usual)):
        if variables.shape(name) is not None:  # numbers
            continue
        try:
            texts = plain_text(variables.labels(name), variables.where)
        except UnusableValues as fault:
            if notes is not None:
                notes.append(f"{variables.where}: {fault.parts[1]}, so {name} is left out")
            continue
        if texts.dtype.kind == "U":
            return [str(text) for text in texts]
    return None


def same_name(wanted: str, names: list[str]) -> str | None:
    """The name ``wanted`` or, if there is none, the same in upper or lower case."""
    if wanted in names:
        return wanted
    return next((name for name in names if name.lower() == wanted.lower()), None)
