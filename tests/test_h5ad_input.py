"""Layers and raw of an AnnData file are inputs like X, with their own names of features."""

from __future__ import annotations

from pathlib import Path

import anndata
import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from mccgr_cli.files.readers import load

N, D, MORE = 30, 6, 4
CELLS = [f"cell-{i}" for i in range(N)]
GENES = [f"gene-{j}" for j in range(D + MORE)]
COUNTS = np.random.default_rng(0).poisson(3.0, (N, D + MORE)).astype(float)
TYPES = ["T", "B", "NK"] * (N // 3)


@pytest.fixture
def cells(tmp_path: Path) -> Path:
    """X is scaled, as scanpy leaves it, and has fewer genes than raw."""
    kept = COUNTS[:, MORE:]
    obs = pd.DataFrame({"type": pd.Categorical(TYPES)}, index=CELLS)
    data = anndata.AnnData(kept - kept.mean(axis=0), obs=obs, var=pd.DataFrame(index=GENES[MORE:]))
    data.raw = anndata.AnnData(sparse.csr_matrix(COUNTS), var=pd.DataFrame(index=GENES))
    data.layers["log"] = sparse.csc_matrix(np.log1p(kept))
    data.layers["counts"] = kept
    data.layers["scaled"] = data.X
    data.write_h5ad(tmp_path / "cells.h5ad")
    return tmp_path / "cells.h5ad"


@pytest.mark.parametrize(
    ("name", "values", "genes"),
    [
        ("raw", COUNTS, GENES),
        ("raw/X", COUNTS, GENES),
        ("/raw", COUNTS, GENES),
        ("layers/counts", COUNTS[:, MORE:], GENES[MORE:]),
        ("layers/log", np.log1p(COUNTS[:, MORE:]), GENES[MORE:]),
    ],
)
def test_layers_and_raw_have_their_own_features_and_the_same_samples(name, values, genes, cells):
    contents = load(f"{cells}::{name}", label_key="type").contents
    found = contents["X"].load()
    np.testing.assert_array_equal(found.toarray() if sparse.issparse(found) else found, values)
    assert contents["sample_names"] == CELLS
    assert contents["feature_names"] == genes
    assert contents.labels_as_text() == TYPES


@pytest.mark.parametrize("options", [(), ("--transpose",), ("--memory", "1GB")])
@pytest.mark.parametrize("inner", ["", "::layers/scaled", "::X"])
def test_negative_values_name_what_to_use_instead(refused, cells, inner, options):
    message = refused("graph", f"{cells}{inner}", "-k", 2, *options)
    assert message.startswith(f"{cells}{inner}: ")
    assert "negative values, first at row 0" in message
    use = [f"{cells}::{name}" for name in ("raw", "layers/counts", "layers/log")]
    assert message.endswith(f"NMF needs X >= 0: use {' or '.join(use)}")


def test_a_file_without_others_suggests_none(refused, tmp_path):
    anndata.AnnData(-np.eye(3)).write_h5ad(tmp_path / "a.h5ad")
    assert "give counts or intensities" in refused("graph", tmp_path / "a.h5ad", "-k", 2)
    assert "nothing called 'layers/none' in it; it has X" in refused("info", f"{tmp_path / 'a.h5ad'}::layers/none")


@pytest.mark.parametrize(("inner", "fits"), [("raw", False), ("layers/counts", True)])
def test_every_command_takes_a_part_and_its_results_go_back(mccgr, cells, tmp_path, inner, fits):
    source, out = f"{cells}::{inner}", tmp_path / "out"
    done = mccgr("run", source, "-k", 3, "--label-key", "type", "-o", out, "--no-duplicates", "-q")
    assert done.status == 0, done.stderr
    assert mccgr("rank", source, "--k", "2-3", "--runs", 2, "--jobs", 0, "-o", tmp_path / "r.h5", "-q").status == 0
    predicted = mccgr("predict", out, source, "-q").stdout.splitlines()
    assert [line.partition(",")[0] for line in predicted[1:]] == CELLS
    done = mccgr("export", out / "clusters.h5", "--into", cells)
    assert done.status == 0, done.stderr
    data = anndata.read_h5ad(cells)
    assert data.obsm["X_mccgr"].shape == (N, 3)
    assert ("mccgr" in data.varm) == fits
    assert ("features" in data.uns["mccgr"]) != fits
    if not fits:
        assert list(data.uns["mccgr"]["features"].index) == GENES
