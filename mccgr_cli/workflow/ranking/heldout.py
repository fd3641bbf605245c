"""How well k components predict entries of X that are hidden from the fit.

S. Wold: Cross-validatory estimation of the number of components in factor and principal components models.
Technometrics 20(4), 1978. A. B. Owen, P. O. Perry: Bi-cross-validation of the SVD and the nonnegative matrix
factorization. Annals of Applied Statistics 3(2), 2009.
"""

from __future__ import annotations

import numpy as np
from scipy import sparse

from mccgr_cli.blocks.in_memory import MemoryBlocks
from mccgr_cli.blocks.products import moments
from mccgr_cli.blocks.protocol import Array, Matrix
from mccgr_cli.core.starts import nndsvd_start

HIDDEN = 0.1  # fraction of the entries
MOST_ROWS, MOST_FEATURES = 1000, 2000  # of the dense part of X that is used
STEPS, TOLERANCE = 100, 5e-4  # a fit ends after these steps, or when its error falls by less
CHECK_EVERY = 5  # steps: measuring the error takes as long as half a step
ROUNDING = 1e-20  # relative error of squares: features that do not vary have this variance

Entries = tuple[Array, Array]  # rows and columns


def dense_part(X: Matrix, rng: np.random.Generator) -> Array:
    """X as a dense array; of a large X only random samples and the features with the largest variance."""
    n, d = X.shape
    if n > MOST_ROWS:
        X = X[np.sort(rng.choice(n, MOST_ROWS, replace=False))]
    if d > MOST_FEATURES:
        spread = moments(MemoryBlocks(X)).spread(X.shape[0])
        X = X[:, np.sort(np.argsort(-spread, kind="stable")[:MOST_FEATURES])]
    return np.asarray(X.toarray() if sparse.issparse(X) else X, dtype=np.float64)


def hide(shape: tuple[int, int], rng: np.random.Generator) -> Entries:
    """Random entries to hide, in their order."""
    n, d = shape
    chosen = np.sort(rng.choice(n * d, max(int(HIDDEN * n * d), 1), replace=False))
    return np.divmod(chosen, d)


def imputed(X: Array, hidden: Entries) -> tuple[Array, Array]:
    """A copy of X with hidden entries replaced by (row factor) x (column mean), and the column means.

    Neither depends on the hidden values.
    """
    known = X.copy()
    known[hidden] = 0
    seen = np.ones(X.shape)
    seen[hidden] = 0
    means: Array = known.sum(axis=0) / np.maximum(seen.sum(axis=0), 1)
    expected = seen @ means
    sizes = np.divide(known.sum(axis=1), expected, out=np.zeros(len(X)), where=expected > 0)
    known[hidden] = sizes[hidden[0]] * means[hidden[1]]
    return known, means


def predict(X: Array, hidden: Entries, k: int, rho: Array, rng: np.random.Generator) -> Array:
    """The hidden entries of WH, where W and H minimize sum_ij rho_j (x_ij - (WH)_ij)^2 over the other entries.

    Each step fills the hidden entries with those of WH, then improves W and H as if nothing were hidden. That never
    raises the sum (H. A. L. Kiers: Weighted least squares fitting using ordinary least squares algorithms.
    Psychometrika 62(2), 1997). One component after the other goes to its minimum (HALS).
    """
    filled, _ = imputed(X, hidden)
    W, H = nndsvd_start(MemoryBlocks(filled), k, float(filled.mean()), rng)
    rows, columns = hidden
    previous = np.inf
    found: Array = filled[hidden]
    for step in range(STEPS):
        improve(H, W.T @ W, W.T @ filled)
        weighted = rho * H
        improve(W.T, weighted @ H.T, weighted @ filled.T)
        found = np.einsum("ek,ke->e", W[rows], H[:, columns])
        filled[hidden] = found
        if step % CHECK_EVERY:
            continue
        error = float((np.square(filled - W @ H).sum(axis=0)) @ rho)
        if previous - error <= TOLERANCE * error:
            break
        previous = error
    return found


def improve(factor: Array, gram: Array, cross: Array) -> None:
    """Update every row r of a factor F in place: max(0, F_r + (cross - gram F)_r / gram_rr)."""
    for r in range(len(factor)):
        if gram[r, r] > 0:
            factor[r] = np.maximum(factor[r] + (cross[r] - gram[r] @ factor) / gram[r, r], 0)


def errors(X: Array, hidden: Entries, ks: list[int], rho: Array, seed: list[int]) -> list[float]:
    """By k: the weighted squared error of the prediction, relative to that of predicting the feature means."""
    _, means = imputed(X, hidden)
    truth, weights = X[hidden], rho[hidden[1]]
    scale = float(weights @ np.square(truth - means[hidden[1]]))
    negligible = ROUNDING * float(weights @ np.square(truth))
    found = []
    for k in ks:
        guess = predict(X, hidden, k, rho, np.random.default_rng([*seed, k]))
        found.append(float(weights @ np.square(truth - guess)) / scale if scale > negligible else 0.0)
    return found
