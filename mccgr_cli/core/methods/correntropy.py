"""Multiplicative updates for the correntropy and the squared loss, with and without the graph.

One update serves four methods: ``mccgr`` (correntropy, graph), ``mcc`` (correntropy), ``grnmf`` (squared
error, graph) and ``l2`` (squared error).

References
----------
L. Li, J. Yang, K. Zhao, Y. Xu, H. Zhang, Z. Fan: Graph Regularized Non-negative Matrix Factorization By
Maximizing Correntropy. Journal of Computers, 2014 (``mccgr``).
J. J.-Y. Wang, X. Wang, X. Gao: Non-negative matrix factorization by maximizing correntropy for cancer
clustering. BMC Bioinformatics 14:107, 2013 (``mcc``).
D. Cai, X. He, J. Han, T. S. Huang: Graph regularized nonnegative matrix factorization for data
representation. IEEE TPAMI 33(8), 2011 (``grnmf``).
D. D. Lee, H. S. Seung: Algorithms for non-negative matrix factorization. NIPS 13, 2001 (``l2``).
"""

from __future__ import annotations

import numpy as np

from mccgr_cli.blocks.products import Products
from mccgr_cli.blocks.protocol import Array, Matrix, Partial
from mccgr_cli.core.methods.base import AlternatingUpdate, Loss, gather, quotient

# A bandwidth that moved by less than this in one iteration, after so many iterations, has settled.
SETTLED = 1e-3
FAIR_STEPS = 8  # with equal weights, before features are judged by what the factors explain of them
LARGEST_SCALE = 1e9  # of 2 sigma^2, in mean errors: all features weigh alike
SETTLE_AFTER = 9


class Correntropy(Loss):
    """2 sigma^2 sum_j (1 - rho_j),  rho_j = exp(-e_j / (2 sigma^2)).

    The bandwidth is the smallest with which the weights leave the share ``keep`` of what the factors explain of the
    ``spread`` of the features about their means, after a few steps with equal weights; or, given theta,
    sigma^2 = theta/(2d) sum_j e_j (the paper).

    Maximizing the correntropy sum_j rho_j is minimizing this; its slope in e_j is rho_j, so the quadratic
    problem with weights rho bounds it from above and touches it, and for large theta it is the squared error.

    ``bandwidth`` is "adaptive" (sigma follows the errors at every iteration: the paper), "settle" (it does
    until it has settled, and is then frozen, so that the objective falls monotonically), or sigma itself.
    """

    kept = ("scale", "frozen", "warming_up")

    def __init__(self, theta: float | None, bandwidth: str | float, keep: float, spread: Array) -> None:
        self.theta, self.keep, self.spread = theta, keep, spread
        self.given = self.frozen = not isinstance(bandwidth, str)
        self.settles = bandwidth == "settle"
        self.scale = 2.0 * float(bandwidth) ** 2 if self.given else 0.0  # 2 sigma^2
        self.warming_up = theta is None and not self.given

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
        """The 2 sigma^2 that errors call for."""
        mean = float(errors.mean())
        if self.theta is not None:
            return self.theta * mean
        explained = np.maximum(self.spread - errors, 0)
        if mean == 0 or not explained.any():  # as long as nothing is explained, all features weigh alike
            return mean * LARGEST_SCALE
        return mean * scale_that_keeps(self.keep, errors / mean, explained / explained.sum())

    def weights(self, errors: Array) -> Array:
        rho: Array = np.exp(-in_units_of(self.scale, errors))
        return rho

    def value(self, errors: Array) -> float:
        return correntropy_loss(errors, self.scale)

    def comparable_value(self, errors: Array) -> float:
        # By the scale of ``keep`` a run that gave up most features would win; by this one less error is always better.
        return correntropy_loss(errors, self.scale if self.given else (self.theta or 1.0) * float(errors.mean()))

    def doubtful(self, errors: Array, slack: Array) -> Array:
        # Past 2 sigma^2 an error hardly counts any more, however inexact: neither here nor in the mean.
        effect = self.weights(np.maximum(errors - slack, 0)) * slack
        doubtful: Array = effect > np.minimum(errors, self.scale).mean()
        return doubtful


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
        scaled: Array = errors / scale
    return scaled


class MultiplicativeUpdate(AlternatingUpdate):
    """H <- H * (W'X) / (W'WH),  W <- W * (X(rho*H)' + alpha A W) / (W(rho*H)H' + alpha u*W)."""

    def improve_coefficients(self, rho: Array) -> None:
        weighted = rho * self.H
        dtype = self.source.dtype
        shared = (np.ascontiguousarray(weighted.T, dtype=dtype), (weighted @ self.H.T).astype(dtype), self.products)
        degrees = None if self.graph is None else self.graph.degrees
        self.sweep(multiply_rows, (self.W, self.pull, degrees), shared, into=(self.W,))


def multiply_rows(
    X_b: Matrix,
    W_b: Array,
    pull_b: Array | None,
    degrees_b: Array | None,
    weighted: Array,
    gram: Array,
    products: Products,
) -> Partial:
    """The step for a block of W, with its W'X and W'W; ``weighted`` is (rho*H)', ``gram`` is (rho*H)H'."""
    kernels = products.kernels(X_b, W_b.shape[1])
    if kernels is not None:
        P_b, new = kernels.multiplicative_step(X_b, W_b, pull_b, degrees_b, weighted, gram)
        return Partial((P_b, new.T @ new), (new,))
    numerator = products.narrow(X_b, weighted)
    denominator = W_b @ gram
    if pull_b is not None and degrees_b is not None:
        numerator += pull_b
        denominator += degrees_b[:, None] * W_b
    new = quotient(numerator, denominator)
    new *= W_b
    return gather(X_b, new, products)._replace(rows=(new,))
