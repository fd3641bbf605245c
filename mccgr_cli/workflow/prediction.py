"""The clusters and outlier scores of new samples: stored landmarks, and what describes new images as the old ones."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from mccgr_cli.blocks.protocol import Array, Matrix
from mccgr_cli.blocks.threads import threads_for_blocks
from mccgr_cli.core.landmarks import Landmarks
from mccgr_cli.core.metrics import evaluate
from mccgr_cli.core.outliers import Density
from mccgr_cli.core.principal_axes import Projection
from mccgr_cli.core.typicality import VOTES
from mccgr_cli.errors import DataError, MccgrError
from mccgr_cli.files.container import Contents
from mccgr_cli.files.lazy_matrix import StoredMatrix
from mccgr_cli.files.readers import Loaded, load
from mccgr_cli.workflow import stages

if TYPE_CHECKING:
    from mccgr_cli.images.codebook import Codebook


def with_landmarks(factors: Contents, landmarks: Landmarks, density: Density | None, outlier: Array) -> Contents:
    """A factors file with its landmarks and the outlier scores of its samples."""
    datasets, attributes = {**factors.datasets, "outlier": outlier, **landmark_datasets(landmarks)}, factors.attributes
    if density is not None:
        datasets["density/landmarks"] = density.landmarks
        datasets["density/radii"] = density.radii
        datasets["density/spacings"] = density.spacings
        attributes = {**attributes, stages.NEIGHBORS: density.neighbors}
    return replace(factors, datasets=datasets, attributes=attributes)


def landmark_datasets(landmarks: Landmarks) -> dict[str, Any]:
    """Landmarks as datasets of a factors file."""
    return {
        "landmarks/right": landmarks.projection.right,
        "landmarks/offset": landmarks.projection.offset,
        "landmarks/points": landmarks.points,
        "landmarks/samples": landmarks.samples,
    }


def landmarks_of(model: Loaded) -> Landmarks:
    contents = model.contents
    stages.require_datasets(model, "H", "rho")
    if "landmarks/points" not in contents:
        remedy = "run 'mccgr factorize' and 'mccgr cluster' again, or 'mccgr run'"
        raise DataError(model.name, "no landmarks, with which new samples are compared", remedy)
    projection = Projection(contents["landmarks/right"], contents["landmarks/offset"])
    return Landmarks(projection, contents["landmarks/points"], contents["landmarks/samples"])


def density_of(model: Loaded) -> Density | None:
    """The density of landmarks, if the file has it."""
    contents = model.contents
    if "density/radii" not in contents:
        return None
    chosen, neighbors = contents["density/landmarks"], contents.attributes.get(stages.NEIGHBORS)
    if not isinstance(neighbors, int) or not 0 < neighbors < len(chosen):
        what = f"{stages.NEIGHBORS} is {neighbors!r}, not a number of neighbours among {len(chosen)} landmarks"
        raise DataError(model.name, what, "the file is damaged; make it again")
    points = contents["landmarks/points"][chosen]
    return Density(chosen, points, contents["density/radii"], contents["density/spacings"], neighbors)


@threads_for_blocks()
def predict(model: Loaded, matrix: Loaded, X: Matrix | StoredMatrix) -> Contents:
    """A clusters file of new samples: the clusters of a model; X is normalized as :func:`stages.learnt_with` says."""
    landmarks, density, old = landmarks_of(model), density_of(model), model.contents
    points = landmarks.projection.points(stages.matched_blocks(model, matrix, X))
    assignments, certainty = landmarks.vote(points, old["assignments"])
    datasets = {"assignments": assignments, "certainty": certainty, **matrix.contents.names()}
    attributes = {**stages.attributes_for_new(old), "certainty_kind": VOTES}
    if density is not None:
        datasets["outlier"], attributes[stages.NEIGHBORS] = density.score(points), density.neighbors
    classes = old.labels_as_text()
    if classes is not None:
        scores = evaluate(classes, old["assignments"])
        datasets["correspondence/clusters"] = np.array(scores.clusters[: len(scores.matches)])
        datasets["correspondence/classes"] = scores.matches
    return Contents("clusters", datasets, attributes)


def find_codebook(model: Loaded, folder: Path) -> tuple[Loaded, Codebook]:
    """The matrix of words that a model was made from, and its codebook.

    The model names it in its provenance. It is searched under this name, and in the ``folder`` of the model.
    """
    names = list(dict.fromkeys(word_matrices(model.contents.provenance)))
    for name, sha256 in names:
        for path in (name, str(folder / Path(name).name)):
            if os.path.isfile(path):  # noqa: PTH113 - a name from a file may be no name at all
                try:
                    found = load(path)
                except MccgrError:
                    continue
                if found.sha256 == sha256:
                    return found, stages.read_codebook(found)
    if not names:
        raise DataError(model.name, "was not made from images", "name a matrix of new samples")
    what = f"was made from {names[0][0]}, which has the visual words, and that was not found or has changed"
    raise DataError(model.name, what, "name the file with --codebook")


def word_matrices(provenance: Any) -> Iterator[tuple[str, str]]:
    """Names and checksums of the files from ``mccgr extract`` that led to a file."""
    inputs = provenance.get("inputs") if isinstance(provenance, dict) else None
    for one in inputs if isinstance(inputs, list) else []:
        if isinstance(one, dict):
            made = one.get("provenance")
            if isinstance(made, dict) and made.get("command") == "extract":
                yield str(one.get("name")), str(one.get("sha256"))
            yield from word_matrices(made)
