"""The seven methods of the paper's comparison: combinations of a loss, a graph term and an update.

Begin with ``base``: what all updates share. ``losses`` has the data terms; each other module is one family of updates.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from mccgr_cli.blocks.protocol import Array, BlockSource
from mccgr_cli.core.methods import least_squares
from mccgr_cli.core.methods.base import Update
from mccgr_cli.core.methods.coordinate import CoordinateUpdate
from mccgr_cli.core.methods.divergence import DivergenceUpdate, divergence_coefficients
from mccgr_cli.core.methods.multiplicative import MultiplicativeUpdate
from mccgr_cli.core.methods.orthogonal import OrthogonalUpdate


@dataclass(frozen=True)
class Method:
    """The parts of a method."""

    own_update: type[Update] | None = None  # None: any of SOLVERS
    weighted: bool = False  # learns feature weights by correntropy
    graph: bool = False  # has a graph term
    # W (n, k) of new samples, from X, H and rho
    coefficients: Callable[[BlockSource, Array, Array], Array] = least_squares.least_squares_coefficients

    def update(self, solver: str, orthogonal: bool = False) -> type[Update]:
        return OrthogonalUpdate if orthogonal else self.own_update or SOLVERS[solver]


# Ways to minimize the same objective.
SOLVERS: Mapping[str, type[Update]] = {"multiplicative": MultiplicativeUpdate, "coordinate": CoordinateUpdate}

METHODS: Mapping[str, Method] = {
    "mccgr": Method(weighted=True, graph=True),
    "mcc": Method(weighted=True),
    "grnmf": Method(graph=True),
    "l2": Method(),
    "kl": Method(DivergenceUpdate, coefficients=divergence_coefficients),
    "gdcls": Method(least_squares.ConstrainedLeastSquaresUpdate),
    "pg": Method(least_squares.ProjectedGradientUpdate),
}
