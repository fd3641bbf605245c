"""What a program with types does with the package: mypy checks it as it checks the package, and a test runs it."""

from __future__ import annotations

from typing import assert_type

import numpy as np

from mccgr_cli import MCCGR, Factors, MccgrError, Step, factorize

seen: list[float] = []


def watch(step: Step) -> None:
    seen.append(step.objective)


X = np.random.default_rng(0).random((20, 6))
factors = factorize(X, 2, iterations=5, on_step=watch)
assert_type(factors, Factors)
assert_type(factors.converged, bool)

model = MCCGR(n_components=2, max_iter=5).fit(X)
assert_type(model, MCCGR)
assert_type(model.n_iter_, int)
assert_type(model.score(X), float)
assert model.transform(X).shape == factors.W.shape

try:
    factorize(X, k="2")  # type: ignore[arg-type]
    MCCGR(components=2)  # type: ignore[call-arg]
except MccgrError as fault:
    assert_type(fault.fault, str)
