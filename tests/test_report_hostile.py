"""Pages of files that nobody would make by honest work: they are whole, small, and hold what the file says."""

from __future__ import annotations

import json

import numpy as np
import pytest
from conftest import run_mccgr
from reports import WITHOUT_FACTORS, clustering, read, save

from mccgr_cli.files.readers import Loaded
from mccgr_cli.output.report import DuplicateGroup, find, render

HISTORY = [f"history/{name}" for name in ("objective", "data", "graph", "sigma", "seconds")]
COURSES = {
    "to both ends": np.array([1e308, -1e308] * 15),
    "up to the end": np.linspace(0, 1.7e308, 30),
    "over all powers": np.geomspace(5e-324, 1e308, 30),
    "at the lower end": np.full(30, -1.79e308),
}


@pytest.fixture
def page(tmp_path):
    def make(contents):
        clusters = save(tmp_path / "C.h5", contents)
        outcome = run_mccgr("report", clusters, "--jobs", 0, "-q", "--overwrite", "-o", tmp_path / "page.html")
        assert (outcome.status, outcome.stderr) == (0, "")
        return read(tmp_path / "page.html")

    return make


@pytest.mark.parametrize("course", COURSES)
def test_histories_of_any_numbers_are_drawn(page, course):
    found = page(clustering(n=9, **dict.fromkeys(HISTORY, COURSES[course])))
    lines = [path.attributes["d"] for path in found.all("path", class_="line")]
    assert lines
    assert not any("nan" in line or "inf" in line for line in lines)


@pytest.mark.parametrize("largest", [1e154, 1e308])
def test_a_clustering_is_told_alike_whatever_its_scale(page, largest):
    usual = clustering(n=9)
    names = ("W", "H", "rho")
    scale = {name: 2.0 ** np.floor(np.log2(largest / usual[name].max())) for name in names}
    told = [
        [part.text for part in found.all("section", class_="cluster")]
        for found in (page(usual), page(clustering(n=9, **{name: usual[name] * scale[name] for name in names})))
    ]
    assert told[0] == told[1]


def test_one_sample_beyond_all_others_is_no_fault(page):
    W = clustering(n=9)["W"]
    W[0] = 1e308
    page(clustering(n=9, W=W))


def test_clusters_of_any_number_are_found_by_the_script(page):
    numbers = [2**63 - 1, -(2**63), 2**53]
    found = page(clustering(n=9, assignments=np.array(numbers * 3), **WITHOUT_FACTORS))
    data = json.loads(found.one("script", id="data").text)
    there = {part.attributes["id"] for part in found.all("section", class_="cluster")}
    numbers = [one["number"] for one in data["clusters"]]
    seen = [int(float(number)) if isinstance(number, int) else number for number in numbers]  # as a browser has them
    assert {f"cluster-{number}" for number in seen} == there


def test_long_classes_are_shortened_and_stay_apart(page, tmp_path):
    names = ["x" * 100_000 + "a", "x" * 100_001 + "a", "y"]
    found = page(clustering(label_names=names, **WITHOUT_FACTORS))
    rows = found.one("table", class_="confusion").one("tbody").all("th")
    assert len({row.text for row in rows}) == 3
    assert (tmp_path / "page.html").stat().st_size < 300_000


def test_outlier_scores_of_any_size_are_told(page):
    found = page(clustering(n=9, outlier=np.array([0, 5e-324, 1, 2, 1e4, 1e300, 1e308, 1.7e308, 3]), **WITHOUT_FACTORS))
    scores = [row.all("td")[0].text for row in found.one("section", id="outliers").one("tbody").all("tr")]
    assert scores == ["1.7e+308", "1e+308", "1e+300", "1e+04", "3.00", "2.00"]


def test_names_of_outliers_and_duplicates_are_text(tmp_path):
    names = [f"</script><img src=x onerror=alert(1)>{i}" for i in range(90)]
    contents = clustering(sample_names=names, outlier=np.linspace(0, 9, 90))
    found = find(Loaded(contents, "C.h5", "0" * 64), None, 50)
    groups = [DuplicateGroup(tuple(range(90)), 0.5, exact=False)]
    (tmp_path / "page.html").write_bytes(render(found, duplicates=groups))
    root = read(tmp_path / "page.html")
    assert root.all("img") == []
    assert len([block for block in root.all("script") if "type" not in block.attributes]) == 2
    for section in ("outliers", "duplicates"):
        assert "</script><img src=x" in root.one("section", id=section).text
