"""At the edge of what numbers can hold, and where there is next to nothing: sound results, or a line that says why not.

A warning of numpy is an error here, as everywhere in these tests.
"""

from __future__ import annotations

import json

import h5py
import numpy as np
import pytest
from conftest import planted, relative_gap
from scipy import sparse

from mccgr_cli.blocks.in_memory import MemoryBlocks
from mccgr_cli.blocks.rows import normalize, row_sizes
from mccgr_cli.core.graph import build_graph
from mccgr_cli.core.kmeans import kmeans
from mccgr_cli.core.methods import METHODS, SOLVERS
from mccgr_cli.core.solver import solve, transform
from mccgr_cli.errors import ParameterError
from mccgr_cli.files.atomic_write import write_files
from mccgr_cli.files.container import Contents, encode
from mccgr_cli.settings import METRICS, NORMALIZATIONS, SYMMETRIES, WEIGHTS, GraphSettings, Settings

WAYS = [
    (method, solver)
    for method in METHODS
    for solver in (SOLVERS if METHODS[method].own_update is None else ["multiplicative"])
]
WITH_GRAPH = [way for way in WAYS if METHODS[way[0]].graph]
WEIGHTED = [way for way in WAYS if METHODS[way[0]].weighted]
n, d = 12, 9


def plain(rows=n, columns=d):
    return planted(n, d)[0][:rows, :columns]


def changed(where, value, dtype="float64"):
    X = plain().astype(dtype)
    X[where] = value
    return X


def times(where, factor, dtype="float64"):
    X = plain().astype(dtype)
    X[where] *= factor
    return X


def spanning(low, high, dtype="float64"):
    return (10.0 ** np.random.default_rng(0).uniform(low, high, (n, d))).astype(dtype)


def sprinkled(value, dtype="float64"):
    return np.where(np.random.default_rng(0).random((n, d)) < 0.5, value, plain()).astype(dtype)


columns, rows = np.s_[:, [2, 4]], np.s_[[2, 4]]

# What factors can be found of
MATRICES = {
    "large": plain() * 1e98,
    "small": plain() * 1e-98,
    "large single": (plain() * 1e10).astype("float32"),
    "small single": (plain() * 1e-12).astype("float32"),
    "1e-300 to 1e100": spanning(-300, 99.9),
    "1e-300 to 1e10": spanning(-300, 10),
    "1e-12 to 1e12 single": spanning(-12, 11.9, "float32"),
    "1e-40 to 1e12 single": spanning(-40, 11.9, "float32"),
    "smallest numbers": sprinkled(5e-324),
    "smallest single numbers": sprinkled(1e-45, "float32"),
    "a sample of smallest numbers": changed(rows, 5e-324),
    "tiny samples": changed(rows, 1e-200),
    "tiny samples single": changed(rows, 1e-30, "float32"),
    "tiny features": times(columns, 1e-200),
    "tiny features single": times(columns, 1e-30, "float32"),
    "an outlier": changed((5, 5), 1e50),
    "a huge outlier": changed((5, 5), 1e99),
    "an outlier single": changed((5, 5), 1e11, "float32"),
    "a huge feature": times(np.s_[:, 4], 1e50),
    "a huge feature single": times(np.s_[:, 4], 1e10, "float32"),
    "empty samples": changed(rows, 0),
    "empty features": changed(columns, 0),
    "a single value": np.eye(1, n * d, 31).reshape(n, d) * 7,
    "a single sample": np.eye(n)[:, [3]] * plain()[3],
    "a single feature": np.eye(d)[[3]] * plain()[:, [3]],
    "one sample over and over": np.repeat(plain(1), n, axis=0),
    "two samples over and over": np.repeat(plain(2), n // 2, axis=0),
    "constant": np.full((n, d), 0.1),
    "rank 1": np.outer(plain()[:, 0], plain()[0]),
    "identity": np.eye(d),
    "n = 1": plain(1),
    "n = 2": plain(2),
    "d = 1": plain(columns=1),
    "1 x 1": plain(1, 1),
}
TYPES = {
    **{f"{kind}{bits}": np.round(plain() * 5).astype(f"{kind}{bits}") for kind in ("int", "uint") for bits in (8, 64)},
    "int16": np.round(plain() * 1000).astype("int16"),
    "uint32": np.round(plain() * 1e8).astype("uint32"),
    "large uint64": (plain() * 1e18).astype("uint64"),
    "bool": plain() > 2,
    "float16": plain().astype("float16"),
    "large float16": np.minimum(plain() * 20000, 65504).astype("float16"),
    "smallest float16": (plain() * 1e-7).astype("float16"),
    "longdouble": plain().astype("longdouble"),
}
HOPELESS = {
    "too large": (plain() * 1e300, "rescale"),
    "too small": (plain() * 1e-300, "rescale"),
    "denormal": (plain() * 1e-310, "rescale"),
    "zero": (np.zeros((n, d)), "zero"),
    "large longdouble": (plain().astype("longdouble") * np.longdouble("1e400"), "infinite"),
    "small longdouble": (plain().astype("longdouble") * np.longdouble("1e-400"), "zero"),
}


def saved(tmp_path, X, form="dense"):
    if form == "dense":
        np.save(tmp_path / "X.npy", X)
        return tmp_path / "X.npy"
    sparse.save_npz(tmp_path / "X.npz", sparse.csr_array(X))
    return tmp_path / "X.npz"


def graph_file(tmp_path, A):
    write_files({tmp_path / "A.h5": encode(Contents("graph", {"A": A}))}, overwrite=True)
    return tmp_path / "A.h5"


def sound(outcome, path):
    """What a command wrote, all of it finite and none of it negative."""
    assert outcome.status == 0, outcome.stderr
    assert "Warning" not in outcome.stderr
    found = {}
    with h5py.File(path) as file:
        file.visititems(lambda name, node: found.update({name: node[()]} if isinstance(node, h5py.Dataset) else {}))
        found["converged"] = bool(file.attrs.get("converged", False))
    for name in ("W", "H", "rho", "A/data", "history/objective", "history/data", "history/graph", "history/sigma"):
        values = np.asarray(found.get(name, 0.0))
        if name != "history/sigma" or not np.isnan(values).all():
            assert np.isfinite(values).all(), name
            assert (values >= 0).all(), name
    return found


@pytest.fixture
def factorized(mccgr, tmp_path):
    def run(path, *options):
        outcome = mccgr("factorize", path, *options, "-o", tmp_path / "F.h5", "--overwrite")
        return sound(outcome, tmp_path / "F.h5")

    return run


def by(way):
    return "--method", way[0], "--solver", way[1]


# Matrices


@pytest.mark.parametrize("way", WAYS, ids="-".join)
@pytest.mark.parametrize("name", MATRICES)
def test_factors_of_extreme_matrices_are_sound(factorized, tmp_path, name, way):
    X = MATRICES[name]
    factorized(saved(tmp_path, X), "--k", min(3, *X.shape), *by(way), "--iterations", 8, "--preset", "paper")


@pytest.mark.parametrize("method", ["mccgr", "kl", "gdcls"])
@pytest.mark.parametrize("name", [name for name, X in MATRICES.items() if 1e-12 < X.max() < 1e12])
def test_factors_of_extreme_sparse_matrices_in_single_precision_are_sound(factorized, tmp_path, name, method):
    X = MATRICES[name]
    options = ("--k", min(3, *X.shape), "--method", method, "--iterations", 8, "--dtype", "float32")
    factorized(saved(tmp_path, X, "sparse"), *options)


@pytest.mark.parametrize("method", ["mccgr", "kl"])
@pytest.mark.parametrize("name", TYPES)
def test_factors_of_any_type_of_numbers_are_those_of_doubles(factorized, tmp_path, name, method):
    X = TYPES[name]
    options = ("--k", 3, "--method", method, "--iterations", 8)
    found = factorized(saved(tmp_path, X), *options)
    doubles = factorized(saved(tmp_path, X.astype(float)), *options)
    np.testing.assert_array_equal(found["W"], doubles["W"])


@pytest.mark.parametrize("name", HOPELESS)
@pytest.mark.parametrize("command", ["factorize", "graph", "cluster"])
def test_what_nothing_can_be_done_with_is_refused(refused, tmp_path, name, command):
    X, words = HOPELESS[name]
    options = () if command == "graph" else ("--k", 2)
    assert words in refused(command, saved(tmp_path, X), *options, "-o", tmp_path / "out.h5")


@pytest.mark.parametrize("k", [1, d])
@pytest.mark.parametrize("way", WAYS, ids="-".join)
def test_any_number_of_components(factorized, tmp_path, way, k):
    for X in (plain(), np.eye(d)):
        factorized(saved(tmp_path, X), "--k", k, *by(way), "--iterations", 8)


@pytest.mark.parametrize("scale", [1e98, 1e10, 1e-10, 1e-98])
@pytest.mark.parametrize("way", WAYS, ids="-".join)
def test_the_scale_of_the_data_does_not_matter(way, scale):
    X, _ = planted()
    graph = build_graph(X, GraphSettings())
    settings = Settings(k=3, method=way[0], solver=way[1], iterations=30)
    one, other = (solve(MemoryBlocks(X * by), settings, graph) for by in (1.0, scale))
    assert other.converged == one.converged
    assert relative_gap(other.W @ (other.H / scale), one.W @ one.H) < 0.01


@pytest.mark.parametrize("scale", [1e98, 1e-98])
def test_graphs_clusters_and_coefficients_do_not_depend_on_the_scale_either(scale):
    X, _ = planted()
    for weight in ("shared", "binary", "heat", "cosine"):
        for axes in (0, 10):
            one, other = (build_graph(X * by, GraphSettings(weight=weight, axes=axes)) for by in (1.0, scale))
            np.testing.assert_allclose(one.toarray(), other.toarray(), rtol=1e-9, atol=1e-12)
    np.testing.assert_array_equal(kmeans(X, 3, 2, 0), kmeans(X * scale, 3, 2, 0))
    for method in METHODS:
        learnt = solve(MemoryBlocks(X), Settings(k=3, method=method, strength=0, iterations=10))
        one, other = (transform(MemoryBlocks(X * by), learnt.H * by, learnt.rho, method) for by in (1.0, scale))
        assert relative_gap(other, one) < 1e-6


# Options


@pytest.mark.parametrize("others", [("--dtype", "float32"), ("--preset", "paper")], ids=["single precision", "paper"])
@pytest.mark.parametrize(
    ("ways", "options"),
    [
        *((WITH_GRAPH, ("--alpha", alpha)) for alpha in ("0", "1e-30", "1e12", "1e30")),
        *((WITH_GRAPH, ("--strength", strength)) for strength in ("0", "1e-30", "1e28")),
        *((WEIGHTED, ("--theta", theta)) for theta in ("1e-100", "1e-15", "1e15", "1e100")),
        *((WEIGHTED, ("--keep", keep)) for keep in ("0.01", "1")),
        *((WEIGHTED, ("--bandwidth", sigma)) for sigma in ("1e-100", "1e-15", "1e15", "1e100")),
        *((WAYS, ("--tolerance", tolerance)) for tolerance in ("0", "1")),
        (WAYS, ("--iterations", "0")),
        (WITH_GRAPH, ("--neighbors", "1", "--symmetry", "mutual")),
        (WITH_GRAPH, ("--neighbors", "1000")),
        *((WITH_GRAPH, ("--weight", "heat", "--heat-width", width)) for width in ("1e-100", "1e100")),
        ([("gdcls", "multiplicative")], ("--ridge", "1e-15")),
    ],
    ids=lambda part: " ".join(part) if isinstance(part, tuple) else "",
)
def test_options_at_their_limits(factorized, tmp_path, ways, options, others):
    path = saved(tmp_path, plain())
    for way in ways:
        factorized(path, "--k", 3, "--iterations", 12, *by(way), *options, *others)


@pytest.mark.parametrize("way", WEIGHTED, ids="-".join)
@pytest.mark.parametrize("options", [("--theta", "1e-15"), ("--bandwidth", "1e-15")], ids=" ".join)
def test_a_run_that_fits_nothing_does_not_claim_to_have_converged(mccgr, tmp_path, way, options):
    path = saved(tmp_path, plain())
    outcome = mccgr("factorize", path, "--k", 3, *by(way), *options, "-o", tmp_path / "F.h5")
    assert f"nothing was fitted: raise {options[0]}" in outcome.stderr
    assert not sound(outcome, tmp_path / "F.h5")["converged"]


# Single methods


def test_kl_takes_the_smallest_numbers_for_zeros():
    """x ln(x / WH) would be 0 times infinity there."""
    X = sprinkled(5e-324)
    for make in (np.asarray, sparse.csr_array):
        settings = Settings(k=3, method="kl", iterations=5, init="random")
        with_them, without = (solve(MemoryBlocks(make(one)), settings) for one in (X, np.where(X < 1e-300, 0, X)))
        np.testing.assert_allclose(with_them.history["objective"], without.history["objective"], rtol=1e-9)


def test_the_divergence_of_an_exact_fit_is_not_below_zero():
    for seed in range(20):
        X = np.random.default_rng(seed).random((1, 9))
        ours = solve(MemoryBlocks(X), Settings(k=1, method="kl", iterations=5, seed=seed))
        assert (ours.history["objective"] >= 0).all()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("ridge", [10.0, 1e5])
def test_the_basis_of_gdcls_does_not_grow_without_end(ridge, dtype):
    X = planted()[0].astype(dtype)
    ours = solve(MemoryBlocks(X), Settings(k=3, method="gdcls", ridge=ridge, iterations=200, tolerance=0))
    assert ours.H.max() < 1e12
    assert ours.W.max() > 1e-20
    early = solve(MemoryBlocks(X), Settings(k=3, method="gdcls", ridge=ridge, iterations=10, tolerance=0))
    assert ours.objective == pytest.approx(early.objective, rel=0.01)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_ridge_that_leaves_nothing_is_refused(dtype):
    with pytest.raises(ParameterError, match="explains nothing of X; lower it"):
        solve(MemoryBlocks(planted()[0].astype(dtype)), Settings(k=3, method="gdcls", ridge=1e15))


# Graphs


@pytest.mark.parametrize("weight", WEIGHTS)
@pytest.mark.parametrize("name", MATRICES)
def test_graphs_of_extreme_matrices_are_sound(mccgr, tmp_path, name, weight):
    path = saved(tmp_path, MATRICES[name])
    for normalization, symmetry in (("none", "union"), ("hellinger", "mutual")):
        options = ("--weight", weight, "--normalize", normalization, "--symmetry", symmetry)
        sound(mccgr("graph", path, *options, "-o", tmp_path / "A.h5", "--overwrite"), tmp_path / "A.h5")


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("name", ["empty samples", "tiny samples", "1e-300 to 1e100", "one sample over and over"])
def test_neighbours_by_any_metric(mccgr, tmp_path, name, metric):
    for form in ("dense", "sparse"):
        path = saved(tmp_path, MATRICES[name], form)
        for symmetry in SYMMETRIES:
            options = ("--metric", metric, "--symmetry", symmetry, "--axes", 0, "--neighbors", 100)
            sound(mccgr("graph", path, *options, "-o", tmp_path / "A.h5", "--overwrite"), tmp_path / "A.h5")


@pytest.mark.parametrize("width", ["1e-100", "1e100"])
@pytest.mark.parametrize("name", ["large", "small", "a huge outlier", "constant"])
def test_heat_of_any_width(mccgr, tmp_path, name, width):
    path = saved(tmp_path, MATRICES[name])
    options = ("--weight", "heat", "--heat-width", width, "--normalize", "none", "--axes", 0)
    A = sound(mccgr("graph", path, *options, "-o", tmp_path / "A.h5"), tmp_path / "A.h5")["A/data"]
    assert ((A > 0) & (A <= 1)).all()


def ring():
    edges = np.roll(np.eye(n), 1, axis=1)
    return edges + edges.T


def ring_without(sample):
    A = ring()
    A[sample] = A[:, sample] = 0
    return A


@pytest.mark.parametrize("way", WITH_GRAPH, ids="-".join)
@pytest.mark.parametrize(
    "A",
    [
        np.zeros((n, n)),
        ring_without(3),
        ring_without(3) + 1e-30 * ring(),
        ring() * 1e20,
        ring() * 1e-30,
        np.kron(np.eye(2), np.ones((n // 2, n // 2))),
        np.eye(n),
    ],
    ids=["empty", "isolated", "nearly isolated", "heavy", "light", "in two parts", "loops"],
)
def test_graphs_with_little_to_say(factorized, tmp_path, way, A):
    path, graph = saved(tmp_path, plain()), graph_file(tmp_path, A)
    for options in ((), ("--preset", "paper"), ("--dtype", "float32")):
        factorized(path, "--k", 3, "--graph", graph, *by(way), "--iterations", 20, *options)


@pytest.mark.parametrize(("size", "alpha"), [(1e300, "1"), (1e150, "1e30"), (5e-324, None)])
def test_edges_too_heavy_or_too_light_to_be_weighed_are_refused(refused, tmp_path, size, alpha):
    graph = graph_file(tmp_path, ring() * size)
    weighed = () if alpha is None else ("--alpha", alpha)
    for way in WITH_GRAPH:
        command = ("factorize", saved(tmp_path, plain()), "--k", 3, *by(way), "--graph", graph, *weighed, "-q")
        message = refused(*command, "--dtype", "float32", "-o", tmp_path / "F.h5")
        assert message.startswith("the graph: ")
        assert "lower --alpha" in message


@pytest.mark.parametrize("light", [0.0, 1e-30, 1e-6])
@pytest.mark.parametrize("solver", SOLVERS)
@pytest.mark.parametrize("method", ["grnmf", "mccgr"])
def test_samples_that_nothing_holds_take_no_component_for_themselves(method, solver, light):
    """Where the lengths of columns are kept, it would cost nothing to leave them all to such a sample."""
    X, _ = planted()
    A = build_graph(X, GraphSettings()).toarray()
    loose = np.arange(60) < 3
    A[loose] *= light
    A[:, loose] *= light
    ours = solve(
        MemoryBlocks(X), Settings(k=3, method=method, solver=solver, strength=100.0, iterations=60), sparse.csr_array(A)
    )
    assert (np.diff(ours.history["objective"])[10:] <= 1e-3 * ours.objective).all()
    assert ours.W[~loose].max(axis=0).min() > 0.2 * ours.W[loose].max()
    gone = ((X - ours.W @ ours.H) ** 2)[~loose].sum() / (X**2)[~loose].sum()
    assert gone < 0.25


# Rows of any size


@pytest.mark.parametrize("make", [np.asarray, sparse.csr_array], ids=["dense", "sparse"])
@pytest.mark.parametrize(("size", "dtype"), [(1e-200, "f8"), (1e-300, "f8"), (1e99, "f8"), (1e-30, "f4"), (1e12, "f4")])
@pytest.mark.parametrize("how", ["l1", "l2", "hellinger"])
def test_rows_of_any_size_get_the_same_size(how, size, dtype, make):
    X = plain()
    X[4], X[5] = X[4] * size, 0
    ours = normalize(make(X.astype(dtype)), how)
    sizes = row_sizes(ours, "l1" if how == "l1" else "l2")
    np.testing.assert_allclose(np.delete(sizes, 5), 1, rtol=1e-5)
    assert sizes[5] == 0


@pytest.mark.parametrize("how", NORMALIZATIONS)
@pytest.mark.parametrize("name", ["a sample of smallest numbers", "smallest single numbers", "1e-300 to 1e100"])
def test_normalized_rows_are_finite(how, name):
    for make in (np.asarray, sparse.csr_array):
        ours = normalize(make(MATRICES[name].copy()), how)
        values = ours.data if sparse.issparse(ours) else ours
        assert np.isfinite(values).all()
        most = np.log1p(10 * ours.shape[1]) if how == "log" else 1  # of one value that is all of its row
        assert how in ("none", "sqrt") or values.max() <= most + 1e-6


# The commands that follow


@pytest.mark.parametrize("method", ["l2", "kl"])
@pytest.mark.parametrize("name", MATRICES)
def test_what_follows_factors_is_sound_too(mccgr, factorized, tmp_path, name, method):
    X = MATRICES[name]
    path = saved(tmp_path, X)
    factorized(path, "--k", min(3, *X.shape), "--method", method, "--iterations", 8)
    sound(mccgr("transform", tmp_path / "F.h5", path, "-o", tmp_path / "W.h5"), tmp_path / "W.h5")
    (tmp_path / "labels.txt").write_text("".join(f"{i % 2}\n" for i in range(len(X))))
    for source, options in (
        ("X.npy", ("--k", min(2, len(X)))),
        ("W.h5", ("--assign", "max") if method == "kl" else ()),
    ):
        command = ("cluster", tmp_path / source, *options, "--restarts", 1)
        assert mccgr(*command, "-o", tmp_path / "C.h5", "--overwrite").status == 0
    outcome = mccgr("evaluate", tmp_path / "C.h5", "--labels", tmp_path / "labels.txt", "--format", "json")
    assert outcome.status == 0
    scores = json.loads(outcome.stdout)
    assert all(np.isfinite(scores[score]) for score in ("accuracy", "nmi", "ari", "purity"))
