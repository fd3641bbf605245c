"""From Python it is what the command line is, and what scikit-learn expects."""

from __future__ import annotations

import inspect
import pickle
import runpy
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import h5py
import numpy as np
import pandas as pd
import polars as pl
import pytest
from conftest import planted
from scipy import sparse
from sklearn.base import ClusterMixin, clone, is_clusterer
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import adjusted_rand_score
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler
from sklearn.utils import estimator_checks
from sklearn.utils.estimator_checks import parametrize_with_checks

import mccgr_cli
from mccgr_cli import MCCGR, factorize
from mccgr_cli.api import as_matrix
from mccgr_cli.blocks.rows import normalize
from mccgr_cli.core.graph import build_graph
from mccgr_cli.errors import ArgumentError, MccgrError
from mccgr_cli.estimator import PARAMETERS
from mccgr_cli.fields import checked, settings_of
from mccgr_cli.files.container import Contents, encode
from mccgr_cli.settings import METHODS, PRESETS, ClusterSettings, GraphSettings, RowSettings, Settings

pytestmark = pytest.mark.usefixtures("one_thread")

SPARSE = (sparse.csr_array, sparse.csr_matrix, sparse.csc_array, sparse.coo_matrix)


@pytest.fixture(scope="module")
def X():
    return planted()[0]


@pytest.fixture(scope="module")
def fitted(X):
    return MCCGR(n_components=3).fit(X)


# What scikit-learn expects


@parametrize_with_checks([MCCGR()])
def test_scikit_learns_own_checks(estimator, check):
    check(estimator)


ABOUT_FRAMES = [
    "check_set_output_transform",
    "check_set_output_transform_pandas",
    "check_set_output_transform_polars",
    "check_transformer_get_feature_names_out",
    "check_transformer_get_feature_names_out_pandas",
]


@pytest.mark.filterwarnings("ignore:X (has|does not have valid) feature names")  # which they provoke
@pytest.mark.parametrize("name", ABOUT_FRAMES)
def test_checks_that_scikit_learn_keeps_for_its_own_estimators(name):
    getattr(estimator_checks, name)("MCCGR", MCCGR(max_iter=10, kmeans_n_init=1))


class Shifted(ClusterMixin, MCCGR):
    """So that it takes what scikit-learn gives clusterers."""

    def fit(self, X, y=None):
        return super().fit(np.asarray(X) - np.min(X))


def test_a_clusterer_for_scikit_learn_too():
    assert is_clusterer(MCCGR())
    estimator_checks.check_clustering("Shifted", Shifted())


def test_parameters_go_round_and_clones_are_alike(X, fitted):
    given = {"n_components": 2, "alpha": 3.0, "method": "grnmf", "n_neighbors": 4}
    assert {name: clone(MCCGR(**given)).get_params()[name] for name in given} == given
    assert MCCGR().set_params(**MCCGR(**given).get_params()).get_params() == MCCGR(**given).get_params()
    np.testing.assert_array_equal(clone(fitted).fit(X).components_, fitted.components_)


def test_pickled_models_say_the_same(X, fitted):
    again = pickle.loads(pickle.dumps(fitted))
    np.testing.assert_array_equal(again.transform(X), fitted.transform(X))
    np.testing.assert_array_equal(again.predict(X), fitted.predict(X))


# What the command line computes


def stored(path, name):
    with h5py.File(path) as file:
        return file[name][()]


@pytest.mark.parametrize(
    ("options", "parameters"),
    [
        ((), {}),
        (("--seed", 7, "--init", "random", "--restarts", 2), {"random_state": 7, "init": "random", "n_init": 2}),
        (("--alpha", 5, "--neighbors", 3, "--normalize", "l2"), {"alpha": 5, "n_neighbors": 3, "normalize": "l2"}),
        (("--method", "kl", "--iterations", 20, "--tolerance", 0), {"method": "kl", "max_iter": 20, "tol": 0}),
        (("--preset", "paper"), None),
    ],
    ids=["defaults", "random", "graph", "kl", "paper"],
)
def test_the_same_numbers_as_the_commands_to_the_last_bit(mccgr, X_file, tmp_path, X, options, parameters):
    names = ("f.h5", "c.h5", "t.h5")
    factors, clusters, coefficients = (tmp_path / name for name in names)
    seed = options[:2] if options[:1] == ("--seed",) else ()
    assert mccgr("factorize", X_file, "--k", 3, *options, "-o", factors).status == 0
    assert mccgr("cluster", factors, *seed, "-o", clusters).status == 0
    assert mccgr("transform", factors, X_file, "-o", coefficients).status == 0
    if parameters is None:
        model = MCCGR.from_preset("paper", n_components=3).fit(X)
        plain = factorize(X, 3, **PRESETS["paper"])
    else:
        model = MCCGR(n_components=3, **parameters).fit(X)
        options_of = {parameter: option for option, parameter in PARAMETERS.items()}
        plain = factorize(X, 3, **{options_of.get(name, name): value for name, value in parameters.items()})
    for ours in ((model.embedding_, model.components_, model.feature_weights_), (plain.W, plain.H, plain.rho)):
        for name, values in zip(("W", "H", "rho"), ours, strict=True):
            assert stored(factors, name).tobytes() == values.tobytes()
    np.testing.assert_array_equal(stored(clusters, "assignments"), model.labels_)
    assert stored(coefficients, "W").tobytes() == model.transform(X).tobytes()
    np.testing.assert_array_equal(stored(factors, "history/objective"), model.history_["objective"])


def test_a_sparse_file_is_the_same_too(mccgr, tmp_path, X):
    thin = sparse.csr_array(np.where(X < 1, 0, X).astype(np.float32))
    path = tmp_path / "X.h5"
    path.write_bytes(encode(Contents("matrix", {"X": thin})))
    assert mccgr("factorize", path, "--k", 3, "-o", tmp_path / "f.h5").status == 0
    model = MCCGR(3).fit(thin)
    assert stored(tmp_path / "f.h5", "W").tobytes() == model.embedding_.tobytes()
    assert model.embedding_.dtype == np.float32


def test_defaults_bounds_and_names_are_those_of_the_command_line():
    ours = {field.name: field.default for kind in (Settings, GraphSettings) for field in fields(kind)}
    estimator = inspect.signature(MCCGR).parameters
    function = inspect.signature(factorize).parameters
    for option, default in {**ours, "normalize": RowSettings.normalize}.items():
        if option != "k":
            assert function[option].default == default
            assert estimator[PARAMETERS.get(option, option)].default == default
        assert any(option in settings_of(kind) for kind in (Settings, GraphSettings, RowSettings))
    assert all(parameter.kind is parameter.KEYWORD_ONLY for parameter in list(estimator.values())[1:])


# Data of all kinds


def test_what_is_given_stays_as_it_is(X):
    for make in (np.array, np.asfortranarray, *SPARSE):
        given = make(X)
        before = pickle.dumps(given)
        MCCGR(3, max_iter=2).fit(given).transform(given)
        factorize(given, 3, iterations=2)
        factorize(given, 3, iterations=2, normalize="none", method="l2")
        assert pickle.dumps(given) == before


def test_unsorted_and_repeated_entries_of_a_sparse_matrix_are_neither_changed_nor_counted_twice(X):
    rows, columns = np.nonzero(X[:, ::-1])
    columns = X.shape[1] - 1 - columns
    starts = np.arange(0, 2 * X.size + 1, 2 * X.shape[1])
    repeated = sparse.csr_matrix((np.repeat(X[rows, columns] / 2, 2), np.repeat(columns, 2), starts), shape=X.shape)
    assert not repeated.has_canonical_format
    twin = pickle.dumps(repeated)
    one = factorize(repeated, 3, iterations=3)
    assert pickle.dumps(repeated) == twin
    np.testing.assert_allclose(one.W, factorize(X, 3, iterations=3).W, rtol=1e-6)


@pytest.mark.parametrize("make", SPARSE)
def test_sparse_is_dense_to_rounding(X, make):
    X = np.where(X < 0.5, 0, X)
    thin, full = MCCGR(3).fit(make(X)), MCCGR(3).fit(X)
    np.testing.assert_allclose(thin.embedding_, full.embedding_, rtol=1e-6)
    np.testing.assert_allclose(thin.transform(make(X)), full.transform(X), rtol=1e-6, atol=1e-9)
    assert thin.reconstruction_err_ == pytest.approx(full.reconstruction_err_, rel=1e-6)
    assert thin.score(make(X)) == pytest.approx(full.score(X), rel=1e-6)
    np.testing.assert_array_equal(thin.labels_, full.labels_)


def test_single_precision_is_kept_and_whole_numbers_become_double(X):
    single = MCCGR(3).fit(X.astype(np.float32))
    assert {single.embedding_.dtype, single.components_.dtype, single.transform(X.astype("f4")).dtype} == {
        np.dtype(np.float32)
    }
    assert MCCGR(3, max_iter=2).fit(np.ceil(X).astype(np.uint8)).embedding_.dtype == np.float64
    assert factorize(X.tolist(), 3, iterations=2).W.dtype == np.float64


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame], ids=["pandas", "polars"])
def test_frames_bring_names_and_get_them(X, frame):
    names = [f"word {j}" for j in range(X.shape[1])]
    table = frame(dict(zip(names, X.T, strict=True)))
    model = MCCGR(3, max_iter=5).set_output(transform=frame.__module__.partition(".")[0]).fit(table)
    assert model.feature_names_in_.tolist() == names
    assert list(model.transform(table).columns) == ["mccgr0", "mccgr1", "mccgr2"]
    assert model.get_feature_names_out().tolist() == ["mccgr0", "mccgr1", "mccgr2"]
    with pytest.raises(ValueError, match="feature names should match"):
        model.transform(table[names[::-1]])
    np.testing.assert_array_equal(factorize(table, 3, iterations=5).W, model.embedding_)


def test_samples_of_zeros_have_coefficients_of_zeros(fitted, X):
    zeros = np.zeros((2, X.shape[1]))
    np.testing.assert_array_equal(fitted.transform(zeros), 0)
    assert fitted.predict(zeros).shape == (2,)


# Results


def test_attributes_describe_the_fit(X, fitted):
    rows = normalize(X.copy(), fitted.normalize_)
    assert fitted.n_components_ == 3
    assert fitted.n_features_in_ == X.shape[1]
    assert fitted.n_iter_ == len(fitted.history_["objective"]) - 1
    assert fitted.converged_
    assert fitted.alpha_ > 0
    assert fitted.graph_.shape == (60, 60)
    error = np.linalg.norm(rows - fitted.embedding_ @ fitted.components_)
    assert fitted.reconstruction_err_ == pytest.approx(error)
    assert MCCGR(3, method="l2", max_iter=2).fit(X).graph_ is None


def test_inverse_transform_gives_the_normalized_rows_back(X, fitted):
    rows = normalize(X.copy(), fitted.normalize_)
    back = fitted.inverse_transform(fitted.transform(X))
    assert np.linalg.norm(back - rows) < 0.4 * np.linalg.norm(rows)
    np.testing.assert_array_equal(fitted.inverse_transform(sparse.csr_array(np.eye(3))), fitted.components_)
    with pytest.raises(ValueError, match="coefficients have 3 columns"):
        fitted.inverse_transform(X)


def test_a_transform_fits_each_sample_by_itself_and_better_than_the_graph_lets_it(X, fitted):
    rows, root = normalize(X.copy(), fitted.normalize_), np.sqrt(fitted.feature_weights_)

    def missed(W):
        return np.linalg.norm(root * (rows - W @ fitted.components_))

    W = fitted.transform(X)
    np.testing.assert_array_equal(MCCGR(3).fit_transform(X), W)
    assert missed(W) < missed(fitted.embedding_)
    np.testing.assert_allclose(fitted.transform(X[5:6]), W[5:6], rtol=1e-7)


@pytest.mark.parametrize("assign", ["kmeans", "max"])
def test_new_samples_are_put_where_they_belong(assign):
    model = MCCGR(3, assign_labels=assign).fit(planted()[0])
    new, classes = planted(n=30, seed=1)
    assert adjusted_rand_score(classes, model.predict(new)) == 1
    assert set(model.predict(new)) <= set(model.labels_)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("make", [np.asarray, sparse.csr_array], ids=["dense", "sparse"])
def test_fitted_samples_keep_their_labels(X, method, make):
    overlapping = X + 3 * np.random.default_rng(0).random(X.shape)
    model = MCCGR(5, method=method, max_iter=5, n_clusters=6, assign_labels="kmeans").fit(make(overlapping))
    np.testing.assert_array_equal(model.predict(make(overlapping)), model.labels_)
    np.testing.assert_array_equal(model.predict(make(overlapping[7:9])), model.labels_[7:9])


def test_clusters_need_not_be_as_many_as_components(X):
    assert len(set(MCCGR(3, n_clusters=5).fit_predict(X))) == 5
    assert MCCGR(n_clusters=4, max_iter=2).fit(X).n_components_ == 4
    assert MCCGR(max_iter=2).fit(X).n_components_ == 8
    assert MCCGR(max_iter=2).fit(X[:, :2]).n_components_ == 2


def test_a_graph_can_be_given(X):
    A = build_graph(normalize(X.copy(), "l2"), GraphSettings(neighbors=2))
    model = MCCGR(3, max_iter=5).fit(X, graph=A)
    assert abs(model.graph_ - A).max() == 0
    np.testing.assert_array_equal(model.embedding_, factorize(X, 3, iterations=5, graph=A.toarray()).W)
    np.testing.assert_array_equal(MCCGR(3, max_iter=5).fit_predict(X, graph=A), model.labels_)
    with pytest.raises(ValueError, match="graph: a graph of 60 samples for a matrix of 30"):
        model.fit(X[:30], graph=A)
    with pytest.raises(ValueError, match="graph: the graph is not symmetric"):
        factorize(X, 3, graph=sparse.triu(A))


def test_a_start_can_be_given(X):
    once = factorize(X, 3, iterations=5, method="l2", normalize="none")
    more = factorize(X, 3, iterations=5, method="l2", normalize="none", init=(once.W, once.H))
    assert more.history["objective"][0] == pytest.approx(once.objective)
    with pytest.raises(ValueError, match=r"init: W \(60, 3\) and H \(3, 24\) where"):
        factorize(X, 4, init=(once.W, once.H))
    with pytest.raises(ValueError, match="restarts: every start"):
        factorize(X, 3, init=(once.W, once.H), restarts=2)


def test_random_states_are_seeds_or_move_on(X):
    def start(state):
        return MCCGR(3, init="random", max_iter=1, random_state=state).fit(X).components_

    np.testing.assert_array_equal(start(0), MCCGR(3, init="random", max_iter=1).fit(X).components_)
    np.testing.assert_array_equal(start(np.int64(3)), start(3))
    moving = np.random.RandomState(5)
    first = start(moving)
    assert not np.array_equal(first, start(moving))
    np.testing.assert_array_equal(first, start(np.random.RandomState(5)))
    np.random.seed(1)  # noqa: NPY002 (what None refers to)
    first = start(None)
    np.random.seed(1)  # noqa: NPY002
    np.testing.assert_array_equal(first, start(None))


def test_every_step_is_told(X):
    steps = []
    model = MCCGR(3, max_iter=4, on_step=steps.append).fit(X)
    assert [step.iteration for step in steps] == list(range(5))
    np.testing.assert_array_equal([step.objective for step in steps], model.history_["objective"])


def test_only_a_fit_of_nothing_is_warned_of(X):
    assert not MCCGR(3, max_iter=1).fit(X).converged_  # and warnings are errors here
    with pytest.warns(ConvergenceWarning, match="MCCGR: nothing was fitted: raise bandwidth"):
        MCCGR(3, bandwidth=1e-9).fit(X)


# Pipelines and searches


def test_the_score_is_best_where_components_stop_to_find_what_samples_share():
    X, classes = planted(n=90)
    search = GridSearchCV(MCCGR(normalize="hellinger"), {"n_components": [1, 2, 3, 4, 6]}, cv=3).fit(X, classes)
    assert search.best_params_ == {"n_components": 3}
    assert search.best_score_ < 1


def test_nothing_is_foretold_from_no_other_feature():
    X = np.random.default_rng(0).random((10, 1))
    model = MCCGR(1, normalize="none").fit(X)
    assert model.score(X) == 0
    with pytest.raises(ValueError, match="all values are zero"):
        model.score(np.zeros((2, 1)))


def test_a_pipeline_is_searched_by_its_own_score_and_by_classes():
    X, classes = planted(n=90)
    grid = {"mccgr__alpha": [0.0, 1.0], "mccgr__n_components": [2, 3]}
    for scoring in (None, "adjusted_rand_score"):
        search = GridSearchCV(make_pipeline(MaxAbsScaler(), MCCGR(normalize="hellinger")), grid, scoring=scoring, cv=3)
        assert search.fit(X, classes).best_params_["mccgr__n_components"] == 3
        assert np.isfinite(search.cv_results_["mean_test_score"]).all()


def test_what_follows_in_a_pipeline_is_served():
    X, classes = planted(n=90)
    X *= np.random.default_rng(0).gamma(1.0, 5.0, (90, 1))  # sizes of samples, which tell nothing
    assert cross_val_score(make_pipeline(MCCGR(3), LogisticRegression()), X, classes, cv=3).mean() > 0.95
    assert adjusted_rand_score(classes, make_pipeline(MCCGR(3), KMeans(3, n_init=5)).fit_predict(X)) > 0.9


# Faults


@pytest.mark.parametrize(
    ("parameters", "text"),
    [
        (
            {"n_components": 99},
            "n_components: 99 components are more than a 60 x 24 matrix has room for; give at most 24",
        ),
        ({"n_components": 0}, "n_components: 0 is not a whole number of at least 1"),
        ({"n_components": 2.5}, "n_components: 2.5 is not a whole number of at least 1"),
        ({"n_components": True}, "n_components: True is not a whole number"),
        ({"max_iter": -1}, "max_iter: -1 is not a whole number of at least 0"),
        ({"alpha": -1.0}, r"alpha: -1.0 is not a number from 0 to 1e\+30"),
        ({"alpha": float("nan")}, "alpha: nan is not a number"),
        ({"keep": None}, "keep: None is not a number from 0.01 to 1"),
        ({"method": "nmf"}, "method: 'nmf' is not one of mccgr, mcc, .*; choose one of them"),
        ({"method": None}, "method: None is not one of mccgr"),
        ({"method": ["mccgr"]}, "is not one of mccgr"),
        ({"bandwidth": "wide"}, "bandwidth: none of adaptive, settle, and 'wide' is not a number"),
        ({"init": "file.h5"}, "init: 'file.h5' is not one of auto, graph, merged, nndsvd, random"),
        ({"random_state": -1}, "random_state: -1 is not a whole number"),
        ({"random_state": "x"}, "cannot be used to seed"),
        ({"metric": "histogram", "axes": 5}, "metric histogram: .*leave axes out"),
        ({"method": "kl", "solver": "coordinate"}, "solver: kl has an update of its own"),
        ({"n_clusters": 61}, "n_clusters: 61 clusters for 60 samples; give fewer"),
        ({"n_clusters": 0, "n_components": 2}, "n_clusters: 0 is not a whole number"),
        ({"n_clusters": 0}, "n_clusters: 0 is not a whole number"),
        ({"n_clusters": 4, "n_components": 3, "assign_labels": "max"}, "n_clusters: the 3 components are the clusters"),
        ({"assign_labels": "spectral"}, "assign_labels: 'spectral' is not one of max, kmeans"),
        ({"kmeans_n_init": 0}, "kmeans_n_init: 0 is not"),
        ({"normalize": "max"}, "normalize: 'max' is not one of auto, none, l1"),
    ],
    ids=str,
)
def test_parameters_that_cannot_be_used_are_named_as_they_were_given(X, parameters, text):
    model = MCCGR(**{"max_iter": 2, **parameters})
    with pytest.raises(ValueError, match=text) as caught:
        model.fit(X)
    assert "--" not in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1


def test_faults_are_values_types_and_ours_and_can_be_pickled(X):
    with pytest.raises(ArgumentError, match="k: 99 components are more") as caught:
        factorize(X, 99)
    assert isinstance(caught.value, MccgrError)
    assert isinstance(caught.value, ValueError)
    assert isinstance(caught.value, TypeError)
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)
    with pytest.raises(ValueError, match="is not a preset; choose one of paper"):
        MCCGR.from_preset("pepper")


@pytest.mark.parametrize(
    ("value", "text"), [(-1, "2 negative values, first at row 3, column 4"), (np.nan, "NaN"), (np.inf, "infinit|inf")]
)
def test_values_that_cannot_be_used_are_told_with_their_place(X, value, text):
    X = X.copy()
    X[3, 4] = X[5, 6] = value
    for given in (X, sparse.csr_array(X)):
        with pytest.raises(ValueError, match=text):
            factorize(given, 3)
        with pytest.raises(ValueError, match=text):
            MCCGR(3).fit(given)


def test_matrices_that_are_none_are_told():
    for given, text in (
        (np.zeros((4, 3)), "X: all values are zero"),
        (np.ones(4), "an array of 1 dimension "),
        (np.array([["a", "b"]]), "X: holds text"),
        (np.ones((3, 3)) * 1e200, "too large to compute with"),
    ):
        with pytest.raises(ValueError, match=text):
            factorize(given, 1)


@pytest.mark.parametrize("form", ["csr", "csc", "bsr"])
@pytest.mark.parametrize("index", [-5, 10**6])
def test_indices_that_lead_out_of_a_sparse_matrix_are_refused(X, form, index):
    given = sparse.csr_array(X).asformat(form)
    given.indices[0] = index
    for use in (lambda: factorize(given, 3), lambda: MCCGR(3).fit(given)):
        with pytest.raises(ValueError, match="X: not a sound sparse matrix"):
            use()


def test_other_units_overrule_a_preset():
    assert MCCGR.from_preset("paper").alpha == 100
    model = MCCGR.from_preset("paper", strength=5.0, keep=0.4)
    assert (model.alpha, model.strength, model.theta, model.keep) == (None, 5.0, None, 0.4)


def test_numbers_of_numpy_are_numbers(X):
    assert checked(ClusterSettings, {**vars(ClusterSettings()), "k": np.int32(3)}).k == 3
    assert MCCGR(np.int64(3), strength=np.float32(10), max_iter=np.int8(2)).fit(X).n_iter_ == 2
    assert as_matrix(X) is X  # nothing is copied that need not be


# The package


def test_the_package_loads_nothing_heavy_until_it_is_asked():
    code = (
        "import sys, mccgr_cli\n"
        "assert {'MCCGR', 'factorize', '__version__'} <= set(dir(mccgr_cli))\n"
        "assert not {'numpy', 'sklearn', 'scipy'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
    assert all(getattr(mccgr_cli, name) is not None for name in mccgr_cli.__all__)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        mccgr_cli.nothing  # noqa: B018


def test_a_program_with_types_runs():
    assert (Path(mccgr_cli.__file__).parent / "py.typed").exists()
    runpy.run_path(str(Path(__file__).parent / "typed_program.py"))


def test_all_methods_fit_transform_predict_and_score(X):
    for method in METHODS:
        model = MCCGR(3, method=method, max_iter=10).fit(X)
        assert model.predict(X).shape == (60,)
        assert 0 < model.score(X) < 1


def test_a_start_is_a_pair_and_what_is_not_is_told_briefly():
    X, _ = planted(n=30)
    found = factorize(X, 3)
    assert factorize(X, 3, init=[found.W, found.H]).W.shape == found.W.shape
    with pytest.raises(ValueError, match="init: 3 arrays"):
        factorize(X, 3, init=(found.W, found.H, found.rho))
    with pytest.raises(ValueError, match="is not one of auto") as told:
        factorize(X, 3, init=found.W)
    assert len(str(told.value)) < 150
