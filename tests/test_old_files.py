"""Files that earlier versions wrote are read by this one, with the same values.

``old_files/VERSION`` has a small file of each kind, written by that version. They are never made again.
"""

from __future__ import annotations

import json
from pathlib import Path

import h5py
import numpy as np
import pytest

from mccgr_cli.files.container import SCHEMA
from mccgr_cli.files.readers import load

FILES = sorted((Path(__file__).parent / "old_files").rglob("*.h5"))


def by_kind(kind: str) -> list[Path]:
    return [path for path in FILES if path.stem == kind]


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name} {path.name}")
def test_all_datasets_have_the_values_that_were_written(path):
    contents = load(str(path), kinds=tuple(SCHEMA)).contents
    with h5py.File(path) as file:
        for name, value in contents.datasets.items():
            if name == "X":
                assert np.array_equal(value.load(), file[name][()])
            elif name == "A":
                assert np.array_equal(value.data, file[name]["data"][()])
            elif isinstance(value, list):
                assert value == list(file[name].asstr())
            else:
                assert np.array_equal(value, file[name][()], equal_nan=True)


def test_there_is_a_file_of_every_kind_but_checkpoints():
    kinds = {load(str(path), kinds=tuple(SCHEMA)).contents.kind for path in FILES}
    assert kinds == SCHEMA.keys() - {"checkpoint"}  # which only the version that wrote them reads


@pytest.mark.parametrize("path", by_kind("clusters"), ids=lambda path: path.parent.name)
def test_commands_continue_from_old_files(mccgr, tmp_path, path):
    assert json.loads(mccgr("evaluate", path, "--format", "json").stdout)["accuracy"] == 1.0
    new = tmp_path / "W.h5"
    assert mccgr("transform", path, path.with_name("samples.h5"), "-o", new).status == 0
    assert mccgr("report", path, "-o", tmp_path / "report.html").status == 0
    assert mccgr("table", path.with_name("results.h5")).status == 0
    graph = ("--graph", path.with_name("graph.h5"))
    assert mccgr("factorize", path.with_name("samples.h5"), "--k", 3, *graph, "-o", tmp_path / "F.h5").status == 0
