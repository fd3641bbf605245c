"""How the images of a matrix were described. Its file keeps it, so that new images can be described in the same way."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from mccgr_cli.blocks.protocol import Array
from mccgr_cli.errors import DataError, MccgrError, one_line
from mccgr_cli.files.container import Contents
from mccgr_cli.files.folders import Skipped
from mccgr_cli.files.readers import Loaded, load
from mccgr_cli.images.codebook import Codebook
from mccgr_cli.images.extract import Described
from mccgr_cli.images.facts import facts_datasets
from mccgr_cli.images.network.describe import Network, Preparation, open_network
from mccgr_cli.images.network.ready import READY
from mccgr_cli.images.settings import Description, Learning, ModelSettings

Describer: TypeAlias = Codebook | Network


def words_contents(
    described: Described, X: Array, book: Codebook, learning: Learning | None, skipped: Sequence[Skipped]
) -> Contents:
    """A matrix file of word counts, with its codebook; ``learning`` is None if that was learnt for another file."""
    datasets = {"codebook": book.words, "feature_names": book.feature_names()}
    attributes = {**asdict(book.description), "soft_width": book.width, "codebook_sha256": book.sha256()}
    if learning is not None:
        attributes |= {"sample": learning.sample, "seed": learning.seed}
        if learning.descriptors_per_image is not None:
            attributes["descriptors_per_image"] = learning.descriptors_per_image
    return Contents("matrix", {"X": X, **datasets, **datasets_of(described, skipped)}, attributes)


def network_contents(described: Described, network: Network, skipped: Sequence[Skipped]) -> Contents:
    """A matrix file of the features of a network, with the name and the SHA-256 of the model."""
    (X,) = described.X
    datasets = {"X": X, "feature_names": network.feature_names(X.shape[1]), **datasets_of(described, skipped)}
    attributes = {"model": network.name, "model_engine": network.engine, **asdict(network.preparation)}
    return Contents("matrix", datasets, attributes)


def datasets_of(described: Described, skipped: Sequence[Skipped]) -> dict[str, Any]:
    """What every matrix of images holds beside its features."""
    datasets: dict[str, Any] = {"sample_names": [image.name for image in described.images]}
    labels = [image.label for image in described.images]
    if None not in labels:
        names, codes = np.unique(np.array(labels, dtype=object), return_inverse=True)
        datasets["label_names"], datasets["labels"] = names.tolist(), codes
    if skipped:
        datasets["skipped/names"] = [one.name for one in skipped]
        datasets["skipped/reasons"] = [one_line(one.reason) for one in skipped]
    return datasets | facts_datasets(described.facts)


def read_describer(matrix: Loaded, model: str | None = None) -> Describer:
    """What describes new images as those of a matrix; ``model``: the file of the network, if it was moved."""
    if "model_sha256" in matrix.contents.attributes:
        return read_network(matrix, model)
    if model is not None:
        raise DataError(matrix.name, "its images were not described by a network", "leave out --model")
    return read_codebook(matrix)


def read_codebook(matrix: Loaded) -> Codebook:
    """The codebook in a file of ``mccgr extract``."""
    contents = matrix.contents
    if "codebook" not in contents:
        raise DataError(matrix.name, "holds no codebook", "name a file from mccgr extract")
    stored: dict[str, Any] = {name: contents.attributes.get(name) for name in Description.__dataclass_fields__}
    with contextlib.suppress(TypeError, ValueError):  # attributes of another type
        description = Description(**{**stored, "radii": tuple(stored["radii"] or ())})
        words, width = contents["codebook"].astype(np.float32), contents.attributes.get("soft_width", 0.0)
        book = Codebook(words, description, width)
        if book.is_sound() and book.sha256() == contents.attributes.get("codebook_sha256"):
            return book
    raise DataError(matrix.name, "its codebook is damaged or was changed", "extract it again")


def read_network(matrix: Loaded, model: str | None) -> Network:
    """The network that described the images of a matrix. The model itself is not in the file, only its SHA-256."""
    attributes = matrix.contents.attributes
    stored: dict[str, Any] = {one.name: attributes.get(one.name) for one in fields(Preparation)}
    for name in ("model_mean", "model_scale"):
        stored[name] = tuple(stored[name]) if isinstance(stored[name], list) else ()
    expected = Preparation(**stored)
    given = attributes.get("model")
    if not isinstance(given, str) or not expected.is_sound():
        raise DataError(matrix.name, "its description of the model is damaged", "extract it again")
    where = model or find_model(given, Path(matrix.name).parent)
    if where is None:
        what = f"its images were described by the model {given}, which is not there"
        raise DataError(matrix.name, what, "name the file with --model")
    options = {key: value for key, value in stored.items() if key != "model_sha256"}
    network = open_network(ModelSettings(model=where, **options))
    if network.preparation != expected:
        old, new = expected.model_sha256[:12], network.preparation.model_sha256[:12]
        what = f"its images were described by a model with the SHA-256 {old}..., and that of {where} is {new}..."
        raise DataError(matrix.name, what, "name the same model with --model")
    return network


def find_model(name: str, folder: Path) -> str | None:
    """A ready model, or a file of this name: where it was, or in the folder of the matrix."""
    for path in (name, str(folder / Path(name).name)):
        if path in READY or os.path.isfile(path):  # noqa: PTH113 - a name from a file may be no name at all
            return path
    return None


def find_described(model: Loaded, folder: Path) -> Loaded:
    """The matrix of images or texts that a model was made from.

    The model names it in its provenance. It is searched under this name, and in the ``folder`` of the model.
    """
    names = list(dict.fromkeys(extracted_matrices(model.contents.provenance)))
    for name, sha256 in names:
        for path in (name, str(folder / Path(name).name)):
            if os.path.isfile(path):  # noqa: PTH113 - a name from a file may be no name at all
                try:
                    found = load(path)
                except MccgrError:
                    continue
                if found.sha256 == sha256:
                    return found
    if not names:
        raise DataError(model.name, "was not made from images or texts", "name a matrix of new samples")
    what = f"was made from {names[0][0]}, which says how samples are described, and that was not found or has changed"
    raise DataError(model.name, what, "name the file with --codebook")


def extracted_matrices(provenance: Any) -> Iterator[tuple[str, str]]:
    """Names and checksums of the files from ``mccgr extract`` that led to a file."""
    inputs = provenance.get("inputs") if isinstance(provenance, dict) else None
    for one in inputs if isinstance(inputs, list) else []:
        if isinstance(one, dict):
            made = one.get("provenance")
            if isinstance(made, dict) and made.get("command") == "extract":
                yield str(one.get("name")), str(one.get("sha256"))
            yield from extracted_matrices(made)
