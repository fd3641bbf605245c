"""Features that distinguish a cluster, or a component, from the average sample."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mccgr_cli.blocks.protocol import Array
from mccgr_cli.output.report.clusters import below_one


@dataclass(frozen=True)
class Feature:
    number: int
    score: float  # its part in the difference
    times: float  # how often it is as strong as on average


class Profiles:
    """What sets a cluster, or a component, apart from the average sample.

    A mixture m of components has the profile p ~ m H with the weights of the features, to a sum of 1; q is the profile
    of all samples. Features are ranked by p log(p / q), their part in the Kullback-Leibler divergence between the
    two: what is strong everywhere tells nothing, nor does what is rare even here.
    """

    def __init__(self, W: Array, H: Array, rho: Array) -> None:
        """``W`` and all mixtures are to the same scale, whichever that is."""
        self.H = below_one(H)[0] * below_one(rho)[0]
        self.strength = self.H.sum(axis=1)  # (k,)
        self.average = self.profile(W.mean(axis=0))

    def profile(self, mixture: Array) -> Array:
        whole = mixture @ self.H
        return np.asarray(whole / (whole.sum() or 1))

    def distinctive(self, mixture: Array, most: int) -> list[Feature]:
        p, q = self.profile(mixture), self.average
        both = (p > 0) & (q > 0)
        with np.errstate(over="ignore"):  # by what hardly is there
            times = np.divide(p, q, out=np.ones(len(p)), where=both)
        score = np.zeros(len(p))
        score[both] = p[both] * (np.log(p[both]) - np.log(q[both]))
        best = np.argsort(-score, kind="stable")[:most]
        return [Feature(int(j), float(score[j]), float(times[j])) for j in best if score[j] > 0]

    def shares(self, mixture: Array) -> Array:
        """Of the components in it, by what they contribute to the features."""
        parts = mixture * self.strength
        return np.asarray(parts / (parts.sum() or 1))
