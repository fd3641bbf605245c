"""Every setting: its default, the values it takes, and its help text.

The options of the command line, the arguments in Python and the checks of both follow from the dataclasses here, so a
default or a help text is changed in this file only. Plain values that load at once: no numpy, no click.
"""

from __future__ import annotations

from dataclasses import MISSING, dataclass, field
from typing import Any, TypeVar

from mccgr_cli.errors import ParameterError
from mccgr_cli.fields import (
    Bounds,
    basic_option,
    cluster_option,
    graph_option,
    method_option,
    settings_of,
    solver_option,
    whole,
)

METHODS = ("mccgr", "mcc", "grnmf", "l2", "kl", "gdcls", "pg")
BASELINES = ("k-means", "k-means-weighted")  # on X, and on X with the feature weights that mcc learns
ORTHOGONAL = "orthogonal"
FORMS = (ORTHOGONAL, "paper")
SOLVERS = ("multiplicative", "coordinate")
BANDWIDTHS = ("adaptive", "settle")
AUTO = "auto"
INITS = (AUTO, "graph", "merged", "nndsvd", "random")
NEIGHBORS = (5, 20)  # of which one is chosen, if the user names no number
FEW_SAMPLES = 50_000  # up to which more than the least neighbours may be chosen: the graph of many samples is large
TFIDF = "tfidf"
NORMALIZATIONS = ("none", "l1", "l2", "sqrt", "hellinger", "log", TFIDF)
PRECISIONS = ("float32", "float64")
GRAPH_FEATURES = ("explained", "weighted", "plain")
WEIGHTS = ("heat", "shared", "binary", "histogram", "cosine")
SYMMETRIES = ("union", "mutual")
METRICS = ("euclidean", "cosine", "histogram")
SEARCHES = ("auto", "exact", "approximate")
ASSIGNMENTS = ("max", "kmeans")
ORDERS = ("C", "F")
K = ("-k", "--k")  # names of the option


@dataclass(frozen=True)
class Settings:
    """How to factorize X ~ WH."""

    k: int = basic_option(MISSING, "Number of components (clusters).", values=whole(1), flags=K)
    method: str = basic_option(
        "mccgr",
        "mccgr: correntropy loss and neighbour graph. mcc: correntropy loss. grnmf: squared error and graph. l2: "
        "squared error. kl: Kullback-Leibler divergence. gdcls: squared error by regularized least squares. pg: "
        "squared error by projected gradients.",
        values=METHODS,
    )
    strength: float = method_option(
        10.0,
        "Weight of the neighbour graph, without units. 1: the graph counts about as much as the data. 100: the graph "
        "dominates. For mccgr and grnmf.",
        values=Bounds(0, 1e30),
    )
    alpha: float | None = method_option(
        None,
        "Weight of the graph as in the paper; its effect depends on the scale of the data. Replaces --strength: give "
        "only one of the two.",
        values=Bounds(0, 1e30),
        instead_of="strength",
    )
    form: str | None = method_option(
        None,
        "Form of the graph term. orthogonal: every sample belongs mostly to one component, so that components are "
        "clusters. paper: as in the paper, where components may overlap. For mccgr and grnmf.",
        values=FORMS,
        default_text="paper with --solver coordinate, otherwise orthogonal",
    )
    keep: float = method_option(
        0.5,
        "Fraction of the explained variance that feature weighting must preserve, from 0.01 to 1. Lower values silence "
        "more features. It sets the kernel width sigma. For mccgr and mcc.",
        values=Bounds(0.01, 1),
        metavar="FRACTION",
    )
    theta: float | None = method_option(
        None,
        "Sets the kernel width sigma from this number and the mean error, as in the paper. Features with errors much "
        "above the mean get small weights. Replaces --keep: give only one of the two.",
        values=Bounds(),
        instead_of="keep",
    )
    bandwidth: str | float = method_option(
        "adaptive",
        "When the kernel width sigma is computed from --keep or --theta. adaptive: in every iteration, as in the "
        "paper. settle: in every iteration until it is stable. A number: sigma is this number, and --keep and --theta "
        "have no effect.",
        values=BANDWIDTHS,
        or_number=Bounds(),
        metavar=f"[{'|'.join(BANDWIDTHS)}|SIGMA]",
    )
    solver: str = solver_option(
        "multiplicative",
        "Algorithm for mccgr, mcc, grnmf and l2. multiplicative: the updates of the paper. coordinate: coordinate "
        "descent, which reaches the same objective in far fewer iterations.",
        values=SOLVERS,
    )
    iterations: int = solver_option(200, "Maximum number of iterations.", values=whole(0))
    tolerance: float = solver_option(
        1e-3,
        "Stop when the relative change of the objective stays below this number for three iterations.",
        values=Bounds(0, 1),
    )
    init: str = solver_option(
        AUTO,
        "Starting point. graph: k clusters of the neighbour graph. merged: 2k clusters of the graph, merged until k "
        "are left; better where clusters are clearly separated and of very different size. auto: graph or merged, "
        "chosen without labels (nndsvd if there is no graph). nndsvd: computed from the singular value decomposition. "
        "random: random numbers.",
        values=INITS,
    )
    restarts: int = solver_option(
        1,
        "Number of runs from different starting points. The factors with the lowest objective are kept.",
        values=whole(1),
    )
    seed: int = basic_option(
        0,
        "Seed of the random numbers. The same seed gives the same result.",
        values=whole(0, 2**32 - 1),
    )
    ridge: float = solver_option(
        1e-3,
        "Regularization of gdcls, relative to the mean squared length of a component. Only for gdcls.",
        values=Bounds(1e-15, 1e15),
    )

    @property
    def starts_from_graph(self) -> bool:
        """Whether the starting point consists of clusters of the graph, if there is one."""
        return self.init in (AUTO, "graph", "merged")

    @property
    def is_orthogonal(self) -> bool:
        """Whether the graph term, if there is one, has the orthogonal form."""
        return (self.form or ("paper" if self.solver == "coordinate" else "orthogonal")) == ORTHOGONAL


@dataclass(frozen=True)
class GraphSettings:
    """Which samples are neighbours, and the weight of an edge between them."""

    neighbors: int | None = graph_option(
        None,
        "Nearest neighbours of each sample.",
        values=whole(1),
        default_text="5, or 20 where clusters then hold together clearly better",
    )
    weight: str = graph_option(
        "heat",
        "Weight of an edge. heat: exp(-distance^2 / 2t^2). shared: fraction of neighbours that both samples have in "
        "common. binary: 1. histogram: histogram intersection. cosine: cosine similarity.",
        values=WEIGHTS,
    )
    symmetry: str = graph_option(
        "union",
        "union: connect two samples if either is a neighbour of the other. mutual: connect them only if both are.",
        values=SYMMETRIES,
    )
    metric: str | None = graph_option(
        None,
        "Distance of the neighbour search. histogram: histogram intersection of the rows, without principal "
        "components.",
        values=METRICS,
        default_text="cosine with --weight cosine, otherwise euclidean",
    )
    heat_width: float | None = graph_option(
        None,
        "Width t of --weight heat.",
        values=Bounds(),
        metavar="T",
        default_text="mean distance between samples",
    )
    axes: int | None = graph_option(
        None,
        "Number of principal components used to find neighbours. 0: use the rows themselves.",
        values=whole(0, 10_000),
        default_text="0 with --metric histogram; otherwise 50, or 4 times --k if that is more",
    )
    evenness: float | None = graph_option(
        None,
        "How much the lengths of the principal components are evened out before neighbours are searched. 0: they keep "
        "their lengths, so that the largest differences between samples count most. 1: all count equally.",
        values=Bounds(0, 1),
        metavar="FRACTION",
        default_text="0.1 or 0.5, whichever gives clusters that hold together better",
    )
    search: str = graph_option(
        "auto",
        "exact: find all nearest neighbours. approximate: find nearly all of them, much faster; needs faiss (pip "
        "install 'mccgr-cli[neighbours]'). auto: exact for up to 50,000 samples; for more, approximate if faiss is "
        "installed.",
        values=SEARCHES,
    )
    graph_features: str = graph_option(
        "explained",
        "Which features count when neighbours are searched. Only for the method mccgr. plain: all features equally. "
        "weighted: noisy features count less; the weights come from a short factorization without a graph. explained: "
        "build the plain graph, cluster it, then build the graph again from the features that differ between these "
        "clusters.",
        values=GRAPH_FEATURES,
    )

    def __post_init__(self) -> None:
        if self.metric == "histogram" and self.axes:
            what = "principal components have negative values, and those have no histogram intersection"
            raise ParameterError("--metric histogram", what, "leave --axes out, or give 0")

    def most_neighbors(self, samples: int) -> int:
        """The number of neighbours, or the largest that may be chosen."""
        return self.neighbors or NEIGHBORS[-1 if samples <= FEW_SAMPLES else 0]

    def axes_for(self, k: int = 0) -> int:
        """Number of principal components on which samples are compared to find k clusters."""
        if self.axes is None and self.metric != "histogram":
            return axes_for(k)
        return self.axes or 0


def axes_for(k: int = 0) -> int:
    """Number of principal components that can separate k clusters."""
    return max(50, 4 * k)


@dataclass(frozen=True)
class RowSettings:
    """What happens to the rows of X before the factorization."""

    normalize: str = basic_option(
        AUTO,
        "Normalization of each row. auto: none, sqrt, hellinger or log, whichever gives clusters that hold together "
        "best. none: values as they are. l1: sum 1. l2: length 1. sqrt: square root of every "
        "value. hellinger: l1, then sqrt. log: mean 10, then log(1 + x). tfidf: for word counts; repeated words and "
        "words of many texts count less, then l2.",
        values=(AUTO, *NORMALIZATIONS),
    )
    dtype: str | None = solver_option(
        None,
        "Precision of the computation.",
        values=PRECISIONS,
        default_text="float32 if the input is float32, otherwise float64",
    )


@dataclass(frozen=True)
class ClusterSettings:
    """How coefficients, or the rows of a matrix, become clusters."""

    k: int | None = basic_option(
        None,
        "Number of clusters.",
        values=whole(1),
        flags=K,
        default_text="number of components of FACTORS; required for a matrix",
    )
    assign: str | None = cluster_option(
        None,
        "max: the component with the largest coefficient. kmeans: k-means on the coefficients.",
        values=ASSIGNMENTS,
        default_text="max if FACTORS has --form orthogonal and --k is not another number, otherwise kmeans",
    )
    restarts: int = cluster_option(20, "Number of k-means runs. The tightest clusters are kept.", values=whole(1))
    seed: int = field(default=0, metadata=Settings.__dataclass_fields__["seed"].metadata)


@dataclass(frozen=True)
class Drawing:
    """How a figure is drawn."""

    title: str | None = basic_option(None, "Title of the figure.", metavar="TEXT", default_text="none")
    size: tuple[float, float] | None = basic_option(
        None, "Size in inches.", metavar="WIDTHxHEIGHT", default_text="depends on the figure"
    )
    shape: tuple[int, int] | None = basic_option(
        None,
        "Size of the images in --figure basis, in pixels, height first.",
        metavar="HEIGHTxWIDTH",
        default_text="square, if the number of features is a square number",
    )
    order: str = basic_option(
        "C",
        "Order of the pixels in --figure basis. C: row by row. F: column by column, as in many MATLAB files.",
        values=ORDERS,
    )
    count: int | None = basic_option(
        None,
        "Maximum number of features of each cluster in --figure dots.",
        values=whole(1),
        default_text="5, and fewer if there are more than 9 clusters",
    )


# Settings that are chosen together by --preset, instead of their defaults.
PRESETS: dict[str, dict[str, Any]] = {
    "paper": {
        "normalize": "none",
        "form": "paper",
        "alpha": 100.0,
        "theta": 1.0,
        "bandwidth": "adaptive",
        "solver": "multiplicative",
        "iterations": 200,
        "tolerance": 1e-5,
        "init": "random",
        "neighbors": 5,
        "weight": "binary",
        "axes": 0,
        "graph_features": "plain",
    }
}
SWEPT = ("alpha", "strength", "theta", "keep", "neighbors", "weight", "normalize")  # an experiment takes several values

Kind = TypeVar("Kind")


def by_preset(preset: str, kind: type[Kind], **chosen: Any) -> Kind:
    """Settings with the values of a preset instead of the defaults."""
    known = settings_of(kind)
    return kind(**{**{name: value for name, value in PRESETS[preset].items() if name in known}, **chosen})
