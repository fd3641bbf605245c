"""The clusters and outlier scores of new samples: stored landmarks, and those nearest to a new sample."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from mccgr_cli.blocks.protocol import Array, BlockSource, Matrix
from mccgr_cli.blocks.threads import threads_for_blocks
from mccgr_cli.core.landmarks import Landmarks, learn_landmarks
from mccgr_cli.core.metrics import evaluate
from mccgr_cli.core.outliers import Density, learn_density
from mccgr_cli.core.principal_axes import Projection
from mccgr_cli.core.typicality import VOTES
from mccgr_cli.errors import DataError
from mccgr_cli.files.container import Contents
from mccgr_cli.files.lazy_matrix import StoredMatrix
from mccgr_cli.files.readers import Loaded
from mccgr_cli.workflow import stages


def learn_for_prediction(
    X: BlockSource, rho: Array, k: int, evenness: float | None
) -> tuple[Landmarks, Density | None, Array]:
    """What finds the clusters of new samples, and the outlier scores of the old ones."""
    landmarks = learn_landmarks(X, rho, k, evenness)
    return landmarks, *learn_density(X, landmarks, k)


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
    """A clusters file of new samples: the clusters of a model; X is normalized as :func:`stages.rows_like` says."""
    landmarks, density, old = landmarks_of(model), density_of(model), model.contents
    points = landmarks.projection.points(stages.matched_blocks(model, matrix, X))
    assignments, certainty = landmarks.vote(points, old["assignments"])
    datasets = {"assignments": assignments, "certainty": certainty, **matrix.contents.names()}
    attributes = {**stages.attributes_for_new(old), "certainty_kind": VOTES}
    idf = stages.rows_like(model, matrix, X.shape[1])[1]
    if idf is not None:
        datasets["idf"] = idf
    if density is not None:
        datasets["outlier"], attributes[stages.NEIGHBORS] = density.score(points), density.neighbors
    classes = old.labels_as_text()
    if classes is not None:
        scores = evaluate(classes, old["assignments"])
        datasets["correspondence/clusters"] = np.array(scores.clusters[: len(scores.matches)])
        datasets["correspondence/classes"] = scores.matches
    return Contents("clusters", datasets, attributes)
