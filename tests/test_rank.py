"""mccgr rank finds the planted k, and ignores copies of runs; the fit never sees hidden entries."""

from __future__ import annotations

import csv
import io
import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from conftest import after_calls, interrupt, planted
from scipy import sparse
from scipy.cluster.hierarchy import average, cophenet
from scipy.spatial.distance import squareform

from mccgr_cli.blocks.protocol import Size
from mccgr_cli.cli.rank import FORMATS
from mccgr_cli.core.graph import build_graph
from mccgr_cli.core.metrics import adjusted_rand_index
from mccgr_cli.errors import DataError
from mccgr_cli.files.atomic_write import write_files
from mccgr_cli.files.container import Contents, encode
from mccgr_cli.files.lazy_matrix import StoredMatrix
from mccgr_cli.files.readers import Loaded, load
from mccgr_cli.output.plots import ranks as plots
from mccgr_cli.settings import Drawing, GraphSettings, Settings
from mccgr_cli.workflow import factorization, ranking
from mccgr_cli.workflow.factorization import choose_graph, factorize
from mccgr_cli.workflow.ranking import criteria, saved, subsamples
from mccgr_cli.workflow.ranking.choice import columns_of_errors, recommend
from mccgr_cli.workflow.ranking.room import Room

TEXTURES = Path(__file__).parent.parent / "sample_data" / "textures.h5"
FAST = ("--runs", 3, "--jobs", 0, "-q")


@pytest.fixture(autouse=True)
def few_masks(monkeypatch):
    monkeypatch.setattr(ranking, "MASKS", 3)


def ranked(X, ks, runs=4, **more):
    plan = ranking.Plan(tuple(ks), runs, more.pop("share", 0.8), 0, Settings(k=1, **more), GraphSettings())
    tasks = plan.tasks()
    return ranking.combine(tasks, [ranking.run_task(task, X, plan) for task in tasks], X, plan)


def criteria_columns(stable, errors, silhouettes=None):
    """Columns for k from 1 on."""
    count = len(errors)
    nothing = np.full(count, np.nan)
    return {
        "k": np.arange(1, count + 1),
        "reproducibility": np.array([np.nan, *stable]),
        "reproducibility_error": np.zeros(count),
        "heldout": np.array(errors, dtype=float),
        "heldout_error": np.full(count, 0.01),
        "silhouette": nothing if silhouettes is None else np.array([np.nan, *silhouettes]),
    }


# What is recommended


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
def test_the_planted_number_is_recommended(form):
    X, _ = planted(n=80, d=32, k=4, seed=1)
    found = ranked(form(X), range(2, 6))
    assert found.recommendation.k == 4
    assert found.recommendation.by_stability == found.recommendation.by_heldout == 4
    assert found.recommendation.firm


@pytest.mark.slow
def test_three_textures_are_three(mccgr):
    outcome = mccgr("rank", TEXTURES, "--k", "2-5", "--runs", 4, "--jobs", 0, "-q", "--format", "k")
    assert outcome.stdout == "3\n"


def test_noise_has_one_component_and_that_is_said(mccgr, tmp_path):
    np.save(tmp_path / "noise.npy", np.random.default_rng(0).gamma(2.0, 1.0, (80, 30)))
    outcome = mccgr("rank", tmp_path / "noise.npy", "--k", "2-4", *FAST)
    assert "k = 1: No structure" in outcome.stdout


def test_stability_picks_from_what_prediction_allows():
    # two superclusters are stabler than the three that predict, and nine predict best of all
    errors = [1, 0.7, 0.3, 0.26, 0.24, 0.22, 0.2, 0.19, 0.17, 0.17]
    stable = [1.0, 0.95, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1, 0.0]
    found = recommend(criteria_columns(stable, errors, [0.5, 0.4, *[0.1] * 7]), range(2, 11))
    assert (found.k, found.by_stability, found.by_heldout, found.by_silhouette) == (3, 2, 9, 2)
    assert found.bracket == (3, 10)
    assert not found.firm
    assert "stability 2, held-out error 9, silhouette 2" in found.reasons


def test_more_components_than_predict_are_not_recommended_however_stable():
    found = recommend(criteria_columns([0.5, 0.9, 1.0, 1.0], [1, 0.6, 0.2, 0.5, 0.9]), range(2, 6))
    assert found.k == 3


def test_stable_clusters_that_predict_nothing_are_no_structure():
    found = recommend(criteria_columns([1.0, 1.0], [1, 1.2, 1.4]), (2, 3))
    assert found.k == 1
    assert not found.firm
    assert "3 clusters are found again" in found.reasons


def test_the_largest_of_equally_stable_k_is_recommended():
    assert recommend(criteria_columns([1.0, 1.0, 0.4], [1, 0.3, 0.1, 0.1]), (2, 3, 4)).k == 3


def test_a_doubtful_answer_says_so():
    weak = recommend(criteria_columns([0.3, 0.5, 0.2], [1, 0.5, 0.2, 0.3]), (2, 3, 4))
    assert (weak.k, weak.firm) == (3, False)
    assert "weak" in weak.reasons
    beyond = recommend(criteria_columns([0.5, 1.0], [1, 0.5, 0.2]), (2, 3))
    assert "try more" in beyond.reasons


def test_reasons_have_the_numbers_of_the_table(mccgr, X_file):
    noise = recommend(criteria_columns([0.4, 0.7996], [0.98765, 1.06543, 1.2]), (2, 3))
    assert "held-out error 0.988 ± 0.010 for k = 1, 1.065 ± 0.010 for k = 2" in noise.reasons
    assert not any(char in noise.reasons for char in "\n\r")
    found = mccgr("rank", X_file, "--k", "2-4", *FAST).stdout
    row = next(line.split() for line in found.splitlines() if line.startswith("3 *"))
    assert f"({row[3]} ± {row[4]} for the least of them)" in found


def test_clusters_are_reliable_if_the_table_says_so():
    for value, firm in ((0.7996, True), (0.7994, False)):
        best = recommend(criteria_columns([0.4, value, 0.2], [1, 0.6, 0.2, 0.2]), (2, 3, 4))
        assert (best.k, best.firm, "weak" in best.reasons) == (3, firm, not firm)
        assert best.reasons.startswith("In doubt.") is not firm


@pytest.mark.parametrize("firm", [True, False])
def test_a_figure_says_that_the_answer_is_in_doubt(firm):
    columns = criteria_columns([0.5, 1.0], [1, 0.6, 0.2])
    rest = {name: np.full(3, np.nan) for name in ("agreement", "cophenetic", "dispersion")}
    contents = Contents("ranks", columns | rest | {"runs": np.full(3, 2)}, {"recommended": 3, "firm": firm})
    figure = plots.criteria([Loaded(contents, "r.h5", "0" * 64)], Drawing(), pytest.fail)
    assert figure.axes[0].get_title(loc="left") == f"recommended: k = 3{'' if firm else ' (in doubt)'}"


def test_the_standard_error_is_that_of_differences_under_the_same_masks():
    by_mask = np.array([[2.0, 1.0], [3.0, 2.0], [4.0, 3.0]])  # masks differ, differences do not
    found = columns_of_errors(by_mask)
    assert found["heldout"].tolist() == [3, 2]
    assert found["heldout_error"].tolist() == [0, 0]


# Stability


def test_consensus_counts_only_pairs_drawn_together():
    gone = criteria.ABSENT
    runs = np.array([[0, 0, 1, gone], [1, 1, gone, 0], [0, 1, 1, gone]])
    consensus = criteria.Consensus(runs)
    assert consensus.known.tolist() == [True] * 5 + [False]
    np.testing.assert_allclose(consensus.shares[:5], [2 / 3, 0, 0, 1 / 2, 0], rtol=1e-6)
    # the pair that was never drawn together is left out, and so are samples with themselves
    known = np.array([2 / 3, 0, 0, 1 / 2, 0])
    np.testing.assert_allclose(consensus.dispersion(), (4 * (known - 0.5) ** 2).mean(), rtol=1e-6)


def test_cophenetic_correlation_is_that_of_scipy():
    rng = np.random.default_rng(0)
    runs = np.array([np.where(rng.random(30) < 0.2, rng.integers(3, size=30), np.arange(30) % 3) for _ in range(8)])
    shares = np.mean([run[:, None] == run[None] for run in runs], axis=0)
    distances = squareform(1 - shares, checks=False)
    expected, _ = cophenet(average(distances), distances)
    np.testing.assert_allclose(criteria.Consensus(runs).cophenetic(), expected, rtol=1e-5)


def test_one_cluster_that_falls_apart_in_many_is_noticed():
    """Agreement hardly falls when 1 cluster of 10 is cut in two at random; the least cluster shows it."""
    rng = np.random.default_rng(0)
    labels = np.repeat(np.arange(10), 20)
    cut = np.array([np.where((labels == 0) & (rng.random(200) < 0.5), 10, labels) for _ in range(6)])
    value, error = criteria.reproducibility(cut, 11)
    assert np.mean([adjusted_rand_index(table) for table in criteria.contingency_tables(cut, 11)]) > 0.9
    assert value < 0.5
    assert 0 < error < 0.1
    assert criteria.reproducibility(np.array([labels, labels, labels]), 10) == (1.0, 0.0)


def test_random_clusters_are_not_reproducible():
    runs = np.random.default_rng(0).integers(2, size=(6, 200))
    assert abs(criteria.reproducibility(runs, 2)[0]) < 0.1


def test_fewer_clusters_than_asked_for_are_not_reproducible():
    assert criteria.reproducibility(np.zeros((3, 20), dtype=int), 2)[0] == 0


@pytest.mark.parametrize("init", ["graph", "nndsvd"])
def test_identical_starts_are_not_evidence(init):
    X, _ = planted(n=60)
    found = ranked(X, (3, 4), runs=3, share=1.0, init=init, method="mccgr" if init == "graph" else "l2")
    rows = dict(zip(found.columns["k"].tolist(), found.columns["runs"].tolist(), strict=True))
    assert rows[3] == 1
    assert np.isnan(found.columns["reproducibility"][1])
    assert np.isnan(found.columns["cophenetic"][1])


def test_a_draw_is_clustered_as_cluster_would(monkeypatch):
    X, _ = planted(n=60)
    rows, settings, graph = np.arange(60), Settings(k=1, init="graph"), GraphSettings()
    monkeypatch.setattr(subsamples, "LOOSER", 1)
    found = subsamples.cluster_subsample(X, rows, settings, graph, [3])
    A = choose_graph(X, replace(settings, k=3), graph)
    W = factorize(X, replace(settings, k=3), A).W
    np.testing.assert_array_equal(found[3].assignments, W.argmax(axis=1))


def test_a_draw_has_one_first_graph_and_few_second_ones(monkeypatch):
    X, _ = planted(n=60)
    built = []
    monkeypatch.setattr(factorization, "build_graph", lambda *given: built.append(given) or build_graph(*given))
    subsamples.cluster_subsample(X, np.arange(60), Settings(k=1, init="graph"), GraphSettings(), range(2, 8))
    assert len(built) == 1 + 4  # of all features; for 2, 3, 4 and 5, 6 and 7


def test_values_that_single_precision_cannot_square_keep_theirs():
    for size in (1e-30, 1, 1e30):
        assert subsamples.in_single_precision(np.full((2, 2), size)).dtype == ("float32" if size == 1 else "float64")


def test_the_same_outcome_from_other_starts_is_evidence():
    X, _ = planted(n=60)
    found = ranked(X, (3,), runs=3, share=1.0, init="random", method="l2")
    assert found.columns["runs"].tolist() == [0, 3]
    assert found.columns["reproducibility"][1] == 1


def test_copies_are_recognized_in_any_order_of_components():
    W, rows = np.random.default_rng(0).random((20, 4)), np.arange(20)
    starts = [(rows, criteria.signature(one, rows)) for one in (W, W[:, ::-1], W + 1e-4, 1 - W)]
    assert criteria.distinct_runs(starts) == [0, 3]
    others = np.arange(1, 21)
    assert criteria.distinct_runs([starts[0], (others, criteria.signature(W, others))]) == [0, 1]


# Hidden entries


def test_the_fit_never_sees_what_is_hidden(monkeypatch):
    X, _ = planted(n=40)
    hidden = criteria.hide(X.shape, np.random.default_rng(0))
    other = X.copy()
    other[hidden] = np.random.default_rng(1).random(len(hidden[0])) * 100
    for one, two in zip(criteria.imputed(X, hidden), criteria.imputed(other, hidden), strict=True):
        np.testing.assert_array_equal(one, two)
    guesses = []
    monkeypatch.setattr(
        criteria, "predict", lambda *given, old=criteria.predict: guesses.append(old(*given)) or guesses[-1]
    )
    for data in (X, other):
        criteria.heldout_errors(data, hidden, [1, 3], np.ones(X.shape[1]), [2])
    np.testing.assert_array_equal(guesses[:2][1], guesses[2:][1])


def test_weights_of_features_never_see_what_is_hidden(monkeypatch):
    X, _ = planted(n=40)
    plan = ranking.Plan((2, 3), 2, 0.8, 0, Settings(k=1), GraphSettings())
    hidden = criteria.hide(X.shape, np.random.default_rng([0, 3, 0]))
    used = []
    monkeypatch.setattr(criteria, "heldout_errors", lambda X, hidden, ks, rho, seed: used.append((hidden, rho)))
    for data in (X, np.where(np.isin(np.arange(X.size), hidden[0] * X.shape[1] + hidden[1]).reshape(X.shape), 9, X)):
        ranking.errors_under_mask(0, data, plan)
    np.testing.assert_array_equal(used[0][0], hidden)
    np.testing.assert_array_equal(used[0][1], used[1][1])


def test_an_exact_product_is_predicted_exactly():
    rng = np.random.default_rng(0)
    X = rng.random((40, 3)) @ rng.random((3, 30))
    hidden = criteria.hide(X.shape, rng)
    errors = criteria.heldout_errors(X, hidden, [1, 3], np.ones(30), [0])
    assert errors[1] < 0.05 < errors[0]


def test_a_large_sparse_matrix_stays_sparse_but_for_a_part():
    X = sparse.random_array((3000, 50_000), density=1e-4, format="csr", rng=np.random.default_rng(0))
    part = criteria.dense_part(X, np.random.default_rng(0))
    assert part.shape == (criteria.MOST_ROWS, criteria.MOST_FEATURES)


# The command


def test_same_result_for_any_jobs(mccgr, X_file, tmp_path):
    found = []
    for jobs in (0, 2):
        out = tmp_path / f"{jobs}.h5"
        mccgr("rank", X_file, "--k", "2-3", "--runs", 2, "--jobs", jobs, "-o", out)
        contents = load(str(out), kinds=("ranks",)).contents
        found.append({name: np.asarray(values).tolist() for name, values in contents.datasets.items()})
    assert json.dumps(found[0]) == json.dumps(found[1])  # NaN are equal in text


@pytest.fixture
def interrupted(mccgr):
    """Run a command that is interrupted after some tasks of a ranking."""

    def run(tasks, *arguments):
        with after_calls(tasks, ranking, "run_task", interrupt):
            outcome = mccgr(*arguments)
        assert outcome.status == 130
        return outcome

    return run


SIX_TASKS = ("--k", "2-3", "--runs", 2, "--jobs", 0)  # 3 masks with few_masks, the weights, 2 draws


def test_an_interrupted_ranking_continues_and_writes_the_same_bytes(mccgr, interrupted, X_file, tmp_path):
    whole, out = tmp_path / "whole" / "r.h5", tmp_path / "cut" / "r.h5"
    for path in (whole, out):
        path.parent.mkdir()
    shown = mccgr("rank", X_file, *SIX_TASKS, "-o", whole).stdout
    for done in (1, 4):
        said = interrupted(done, "rank", X_file, *SIX_TASKS, "-o", out).stderr
        assert "r.h5.part; the same command continues" in said
    again = mccgr("rank", X_file, *SIX_TASKS, "-o", out)
    assert "continuing after 5 of 6 tasks" in again.stderr
    assert again.stdout == shown
    assert contents_of(out) == contents_of(whole)
    assert [path.name for path in out.parent.iterdir()] == ["r.h5"]


def contents_of(path):
    contents = load(str(path), kinds=("ranks",)).contents
    return {name: values.tobytes() for name, values in contents.datasets.items()}, contents.attributes


def test_other_options_do_not_continue_a_ranking(mccgr, refused, interrupted, X_file, tmp_path):
    out = tmp_path / "r.h5"
    interrupted(2, "rank", X_file, *SIX_TASKS, "-o", out)
    assert "other data or options" in refused("rank", X_file, *SIX_TASKS, "--seed", 1, "-o", out)
    outcome = mccgr("rank", X_file, *SIX_TASKS, "--seed", 1, "-o", out, "--overwrite")
    assert (outcome.status, "continuing" in outcome.stderr) == (0, False)


@pytest.mark.parametrize("damage", ["clusters", "starts", "errors", "weights"])
def test_damaged_tasks_are_repeated(damage):
    X, _ = planted()
    plan = ranking.Plan((2, 3), 2, 0.8, 0, Settings(k=2, init="graph"), GraphSettings())
    task = next(task for task in plan.tasks() if damage in (saved.to_json(ranking.run_task(task, X, plan)) or {}))
    value = saved.to_json(ranking.run_task(task, X, plan))
    assert saved.from_json(task, json.loads(json.dumps(value)), X.shape, plan) is not None
    wrong = [None, [], 5, {}, {damage: None}, {damage: "AAAA"}, {damage: [1.0]}, {damage: {"2": "AAAA", "3": "AAAA"}}]
    beyond = {str(k): saved.packed(np.full(len(X), 9), saved.CLUSTERS) for k in (2, 3)}
    wrong += [{"clusters": beyond}] if damage == "clusters" else []
    for one in wrong:
        assert saved.from_json(task, value | one if isinstance(one, dict) and one else one, X.shape, plan) is None


def test_run_continues_the_ranking_that_was_interrupted(mccgr, interrupted, X_file, tmp_path):
    out = tmp_path / "out"
    interrupted(3, "run", X_file, "--jobs", 0, "-o", out)
    again = mccgr("run", X_file, "--jobs", 0, "-o", out)
    assert again.status == 0
    assert "continuing after 3 of" in again.stderr
    assert not list(out.glob("*.part"))


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="needs SIGKILL")
def test_a_killed_ranking_continues_and_writes_the_same(mccgr, X_file, tmp_path):
    out, part = tmp_path / "r.h5", tmp_path / "r.h5.part"
    arguments = ["--k", "2-4", "--runs", "12", "--jobs", "2"]
    command = [sys.executable, "-m", "mccgr_cli", "rank", str(X_file), *arguments, "-o", str(out)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and not (part.exists() and part.read_bytes().count(b"\n") > 3):
        time.sleep(0.01)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    assert not out.exists()
    assert "continuing after" in mccgr("rank", X_file, *arguments, "-o", out).stderr
    mccgr("rank", X_file, *arguments, "-o", tmp_path / "whole.h5")
    assert contents_of(out) == contents_of(tmp_path / "whole.h5")


def test_every_format_says_the_same():
    X, _ = planted()
    found = ranked(X, (2, 3, 4), runs=3)
    runs = {style: f"{form(found)}\n" for style, form in FORMATS.items()}
    assert runs["k"] == "3\n"
    found = json.loads(runs["json"])
    assert found["recommended"] == 3
    assert [row["k"] for row in found["criteria"]] == [1, 2, 3, 4]
    assert found["criteria"][0]["reproducibility"] is None
    rows = list(csv.DictReader(io.StringIO(runs["csv"])))
    assert [row["k"] for row in rows if row["recommended"] == "1"] == ["3"]
    assert "3 *" in runs["table"]
    assert f"k = 3: {found['reasons']}\n" in runs["table"]


def test_ranks_are_kept_shown_and_drawn(mccgr, X_file, tmp_path):
    out = tmp_path / "ranks.h5"
    outcome = mccgr("rank", X_file, "--k", "2-4", *FAST, "-o", out)
    assert "k = 3" in outcome.stdout
    contents = load(str(out), kinds=("ranks",)).contents
    assert contents.attributes["recommended"] == 3
    assert contents.attributes["reasons"] in outcome.stdout
    found = mccgr("info", out).stdout
    assert "(recommended)" in found
    for name in ("one.svg", "two.svg"):
        assert mccgr("plot", out, "-o", tmp_path / name).status == 0
    drawn = (tmp_path / "one.svg").read_bytes()
    assert drawn == (tmp_path / "two.svg").read_bytes()
    assert b"recommended: k = 3" in drawn


def test_the_number_alone_and_the_file_alone_can_be_piped_on(mccgr, X_file):
    assert mccgr("rank", X_file, "--k", "3", *FAST, "--format", "k").stdout == "3\n"
    streamed = mccgr("rank", X_file, "--k", "3", *FAST, "-o", "-")
    assert mccgr("info", "-", stdin=streamed.output).stdout.count("(recommended)") == 1


@pytest.mark.parametrize("bracket", [[3, 4], [4, 3], [0, 0], [1.5, 2.5], "x", [1, 2, 3], [1, 2**62]])
@pytest.mark.parametrize("recommended", [3, 0, "x", 2**60])
def test_a_figure_does_not_rely_on_attributes(tmp_path, bracket, recommended):
    columns = criteria_columns([0.5, 1.0, 0.5], [1, 0.6, 0.2, 0.2])
    rest = {name: np.full(4, np.nan) for name in ("agreement", "cophenetic", "dispersion")}
    contents = Contents("ranks", columns | rest | {"runs": np.full(4, 2)}, {"bracket": bracket})
    contents.attributes["recommended"] = recommended
    write_files({tmp_path / "r.h5": encode(contents)}, overwrite=False)
    figure = plots.criteria([load(str(tmp_path / "r.h5"), kinds=("ranks",))], Drawing(), pytest.fail)
    assert len(figure.axes) == 4


def test_a_k_that_occurs_twice_is_not_drawn():
    columns = criteria_columns([0.5, 1.0], [1, 0.6, 0.2]) | {"k": np.array([1, 2, 2])}
    with pytest.raises(DataError, match="twice"):
        plots.criteria([Loaded(Contents("ranks", columns), "r.h5", "0" * 64)], Drawing(), pytest.fail)


@pytest.mark.parametrize("form", ["dense", "sparse"])
def test_samples_are_drawn_from_a_file_that_is_larger_than_the_memory(mccgr, tmp_path, monkeypatch, form):
    X, _ = planted(6000, 240)
    if form == "sparse":
        X = sparse.csr_array(X * (np.median(X) < X))
    write_files({tmp_path / "X.h5": encode(Contents("matrix", {"X": X}))}, overwrite=False)
    drawn = ("rank", tmp_path / "X.h5", "--k", "2-3", "--samples", 80, *FAST, "--format", "json")
    whole = mccgr(*drawn)
    monkeypatch.setattr(StoredMatrix, "load", pytest.fail)
    little = mccgr(*drawn, "--memory", "10MB")
    assert (little.status, little.stdout) == (0, whole.stdout)


def test_samples_that_do_not_fit_are_refused_with_the_number_that_does(mccgr, refused, tmp_path):
    X, _ = planted(6000, 240)
    write_files({tmp_path / "X.h5": encode(Contents("matrix", {"X": X}))}, overwrite=False)
    some = ("rank", tmp_path / "X.h5", "--k", "2", "--memory", "10MB", *FAST)
    said = refused(*some)
    assert said.startswith("--memory 10 MB: 3000 samples of 240 features take 129 MB; give --samples ")
    most = int(said.split("--samples ")[1].split(",")[0])
    assert f"give --samples {most}," in refused(*some, "--samples", most + 1)
    assert "give --k, or more --memory" in refused("run", some[1], "--memory", "10MB", "-q", "-o", tmp_path / "out")


def test_fewer_processes_are_used_where_more_do_not_fit():
    room = Room(10e6, Size(6000, 240, 8))
    assert [room.jobs(samples, 8) for samples in (60, 500, 800)] == [8, 1, 1]
    assert room.jobs(60, 0) == 0
    sizes = [room.needed(samples) for samples in (60, 500, 3000)]
    assert sizes == sorted(sizes)


def test_few_of_many_samples_are_used_and_that_is_said(mccgr, X_file):
    outcome = mccgr("rank", X_file, "--k", "2-3", "--runs", 2, "--jobs", 0, "--samples", 30)
    assert "30 of 60 samples are used" in outcome.stderr
    assert outcome.status == 0


@pytest.mark.parametrize(
    ("shape", "most"),
    [((5000, 1280), 50), ((399, 1280), 30), ((60, 24), 6), ((59, 24), 5), ((15, 24), 5), ((4, 24), 3), ((5000, 4), 4)],
)
def test_the_usual_numbers_leave_enough_samples_for_each_cluster(shape, most):
    found = ranking.usual_ks(shape, 0.8)
    assert (found[0], found[-1]) == (2, most)
    ranking.check_plan(ranking.Plan(found, 2, 0.8, 0, Settings(k=1), GraphSettings()), shape)


def test_the_usual_numbers_are_tried_if_none_is_named(mccgr, X_file):
    found = json.loads(mccgr("rank", X_file, *FAST, "--samples", 40, "--format", "json").stdout)
    assert [row["k"] for row in found["criteria"]] == [1, 2, 3, 4, 5]


def test_too_many_components_are_refused(refused, X_file):
    message = refused("rank", X_file, "--k", "2-25", *FAST, status=2)
    assert "25 components" in message
    assert "give at most 24" in message


ODD = {
    "five samples": np.random.default_rng(0).random((5, 6)),
    "all alike": np.ones((20, 6)),
    "copies of one": np.tile(np.arange(1.0, 7.0), (20, 1)),
    "rows of zeros": np.vstack([np.zeros((6, 8)), np.random.default_rng(0).random((20, 8))]),
}


@pytest.mark.parametrize("name", ODD)
def test_odd_matrices_have_no_structure(mccgr, tmp_path, name):
    np.save(tmp_path / "X.npy", ODD[name])
    outcome = mccgr("rank", tmp_path / "X.npy", "--k", "2-3", "--runs", 3, "--jobs", 0, "-q", "--format", "k")
    assert (outcome.status, outcome.stdout) == (0, "1\n")


@pytest.mark.parametrize(("ks", "said"), [("1", "Only 1 was tried"), ("3", "The only k that was tried")])
def test_one_number_alone(mccgr, X_file, ks, said):
    assert said in mccgr("rank", X_file, "--k", ks, *FAST).stdout


def test_failed_runs_are_reported_and_the_rest_counts():
    X, _ = planted(n=60)
    plan = ranking.Plan((2, 3, 4), 3, 0.8, 0, Settings(k=1), GraphSettings())
    tasks = plan.tasks()
    fault = DataError("X", "overflows")
    results = [ranking.run_task(task, X, plan) for task in tasks]
    results = [{**found, 4: fault} if task.kind == "run" else found for task, found in zip(tasks, results, strict=True)]
    found = ranking.combine(tasks, results, X, plan)
    assert found.recommendation.k == 3
    assert found.failures == {4: "X: overflows"}
    with pytest.raises(DataError, match="overflows"):
        ranking.combine(tasks, [fault] * len(tasks), X, plan)
