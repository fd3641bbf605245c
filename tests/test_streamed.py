"""Where X is not in memory, the graph is the same as if it were."""

from __future__ import annotations

import numpy as np
import pytest
from conftest import planted
from far import FarBlocks
from scipy import sparse
from test_neighbours import HARD, check_exact

from mccgr_cli.blocks.in_memory import MemoryBlocks
from mccgr_cli.blocks.products import moments
from mccgr_cli.blocks.rows import TransformedBlocks, unit_rows, weigh_features
from mccgr_cli.core import graph, neighbours
from mccgr_cli.core.graph import build_graph
from mccgr_cli.core.neighbours import nearest, row_groups, streamed
from mccgr_cli.settings import METRICS, SYMMETRIES, WEIGHTS, GraphSettings

MAKE = pytest.mark.parametrize("make", [np.asarray, sparse.csr_array], ids=["dense", "sparse"])
ROOM = 1 << 12  # bytes: for about a fifth of the samples


def samples(n=60):
    """Planted groups with zeros, and samples of which there are two, three or that are empty."""
    X, _ = planted(n=n)
    X[X < 0.5] = 0
    X[[17, 41]] = X[5]
    X[44] = X[8]
    X[[3, 30]] = 0
    return X


def rows_only(**given):
    return GraphSettings(**{"axes": 0, "neighbors": 4, **given})


def check_same(ours, theirs, tolerance=1e-12):
    np.testing.assert_array_equal(ours.indptr, theirs.indptr)
    np.testing.assert_array_equal(ours.indices, theirs.indices)
    np.testing.assert_allclose(ours.data, theirs.data, rtol=tolerance)


def check_by_blocks(X, settings, counts=None, room=ROOM):
    source = FarBlocks(X)
    assert len(row_groups(source, room)) > 2  # or it is not this search that is tested
    theirs = build_graph(X, settings, counts)
    assert theirs.nnz > 0
    check_same(build_graph(source, settings, counts, room=room), theirs)


@MAKE
@pytest.mark.parametrize("weighed", [False, True], ids=["plain", "weighed"])
@pytest.mark.parametrize("weight", WEIGHTS)
@pytest.mark.parametrize("metric", METRICS)
def test_the_graph_by_blocks_is_the_one_in_memory(metric, weight, weighed, make):
    X = samples()
    counts = np.linspace(0, 2, X.shape[1]) if weighed else None
    check_by_blocks(make(X), rows_only(metric=metric, weight=weight), counts)


@MAKE
@pytest.mark.parametrize("weight", WEIGHTS)
@pytest.mark.parametrize("metric", METRICS)
def test_so_it_is_in_single_precision(metric, weight, make):
    check_by_blocks(make(samples().astype(np.float32)), rows_only(metric=metric, weight=weight))


@pytest.mark.parametrize("symmetry", SYMMETRIES)
def test_so_it_is_with_either_symmetry_and_any_width(symmetry):
    check_by_blocks(samples(), rows_only(symmetry=symmetry, weight="heat", heat_width=3.0))


@MAKE
@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("neighbors", [1, 2, 3, 4])
def test_of_samples_that_are_equally_near_the_first_are_neighbours(metric, neighbors, make):
    X, _ = planted(n=20)
    X = np.tile(np.round(4 * X), (3, 1))
    settings = rows_only(metric=metric, weight="binary", neighbors=neighbors)
    check_by_blocks(make(X), settings)
    found = nearest(FarBlocks(make(X)), 1, metric, groups=[slice(0, 11), slice(11, 60)])
    np.testing.assert_array_equal(found.columns, [*range(20, 40), *range(20), *range(20)])


@MAKE
@pytest.mark.parametrize("metric", ["cosine", "histogram"])
def test_empty_samples_have_no_neighbours(metric, make):
    A = build_graph(FarBlocks(make(samples())), rows_only(metric=metric), room=ROOM).toarray()
    assert (np.flatnonzero(A.sum(axis=1) == 0) == [3, 30]).all()


@MAKE
@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("n", [1, 2, 4])
def test_few_samples_have_all_others_for_neighbours(metric, n, make):
    X, _ = planted(n=n)
    A = build_graph(FarBlocks(make(X), 1), rows_only(metric=metric, weight="binary", neighbors=5), room=1)
    np.testing.assert_array_equal(A.toarray(), 1 - np.eye(n))


@MAKE
@pytest.mark.parametrize("metric", METRICS)
def test_where_nothing_has_a_neighbour_there_is_no_edge(metric, make):
    X = np.zeros((9, 5))
    X[4] = 1
    A = build_graph(FarBlocks(make(X), 2), rows_only(metric=metric, weight="heat"), room=1)
    assert (A.nnz > 0) == (metric == "euclidean")


# Rounding


@MAKE
@pytest.mark.parametrize("metric", ["euclidean", "cosine"])
def test_samples_far_from_the_origin_have_the_same_neighbours(metric, make):
    X = 1e6 + np.random.default_rng(0).random((60, 24))
    check_by_blocks(make(X), rows_only(metric=metric, weight="heat"))


def columns_by_blocks(X, neighbors, room):
    source = FarBlocks(X, 50)
    groups = row_groups(source, room)
    assert len(groups) > 1
    return nearest(source, neighbors, "euclidean", groups=groups).columns.reshape(-1, neighbors)


@pytest.mark.parametrize("double", [1, 1 << 20], ids=["row by row", "at once"])
@pytest.mark.parametrize("name", HARD)
def test_neighbours_are_the_nearest_whatever_the_data(monkeypatch, name, double):
    monkeypatch.setattr(streamed, "DOUBLE_BYTES", double * 8 * HARD[name].shape[1])
    check_exact(HARD[name], columns_by_blocks(HARD[name], 5, HARD[name].size * 4), 5)


@pytest.mark.parametrize("name", HARD)
def test_so_they_are_for_sparse_samples(name):
    X = HARD[name].copy()
    X[:, 1::3] = 0
    X = sparse.csr_array(X)
    check_exact(X, columns_by_blocks(X, 5, X.nnz * 10), 5)


@pytest.mark.parametrize(
    ("name", "ways"),
    [
        ("noise", set()),
        ("clusters far apart", {"in_double"}),
        ("clusters very far apart", {"in_double", "by_differences"}),
        ("one sample too far away to be squared", {"in_double", "by_differences"}),
    ],
)
def test_what_rounding_leaves_in_doubt_is_done_again(monkeypatch, name, ways):
    X = {**HARD, "one sample too far away to be squared": np.vstack([HARD["noise"], np.full((1, 20), 1e90)])}[name]
    used = set()
    for way in ("in_double", "by_differences"):
        again = getattr(streamed, way)
        monkeypatch.setattr(streamed, way, lambda *given, way=way, again=again: used.add(way) or again(*given))
    check_exact(X, columns_by_blocks(X, 5, X.size * 4), 5)
    assert used == ways


def test_what_is_farther_than_those_known_needs_no_second_look(monkeypatch):
    monkeypatch.setattr(streamed, "in_double", None)  # whatever called it would fail
    near = np.random.default_rng(0).random((40, 5))
    X = np.vstack([near, 1e4 + 1e-4 * near])
    group = streamed.Group(X[40:], 40, np.ones(40, dtype=bool))
    search = streamed.DistanceSearch.among(group)
    search.nearest(X[:40], np.arange(40), np.full(40, 5.0), 5)
    few = streamed.DistanceSearch.among(group.part(slice(0, 4)))
    few.nearest(X[:40], np.arange(40), np.full(40, np.inf), 5)  # which are all there are
    with pytest.raises(TypeError):
        search.nearest(X[:40], np.arange(40), np.full(40, np.inf), 5)


# On axes


@MAKE
@pytest.mark.parametrize("weight", WEIGHTS)
def test_the_graph_on_axes_is_the_one_in_memory(weight, make):
    X, settings = make(planted(n=60)[0]), GraphSettings(weight=weight, axes=6)
    check_same(build_graph(FarBlocks(X), settings, room=ROOM), build_graph(X, settings), 1e-8)


def test_where_samples_are_many_their_places_are_in_single_precision(monkeypatch):
    X, _ = planted()
    assert graph.principal_coordinates(FarBlocks(X), 6, None).dtype == np.float64
    monkeypatch.setattr(graph, "LARGEST_EXACT", 59)
    assert graph.principal_coordinates(FarBlocks(X), 6, None).dtype == np.float32
    check_same(build_graph(X, GraphSettings(axes=6)), build_graph(FarBlocks(X), GraphSettings(axes=6), room=ROOM))


# Passes and memory


@pytest.mark.parametrize(("weight", "passes"), [("shared", 5), ("binary", 5), ("cosine", 10), ("heat", 11)])
def test_every_group_takes_one_pass_and_another_if_edges_are_compared(weight, passes):
    source = FarBlocks(samples())
    assert len(row_groups(source, ROOM)) == 5
    build_graph(source, rows_only(weight=weight), room=ROOM)
    assert source.passes == passes


@pytest.mark.parametrize("settings", [rows_only(weight="heat"), GraphSettings(weight="histogram")])
def test_where_there_is_room_for_X_it_is_read_once(settings):
    X = samples()
    source = FarBlocks(X)
    check_same(build_graph(source, settings, room=1 << 20), build_graph(X, settings))
    assert source.passes == 0
    assert source.taken == [slice(0, 1), slice(0, 60)]


@MAKE
@pytest.mark.parametrize("weight", ["histogram", "heat"])
def test_no_more_rows_are_held_than_there_is_room_for(weight, make):
    X = make(samples())
    source = FarBlocks(X)
    build_graph(source, rows_only(weight=weight), room=ROOM)
    sizes = 32 * np.diff(X.indptr) if sparse.issparse(X) else np.full(60, 12 * 24)
    most = max(sizes[where].sum() for where in source.taken)
    assert 0.7 * ROOM < most <= ROOM


@MAKE
@pytest.mark.parametrize("room", [1, 1000, 5000, 1 << 20])
def test_groups_are_all_rows_in_turn(room, make):
    groups = row_groups(FarBlocks(make(samples())), room)
    assert [i for where in groups for i in range(60)[where]] == list(range(60))
    assert (len(groups) == 1) == (room == 1 << 20)
    assert (len(groups) == 60) == (room == 1)


@MAKE
def test_the_width_of_the_heat_kernel_is_found_from_an_even_selection(monkeypatch, make):
    monkeypatch.setattr(graph, "WIDTH_SAMPLE", 11)
    X = make(samples())
    source = FarBlocks(X)
    assert graph.mean_distance(source) == pytest.approx(graph.mean_distance(X), rel=1e-12)
    assert (source.passes, source.taken) == (1, [])


# The rest


@pytest.mark.parametrize("metric", METRICS)
def test_the_search_is_exact_and_says_why(metric):
    pytest.importorskip("faiss")
    heard = []
    X = samples()
    for how in ("approximate", "exact", "auto"):
        A = build_graph(FarBlocks(X), rows_only(metric=metric, search=how), None, heard.append, ROOM)
        check_same(A, build_graph(X, rows_only(metric=metric, search="exact")))
    assert all(search.exact for search in heard)
    assert [str(search) for search in heard] == [
        "exact, as the approximate search needs a matrix in memory",
        "exact",
        "exact",
    ]


def test_on_axes_the_search_may_be_fast(monkeypatch):
    pytest.importorskip("faiss")
    heard = []
    X, _ = planted(n=600)
    build_graph(FarBlocks(X, 100), GraphSettings(axes=2, search="approximate"), None, heard.append, ROOM)
    assert not heard[0].exact
    monkeypatch.setattr(neighbours, "LARGEST_EXACT", 59)
    build_graph(FarBlocks(samples()), rows_only(), None, heard.append, ROOM)
    assert "needs a matrix in memory" in heard[1].why


@MAKE
def test_a_transformed_source_is_the_transformed_matrix(make):
    X = make(samples().astype(np.float32))
    weights = np.linspace(0, 1, 24)
    source = TransformedBlocks(TransformedBlocks(FarBlocks(X), weigh_features, weights), unit_rows)
    theirs = unit_rows(weigh_features(X, weights))
    assert (source.shape, source.dtype, source.whole) == (theirs.shape, theirs.dtype, None)
    assert abs(source.take(slice(10, 20)) - theirs[10:20]).max() == 0
    np.testing.assert_allclose(moments(source).means, np.asarray(theirs.mean(axis=0)).ravel(), rtol=1e-12)
    assert abs(X - make(samples().astype(np.float32))).max() == 0


def test_a_source_in_memory_is_searched_there(monkeypatch):
    monkeypatch.setattr(graph, "row_groups", None)  # whatever called it would fail
    X = samples()
    check_same(build_graph(MemoryBlocks(X, 7), rows_only(), room=ROOM), build_graph(X, rows_only()))
