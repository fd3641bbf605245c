"""The seven methods of the paper's comparison, as combinations of a loss, a graph term and an update."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from mccgr_cli.methods.base import Update
from mccgr_cli.methods.correntropy import MultiplicativeUpdate
from mccgr_cli.methods.divergence import DivergenceUpdate
from mccgr_cli.methods.least_squares import ConstrainedLeastSquaresUpdate, ProjectedGradientUpdate


@dataclass(frozen=True)
class Method:
    """Which parts a method is made of."""

    title: str
    update: type[Update]
    weighted: bool = False  # learns feature weights by correntropy
    graph: bool = False  # keeps neighbours together


METHODS: Mapping[str, Method] = {
    "mccgr": Method("correntropy with the graph", MultiplicativeUpdate, weighted=True, graph=True),
    "mcc": Method("correntropy", MultiplicativeUpdate, weighted=True),
    "grnmf": Method("squared error with the graph", MultiplicativeUpdate, graph=True),
    "l2": Method("squared error (Lee and Seung)", MultiplicativeUpdate),
    "kl": Method("Kullback-Leibler divergence", DivergenceUpdate),
    "gdcls": Method("squared error by GD-CLS", ConstrainedLeastSquaresUpdate),
    "pg": Method("squared error by projected gradients", ProjectedGradientUpdate),
}
