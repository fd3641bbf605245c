"""One HTML page that shows what a clustering found. It is one file and loads nothing from elsewhere.

Begin with ``find``, which decides what the page shows of a file, and ``render``, which returns its bytes. Each section
has a module that computes what it shows and a template in ``templates/`` that shows it: Jinja2 escapes all text, and
control characters in it are spelled out.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Sequence
from functools import cache
from pathlib import PurePath
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from mccgr_cli import __version__
from mccgr_cli.core.profiles import GroupValues
from mccgr_cli.output.colours import COLOURS, MARKERS
from mccgr_cli.output.provenance import commands, first_input, pairs
from mccgr_cli.output.report import sections
from mccgr_cli.output.report.charts import FRAME
from mccgr_cli.output.report.cluster_sheets import Images, cluster_sheets, dots_section, features_speak
from mccgr_cli.output.report.clusters import Findings, find
from mccgr_cli.output.report.duplicates import DuplicateGroup, duplicates_section
from mccgr_cli.output.report.inline import blocks
from mccgr_cli.output.report.outliers import outliers_section
from mccgr_cli.output.report.sample_map import map_section
from mccgr_cli.output.report.script_data import hidden_images, other_samples, sample_data
from mccgr_cli.output.text import plural, shorten
from mccgr_cli.output.top_features import MEASURED, NUMBERS
from mccgr_cli.workflow.top_features import profiles_of

__all__ = ["DuplicateGroup", "Findings", "find", "render"]

MOST_AT_ONCE = 2000  # samples; if there are more, a browser lays out only those in view
MOST_COMMANDS = 100  # that led to the file
LONGEST = 20_000  # letters of one text


def render(
    findings: Findings,
    images: Images | None = None,
    title: str | None = None,
    duplicates: Sequence[DuplicateGroup] | None = None,
    values: GroupValues | None = None,
) -> bytes:
    """The whole page. The same input gives the same bytes.

    Parameters
    ----------
    images : the images of all samples in ``findings.order``, or None for a page without images
    title : by default named after the first input in the history of the file, or after the file itself
    duplicates : groups of samples that are alike, or None for a page that does not speak of them
    values : of the matrix in the clusters, if it was given
    """
    contents = findings.contents
    profiles = profiles_of(contents) if "H" in contents else None
    sample_map = map_section(findings)
    shown: dict[str, Any] = {
        "Scores": sections.scores_section(findings.scores) if findings.scores is not None else None,
        "Map": sample_map,
        "Top features": dots_section(findings, images is not None, values),
        "Clusters": cluster_sheets(findings, images, profiles, values),
        "Outliers": outliers_section(findings),
        "Duplicates": duplicates_section(findings, duplicates) if duplicates is not None else None,
        "Convergence": sections.convergence_section(findings) if "history/objective" in contents else None,
        "Features": sections.features_section(findings, profiles) if profiles is not None else None,
        "Graph": sections.graph_section(findings),
        "Provenance": {
            "commands": list(commands(contents.provenance))[-MOST_COMMANDS:],
            "attributes": pairs(contents.attributes),
        },
    }
    points = sample_map["layout"].points if sample_map["layout"] is not None else None
    if not title:
        name = first_input(contents.provenance) or findings.given.name
        title = f"Clusters of {PurePath(name).stem or name}" if name != "-" else "Clusters"
    page = environment().get_template("page.html")
    text = page.render(
        **blocks(),
        version=__version__,
        title=title,
        findings=findings,
        sections={name: section for name, section in shown.items() if section is not None},
        noun="sample" if images is None else "image",
        with_images=images is not None,
        features_speak=features_speak(findings, images is not None),
        lazy=len(findings.order) > MOST_AT_ONCE,
        data=sample_data(findings, points, images is not None, duplicates),
        other_samples=other_samples(findings),
        hidden_images=hidden_images(findings, images) if images is not None else {},
    )
    return text.encode("utf-8", "backslashreplace")


@cache
def environment() -> Environment:
    made = Environment(
        loader=PackageLoader(__package__),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=readable,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {"thousands": "{:,}".format, "percent": percent, "plural": plural, "base64": base64}
    made.globals |= {"colours": len(COLOURS), "outlines": list(MARKERS.values()), "frame": FRAME}
    made.globals |= {"numbers": NUMBERS, "measurements": MEASURED}
    made.policies["json.dumps_kwargs"] = {"separators": (",", ":"), "allow_nan": False}
    return made


def readable(value: Any) -> Any:
    """What the page shows of a value: text in one line in which nothing is hidden; nothing for None."""
    if isinstance(value, str) and not isinstance(value, Markup):
        return shorten(value, LONGEST)
    return "" if value is None else value


def percent(share: float) -> str:
    return f"{100 * share:.1f}\u2009%"


def base64(data: bytes) -> Markup:
    return Markup(b64encode(data).decode())
