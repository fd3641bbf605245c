"""Features that distinguish a cluster, or a component, from the average sample."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mccgr_cli.blocks.protocol import Array
from mccgr_cli.output.report.clusters import below_one


@dataclass(frozen=True)
class Feature:
    number: int
    score: float  # its part of the difference
    times: float  # its strength, divided by that in the average sample


class Profiles:
    """Features that distinguish mixtures of components from the average sample, by p log(p / q).

    p is the profile of a mixture m of components, m H times the weights of the features, divided by its sum; q is the
    profile of the average sample. p log(p / q) is the part of a feature in the Kullback-Leibler divergence of the two:
    small for features that are strong everywhere, and for those that are weak in the mixture.
    """

    def __init__(self, W: Array, H: Array, rho: Array) -> None:
        """``W`` and all mixtures must have the same scale."""
        self.H = below_one(H)[0] * below_one(rho)[0]
        self.strength = self.H.sum(axis=1)  # (k,)
        self.average = self.profile(W.mean(axis=0))

    def profile(self, mixture: Array) -> Array:
        whole = mixture @ self.H
        return np.asarray(whole / (whole.sum() or 1))

    def distinctive(self, mixture: Array, most: int) -> list[Feature]:
        p, q = self.profile(mixture), self.average
        both = (p > 0) & (q > 0)
        with np.errstate(over="ignore"):  # if q is tiny
            times = np.divide(p, q, out=np.ones(len(p)), where=both)
        score = np.zeros(len(p))
        score[both] = p[both] * (np.log(p[both]) - np.log(q[both]))
        best = np.argsort(-score, kind="stable")[:most]
        return [Feature(int(j), float(score[j]), float(times[j])) for j in best if score[j] > 0]

    def shares(self, mixture: Array) -> Array:
        """The shares of the components in a mixture, by their contributions to the features."""
        parts = mixture * self.strength
        return np.asarray(parts / (parts.sum() or 1))
