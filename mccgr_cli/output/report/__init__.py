"""One HTML page that shows what a clustering found. It is one file and loads nothing from elsewhere.

Begin with ``find``, which decides what the page shows of a file, and ``render``, which returns its bytes. Each section
has a module that computes what it shows and a template in ``templates/`` that shows it.
"""

from __future__ import annotations

from pathlib import PurePath
from typing import Any

from mccgr_cli import __version__
from mccgr_cli.output.provenance import commands, first_input, pairs
from mccgr_cli.output.report import factorization
from mccgr_cli.output.report.cluster_sheets import Images, cluster_sheets, hidden_images, sample_data
from mccgr_cli.output.report.clusters import Findings, find
from mccgr_cli.output.report.distinctive import Profiles
from mccgr_cli.output.report.sample_map import map_section
from mccgr_cli.output.report.scores import scores_section
from mccgr_cli.output.report.template import environment, hash_of, own_file

__all__ = ["Findings", "find", "render"]

MOST_AT_ONCE = 2000  # samples; if there are more, a browser lays out only those in view
MOST_COMMANDS = 100  # that led to the file


def render(findings: Findings, images: Images | None = None, title: str | None = None) -> bytes:
    """The whole page. The same input gives the same bytes.

    Parameters
    ----------
    images : the images of all samples in ``findings.order``, or None for a page without images
    title : by default named after what was clustered
    """
    contents = findings.contents
    profiles = Profiles(findings.coefficients[0], contents["H"], contents["rho"]) if "H" in contents else None
    sample_map = map_section(findings)
    sections: dict[str, Any] = {
        "Scores": scores_section(findings.scores) if findings.scores is not None else None,
        "Map": sample_map,
        "Clusters": cluster_sheets(findings, images, profiles),
        "Convergence": factorization.convergence_section(findings) if "history/objective" in contents else None,
        "Features": factorization.features_section(findings, profiles) if profiles is not None else None,
        "Graph": factorization.graph_section(findings),
        "Provenance": {
            "commands": list(commands(contents.provenance))[-MOST_COMMANDS:],
            "attributes": pairs(contents.attributes),
        },
    }
    points = sample_map["layout"].points if sample_map["layout"] is not None else None
    style, theme, script = (own_file(name) for name in ("page.css", "theme.js", "page.js"))
    policy = (
        f"default-src 'none'; img-src data:; style-src {hash_of(style)}; "
        f"script-src {hash_of(theme)} {hash_of(script)}; base-uri 'none'; form-action 'none'"
    )
    page = environment().get_template("page.html")
    text = page.render(
        style=style,
        theme=theme,
        script=script,
        policy=policy,
        version=__version__,
        title=title or default_title(findings),
        findings=findings,
        sections={name: section for name, section in sections.items() if section is not None},
        noun="sample" if images is None else "image",
        with_images=images is not None,
        lazy=len(findings.order) > MOST_AT_ONCE,
        data=sample_data(findings, points, images is not None),
        hidden_images=hidden_images(findings, images) if images is not None else {},
    )
    return text.encode("utf-8", "backslashreplace")


def default_title(findings: Findings) -> str:
    """Named after the first input in the history of the file, or after the file itself."""
    name = first_input(findings.contents.provenance) or findings.given.name
    return f"Clusters of {PurePath(name).stem or name}" if name != "-" else "Clusters"
