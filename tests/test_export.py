"""What is exported is read by those it is for, with the same values to the bit."""

from __future__ import annotations

import csv
import io
import json
import zipfile
from pathlib import Path
from typing import Any

import anndata
import numpy as np
import pytest
from conftest import planted
from scipy import sparse
from scipy.io import loadmat, mmread

from mccgr_cli.catalog import EXPORT_FORMATS, HISTORY
from mccgr_cli.files.atomic_write import write_files
from mccgr_cli.files.container import Contents, encode
from mccgr_cli.files.readers import load
from mccgr_cli.output.export import arrays, text

HOSTILE = ["a,b", 'c"d', "e\nf", "g\rh", "=1+1", "-i\tj", "Zoë 😀", "", " k ", "@l", "+m", "1.5"]


def stored(path: Path, kind: str, datasets: dict[str, Any], **attributes: Any) -> Path:
    write_files({path: encode(Contents(kind, datasets, attributes))}, overwrite=False)
    return path


def clusters(n: int = 12, d: int = 5, k: int = 3, dtype: Any = np.float64) -> dict[str, Any]:
    """Numbers with all their digits, the smallest and the largest among them."""
    rng = np.random.default_rng(0)
    W, H, rho = (rng.random(shape).astype(dtype) for shape in ((n, k), (k, d), d))
    W[0, 0], W[0, 1] = np.finfo(dtype).smallest_subnormal, np.finfo(dtype).max
    rho[0] = 0.001
    return {
        "assignments": rng.integers(0, k, n),
        "W": W,
        "H": H,
        "rho": rho,
        **{f"history/{name}": rng.random(4) for name in HISTORY},
        "labels": np.arange(n) % 2,
        "label_names": ["ant", "bee"],
        "sample_names": [HOSTILE[i % len(HOSTILE)] for i in range(n)],
        "feature_names": [f"f{j}" for j in range(d)],
    }


@pytest.fixture
def datasets() -> dict[str, Any]:
    return clusters()


@pytest.fixture
def file(tmp_path: Path, datasets: dict[str, Any]) -> Path:
    return stored(tmp_path / "c.h5", "clusters", datasets, k=3, method="mccgr", converged=True, radii=[4, 8])


def sparse_matrix(n: int = 12, d: int = 5) -> Any:
    rng = np.random.default_rng(1)
    return sparse.random_array((n, d), density=0.4, rng=rng, format="csr")


def ring(n: int) -> Any:
    A = sparse.csr_array(np.roll(np.eye(n), 1, axis=1) / 3)
    return A + A.T


def same(ours: Any, theirs: Any) -> bool:
    """To the bit, type included."""
    ours, theirs = np.asarray(ours), np.asarray(theirs)
    return ours.dtype == theirs.dtype and np.array_equal(ours, theirs, equal_nan=ours.dtype.kind == "f")


def rows_of(path: Path) -> list[list[str]]:
    with path.open(newline="", encoding="utf-8") as lines:
        return list(csv.reader(lines, delimiter="\t" if path.suffix == ".tsv" else ","))


# Tables


@pytest.mark.parametrize("suffix", ["csv", "tsv"])
def test_table_of_clusters_names_the_sample_its_cluster_and_its_label(mccgr, tmp_path, file, datasets, suffix):
    outcome = mccgr("export", file, "-o", tmp_path / f"out.{suffix}")
    assert outcome.status == 0
    header, *rows = rows_of(tmp_path / f"out.{suffix}")
    assert header == ["sample", "cluster", "label"]
    assert [row[0] for row in rows] == datasets["sample_names"]
    assert [int(row[1]) for row in rows] == datasets["assignments"].tolist()
    assert [row[2] for row in rows] == [datasets["label_names"][code] for code in datasets["labels"]]


def test_spreadsheet_formulas_among_the_names_are_told_of_and_left(mccgr, tmp_path, file):
    told = mccgr("export", file, "-o", tmp_path / "out.csv").stderr
    assert "4 sample names that spreadsheets take for formulas, first '=1+1'" in told


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("what", ["W", "H"])
def test_table_of_numbers_reads_back_to_the_bit(mccgr, tmp_path, what, dtype):
    given = clusters(dtype=dtype)
    path = stored(tmp_path / "c.h5", "clusters", given)
    assert mccgr("export", path, "--what", what, "-o", tmp_path / "out.csv").status == 0
    header, *rows = rows_of(tmp_path / "out.csv")
    read = np.array([[float(value) for value in row[1:]] for row in rows])
    assert same(read, given[what].astype(np.float64))
    assert same(read.astype(dtype), given[what])
    components, names = [f"component_{i}" for i in range(3)], given["sample_names"]
    assert header[1:] == (components if what == "W" else given["feature_names"])
    assert [row[0] for row in rows] == (names if what == "W" else components)


def test_our_own_reader_takes_a_table_with_its_names(mccgr, tmp_path):
    given = {"X": planted(n=12, d=6)[0], "sample_names": [name.strip() for name in HOSTILE]}
    given["feature_names"] = [f"{name}{j}".strip() for j, name in enumerate(HOSTILE[:6])]
    path = stored(tmp_path / "X.h5", "matrix", given)
    assert mccgr("export", path, "-o", tmp_path / "X.csv").status == 0
    read = load(str(tmp_path / "X.csv")).contents
    assert same(read["X"].load(), given["X"])
    assert (read["sample_names"], read["feature_names"]) == (given["sample_names"], given["feature_names"])


def test_our_own_reader_takes_a_table_without_names(mccgr, tmp_path):
    X = planted(n=6, d=3)[0]
    path = stored(tmp_path / "X.h5", "matrix", {"X": X})
    assert mccgr("export", path, "-o", tmp_path / "X.csv").status == 0
    assert same(load(str(tmp_path / "X.csv")).contents["X"].load(), X)


def test_what_has_no_names_is_numbered_from_0_or_has_none(mccgr, tmp_path, datasets):
    bare = {name: value for name, value in datasets.items() if not name.endswith("names") and name != "labels"}
    path = stored(tmp_path / "c.h5", "clusters", bare)
    for what in ("assignments", "rho", "W"):
        assert mccgr("export", path, "--what", what, "-o", tmp_path / f"{what}.csv").status == 0
    assert rows_of(tmp_path / "assignments.csv")[:2] == [["sample", "cluster"], ["0", str(bare["assignments"][0])]]
    assert rows_of(tmp_path / "rho.csv")[:2] == [["feature", "weight"], ["0", "0.001"]]
    assert rows_of(tmp_path / "W.csv")[1] == [repr(value) for value in bare["W"][0].tolist()]


def test_graph_as_a_table_is_its_edges_each_once(mccgr, tmp_path):
    path = stored(tmp_path / "g.h5", "graph", {"A": ring(4), "sample_names": ["a", "b", "c", "d"]})
    assert mccgr("export", path, "-o", tmp_path / "g.csv").status == 0
    third = repr(1 / 3)
    edges = [["a", "b", third], ["a", "d", third], ["b", "c", third], ["c", "d", third]]
    assert rows_of(tmp_path / "g.csv") == [["source", "target", "weight"], *edges]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_sparse_matrix_goes_through_matrix_market_to_the_bit(mccgr, tmp_path, dtype):
    X = sparse_matrix().astype(dtype)
    path = stored(tmp_path / "X.h5", "matrix", {"X": X})
    assert mccgr("export", path, "-o", tmp_path / "X.mtx").status == 0
    for read in (mmread(tmp_path / "X.mtx"), load(str(tmp_path / "X.mtx")).contents["X"].load()):
        assert same(read.toarray(), X.toarray().astype(np.float64))


# numpy and MATLAB


def test_npy_is_what_was_asked_for(mccgr, tmp_path, file, datasets):
    for what in ("assignments", "W", "H", "rho"):
        assert mccgr("export", file, "--what", what, "-o", tmp_path / f"{what}.npy").status == 0
        assert same(np.load(tmp_path / f"{what}.npy"), datasets[what])


def test_npz_holds_all_by_name(mccgr, tmp_path, file, datasets):
    assert mccgr("export", file, "-o", tmp_path / "out.npz").status == 0
    with np.load(tmp_path / "out.npz", allow_pickle=False) as read:
        assert set(read) == {*datasets, "parameters", "provenance"}
        for name, value in datasets.items():
            assert read[name].tolist() == value if isinstance(value, list) else same(read[name], value)
        assert json.loads(str(read["parameters"])) == {"k": 3, "method": "mccgr", "converged": True, "radii": [4, 8]}
        assert json.loads(str(read["provenance"]))["inputs"][0]["sha256"] == load(str(file), kinds=["clusters"]).sha256


@pytest.mark.parametrize("kind", ["matrix", "graph"])
def test_sparse_npz_is_loaded_by_scipy_and_by_us(mccgr, tmp_path, kind):
    name, given = ("X", sparse_matrix()) if kind == "matrix" else ("A", ring(5))
    path = stored(tmp_path / "in.h5", kind, {name: given})
    assert mccgr("export", path, "-o", tmp_path / "out.npz").status == 0
    for read in (sparse.load_npz(tmp_path / "out.npz"), load(str(tmp_path / "out.npz")).contents["X"].load()):
        assert same(read.toarray(), given.toarray())


def test_mat_is_read_by_scipy_and_counts_from_1(mccgr, tmp_path, file, datasets):
    assert mccgr("export", file, "-o", tmp_path / "out.mat").status == 0
    read = loadmat(tmp_path / "out.mat", chars_as_strings=True)
    for name in ("W", "H"):
        assert same(read[name], datasets[name])
    assert same(read["rho"].ravel(), datasets["rho"])
    assert same(read["assignments"], datasets["assignments"][:, None] + 1.0)
    assert same(read["gnd"], datasets["labels"][:, None] + 1.0)
    assert ["".join(cell) for cell in read["sample_names"].ravel()] == datasets["sample_names"]
    assert ["".join(cell) for cell in read["label_names"].ravel()] == ["ant", "bee"]
    assert same(read["history"]["sigma"][0, 0].ravel(), datasets["history/sigma"])
    parameters = read["parameters"][0, 0]
    assert (parameters["k"].item(), parameters["method"].item(), parameters["converged"].item()) == (3.0, "mccgr", 1)
    assert same(parameters["radii"].ravel(), [4.0, 8.0])
    assert json.loads(read["provenance"].item())["command"] == "export"


def test_mat_counts_past_what_the_numbers_of_the_file_hold(mccgr, tmp_path, datasets):
    assignments = np.arange(len(datasets["assignments"])).astype(np.int8)
    assignments[0] = 127
    path = stored(tmp_path / "C.h5", "clusters", {**datasets, "assignments": assignments})
    assert mccgr("export", path, "-o", tmp_path / "C.mat").status == 0
    assert loadmat(tmp_path / "C.mat")["assignments"].max() == 128


def test_mat_is_read_back_by_us(mccgr, tmp_path, X_file):
    assert mccgr("export", X_file, "-o", tmp_path / "out.mat").status == 0
    ours, back = load(str(X_file)).contents, load(str(tmp_path / "out.mat")).contents
    assert same(back["X"].load(), ours["X"].load())
    assert same(back["labels"], ours["labels"])
    named = load(str(tmp_path / "out.mat"), label_key="sample_names").contents
    assert [named["label_names"][code] for code in named["labels"]] == ours["sample_names"]


def test_mat_keeps_sparse_matrices_sparse(mccgr, tmp_path, file):
    X = sparse_matrix().astype(np.float32)
    stored(tmp_path / "X.h5", "matrix", {"X": X})
    stored(tmp_path / "g.h5", "graph", {"A": ring(12)})
    given = ("--matrix", tmp_path / "X.h5", "--graph", tmp_path / "g.h5")
    assert mccgr("export", file, *given, "-o", tmp_path / "out.mat").status == 0
    read = loadmat(tmp_path / "out.mat")
    assert sparse.issparse(read["X"])
    assert same(read["X"].toarray(), X.toarray().astype(np.float64))
    assert same(read["A"].toarray(), ring(12).toarray())
    assert same(load(str(tmp_path / "out.mat")).contents["X"].load().toarray(), X.toarray().astype(np.float64))


def test_results_of_experiments_go_into_arrays_by_name(mccgr, tmp_path):
    from mccgr_cli.files.container import RESULTS

    columns = {name: ["a", "b"] if spec.type == "text" else np.array([0, 1]) for name, spec in RESULTS.items()}
    path = stored(tmp_path / "r.h5", "results", columns)
    assert mccgr("export", path, "-o", tmp_path / "r.npz").status == 0
    with np.load(tmp_path / "r.npz") as read:
        assert set(columns) < set(read)
    assert mccgr("export", path, "-o", tmp_path / "r.mat").status == 0
    assert loadmat(tmp_path / "r.mat")["nmi"].ravel().tolist() == [0.0, 1.0]


# AnnData


def read_h5ad(path: Path) -> Any:
    return anndata.read_h5ad(path)


@pytest.mark.parametrize("is_sparse", [True, False])
def test_anndata_reads_all_of_it(mccgr, tmp_path, file, datasets, is_sparse):
    X = sparse_matrix() if is_sparse else sparse_matrix().toarray()
    stored(tmp_path / "X.h5", "matrix", {"X": X, "sample_names": datasets["sample_names"]})
    stored(tmp_path / "g.h5", "graph", {"A": ring(12)}, neighbors=7)
    given = ("--matrix", tmp_path / "X.h5", "--graph", tmp_path / "g.h5")
    assert mccgr("export", file, *given, "-o", tmp_path / "out.h5ad").status == 0
    read = read_h5ad(tmp_path / "out.h5ad")
    assert sparse.issparse(read.X) == is_sparse
    assert same(read.X.toarray() if is_sparse else read.X, X.toarray() if is_sparse else X)
    assert read.obs_names.tolist() == datasets["sample_names"]
    assert read.var_names.tolist() == datasets["feature_names"]
    assert (read.obs["cluster"].dtype, read.obs["label"].dtype) == ("category", "category")
    assert read.obs["cluster"].astype(int).tolist() == datasets["assignments"].tolist()
    assert read.obs["label"].tolist() == ["ant", "bee"] * 6
    assert same(read.var["weight"], datasets["rho"])
    assert read.var["silenced"].tolist() == [True, False, False, False, False]
    assert same(read.obsm["X_mccgr"], datasets["W"])
    assert same(read.varm["mccgr"], datasets["H"].T)
    assert same(read.obsp["connectivities"].toarray(), ring(12).toarray())
    assert read.uns["neighbors"]["connectivities_key"] == "connectivities"
    assert read.uns["neighbors"]["params"]["n_neighbors"] == 7
    ours = read.uns["mccgr"]
    assert same(ours["history"]["objective"], datasets["history/objective"])
    assert (ours["parameters"]["k"], ours["parameters"]["method"]) == (3, "mccgr")
    assert ours["parameters"]["converged"]
    assert ours["parameters"]["radii"].tolist() == [4, 8]
    assert len(json.loads(ours["provenance"])["inputs"]) == 3
    read.write_h5ad(tmp_path / "again.h5ad")  # what anndata takes for its own it can write


def test_anndata_reads_one_sample_without_labels_names_or_matrix(mccgr, tmp_path):
    bare = {name: value for name, value in clusters(n=1).items() if "label" not in name and "sample" not in name}
    path = stored(tmp_path / "c.h5", "clusters", bare)
    assert mccgr("export", path, "-o", tmp_path / "out.h5ad").status == 0
    read = read_h5ad(tmp_path / "out.h5ad")
    assert (read.shape, read.X, list(read.obs)) == ((1, 5), None, ["cluster"])
    assert read.obs_names.tolist() == ["0"]
    assert same(read.obsm["X_mccgr"], bare["W"])


def test_anndata_reads_a_graph_and_a_matrix_alone(mccgr, tmp_path, X_file):
    path = stored(tmp_path / "g.h5", "graph", {"A": ring(5)})
    assert mccgr("export", path, "-o", tmp_path / "g.h5ad").status == 0
    graph = read_h5ad(tmp_path / "g.h5ad")
    assert (graph.shape, graph.uns["neighbors"]["params"]["n_neighbors"]) == ((5, 0), 2)
    assert mccgr("export", X_file, "-o", tmp_path / "X.h5ad").status == 0
    read, ours = load(str(tmp_path / "X.h5ad"), label_key="label").contents, load(str(X_file)).contents
    assert same(read["X"].load(), ours["X"].load())
    assert all(list(read[name]) == list(ours[name]) for name in ours.names())


def test_names_that_are_there_twice_are_told_of_and_left(mccgr, tmp_path, datasets):
    names = ["x", "y"] * 6
    twice = datasets | {"sample_names": names, "label_names": ["same", "same"]}
    path = stored(tmp_path / "c.h5", "clusters", twice)
    outcome = mccgr("export", path, "-o", tmp_path / "out.h5ad")
    assert "10 samples have the name of an earlier one; in AnnData, obs_names_make_unique()" in outcome.stderr
    with pytest.warns(UserWarning, match="not unique"):
        read = read_h5ad(tmp_path / "out.h5ad")
    assert read.obs_names.tolist() == names
    assert read.obs["label"].cat.categories.tolist() == ["same"]


def test_labels_keep_their_own_numbers_beside_a_matrix_with_names_for_others(mccgr, tmp_path, datasets):
    del datasets["label_names"]
    file = stored(tmp_path / "numbers.h5", "clusters", datasets)
    named = {"X": np.ones((12, 5)), "labels": np.arange(12) % 2, "label_names": ["yak", "zebu"]}
    matrix = stored(tmp_path / "X.h5", "matrix", named)
    assert mccgr("export", file, "--matrix", matrix, "-o", tmp_path / "c.mat").status == 0
    held = loadmat(tmp_path / "c.mat")
    assert "label_names" not in held
    assert held["gnd"].ravel().tolist() == datasets["labels"].tolist()


def test_many_classes_keep_their_codes(mccgr, tmp_path):
    n = 300
    given = {"X": np.ones((n, 1)), "labels": np.arange(n), "label_names": [f"class {i}" for i in range(n)]}
    path = stored(tmp_path / "X.h5", "matrix", given)
    assert mccgr("export", path, "-o", tmp_path / "X.h5ad").status == 0
    assert read_h5ad(tmp_path / "X.h5ad").obs["label"].tolist() == given["label_names"]


# All formats


@pytest.mark.parametrize("form", EXPORT_FORMATS)
def test_same_input_same_bytes_as_a_file_and_as_a_stream(mccgr, tmp_path, file, form):
    what = ["--what", "W"] if form in ("csv", "tsv", "npy", "mtx") else []
    assert mccgr("export", file, *what, "-o", tmp_path / f"1.{form}").status == 0
    again = mccgr("export", file, *what, "-o", tmp_path / f"2.{form}", "--quiet")
    assert (again.status, again.stderr) == (0, "")
    first, second = ((tmp_path / f"{i}.{form}").read_bytes() for i in (1, 2))
    assert first == second
    if what:  # others say which format was asked for
        assert mccgr("export", file, *what, "--format", form, "-o", "-").output[:200] == first[:200]


def test_no_format_says_when_it_was_written(mccgr, tmp_path, file):
    for form in ("npz", "mat"):
        assert mccgr("export", file, "-o", tmp_path / f"out.{form}").status == 0
    with zipfile.ZipFile(tmp_path / "out.npz") as archive:
        assert {member.date_time for member in archive.infolist()} == {(1980, 1, 1, 0, 0, 0)}
    header = (tmp_path / "out.mat").read_bytes()[:116]
    assert header.startswith(b"MATLAB 5.0 MAT-file, written by mccgr")
    assert b"Created" not in header


def test_output_is_named_after_the_input_and_what_is_in_it(mccgr, file):
    assert mccgr("export", file).stdout.strip() == str(file.with_suffix(".assignments.csv"))
    assert mccgr("export", file, "--format", "mat").stdout.strip() == str(file.with_suffix(".mat"))


def test_clusters_come_down_a_pipe(mccgr, file):
    outcome = mccgr("export", "-", "-o", "-", stdin=file.read_bytes())
    assert next(csv.reader(io.StringIO(outcome.stdout))) == ["sample", "cluster", "label"]


def test_parameters_with_odd_names_are_left_out_and_told_of(mccgr, tmp_path, datasets):
    odd = {"a/b": 1, "x-y": "z"}
    path = stored(tmp_path / "c.h5", "clusters", datasets, **odd, k=3)
    assert "x-y" in mccgr("export", path, "-o", tmp_path / "out.mat").stderr
    assert "a/b" in mccgr("export", path, "-o", tmp_path / "out.h5ad").stderr
    assert set(read_h5ad(tmp_path / "out.h5ad").uns["mccgr"]["parameters"]) == {"k", "x-y"}


def test_matrix_of_another_checksum_is_told_of(mccgr, tmp_path, X_file):
    assert mccgr("factorize", X_file, "--k", 2, "-o", tmp_path / "f.h5").status == 0
    assert mccgr("cluster", tmp_path / "f.h5", "-o", tmp_path / "c.h5").status == 0
    for path in (tmp_path / "f.h5", tmp_path / "c.h5"):
        told = mccgr("export", path, "--matrix", X_file, "-o", path.with_suffix(".h5ad")).stderr
        assert "changed since" not in told
    stored(tmp_path / "other.h5", "matrix", {"X": planted(seed=1)[0]})
    told = mccgr("export", tmp_path / "f.h5", "--matrix", tmp_path / "other.h5", "-o", tmp_path / "2.h5ad").stderr
    assert "other.h5: same shape as the file that" in told
    assert "but another file, or changed since" in told


# Refusals


@pytest.mark.parametrize(
    ("arguments", "status", "told"),
    [
        (["-o", "out.xlsx"], 2, "has no suffix of a known format; end the name in .csv, .tsv,"),
        (["--format", "mat", "-o", "out.csv"], 2, "--format: mat, but the output ends in .csv"),
        (["--what", "X", "-o", "out.csv"], 2, "no X in c.h5; it has W, H, assignments, rho"),
        (["--what", "W", "-o", "out.mat"], 2, "--what: a .mat file holds everything; leave it out, or choose .csv"),
        (["--matrix", "X.h5", "-o", "out.npz"], 2, "--matrix: a .npz file has no place for it; leave it out, or"),
        (["-o", "out.mtx"], 2, "assignments is a list, and Matrix Market holds matrices; choose .csv or .npy"),
        (["-o", "there.csv"], 1, "there.csv: exists already"),
        (["--transpose", "-o", "out.csv"], 1, "holds clusters, not a matrix; leave out --transpose"),
        (["--matrix", "X.h5", "-o", "out.h5ad"], 1, "X.h5: 7 samples where c.h5 has 12; name the file that c.h5 was"),
        (["--matrix", "names.h5", "-o", "out.h5ad"], 1, "other names: number 1 is 'x', not 'f1'; name the file that"),
        (["--graph", "g.h5", "-o", "out.h5ad"], 1, "g.h5: 7 samples where c.h5 has 12"),
        (["--graph", "X.h5", "-o", "out.h5ad"], 1, "X.h5: holds a matrix where a graph should be"),
        (["--matrix", "-", "--graph", "-", "-o", "out.h5ad"], 2, "standard input can be read only once"),
    ],
)
def test_refusals_of_clusters(refused, monkeypatch, tmp_path, file, datasets, arguments, status, told):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "there.csv").touch()
    stored(tmp_path / "X.h5", "matrix", {"X": np.ones((7, 5))})
    renamed = ["f0", "x", *datasets["feature_names"][2:]]
    stored(tmp_path / "names.h5", "matrix", {"X": np.ones((12, 5)), "feature_names": renamed})
    stored(tmp_path / "g.h5", "graph", {"A": ring(7)})
    assert told in refused("export", "c.h5", *arguments, status=status)
    assert not list(tmp_path.glob("out.*"))


def test_refusals_of_other_kinds(refused, tmp_path):
    from mccgr_cli.files.container import RESULTS

    columns = {name: ["a"] if spec.type == "text" else np.array([0]) for name, spec in RESULTS.items()}
    results = stored(tmp_path / "r.h5", "results", columns)
    assert "mccgr table prints them as CSV" in refused("export", results, "-o", tmp_path / "r.csv", status=2)
    assert "AnnData has no place for" in refused("export", results, "-o", tmp_path / "r.h5ad", status=2)
    lopsided = stored(tmp_path / "g.h5", "graph", {"A": sparse.csr_array(np.triu(np.ones((3, 3))))})
    assert "not symmetric" in refused("export", lopsided, "-o", tmp_path / "g.csv")
    X = stored(tmp_path / "X.h5", "matrix", {"X": sparse_matrix()})
    assert "X is sparse, and .npy holds dense" in refused("export", X, "-o", tmp_path / "X.npy", status=2)
    assert "holds a matrix where a graph or factors" in refused("export", X, "--matrix", X, "-o", tmp_path / "X.h5ad")


def test_what_is_too_large_for_a_format_is_refused_before_it_is_written(refused, monkeypatch, tmp_path, file):
    monkeypatch.setattr(text, "MOST_CELLS", 10)
    message = refused("export", file, "--what", "W", "-o", tmp_path / "W.csv", status=2)
    assert "a table of 12 x 3 numbers, some 720 B; .npy and .npz hold it as it is" in message
    monkeypatch.setattr(arrays, "LARGEST_VARIABLE", 200)
    message = refused("export", file, "-o", tmp_path / "out.mat")
    assert "sample_names takes 908 B, and a variable in .mat has at most 2 GB; choose .h5ad or .npz" in message
    monkeypatch.setattr(arrays, "available_memory", lambda: 100)
    assert "all as long as the longest" in refused("export", file, "-o", tmp_path / "out.npz")
