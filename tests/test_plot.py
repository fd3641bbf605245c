"""mccgr plot: every figure is what it says, the same each time, and refused where it cannot be drawn."""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys

import matplotlib
import numpy as np
import pytest
from conftest import planted
from matplotlib.colors import to_hex
from PIL import Image
from scipy import stats

from mccgr_cli.blocks.in_memory import MemoryBlocks
from mccgr_cli.core.profiles import group_values
from mccgr_cli.files.atomic_write import write_files
from mccgr_cli.files.container import Contents, encode
from mccgr_cli.files.readers import Loaded, load
from mccgr_cli.output.colours import COLOURS
from mccgr_cli.output.plots import curves as of_curves
from mccgr_cli.output.plots import dots as of_dots
from mccgr_cli.output.plots import factors as of_factors
from mccgr_cli.output.plots import results as of_results
from mccgr_cli.settings import Drawing
from mccgr_cli.workflow.top_features import top_features

FORMATS = {"svg": b"<?xml", "png": b"\x89PNG", "pdf": b"%PDF"}


def save(path, contents):
    write_files({path: encode(contents)}, overwrite=False)
    return path


def factors_contents(kind="factors", **more):
    """Factors that were never computed, with 16 features that may be pixels."""
    rng = np.random.default_rng(0)
    objective = 100 * np.exp(-np.arange(40.0)) + 1
    history = {"objective": objective, "data": 0.9 * objective, "graph": 0.1 * objective, "sigma": objective}
    datasets = {"W": rng.random((30, 3)), "H": rng.random((3, 16)), "rho": np.linspace(0, 1, 16)}
    datasets |= {f"history/{name}": values for name, values in history.items()} | {"history/seconds": np.arange(40.0)}
    return Contents(kind, {**datasets, **more}, {"method": "mccgr"})


def results_contents(**columns):
    """Results of as many runs as the columns have, all alike but for these."""
    count = len(next(iter(columns.values())))
    same = {"k": 3, "iterations": 50, "settled": 20, "converged": 1, "neighbors": 5, "alpha": 1.0, "strength": np.nan}
    same |= {"theta": 1.0, "keep": np.nan, "seconds": 0.1, "accuracy": 0.5, "nmi": 0.4, "ari": 0.3, "purity": 0.6}
    texts = {"method": "mccgr", "normalize": "l2", "weight": "binary"}
    datasets = {name: np.full(count, value) for name, value in same.items()}
    datasets |= {name: [text] * count for name, text in texts.items()} | {"run": np.arange(count)}
    return Contents("results", {**datasets, **columns})


def loaded(contents, name="F.h5"):
    return Loaded(contents, name, "0" * 64)


def scored(seed=0):
    """Two methods, three K, four runs each, and two alphas for the one that has alpha."""
    rng = np.random.default_rng(seed)
    rows = [
        (m, k, a) for k in (2, 3, 5) for _ in range(4) for m, a in (("mccgr", 1.0), ("mccgr", 100.0), ("l2", np.nan))
    ]
    method, k, alpha = zip(*rows, strict=True)
    accuracy = rng.random(len(rows))
    columns = {"method": list(method), "k": np.array(k), "alpha": np.array(alpha), "accuracy": accuracy}
    return results_contents(**columns, nmi=accuracy / 2, settled=rng.integers(1, 50, len(rows)))


@pytest.fixture
def F_file(tmp_path):
    return save(tmp_path / "F.h5", factors_contents(feature_names=[f"pixel {j}" for j in range(16)]))


@pytest.fixture
def C_file(tmp_path):
    labels, found = np.arange(30) % 3, (np.arange(30) + 1) % 3
    names = ["ant", "bee", "cat"]
    return save(tmp_path / "C.h5", factors_contents("clusters", labels=labels, label_names=names, assignments=found))


@pytest.fixture
def R_file(tmp_path):
    return save(tmp_path / "R.h5", scored())


def words(svg):
    """All text in an SVG."""
    return re.findall(r"<text[^>]*>([^<]*)</text>", svg.read_text(encoding="utf-8"))


# Each figure


@pytest.mark.parametrize(
    ("figure", "name", "expected"),
    [
        ("convergence", "F", ["objective", "data term", "graph term", "bandwidth σ", "iteration"]),
        ("weights", "F", ["1 silenced (weight &lt; 0.01)", "15 others", "pixel 0", "weight ρ"]),
        ("basis", "F", ["0", "1", "2", "each component from 0 (black) to its largest value (white)"]),
        ("embedding", "C", ["ant", "bee", "cat", "0 (cat)", "1 (ant)", "2 (bee)", "class", "cluster"]),
        ("dots", "C", ["feature 15", "cluster", "0 (cat)", "1 (ant)", "mean of WH, the values", "100%"]),
        ("dots", "F", ["pixel 15", "cluster", "0", "2", "mean of WH, the values", "25%"]),
        ("scores", "R", ["mccgr, alpha = 1", "mccgr, alpha = 100", "l2", "accuracy", "NMI", "number of clusters K"]),
        ("sweep", "R", ["mccgr, K = 2", "l2, K = 5", "alpha", "accuracy", "NMI", "mean of 4 runs"]),
        ("iterations", "R", ["mccgr (24 of 24)", "l2 (12 of 12)", "share of runs (%)"]),
    ],
)
def test_every_figure_in_every_format_says_what_it_shows(
    mccgr, F_file, C_file, R_file, tmp_path, figure, name, expected
):
    for suffix, begins in FORMATS.items():
        outcome = mccgr("plot", tmp_path / f"{name}.h5", "--figure", figure, "-o", tmp_path / f"fig.{suffix}")
        assert outcome.status == 0, outcome.stderr
        assert (tmp_path / f"fig.{suffix}").read_bytes().startswith(begins)
    found = words(tmp_path / "fig.svg")
    assert [text for text in expected if text not in found] == []


def test_real_factors_from_the_pipe(mccgr, X_file, tmp_path):
    factors = mccgr("factorize", X_file, "--k", 3, "-q", "-o", "-")
    clusters = mccgr("cluster", "-", "-q", "-o", "-", stdin=factors.output)
    drawn = mccgr("plot", "-", "--figure", "embedding", "-o", "-", "--format", "png", stdin=clusters.output)
    assert drawn.output.startswith(FORMATS["png"])
    assert drawn.stderr == ""


@pytest.mark.parametrize(
    ("contents", "figure"),
    [
        (factors_contents(), "convergence"),
        (factors_contents("clusters", assignments=np.zeros(30, dtype=int)), "convergence"),
        (scored(), "scores"),
        (results_contents(alpha=np.array([1.0, 10.0])), "sweep"),
        (results_contents(neighbors=np.array([3, 5])), "sweep"),
        (results_contents(alpha=np.array([1.0, 1.0])), "iterations"),
    ],
)
def test_the_figure_suits_the_file_and_names_the_output(mccgr, tmp_path, contents, figure):
    path = save(tmp_path / "X.made.h5", contents)
    outcome = mccgr("plot", path)
    assert outcome.stdout == f"{tmp_path}/X.made.{figure}.svg\n"
    assert (tmp_path / f"X.made.{figure}.svg").exists()


def test_size_resolution_and_title(mccgr, F_file, tmp_path):
    mccgr("plot", F_file, "--size", "4x3.5", "--dpi", 100, "-o", tmp_path / "fig.png")
    with Image.open(tmp_path / "fig.png") as image:
        assert image.size == (400, 350)
    mccgr("plot", F_file, "--title", "How it went", "-o", tmp_path / "fig.svg")
    assert "How it went" in words(tmp_path / "fig.svg")


def test_several_runs_are_told_apart_by_their_files_and_end_at_1(mccgr, tmp_path):
    paths = []
    for name in ("a/x.factors.h5", "a/y.factors.h5", "b/x.factors.h5"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        paths.append(save(tmp_path / name, factors_contents()))
    mccgr("plot", *paths[:2], "-o", tmp_path / "two.svg")
    assert {"x", "y", "objective / its last value"} <= set(words(tmp_path / "two.svg"))
    figure = of_curves.convergence([load(str(path), kinds=("factors",)) for path in paths], Drawing(), pytest.fail)
    (axes,) = figure.axes
    assert len({line.get_label() for line in axes.lines}) == 3
    assert [line.get_ydata()[-1] for line in axes.lines] == [1, 1, 1]


def test_weights_tell_the_silenced_features_by_name(mccgr, tmp_path):
    X, _ = planted(n=90)
    noise = np.random.default_rng(1).integers(0, 2, (90, 2)) * 15.0
    names = ",".join([*(f"f{j}" for j in range(24)), "noise1", "noise2"])
    np.savetxt(tmp_path / "X.csv", np.hstack([X, noise]), delimiter=",", header=names, comments="")
    mccgr("factorize", tmp_path / "X.csv", "--k", 3, "--method", "mcc", "-o", tmp_path / "F.h5")
    mccgr("plot", tmp_path / "F.h5", "--figure", "weights", "-o", tmp_path / "fig.svg")
    found = words(tmp_path / "fig.svg")
    assert "2 silenced (weight &lt; 0.01)" in found
    assert {"noise1", "noise2"} <= set(found[-24:])  # the lightest last


def test_basis_reads_pixels_in_the_order_that_was_said(mccgr, F_file):
    told = []
    contents = factors_contents(H=np.arange(3 * 16.0).reshape(3, 16) + 1)
    for order in ("C", "F"):
        figure = of_factors.basis([loaded(contents)], Drawing(shape=(2, 8), order=order), told.append)
        shown = figure.axes[0].images[0].get_array()
        tile = contents["H"][0].reshape((2, 8), order=order) / 16
        np.testing.assert_allclose(shown[1:3, :8], tile)
    assert told == []
    of_factors.basis([loaded(contents)], Drawing(), told.append)
    assert "4x4 pixels, row by row" in told[0]
    outcome = mccgr("plot", F_file, "--figure", "basis", "-o", "-")
    assert "4x4 pixels" in outcome.stderr
    for shape in ("1x16", "16x1"):
        assert mccgr("plot", F_file, "--figure", "basis", "--shape", shape, "-o", "-").status == 0


def test_embedding_is_the_plane_of_most_variance_and_says_how_much():
    rng = np.random.default_rng(3)
    plane = rng.standard_normal((30, 2)) * [9, 3]
    W = np.hstack([plane, np.zeros((30, 1))]) + 50
    figure = of_factors.embedding([loaded(factors_contents(W=W))], Drawing(), pytest.fail)
    (axes,) = figure.axes
    points = np.asarray(axes.collections[0].get_offsets())
    gaps = np.linalg.norm(plane[:, None] - plane[None], axis=2)
    np.testing.assert_allclose(np.linalg.norm(points[:, None] - points[None], axis=2), gaps)
    shares = np.sort(np.linalg.eigvalsh(np.cov(plane.T)))[::-1] / np.trace(np.cov(plane.T))
    assert f"{100 * shares[0]:.1f} %" in axes.get_xlabel()
    assert f"{100 * shares[1]:.1f} %" in axes.get_ylabel()


@pytest.mark.parametrize("found", [[2, 2, 0, 0, 7, 7], [5, 5, 5, 5, 1, 1], [4, 3, 0, 0, 1, 1]])
def test_a_class_looks_like_the_cluster_it_is_matched_with(found):
    contents = factors_contents("clusters", labels=np.array([0, 0, 1, 1, 2, 2]), assignments=np.array(found))
    contents.datasets["W"] = np.random.default_rng(0).random((6, 3))
    figure = of_factors.embedding([loaded(contents)], Drawing(), pytest.fail)
    looks = [{c.get_label(): to_hex(c.get_facecolor()) for c in axes.collections} for axes in figure.axes]
    assert list(looks[1].values()) == list(COLOURS[: len(set(found))])  # in the order of their numbers
    for label, colour in looks[1].items():
        match = re.fullmatch(r"\d+ \((\d)\)", label)
        assert match is None or colour == looks[0][match[1]]
    assert len(set(looks[0].values())) == 3
    assert sum("(" in label for label in looks[1]) == len(set(found))


def test_long_names_of_many_classes_find_room(mccgr, tmp_path):
    names = [f"class {i} of {'very ' * 20}many" for i in range(20)]
    labels = np.arange(30) % 20
    contents = factors_contents("clusters", labels=labels, label_names=names, assignments=labels)
    outcome = mccgr("plot", save(tmp_path / "C.h5", contents), "--figure", "embedding", "-o", tmp_path / "fig.svg")
    assert outcome.status == 0, outcome.stderr
    assert sum("…" in text for text in words(tmp_path / "fig.svg")) == 40


def test_many_groups_have_a_legend_and_more_than_60_a_colour_bar(mccgr, tmp_path):
    for count, named in ((30, 30), (61, 10)):
        names = [f"class {i}" for i in range(count)]
        W = np.random.default_rng(0).random((count, 3))
        contents = factors_contents(W=W, labels=np.arange(count), label_names=names)
        path = save(tmp_path / f"{count}.h5", contents)
        mccgr("plot", path, "--figure", "embedding", "-o", tmp_path / "fig.svg", "--overwrite")
        found = words(tmp_path / "fig.svg")
        assert {"class", "class 0", "class 9"} <= set(found)  # the first and the last in order of text
        assert sum(text.startswith("class ") for text in found) == named


def planted_clusters(tmp_path):
    """Clusters of three planted groups, in whose samples every second one has feature 0; and their matrix."""
    X, labels = planted()
    X[:, 0] *= np.arange(60) % 2
    X[:, 5] = 9  # sets nothing apart
    H = np.kron(np.eye(3), np.ones((1, 8))) * np.linspace(3, 1, 24)
    H[:, 5] = 9
    contents = factors_contents("clusters", W=np.eye(3)[labels] + 0.1, H=H, rho=np.ones(24), assignments=labels)
    return contents, save(tmp_path / "P.h5", contents), save(tmp_path / "M.h5", Contents("matrix", {"X": X})), X


def drawn_dots(figure):
    """The names of the rows and columns of the dots, and of each dot its share and its mean."""
    axes, dots = figure.axes[0], figure.axes[0].collections[0]
    rows, columns = ([t.get_text() for t in labels] for labels in (axes.get_yticklabels(), axes.get_xticklabels()))
    shape = len(rows), len(columns)
    shares = dots.get_sizes().reshape(shape) / of_dots.LARGEST_DOT**2
    return rows, columns, shares, np.asarray(dots.get_array()).reshape(shape)


def test_dots_are_the_top_features_with_shares_and_means_of_the_matrix(mccgr, tmp_path):
    contents, path, matrix, X = planted_clusters(tmp_path)
    labels = contents["assignments"]
    values = group_values(MemoryBlocks(X), labels)
    rows, columns, shares, means = drawn_dots(of_dots.dots([loaded(contents)], Drawing(count=2), pytest.fail, values))
    groups = top_features(contents, 2)
    assert rows == [f"feature {one.number}" for group in groups for one in group.features]
    assert columns == ["0", "1", "2"]
    chosen = [int(name.split()[1]) for name in rows]
    members = [X[labels == g][:, chosen] for g in range(3)]
    np.testing.assert_allclose(means.T, [own.mean(axis=0) for own in members])
    np.testing.assert_allclose(shares.T, [(own > 0).mean(axis=0) for own in members])
    assert shares[rows.index("feature 0"), 0] == pytest.approx(0.5)
    outcome = mccgr("plot", path, "--matrix", matrix, "--figure", "dots", "--count", 2, "-o", tmp_path / "fig.svg")
    assert outcome.status == 0, outcome.stderr
    assert sorted(text for text in words(tmp_path / "fig.svg") if text.startswith("feature")) == sorted(rows)
    assert "mean value" in words(tmp_path / "fig.svg")


def test_without_the_matrix_dots_show_the_product_of_the_factors(tmp_path):
    contents, _, _, _ = planted_clusters(tmp_path)
    WH, labels = contents["W"] @ contents["H"], contents["assignments"]
    rows, _, shares, means = drawn_dots(of_dots.dots([loaded(contents)], Drawing(), pytest.fail))
    chosen = WH[:, [int(name.split()[1]) for name in rows]]
    np.testing.assert_allclose(means.T, [chosen[labels == g].mean(axis=0) for g in range(3)])
    above = chosen > chosen.mean(axis=0)
    np.testing.assert_allclose(shares.T, [above[labels == g].mean(axis=0) for g in range(3)])
    assert len(rows) == len(set(rows)) == 15


def test_dots_of_factors_are_those_of_their_clusters(mccgr, tmp_path):
    contents, path, matrix, _ = planted_clusters(tmp_path)
    without = {name: values for name, values in contents.datasets.items() if name != "assignments"}
    factors = save(tmp_path / "F.h5", Contents("factors", without, {"form": "orthogonal"}))
    for given in ((), ("--matrix", matrix)):
        drawn = [mccgr("plot", one, "--figure", "dots", *given, "-o", "-") for one in (path, factors)]
        assert [one.status for one in drawn] == [0, 0]
        same_source = [re.sub(rb"sha256:\w+", b"", one.output) for one in drawn]
        assert same_source[0] == same_source[1]
    assert "clustered first as by 'mccgr cluster'" in drawn[1].stderr


@pytest.mark.parametrize("name", ["x" * 60, "W" * 60, "\u732b" * 60], ids=["narrow", "wide", "square"])
def test_long_names_of_features_have_room(mccgr, tmp_path, name):
    contents = factors_contents("clusters", assignments=np.arange(30) % 3)
    contents.datasets["feature_names"] = [name] * contents["H"].shape[1]
    path = save(tmp_path / "C.h5", contents)
    outcome = mccgr("plot", path, "--figure", "dots", "-o", tmp_path / "fig.png")
    assert outcome.status == 0, outcome.stderr


@pytest.mark.parametrize("clusters", [1, 22, 45])
def test_any_number_of_clusters_has_room_and_dots_say_what_is_left_out(mccgr, tmp_path, clusters):
    rng = np.random.default_rng(0)
    names = [f"class {i} of {'very ' * 20}many" for i in range(clusters)]
    found = np.arange(90) % clusters
    about = {"W": np.eye(clusters)[found] + 0.01, "H": rng.random((clusters, 60)), "rho": np.ones(60)}
    contents = factors_contents("clusters", **about, assignments=found, labels=found, label_names=names)
    outcome = mccgr("plot", save(tmp_path / "C.h5", contents), "--figure", "dots", "-o", tmp_path / "fig.svg")
    if clusters == 1:
        assert "no feature distinguishes" in outcome.stderr
        return
    assert outcome.status == 0, outcome.stderr
    assert ("the first 40 of 45 clusters" in outcome.stderr) == (clusters == 45)
    assert sum("…" in text for text in words(tmp_path / "fig.svg")) == min(clusters, 40)


def test_lines_are_means_and_bands_are_95_percent_intervals():
    contents = scored()
    contents.datasets["accuracy"][contents["k"] == 5] **= 0.1  # so near to 1 that intervals pass it
    figure = of_results.scores([loaded(contents)], Drawing(), pytest.fail)
    labels = [line.get_label() for line in figure.axes[0].lines]
    line, band = figure.axes[0].lines[labels.index("l2")], figure.axes[0].collections[labels.index("l2")]
    own = np.array(contents["method"]) == "l2"
    groups = [contents["accuracy"][own & (contents["k"] == k)] for k in (2, 3, 5)]
    np.testing.assert_array_equal(line.get_xdata(), [2, 3, 5])
    np.testing.assert_allclose(line.get_ydata(), [group.mean() for group in groups])
    corners = band.get_paths()[0].vertices
    for k, group in zip((2, 3, 5), groups, strict=True):
        expected = np.clip(stats.t.interval(0.95, 3, group.mean(), stats.sem(group)), 0, 1)
        at_k = corners[corners[:, 0] == k][:, 1]
        np.testing.assert_allclose([at_k.min(), at_k.max()], expected)
    assert at_k.max() == 1


def test_a_sweep_is_along_what_varies_and_level_for_methods_without_it():
    figure = of_results.sweep([loaded(scored())], Drawing(), pytest.fail)
    lines = {line.get_label(): list(line.get_xdata()) for line in figure.axes[0].lines}
    assert lines["mccgr, K = 3"] == [1, 100]
    assert figure.axes[0].get_xscale() == "log"
    level = next(line for line in figure.axes[0].lines if line.get_label() == "l2, K = 3")
    assert len(set(level.get_ydata())) == 1
    assert len(lines) == 6
    for values, scale in (([0.0, 1.0, 100.0], "symlog"), ([1.0, 2.0, 3.0], "linear")):
        figure = of_results.sweep([loaded(results_contents(alpha=np.array(values)))], Drawing(), pytest.fail)
        assert figure.axes[0].get_xscale() == scale
        assert figure.axes[0].get_xlim()[0] > -0.5
    figure = of_results.sweep([loaded(results_contents(weight=["heat", "binary", "heat"]))], Drawing(), pytest.fail)
    assert [text.get_text() for text in figure.axes[0].get_xticklabels()] == ["binary", "heat"]


@pytest.mark.parametrize(("first", "scale"), [(7000.0, "log"), (1.5, "linear")])
def test_a_bandwidth_that_falls_far_is_on_a_logarithmic_axis(first, scale):
    sigma = np.where(np.arange(40) < 8, first, 1.0)
    figure = of_curves.convergence([loaded(factors_contents(**{"history/sigma": sigma}))], Drawing(), pytest.fail)
    assert figure.axes[1].get_yscale() == scale


def test_clusters_are_counted_on_a_linear_axis():
    figure = of_results.scores([loaded(results_contents(k=np.arange(2, 40)))], Drawing(), pytest.fail)
    assert figure.axes[0].get_xscale() == "linear"
    assert all(tick == int(tick) for tick in figure.axes[0].get_xticks())


def test_methods_that_do_not_take_part_have_no_place_on_the_axis():
    columns = {"method": ["mccgr"] * 3 + ["l2"], "neighbors": np.array([3, 5, 9, 0])}
    figure = of_results.sweep([loaded(results_contents(**columns))], Drawing(), pytest.fail)
    lines = {line.get_label(): line for line in figure.axes[0].lines}
    assert list(lines["mccgr"].get_xdata()) == [3, 5, 9]
    assert list(figure.axes[0].get_xticks()) == [3, 5, 9]
    assert len(lines["l2"].get_xdata()) == 2
    figure = of_results.scores([loaded(results_contents(k=np.array([2, 3, 4, 3]), **columns))], Drawing(), pytest.fail)
    lines = {line.get_label(): line for line in figure.axes[0].lines}
    assert list(lines["l2"].get_xdata()) == [3]


def test_runs_with_alpha_and_runs_with_strength_are_lines_of_their_own():
    alpha, strength = np.array([1.0, 10.0, np.nan, np.nan]), np.array([np.nan, np.nan, 0.5, 0.5])
    contents = results_contents(alpha=alpha, strength=strength, accuracy=np.array([0.1, 0.2, 0.6, 0.8]))
    figure = of_results.sweep([loaded(contents)], Drawing(), pytest.fail)
    lines = {line.get_label(): list(line.get_ydata()) for line in figure.axes[0].lines}
    assert lines == {"mccgr": [0.1, 0.2], "mccgr, strength = 0.5": [pytest.approx(0.7)] * 2}


def test_the_share_of_settled_runs_rises_to_all_of_them():
    columns = {"method": ["mccgr"] * 4 + ["k-means"], "settled": np.array([30, 10, 20, 10, 0])}
    contents = results_contents(
        **columns, iterations=np.array([50, 50, 50, 50, 0]), converged=np.array([1, 0, 0, 1, 0])
    )
    figure = of_results.iterations([loaded(contents)], Drawing(), pytest.fail)
    (line,) = figure.axes[0].lines
    assert line.get_label() == "mccgr (2 of 4)"
    shares = dict(zip(line.get_xdata(), line.get_ydata(), strict=True))
    assert shares == {0: 0, 10: 50, 20: 75, 30: 100, 50: 100}


def test_only_some_runs(mccgr, refused, R_file, tmp_path):
    chosen = ("--only", "k=2,5", "--only", "method=mccgr", "--only", "alpha=100")
    mccgr("plot", R_file, *chosen, "-o", tmp_path / "fig.svg")
    found = words(tmp_path / "fig.svg")
    assert "mccgr" in found
    assert {"l2", "mccgr, alpha = 100", "3"}.isdisjoint(found)
    assert "it has 2, 3, 5" in refused("plot", R_file, "--only", "k=4", status=2)
    assert "it has l2, mccgr" in refused("plot", R_file, "--only", "method=pg", status=2)
    assert "no run with k=two" in refused("plot", R_file, "--only", "k=two", status=2)
    assert "'colour'" in refused("plot", R_file, "--only", "colour=red", status=2)
    assert "COLUMN=VALUE" in refused("plot", R_file, "--only", "k", status=2)


# The same each time, whatever the surroundings


def test_the_same_input_gives_the_same_bytes_whatever_the_style_of_the_user(mccgr, C_file):
    def drawn():
        return [mccgr("plot", C_file, "--figure", "embedding", "-o", "-", "--format", f).output for f in FORMATS]

    first = drawn()
    with matplotlib.rc_context({"lines.linewidth": 9, "font.size": 20, "svg.fonttype": "path", "text.usetex": True}):
        assert drawn() == first
        assert matplotlib.rcParams["font.size"] == 20
    assert b"dc:date" not in first[0]
    assert b"CreationDate" not in first[2]


@pytest.mark.slow
def test_the_same_bytes_in_another_process_and_no_pyplot(C_file):
    code = (
        "import sys\nfrom mccgr_cli.cli import main\n"
        f"try:\n    main(['plot', {str(C_file)!r}, '--figure', 'embedding', '-o', '-'], prog_name='mccgr')\n"
        "finally:\n    assert 'matplotlib.pyplot' not in sys.modules"
    )
    drawn = [
        subprocess.run(
            [sys.executable, "-c", code], env={**os.environ, "PYTHONHASHSEED": seed}, check=True, capture_output=True
        ).stdout
        for seed in "12"
    ]
    assert drawn[0] == drawn[1]
    assert drawn[0].startswith(FORMATS["svg"])


def test_the_figure_says_what_it_was_drawn_from(mccgr, F_file, tmp_path):
    sha256 = load(str(F_file), kinds=("factors",)).sha256
    mccgr("plot", F_file, "-o", tmp_path / "fig.svg")
    assert f"sha256:{sha256}" in (tmp_path / "fig.svg").read_text()
    png = mccgr("plot", F_file, "-o", "-", "--format", "png").output
    assert Image.open(io.BytesIO(png)).text["Source"] == f"sha256:{sha256}"


def test_names_are_drawn_as_they_are(mccgr, tmp_path):
    names = ["$\\alpha$", "<b>&", "broken $", "中"]
    path = save(tmp_path / "F.h5", factors_contents(labels=np.arange(30) % 4, label_names=names))
    outcome = mccgr("plot", path, "--figure", "embedding", "--title", "50 $ and 60 $", "-o", tmp_path / "fig.svg")
    assert {"$\\alpha$", "&lt;b&gt;&amp;", "broken $", "中", "50 $ and 60 $"} <= set(words(tmp_path / "fig.svg"))
    assert "missing from" in outcome.stderr
    assert mccgr("plot", path, "--figure", "embedding", "-q", "-o", tmp_path / "fig.png").stderr == ""


# What cannot be drawn


def refuse(refused, tmp_path, *arguments, status):
    """The message, if nothing was written."""
    before = sorted(tmp_path.iterdir())
    message = refused("plot", *arguments, status=status)
    assert sorted(tmp_path.iterdir()) == before
    return message


@pytest.mark.parametrize(
    ("arguments", "status", "expected"),
    [
        (("X.h5",), 1, "mccgr factorize or mccgr cluster or mccgr experiment"),
        (("missing.h5",), 1, "no such file"),
        ((), 2, "FILE"),
        (("-", "-"), 2, "only once"),
        (("F.h5", "--figure", "histogram"), 2, "--figure"),
        (("F.h5", "--figure", "scores"), 2, "choose convergence or weights or basis or embedding or dots"),
        (("R.h5", "--figure", "basis"), 2, "choose scores or sweep or iterations"),
        (("F.h5", "R.h5"), 2, "R.h5 holds the results of an experiment"),
        (("F.h5", "C.h5", "--figure", "weights"), 2, "2 files, and weights shows one"),
        (("R.h5", "R.h5"), 2, "2 files, and scores shows one"),
        (("F.h5", "-o", "fig.jpg"), 2, ".svg, .png or .pdf"),
        (("F.h5", "-o", "fig"), 2, ".svg, .png or .pdf"),
        (("F.h5", "-o", ""), 2, "-o"),
        (("F.h5", "-o", "fig.png", "--format", "svg"), 2, "--format"),
        (("F.h5", "-o", "fig.svg", "--dpi", "100"), 2, "--dpi"),
        (("F.h5", "-o", "fig.png", "--dpi", "2400", "--size", "40x40"), 2, "96000 x 96000 pixels"),
        (("F.h5", "--size", "6"), 2, "--size"),
        (("F.h5", "--size", "6xwide"), 2, "--size"),
        (("F.h5", "--size", "1x1"), 2, "1 x 1 inches are too few"),
        (
            ("C.h5", "--figure", "embedding", "--size", "4x2"),
            2,
            "4 x 2 inches are too few",
        ),  # its text would be cut off
        (("F.h5", "--shape", "4x4"), 2, "--shape"),
        (("F.h5", "--order", "C"), 2, "--order"),
        (("F.h5", "--only", "k=3"), 2, "--only"),
        (("F.h5", "--matrix", "X.h5"), 2, "--matrix"),
        (("F.h5", "--count", "3"), 2, "--count"),
        (("-", "--figure", "dots", "--matrix", "-"), 2, "standard input can be read only once"),
        (("C.h5", "--figure", "dots", "--matrix", "X.h5"), 1, "60 samples where"),
        (("F.h5", "--figure", "basis", "--shape", "4x5"), 2, "20 pixels, and F.h5 has 16 features"),
    ],
)
def test_refusals(refused, X_file, F_file, C_file, R_file, tmp_path, monkeypatch, arguments, status, expected):
    monkeypatch.chdir(tmp_path)
    assert expected in refuse(refused, tmp_path, *arguments, status=status)


@pytest.mark.parametrize(
    ("figure", "contents", "status", "expected"),
    [
        (
            "convergence",
            factors_contents(**{"history/objective": np.full(40, np.nan)}),
            1,
            "40 values of its objective",
        ),
        ("weights", factors_contents(rho=np.ones(16)), 1, "mccgr weighs all features alike"),
        ("basis", factors_contents(H=np.ones((3, 17)), rho=np.ones(17)), 2, "17 features of"),
        ("embedding", factors_contents(W=np.ones((30, 1)), H=np.ones((1, 16))), 1, "spans no plane"),
        ("embedding", factors_contents(W=np.ones((30, 3))), 1, "the same coefficients"),
        ("scores", results_contents(k=np.array([3, 3])), 1, "K is 3 in all runs"),
        (
            "scores",
            results_contents(k=np.arange(2, 5), nmi=np.array([0.1, np.nan, 0.2])),
            1,
            "values that are not from 0 to 1 in /nmi",
        ),
        ("scores", results_contents(k=np.tile([2, 3], 20), theta=np.repeat(np.arange(20.0), 2)), 1, "20 lines"),
        ("sweep", results_contents(k=np.array([2, 3])), 1, "draw --figure scores"),
        ("iterations", results_contents(iterations=np.zeros(3, dtype=int)), 1, "none of its runs iterated"),
    ],
)
def test_contents_that_cannot_be_drawn(refused, tmp_path, figure, contents, status, expected):
    path = save(tmp_path / "in.h5", contents)
    assert expected in refuse(refused, tmp_path, path, "--figure", figure, status=status)


@pytest.mark.parametrize("figure", ["convergence", "weights", "basis", "embedding", "dots"])
def test_clusters_of_a_matrix_have_no_factors_to_draw(mccgr, refused, X_file, tmp_path, figure):
    mccgr("cluster", X_file, "--k", 3, "-o", tmp_path / "C.h5")
    assert "without the factors" in refuse(refused, tmp_path, tmp_path / "C.h5", "--figure", figure, status=1)


def test_what_is_there_is_kept_unless_asked_and_inputs_always(mccgr, refused, F_file, tmp_path):
    figure = tmp_path / "fig.svg"
    figure.write_text("mine")
    assert "--overwrite" in refused("plot", F_file, "-o", figure)
    assert "--overwrite" in refused("plot", tmp_path / "missing.h5", "-o", figure)  # before anything is read
    assert figure.read_text() == "mine"
    assert mccgr("plot", F_file, "-o", figure, "--overwrite").status == 0
    assert figure.read_bytes().startswith(FORMATS["svg"])
    mccgr("plot", F_file)
    assert "exists already" in refused("plot", F_file)
    disguised = F_file.rename(tmp_path / "F.svg")
    assert "is also an input" in refused("plot", disguised, "-o", disguised, "--overwrite")


def test_without_matplotlib_it_says_how_to_get_it(F_file, tmp_path):
    code = (
        "import sys\nfrom mccgr_cli.cli import main\n"
        "class Without:\n    def find_spec(self, name, *_):\n        if name == 'matplotlib':\n"
        "            raise ModuleNotFoundError(name=name)\n"
        "sys.meta_path.insert(0, Without())\n"
        f"main(['plot', {str(F_file)!r}], prog_name='mccgr')"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stderr == (
        "matplotlib: not installed, and figures are drawn with it; install it with pip install 'mccgr-cli[plot]'\n"
    )
    assert list(tmp_path.iterdir()) == [F_file]
