"""One page that shows what a clustering found: HTML that needs nothing but itself."""

from __future__ import annotations

from importlib.resources import files
from typing import Any

from mccgr_cli import __version__
from mccgr_cli.errors import DataError
from mccgr_cli.output.report import course, overview, sheets
from mccgr_cli.output.report.charts import MARKERS
from mccgr_cli.output.report.findings import Findings, Profiles, find
from mccgr_cli.output.report.layout import Layout, lay_out
from mccgr_cli.output.report.markup import Markup, hash_of, inline, script_data, tag
from mccgr_cli.output.report.sheets import Images

__all__ = ["find", "render"]

NO_FACTORS = "There is no map: the file holds clusters of a matrix, without coefficients to place samples by."


def render(findings: Findings, images: Images | None = None, title: str | None = None) -> bytes:
    """The whole page. ``images`` has one for every sample of ``findings.order``; the same input, the same bytes."""
    contents, noun = findings.contents, "sample" if images is None else "image"
    title = title or overview.default_title(findings)
    layout = place(findings)
    profiles = Profiles(findings.coefficients[0], contents["H"], contents["rho"]) if "H" in contents else None
    parts: dict[str, Markup | None] = {
        "Scores": overview.scores_section(findings.scores) if findings.scores is not None else None,
        "Map": overview.map_section(findings, layout, noun),
        "Clusters": sheets.clusters_section(findings, images, profiles),
        "Convergence": course.convergence_section(findings) if "history/objective" in contents else None,
        "Features": course.weights_section(findings, profiles) if profiles is not None else None,
        "Graph": course.graph_section(findings),
        "Provenance": course.provenance_section(findings),
    }
    there = {name: part for name, part in parts.items() if part is not None}
    points = None if isinstance(layout, str) else layout.points
    data: list[Any] = [
        script_data("data", {**sheets.sample_data(findings, points, images is not None), "markers": MARKERS})
    ]
    hidden = sheets.image_data(findings, images) if images is not None else []
    later = [script_data(f"images-{place}", some) for place, some in enumerate(hidden) if some]
    summary = overview.summary(findings, noun)
    return document(title, summary, there, data, later).encode("utf-8", "backslashreplace")


def place(findings: Findings) -> Layout | str:
    """Where the samples are on the map, or why there is none."""
    contents = findings.contents
    if "W" not in contents:
        return NO_FACTORS
    try:
        return lay_out(contents["W"][findings.order], contents.attributes.get("cluster_assign") == "max")
    except DataError as fault:
        return f"There is no map: {fault.fault}."


def document(title: str, summary: Markup, parts: dict[str, Markup], data: list[Any], later: list[Any]) -> str:
    """``later``: data that nothing waits for."""
    style, theme, script = (own_file(name) for name in ("page.css", "theme.js", "page.js"))
    policy = (
        f"default-src 'none'; img-src data:; style-src {hash_of(style)}; "
        f"script-src {hash_of(theme)} {hash_of(script)}; base-uri 'none'; form-action 'none'"
    )
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=policy),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="generator", content=f"mccgr {__version__}"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("title", title),
        tag("link", rel="icon", href="data:,"),
        inline("style", style),
        inline("script", theme),
    )
    links = [tag("li", tag("a", name, href=f"#{name.lower()}")) for name in parts]
    switch = tag("button", "Dark", type="button", id="theme", class_="needs-script", aria_pressed="false")
    bar = tag("nav", tag("ul", links), switch, class_="sections", aria_label="Sections")
    header = tag("header", tag("p", "Clustering report", class_="kind"), tag("h1", title), summary)
    footer = tag("footer", tag("p", f"Made by mccgr {__version__} report."))
    body = tag(
        "body",
        *(tag("a", "Skip to the contents", href="#main", class_="skip"), header, bar),
        *(
            tag("main", list(parts.values()), id="main", tabindex=-1),
            footer,
            viewer(),
            data,
            inline("script", script),
            later,
        ),
    )
    return f"<!DOCTYPE html>\n{tag('html', head, body, lang='en')}\n"


def viewer() -> Markup:
    """Where an image is seen larger."""
    buttons = [
        tag("button", "← Previous", type="button", id="previous"),
        tag("button", "Next →", type="button", id="next"),
        tag("button", "Close", type="button", id="close"),
    ]
    inside = tag("div", id="viewer-image"), tag("h2", id="viewer-title"), tag("dl", id="viewer-facts", class_="facts")
    bar = tag("div", buttons, class_="buttons")
    return tag("dialog", *inside, bar, id="viewer", aria_labelledby="viewer-title")


def own_file(name: str) -> str:
    return files(__package__).joinpath(name).read_text(encoding="utf-8")
