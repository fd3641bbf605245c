"""A cluster has the same number, name, colour and place in figures, in the report and in all tables."""

from __future__ import annotations

import csv
import io
import json
import re

import numpy as np
import pytest
from matplotlib.colors import to_hex
from reports import clustering, read, save

from mccgr_cli.files.readers import load
from mccgr_cli.files.readers.assignments import load_assignments
from mccgr_cli.output.colours import COLOURS, MARKERS
from mccgr_cli.output.organize.names import titles_of
from mccgr_cli.output.plots import dots, factors
from mccgr_cli.settings import Drawing

NUMBERS = [40, 2, 7, 11]  # of the clusters; the last one has a part of the class of the first


@pytest.fixture
def C_file(tmp_path):
    contents = clustering(n=96)
    found = np.array(NUMBERS)[contents["assignments"]]
    found[(contents["labels"] == 0) & (np.arange(96) % 4 == 0)] = 11
    contents.datasets["assignments"] = found
    return save(tmp_path / "C.h5", contents)


def figure_looks(artists):
    """Colours by names in a legend."""
    return {one.get_label(): to_hex(one.get_facecolor()) for one in artists}


def test_numbers_names_colours_and_order_agree_everywhere(mccgr, C_file, tmp_path):
    numbers = sorted(NUMBERS)
    loaded = load(str(C_file), kinds=("clusters",))
    names = ["2 (bee)", "7 (cat)", "11 (mostly ant)", "40 (ant)"]

    classes, clusters = factors.embedding([loaded], Drawing(), pytest.fail).axes
    assert figure_looks(clusters.collections) == dict(zip(names, COLOURS, strict=False))
    assert figure_looks(classes.collections) == {"ant": COLOURS[3], "bee": COLOURS[0], "cat": COLOURS[1]}

    axes = dots.dots([loaded], Drawing(), pytest.fail).axes[0]
    assert [tick.get_text() for tick in axes.get_xticklabels()] == names
    signs = [line for line in axes.lines if line.get_marker() in MARKERS]
    assert [line.get_color() for line in signs] == list(COLOURS[:4])
    assert [line.get_marker() for line in signs] == list(MARKERS)[:4]

    mccgr("report", C_file, "-o", tmp_path / "page.html")
    page = read(tmp_path / "page.html")
    outlines = list(MARKERS.values())[:4]
    chips = page.one("ul", id="cluster-chips").all("a")
    for links in (chips, page.one("table", class_="dots").one("thead").all("a")):
        assert [link.one("span", class_="name").text for link in links] == [str(number) for number in numbers]
        assert [link.one("path").attributes["d"] for link in links] == outlines
        assert [link.one("svg").has("class_", f"c{look}") for look, link in enumerate(links)] == [True] * 4
    headings = [section.one("h3") for section in page.all("section", class_="cluster")]
    own = [heading.one("span", class_="matched-class").text for heading in headings]
    assert [f"{number} ({text})" for number, text in zip(numbers, own, strict=True)] == names
    style = page.one("style").text
    assert [re.search(rf"--c{look}: ([^;]+);", style)[1] for look in range(4)] == list(COLOURS[:4])
    data = json.loads(page.one("script", id="data").text)
    assert [(one["number"], one["look"]) for one in data["clusters"]] == list(zip(numbers, range(4), strict=True))
    assert data["class_looks"] == [3, 0, 1]

    rows = list(csv.DictReader(io.StringIO(mccgr("export", C_file, "--format", "csv", "-o", "-").stdout)))
    assert [int(row["cluster"]) for row in rows] == loaded.contents["assignments"].tolist()
    top = json.loads(mccgr("top", C_file, "--format", "json").stdout)
    assert [group["cluster"] for group in top] == numbers
    scores = json.loads(mccgr("evaluate", C_file, "--format", "json").stdout)["confusion"]
    matched = dict(zip(scores["clusters"], scores["matches"], strict=False))
    assert sorted(scores["clusters"]) == numbers
    assert matched == {40: "ant", 2: "bee", 7: "cat"}

    assert titles_of(load_assignments(str(C_file))) == {40: "ant", 2: "bee", 7: "cat"}  # of folders by organize
    table = tmp_path / "clusters.csv"  # as the page saves it after cluster 11 got a name
    own = {2: "bee", 7: "cat", 11: "Six legs", 40: "ant"}
    found = zip(loaded.contents["sample_names"], loaded.contents["assignments"].tolist(), strict=True)
    table.write_text("sample,cluster,name\n" + "".join(f"{name},{c},{own[c]}\n" for name, c in found))
    assert titles_of(load_assignments(str(table))) == own


def test_colours_of_clusters_do_not_depend_on_labels(C_file, mccgr, tmp_path):
    loaded = load(str(C_file), kinds=("clusters",))
    del loaded.contents.datasets["labels"], loaded.contents.datasets["label_names"]
    (axes,) = factors.embedding([loaded], Drawing(), pytest.fail).axes
    assert list(figure_looks(axes.collections).values()) == list(COLOURS[:4])
