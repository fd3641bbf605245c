"""mccgr report: the page shows what was found, in the right order, whatever names hold, and the same each time."""

from __future__ import annotations

import base64
import hashlib
import io
import itertools
import json
import os
import re
from dataclasses import replace

import numpy as np
import pytest
from jinja2 import UndefinedError
from markupsafe import Markup
from PIL import Image
from reports import STEP, WITHOUT_FACTORS, Page, clustering, images_of, read, save

from mccgr_cli.blocks.in_memory import MemoryBlocks
from mccgr_cli.core.profiles import group_values
from mccgr_cli.core.typicality import typicality
from mccgr_cli.files.container import Contents
from mccgr_cli.files.readers import Loaded
from mccgr_cli.images.thumbnails import locate_images, make_thumbnail
from mccgr_cli.output.curves import Line, over_iterations
from mccgr_cli.output.dots import feature_dots
from mccgr_cli.output.report import DuplicateGroup, environment, find, render, sample_map
from mccgr_cli.output.report.charts import draw
from mccgr_cli.output.report.clusters import spread
from mccgr_cli.output.report.sample_map import MOST_FOR_TSNE, lay_out

NASTY = [
    "<script>alert(1)</script>",
    "</script><img src=x onerror=alert(1)>",
    "\"' onload='x",
    "<!-- & -->",
    "line\nbreak\ttab\x07bell",
    "\u202egnp.exe",
    "caf\u00e9 \u732b",
    "x" * 300,
]


@pytest.fixture(autouse=True)
def quick_maps(monkeypatch):
    monkeypatch.setattr(sample_map, "STEPS", 250)


@pytest.fixture
def contents():
    return clustering()


@pytest.fixture
def C_file(tmp_path, contents):
    return save(tmp_path / "X.factors.clusters.h5", contents)


@pytest.fixture
def images(tmp_path, contents):
    return images_of(tmp_path / "insects", contents)


@pytest.fixture
def report(mccgr, tmp_path):
    """Report on contents, or a file, and return the page."""

    def run(given, *arguments, images=None):
        path = save(tmp_path / "C.h5", given) if not isinstance(given, os.PathLike) else given
        out = tmp_path / "page.html"
        images = ["--images", images] if images is not None else []
        outcome = mccgr("report", path, "-o", out, "--overwrite", "--jobs", 0, *images, *arguments)
        assert outcome.status == 0, outcome.stderr
        return read(out)

    return run


def loaded(contents):
    return Loaded(contents, "C.h5", "0" * 64)


def page_of(contents, truth=None, most=10_000):
    return render(find(loaded(contents), truth if truth is not None else contents.labels_as_text(), most))


def data_of(page):
    return json.loads(page.one("script", id="data").text)


# What is shown


def test_the_page_has_every_section_a_title_and_a_summary(report, contents, images):
    page = report(contents, images=images)
    sections = [
        section.attributes["id"] for section in page.one("main").all("section") if "class" not in section.attributes
    ]
    assert sections == ["scores", "map", "top-features", "clusters", "convergence", "features", "graph", "provenance"]
    assert page.one("h1").text == page.one("head").one("title").text == "Clusters of insects"
    assert "90 images in 3 clusters" in page.one("p", class_="summary").text
    linked = [link.attributes["href"] for link in page.one("nav", class_="sections").all("a")]
    assert linked == [f"#{name}" for name in sections]
    assert report(contents, "--title", "My <own>").one("h1").text == "My <own>"


def test_scores_and_the_confusion_matrix_are_those_of_evaluate(report, mccgr, C_file):
    page = report(C_file)
    scores = json.loads(mccgr("evaluate", C_file, "--format", "json").stdout)
    figures = [float(figure.text) for figure in page.one("section", id="scores").all("dd", class_="figure")]
    np.testing.assert_allclose(figures, [scores[name] for name in ("accuracy", "nmi", "ari", "purity")], atol=5e-4)
    table = page.one("table", class_="confusion")
    rows = table.one("tbody").all("tr")
    assert [row.one("th").text for row in rows] == scores["confusion"]["classes"]
    counts = [[int(cell.text or 0) for cell in row.all("td")[:-1]] for row in rows]
    assert counts == scores["confusion"]["counts"]
    assert all(head.attributes["scope"] == "col" for head in table.one("thead").all("th"))


def test_labels_from_a_file_stand_in_for_those_in_the_clusters(report, refused, contents, tmp_path):
    bare = replace(contents, datasets={k: v for k, v in contents.datasets.items() if not k.startswith("label")})
    assert report(bare).all("section", id="scores") == []
    (tmp_path / "classes.txt").write_text("\n".join("odd" if i % 2 else "even" for i in range(90)))
    page = report(bare, "--labels", tmp_path / "classes.txt")
    assert [row.text for row in page.one("table", class_="confusion").one("tbody").all("th")] == ["even", "odd"]
    (tmp_path / "few.txt").write_text("a\nb")
    said = refused("report", tmp_path / "C.h5", "--labels", tmp_path / "few.txt", "-o", tmp_path / "no.html")
    assert "2 labels for 90 samples" in said


def test_images_come_the_most_typical_first_and_the_least_certain_last(report, tmp_path):
    contents = clustering(n=120)
    page = report(contents, images=images_of(tmp_path / "more", contents))
    certainty, _ = typicality(contents["W"], contents["assignments"])
    part = page.one("section", id="cluster-1")
    first, last = part.all("ul", class_="sheet")
    names = [tile.one("img").attributes["alt"] for tile in (*first.all("button"), *last.all("button"))]
    own = np.flatnonzero(contents["assignments"] == 1)
    order = own[np.argsort(-certainty[own], kind="stable")]
    expected = [contents["sample_names"][i] for i in order]
    assert names == [*expected[:24], *expected[-6:]]
    odd = [tile for tile in part.all("button", class_="tile") if tile.all("span", class_="odd")]
    assert [tile.one("img").attributes["alt"] for tile in odd] == ["ant/0.png"]
    assert "not the class of its cluster" in odd[0].attributes["title"]


def test_every_image_is_in_the_page_once(report, contents, images):
    page = report(contents, "--thumbnail", 32, images=images)
    seen = [image.attributes["src"].partition(",")[2] for image in page.all("img")]
    hidden = [
        json.loads(block.text) for block in page.all("script") if block.attributes.get("id", "").startswith("images-")
    ]
    coded = seen + [one for some in hidden for one in some]
    assert len(coded) == len(contents["sample_names"])
    sizes = {Image.open(io.BytesIO(base64.b64decode(one))).size for one in coded}
    assert sizes == {(32, 21)}


def test_without_images_names_and_distinctive_features_are_shown(report, contents):
    H = np.full((3, 12), 0.01)
    H[0, 2] = H[1, 5] = H[2, 9] = 1.0
    H[:, 11] = 5.0  # strong, and tells nothing
    page = report(replace(contents, datasets={**contents.datasets, "H": H, "rho": np.ones(12)}))
    assert page.all("img") == []
    for cluster, feature in enumerate((2, 5, 9)):
        part = page.one("section", id=f"cluster-{cluster}")
        assert part.one("table", class_="features").one("tbody").all("th")[0].text == f"feature {feature}"
        assert len(part.all("ul", class_="list")) == 2


def top_tables(page):
    """For each cluster the rows of its top features, without the one with headings."""
    tables = [part.one("table", class_="features") for part in page.all("section", class_="cluster")]
    return [[[cell.text for cell in row.all() if cell.tag in ("th", "td")] for row in t.all("tr")[1:]] for t in tables]


def cells_of(page):
    """The text of each dot, by feature."""
    rows = page.one("table", class_="dots").all("tr")[1:]
    return {row.all("th")[0].text: [title.text for title in row.all("title")] for row in rows}


def is_folded(page, table):
    return any(one is table for details in page.all("details") for one in details.all("table"))


@pytest.mark.parametrize("with_images", [False, True])
def test_top_features_are_open_and_have_the_numbers_of_mccgr_top(report, mccgr, contents, images, with_images):
    path = images.parent / "C.h5"
    page = report(contents, images=images if with_images else None)
    expected = []
    for group in json.loads(mccgr("top", path, "--format", "json").stdout):
        numbers = [(one["feature"], one["score"], one["times"], one["share"]) for one in group["features"]]
        expected.append([[name, f"{s:.4f}", f"x {t:.3g}", f"{p:.2%}"] for name, s, t, p in numbers])
    assert top_tables(page) == expected
    assert not any(is_folded(page, table) for table in page.all("table", class_="features"))
    assert set(cells_of(page)) <= {row[0] for rows in expected for row in rows}


def test_visual_words_are_folded_and_have_no_dots(report, contents, images):
    for name in ("word 3 (0123abcd)", "feature +3 (0123abcd)"):
        page = report(replace(contents, datasets={**contents.datasets, "feature_names": [name] * 12}), images=images)
        assert page.all("section", id="top-features") == []
        assert all(is_folded(page, table) for table in page.all("table", class_="features"))
        assert top_tables(page)[0][0][0] == name


def test_dots_of_the_page_are_those_of_the_figure(report, contents, tmp_path):
    X = np.random.default_rng(1).poisson(1.0, (90, 12)).astype(float)
    names = {name: contents[name] for name in ("sample_names", "feature_names")}
    matrix = save(tmp_path / "X.h5", Contents("matrix", {"X": X, **names}))
    page = report(contents, "--matrix", matrix)
    values = group_values(MemoryBlocks(X), contents["assignments"])
    dots = feature_dots(contents, find(loaded(contents), None, 100).clusters, values)
    expected = {}
    for row, feature in enumerate(dots.features):
        expected[f"feature {feature}"] = [f"{100 * share:.0f}%, mean {mean:.3g}" for share, mean in dots.cells(row)]
    assert cells_of(page) == expected
    first = top_tables(page)[0][0]
    own = X[contents["assignments"] == 0, int(first[0].split()[1])]
    assert first[4].startswith(f"{own.mean():.4g} (")
    assert first[5].startswith(f"{(own > 0).mean():.0%} (")
    assert "WH" in report(contents).one("section", id="top-features").text


def test_clusters_of_k_means_have_top_features_with_the_matrix_only(mccgr, X_file, tmp_path):
    mccgr("cluster", X_file, "--k", 3, "-q", "-o", tmp_path / "C.h5")
    for matrix, tables in (((), 0), (("--matrix", X_file), 3)):
        mccgr("report", tmp_path / "C.h5", *matrix, "-o", tmp_path / "page.html", "--overwrite")
        page = read(tmp_path / "page.html")
        assert len(page.all("table", class_="features")) == tables
        assert len(page.all("table", class_="dots")) == min(tables, 1)


def test_many_clusters_show_the_dots_of_the_first(report):
    page = report(clustering(k=45, d=60, n=90, rho=np.ones(60)))
    assert len(page.one("table", class_="dots").one("thead").all("a")) == 40
    assert "the first 40 of 45 clusters" in page.one("section", id="top-features").text


def test_the_graph_of_a_real_run_is_told(mccgr, X_file, tmp_path, report):
    factors = mccgr("factorize", X_file, "--k", 3, "-q", "-o", "-")
    clusters = mccgr("cluster", "-", "-q", "-o", tmp_path / "real.h5", stdin=factors.output)
    assert clusters.status == 0
    page = report(tmp_path / "real.h5")
    told = [one.text for one in page.one("section", id="graph").all("dt")]
    assert told == ["Edges", "Neighbours on average", "Isolated samples", "Connected components"]
    edges, neighbours = (one.text for one in page.one("section", id="graph").all("dd")[:2])
    assert float(neighbours) == round(2 * int(edges) / 60, 1)  # each edge is a neighbour of two
    steps = [line.text for line in page.one("ol", class_="steps").all("pre")]
    assert len(steps) == 2
    new = mccgr("transform", tmp_path / "real.h5", X_file, "-q", "-o", "-")
    again = mccgr("cluster", "-", "-q", "-o", tmp_path / "new.h5", stdin=new.output)
    assert again.status == 0
    assert report(tmp_path / "new.h5").all("section", id="graph") == []  # new samples have none


@pytest.mark.parametrize(
    ("isolated", "parts", "said"),
    [
        (0, 1, "All samples are connected"),
        (2, 3, "2 samples have no neighbour"),
        (0, 9, "9 separate parts of two samples or more"),
    ],
)
def test_what_ails_a_graph_is_said(report, contents, isolated, parts, said):
    attributes = {**contents.attributes, "graph_isolated": isolated, "graph_components": parts}
    assert said in report(replace(contents, attributes=attributes)).one("section", id="graph").text


def test_weights_tell_the_silenced_features(report):
    rho = np.r_[np.zeros(40), np.linspace(0.5, 1, 10)]
    names = [f"f{j}" for j in range(50)]
    page = report(clustering(d=50, rho=rho, feature_names=names))
    part = page.one("section", id="features")
    listed = [item.text for item in part.one("ul", class_="names").all("li")]
    assert sorted(listed) == sorted(names[:40])
    assert "f49" in part.all("ul", class_="weights")[0].text


# Outliers and duplicates


def names_in(section):
    return [one.text for one in section.all("span", class_="no-image")]


def test_outliers_of_all_clusters_are_listed_the_least_typical_first(report, contents, images):
    outlier = np.full(90, 0.987654)
    outlier[[5, 40, 77]] = [1.5, 2.41421, 1.01]
    with_scores = replace(contents, datasets={**contents.datasets, "outlier": outlier})
    page = report(with_scores, images=images)
    section = page.one("section", id="outliers")
    assert names_in(section) == [contents["sample_names"][i] for i in (40, 5, 77)]
    assert [one.text for one in section.all("strong")] == ["2.41", "1.50", "1.01"]
    clusters = [f"cluster {contents['assignments'][i]}" for i in (40, 5, 77)]
    assert [link.text for link in section.all("a")] == clusters
    data = data_of(page)
    place = data["samples"].index(40)
    assert (data["outlier"][place], data["outlier"][0]) == (2.41, 0.99)
    assert section.all("button")[0].attributes["data-i"] == str(place)
    rows = report(with_scores).one("section", id="outliers").one("tbody").all("tr")
    assert [row.one("th").text for row in rows] == [contents["sample_names"][i] for i in (40, 5, 77)]


def test_there_are_no_outliers_without_scores_or_without_isolated_samples(report, contents):
    assert report(contents).all("section", id="outliers") == []
    section = report(clustering(outlier=np.ones(90))).one("section", id="outliers")
    assert "No sample is more isolated than its neighbours" in section.text


def test_outliers_are_on_the_page_however_few_samples_it_shows(report):
    outlier = np.ones(900)
    outlier[::9] = np.linspace(5, 2, 100)
    page = report(clustering(n=900, outlier=outlier), "--show", 100)
    rows = page.one("section", id="outliers").one("tbody").all("tr")
    assert [row.one("th").text.split("/")[1] for row in rows] == [f"{i}.png" for i in range(0, 540, 9)]
    assert all(int(row.one("th").one("a").attributes["data-to"]) >= 0 for row in rows)
    assert len(data_of(page)["names"]) <= 160


def test_groups_of_duplicates_keep_their_first_sample(contents):
    groups = [DuplicateGroup((3, 1, 88), 0.98765, exact=False), DuplicateGroup((8, 5), 1.0, exact=True)]
    found = find(loaded(contents), None, 10_000)
    section = Page(render(found, duplicates=groups).decode()).root.one("section", id="duplicates")
    first, second = section.all("li", class_="group")
    assert [one.text for one in first.all("a", class_="name")] == ["ant/3.png", "bee/1.png", "bee/88.png"]
    assert [one.text for one in first.one("p", class_="about").all("span")] == [
        *("3 samples", "similarity 0.988", "in 3 clusters")
    ]
    assert [one.text for one in second.one("p", class_="about").all("span")] == [
        *("2 samples", "exact copies", "in one cluster")
    ]
    assert [len(group.all("p", class_="keep")) for group in (first, second)] == [1, 1]
    assert first.all("li")[0].all("p", class_="keep")
    assert b'id="duplicates"' not in render(found)
    assert b"No two samples are alike" in render(found, duplicates=[])


def test_many_groups_of_duplicates_are_shown_in_part_and_counted():
    found = find(loaded(clustering(n=900)), None, 100)
    absent = np.flatnonzero(found.places < 0).tolist()
    groups = [DuplicateGroup((int(found.order[0]), absent[g]), 0.9, exact=False) for g in range(203)]
    groups.insert(0, DuplicateGroup(tuple(range(100)), 0.9, exact=False))
    page = Page(render(found, duplicates=groups).decode()).root
    section = page.one("section", id="duplicates")
    assert len(section.all("li", class_="group")) == 200
    assert "4 more groups are only in the CSV" in section.text
    assert "and 76 more" in section.all("li", class_="group")[0].text
    last = section.all("li", class_="group")[1].all("li")[1]
    assert last.all("a") == []
    assert last.one("span", class_="name").text == found.name(absent[0])
    assert "not on this page" in last.text
    assert len(data_of(page)["duplicates"]) == 204


def test_samples_that_are_not_on_the_page_are_kept_compactly(report, tmp_path):
    page = report(clustering(n=90_000, sample_names=[f"folder/image_{i:06}.png" for i in range(90_000)]), "--show", 100)
    others = page.one("script", id="others").text
    assert len(others) < 15 * 90_000
    assert report(clustering(n=60)).all("script", id="others") == []


# Typicality and the map


def test_certainty_is_1_at_the_mean_0_between_two_and_below_0_nearer_to_another():
    W = np.array([[-1.0, 0], [1, 0], [0, 0], [9, 0], [11, 0], [10, 0], [5, 0], [9, 1]])
    certainty, distance = typicality(W, np.array([0, 0, 0, 1, 1, 1, 0, 0]))
    means = np.array([[2.8, 0.2], [10.0, 0.0]])
    a, b = (np.linalg.norm(W - mean, axis=1) for mean in means)
    own, other = np.where([1, 1, 1, 0, 0, 0, 1, 1], (a, b), (b, a))
    np.testing.assert_allclose(certainty, (other - own) / np.maximum(own, other))
    np.testing.assert_allclose(distance, own)
    assert certainty[5] == 1
    assert certainty[7] < 0


def test_certainty_of_the_largest_coefficient_is_its_lead():
    W = np.array([[4.0, 1, 0], [0, 2, 2], [0, 0, 0], [1, 0, 5]])
    certainty, _ = typicality(W, W.argmax(axis=1), "max")
    np.testing.assert_allclose(certainty, [0.75, 0, 0, 0.8])


def test_extremes_are_shown_of_large_clusters_and_the_rest_evenly():
    shown = spread(np.arange(1000), 100)
    assert len(shown) == len(set(shown)) == 100
    assert shown[:24].tolist() == list(range(24))
    assert shown[-6:].tolist() == list(range(994, 1000))
    assert np.diff(shown[24:-6]).max() < 20


def test_neighbours_in_the_map_are_of_one_cluster(contents, monkeypatch):
    monkeypatch.undo()  # all steps
    page = page_of(contents).decode()
    data = json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', page)[1])
    points = np.array([data["x"], data["y"]]).T
    cluster = np.repeat(np.arange(3), [one["count"] for one in data["clusters"]])
    gaps = np.linalg.norm(points[:, None] - points[None], axis=2) + 1e9 * np.eye(len(points))
    assert (cluster[gaps.argmin(axis=1)] == cluster).mean() > 0.9
    assert "by t-SNE" in page


def test_many_samples_are_placed_by_principal_components():
    rng = np.random.default_rng(0)
    found = lay_out(rng.random((MOST_FOR_TSNE + 1, 4)) * [9, 3, 0.1, 0.1], by_direction=False)
    assert found.method == "principal components"
    assert np.ptp(found.points, axis=0)[0] > np.ptp(found.points, axis=0)[1]


# The same bytes, and nothing from elsewhere


def test_same_input_same_bytes_whatever_the_number_of_processes(mccgr, C_file, images, tmp_path):
    pages = []
    for jobs in (0, 2):
        outcome = mccgr("report", C_file, "--images", images, "--jobs", jobs, "-q", "-o", "-")
        assert (outcome.status, outcome.stderr) == (0, "")
        pages.append(outcome.output)
    assert pages[0] == pages[1]


def test_the_name_of_the_page_follows_from_that_of_the_clusters(mccgr, C_file, tmp_path):
    outcome = mccgr("report", C_file)
    assert outcome.stdout == f"{tmp_path}/X.factors.clusters.report.html\n"
    assert "--images FOLDER shows them" in outcome.stderr


def test_clusters_from_a_pipe(mccgr, refused, C_file):
    piped = mccgr("report", "-", "-o", "-", "-q", stdin=C_file.read_bytes())
    assert piped.output.startswith(b"<!DOCTYPE html>")
    assert "-o: missing" in refused("report", "-", status=2, stdin=C_file.read_bytes())


def test_the_policy_allows_the_blocks_of_the_page_and_nothing_else(report, contents, images):
    page = report(contents, images=images)
    policy = page.all("meta")[1].attributes["content"]
    assert policy.startswith("default-src 'none'; img-src data:;")
    assert "unsafe" not in policy
    blocks = [*page.all("style"), *(block for block in page.all("script") if "type" not in block.attributes)]
    for block in blocks:
        digest = base64.b64encode(hashlib.sha256(block.text.encode()).digest()).decode()
        assert f"'sha256-{digest}'" in policy
    for element in page.all():
        assert "style" not in element.attributes
        assert not any(key.startswith("on") for key in element.attributes)
        for key in ("src", "href"):
            assert element.attributes.get(key, "#").startswith(("#", "data:"))


# Whatever names hold


def test_text_from_files_never_becomes_html(report, tmp_path):
    names = [NASTY[i % len(NASTY)] + str(i) for i in range(90)]
    contents = clustering(sample_names=names, label_names=NASTY[:3], feature_names=(NASTY * 2)[:12])
    step = {**STEP, "command_line": NASTY[1], "time": NASTY[0], "parameters": {NASTY[0]: NASTY[1]}, "inputs": []}
    contents = replace(contents, provenance=step, attributes={**contents.attributes, "method": NASTY[1]})
    page = report(contents, "--title", NASTY[1])
    assert [image.attributes for image in page.all("img")] == []
    plain = [block for block in page.all("script") if "type" not in block.attributes]
    assert len(plain) == 2
    assert page.one("h1").text == NASTY[1]
    shown = data_of(page)["names"]
    assert sum(name.startswith("<script>") for name in shown) > 5
    assert not any(char in name for name in shown for char in "\n\t\x07\u202e")
    assert any("\\u202egnp" in name for name in shown)
    assert any("caf\u00e9 \u732b" in name for name in shown)
    text = (tmp_path / "page.html").read_bytes()
    assert b"<script>alert" not in text
    assert b"\xe2\x80\xae" not in text


def test_templates_escape_everything_but_markup():
    page = environment().from_string('<p title="{{ title }}">{{ text }}{{ markup }}{{ nothing }}</p>')
    found = page.render(title='"<', text="<b>\ud800\u202e", markup=Markup("<i>x</i>"), nothing=None)
    assert found == '<p title="&#34;&lt;">&lt;b&gt;\\ud800\\u202e<i>x</i></p>'
    data = environment().from_string("{{ data|tojson }}").render(data="</script ><!--&")
    assert not set(data) & set("<>&")
    with pytest.raises(UndefinedError):
        environment().from_string("{{ misspelt }}").render()


# Odd clusterings


def single_sample_clusters():
    return clustering(assignments=np.r_[np.zeros(88, int), 7, 1000])


ODD = {
    "one cluster": clustering(assignments=np.zeros(90, int)),
    "gaps and single samples": single_sample_clusters(),
    "negative numbers": clustering(assignments=np.arange(90) % 3 - 5),
    "no names": clustering(sample_names=None, feature_names=None, label_names=None),
    "no labels": clustering(labels=None, label_names=None),
    "k-means without factors": clustering(**WITHOUT_FACTORS),
    "nothing but assignments": clustering(
        **WITHOUT_FACTORS, labels=None, label_names=None, sample_names=None, feature_names=None
    ),
    "one feature": clustering(d=1, rho=np.ones(1)),
    "one component": clustering(W=np.random.default_rng(0).random((90, 1)), H=np.ones((1, 12))),
    "all the same": clustering(W=np.ones((90, 3))),
    "all zero": clustering(W=np.zeros((90, 3)), H=np.zeros((3, 12)), rho=np.zeros(12)),
    "a history of zeros": clustering(**{f"history/{name}": np.zeros(30) for name in ("objective", "data", "graph")}),
    "no bandwidth": clustering(**{"history/sigma": np.full(30, np.nan)}),
    "no finite history": clustering(
        **{f"history/{name}": np.full(30, np.nan) for name in ("objective", "data", "graph", "sigma", "seconds")}
    ),
    "no iterations": clustering(
        **{f"history/{name}": np.ones(1) for name in ("objective", "data", "graph", "sigma", "seconds")}
    ),
    "two samples": clustering(n=2, k=2),
    "one sample": clustering(n=1, k=1, assignments=np.zeros(1, int)),
    "long names": clustering(sample_names=["n" * 300] * 90, feature_names=["f" * 300] * 12),
    "largest coefficient": replace(clustering(), attributes={"cluster_assign": "max"}),
    "two hundred clusters": clustering(n=600, k=200, d=12),
    "more classes than fit": clustering(n=400, labels=np.arange(400) % 150, label_names=[f"c{i}" for i in range(150)]),
    "odd attributes": replace(
        clustering(), attributes={"graph_edges": "many", "converged": "perhaps", "method": 3, "radii": [1, 2.5]}
    ),
    "odd provenance": replace(clustering(), provenance={"inputs": [3, {"name": None, "provenance": []}], "time": {}}),
}


@pytest.mark.parametrize("name", ODD)
def test_odd_clusterings_give_whole_pages(name, report):
    contents = ODD[name]
    page = report(contents)
    assert len(page.all("section", class_="cluster")) == len(np.unique(contents["assignments"]))
    assert len(data_of(page)["names"]) == len(contents["assignments"])
    headings = [int(one.tag[1]) for one in page.all() if re.fullmatch("h[1-6]", one.tag)]
    assert headings[0] == 1
    assert all(after - before <= 1 for before, after in itertools.pairwise(headings))
    ids = [one.attributes["id"] for one in page.all() if "id" in one.attributes]
    assert len(ids) == len(set(ids))
    targets = [one.attributes["href"][1:] for one in page.all("a")]
    assert set(targets) <= set(ids)
    assert not re.search(r"[MLHV ](nan|inf)\b", " ".join(path.attributes["d"] for path in page.all("path")))


def test_a_map_that_cannot_be_drawn_says_why(report):
    told = {
        name: report(ODD[name]).one("section", id="map").text for name in ("k-means without factors", "one component")
    }
    assert "clusters of a matrix, without coefficients" in told["k-means without factors"]
    assert "spans no plane" in told["one component"]


def test_a_matrix_of_more_pairs_than_can_be_read_becomes_a_list(report):
    page = report(clustering(n=600, k=200))
    assert page.all("table", class_="confusion") == []
    assert len(page.one("section", id="scores").one("table").one("tbody").all("tr")) == 200
    page = report(ODD["more classes than fit"])
    assert len(page.one("table", class_="confusion").one("tbody").all("tr")) == 150


def test_large_clusterings_show_a_share_of_each_cluster_and_say_so(report, mccgr, tmp_path):
    contents = clustering(n=900)
    page = report(contents, "--show", 300)
    shown = [one["count"] for one in data_of(page)["clusters"]]
    assert sum(shown) <= 300
    assert min(shown) > 90
    assert "samples are not on this page" in page.text
    outcome = mccgr("report", tmp_path / "C.h5", "--show", 300, "-o", tmp_path / "again.html")
    assert "of 900 samples are shown" in outcome.stderr


def test_axes_hold_what_they_show():
    for values in ([1e-300, 1e300], [5.0], [0, 0], [-3, 4], [1, 1 + 1e-12]):
        drawn = draw(over_iterations("", "", [Line("", np.array(values, dtype=float), 0)]))
        ((_, path),) = drawn["paths"]
        places = [float(number) for number in re.findall(r"[0-9.]+", path.removesuffix("h.1"))]
        assert len(places) == 2 * len(values)
        assert all(12 <= height <= 216 for height in places[1::2])
        assert all(12 <= height <= 216 for height, _ in drawn["y_ticks"])


# Images that are not there


def test_images_that_cannot_be_read_are_named_in_their_place(report, mccgr, contents, images, tmp_path):
    (images / "ant" / "0.png").unlink()
    (images / "bee" / "1.png").write_bytes(b"no image")
    page = report(contents, images=images)
    assert sorted(one.text for one in page.all("span", class_="no-image")) == ["ant/0.png", "bee/1.png"]
    outcome = mccgr("report", tmp_path / "C.h5", "--images", images, "-o", tmp_path / "b.html", "--jobs", 0)
    assert "not shown: ant/0.png: not there" in outcome.stderr
    assert "not shown: bee/1.png: not an image" in outcome.stderr
    assert "images shown: 88 of 90" in outcome.stderr


def test_the_wrong_folder_is_one_error(refused, C_file, tmp_path, contents):
    (tmp_path / "empty").mkdir()
    said = refused("report", C_file, "--images", tmp_path / "empty", "-o", tmp_path / "x.html", status=2)
    assert "none of the 90 images named in" in said
    assert said.endswith("name the folder that extract was given")
    assert "no such file" in refused("report", C_file, "--images", tmp_path / "gone", "-o", tmp_path / "x.html").lower()
    bare = save(tmp_path / "bare.h5", ODD["no names"])
    assert "no names of samples" in refused("report", bare, "--images", tmp_path / "empty", "-o", tmp_path / "x.html")
    assert not (tmp_path / "x.html").exists()


def test_names_lead_nowhere_but_into_the_folder(tmp_path):
    inside, outside = tmp_path / "in", tmp_path / "in-private"
    for folder in (inside, outside):
        folder.mkdir()
        Image.new("RGB", (8, 8)).save(folder / "a.png")
    names = ["a.png", "./a.png", str(inside / "a.png"), "../in-private/a.png", str(outside / "a.png"), "", "\0", ".."]
    found = locate_images(str(inside), names)
    assert found == [str(inside / "a.png")] * 3 + [None] * 5


def test_names_that_are_no_text_are_found(tmp_path):
    name = os.fsdecode(b"b\xff.png")
    try:
        Image.new("RGB", (8, 8)).save(tmp_path / name)
    except OSError:
        pytest.skip("this file system has no such names")
    assert locate_images(str(tmp_path), ["b\\xff.png"]) == [str(tmp_path / name)]


@pytest.mark.parametrize("orientation", range(1, 9))
def test_thumbnails_are_upright_and_in_colour(tmp_path, orientation):
    image = Image.new("RGB", (40, 20), "blue")
    image.paste("red", (0, 0, 20, 20))  # the left half
    turn = {1: None, 2: 0, 3: 3, 4: 1, 5: 5, 6: 2, 7: 6, 8: 4}[orientation]  # Pillow's, which undo the camera's
    stored = image if turn is None else image.transpose(Image.Transpose(turn))
    exif = Image.Exif()
    exif[0x0112] = orientation
    stored.save(tmp_path / "a.jpg", exif=exif, quality=95)
    made = make_thumbnail(str(tmp_path / "a.jpg"), 32, 10**6)
    shown = Image.open(io.BytesIO(made.data)).convert("RGB")
    assert shown.size == (made.width, made.height) == (32, 16)
    left, right = shown.getpixel((4, 8)), shown.getpixel((28, 8))
    assert (left[0] > 200, right[2] > 200) == (True, True)


def test_thumbnails_of_other_modes(tmp_path):
    images = {
        "grey.png": Image.new("L", (8, 6), 100),
        "deep.png": Image.fromarray(np.full((6, 8), 40_000, np.uint16)),
        "clear.png": Image.new("RGBA", (8, 6), (0, 0, 0, 0)),
        "cmyk.jpg": Image.new("CMYK", (8, 6), (0, 255, 255, 0)),
        "palette.gif": Image.new("P", (8, 6), 1),
    }
    found = {}
    for name, image in images.items():
        image.save(tmp_path / name)
        made = make_thumbnail(str(tmp_path / name), 64, 10**6)
        assert made.fault is None
        found[name] = Image.open(io.BytesIO(made.data)).convert("RGB").getpixel((4, 3))
    assert found["clear.png"] == (255, 255, 255)
    assert abs(found["deep.png"][0] - 156) < 6
    assert found["cmyk.jpg"][0] > 200
    assert max(found["cmyk.jpg"][1:]) < 80
    assert "more than --max-pixels 10" in (make_thumbnail(str(tmp_path / "grey.png"), 64, 10).fault or "")
