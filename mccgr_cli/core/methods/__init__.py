"""The seven methods of the paper's comparison, as combinations of a loss, a graph term and an update."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from mccgr_cli.blocks.protocol import Array, BlockSource
from mccgr_cli.core.methods.base import Update
from mccgr_cli.core.methods.coordinate import CoordinateUpdate
from mccgr_cli.core.methods.correntropy import MultiplicativeUpdate
from mccgr_cli.core.methods.divergence import DivergenceUpdate, divergence_coefficients
from mccgr_cli.core.methods.least_squares import (
    ConstrainedLeastSquaresUpdate,
    ProjectedGradientUpdate,
    least_squares_coefficients,
)


@dataclass(frozen=True)
class Method:
    """Which parts a method is made of."""

    own_update: type[Update] | None = None  # by default any of SOLVERS serves
    weighted: bool = False  # learns feature weights by correntropy
    graph: bool = False  # keeps neighbours together
    # of new samples, given H and rho: W (n, k)
    coefficients: Callable[[BlockSource, Array, Array], Array] = least_squares_coefficients

    def update(self, solver: str) -> type[Update]:
        return self.own_update or SOLVERS[solver]


# Ways to minimize the same objective.
SOLVERS: Mapping[str, type[Update]] = {"multiplicative": MultiplicativeUpdate, "coordinate": CoordinateUpdate}

METHODS: Mapping[str, Method] = {
    "mccgr": Method(weighted=True, graph=True),
    "mcc": Method(weighted=True),
    "grnmf": Method(graph=True),
    "l2": Method(),
    "kl": Method(DivergenceUpdate, coefficients=divergence_coefficients),
    "gdcls": Method(ConstrainedLeastSquaresUpdate),
    "pg": Method(ProjectedGradientUpdate),
}
