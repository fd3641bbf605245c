"""Figures, export formats, scores and criteria of ``mccgr rank``: one table each, which several folders share.

A new figure, format or criterion begins with a line here. Plain values that load at once.
"""

from __future__ import annotations

from dataclasses import dataclass

SCORES = ("accuracy", "nmi", "ari", "purity")
HISTORY = ("objective", "data", "graph", "sigma", "seconds")  # recorded in every iteration
SILENCED = 0.01  # a feature with a smaller weight counts as silenced
OUTLIER = 1.5  # a sample with at least this score is much more isolated than its neighbours
FIGURE_FORMATS = ("svg", "png", "pdf")
TOP_OF = ("clusters", "components")  # groups whose top features are listed
TOP_BY = ("score", "share")  # orders of top features
EXPORTED = ("W", "H", "assignments", "rho", "X", "A")  # parts of files that can be exported alone


@dataclass(frozen=True)
class FigureType:
    """A figure that ``mccgr plot`` draws."""

    drawn_by: str  # module and function of output.plots
    kinds: tuple[str, ...]  # of files that it can be drawn from
    of_several: bool = False  # files beside each other
    takes_matrix: bool = False  # the matrix that the file was made from


FIGURES = {
    "convergence": FigureType("curves.convergence", ("factors", "clusters"), of_several=True),
    "weights": FigureType("curves.weights", ("factors", "clusters")),
    "basis": FigureType("factors.basis", ("factors", "clusters")),
    "embedding": FigureType("factors.embedding", ("factors", "clusters")),
    "dots": FigureType("dots.dots", ("factors", "clusters"), takes_matrix=True),
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
class RankCriterion:
    """One criterion of ``mccgr rank``."""

    name: str  # of its column in a ranks file
    heading: str  # of its column in a table
    panel: str  # of the figure that shows it
    label: str  # in this panel
    has_error: bool = False  # whether the column NAME_error has its standard errors

    def headings(self) -> dict[str, str]:
        """The headings of its columns, by the names of the columns."""
        return {self.name: self.heading, **({f"{self.name}_error": "±"} if self.has_error else {})}


RANK_CRITERIA = (
    RankCriterion("reproducibility", "least cluster", "reproducible", "least cluster", has_error=True),
    RankCriterion("agreement", "agreement", "reproducible", "agreement (ARI)"),
    RankCriterion("cophenetic", "cophenetic", "consensus", "cophenetic correlation"),
    RankCriterion("dispersion", "dispersion", "consensus", "dispersion"),
    RankCriterion("heldout", "held-out error", "held-out error", "of hidden entries", has_error=True),
    RankCriterion("silhouette", "silhouette", "silhouette", "silhouette"),
)
# The columns of a ranks file with their headings: the number of components, its distinct runs, then the criteria.
RANK_HEADINGS = {"k": "k", "runs": "runs"}
RANK_HEADINGS |= {name: text for criterion in RANK_CRITERIA for name, text in criterion.headings().items()}
RANK_DECIMALS = 3  # of these values, in the table and in the reasons
