"""The values of a matrix in the clusters that were made from it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from mccgr_cli.blocks.from_file import blocks_of
from mccgr_cli.cli.job import Job
from mccgr_cli.cli.options import MatrixInput
from mccgr_cli.core.profiles import GroupValues, group_values
from mccgr_cli.errors import DataError
from mccgr_cli.files.readers import Loaded
from mccgr_cli.output.export import check_fit
from mccgr_cli.settings import NORMALIZATIONS
from mccgr_cli.workflow.placement import place
from mccgr_cli.workflow.stages import learnt_idf


def with_matrix(job: Job, clusters: Loaded, matrix: MatrixInput) -> tuple[Loaded, GroupValues]:
    """The clusters, with the names of the matrix if they have none; and the values of the matrix in each cluster.

    Rows are normalized as they were when they were factorized or clustered.
    """
    how = clusters.contents.attributes.get("normalize", "none")
    if how not in NORMALIZATIONS:
        what = f"its rows were normalized by {how!r}, which this mccgr does not know"
        raise DataError(clusters.name, what, "update mccgr, or make the file again")
    given = job.load_matrix(matrix)
    check_fit(given, clusters, job.reporter.note)
    places = np.unique(clusters.contents["assignments"], return_inverse=True)[1]
    named = {**given.contents.names(), **clusters.contents.datasets}
    X = place(given, job.room(None, None), how, idf=learnt_idf(clusters, how))
    job.note_if_on_disk(X)
    return replace(clusters, contents=replace(clusters.contents, datasets=named)), group_values(blocks_of(X), places)
