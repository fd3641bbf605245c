"""Whatever the user names becomes a checked matrix, or one line that says what is wrong with it."""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import pickle
import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import h5py
import numpy as np
import pytest
import scipy.io
from scipy import sparse

from mccgr_cli.blocks.in_memory import MemoryBlocks
from mccgr_cli.catalog import HISTORY
from mccgr_cli.errors import DataError
from mccgr_cli.files.container import Contents, encode
from mccgr_cli.files.readers import load
from mccgr_cli.files.readers.beside import CLASS_NAMES, ITEM_NAMES, LABEL_NAMES, MORE_LABEL_NAMES
from mccgr_cli.files.readers.labels import load_labels
from mccgr_cli.files.values import check_values

N, D = 6, 4
X = np.round(np.random.default_rng(0).random((N, D)) + 0.1, 3)
S = np.where(X > 0.6, X, 0.0)
Y = np.array([10, 9, 10, 9, 2, 2])
NAMES = ["2", "9", "10"]
CODES = [2, 1, 2, 1, 0, 0]
SAMPLES = [f"s{i}" for i in range(N)]
FEATURES = [f"f{j}" for j in range(D)]


def refusal(call: Callable[[], Any]) -> str:
    with pytest.raises(DataError) as caught:
        call()
    message = str(caught.value)
    assert "\n" not in message
    return message


def refused(source: object, **options: Any) -> str:
    """The message with which a file, or X when it is loaded, is refused."""
    message = refusal(lambda: load(str(source), **options).contents["X"].load())
    assert message.startswith(str(source).partition("::")[0])
    return message


def write(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def gzipped(path: Path, text: str) -> Path:
    path.write_bytes(gzip.compress(text.encode()))
    return path


def hdf5(path: Path, **datasets: Any) -> Path:
    with h5py.File(path, "w") as file:
        for name, value in datasets.items():
            file[name] = value
    return path


def container(path: Path, kind: str = "matrix", **datasets: Any) -> Path:
    path.write_bytes(encode(Contents(kind, datasets)))
    return path


def put_sparse(group: h5py.Group, matrix: Any, shape: tuple[int, int]) -> None:
    group.attrs["encoding-type"] = f"{matrix.format}_matrix"
    group.attrs["shape"] = shape
    for part in ("data", "indices", "indptr"):
        group[part] = getattr(matrix, part)


def h5ad(path: Path, matrix: Any = X) -> Path:
    with h5py.File(path, "w") as file:
        file.attrs["encoding-type"] = "anndata"
        if sparse.issparse(matrix):
            put_sparse(file.create_group("X"), matrix, (N, D))
        else:
            file["X"] = matrix
        file["layers/counts"] = X.astype("f4") * 2
        file["obsm/pca"] = X[:, :2]
        for frame, names in (("obs", SAMPLES), ("var", FEATURES)):
            file[f"{frame}/key"] = names
            file[frame].attrs["_index"] = "key"
        file["obs/number"] = Y
        file["obs/text"] = [f"t{y}" for y in Y]
        file["obs/type/codes"] = np.array([1, 0, 1, 0, 0, 1], "i1")
        file["obs/type/categories"] = ["a", "b"]
        file["obs/gap/codes"] = np.array([1, 0, -1, 0, 0, 1], "i1")
        file["obs/gap/categories"] = ["a", "b"]
        file["obs/nullable/values"] = Y
        file["obs/nullable/mask"] = np.zeros(N, bool)
        file["obs/holes/values"] = Y
        file["obs/holes/mask"] = np.arange(N) == 3
        file["obs/old"] = np.array([1, 0, 1, 0, 0, 1], "i1")
        file["obs/__categories/old"] = ["a", "b"]
    return path


def mat73(path: Path, labels: bool = True) -> Path:
    """What MATLAB's ``save -v7.3`` leaves: arrays transposed, compressed columns, text as uint16."""

    def put(name: str, value: Any, kind: str) -> h5py.Dataset:
        dataset = file.create_dataset(name, data=value)
        dataset.attrs["MATLAB_class"] = np.bytes_(kind)
        return dataset

    columns = sparse.csc_array(S)
    with h5py.File(path, "w", userblock_size=512) as file:
        put("fea", X.T, "double")
        if labels:
            put("gnd", Y[None, :].astype(float), "double")
        group = file.create_group("bag")
        group.attrs["MATLAB_sparse"] = np.uint64(N)
        group["data"] = columns.data
        group["ir"] = columns.indices.astype("u8")
        group["jc"] = columns.indptr.astype("u8")
        put("letters", np.array([[ord(c) for c in "abba  "]] * 2, "u2"), "char")
        cells = [put(f"#refs#/{i}", np.array([[ord(c)] for c in f"t{y}"], "u2"), "char") for i, y in enumerate(Y)]
        put("cells", np.array([[cell.ref for cell in cells]], h5py.ref_dtype), "cell")
        put("nothing", np.array([0, 0], "u8"), "double").attrs["MATLAB_empty"] = 1
    with path.open("r+b") as raw:
        raw.write(b"MATLAB 7.3 MAT-file")
    return path


def savez(path: Path, **arrays: Any) -> Path:
    np.savez(path, **arrays)
    return path


def table(separator: str = ",", header: bool = True, names: bool = True, labels: bool = True) -> str:
    lines = [["id"] * names + FEATURES + ["kind"] * labels] if header else []
    for i in range(N):
        lines.append([SAMPLES[i]] * names + [str(x) for x in X[i]] + [str(Y[i])] * labels)
    return "".join(separator.join(line) + "\n" for line in lines)


# Every format gives the same matrix and labels

DENSE: dict[str, tuple[Callable[[Path], Any], str, dict[str, Any]]] = {
    "container": (lambda p: container(p / "a.h5", X=X, labels=CODES, label_names=NAMES), "", {}),
    "hdf5": (lambda p: hdf5(p / "a.h5", X=X, Y=Y.astype(float)), "", {}),
    "hdf5-fea": (lambda p: hdf5(p / "a.hdf5", fea=X, gnd=Y[:, None]), "", {}),
    "hdf5-only": (lambda p: hdf5(p / "a.data", counts=X, labels=[str(y) for y in Y]), "", {}),
    "hdf5-inner": (lambda p: hdf5(p / "a.h5", **{"X": S, "deep/M": X, "y": Y}), "::/deep/M", {}),
    "hdf5-key": (lambda p: hdf5(p / "a.h5", X=X, Y=Y * 0, **{"meta/y": Y}), "", {"label_key": "meta/y"}),
    "h5ad": (lambda p: h5ad(p / "a.h5ad"), "", {"label_key": "number"}),
    "h5ad-nullable": (lambda p: h5ad(p / "a.h5ad"), "::X", {"label_key": "nullable"}),
    "mat5": (lambda p: scipy.io.savemat(p / "a.mat", {"fea": X, "gnd": Y[:, None]}), "a.mat", {}),
    "mat5-case": (lambda p: scipy.io.savemat(p / "a.mat", {"x": X, "y": Y}), "a.mat", {}),
    "mat5-only": (lambda p: scipy.io.savemat(p / "a.mat", {"data": X, "GND": Y, "info": "hi"}), "a.mat", {}),
    "mat5-vectors": (lambda p: scipy.io.savemat(p / "a.mat", {"A": X, "gnd": Y, "w": X[:1]}), "a.mat", {}),
    "mat5-both": (lambda p: scipy.io.savemat(p / "a.mat", {"x": S, "X": X, "y": Y}), "a.mat", {}),
    "mat5-named": (lambda p: scipy.io.savemat(p / "a.mat", {"A": S, "B": X, "Y": Y}), "a.mat::B", {}),
    "mat4": (lambda p: scipy.io.savemat(p / "a.mat", {"X": X, "Y": Y}, format="4"), "a.mat", {}),
    "mat73": (lambda p: mat73(p / "a.mat"), "", {}),
    "npz": (lambda p: savez(p / "a.npz", X=np.asfortranarray(X), y=Y), "", {}),
    "npz-arr_0": (lambda p: savez(p / "a.npz", arr_0=X, other=X, gnd=Y), "", {}),
    "npz-pickle-beside": (lambda p: savez(p / "a.npz", X=X, Y=Y, extra=np.array([{}])), "", {}),
    "csv": (lambda p: write(p / "a.csv", table()), "", {"label_key": "kind"}),
    "csv-bom": (lambda p: write(p / "a.csv", "\ufeff" + table(names=False)), "", {"label_key": "kind"}),
    "csv-crlf": (lambda p: write(p / "a.csv", table().replace("\n", "\r\n")), "", {"label_key": "kind"}),
    "csv-number": (lambda p: write(p / "a.csv", table(header=False)), "", {"label_key": "6"}),
    "tsv": (lambda p: write(p / "a.tsv", table("\t")), "", {"label_key": "kind"}),
    "csv.gz": (lambda p: gzipped(p / "a.csv.gz", table()), "", {"label_key": "kind"}),
}


@pytest.mark.parametrize("name", DENSE)
def test_every_format_gives_the_same_matrix_and_labels(name: str, tmp_path: Path) -> None:
    make, source, options = DENSE[name]
    made = make(tmp_path)
    path = f"{made}{source}" if isinstance(made, Path) else str(tmp_path / source)
    contents = load(path, **options).contents
    np.testing.assert_array_equal(contents["X"].load(), X)
    assert contents.kind == "matrix"
    assert contents["X"].load().flags.c_contiguous
    assert contents["X"].dtype == np.float64
    assert contents["labels"].dtype == np.int64
    assert contents["labels"].tolist() == CODES
    assert contents["label_names"] == NAMES


SPARSE: dict[str, Callable[[Path], Any]] = {
    "a.h5": lambda p: container(p, X=sparse.csr_array(S)),
    "a.h5ad": lambda p: h5ad(p, sparse.csr_array(S)),
    "csc.h5ad": lambda p: h5ad(p, sparse.csc_array(S)),
    "a.mat": lambda p: scipy.io.savemat(p, {"fea": sparse.csc_array(S)}),
    "a.mat::bag": lambda p: mat73(p.with_name("a.mat"), labels=False),
    "csr.npz": lambda p: sparse.save_npz(p, sparse.csr_array(S)),
    "csc.npz": lambda p: sparse.save_npz(p, sparse.csc_matrix(S)),
    "coo.npz": lambda p: sparse.save_npz(p, sparse.coo_array(S)),
    "a.mtx": lambda p: scipy.io.mmwrite(p, sparse.coo_array(S), precision=17),
}


@pytest.mark.parametrize("transpose", [False, True])
@pytest.mark.parametrize("name", SPARSE)
def test_sparse_stays_sparse(name: str, transpose: bool, tmp_path: Path) -> None:
    SPARSE[name](tmp_path / name)
    matrix = load(f"{tmp_path}/{name}", transpose=transpose).contents["X"].load()
    assert isinstance(matrix, sparse.csr_array)
    assert matrix.has_canonical_format
    assert matrix.dtype == np.float64
    np.testing.assert_array_equal(matrix.toarray(), S.T if transpose else S)


@pytest.mark.parametrize(
    ("stored", "loaded"),
    [("f4", "f4"), (">f4", "f4"), ("f2", "f8"), ("u1", "f8"), (">i8", "f8"), ("?", "f8"), ("g", "f8")],
)
@pytest.mark.parametrize("keep", [np.asarray, sparse.csr_array])
def test_float32_stays_and_everything_else_becomes_float64(
    stored: str, loaded: str, keep: Callable[[Any], Any], tmp_path: Path
) -> None:
    values = np.eye(4, dtype=stored)
    path = tmp_path / "a.npz"
    if keep is np.asarray:
        np.savez(path, X=values)
    else:
        eye = sparse.csr_array(np.eye(4))
        parts = {"data": np.ones(4, stored), "indices": eye.indices, "indptr": eye.indptr}
        np.savez(path, format=b"csr", shape=(4, 4), **parts)
    matrix = load(str(path)).contents["X"].load()
    assert matrix.dtype == np.dtype(loaded)
    assert matrix.dtype.isnative
    np.testing.assert_array_equal(keep(matrix).sum(axis=0), np.ones(4))


def test_npy_is_read(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.asfortranarray(X))
    np.testing.assert_array_equal(load(str(tmp_path / "a.npy")).contents["X"].load(), X)


@pytest.mark.parametrize("suffix", [".mtx", ".mtx.gz"])
@pytest.mark.parametrize(
    "matrix",
    [X, X[:4] + X[:4].T, sparse.coo_array(S[:4] + S[:4].T), sparse.coo_array(S.astype(int) + np.eye(N, D, dtype=int))],
    ids=["dense", "dense-symmetric", "symmetric", "integer"],
)  # fmt: skip
def test_mtx_is_read_as_scipy_reads_it(matrix: Any, suffix: str, tmp_path: Path) -> None:
    buffer = io.BytesIO()
    scipy.io.mmwrite(buffer, matrix, comment="made\nby hand", precision=17)
    path = tmp_path / f"a{suffix}"
    path.write_bytes(gzip.compress(buffer.getvalue()) if suffix == ".mtx.gz" else buffer.getvalue())
    loaded = load(str(path)).contents["X"].load()
    assert sparse.issparse(loaded) == sparse.issparse(matrix)
    dense = [m.toarray() if sparse.issparse(m) else m for m in (loaded, matrix)]
    np.testing.assert_array_equal(dense[0], dense[1])


def test_mtx_pattern_means_ones(tmp_path: Path) -> None:
    path = write(tmp_path / "a.mtx", "%%MatrixMarket matrix coordinate pattern general\n2 3 2\n1 1\n2 3\n")
    assert load(str(path)).contents["X"].load().toarray().tolist() == [[1, 0, 0], [0, 0, 1]]


def test_duplicates_are_summed(tmp_path: Path) -> None:
    path = write(tmp_path / "a.mtx", "%%MatrixMarket matrix coordinate real general\n2 2 2\n1 1 2\n1 1 3\n")
    assert load(str(path)).contents["X"].load().toarray().tolist() == [[5, 0], [0, 0]]


# Names, labels, orientation


def test_names_come_along(tmp_path: Path) -> None:
    for path in (h5ad(tmp_path / "a.h5ad"), write(tmp_path / "a.csv", table(labels=False))):
        contents = load(str(path)).contents
        assert contents["sample_names"] == SAMPLES
        assert contents["feature_names"] == FEATURES
        assert "labels" not in contents


def test_transpose_swaps_names(tmp_path: Path) -> None:
    for path in (h5ad(tmp_path / "a.h5ad"), write(tmp_path / "a.csv", table(labels=False))):
        contents = load(str(path), transpose=True).contents
        np.testing.assert_array_equal(contents["X"].load(), X.T)
        assert contents["X"].load().flags.c_contiguous
        assert contents["sample_names"] == FEATURES
        assert contents["feature_names"] == SAMPLES


def test_labels_belong_to_samples_also_when_samples_are_columns(tmp_path: Path) -> None:
    path = hdf5(tmp_path / "a.h5", X=X.T, Y=Y)
    assert load(str(path), transpose=True).contents["labels"].tolist() == CODES
    message = refused(path)
    assert "labels: 6 for 4 samples" in message
    assert "--transpose" in message


@pytest.mark.parametrize(
    ("key", "names"),
    [("type", ["a", "b"]), ("old", ["a", "b"]), ("text", ["t10", "t2", "t9"]), ("number", NAMES)],
)
def test_h5ad_columns_become_labels(key: str, names: list[str], tmp_path: Path) -> None:
    path = h5ad(tmp_path / "a.h5ad")
    assert load(str(path), label_key=key).contents["label_names"] == names
    assert sorted(set(load_labels(f"{path}::obs/{key}").labels)) == sorted(names)


@pytest.mark.parametrize(("key", "sample"), [("gap", 2), ("holes", 3)])
def test_missing_labels_are_named(key: str, sample: int, tmp_path: Path) -> None:
    assert f"1 samples, first sample {sample}" in refused(h5ad(tmp_path / "a.h5ad"), label_key=key)


def test_h5ad_layers_keep_the_names_and_embeddings_only_those_of_samples(tmp_path: Path) -> None:
    path = h5ad(tmp_path / "a.h5ad")
    layer = load(f"{path}::layers/counts").contents
    assert layer["X"].dtype == np.float32
    assert layer["feature_names"] == FEATURES
    embedding = load(f"{path}::obsm/pca").contents
    assert embedding["sample_names"] == SAMPLES
    assert "feature_names" not in embedding


@pytest.mark.parametrize(
    ("table", "features", "labels"),
    [
        ("a,b,label\n1,2,0\n3,4,1\n", ["a", "b"], ["0", "1"]),
        ("Labels,a,b\nx,1,2\ny,3,4\n", ["a", "b"], ["x", "y"]),
        (",label,a,b\ns1,x,1,2\ns2,y,3,4\n", ["a", "b"], ["x", "y"]),
        ("a,label,b\n1,2,3\n4,5,6\n", ["a", "label", "b"], None),  # a word, perhaps
        ("label,a,labels\n1,2,3\n4,5,6\n", ["label", "a", "labels"], None),
    ],
)
def test_a_first_or_last_column_called_label_holds_the_labels(table, features, labels, tmp_path: Path) -> None:
    contents = load(str(write(tmp_path / "a.csv", table))).contents
    assert contents["feature_names"] == features
    assert contents.labels_as_text() == labels


def test_unknown_label_key_lists_what_there_is(tmp_path: Path) -> None:
    assert "no column 'sort' in obs; obs has" in refused(h5ad(tmp_path / "a.h5ad"), label_key="sort")
    assert "it has id, f0, f1, f2, f3, kind" in refused(write(tmp_path / "a.csv", table()), label_key="sort")
    assert "nothing called 'sort'" in refused(hdf5(tmp_path / "a.h5", X=X), label_key="sort")
    assert "number, from 1" in refused(write(tmp_path / "b.csv", "1,2\n"), label_key="sort")


def test_labels_of_the_wrong_length_are_refused(tmp_path: Path) -> None:
    assert "labels: 5 for 6 samples" in refused(hdf5(tmp_path / "a.h5", X=X, gnd=Y[:5]))


def test_labels_of_another_matrix_are_left_alone(tmp_path: Path) -> None:
    path = hdf5(tmp_path / "a.h5", train=X, test=X[:3], y=Y)
    assert "labels" in load(f"{path}::train").contents
    assert "labels" not in load(f"{path}::test").contents


@pytest.mark.parametrize("value", [1.5, np.nan, np.inf])
def test_labels_must_be_whole_or_text(value: float, tmp_path: Path) -> None:
    path = hdf5(tmp_path / "a.h5", X=X, Y=np.array([1.0, 2, value, 1, 2, 1]))
    assert f"labels: {value:g} of sample 2" in refused(path, label_key="Y")
    loaded = load(str(path))  # nobody asked for them
    assert "labels" not in loaded.contents
    assert loaded.notes == (f"{path}: labels: {value:g} of sample 2 is not a label, so labels are left out",)


def test_a_second_matrix_called_y_is_not_labels(tmp_path: Path) -> None:
    assert "labels" not in load(str(hdf5(tmp_path / "a.h5", X=X, Y=X))).contents


def test_container_labels_without_names_get_them(tmp_path: Path) -> None:
    contents = load(str(container(tmp_path / "a.h5", X=X, labels=Y))).contents
    assert contents["label_names"] == NAMES


# Tables


@pytest.mark.parametrize(
    ("text", "rows", "samples", "features"),
    [
        ("1,2\n3,4\n", 2, None, None),
        ("a,b\n1,2\n", 1, None, ["a", "b"]),
        ("r1,1,2\nr2,3,4\n", 2, ["r1", "r2"], None),
        ("r1,1,2\n", 1, ["r1"], None),
        ("id,a,b\nr1,1,2\n", 1, ["r1"], ["a", "b"]),
        ("a,b\nr1,1,2\n", 1, ["r1"], ["a", "b"]),  # R
        (",a,b\n0,1,2\n1,3,4\n", 2, ["0", "1"], ["a", "b"]),  # pandas
        (",0,1\n0,1,2\n1,3,4\n", 2, ["0", "1"], ["0", "1"]),  # pandas without names
        (",400,410\nr1,1,2\n", 1, ["r1"], ["400", "410"]),
        ("id,1,2\n7,1,2\n", 1, ["7"], ["1", "2"]),
        ("a\n1\n2\n", 2, None, ["a"]),
        ('"a, b",c\n"1",2\n', 1, None, ["a, b", "c"]),
        ("# of x,c\n1,2\n", 1, None, ["# of x", "c"]),
        ("\n1, 2\n\n3 ,4", 2, None, None),
        ("1e3,+2.5,.5\n", 1, None, None),
    ],
)
def test_header_and_names_are_told_from_numbers(
    text: str, rows: int, samples: list[str] | None, features: list[str] | None, tmp_path: Path
) -> None:
    contents = load(str(write(tmp_path / "a.csv", text))).contents
    assert contents["X"].shape[0] == rows
    assert contents.datasets.get("sample_names") == samples
    assert contents.datasets.get("feature_names") == features


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("a,s\n1,x\n", "line 2, column 2 ('s'): 'x' is not a number; remove the column, or give --label-key s"),
        ("a,B c\nx,the text of an article\n", "is not a number; for texts, give --text-field 'B c' to mccgr run"),
        ("a,b\nr1,1,2\nr2,3,x\n", "line 3, column 3 ('b'): 'x' is not a number"),
        ("1,2,x\n3,4,y\n", "line 1, column 3: 'x' is not a number; remove the column, or give --label-key 3"),
        ("a,b\n1,2\n3,oops\n", "line 3, column 2 ('b'): 'oops' is not a number"),
        ("1,2\n3\n", "line 2: 1 field where the first line has 2"),
        ("a,b\n1,2\n3,4,5\n", "line 3: 3 fields where the first line has 2"),
        ("a,b,c\n1,2\n3,4\n", "line 2: 2 fields where the first line has 3"),
        ("r,1,2\ns,3,4,5\n", "line 2: 4 fields where the first line has 3"),
        ("1,2\n\n3,\n", "line 3, column 2: no value ('')"),
        (",2\n3,4\n", "line 1, column 1: no value ('')"),
        ("a,b\n1,NA\n", "line 2, column 2 ('b'): no value ('NA')"),
        ("a,b\n", "empty matrix (0 x 2)"),
        ("\n\n", "empty file"),
        ("a,b\n1,nan\n", "1 value is NaN, first at row 0, column 1"),
    ],
)  # fmt: skip
def test_fault_in_a_table_is_named_with_its_line(text: str, place: str, tmp_path: Path) -> None:
    assert place in refused(write(tmp_path / "a.csv", text))


def test_label_column_may_not_have_gaps(tmp_path: Path) -> None:
    path = write(tmp_path / "a.csv", "a,sort\n1,x\n2,\n")
    assert "sample 1 has no label" in refused(path, label_key="sort")


def test_label_column_may_come_first_and_hold_text(tmp_path: Path) -> None:
    contents = load(str(write(tmp_path / "a.csv", "sort,a,b\nx,1,2\ny,3,4\n")), label_key="sort").contents
    assert contents["label_names"] == ["x", "y"]
    assert contents["feature_names"] == ["a", "b"]
    assert "sample_names" not in contents


# Values

FAULTS = [
    ({(2, 1): -0.5, (4, 0): -1, (5, 3): -2}, "3 negative values, first at row 2, column 1 (-0.5); NMF needs X >= 0"),
    ({(3, 0): np.nan, (4, 2): np.nan}, "2 values are NaN, first at row 3, column 0; remove or impute them"),
    ({(3, 1): np.nan, (0, 0): -1}, "1 value is NaN, first at row 3, column 1"),
    ({(5, 2): np.inf}, "1 value is infinite, first at row 5, column 2"),
    ({(5, 2): -np.inf, (5, 3): 0}, "1 value is infinite, first at row 5, column 2"),
]


@pytest.mark.parametrize(("faults", "what"), FAULTS)
@pytest.mark.parametrize("layout", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("block_rows", [1, 4, 100])
def test_unusable_values_are_counted_and_placed(
    faults: dict[tuple[int, int], float],
    what: str,
    layout: Callable[[Any], Any],
    block_rows: int,
) -> None:
    matrix = X.copy()
    for place, value in faults.items():
        matrix[place] = value
    assert refusal(lambda: check_values(MemoryBlocks(layout(matrix), block_rows), "X.h5")).startswith(f"X.h5: {what}")


@pytest.mark.parametrize("layout", [np.asarray, sparse.csr_array])
def test_empty_and_zero_matrices_are_refused(layout: Callable[[Any], Any]) -> None:
    for shape in ((0, 5), (5, 0)):
        what = f"empty matrix ({shape[0]} x {shape[1]})"
        assert what in refusal(lambda shape=shape: check_values(MemoryBlocks(layout(np.zeros(shape))), "X"))
    assert "all values are zero" in refusal(lambda: check_values(MemoryBlocks(layout(np.zeros((2, 3)))), "X"))
    assert check_values(MemoryBlocks(layout(X)), "X") == X.max()


def test_values_are_checked_whatever_the_format(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", -X)
    assert "24 negative values" in refused(tmp_path / "a.npy")
    assert "24 negative values" in refused(container(tmp_path / "a.h5", X=-X))
    assert "24 negative values" in refused(h5ad(tmp_path / "a.h5ad", sparse.csr_array(-X)))


@pytest.mark.parametrize(
    ("values", "what"),
    [
        (X * 1j, "complex numbers"),
        (np.array([["a", "b"]]), "text"),
        (X[0], "1 dimension "),
        (X[None], "3 dimensions"),
        (np.array(1.0), "0 dimensions"),
        (np.zeros((2, 2), "M8[s]"), "datetime64"),
    ],
)
def test_only_real_matrices_pass(values: Any, what: str, tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", values)
    assert what in refused(tmp_path / "a.npy")


# Sources


def test_loaded_knows_its_name_and_hash(tmp_path: Path) -> None:
    path = hdf5(tmp_path / "a.h5", M=X, other=S)
    loaded = load(f"{path}::M")
    assert loaded.name == f"{path}::M"
    assert loaded.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()


def test_a_file_really_called_so_wins(tmp_path: Path) -> None:
    write(tmp_path / "a.csv::b.csv", "1,2\n")
    assert load(f"{tmp_path}/a.csv::b.csv").contents["X"].load().tolist() == [[1, 2]]


def give_stdin(monkeypatch: pytest.MonkeyPatch, content: bytes) -> None:
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(content)))


def test_standard_input_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    content = encode(Contents("matrix", {"X": X, "labels": Y}))
    give_stdin(monkeypatch, content)
    loaded = load("-")
    assert loaded.name == "standard input"
    assert loaded.sha256 == hashlib.sha256(content).hexdigest()
    np.testing.assert_array_equal(loaded.contents["X"].load(), X)
    give_stdin(monkeypatch, content)
    assert load("-::X").contents["label_names"] == NAMES
    give_stdin(monkeypatch, content)
    assert load_labels("-").labels == [str(y) for y in Y]


@pytest.mark.parametrize(
    ("content", "what"),
    [
        (b"", "nothing arrived; did the command before the pipe fail, or write to -o FILE?"),
        (b"1,2\n", "not HDF5"),
        (encode(Contents("matrix", {"X": X}))[:1000], "damaged or truncated HDF5 file"),
    ],
)
def test_bad_standard_input_is_refused(content: bytes, what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    give_stdin(monkeypatch, content)
    assert refusal(lambda: load("-")).startswith(f"standard input: {what}")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_a_named_pipe_is_read_as_standard_input_is(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    content = encode(Contents("matrix", {"X": X}))
    writer = threading.Thread(target=(tmp_path / "pipe").write_bytes, args=(content,))
    writer.start()
    loaded = load(str(tmp_path / "pipe"))
    writer.join()
    np.testing.assert_array_equal(loaded.contents["X"].load(), X)


def test_files_that_cannot_be_opened_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "no such file" in refused(tmp_path / "none.h5")
    assert "no such file" in refused(f"{tmp_path / 'none.h5'}::X")
    assert "is a folder" in refused(tmp_path)
    assert "cannot be read" in refused(tmp_path / ("long" * 100))
    assert "no file name" in refusal(lambda: load(""))
    path = write(tmp_path / "a.csv", "1,2\n")

    def deny(*arguments: Any, **options: Any) -> Any:
        raise PermissionError

    monkeypatch.setattr(Path, "open", deny)
    assert "permission denied" in refused(path)


@pytest.mark.parametrize("suffix", [".h5", ".hdf5", ".h5ad"])
def test_a_name_does_not_make_hdf5(suffix: str, tmp_path: Path) -> None:
    assert "not an HDF5 file" in refused(write(tmp_path / f"a{suffix}", "1,2\n"))


@pytest.mark.parametrize("name", ["a.xlsx", "a"])
def test_unknown_formats_are_told_the_known_ones(name: str, tmp_path: Path) -> None:
    assert ".h5ad, .mat, .npy, .npz, .mtx, .mtx.gz, .csv, .tsv" in refused(write(tmp_path / name, "1,2\n"))


def test_several_or_no_matrices_must_be_named(tmp_path: Path) -> None:
    assert "several matrices (A, B); name one" in refused(hdf5(tmp_path / "a.h5", A=X, B=X))
    assert "no matrix of numbers in it (X, fea or any other), only a" in refused(hdf5(tmp_path / "b.h5", a=Y))
    assert "nothing called 'C' in it; it has A, B" in refused(f"{tmp_path / 'a.h5'}::C")


# Kinds

FACTORS = {
    "W": X[:, :2],
    "H": X[:2],
    "rho": np.ones(D),
    **{f"history/{name}": np.ones(3) for name in HISTORY},
}


def test_other_kinds_come_as_they_are(tmp_path: Path) -> None:
    path = container(tmp_path / "f.h5", "factors", **FACTORS)
    assert load(str(path), kinds=("matrix", "factors")).contents.kind == "factors"
    assert "leave out --transpose" in refused(path, kinds=("factors",), transpose=True)


@pytest.mark.parametrize(
    ("kind", "maker"),
    [("graph", "mccgr graph"), ("factors", "mccgr factorize"), ("clusters", "mccgr cluster")],
)
def test_the_wrong_kind_is_refused_with_the_stage_that_makes_the_right_one(
    kind: str, maker: str, tmp_path: Path
) -> None:
    for path in (container(tmp_path / "a.h5", X=X), write(tmp_path / "a.csv", "1,2\n")):
        message = refused(path, kinds=(kind,))
        assert "holds a matrix where" in message
        assert kind in message
        assert maker in message
    message = refused(container(tmp_path / "f.h5", "factors", **FACTORS))
    assert "holds factors where a matrix should be; such a file comes from mccgr extract or your own data" in message


def test_a_dataset_of_a_file_of_ours_can_be_named(tmp_path: Path) -> None:
    path = container(tmp_path / "f.h5", "factors", **FACTORS, labels=Y)
    assert load(f"{path}::W").contents["labels"].tolist() == CODES
    assert "labels" not in load(f"{path}::H").contents


# Lists of labels

WORDS = [f"t{y}" for y in Y]
LABELS: dict[str, tuple[Callable[[Path], Any], list[str]]] = {
    "a.txt": (lambda p: write(p / "a.txt", "10\n9.0\n10\n9\n2\n2\n\n"), [str(y) for y in Y]),
    "a": (lambda p: write(p / "a", "\n".join(WORDS)), WORDS),
    "a.csv": (lambda p: write(p / "a.csv", "\n".join(WORDS)), WORDS),
    "b.csv": (lambda p: write(p / "b.csv", "sort\n10\n9\n10\n9\n2\n2\n"), [str(y) for y in Y]),
    "c.csv::kind": (lambda p: write(p / "c.csv", table()), [str(y) for y in Y]),
    "d.csv::6": (lambda p: write(p / "d.csv", table(header=False)), [str(y) for y in Y]),
    "a.npy": (lambda p: np.save(p / "a.npy", Y.astype(float)), [str(y) for y in Y]),
    "b.npy": (lambda p: np.save(p / "b.npy", np.array(WORDS)), WORDS),
    "a.npz": (lambda p: savez(p / "a.npz", X=X, y=Y), [str(y) for y in Y]),
    "a.npz::w": (lambda p: savez(p / "a.npz", X=X, y=Y, w=np.array(WORDS, "S")), WORDS),
    "a.mat": (lambda p: scipy.io.savemat(p / "a.mat", {"fea": X, "gnd": Y}), [str(y) for y in Y]),
    "a.mat::w": (lambda p: scipy.io.savemat(p / "a.mat", {"w": np.array(WORDS, object)}), WORDS),
    "b.mat::w": (lambda p: scipy.io.savemat(p / "b.mat", {"w": np.array(["t10", "t9 "])}), ["t10", "t9"]),
    "c.mat": (lambda p: mat73(p / "c.mat"), [str(y) for y in Y]),
    "c.mat::cells": (lambda p: mat73(p / "c.mat"), WORDS),
    "c.mat::letters": (lambda p: mat73(p / "c.mat"), ["aa", "bb", "bb", "aa", "", ""]),
    "a.h5": (lambda p: hdf5(p / "a.h5", labels=WORDS), WORDS),
    "b.h5": (lambda p: container(p / "b.h5", X=X, labels=CODES, label_names=NAMES), [str(y) for y in Y]),
    "c.h5::deep/w": (lambda p: hdf5(p / "c.h5", **{"deep/w": WORDS}), WORDS),
    "d.h5": (lambda p: hdf5(p / "d.h5", Y=Y > 5), [str(y > 5) for y in Y]),
}


@pytest.mark.parametrize("name", LABELS)
def test_labels_are_read_as_text(name: str, tmp_path: Path) -> None:
    make, expected = LABELS[name]
    make(tmp_path)
    assert load_labels(f"{tmp_path}/{name}").labels == expected


@pytest.mark.parametrize(
    ("text", "inner", "names", "labels"),
    [
        ("sample,label\ns1,a\ns2,b\n", None, ["s1", "s2"], ["a", "b"]),
        ("sample,x,kind\ns1,1,a\ns2,2,b\n", "kind", ["s1", "s2"], ["a", "b"]),
        ("x,kind\n1,a\n2,b\n", "kind", None, ["a", "b"]),
        ("a\nb\n", None, None, ["a", "b"]),
        ("s1,a\ns2,b\n", None, ["s1", "s2"], ["a", "b"]),  # no header: there is a sample s1
        ("s1,a\ns2,b\n", "2", ["s1", "s2"], ["a", "b"]),
        ("cell,kind\ns1,a\ns2,b\n", None, ["s1", "s2"], ["a", "b"]),
        ("id,kind\n7,a\n8,b\n", None, ["7", "8"], ["a", "b"]),
        ("sample,cluster,label,certainty\ns1,0,a,1\ns2,1,b,1\n", None, ["s1", "s2"], ["a", "b"]),
        (",kind\n0,a\n1,b\n", None, ["0", "1"], ["a", "b"]),
    ],
)
def test_a_table_of_labels_may_name_the_samples(
    text: str, inner: str | None, names: list[str] | None, labels: list[str], tmp_path: Path
) -> None:
    path = write(tmp_path / "a.csv", text)
    assert load_labels(f"{path}::{inner}" if inner else str(path), ["s1"])[:2] == (names, labels)


NO_LABELS: dict[str, tuple[Callable[[Path], Any], str]] = {
    "a.txt": (lambda p: write(p / "a.txt", "a\n\nb\n"), "line 2 has no label"),
    "b.txt": (lambda p: write(p / "b.txt", "\n"), "empty file"),
    "a.csv": (lambda p: write(p / "a.csv", table()), "name one with FILE::COLUMN: id, f0"),
    "a.csv::sort": (lambda p: write(p / "a.csv", table()), "no column 'sort'"),
    "b.csv::b": (lambda p: write(p / "b.csv", "a,b\n1,2\n1\n"), "line 3: 1 field"),
    "a.mtx": (lambda p: scipy.io.mmwrite(p / "a.mtx", X), "holds no labels"),
    "a.h5": (lambda p: container(p / "a.h5", X=X), "no labels in it"),
    "b.h5": (lambda p: hdf5(p / "b.h5", X=X), "no labels called Y, gnd, labels"),
    "c.h5::g": (lambda p: hdf5(p / "c.h5", **{"g/x": X}), "holds no labels that can be read"),
    "a.h5ad": (lambda p: h5ad(p / "a.h5ad"), "FILE::obs/COLUMN; obs has gap, holes"),
    "a.h5ad::obs/sort": (lambda p: h5ad(p / "a.h5ad"), "no column 'sort' in obs"),
    "a.npy": (lambda p: np.save(p / "a.npy", X), "labels: an array of shape (6, 4)"),
}


@pytest.mark.parametrize("name", NO_LABELS)
def test_labels_that_are_not_there_are_refused(name: str, tmp_path: Path) -> None:
    make, what = NO_LABELS[name]
    make(tmp_path)
    message = refusal(lambda: load_labels(f"{tmp_path}/{name}"))
    assert message.startswith(f"{tmp_path}/{name}")
    assert what in message


# Hostile and broken files


class Bomb:
    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, ("exploded",)


def test_nothing_is_unpickled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    bomb = np.array([[Bomb()]], dtype=object)
    np.save("a.npy", bomb)
    np.savez("a.npz", X=bomb)
    Path("b.npy").write_bytes(pickle.dumps(Bomb()))
    for name, what in (("a.npy", "Python objects"), ("a.npz", "Python objects"), ("b.npy", "not a readable .npy")):
        assert what in refused(name)
    assert not Path("exploded").exists()


def test_cells_and_text_are_not_called_damage(tmp_path: Path) -> None:
    scipy.io.savemat(tmp_path / "a.mat", {"X": np.array([[1.5, "x"], [2, 3]], object)})
    assert "holds cells or objects; store numbers: in MATLAB cell2mat(X)" in refused(tmp_path / "a.mat")
    assert "/X holds text where real numbers belong" in refused(hdf5(tmp_path / "a.h5", X=[["a", "b"]]))


@pytest.mark.parametrize("kind", ["external link", "soft link through an external link", "virtual", "external storage"])
def test_no_other_file_is_opened(kind: str, tmp_path: Path) -> None:
    hdf5(tmp_path / "secret.h5", X=X)
    (tmp_path / "secret.bin").write_bytes(X.tobytes())
    with h5py.File(tmp_path / "a.h5", "w") as file:
        if kind == "external link":
            file["X"] = h5py.ExternalLink("secret.h5", "X")
        elif kind == "soft link through an external link":
            file["outside"] = h5py.ExternalLink("secret.h5", "/")
            file["X"] = h5py.SoftLink("/outside/X")
        elif kind == "virtual":
            layout = h5py.VirtualLayout((N, D), float)
            layout[:] = h5py.VirtualSource(str(tmp_path / "secret.h5"), "X", (N, D))
            file.create_virtual_dataset("X", layout)
        else:
            place = [(str(tmp_path / "secret.bin"), 0, X.nbytes)]
            file.create_dataset("X", (N, D), float, external=place)
    assert "copy the data into this one" in refused(tmp_path / "a.h5")


def test_links_that_lead_nowhere_are_refused(tmp_path: Path) -> None:
    path = hdf5(tmp_path / "a.h5", X=h5py.SoftLink("/X"), M=h5py.SoftLink("/none"))
    assert "nothing called 'X'" in refused(path)
    assert "nothing called 'M'" in refused(f"{path}::M")


@pytest.mark.parametrize("part", ["data", "indices", "indptr"])
def test_damaged_sparse_matrices_are_refused(part: str, tmp_path: Path) -> None:
    matrix = sparse.csr_array(S)
    parts = {name: getattr(matrix, name).copy() for name in ("data", "indices", "indptr")}
    parts[part] = np.append(parts[part], 99).astype(parts[part].dtype)
    np.savez(tmp_path / "a.npz", format=b"csr", shape=S.shape, **parts)
    assert "indices do not fit" in refused(tmp_path / "a.npz")
    with h5py.File(tmp_path / "a.mat", "w") as file:
        file.create_group("X").attrs["MATLAB_sparse"] = D
        for name, stored in (("data", "data"), ("indices", "ir"), ("indptr", "jc")):
            file[f"X/{stored}"] = parts[name]
    assert "indices do not fit" in refused(tmp_path / "a.mat")


def test_a_missing_compression_is_not_called_damage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("X", data=X, compression="gzip")
    monkeypatch.setattr(h5py.h5z, "filter_avail", lambda code: False)
    assert "/X is compressed by deflate" in refused(tmp_path / "a.h5")


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("1 2 3\n", "not a Matrix Market header"),
        ("%%MatrixMarket matrix coordinate real general\n", "no line with its size"),
        ("%%MatrixMarket matrix coordinate real general\n2 2 2\n1 1 1\n", "1 entries where its header says 2"),
        ("%%MatrixMarket matrix coordinate real general\n2 2 1\n1 3 1\n", "an index outside its size"),
        ("%%MatrixMarket matrix coordinate real general\n2 2 1\n1 1 1E", "'1E'"),
        ("%%MatrixMarket matrix coordinate complex general\n2 2 1\n1 1 1 1\n", "complex"),
        ("%%MatrixMarket matrix array real general\n2 2\n1\n1\n1\n", "3 values instead of 4"),
    ],
)
def test_damaged_mtx_is_refused(text: str, what: str, tmp_path: Path) -> None:
    assert what in refused(write(tmp_path / "a.mtx", text))


def test_text_that_is_neither_utf8_nor_of_windows_is_refused(tmp_path: Path) -> None:
    for text in (b"gr\x81\xdfe\n1\n", b"1,2\n" * 9999 + b"gr\x81\xdfe\n", b"\xef\xbb\xbfgr\x81\n1\n"):
        (tmp_path / "a.csv").write_bytes(text)
        assert "not UTF-8 text (byte 0x81)" in refused(tmp_path / "a.csv")


WHOLE: dict[str, Callable[[Path], Any]] = {
    "a.h5": lambda p: hdf5(p, X=X, Y=Y),
    "a.h5ad": h5ad,
    "b.mat": mat73,
    "a.mat": lambda p: scipy.io.savemat(p, {"fea": X, "gnd": Y}),
    "c.mat": lambda p: scipy.io.savemat(p, {"fea": sparse.csc_array(S)}, do_compression=True),
    "a.npy": lambda p: np.save(p, X),
    "a.npz": lambda p: savez(p, X=X),
    "a.mtx": lambda p: scipy.io.mmwrite(p, X),
    "a.csv.gz": lambda p: gzipped(p, table(labels=False)),
    "a.mtx.gz": lambda p: gzipped(p, "%%MatrixMarket matrix array real general\n1 1\n1\n"),
}


@pytest.mark.parametrize("name", WHOLE)
def test_a_file_cut_short_is_refused(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    WHOLE[name](path)
    content = path.read_bytes()
    load(str(path))
    for length in np.linspace(0, len(content) - 9, 25, dtype=int):
        path.write_bytes(content[:length])
        refused(path)


@pytest.mark.parametrize("suffix", ["h5", "h5ad", "mat", "npy", "npz", "mtx", "mtx.gz", "csv", "tsv", "csv.gz"])
def test_random_bytes_are_refused(suffix: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    for length in (1, 8, 100, 3000):
        (tmp_path / f"a.{suffix}").write_bytes(b"\xff" + rng.bytes(length))
        refused(tmp_path / f"a.{suffix}")


# Names and labels beside a matrix


def cells_of(values: list[str]) -> Any:
    return np.array(values, object)


BESIDE: dict[str, Callable[[Path], Any]] = {
    "npz": lambda p: savez(p / "a.npz", data=X, genes=FEATURES, barcodes=np.array(SAMPLES, "S"), y=WORDS),
    "npz, names of ours": lambda p: savez(p / "a.npz", X=X, sample_names=SAMPLES, feature_names=FEATURES, Y=WORDS),
    "npz, codes": lambda p: savez(
        p / "a.npz", X=X, samples=SAMPLES, columns=FEATURES, target=CODES, target_names=CLASSES
    ),
    "npz, sparse": lambda p: savez(
        p / "a.npz", **parts_of(sparse.csr_array(X)), names=SAMPLES, words=FEATURES, label=WORDS
    ),
    "mat": lambda p: scipy.io.savemat(
        p / "a.mat", {"X": X, "names": SAMPLES, "genes": cells_of(FEATURES), "gnd": cells_of(WORDS)}
    ),
    "mat, codes": lambda p: scipy.io.savemat(
        p / "a.mat",
        {"fea": X, "Cells": cells_of(SAMPLES), "words": FEATURES, "gnd": np.array(CODES) + 1}
        | {"label_names": cells_of(CLASSES)},
    ),
    "hdf5": lambda p: hdf5(p / "a.h5", X=X, obs_names=SAMPLES, var_names=FEATURES, labels=WORDS),
}
CLASSES = [f"t{name}" for name in NAMES]


def parts_of(matrix: Any) -> dict[str, Any]:
    parts = {name: getattr(matrix, name) for name in ("data", "indices", "indptr", "shape")}
    return {**parts, "format": matrix.format.encode()}


@pytest.mark.parametrize("name", BESIDE)
def test_names_and_labels_with_usual_names_are_read(name: str, tmp_path: Path) -> None:
    BESIDE[name](tmp_path)
    (path,) = tmp_path.iterdir()
    loaded = load(str(path))
    assert loaded.contents["sample_names"] == SAMPLES
    assert loaded.contents["feature_names"] == FEATURES
    assert loaded.contents.labels_as_text() == WORDS
    assert loaded.notes == ()


def test_names_belong_to_samples_and_features_also_when_samples_are_columns(tmp_path: Path) -> None:
    path = savez(tmp_path / "a.npz", X=X.T, samples=SAMPLES, genes=FEATURES, y=WORDS)
    contents = load(str(path), transpose=True).contents
    assert (contents["sample_names"], contents["feature_names"]) == (SAMPLES, FEATURES)
    assert contents.labels_as_text() == WORDS


def test_what_cannot_be_names_or_labels_is_left_out(tmp_path: Path) -> None:
    path = savez(tmp_path / "a.npz", X=X, names=SAMPLES[:3], genes=np.arange(D), classes=["a", "b"])
    loaded = load(str(path))
    assert set(loaded.contents.datasets) == {"X"}
    assert loaded.notes == ()
    loaded = load(str(savez(tmp_path / "a.npz", X=X, genes=cells_of(FEATURES), y=cells_of(WORDS))))
    assert set(loaded.contents.datasets) == {"X"}
    assert [note.partition(", so ")[2] for note in loaded.notes] == ["y is left out", "genes is left out"]
    assert "Python objects" in loaded.notes[0]
    assert "Python objects" in refused(path, label_key="y")


def test_all_usual_names_are_documented() -> None:
    page = (Path(__file__).parent.parent / "docs" / "INPUT.md").read_text()
    usual = (*LABEL_NAMES, *MORE_LABEL_NAMES, *CLASS_NAMES, *(name for names in ITEM_NAMES.values() for name in names))
    assert [name for name in usual if f"`{name}`" not in page] == []
