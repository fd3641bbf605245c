"""The method as a scikit-learn estimator."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from numbers import Integral
from typing import Any, Self

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from mccgr_cli.api import as_arguments, as_matrix, in_python, prepare, require_sound, run, settled_rows
from mccgr_cli.blocks.from_file import blocks_of
from mccgr_cli.blocks.products import moments
from mccgr_cli.blocks.protocol import Array, Matrix
from mccgr_cli.catalog import SILENCED
from mccgr_cli.core.landmarks import Landmarks, learn_landmarks
from mccgr_cli.core.outliers import Density, learn_density, score_new
from mccgr_cli.core.solver import Step, squared_errors, transform, why_not_converged
from mccgr_cli.core.typicality import below_one, certainty_of
from mccgr_cli.errors import ArgumentError
from mccgr_cli.fields import checked, settings_of
from mccgr_cli.settings import PRESETS, ClusterSettings, GraphSettings, RowSettings, Settings
from mccgr_cli.workflow import factorization, stages

# Options that have other names in scikit-learn.
PARAMETERS = {
    "k": "n_components",
    "iterations": "max_iter",
    "tolerance": "tol",
    "restarts": "n_init",
    "seed": "random_state",
    "neighbors": "n_neighbors",
}
CLUSTER_PARAMETERS = {"k": "n_clusters", "restarts": "kmeans_n_init", "assign": "assign_labels"}
DEFAULT_COMPONENTS = 8
FOLDS = 5  # of the features: each fold is predicted from the other four


class MCCGR(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Cluster samples by a robust factorization X ~ WH with a neighbour graph.

    Parameters
    ----------
    n_components : int, default=None
        Number of components, the k of ``mccgr factorize``. None: ``n_clusters``, or 8 if that is None too, but at most
        min(n_samples, n_features).
    method : {"mccgr", "mcc", "grnmf", "l2", "kl", "gdcls", "pg"}, default="mccgr"
        mccgr: correntropy loss and neighbour graph. mcc: correntropy loss. grnmf: squared error and graph. l2: squared
        error. kl: Kullback-Leibler divergence. gdcls: constrained least squares. pg: projected gradients.
    form : {"orthogonal", "paper"}, default=None
        Form of the graph term. orthogonal: components are clusters. paper: as in the paper, components may overlap.
        None: paper with the solver coordinate, otherwise orthogonal.
    strength : float, default=10.0
        Weight of the neighbour graph. At 1 the graph and the data pull on a sample about equally.
    alpha : float, default=None
        Weight of the graph in absolute units, as in the paper. If given, ``strength`` is not used.
    keep : float, default=0.5
        Fraction of the explained variance that feature weighting must preserve. Lower values silence more features.
    theta : float, default=None
        Kernel width as a multiple of the mean error, as in the paper. If given, ``keep`` is not used.
    bandwidth : {"adaptive", "settle"} or float, default="adaptive"
        Kernel width sigma. adaptive: follows the errors. settle: follows them until it is stable. A number: fixed.
    solver : {"multiplicative", "coordinate"}, default="multiplicative"
        Algorithm for mccgr, mcc, grnmf and l2.
    init : {"auto", "graph", "merged", "nndsvd", "random"}, default="auto"
        Starting point: clusters of the neighbour graph (nndsvd if there is no graph), directly or by merging twice as
        many (auto: chosen without labels); singular vectors; random numbers.
    n_init : int, default=1
        Number of starts. The factors with the lowest objective are kept.
    max_iter : int, default=200
        Maximum number of iterations.
    tol : float, default=1e-3
        Stop when the relative change of the objective stays below this number for three iterations.
    ridge : float, default=1e-3
        Regularization of gdcls, relative to the size of the basis.
    normalize : {"auto", "none", "l1", "l2", "sqrt", "hellinger", "log", "tfidf"}, default="auto"
        Normalization of each row, as in ``mccgr factorize --help``.
    n_neighbors, weight, symmetry, metric, heat_width, axes, evenness, search, graph_features
        Settings of the neighbour graph, as in ``mccgr factorize --help``.
    n_clusters : int, default=None
        Number of clusters in ``labels_``. None: the number of components.
    assign_labels : {"max", "kmeans"}, default=None
        max: the component with the largest coefficient. kmeans: k-means on the coefficients. None: max for the
        orthogonal form, unless ``n_clusters`` is another number than ``n_components``; otherwise kmeans.
    kmeans_n_init : int, default=20
        Number of k-means runs. The tightest clusters are kept.
    on_step : callable, default=None
        Called with a :class:`mccgr_cli.Step` after every iteration.
    random_state : int, RandomState instance or None, default=0
        An int is the ``--seed`` of the command line. Unlike elsewhere in scikit-learn, the default is an int, so the
        same call gives the same result. None draws from numpy's global numbers, and a RandomState moves on.

    Attributes
    ----------
    components_ : ndarray of shape (n_components_, n_features_in_)
        The basis H.
    embedding_ : ndarray of shape (n_samples, n_components_)
        The coefficients W of the fitted samples, smoothed along the graph.
    labels_ : ndarray of shape (n_samples,)
        Clusters of ``embedding_``, as ``mccgr cluster`` finds them.
    certainty_ : ndarray of shape (n_samples,) or None
        How certain it is that each sample belongs to its cluster, at most 1. None if there is only one cluster.
    outlier_scores_ : ndarray of shape (n_samples,)
        How isolated each sample is, relative to its neighbours: see ``score_outliers``.
    cluster_centers_ : ndarray of shape (n_clusters, n_components_)
        Mean of the coefficients from ``transform`` over the samples of each cluster.
    feature_weights_ : ndarray of shape (n_features_in_,)
        The weight rho of each feature, from 0 (silenced) to 1.
    graph_ : csr_array of shape (n_samples, n_samples) or None
        The weighted adjacency of the samples, if the method uses a graph.
    normalize_ : str
        How rows are normalized: ``normalize``, or what was chosen.
    idf_ : ndarray of shape (n_features_in_,) or None
        Inverse document frequencies, for the normalization tfidf.
    alpha_ : float
        The weight of the graph in absolute units; 0 without a graph.
    n_components_, n_features_in_, n_iter_ : int
        Number of components, features and iterations.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the features, if X has names that are all strings.
    converged_ : bool
        Whether ``tol`` was reached. Stopping at ``max_iter`` does not harm clusters, so there is no warning. A
        ConvergenceWarning says that all features were silenced, so that nothing was fitted.
    history_ : dict of str to ndarray
        objective, data, graph, sigma and seconds, at the start and after every iteration.
    reconstruction_err_ : float
        Frobenius norm of X - ``embedding_`` @ ``components_``, for normalized rows.

    Notes
    -----
    ``transform`` computes the coefficients that fit each sample best on the learnt basis. It does not use the graph,
    because only the samples of ``fit`` have one. So the result for a sample does not depend on the other samples, and
    ``fit_transform(X)`` equals ``fit(X).transform(X)``: the next step of a pipeline is trained on the same kind of
    coefficients that it gets later. ``embedding_`` has the coefficients that are smoothed along the graph. Clusters are
    better found from those, as ``labels_`` and ``fit_predict`` do.

    Examples
    --------
    >>> import numpy as np
    >>> from mccgr_cli import MCCGR
    >>> X = np.kron(np.eye(2), np.ones((6, 3))) + np.random.default_rng(0).random((12, 6)) / 10
    >>> MCCGR(n_components=2).fit_predict(X).tolist() in ([0] * 6 + [1] * 6, [1] * 6 + [0] * 6)
    True
    """

    components_: Array
    embedding_: Array
    labels_: Array
    certainty_: Array | None
    outlier_scores_: Array
    cluster_centers_: Array
    feature_weights_: Array
    graph_: factorization.Graph | None
    alpha_: float
    normalize_: str
    idf_: Array | None
    n_components_: int
    n_features_in_: int
    n_iter_: int
    feature_names_in_: Array
    converged_: bool
    history_: dict[str, Array]
    reconstruction_err_: float
    _landmarks: Landmarks
    _density: Density | None

    def __init__(
        self,
        n_components: int | None = None,
        *,
        method: str = Settings.method,
        form: str | None = Settings.form,
        strength: float = Settings.strength,
        alpha: float | None = Settings.alpha,
        keep: float = Settings.keep,
        theta: float | None = Settings.theta,
        bandwidth: str | float = Settings.bandwidth,
        solver: str = Settings.solver,
        init: str = Settings.init,
        n_init: int = Settings.restarts,
        max_iter: int = Settings.iterations,
        tol: float = Settings.tolerance,
        ridge: float = Settings.ridge,
        normalize: str = RowSettings.normalize,
        n_neighbors: int | None = GraphSettings.neighbors,
        weight: str = GraphSettings.weight,
        symmetry: str = GraphSettings.symmetry,
        metric: str | None = GraphSettings.metric,
        heat_width: float | None = GraphSettings.heat_width,
        axes: int | None = GraphSettings.axes,
        evenness: float | None = GraphSettings.evenness,
        search: str = GraphSettings.search,
        graph_features: str = GraphSettings.graph_features,
        n_clusters: int | None = None,
        assign_labels: str | None = ClusterSettings.assign,
        kmeans_n_init: int = ClusterSettings.restarts,
        on_step: Callable[[Step], None] | None = None,
        random_state: int | np.random.RandomState | None = Settings.seed,
    ) -> None:
        parameters = dict(locals())
        del parameters["self"]
        self.__dict__.update(parameters)

    @classmethod
    def from_preset(cls, name: str, **parameters: Any) -> Self:
        """An estimator with the defaults of ``mccgr factorize --preset``: ``MCCGR.from_preset("paper", tol=1e-4)``."""
        if name not in PRESETS:
            raise ArgumentError("name", f"{name!r} is not a preset", f"choose one of {', '.join(PRESETS)}")
        preset = {PARAMETERS.get(option, option): value for option, value in PRESETS[name].items()}
        for option, setting in settings_of(Settings).items():
            if setting.instead_of in parameters:
                preset.pop(option, None)
        return cls(**{**preset, **parameters})

    def fit(self, X: Any, y: Any = None, *, graph: Any = None) -> Self:
        """Learn the basis and the weights of the features, and cluster the samples.

        X (n_samples, n_features) is dense or sparse, and non-negative. It is not changed. ``graph``, an adjacency
        (n_samples, n_samples), is used instead of building one.
        """
        X = self._checked(X, fitting=True)
        with as_arguments(CLUSTER_PARAMETERS):
            values = {option: getattr(self, parameter) for option, parameter in CLUSTER_PARAMETERS.items()}
            clusters = checked(ClusterSettings, {**values, "seed": 0})
            stages.check_clusters(clusters.k or 1, clusters.assign, X.shape[0])
        with as_arguments(PARAMETERS):
            values = self.get_params(deep=False)
            values |= {option: values[parameter] for option, parameter in PARAMETERS.items()}
            if values["k"] is None:
                values["k"] = min(*X.shape, self.n_clusters or DEFAULT_COMPONENTS)
            if not isinstance(self.random_state, Integral):
                values["seed"] = check_random_state(self.random_state).randint(np.iinfo(np.int32).max)
            settings, graph_settings = checked(Settings, values), checked(GraphSettings, values)
            if clusters.assign == "max" and clusters.k not in (None, settings.k):
                raise ArgumentError("n_clusters", f"the {settings.k} components are the clusters", "leave it out")
            rows_as = checked(RowSettings, {**values, "dtype": None})
            rows, settled = settled_rows(X, settings, graph_settings, rows_as, graph)
            self.normalize_, self.idf_ = settled.normalize, settled.idf
            factors, self.graph_ = run(rows, settled.settings, settled.graph, graph, None, self.on_step)
        k = clusters.k or settings.k
        are_clusters = self.graph_ is not None and settings.is_orthogonal and k == settings.k
        assign = clusters.assign or stages.assignment_of(are_clusters)
        self.labels_ = stages.assign_clusters(factors.W, k, assign, clusters.restarts, settings.seed)
        self.certainty_, _ = certainty_of(below_one(factors.W)[0], self.labels_, assign)
        self.embedding_, self.components_, self.feature_weights_ = factors.W, factors.H, factors.rho
        self.n_components_, self.n_iter_, self.alpha_ = settings.k, factors.iterations, factors.alpha
        self.converged_, self.history_ = factors.converged, factors.history
        self._landmarks = learn_landmarks(blocks_of(rows), factors.rho, settings.k, settled.graph.evenness)
        self._density, self.outlier_scores_ = learn_density(blocks_of(rows), self._landmarks, settings.k)
        seen = self._coefficients(rows)  # the same way as for new samples
        members = [self.labels_ == label for label in np.unique(self.labels_)]
        self.cluster_centers_ = np.array([seen[one].mean(axis=0) for one in members])
        self.reconstruction_err_ = float(np.sqrt(squared_errors(blocks_of(rows), factors.W, factors.H).sum()))
        if factors.rho.max() < SILENCED:
            missing = in_python(why_not_converged(factors, settings) or "", PARAMETERS)
            warnings.warn(f"MCCGR: {missing}", ConvergenceWarning, stacklevel=2)
        return self

    def fit_predict(self, X: Any, y: Any = None, **fit_params: Any) -> Array:
        """Fit, and return ``labels_``."""
        return self.fit(X, **fit_params).labels_

    def transform(self, X: Any) -> Array:
        """Coefficients (n_samples, n_components_) of new samples on the learnt basis, as ``mccgr transform``."""
        check_is_fitted(self)
        return self._coefficients(self._rows(X))

    def inverse_transform(self, X: Any) -> Array:
        """From coefficients (n_samples, n_components_) back to normalized rows.

        Normalization removes the size of a row. The coefficients do not contain it, so it cannot be restored.
        """
        check_is_fitted(self)
        W = X.toarray() if sparse.issparse(X) else np.asarray(X)
        if W.ndim != 2 or W.shape[1] != self.n_components_:
            raise ArgumentError("X", f"shape {W.shape}", f"coefficients have {self.n_components_} columns")
        return np.asarray(W @ self.components_)

    def predict(self, X: Any) -> Array:
        """The cluster of new samples, as ``mccgr predict``: that of the most similar fitted samples.

        The 5 nearest vote, and near ones count more. Silenced features do not count. Fitted samples keep ``labels_``,
        if equal samples have equal labels (of more than 100,000 samples, only 100,000 vote; others may change cluster).
        """
        check_is_fitted(self)
        return self._landmarks.predict(blocks_of(self._rows(X)), self.labels_)[0]

    def score_outliers(self, X: Any) -> Array:
        """The outlier scores of new samples, as ``mccgr predict``; fitted samples keep their ``outlier_scores_``.

        A score is the local outlier factor (Breunig et al. 2000): 1 if a sample is as isolated as its neighbours among
        the fitted samples, 2 if it is twice as isolated.
        """
        check_is_fitted(self)
        return score_new(blocks_of(self._rows(X)), self._landmarks, self._density)

    def score(self, X: Any, y: Any = None) -> float:
        """How well features are predicted from the other features: 1 - |X - Y|^2 / |X|^2, at most 1.

        One fifth of the features is hidden at a time. Y is the prediction of the basis from the coefficients that fit
        the other features best (bi-cross-validation; A. B. Owen, P. O. Perry: Annals of Applied Statistics 3(2), 2009).
        So more components score higher only if they find common structure. All features count equally. Scores of
        different ``normalize`` cannot be compared, because they are about normalized rows.
        """
        check_is_fitted(self)
        rows = self._rows(X, some=True)
        order = np.random.default_rng(0).permutation(rows.shape[1])
        if len(order) == 1:
            return 0.0  # there is no other feature
        missed = 0.0
        for hidden in np.array_split(order, min(FOLDS, len(order))):
            seen = np.setdiff1d(order, hidden)
            W = self._coefficients(rows[:, seen], seen)
            missed += squared_errors(blocks_of(rows[:, hidden]), W, self.components_[:, hidden]).sum()
        return float(1 - missed / moments(blocks_of(rows)).squares.sum())

    def _checked(self, X: Any, fitting: bool, some: bool = True) -> Matrix:
        with as_arguments():
            require_sound(X, "X")
        X = validate_data(self, X, reset=fitting, accept_sparse="csr", dtype=(np.float64, np.float32), order="C")
        values = X.data if sparse.issparse(X) else X
        where = "Negative values in data passed to MCCGR" if values.min(initial=0) < 0 else "X"
        with as_arguments():
            return as_matrix(X, where, some)

    def _rows(self, X: Any, some: bool = False) -> Matrix:
        """New samples, normalized as in ``fit``."""
        return prepare(self._checked(X, fitting=False, some=some), self.normalize_, self.idf_)

    def _coefficients(self, rows: Matrix, features: Any = slice(None)) -> Array:
        return transform(blocks_of(rows), self.components_[:, features], self.feature_weights_[features], self.method)

    @property
    def _n_features_out(self) -> int:
        return self.n_components_

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        # A clusterer, but not a ClusterMixin: scikit-learn tests those with negative values.
        tags.estimator_type = "clusterer"
        tags.input_tags.positive_only = True
        tags.input_tags.sparse = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags
