"""The clusters of new samples: stored landmarks, and the clusters of those nearest to a new sample."""

from __future__ import annotations

from typing import Any

import numpy as np

from mccgr_cli.blocks.protocol import Matrix
from mccgr_cli.core.landmarks import Landmarks
from mccgr_cli.core.metrics import evaluate
from mccgr_cli.core.principal_axes import Projection
from mccgr_cli.errors import DataError
from mccgr_cli.files.container import Contents
from mccgr_cli.files.lazy_matrix import StoredMatrix
from mccgr_cli.files.readers import Loaded
from mccgr_cli.workflow import stages


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


def predict(model: Loaded, matrix: Loaded, X: Matrix | StoredMatrix) -> Contents:
    """A clusters file of new samples: the clusters of a model; X is normalized as :func:`stages.learnt_with` says."""
    landmarks, old = landmarks_of(model), model.contents
    source = stages.matched_blocks(model, matrix, X)
    assignments, certainty = landmarks.predict(source, old["assignments"])
    datasets = {"assignments": assignments, "certainty": certainty, **matrix.contents.names()}
    classes = old.labels_as_text()
    if classes is not None:
        scores = evaluate(classes, old["assignments"])
        datasets["correspondence/clusters"] = np.array(scores.clusters[: len(scores.matches)])
        datasets["correspondence/classes"] = scores.matches
    of_old_graph = [f"graph_{name}" for name in stages.GRAPH_COUNTS]
    attributes = {name: value for name, value in old.attributes.items() if name not in of_old_graph}
    return Contents("clusters", datasets, attributes)
