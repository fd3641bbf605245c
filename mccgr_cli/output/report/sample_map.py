"""The section with the map: samples in a plane, near each other where their coefficients are similar."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from mccgr_cli.blocks.protocol import Array
from mccgr_cli.blocks.rows import unit_rows
from mccgr_cli.errors import DataError
from mccgr_cli.output.curves import principal_plane, require_plane
from mccgr_cli.output.report.clusters import Findings

MOST_FOR_TSNE = 5000  # samples: t-SNE takes less than a minute
LEAST_FOR_TSNE = 10
PERPLEXITY, STEPS = 30.0, 500
GRID = 9999  # coordinates are whole numbers up to this
SIMILAR = "Samples with similar coefficients lie together. Distances between groups and sizes of groups mean little."
PLANE = "The two directions are those in which the coefficients vary most; they have {} of the variance."


@dataclass(frozen=True)
class Layout:
    points: Array  # (n, 2) whole numbers up to GRID, the same scale on both axes
    method: str
    meaning: str  # what near and far mean


def map_section(findings: Findings) -> dict[str, Any]:
    """The layout, or None and the reason; and the map in words."""
    contents = findings.contents
    if "W" not in contents:
        reason = "the file holds clusters of a matrix, without coefficients to place samples by"
        return {"layout": None, "reason": reason}
    try:
        layout = lay_out(contents["W"][findings.order], contents.attributes.get("cluster_assign") == "max")
    except DataError as error:
        return {"layout": None, "reason": error.fault}
    return {"layout": layout, "rows": list(rows_in_words(findings))}


def lay_out(W: Array, by_direction: bool) -> Layout:
    """Place samples by t-SNE, or by the first two principal components if there are too many or too few.

    Rows are compared as they were clustered: the rows of W for k-means; rows of unit length where a cluster is the
    largest coefficient, which does not depend on lengths. One thread: sums in another order would change the result.
    """
    require_plane(W, "W")
    rows = np.asarray(W, dtype=np.float64)
    if by_direction:
        rows = np.asarray(unit_rows(rows))
        require_plane(rows, "W")
    rows = rows / (np.abs(rows).max() or 1)
    with threadpool_limits(1):
        if LEAST_FOR_TSNE <= len(rows) <= MOST_FOR_TSNE:
            from sklearn.manifold import TSNE  # slow to import

            perplexity = min(PERPLEXITY, (len(rows) - 1) / 3)
            settings: Any = {"init": "pca", "max_iter": STEPS, "random_state": 0, "n_jobs": 1}
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", RuntimeWarning)  # if many rows are equal
                found = TSNE(perplexity=perplexity, **settings).fit_transform(rows).astype(np.float64)
            if np.isfinite(found).all():  # not so if too many rows are equal
                return Layout(on_grid(found), "t-SNE", SIMILAR)
        points, shares = principal_plane(rows)
    percentages = " and ".join(f"{100 * share:.0f} %" for share in shares)
    return Layout(on_grid(points), "principal components", PLANE.format(percentages))


def on_grid(points: Array) -> Array:
    points = points - points.min(axis=0)
    return np.round(points * (GRID / (points.max() or 1))).astype(int)


def rows_in_words(findings: Findings) -> Iterator[dict[str, Any]]:
    """For each cluster: its width, which cluster is nearest and how far away, and its median certainty."""
    W, exponent = findings.coefficients
    means = np.stack([W[cluster.members].mean(axis=0) for cluster in findings.clusters])
    for place, cluster in enumerate(findings.clusters):
        width = np.linalg.norm(W[cluster.members] - means[place], axis=1).mean()
        row = {"cluster": cluster, "width": at_scale(width, exponent), "nearest": None, "distance": None}
        if len(findings.clusters) > 1:
            distances = np.linalg.norm(means - means[place], axis=1)
            distances[place] = np.inf
            near = int(distances.argmin())
            row |= {"nearest": findings.clusters[near].number, "distance": at_scale(distances[near], exponent)}
        certainty = findings.certainty
        yield {**row, "certainty": None if certainty is None else f"{np.median(certainty[cluster.members]):.2f}"}


def at_scale(value: float, exponent: int) -> str:
    with np.errstate(over="ignore"):  # the result may be inf
        return f"{np.ldexp(value, exponent):.3g}"
