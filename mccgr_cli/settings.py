"""What can be chosen, and what is chosen by default: plain values that load at once."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from typing import Any, TypeVar

from mccgr_cli.errors import ParameterError

METHODS = ("mccgr", "mcc", "grnmf", "l2", "kl", "gdcls", "pg")
BASELINES = ("k-means", "k-means-weighted")  # on X, and on X with the weights that mcc learns
SOLVERS = ("multiplicative", "coordinate")
BANDWIDTHS = ("adaptive", "settle")
INITS = ("graph", "nndsvd", "random")
NORMALIZATIONS = ("none", "l1", "l2", "sqrt", "hellinger")
GRAPH_FEATURES = ("explained", "weighted", "plain")
WEIGHTS = ("shared", "binary", "heat", "histogram", "cosine")
SYMMETRIES = ("union", "mutual")
METRICS = ("euclidean", "cosine", "histogram")
SEARCHES = ("auto", "exact", "approximate")
ASSIGNMENTS = ("kmeans", "max")
DETECTORS = ("dense", "keypoints")
LARGEST_RADIUS = 10_000
FIGURE_FORMATS = ("svg", "png", "pdf")
ORDERS = ("C", "F")
EXPORTED = ("W", "H", "assignments", "rho", "X", "A")

SCORES = ("accuracy", "nmi", "ari", "purity")
SWEPT = ("alpha", "strength", "theta", "keep", "neighbors", "weight", "normalize")  # several values in an experiment

# What a history records of every iteration, and the weight below which a feature counts as silenced.
HISTORY = ("objective", "data", "graph", "sigma", "seconds")
SILENCED = 0.01


@dataclass(frozen=True)
class FigureType:
    """A figure that ``mccgr plot`` draws."""

    drawn_by: str  # module and function of output.plots
    kinds: tuple[str, ...]  # of files that it can be drawn from
    of_several: bool = False  # files beside each other


FIGURES = {
    "convergence": FigureType("curves.convergence", ("factors", "clusters"), of_several=True),
    "weights": FigureType("curves.weights", ("factors", "clusters")),
    "basis": FigureType("factors.basis", ("factors", "clusters")),
    "embedding": FigureType("factors.embedding", ("factors", "clusters")),
    "scores": FigureType("results.scores", ("results",)),
    "sweep": FigureType("results.sweep", ("results",)),
    "iterations": FigureType("results.iterations", ("results",)),
    "criteria": FigureType("ranks.criteria", ("ranks",)),
}


@dataclass(frozen=True)
class ExportFormat:
    """A format that ``mccgr export`` writes."""

    written_by: str  # module and function of output.export
    holds_all: bool = False  # or one dataset, chosen by --what
    is_text: bool = False
    takes_others: bool = False  # --matrix and --graph


EXPORT_FORMATS = {
    "csv": ExportFormat("text.as_csv", is_text=True),
    "tsv": ExportFormat("text.as_tsv", is_text=True),
    "npy": ExportFormat("arrays.as_npy"),
    "npz": ExportFormat("arrays.as_npz", holds_all=True),
    "mat": ExportFormat("arrays.as_mat", holds_all=True, takes_others=True),
    "mtx": ExportFormat("text.as_mtx", is_text=True),
    "h5ad": ExportFormat("h5ad.as_h5ad", holds_all=True, takes_others=True),
}


@dataclass(frozen=True)
class Settings:
    """How to factorize."""

    k: int
    method: str = "mccgr"
    strength: float = 100.0  # of the graph, in units of the data
    alpha: float | None = None  # the same in absolute units, instead
    keep: float = 0.5  # share of what the factors explain that the weights of the features leave
    theta: float | None = None  # width of the kernel in mean errors, instead
    bandwidth: str | float = "adaptive"  # or "settle", or sigma itself
    solver: str = "multiplicative"  # of mccgr, mcc, grnmf and l2
    iterations: int = 200
    tolerance: float = 1e-3
    init: str = "graph"  # its parts; without a graph, singular vectors
    restarts: int = 1
    seed: int = 0
    ridge: float = 1e-3  # of gdcls


@dataclass(frozen=True)
class GraphSettings:
    """Which samples are neighbours, and what an edge between them weighs."""

    neighbors: int = 5
    weight: str = (
        "shared"  # shared: by common neighbours, binary: 1, heat: exp(-d^2 / 2t^2), histogram: sum of minima, cosine
    )
    symmetry: str = "union"  # union: either is the other's neighbour; mutual: both are
    metric: str | None = None  # of the search; by default cosine for cosine weights, else euclidean
    heat_width: float | None = None  # t; by default the mean distance between samples
    axes: int | None = None  # principal axes to compare samples on; 0: compare them as they are; None: axes_for
    search: str = "auto"  # exact, or approximate where samples are many
    graph_features: str = "explained"  # by what parts explain of them, by rho, or all alike

    def __post_init__(self) -> None:
        if self.metric == "histogram" and self.axes:
            what = "coordinates on axes may be below 0, and have no histogram intersection"
            raise ParameterError("--metric histogram", what, "leave --axes out, or give 0")

    def axes_for(self, k: int = 0) -> int:
        """On how many principal axes samples are compared, to tell k components apart."""
        if self.axes is None and self.metric != "histogram":
            return axes_for(k)
        return self.axes or 0


def axes_for(k: int = 0) -> int:
    """How many principal axes tell k components apart."""
    return max(50, 4 * k)


NORMALIZATION = "hellinger"
CLUSTER_RESTARTS = 20  # of k-means, when it clusters the coefficients once


@dataclass(frozen=True)
class Bounds:
    """The numbers that an option takes; by default all so far from the ends that their squares are finite too."""

    least: float = 1e-100
    most: float = 1e100
    whole: bool = False


def counted(least: int, most: float = math.inf) -> Bounds:
    return Bounds(least, most, whole=True)


# What may be chosen, by the names of the options.
NUMBERS = {
    "k": counted(1),
    "strength": Bounds(0, 1e30),
    "alpha": Bounds(0, 1e30),
    "keep": Bounds(0.01, 1),
    "theta": Bounds(),
    "bandwidth": Bounds(),
    "iterations": counted(0),
    "tolerance": Bounds(0, 1),
    "restarts": counted(1),
    "seed": counted(0, 2**32 - 1),
    "ridge": Bounds(1e-15, 1e15),
    "neighbors": counted(1),
    "heat_width": Bounds(),
    "axes": counted(0, 10_000),
}
WORDS = {
    "method": METHODS,
    "bandwidth": BANDWIDTHS,  # or a number
    "solver": SOLVERS,
    "init": INITS,
    "weight": WEIGHTS,
    "symmetry": SYMMETRIES,
    "metric": METRICS,
    "search": SEARCHES,
    "graph_features": GRAPH_FEATURES,
    "normalize": NORMALIZATIONS,
    "assign": ASSIGNMENTS,
}
# Two ways to say the same: the paper's, in the units of the data, and one without units.
ALTERNATIVES = (("alpha", "strength"), ("theta", "keep"))
# Other defaults that come together, by the names of the options.
PRESETS: dict[str, dict[str, Any]] = {
    "paper": {
        "normalize": "none",
        "alpha": 100.0,
        "theta": 1.0,
        "bandwidth": "adaptive",
        "solver": "multiplicative",
        "iterations": 200,
        "tolerance": 1e-5,
        "init": "random",
        "weight": "binary",
        "axes": 0,
        "graph_features": "plain",
    }
}


Chosen = TypeVar("Chosen", Settings, GraphSettings)


def by_preset(name: str, kind: type[Chosen], **given: Any) -> Chosen:
    """Settings with the defaults of a preset."""
    known = {field.name for field in fields(kind)}
    return kind(**{**{name: value for name, value in PRESETS[name].items() if name in known}, **given})


@dataclass(frozen=True)
class Description:
    """How an image is described. Words stand for descriptors that were made in one of these ways."""

    detector: str = "dense"
    step: int = 10  # pixels between the points of the dense grid
    radii: tuple[int, ...] = (4, 8, 12, 16)  # pixels from the centre of a patch to its side
    min_contrast: float = 1.0  # of a patch, as a slope in grey levels a pixel; weaker ones are left out
    max_size: int = 500  # pixels of an image's longer side, to which larger ones are scaled down; 0: any
    root_sift: bool = False  # compare descriptors by their square roots
    soft: bool = False  # share a descriptor among the words that are near it


@dataclass(frozen=True)
class Learning:
    """How visual words are learnt."""

    words: tuple[int, ...] = (300,)  # for each of these a codebook
    sample: int = 200_000  # descriptors to learn from, from all images together
    descriptors_per_image: int | None = None  # of these, at most so many from one image
    seed: int = 0


@dataclass(frozen=True)
class Drawing:
    """How a figure is drawn."""

    title: str | None = None
    size: tuple[float, float] | None = None  # width and height in inches; by default what suits the figure
    shape: tuple[int, int] | None = None  # height and width in pixels of the images in a basis
    order: str = "C"  # of their pixels: C: row by row, F: column by column
