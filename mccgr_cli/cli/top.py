"""``mccgr top``"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from mccgr_cli.catalog import TOP_BY, TOP_OF
from mccgr_cli.cli import options, types
from mccgr_cli.cli.options import MatrixInput, Output, Resources
from mccgr_cli.errors import DataError, ParameterError
from mccgr_cli.fields import basic_option, whole
from mccgr_cli.output.top_features import MEASURED, NUMBERS

if TYPE_CHECKING:
    from mccgr_cli.files.container import Contents
    from mccgr_cli.workflow.top_features import Group, TopFeature

LONGEST_NAME = 60  # letters in a table


@dataclass(frozen=True)
class Selection:
    """Which features are listed."""

    of: str | None = basic_option(
        None,
        "clusters: features that set a cluster apart from the other samples. components: features of a row of H.",
        values=TOP_OF,
        default_text="clusters if FACTORS has them, otherwise components",
    )
    by: str = basic_option(
        "score",
        "Order of the features. score: first those that set the group apart from the average sample. share: first the "
        "strongest, even if they are strong everywhere.",
        values=TOP_BY,
    )
    count: int = basic_option(10, "Maximum number of features of each group.", values=whole(1))


@dataclass(frozen=True)
class MatrixOption:
    """The matrix that clusters were made from."""

    matrix: str | None = basic_option(
        None,
        "The matrix that FACTORS was made from. Then the table also has the mean of each feature in the cluster and "
        "elsewhere, and the fraction of samples with a value above 0. Rows are normalized as they were factorized.",
        type=types.INPUT,
        metavar="MATRIX",
    )
    transpose: bool = basic_option(False, "Samples are the columns of MATRIX, not the rows.")


@options.command
@options.file_argument("source", "FACTORS")
@options.gathered("selection", Selection)
@options.gathered("given", MatrixOption)
@options.output_format("table", "list", "csv", "json")
@options.resources("memory")
def command(source: str, selection: Selection, given: MatrixOption, style: str, resources: Resources) -> None:
    """List the features that set each cluster apart, such as words or genes.

    FACTORS is a file from factorize or cluster, a checkpoint, or the folder of mccgr run; without it, standard input is
    read. With --of clusters, factors are clustered first, as by 'mccgr cluster'. Clusters without factors need
    --matrix.

    Each feature has three numbers. share: how much of the total of the group the feature has (of WH times the feature
    weights rho; all shares add up to 1). times: the share divided by the share in the average sample. score: share x
    log(times), which is high for features that are both strong and special in the group. Silenced features are left
    out.

    \b
    Examples:
      mccgr top out
      mccgr top X.factors.clusters.h5
      mccgr top X.factors.clusters.h5 --format list --count 5
      mccgr top X.factors.clusters.h5 --matrix X.h5 --format csv
      mccgr top X.factors.h5 --by share
      mccgr factorize X.h5 --k 5 | mccgr top --of clusters
    """
    from mccgr_cli.cli.cluster import clustered
    from mccgr_cli.cli.cluster_values import with_matrix
    from mccgr_cli.cli.job import Job, show
    from mccgr_cli.files.readers import clusters_file
    from mccgr_cli.workflow.top_features import CLUSTERS, COMPONENTS, top_features

    with Job("top", Output("-"), {}, resources=resources, readable=True) as job:
        loaded = job.load(clusters_file(source), ("factors", "clusters"))
        of = selection.of or (CLUSTERS if loaded.contents.kind == "clusters" else COMPONENTS)
        loaded = clustered(loaded, job.reporter.note) if of == CLUSTERS else loaded
        require(loaded.contents, loaded.name, of, given.matrix is not None)
        values = None
        if given.matrix is not None:
            loaded, values = with_matrix(job, loaded, MatrixInput(given.matrix, given.transpose))
    groups = top_features(loaded.contents, selection.count, of, selection.by, values)
    show(FORMATS[style](groups, loaded.contents, of.removesuffix("s"), values is not None))


def require(contents: Contents, where: str, of: str, has_matrix: bool) -> None:
    """Refuse a file without what is asked for."""
    if has_matrix and (of == "components" or "assignments" not in contents):
        raise ParameterError("--matrix", "its values are compared between clusters", "name a file from mccgr cluster")
    if "H" not in contents and not has_matrix:
        remedy = "give --matrix" if of == "clusters" else "name a file from mccgr factorize"
        raise DataError(where, "holds clusters of a matrix, without factors", remedy)


def as_table(groups: list[Group], contents: Contents, noun: str, measured: bool) -> str:
    """A block for each group, with the same columns."""
    from mccgr_cli.cli.tables import aligned

    columns = {**NUMBERS, **(MEASURED if measured else {})}
    rows: list[list[str]] = []
    starts = []
    for group in groups:
        starts.append(len(rows))
        rows.append([title(group, noun), *(name.replace("_", " ") for name in columns)])
        for feature in group.features:
            values = [form.format(getattr(feature, name)) for name, form in columns.items()]
            rows.append([f"  {short_name(contents, feature)}", *values])
    lines = aligned(rows).splitlines()
    blocks = zip(starts, [*starts[1:], len(rows)], strict=True)
    return "\n\n".join("\n".join(lines[start:end]) for start, end in blocks)


def as_list(groups: list[Group], contents: Contents, noun: str, measured: bool) -> str:
    """One line for each group."""
    return "\n".join(
        f"{title(group, noun)}: {', '.join(short_name(contents, feature) for feature in group.features) or 'none'}"
        for group in groups
    )


def title(group: Group, noun: str) -> str:
    from mccgr_cli.output.text import plural

    return f"{noun} {group.number}" + (f" ({plural(group.size, 'sample')})" if group.size is not None else "")


def short_name(contents: Contents, feature: TopFeature) -> str:
    from mccgr_cli.output.text import name_of

    return name_of(contents, "feature", feature.number, LONGEST_NAME)


def full_name(contents: Contents, number: int) -> str:
    """The name of a feature, or its number if the file has no names."""
    names = contents.datasets.get("feature_names")
    return str(number if names is None else names[number])


def as_csv(groups: list[Group], contents: Contents, noun: str, measured: bool) -> str:
    from mccgr_cli.cli.tables import csv_text

    columns = [*NUMBERS, *(MEASURED if measured else ())]
    rows = (
        [
            group.number,
            rank,
            full_name(contents, feature.number),
            feature.number,
            *(getattr(feature, c) for c in columns),
        ]
        for group in groups
        for rank, feature in enumerate(group.features, 1)
    )
    return csv_text([noun, "rank", "feature", "number", *columns], rows)


def as_json(groups: list[Group], contents: Contents, noun: str, measured: bool) -> str:
    found = []
    for group in groups:
        features = [
            {"feature": full_name(contents, feature.number), **known(asdict(feature))} for feature in group.features
        ]
        found.append({noun: group.number, **known({"samples": group.size}), "features": features})
    return json.dumps(found, allow_nan=False)


def known(facts: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in facts.items() if value is not None}


FORMATS = {"table": as_table, "list": as_list, "csv": as_csv, "json": as_json}
