"""Settings are chosen without labels, and what the user gave is obeyed."""

from __future__ import annotations

import h5py
import numpy as np
import pytest
from conftest import planted
from scipy import sparse

from mccgr_cli import MCCGR, factorize
from mccgr_cli.blocks.from_file import FileBlocks
from mccgr_cli.blocks.in_memory import MemoryBlocks
from mccgr_cli.blocks.rows import take_rows
from mccgr_cli.core.graph import build_graph
from mccgr_cli.core.metrics import evaluate, separation
from mccgr_cli.core.parts import lost_edges, merge_parts, modularity, oversized, parts_of, spectral_clusters
from mccgr_cli.files.readers import load
from mccgr_cli.settings import AUTO, GraphSettings, Settings
from mccgr_cli.workflow.choice import Candidate, settle


def chosen(X, k=3, normalization=AUTO, **graph):
    found = settle(MemoryBlocks(X), Settings(k=k, init="graph"), normalization, GraphSettings(neighbors=5, **graph))
    return found.normalize, found.graph, found.choice


def to_array(X):
    return X.toarray() if sparse.issparse(X) else X


def of_any_size(seed=0, decades=3.0):
    """Planted groups whose samples differ in size by accident, as counts of a longer or shorter measurement do."""
    X, labels = planted(n=120, d=60, seed=seed)
    return (X + 8) * 10 ** np.random.default_rng(seed).uniform(0, decades, (len(X), 1)), labels


def test_rows_that_differ_in_size_by_accident_are_scaled():
    X, labels = of_any_size()
    normalization, _, choice = chosen(X)
    assert normalization in ("hellinger", "log")
    assert choice.scores[choice.chosen] == max(choice.scores.values())
    assert choice.scores[choice.chosen] > 0.5
    found = factorize(X, 3).W.argmax(axis=1)
    assert len({tuple(pair) for pair in zip(labels, found, strict=True)}) == 3


@pytest.mark.parametrize("make", [np.asarray, sparse.csr_array], ids=["dense", "sparse"])
@pytest.mark.parametrize(
    ("decades", "tried"),
    [(0.0, ("none", "sqrt")), (0.5, ("none", "sqrt", "hellinger", "log")), (3.0, ("hellinger", "log"))],
    ids=["rows of one size are not scaled", "all are tried", "rows of very different size are scaled"],
)
def test_which_candidates_are_tried_depends_on_the_sizes_of_rows(decades, tried, make):
    names = {str(one) for one in chosen(make(of_any_size(decades=decades)[0]))[2].scores}
    assert names == {f"{how}/{length}" for how in tried for length in (0.1, 0.5)}


@pytest.mark.parametrize(("features", "tried"), [(9, {"none", "sqrt"}), (10, {"none", "sqrt", "hellinger", "log"})])
def test_the_sizes_of_rows_with_few_features_are_not_ignored(features, tried):
    X = of_any_size()[0]
    X[:, features:] = 0  # features that are not in use do not count
    assert {one.normalize for one in chosen(X)[2].scores} == tried


def test_what_the_user_gave_is_obeyed():
    X = of_any_size()[0]
    normalization, graph, choice = chosen(X, normalization="l2")
    assert (normalization, {one.normalize for one in choice.scores}) == ("l2", {"l2"})
    assert graph.evenness in (0.1, 0.5)
    normalization, graph, choice = chosen(X, evenness=0.3)
    assert ({one.evenness for one in choice.scores}, graph.evenness) == ({0.3}, 0.3)
    assert chosen(X, normalization="l1", evenness=0.0)[1:] == (GraphSettings(neighbors=5, evenness=0.0), None)
    assert chosen(X, normalization="l1", axes=0)[2] is None  # without axes there is no evenness


def test_one_cluster_and_too_few_samples_need_no_choice():
    X = of_any_size()[0]
    assert chosen(X, k=1)[2].scores == {}
    assert chosen(X[:3], k=3)[2].chosen in (Candidate("none", 0.1), Candidate("hellinger", 0.1))


def test_the_estimator_says_what_was_chosen_and_uses_it_for_new_samples():
    X, _ = of_any_size()
    model = MCCGR(n_components=3).fit(X)
    assert model.normalize_ in ("hellinger", "log")
    np.testing.assert_array_equal(model.predict(X * 7.0), model.labels_)  # sizes do not matter


def test_the_choice_is_printed_and_kept_in_the_file(mccgr, tmp_path):
    X, labels = of_any_size()
    np.savez(tmp_path / "X.npz", X=X, labels=labels)
    result = mccgr("factorize", tmp_path / "X.npz", "--k", 3, "-o", tmp_path / "F.h5")
    stored = load(str(tmp_path / "F.h5"), kinds=("factors",)).contents.attributes
    assert stored["normalize"] in ("hellinger", "log")
    assert stored["choice"].startswith(f"chosen: --normalize {stored['normalize']} --evenness")
    assert stored["choice"] in result.stderr
    explicit = mccgr("factorize", tmp_path / "X.npz", "--k", 3, "--normalize", "l2", "--evenness", 0.1, "-o", "-")
    assert "chosen: --neighbors 5 --init graph\n" in explicit.stderr
    every = ("--normalize", "l2", "--evenness", 0.1, "--neighbors", 5, "--init", "graph")
    explicit = mccgr("factorize", tmp_path / "X.npz", "--k", 3, *every, "-o", "-")
    assert "chosen" not in explicit.stderr


def test_samples_without_clusters_are_doubted(mccgr, tmp_path):
    np.save(tmp_path / "X.npy", np.ones((50, 3)))
    result = mccgr("factorize", tmp_path / "X.npy", "--k", 2, "-o", tmp_path / "F.h5")
    assert "doubt: the clusters hold together no better than by chance; try another --k" in result.stderr
    assert chosen(of_any_size()[0])[2].doubt is None


@pytest.mark.parametrize("make", [np.asarray, sparse.csr_array], ids=["dense", "sparse"])
def test_rows_are_the_same_whether_x_is_in_memory_or_not(make):
    X, index = make(np.arange(60.0).reshape(20, 3)), np.array([0, 1, 9, 10, 19])
    source = MemoryBlocks(X, 7)
    whole = take_rows(source, index)
    source.whole = None
    np.testing.assert_array_equal(to_array(take_rows(source, index)), to_array(X)[index])
    np.testing.assert_array_equal(to_array(whole), to_array(X)[index])


def test_the_choice_is_made_with_some_of_many_samples(monkeypatch):
    X, _ = of_any_size()
    of_all = chosen(X)[2].scores
    monkeypatch.setattr("mccgr_cli.workflow.choice.LEAST_SAMPLE", 60)  # also 20 k
    of_some = chosen(X)[2].scores
    assert of_some.keys() == of_all.keys()
    assert of_some != of_all


# Neighbours, and the division of the graph


def clouds():
    """Four clouds that overlap."""
    rng = np.random.default_rng(0)
    labels = np.repeat(np.arange(4), 60)
    means = 6 + 0.4 * rng.normal(size=(4, 150))
    return np.maximum(means[labels] + rng.normal(size=(240, 150)), 0), labels


def families(groups=50, each=6, width=0.6, step_length=2.2):
    """One large cluster of many groups, and four small clusters, of which each two are near each other."""
    rng = np.random.default_rng(0)
    means = 2 * rng.normal(size=(3, 30))
    parts = [mean + 0.3 * rng.normal(size=(each, 30)) for mean in means[0] + width * rng.normal(size=(groups, 30))]
    for mean in means[1:]:
        step = rng.normal(size=30)
        step *= step_length / np.linalg.norm(step)
        parts += [mean + sign * step + 0.5 * rng.normal(size=(30, 30)) for sign in (-1, 1)]
    X = np.vstack(parts)
    return X - X.min(), np.repeat(np.arange(5), (groups * each, 30, 30, 30, 30))


def divided(X, k, neighbors=None, **settings):
    found = settle(MemoryBlocks(X), Settings(k=k, **settings), AUTO, GraphSettings(neighbors=neighbors))
    return found.graph.neighbors, found.settings.init


def accuracy(X, labels, **options):
    return evaluate(labels.tolist(), factorize(X, len(set(labels)), **options).W.argmax(axis=1)).accuracy


def test_more_neighbours_are_used_where_clusters_then_hold_together_better():
    X, labels = clouds()
    assert divided(X, 4) == (20, "graph")
    assert accuracy(X, labels) > accuracy(X, labels, neighbors=5)


def test_parts_are_merged_where_they_are_then_farther_apart():
    X, labels = families()
    assert divided(X, 5) == (20, "merged")
    assert accuracy(X, labels) == 1
    assert accuracy(X, labels, init="graph") < 0.9


def test_many_samples_keep_few_neighbours(monkeypatch):
    monkeypatch.setattr("mccgr_cli.settings.FEW_SAMPLES", 419)  # of 420
    assert divided(families()[0], 5) == (5, "graph")


def test_the_division_of_a_matrix_in_its_file_is_that_in_memory(tmp_path):
    X, _ = families()
    with h5py.File(tmp_path / "X.h5", "w") as file:
        file["X"] = X
    source = FileBlocks(load(str(tmp_path / "X.h5")).contents["X"].stream())
    found = settle(source, Settings(k=5), AUTO, GraphSettings())
    assert (found.graph.neighbors, found.settings.init) == (20, "merged")
    assert found.choice == settle(MemoryBlocks(X), Settings(k=5), AUTO, GraphSettings()).choice


def test_parts_that_half_of_the_neighbours_would_change_are_not_used(monkeypatch):
    X, _ = families(groups=25, each=12, width=1.0, step_length=2.5)  # with 10 neighbours, groups are hardly connected
    assert divided(X, 5) == (5, "graph")
    monkeypatch.setattr("mccgr_cli.workflow.division.AGREED", 0.0)
    assert divided(X, 5) == (20, "merged")


def test_a_given_division_is_obeyed():
    X, _ = families()
    assert divided(X, 5, init="graph")[1] == "graph"
    assert divided(X, 5, neighbors=20)[0] == 20
    assert divided(X, 5, neighbors=7) == (7, "graph")  # too few for merging
    assert divided(X, 5, neighbors=7, init="merged") == (7, "merged")
    assert divided(X, 5, init="random")[1] == "random"


def test_clusters_smaller_than_the_neighbours_keep_few():
    X, _ = clouds()
    assert divided(X, 12) == (5, "graph")
    assert divided(X, 60) == (5, "graph")
    assert divided(X[:3], 3) == (5, "graph")


def test_the_division_is_printed_and_kept_for_other_runs(mccgr, tmp_path):
    X, labels = families()
    np.savez(tmp_path / "X.npz", X=X, labels=labels)
    result = mccgr("factorize", tmp_path / "X.npz", "--k", 5, "-o", tmp_path / "F.h5")
    stored = load(str(tmp_path / "F.h5"), kinds=("factors",)).contents
    assert "--neighbors 20 --init merged" in result.stderr
    assert stored.attributes["init"] == "merged"
    mccgr("graph", tmp_path / "X.npz", "--k", 5, "-o", tmp_path / "A.h5")
    assert load(str(tmp_path / "A.h5"), kinds=("graph",)).contents.attributes["neighbors"] == 20
    mccgr("factorize", tmp_path / "X.npz", "--k", 5, "--graph", tmp_path / "A.h5", "-o", tmp_path / "given.h5")
    assert load(str(tmp_path / "given.h5"), kinds=("factors",)).contents["W"].tobytes() == stored["W"].tobytes()


def test_separation_is_high_for_clusters_that_are_apart():
    points = np.array([[0.0], [1.0], [10.0], [11.0]])
    assert separation(points, np.array([0, 0, 1, 1])) == pytest.approx(1 - 0.25 * np.mean([1 / 10.5**2, 1 / 9.5**2]))
    assert separation(points, np.array([0, 1, 0, 1])) < 0
    assert separation(points, np.zeros(4, int)) == 0


# Parts of a graph


def blocks_of_samples(*sizes, seed=0):
    """A graph of groups with dense edges inside."""
    rng = np.random.default_rng(seed)
    group = np.repeat(np.arange(len(sizes)), sizes)
    edges = np.triu((group[:, None] == group) & (rng.random((len(group), len(group))) < 0.5), 1)
    return (edges | edges.T).astype(float), group


def test_parts_that_spectral_clustering_leaves_together_are_separated():
    A, group = blocks_of_samples(16, 16, 32, 32)
    A[32:64, 64:] = A[64:, 32:64] = 0.02  # the last two touch, the first two do not
    A = sparse.csr_array(A)
    assert oversized(spectral_clusters(A, 3, 0), 3) is not None
    part = parts_of(A, 3, 0)
    assert [len(set(part[group == one])) for one in range(4)] == [1, 1, 1, 1]
    assert part[0] == part[16]
    assert len({part[0], part[32], part[64]}) == 3


def test_a_cluster_with_most_of_the_samples_is_not_cut():
    group = np.repeat(np.arange(5), (400, 30, 30, 30, 30))
    points = np.random.default_rng(0).normal(size=(len(group), 5)) + 8 * np.eye(5)[group]
    A = build_graph(points, GraphSettings(axes=0))
    assert oversized(spectral_clusters(A, 5, 0), 5) is not None
    np.testing.assert_array_equal(parts_of(A, 5, 0), group)


def test_parts_lose_the_edges_that_leave_them():
    A = np.zeros((6, 6))
    A[[0, 1, 2, 3, 4], [1, 2, 3, 4, 5]] = 1  # a path; cut in the middle, each half loses 1 of its 5 ends of edges
    A = sparse.csr_array(A + A.T)
    assert lost_edges(A, np.array([0, 0, 0, 1, 1, 1])) == pytest.approx(1 / 5)
    assert lost_edges(A, np.zeros(6, int)) == 0


def test_parts_are_numbered_in_the_order_of_the_samples():
    A, group = blocks_of_samples(20, 20, 20)
    np.testing.assert_array_equal(parts_of(sparse.csr_array(A), 3, 0), group)


def test_merging_joins_the_parts_with_most_edges_between_them():
    A, group = blocks_of_samples(10, 10, 10, 10)
    A[:10, 10:20] = A[10:20, :10] = 0.3
    assert len(set(merge_parts(sparse.csr_array(A), group, 3)[:20])) == 1


def test_modularity_is_that_of_its_definition():
    rng = np.random.default_rng(0)
    A = np.triu(rng.random((12, 12)), 1)
    A, part = A + A.T, np.arange(12) % 3
    u, total = A.sum(axis=1), A.sum()
    expected = sum(A[i, m] / total - u[i] * u[m] / total**2 for i in range(12) for m in range(12) if part[i] == part[m])
    assert modularity(sparse.csr_array(A), part) == pytest.approx(expected)
    assert modularity(sparse.csr_array((12, 12)), part) == 0.0


# The graph command


@pytest.mark.parametrize("method", ["mccgr", "grnmf"])
def test_a_graph_file_is_the_graph_that_factorize_builds(mccgr, tmp_path, method):
    X, labels = of_any_size()
    np.savez(tmp_path / "X.npz", X=X, labels=labels)
    options = ("--k", 3, "--method", method)
    mccgr("graph", tmp_path / "X.npz", *options, "-o", tmp_path / "A.h5")
    mccgr("factorize", tmp_path / "X.npz", *options, "-o", tmp_path / "own.h5")
    mccgr("factorize", tmp_path / "X.npz", *options, "--graph", tmp_path / "A.h5", "-o", tmp_path / "given.h5")
    own, given = (load(str(tmp_path / name), kinds=("factors",)).contents for name in ("own.h5", "given.h5"))
    for name in ("W", "H", "rho"):
        assert own[name].tobytes() == given[name].tobytes()
    assert own.attributes["normalize"] == given.attributes["normalize"]


def test_a_graph_for_another_number_of_clusters_is_noted(mccgr, X_file, tmp_path):
    mccgr("graph", X_file, "--k", 2, "-o", tmp_path / "A.h5")
    result = mccgr("factorize", X_file, "--k", 3, "--graph", tmp_path / "A.h5", "-o", tmp_path / "F.h5")
    assert "--graph: built for --k 2, used with --k 3" in result.stderr


def test_edges_of_a_sample_with_itself_do_not_count():
    X, _ = planted()
    A = build_graph(X, GraphSettings())
    looped = sparse.csr_array(A + sparse.diags_array(np.full(len(X), 5.0)))
    assert factorize(X, 3, graph=A).W.tobytes() == factorize(X, 3, graph=looped).W.tobytes()


# Doubts


def test_a_cluster_of_most_samples_is_noted(mccgr, tmp_path):
    X = np.vstack([np.tile([9.0, 1.0], (30, 1)), [[1.0, 9.0], [1.0, 8.0]]])
    np.save(tmp_path / "X.npy", X)
    assert "doubt: cluster" in mccgr("cluster", tmp_path / "X.npy", "--k", 2, "-o", tmp_path / "C.h5").stderr
    np.save(tmp_path / "even.npy", np.repeat(np.eye(2), 8, axis=0))
    assert "doubt" not in mccgr("cluster", tmp_path / "even.npy", "--k", 2, "-o", tmp_path / "D.h5").stderr


def test_a_graph_in_many_pieces_is_noted(mccgr, tmp_path):
    np.save(tmp_path / "X.npy", np.repeat(np.random.default_rng(0).random((30, 40)), 3, axis=0))
    options = ("--k", 2, "--neighbors", 2, "--normalize", "none", "--graph-features", "plain")
    assert "pieces" in mccgr("factorize", tmp_path / "X.npy", *options, "-o", tmp_path / "F.h5").stderr


# Weights


def test_one_large_noisy_feature_does_not_silence_the_others():
    rng = np.random.default_rng(0)
    labels = np.repeat(np.arange(4), 30)
    X = np.kron(np.eye(4), np.ones((30, 15))) + 0.3 * rng.random((120, 60))
    X = np.hstack([X, 30 * rng.random((120, 1))])
    factors = factorize(X, 4, normalize="none")
    assert np.flatnonzero(factors.rho < 0.01).tolist() == [60]
    assert len({tuple(pair) for pair in zip(labels, factors.W.argmax(axis=1), strict=True)}) == 4


def test_data_without_noise_silence_no_feature():
    rng = np.random.default_rng(0)
    X = np.kron(np.eye(3), np.ones((20, 8))) @ np.diag(1 + rng.random(24))
    assert factorize(X, 3, normalize="none").rho.min() > 0.5
