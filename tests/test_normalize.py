"""Rows are normalized as asked, dense or sparse, in place."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from mccgr_cli.blocks.rows import normalize
from mccgr_cli.settings import NORMALIZATIONS

X = np.array([[1.0, 3.0, 0.0], [0.0, 0.0, 0.0], [4.0, 0.0, 9.0]])
IDF = (np.log(4 / 3) + 1) / (np.log(4 / 2) + 1)  # of the first feature, in 2 of 3 rows; the others, in 1, have 1
THREE, FOUR, NINE = 1 + np.log([3, 4, 9])  # what counts are taken for
OFTEN, RARE = np.hypot(IDF, THREE), np.hypot(FOUR * IDF, NINE)
EXPECTED = {
    "none": X,
    "l1": [[0.25, 0.75, 0], [0, 0, 0], [4 / 13, 0, 9 / 13]],
    "l2": [[1 / 10**0.5, 3 / 10**0.5, 0], [0, 0, 0], [4 / 97**0.5, 0, 9 / 97**0.5]],
    "sqrt": np.sqrt(X),
    "hellinger": np.sqrt([[0.25, 0.75, 0], [0, 0, 0], [4 / 13, 0, 9 / 13]]),
    "tfidf": [[IDF / OFTEN, THREE / OFTEN, 0], [0, 0, 0], [FOUR * IDF / RARE, 0, NINE / RARE]],
    "log": np.log1p([[7.5, 22.5, 0], [0, 0, 0], [120 / 13, 0, 270 / 13]]),  # mean 10, so sum 30
}


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("make", [np.array, sparse.csr_array], ids=["dense", "sparse"])
@pytest.mark.parametrize("how", NORMALIZATIONS)
def test_rows_are_normalized(how, make, dtype):
    given = make(X.astype(dtype))
    result = normalize(given, how)
    assert result is given
    assert result.dtype == dtype
    values = result.toarray() if sparse.issparse(result) else result
    np.testing.assert_allclose(values, EXPECTED[how], rtol=1e-6)
