"""How well k components predict entries of X that they were not fitted to.

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

HIDDEN = 0.1  # share of the entries
MOST_ROWS, MOST_FEATURES = 1000, 2000  # of the part of X that entries are hidden in, which is dense
STEPS, TOLERANCE = 100, 5e-4  # when a fit ends
CHECK_EVERY = 5  # steps: to measure the error takes as long as half a step
ROUNDING = 1e-20  # of squares: what is left of features that do not vary

Entries = tuple[Array, Array]  # their rows and columns


def part_of(X: Matrix, rng: np.random.Generator) -> Array:
    """X, or of a large one some samples and the features that vary most, dense."""
    n, d = X.shape
    if n > MOST_ROWS:
        X = X[np.sort(rng.choice(n, MOST_ROWS, replace=False))]
    if d > MOST_FEATURES:
        spread = moments(MemoryBlocks(X)).spread(X.shape[0])
        X = X[:, np.sort(np.argsort(-spread, kind="stable")[:MOST_FEATURES])]
    return np.asarray(X.toarray() if sparse.issparse(X) else X, dtype=np.float64)


def hide(shape: tuple[int, int], rng: np.random.Generator) -> Entries:
    """Entries to hide, in their order."""
    n, d = shape
    chosen = np.sort(rng.choice(n * d, max(int(HIDDEN * n * d), 1), replace=False))
    rows, columns = np.divmod(chosen, d)
    return rows, columns


def blanked(X: Array, hidden: Entries) -> tuple[Array, Array]:
    """A copy with the hidden entries as their row and column would have them, and the means of the columns; neither
    depends on what was hidden."""
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
    """What W H says of the hidden entries when it minimizes sum_j rho_j (x_ij - (WH)_ij)^2 over the others.

    The hidden entries are filled with what W H says of them, and W and H are improved as if nothing were hidden, which
    never raises that sum (H. A. L. Kiers: Weighted least squares fitting using ordinary least squares algorithms.
    Psychometrika 62(2), 1997); one component after the other goes to its minimum ("HALS").
    """
    filled, _ = blanked(X, hidden)
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
    """Every row r of a factor, in place: max(0, F_r + (cross - gram F)_r / gram_rr)."""
    for r in range(len(factor)):
        if gram[r, r] > 0:
            factor[r] = np.maximum(factor[r] + (cross[r] - gram[r] @ factor) / gram[r, r], 0)


def errors(X: Array, hidden: Entries, ks: list[int], rho: Array, seed: list[int]) -> list[float]:
    """By k: the weighted squared error of what is predicted, in that of the means of the features."""
    _, means = blanked(X, hidden)
    truth, weights = X[hidden], rho[hidden[1]]
    scale = float(weights @ np.square(truth - means[hidden[1]]))
    nothing = ROUNDING * float(weights @ np.square(truth))
    found = []
    for k in ks:
        guess = predict(X, hidden, k, rho, np.random.default_rng([*seed, k]))
        found.append(float(weights @ np.square(truth - guess)) / scale if scale > nothing else 0.0)
    return found
