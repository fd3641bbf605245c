"""The neighbours are the nearest ones, whatever the data; approximate ones nearly all of them, and we are told so."""

from __future__ import annotations

import subprocess
import sys

import h5py
import numpy as np
import pytest
from conftest import planted
from scipy import sparse
from scipy.spatial.distance import cdist

from mccgr_cli.core import neighbours
from mccgr_cli.core.graph import build_graph
from mccgr_cli.core.neighbours import approximate, exact, nearest
from mccgr_cli.core.neighbours.distances import product_distances, smallest
from mccgr_cli.core.neighbours.exact import exact_neighbours
from mccgr_cli.errors import ParameterError
from mccgr_cli.settings import GraphSettings


def clusters(n=400, d=40, apart=1.0):
    rng = np.random.default_rng(1)
    return rng.standard_normal((n, d)) + apart * rng.standard_normal((8, d))[rng.integers(8, size=n)]


def whole_numbers(n=300, d=6):
    return np.random.default_rng(2).integers(0, 3, size=(n, d)).astype(float)


HARD = {
    "noise": np.random.default_rng(3).random((300, 20)),
    "wide": np.random.default_rng(3).random((300, 700)),
    "clusters": clusters(),
    "far from the origin": clusters() + 1e7,
    "clusters far apart": clusters(apart=1e4),
    "clusters very far apart": clusters(apart=1e9),
    "one sample far away": np.vstack([clusters(), np.full((1, 40), 1e8)]),
    "one sample very far away": np.vstack([clusters(), np.full((1, 40), 1e25)]),
    "duplicates": np.repeat(clusters(60), 7, axis=0),
    "ties": whole_numbers(),
    "all the same": np.ones((40, 5)),
    "tiny": 1e-100 * clusters(),
    "huge": 1e100 * clusters(),
    "features of all sizes": clusters() * np.logspace(-30, 0, 40),
    "one feature": np.random.default_rng(4).random((200, 1)),
}


def check_exact(X, columns, neighbors):
    """Each is the nearest of those that are left, itself excepted; ties may go either way."""
    samples = X.toarray() if sparse.issparse(X) else X
    samples = samples.astype(np.float64) / np.abs(samples).max()
    distance = cdist(samples, samples)
    np.fill_diagonal(distance, np.inf)
    n = len(samples)
    assert columns.shape == (n, neighbors)
    assert all(i not in row and len(set(row)) == neighbors for i, row in enumerate(columns.tolist()))
    ours = np.take_along_axis(distance, columns, 1)
    np.testing.assert_allclose(ours, np.sort(distance, axis=1)[:, :neighbors], rtol=1e-8)


@pytest.mark.parametrize("mutual", [1, 1000], ids=["mutual", "one way"])
@pytest.mark.parametrize("name", HARD)
def test_exact_neighbours_are_the_nearest(monkeypatch, name, mutual):
    monkeypatch.setattr(exact, "MUTUAL", mutual)
    check_exact(HARD[name], exact_neighbours(HARD[name], 5), 5)


@pytest.mark.parametrize("name", HARD)
def test_neighbours_of_sparse_samples_are_the_nearest(name):
    X = HARD[name].copy()
    X[:, 1::3] = 0
    check_exact(sparse.csr_array(X), exact_neighbours(sparse.csr_array(X), 5), 5)


@pytest.mark.parametrize("make", [np.asarray, sparse.csr_array], ids=["dense", "sparse"])
def test_neighbours_of_samples_in_single_precision_are_the_nearest(make):
    X = make((clusters() + 100).astype(np.float32))
    check_exact(X, exact_neighbours(X, 5), 5)


@pytest.mark.parametrize("neighbors", [1, 30, 298, 299])
def test_as_many_neighbours_as_are_asked_for(neighbors):
    X = HARD["noise"]
    check_exact(X, exact_neighbours(X, neighbors), neighbors)


def test_few_samples_have_each_other():
    found = nearest(np.eye(2), 1, "euclidean")
    assert (found.rows.tolist(), found.columns.tolist()) == ([0, 1], [1, 0])


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", [name for name in HARD if name not in ("tiny", "huge")])
def test_no_product_is_off_by_more_than_its_bound(name, dtype):
    X = HARD[name]
    compared = product_distances(X, dtype)
    wide = ((X - X.mean(axis=0)) * compared.scale).astype(np.longdouble)
    squares = (wide**2).sum(axis=1)
    true = squares[:, None] / 2 + squares / 2 - wide @ wide.T
    everyone = np.arange(len(X))
    off = np.abs(compared.from_samples(everyone) - true)
    np.fill_diagonal(off, 0)
    bound = np.array([compared.bound(compared.halves, half) for half in np.maximum(true, 0).astype(float).T]).T
    assert (off <= bound).all()


@pytest.mark.parametrize("mutual", [1, 1000], ids=["mutual", "one way"])
def test_rows_that_rounding_leaves_in_doubt_are_done_again(monkeypatch, mutual):
    again = []
    compare = exact.distances.product_distances
    monkeypatch.setattr(exact.distances, "product_distances", lambda X, dtype: again.append(dtype) or compare(X, dtype))
    monkeypatch.setattr(exact, "MUTUAL", mutual)
    exact_neighbours(HARD["clusters far apart"], 5)
    assert again == ["float32", "float64"]


@pytest.mark.parametrize("width", [3, 7, 100, 1000, 1001])
@pytest.mark.parametrize("count", [1, 3, 7])
def test_the_least_are_found_and_the_least_of_the_others_is_known(width, count):
    values = np.random.default_rng(width).integers(0, 50, size=(20, width)).astype(float)
    found = smallest(values, count, start=100)
    in_order = np.sort(values, axis=1)
    kept = min(count, width)
    np.testing.assert_array_equal(np.sort(found.values, axis=1), in_order[:, :kept])
    np.testing.assert_array_equal(np.take_along_axis(values, found.columns - 100, 1), found.values)
    np.testing.assert_array_equal(found.beyond, in_order[:, count] if count < width else np.inf)


@pytest.mark.parametrize("metric", ["euclidean", "histogram"])
def test_the_number_of_threads_changes_nothing(metric):
    code = (
        "import hashlib, sys\nimport numpy as np\nfrom mccgr_cli.core.neighbours import nearest\n"
        "X = np.random.default_rng(0).integers(0, 2, size=(900, 130)).astype(float)\n"
        f"print(hashlib.sha256(nearest(X, 5, {metric!r}, sys.argv[1]).columns.tobytes()).hexdigest())"
    )
    done = [
        subprocess.run(
            [sys.executable, "-c", code, "exact"],
            env={"OPENBLAS_NUM_THREADS": threads, "PYTHONPATH": ":".join(sys.path)},
            check=True,
            capture_output=True,
        ).stdout
        for threads in "123"
    ]
    assert done[0] == done[1] == done[2]


# Histograms


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("make", [np.asarray, sparse.csr_array], ids=["dense", "sparse"])
def test_histogram_neighbours_have_the_largest_sum_of_minima(make, dtype):
    X, _ = planted(n=80)
    X[X < 0.5] = 0
    X = X.astype(dtype)
    common = np.minimum(X[:, None].astype(float), X).sum(axis=2)
    np.fill_diagonal(common, -1)
    found = nearest(make(X), 4, "histogram")
    ours = common[found.rows, found.columns].reshape(-1, 4)
    np.testing.assert_allclose(ours, -np.sort(-common, axis=1)[:, :4], rtol=1e-9)


def test_histograms_are_those_of_the_rows_and_not_of_axes():
    X, _ = planted(n=40)
    by_default = build_graph(X, GraphSettings(metric="histogram", weight="binary"))
    of_rows = build_graph(X, GraphSettings(metric="histogram", weight="binary", axes=0))
    assert abs(by_default - of_rows).max() == 0
    found = nearest(X, 5, "histogram")
    assert (by_default.toarray()[found.rows, found.columns] == 1).all()


@pytest.mark.parametrize("metric", ["cosine", "histogram"])
def test_empty_samples_have_nothing_in_common_with_others(metric):
    X, _ = planted(n=30)
    X[[4, 9]] = 0
    found = nearest(X, 5, metric)
    assert len(found.rows) == 28 * 5
    assert not {4, 9} & {*found.rows.tolist(), *found.columns.tolist()}


# Approximate ones


@pytest.fixture
def faiss():
    return pytest.importorskip("faiss")


def many(n=6000, d=24, apart=3.0):
    """Clusters with a few directions in which they extend."""
    rng = np.random.default_rng(5)
    centre = apart * rng.standard_normal((20, 5))[rng.integers(20, size=n)]
    return np.tanh((centre + rng.standard_normal((n, 5))) @ rng.standard_normal((5, d)) / 5)


def recall_of(X, found, neighbors):
    distance = cdist(X, X)
    np.fill_diagonal(distance, np.inf)
    farthest = np.partition(distance, neighbors - 1, axis=1)[:, neighbors - 1]
    return np.mean(distance[found.rows, found.columns] <= farthest[found.rows] * (1 + 1e-9))


@pytest.mark.parametrize("apart", [3.0, 0.3], ids=["clusters", "hardly clusters"])
def test_approximate_neighbours_reach_their_recall(faiss, apart):
    X = many(apart=apart)
    found = nearest(X, 5, "euclidean", "approximate")
    assert not found.search.exact
    assert found.search.recall >= 0.95
    true = recall_of(X, found, 5)
    assert true >= 0.95
    assert true < 1  # or it is not this search that is tested
    assert true == pytest.approx(found.search.recall, abs=0.02)
    assert (found.rows != found.columns).all()
    assert np.bincount(found.rows).tolist() == [5] * len(X)


def test_same_data_same_approximate_neighbours(faiss):
    X = many()
    first = nearest(X, 5, "euclidean", "approximate")
    before = faiss.omp_get_max_threads()
    try:
        faiss.omp_set_num_threads(1)
        second = nearest(X, 5, "euclidean", "approximate")
    finally:
        faiss.omp_set_num_threads(before)
    assert first.columns.tobytes() == second.columns.tobytes()


@pytest.mark.parametrize("metric", ["euclidean", "cosine"])
def test_approximate_neighbours_of_duplicates_are_others(faiss, metric):
    X = np.repeat(many(600), 10, axis=0)
    found = nearest(X, 5, metric, "approximate")
    assert not found.search.exact
    assert (found.rows != found.columns).all()
    assert (X[found.rows] == X[found.columns]).all()


def test_a_search_in_cells_with_too_few_samples_finds_enough(faiss, monkeypatch):
    monkeypatch.setattr(approximate, "PROBES", (1,))
    monkeypatch.setattr(approximate, "RECALL", 0)
    found = nearest(many(2000), 50, "euclidean", "approximate")
    assert not found.search.exact
    assert found.columns.min() >= 0
    assert all(len(set(row)) == 50 for row in found.columns.reshape(-1, 50).tolist())


def test_where_a_fast_search_finds_too_few_it_is_exact(faiss):
    X = np.random.default_rng(6).random((4000, 60))
    found = nearest(X, 5, "euclidean", "approximate")
    assert found.search.exact
    assert 0 < found.search.recall < 0.95
    assert recall_of(X, found, 5) == 1


@pytest.mark.parametrize("limit", [5999, 6000])
def test_many_samples_are_searched_approximately_by_default(faiss, monkeypatch, limit):
    monkeypatch.setattr(neighbours, "LARGEST_EXACT", limit)
    assert nearest(many(), 5, "euclidean", "auto").search.exact == (limit == 6000)
    assert nearest(many(), 5, "euclidean", "exact").search.exact


def test_sparse_samples_and_histograms_are_searched_exact_neighbours(faiss):
    X = np.maximum(many(500), 0)
    assert nearest(sparse.csr_array(X), 5, "euclidean", "approximate").search.exact
    assert nearest(X, 5, "histogram", "approximate").search.exact
    assert "no sparse matrix" in str(nearest(sparse.csr_array(X), 5, "euclidean", "approximate").search)
    assert "no histogram intersection" in str(nearest(X, 5, "histogram", "approximate").search)
    assert str(nearest(X, 5, "histogram", "auto").search) == "exact"


def test_without_the_library_many_samples_are_searched_exactly_and_approximate_is_refused(monkeypatch):
    monkeypatch.setattr(neighbours, "LARGEST_EXACT", 10)
    for module in (neighbours, approximate):
        monkeypatch.setattr(module, "has_faiss", lambda: False)
    assert nearest(clusters(), 5, "euclidean", "auto").search.exact
    with pytest.raises(ParameterError, match=r"--search approximate: .*pip install 'mccgr-cli\[neighbours\]'"):
        nearest(clusters(), 5, "euclidean", "approximate")


# Commands


@pytest.fixture
def big_file(tmp_path):
    np.save(tmp_path / "X.npy", np.maximum(many(3000), 0) + 0.01)
    return tmp_path / "X.npy"


def test_commands_say_how_neighbours_were_found_and_graphs_keep_the_recall(faiss, mccgr, big_file, tmp_path):
    options = ("--search", "approximate", "--axes", 4)
    made = mccgr("graph", big_file, *options, "-o", tmp_path / "A.h5")
    assert made.status == 0
    assert "neighbours: approximate, recall " in made.stderr
    with h5py.File(tmp_path / "A.h5") as file:
        assert 0.95 <= file.attrs["recall"] <= 1
        assert file.attrs["search"] == "approximate"
    assert "recall" in mccgr("info", tmp_path / "A.h5").stdout
    done = mccgr("factorize", big_file, "--k", 3, "--iterations", 2, *options, "-o", tmp_path / "F.h5")
    assert done.stderr.count("neighbours: approximate, recall ") == 1


def test_of_an_exact_search_nothing_is_said(mccgr, X_file, tmp_path):
    made = mccgr("graph", X_file, "-o", tmp_path / "A.h5")
    assert "neighbours:" not in made.stderr
    with h5py.File(tmp_path / "A.h5") as file:
        assert "recall" not in file.attrs


@pytest.mark.parametrize("command", [("graph",), ("factorize", "--k", 3)])
def test_histograms_on_axes_are_refused(refused, X_file, command):
    message = refused(command[0], X_file, *command[1:], "--metric", "histogram", "--axes", 7, status=2)
    assert "--metric histogram: " in message
    assert "--axes" in message


def test_histogram_is_a_metric_of_the_command(mccgr, X_file, tmp_path):
    assert mccgr("graph", X_file, "--metric", "histogram", "-o", tmp_path / "A.h5").status == 0
    with h5py.File(tmp_path / "A.h5") as file:
        assert file.attrs["metric"] == "histogram"
