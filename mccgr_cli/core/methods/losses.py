"""The data terms of the objective: squared error and correntropy.

References
----------
L. Li, J. Yang, K. Zhao, Y. Xu, H. Zhang, Z. Fan: Graph Regularized Non-negative Matrix Factorization By
Maximizing Correntropy. Journal of Computers, 2014.
J. J.-Y. Wang, X. Wang, X. Gao: Non-negative matrix factorization by maximizing correntropy for cancer
clustering. BMC Bioinformatics 14:107, 2013.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

import numpy as np

from mccgr_cli.blocks.protocol import Array

SETTLED = 1e-3  # a bandwidth has settled when it changes by less than this fraction in one iteration,
SETTLE_AFTER = 9  # after this number of iterations
FAIR_STEPS = 8  # first steps, with equal weights; then features are weighted by how well they are explained
LARGEST_SHARE = 0.05  # of a feature in what is explained
SMALLEST_ERROR = 1e-6  # 2 sigma^2 is at least this part of the mean spread of a feature; below are rounding errors
LARGEST_SCALE = 1e9  # of 2 sigma^2, relative to the mean error: all features then have the same weight


class Loss(ABC):
    """The data term as a function of the errors of the features, e_j = sum_i (x_ij - (WH)_ij)^2."""

    warming_up = False  # True while the weights are not yet those of the loss
    kept: ClassVar[tuple[str, ...]] = ()  # learned attributes, saved in checkpoints under these names

    @property
    def sigma(self) -> float:
        """The current bandwidth; NaN if the loss has none."""
        return float("nan")

    def adapt(self, errors: Array, step: int) -> None:  # noqa: B027 (most losses have nothing to learn)
        """Learn the bandwidth from the errors before a step; step 0 is the start."""

    @abstractmethod
    def weights(self, errors: Array) -> Array:
        """rho (d,): the derivative of the loss with respect to each error."""

    @abstractmethod
    def value(self, errors: Array) -> float: ...

    def comparable_value(self, errors: Array) -> float:
        """The value for comparing runs, which may have ended with different bandwidths."""
        return self.value(errors)

    @abstractmethod
    def needs_exact(self, errors: Array, slack: Array) -> Array:
        """Which errors (a mask) must be more exact than about ``slack`` * sqrt(eps)."""


class SquaredError(Loss):
    """sum_j e_j: all features have the same weight."""

    def weights(self, errors: Array) -> Array:
        return np.ones_like(errors)

    def value(self, errors: Array) -> float:
        return float(errors.sum())

    def needs_exact(self, errors: Array, slack: Array) -> Array:
        return np.asarray((slack > errors.mean()) & (slack.sum() > errors.sum()))  # only the sum matters


class Correntropy(Loss):
    """2 sigma^2 sum_j (1 - rho_j),  rho_j = exp(-e_j / (2 sigma^2)).

    Minimizing it maximizes the correntropy sum_j rho_j. Its derivative in e_j is rho_j, so the quadratic problem with
    weights rho bounds it from above and touches it. For a large sigma it is the squared error.

    Parameters
    ----------
    theta
        Sets the bandwidth as in the paper: sigma^2 = theta/(2d) sum_j e_j. None: use ``keep`` instead.
    bandwidth
        "adaptive": sigma follows the errors at every iteration (the paper). "settle": sigma does so until it has
        settled, and is then fixed, so that the objective falls monotonically. A number: sigma itself.
    keep
        sigma is the smallest bandwidth whose weights preserve this fraction of the explained variance. Weights are
        equal in the first few steps.
    spread
        sum_i (x_ij - mean_j)^2 of every feature, (d,).
    """

    kept = ("scale", "frozen", "warming_up")

    def __init__(self, theta: float | None, bandwidth: str | float, keep: float, spread: Array) -> None:
        self.theta, self.keep, self.spread = theta, keep, spread
        self.fixed = self.frozen = not isinstance(bandwidth, str)
        self.settles = bandwidth == "settle"
        self.scale = 2.0 * float(bandwidth) ** 2 if self.fixed else 0.0  # 2 sigma^2
        self.warming_up = theta is None and not self.fixed

    @property
    def sigma(self) -> float:
        return float(np.sqrt(self.scale / 2))

    def adapt(self, errors: Array, step: int) -> None:
        if self.frozen:
            return
        self.warming_up = self.theta is None and step <= FAIR_STEPS
        previous = self.scale
        self.scale = float(errors.mean()) * LARGEST_SCALE if self.warming_up else self._fitting_scale(errors)
        steady = abs(self.scale - previous) <= 2 * SETTLED * self.scale
        self.frozen = self.settles and steady and step > SETTLE_AFTER

    def _fitting_scale(self, errors: Array) -> float:
        """2 sigma^2 for these errors."""
        mean = float(errors.mean())
        if self.theta is not None:
            return self.theta * mean
        explained = np.maximum(self.spread - errors, 0)
        if mean == 0 or not explained.any():  # while nothing is explained, all features have the same weight
            return mean * LARGEST_SCALE
        fitted = mean * scale_that_keeps(self.keep, errors / mean, limited_shares(explained))
        return max(fitted, SMALLEST_ERROR * float(self.spread.mean()))

    def weights(self, errors: Array) -> Array:
        return np.asarray(np.exp(-in_units_of(self.scale, errors)))

    def value(self, errors: Array) -> float:
        return correntropy_loss(errors, self.scale)

    def comparable_value(self, errors: Array) -> float:
        # With the scale of ``keep`` a run that gives up most features would win. With this one less error always wins.
        return correntropy_loss(errors, self.scale if self.fixed else (self.theta or 1.0) * float(errors.mean()))

    def needs_exact(self, errors: Array, slack: Array) -> Array:
        # An error far above 2 sigma^2 has hardly any effect, neither here nor in the mean, so it may be inexact.
        effect = self.weights(np.maximum(errors - slack, 0)) * slack
        return np.asarray(effect > np.minimum(errors, self.scale).mean())


def limited_shares(explained: Array) -> Array:
    """The share of each feature in what is explained, with a limit: one large feature must not outweigh all others."""
    shares = explained / explained.sum()
    shares = np.minimum(shares, max(LARGEST_SHARE, 2 / len(shares)))
    return np.asarray(shares / shares.sum())


def scale_that_keeps(keep: float, errors: Array, shares: Array) -> float:
    """The s with sum_j shares_j exp(-errors_j / s) = keep, by bisection of its logarithm; at most LARGEST_SCALE."""
    low, high = 1 / LARGEST_SCALE, LARGEST_SCALE
    while high > low * (1 + 1e-9):
        middle = float(np.sqrt(low * high))
        if shares @ np.exp(-errors / middle) < keep:
            low = middle
        else:
            high = middle
    return high


def correntropy_loss(errors: Array, scale: float) -> float:
    return float(-scale * np.expm1(-in_units_of(scale, errors)).sum())


def in_units_of(scale: float, errors: Array) -> Array:
    if scale == 0:  # every error is 0: an exact fit
        return np.zeros_like(errors)
    with np.errstate(over="ignore"):
        return np.asarray(errors / scale)
