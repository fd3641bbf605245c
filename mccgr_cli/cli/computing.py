"""Options that say what is computed, as decorators: the method, its course, the graph, and the clusters."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from mccgr_cli.cli.options import Function, stack
from mccgr_cli.cli.types import FILE, Bandwidth, Several, Whole, number
from mccgr_cli.settings import (
    ASSIGNMENTS,
    BANDWIDTHS,
    GRAPH_FEATURES,
    INITS,
    METHODS,
    METRICS,
    NORMALIZATION,
    NORMALIZATIONS,
    PRESETS,
    SEARCHES,
    SOLVERS,
    SYMMETRIES,
    WEIGHTS,
    GraphSettings,
    Settings,
)

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem


def sweep(name: str, default: object, one: Any, about: str) -> Callable[[Function], Function]:
    """An option of another command, of which several values can be given."""
    return click.option(
        name,
        type=Several(one),
        metavar=f"{'NAME' if isinstance(one, click.Choice) else 'NUMBER'},...",
        default=None if default is None else str(default),
        show_default=default is not None,
        help=about,
    )


def normalization(default: str) -> Callable[[Function], Function]:
    return click.option(
        "--normalize",
        type=click.Choice(NORMALIZATIONS),
        default=default,
        show_default=True,
        help="Rows to unit sum (l1) or unit length (l2); the square root of every value (sqrt), after l1 (hellinger).",
    )


def take_preset(ctx: click.Context, param: click.Parameter, value: str | None) -> None:
    """Let the preset's values stand in for those that are not given."""
    if value is not None:
        ctx.default_map = {**(ctx.default_map or {}), **PRESETS[value]}


preset = click.option(
    "--preset",
    type=click.Choice(list(PRESETS)),
    is_eager=True,
    expose_value=False,
    callback=take_preset,
    help="Other defaults. paper: "
    + ", ".join(f"--{name.replace('_', '-')} {value}" for name, value in PRESETS["paper"].items())
    + ".",
)

preprocessing = stack(
    normalization(NORMALIZATION),
    click.option(
        "--dtype",
        type=click.Choice(["float32", "float64"]),
        help="Compute with this precision.  [default: float32 if MATRIX is, else float64]",
    ),
)


def complete_init(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    from click.shell_completion import CompletionItem

    words = [CompletionItem(word) for word in INITS if word.startswith(incomplete)]
    return words or [CompletionItem(incomplete, type="file")]


def start(files: bool) -> Callable[[Function], Function]:
    """Where to start; ``files``: from the factors in a file too."""
    if files:
        places = (
            "the parts that the graph falls into (without a graph: nndsvd), singular vectors, random numbers, "
            "or the factors in a file."
        )
        kind: dict[str, Any] = {"type": FILE, "metavar": f"[{'|'.join(INITS)}|FILE]", "shell_complete": complete_init}
    else:
        places = "the parts that the graph of mccgr falls into, singular vectors, or random numbers."
        kind = {"type": click.Choice(INITS)}
    kind["help"] = f"Where to start: {places}"
    return click.option("--init", default=Settings.init, show_default=True, **kind)


course = stack(
    click.option(
        "--solver",
        type=click.Choice(SOLVERS),
        default=Settings.solver,
        show_default=True,
        help="How mccgr, mcc, grnmf and l2 are minimized: by the paper's updates, or by coordinate steps, which reach "
        "the same objective in far fewer iterations.",
    ),
    click.option(
        "--bandwidth",
        type=Bandwidth(),
        metavar=f"[{'|'.join(BANDWIDTHS)}|SIGMA]",
        default=Settings.bandwidth,
        show_default=True,
        help="Whether sigma follows the errors throughout (the paper), until it has settled, or is given.",
    ),
    click.option(
        "--iterations",
        type=number("iterations"),
        metavar="N",
        default=Settings.iterations,
        show_default=True,
        help="Stop after so many.",
    ),
    click.option(
        "--tolerance",
        type=number("tolerance"),
        metavar="NUMBER",
        default=Settings.tolerance,
        show_default=True,
        help="Stop when the objective changes relatively by less, three times in a row.",
    ),
    click.option(
        "--restarts",
        type=number("restarts"),
        metavar="N",
        default=Settings.restarts,
        show_default=True,
        help="Start so many times and keep the factors with the lowest objective.",
    ),
    click.option(
        "--ridge",
        type=number("ridge"),
        metavar="NUMBER",
        default=Settings.ridge,
        show_default=True,
        help="Regularisation of gdcls, relative to the size of the basis.",
    ),
)

objective = stack(
    click.option(
        "--method",
        type=click.Choice(METHODS),
        default=Settings.method,
        show_default=True,
        help="mccgr: correntropy and graph; mcc: correntropy; grnmf: squared error and graph; l2: squared "
        "error; kl: Kullback-Leibler; gdcls: constrained least squares; pg: projected gradients.",
    ),
    click.option(
        "--strength",
        type=number("strength"),
        metavar="NUMBER",
        default=Settings.strength,
        show_default=True,
        help="Weight of the graph: at 1 it pulls at a sample about as much as the data do (mccgr, grnmf).",
    ),
    click.option(
        "--alpha",
        type=number("alpha"),
        metavar="NUMBER",
        help="The same in the paper's way, against the squares of the data; instead of --strength.",
    ),
    click.option(
        "--keep",
        type=number("keep"),
        metavar="SHARE",
        default=Settings.keep,
        show_default=True,
        help="Share of what the factors explain that the weights of the features leave: the smaller, the more are "
        "silenced (mccgr, mcc).",
    ),
    click.option(
        "--theta",
        type=number("theta"),
        metavar="NUMBER",
        help="The same in the paper's way, as the width of the kernel in mean errors; instead of --keep.",
    ),
)

solver = stack(
    click.option("--k", type=number("k"), metavar="N", required=True, help="Number of components."),
    objective,
    start(files=True),
    course,
)

graph_search = stack(
    click.option(
        "--symmetry",
        type=click.Choice(SYMMETRIES),
        default=GraphSettings.symmetry,
        show_default=True,
        help="Join two samples if either is a neighbour of the other, or only if both are.",
    ),
    click.option(
        "--metric",
        type=click.Choice(METRICS),
        help="How the search measures distance; histogram: by the histogram intersection of the rows, without --axes.  "
        "[default: cosine with --weight cosine, else euclidean]",
    ),
    click.option(
        "--search",
        type=click.Choice(SEARCHES),
        default=GraphSettings.search,
        show_default=True,
        help="Find the neighbours exactly, or nearly all of them in a fraction of the time; auto: exact up to 50,000 "
        "samples, approximate beyond if the extra 'neighbours' is installed.",
    ),
    click.option(
        "--heat-width",
        type=number("heat_width"),
        metavar="T",
        help="The t of --weight heat.  [default: the mean distance between samples]",
    ),
    click.option(
        "--axes",
        type=number("axes"),
        metavar="N",
        default=GraphSettings.axes,
        show_default="50, or 4 for each component if those are more",
        help="Seek neighbours on so many principal axes; 0: among the rows as they are.",
    ),
)

graph = stack(
    click.option(
        "--neighbors",
        type=number("neighbors"),
        metavar="N",
        default=GraphSettings.neighbors,
        show_default=True,
        help="Nearest neighbours that each sample is joined to.",
    ),
    click.option(
        "--weight",
        type=click.Choice(WEIGHTS),
        default=GraphSettings.weight,
        show_default=True,
        help="What an edge weighs: the share of neighbours that its ends have in common, 1, exp(-distance^2 / 2t^2), "
        "the histogram intersection or the cosine.",
    ),
    graph_search,
)

graph_features = click.option(
    "--graph-features",
    type=click.Choice(GRAPH_FEATURES),
    default=GraphSettings.graph_features,
    show_default=True,
    help="Seek neighbours (mccgr) by all features alike, by features with the weights that the loss gives them, or, "
    "from the parts of that graph, once more by the features that differ between its parts.",
)


assignment = click.option(
    "--assign",
    type=click.Choice(ASSIGNMENTS),
    default=ASSIGNMENTS[0],
    show_default=True,
    help="By k-means on the coefficients, or to the component with the largest coefficient.",
)


def kmeans_restarts(name: str, default: int) -> Callable[[Function], Function]:
    return click.option(
        name,
        type=Whole(min=1),
        metavar="N",
        default=default,
        show_default=True,
        help="Run k-means so many times and keep the tightest clusters.",
    )
