"""The seven methods of the paper's comparison, as combinations of a loss, a graph term and an update."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from mccgr_cli.blocks import Array, BlockSource
from mccgr_cli.methods.base import Update
from mccgr_cli.methods.correntropy import MultiplicativeUpdate
from mccgr_cli.methods.divergence import DivergenceUpdate, divergence_coefficients
from mccgr_cli.methods.least_squares import (
    ConstrainedLeastSquaresUpdate,
    ProjectedGradientUpdate,
    least_squares_coefficients,
)


@dataclass(frozen=True)
class Method:
    """Which parts a method is made of."""

    update: type[Update]
    weighted: bool = False  # learns feature weights by correntropy
    graph: bool = False  # keeps neighbours together
    # of new samples, given H and rho: W (n, k)
    coefficients: Callable[[BlockSource, Array, Array], Array] = least_squares_coefficients


METHODS: Mapping[str, Method] = {
    "mccgr": Method(MultiplicativeUpdate, weighted=True, graph=True),
    "mcc": Method(MultiplicativeUpdate, weighted=True),
    "grnmf": Method(MultiplicativeUpdate, graph=True),
    "l2": Method(MultiplicativeUpdate),
    "kl": Method(DivergenceUpdate, coefficients=divergence_coefficients),
    "gdcls": Method(ConstrainedLeastSquaresUpdate),
    "pg": Method(ProjectedGradientUpdate),
}
