"""Experiments: all methods have the same draws and starts, for any number of processes and after interruptions."""

from __future__ import annotations

import csv
import io
import json
import os
import signal
import subprocess
import sys
import time
from functools import partial

import h5py
import numpy as np
import pytest
from conftest import after_calls, interrupt, planted
from scipy.stats import wilcoxon

from mccgr_cli.errors import OutputError
from mccgr_cli.files.container import RESULTS, Contents, encode
from mccgr_cli.files.journal import Journal, checksum
from mccgr_cli.settings import BASELINES, METHODS
from mccgr_cli.workflow import experiment
from mccgr_cli.workflow.comparison import compare, variant_names
from mccgr_cli.workflow.experiment import Trial, draw_classes

UNTIMED = [name for name in RESULTS if name != "seconds"]


@pytest.fixture
def classes(tmp_path):
    """Samples of six classes; three of them are similar."""
    X, labels = planted(n=120)
    labels = labels + 3 * (np.arange(120) % 2)
    path = tmp_path / "X.h5"
    names = [f"class {label}" for label in range(6)]
    path.write_bytes(encode(Contents("matrix", {"X": X, "labels": labels, "label_names": names})))
    return path


def columns(path):
    with h5py.File(path) as file:
        return {name: file[name][()].tolist() for name in UNTIMED}


def same(one, other):
    return all(
        np.array_equal(np.array(one[name]), np.array(other[name]), equal_nan=name in NUMBERS) for name in UNTIMED
    )


NUMBERS = [name for name, field in RESULTS.items() if field.type == "real"]


def test_all_methods_on_every_draw(mccgr, classes, tmp_path):
    out = tmp_path / "r.h5"
    assert mccgr("experiment", classes, "--k", "2-3", "--runs", 2, "--jobs", 0, "-o", out).status == 0
    found = columns(out)
    assert len(found["k"]) == 2 * 2 * 9
    assert sorted({name.decode() for name in found["method"]}) == sorted([*METHODS, *BASELINES])
    assert not (tmp_path / "r.h5.part").exists()
    scores = np.array([found[name] for name in ("accuracy", "nmi", "purity")])
    assert ((scores >= 0) & (scores <= 1)).all()
    weights = zip(found["alpha"], found["strength"], strict=True)
    by_method = dict(zip([name.decode() for name in found["method"]], weights, strict=True))
    assert np.isnan(by_method["l2"]).all()
    assert by_method["mccgr"][1] == 10


def test_the_number_of_processes_changes_nothing(mccgr, classes, tmp_path):
    for jobs in (0, 2):
        arguments = ("--methods", "mccgr,pg,k-means-weighted", "--k", "2,4", "--runs", 3, "--jobs", jobs)
        assert mccgr("experiment", classes, *arguments, "-o", tmp_path / f"{jobs}.h5").status == 0
    assert same(columns(tmp_path / "0.h5"), columns(tmp_path / "2.h5"))


def test_methods_and_runs_do_not_depend_on_the_others_that_are_asked_for(mccgr, classes, tmp_path):
    mccgr("experiment", classes, "--methods", "l2,kl", "--k", "2,3", "--runs", 3, "--jobs", 0, "-o", tmp_path / "a.h5")
    mccgr("experiment", classes, "--methods", "kl", "--k", "3", "--runs", 2, "--jobs", 0, "-o", tmp_path / "b.h5")
    a, b = columns(tmp_path / "a.h5"), columns(tmp_path / "b.h5")
    rows = [i for i in range(len(a["k"])) if a["method"][i] == b"kl" and a["k"][i] == 3 and a["run"][i] < 2]
    assert [a["nmi"][i] for i in rows] == b["nmi"]


FORM = ("--form", "paper")  # so that all are assigned to clusters in the same way


def test_all_methods_start_alike(mccgr, classes, tmp_path):
    out = tmp_path / "r.h5"
    for init in ("graph", "random"):
        arguments = ("--methods", ",".join(METHODS), "--init", init, "--iterations", 0, "--k", 4, "--runs", 3, *FORM)
        mccgr("experiment", classes, *arguments, "--jobs", 0, "-o", out, "--overwrite")
        found = columns(out)
        for run in range(3):
            assert len({nmi for nmi, its in zip(found["nmi"], found["run"], strict=True) if its == run}) == 1
        assert len(set(found["nmi"])) > 1


def test_the_start_does_not_depend_on_the_weight_of_the_graph(mccgr, classes, tmp_path):
    starts = set()
    for alphas in ("0,100", "100,0"):
        arguments = ("--methods", "mccgr,l2", "--alpha", alphas, "--iterations", 0, "--k", 4, "--runs", 1, "--jobs", 0)
        mccgr("experiment", classes, *arguments, "-o", tmp_path / "r.h5", "--overwrite")
        starts |= set(columns(tmp_path / "r.h5")["nmi"])
    assert len(starts) == 1


def test_draws_have_k_classes_and_differ():
    labels = np.arange(60) % 6
    samples = [frozenset(draw_classes(labels, Trial("none", 2, run), 0)[0].tolist()) for run in range(20)]
    assert all(len({labels[i] for i in chosen}) == 2 and len(chosen) == 20 for chosen in samples)
    assert len(set(samples)) > 5
    assert draw_classes(labels, Trial("l2", 2, 3), 0)[0].tolist() == sorted(samples[3])  # whatever the normalization


def test_sweeps_concern_only_the_methods_that_have_the_option(mccgr, classes, tmp_path):
    arguments = ("--methods", "mccgr,mcc,l2", "--alpha", "1,100", "--theta", "1,5", "--neighbors", "3,5")
    mccgr("experiment", classes, *arguments, "--k", 2, "--runs", 1, "--jobs", 0, "-o", tmp_path / "r.h5")
    methods = columns(tmp_path / "r.h5")["method"]
    assert {name: methods.count(name) for name in set(methods)} == {b"mccgr": 8, b"mcc": 2, b"l2": 1}


@pytest.mark.parametrize("values", ["alpha 0,100", "keep 0.1,0.9", "theta 0.5,5", "neighbors 2,9"])
def test_a_value_in_a_sweep_gives_what_it_gives_alone(mccgr, classes, tmp_path, values):
    option, both = values.split()
    arguments = ("--methods", "mccgr", "--graph-features", "weighted", "--k", 4, "--runs", 3, "--jobs", 0)
    settled = {}
    for given in (both, *both.split(",")):
        mccgr("experiment", classes, *arguments, f"--{option}", given, "-o", tmp_path / f"{given}.h5")
        found = columns(tmp_path / f"{given}.h5")
        settled[given] = sorted(zip(found[option], found["run"], found["iterations"], found["settled"], strict=True))
    alone = [settled[value] for value in both.split(",")]
    assert settled[both] == sorted(alone[0] + alone[1])
    assert [row[2:] for row in alone[0]] != [row[2:] for row in alone[1]]


def test_a_killed_experiment_goes_on_and_ends_with_the_same_results(mccgr, classes, tmp_path):
    arguments = ["--methods", "mccgr,l2", "--k", "2-5", "--runs", "6", "--jobs", "2"]
    out, part = tmp_path / "killed.h5", tmp_path / "killed.h5.part"
    command = [sys.executable, "-m", "mccgr_cli", "experiment", str(classes), *arguments, "-o", str(out)]
    done = 0
    for _ in range(2):
        process = subprocess.Popen(command, stderr=subprocess.PIPE, start_new_session=True)
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline and not (part.exists() and part.read_bytes().count(b"\n") > done + 1):
            time.sleep(0.02)
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        assert not out.exists()
        done = part.read_bytes().count(b"\n")
    with part.open("ab") as file:
        file.write(b'{"name": "hellinger 5 9", "resu')  # as a crash leaves it
    outcome = mccgr("experiment", classes, *arguments, "-o", out)
    assert outcome.status == 0, outcome.stderr
    assert f"continuing after {done - 1} of 24 trials" in outcome.stderr
    mccgr("experiment", classes, *arguments, "--jobs", 0, "-o", tmp_path / "whole.h5")
    assert same(columns(out), columns(tmp_path / "whole.h5"))


@pytest.fixture
def interrupted(mccgr):
    """Run a command that is interrupted after two trials."""

    def run(*arguments):
        with after_calls(2, experiment, "run_trial", interrupt):
            assert mccgr(*arguments).status == 130

    return run


FOUR_TRIALS = ("--methods", "l2", "--k", 2, "--runs", 4, "--jobs", 0)


def test_a_run_that_replaces_its_output_goes_on_too(mccgr, interrupted, classes, tmp_path):
    options = ("experiment", classes, *FOUR_TRIALS, "--overwrite", "-o", tmp_path / "r.h5")
    interrupted(*options)
    assert "continuing after 2 of 4 trials" in mccgr(*options).stderr


def test_damaged_trials_are_repeated(mccgr, interrupted, classes, tmp_path):
    options, part = ("experiment", classes, *FOUR_TRIALS, "-o", tmp_path / "r.h5"), tmp_path / "r.h5.part"
    interrupted(*options)
    lines = part.read_text().splitlines()
    part.write_text("\n".join([lines[0], lines[1].replace("l2", "kl"), "[]", 10**5 * "[", "{", lines[0], lines[2], ""]))
    assert "continuing after 1 of 4 trials" in mccgr(*options).stderr
    mccgr(*options[:-1], tmp_path / "whole.h5")
    assert same(columns(tmp_path / "r.h5"), columns(tmp_path / "whole.h5"))


def test_two_matrices_of_one_file_are_not_mixed(refused, interrupted, tmp_path):
    X, labels = planted(n=60)
    np.savez(tmp_path / "Y.npz", A=X, B=X[:, ::-1], labels=labels)
    options = (*FOUR_TRIALS, "-o", tmp_path / "r.h5")
    interrupted("experiment", f"{tmp_path}/Y.npz::A", *options)
    assert "other data or options" in refused("experiment", f"{tmp_path}/Y.npz::B", *options)


def test_a_file_that_is_no_journal_is_left_alone(refused, classes, tmp_path):
    other = tmp_path / "r.h5.part"
    other.write_bytes(classes.read_bytes())
    for arguments in ((classes,), (classes, "--overwrite"), (other,)):
        said = refused("experiment", *arguments, *FOUR_TRIALS, "-o", tmp_path / "r.h5")
        assert "is not the saved part of a run" in said
        assert other.read_bytes() == classes.read_bytes()


def test_a_folder_that_goes_away_ends_the_run(classes, tmp_path):
    journal = Journal(tmp_path / "j", "x")
    (tmp_path / "j").unlink()
    with pytest.raises(OutputError, match="deleted"):
        journal.add("a", [])
    journal.close()


def test_a_folder_in_the_place_of_the_journal_is_refused(refused, classes, tmp_path):
    (tmp_path / "r.h5.part").mkdir()
    assert "not a regular file" in refused("experiment", classes, *FOUR_TRIALS, "-o", tmp_path / "r.h5")


def test_a_full_disk_is_reported_in_one_line(classes, tmp_path):
    resource = pytest.importorskip("resource")
    arguments = map(str, ("experiment", classes, *FOUR_TRIALS, "-q", "-o", tmp_path / "r.h5"))
    command = [sys.executable, "-m", "mccgr_cli", *arguments]
    limit = partial(resource.setrlimit, resource.RLIMIT_FSIZE, (700, 700))
    done = subprocess.run(command, preexec_fn=limit, capture_output=True, text=True)
    assert done.returncode == 1
    assert len(done.stderr.splitlines()) == 1, done.stderr
    assert "r.h5.part" in done.stderr
    subprocess.run(command, check=True)  # goes on where it was


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_experiment_says_how_to_go_on(classes, tmp_path, number):
    arguments = ["--k", "2-5", "--runs", "200", "--jobs", "2"]
    part = tmp_path / "r.h5.part"
    command = [sys.executable, "-m", "mccgr_cli", "experiment", str(classes), *arguments, "-o", str(tmp_path / "r.h5")]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, start_new_session=True)
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and not (part.exists() and part.read_bytes().count(b"\n") > 1):
        time.sleep(0.05)
    os.killpg(process.pid, number)
    _, said = process.communicate(timeout=30)
    assert process.returncode == 128 + number
    assert said.splitlines()[-1].endswith("r.h5.part; the same command continues")
    assert "Traceback" not in said


def test_the_journal_of_another_experiment_is_not_used(mccgr, refused, classes, tmp_path):
    part = tmp_path / "r.h5.part"
    Journal(part, "another").close()
    arguments = ("experiment", classes, "--methods", "l2", "--runs", 1, "--jobs", 0, "-o", tmp_path / "r.h5")
    assert "other data or options" in refused(*arguments, "--k", 2)
    assert mccgr(*arguments, "--k", 2, "--overwrite").status == 0


def test_two_runs_at_once_are_kept_apart(refused, classes, tmp_path):
    journal = Journal(tmp_path / "r.h5.part", "first")
    try:
        said = refused("experiment", classes, "--methods", "l2", "--k", 2, "--jobs", 0, "-o", tmp_path / "r.h5")
        assert "another run is writing it" in said
    finally:
        journal.close()


def test_a_journal_drops_what_is_cut_short(tmp_path):
    path = tmp_path / "j"
    journal = Journal(path, "x")
    journal.add("a", [1.5])
    journal.add("b", [float("nan")])
    journal.close()
    whole = path.read_bytes()
    path.write_bytes(whole[:-4])
    journal = Journal(path, "x")
    assert journal.done == {"a": [1.5]}
    journal.add("b", [2.0])
    journal.close()
    journal = Journal(path, "x")
    journal.close()
    assert journal.done == {"a": [1.5], "b": [2.0]}


@pytest.mark.parametrize(
    ("arguments", "status", "expected"),
    [
        (("--k", "7"), 2, "cannot draw 7 classes of 6"),
        (("--k", "2", "--methods", "l2,nmf"), 2, "'nmf'"),
        (("--k", "3-2"), 2, "goes down"),
        (("--k", "2", "--alpha", "1,x"), 2, "'x'"),
        (("--k", "2", "--alpha", "1", "--strength", "1,2"), 2, "give one of them"),
        (("--k", "2", "--init", "X.factors.h5"), 2, "'X.factors.h5' is not one of 'auto'"),
        (("--k", "2", "--neighbors", "2.5"), 2, "'2.5' is not a valid whole number"),
        (("--k", "2", "-o", "-"), 2, "saves finished runs"),
    ],
)
def test_refusals(refused, classes, arguments, status, expected):
    assert expected in refused("experiment", classes, *arguments, "--jobs", 0, status=status)


def test_a_matrix_without_labels_is_refused(refused, tmp_path):
    np.save(tmp_path / "X.npy", planted()[0])
    assert "no labels" in refused("experiment", tmp_path / "X.npy", "--k", 2, "--jobs", 0)


# Tables


@pytest.fixture
def results(tmp_path):
    rng = np.random.default_rng(0)
    rows = [(method, k, run) for k in (2, 3) for run in range(12) for method in ("mccgr", "l2", "k-means")]
    better = {"mccgr": 0.3, "l2": 0.1, "k-means": 0.0}
    accuracy = [0.4 + better[method] + 0.1 * rng.random() for method, _, _ in rows]
    count = len(rows)
    datasets = {name: np.zeros(count, dtype=int) for name, field in RESULTS.items() if field.type == "whole"}
    datasets |= {name: np.full(count, np.nan) for name, field in RESULTS.items() if field.type == "real"}
    datasets |= {"method": [row[0] for row in rows], "k": np.array([row[1] for row in rows])}
    datasets |= {
        "run": np.array([row[2] for row in rows]),
        "accuracy": np.array(accuracy),
        "nmi": np.array(accuracy) / 2,
        "ari": np.zeros(count),
        "purity": np.ones(count),
    }
    datasets |= {"normalize": ["l2"] * count, "weight": [""] * count}
    path = tmp_path / "r.h5"
    path.write_bytes(encode(Contents("results", datasets)))
    return path, datasets


def test_tables_show_means_ranks_and_corrected_p_values(mccgr, results):
    path, datasets = results
    shown = json.loads(mccgr("table", path, "--format", "json").stdout)[0]
    cell = [
        a for a, m, k in zip(*(datasets[n] for n in ("accuracy", "method", "k")), strict=True) if (m, k) == ("l2", 3)
    ]
    assert shown["mean"][1][1] == pytest.approx(np.mean(cell))
    assert shown["deviation"][1][1] == pytest.approx(np.std(cell, ddof=1))
    assert shown["mean_rank"] == [1, 2, 3]
    table = compare(datasets, "accuracy")
    gaps = np.concatenate([row[0] - row[1] for row in table.values])
    assert shown["p"]["l2"] == pytest.approx(2 * wilcoxon(gaps).pvalue)  # the larger of two, or equal


def test_others_are_tested_against_a_method_that_is_there(mccgr, refused, results):
    path, _ = results
    assert json.loads(mccgr("table", path, "--against", "l2", "--format", "json").stdout)[0]["against"] == "l2"
    assert "choose one of mccgr, l2, k-means" in refused("table", path, "--against", "grnmf", status=2)


@pytest.mark.parametrize("value", [np.nan, np.inf, 1.5, -0.5])
def test_impossible_scores_are_refused(refused, results, value):
    path, _ = results
    with h5py.File(path, "r+") as file:
        file["accuracy"][3] = value
    assert "values that are not from 0 to 1 in /accuracy" in refused("table", path)


def test_a_run_that_occurs_twice_is_refused(refused, results):
    path, _ = results
    with h5py.File(path, "r+") as file:
        file["run"][:] = 0
    assert "has run 0 of mccgr for k=2 twice" in refused("table", path)


def test_every_format_marks_the_best(mccgr, results):
    path, _ = results
    plain = mccgr("table", path, "--score", "accuracy").stdout
    best = next(line for line in plain.splitlines() if line.startswith("k=2")).split()
    assert best[1].startswith("*")
    assert not best[3].startswith("*")
    assert "| 2 | **0.7" in mccgr("table", path, "--format", "markdown").stdout
    assert r"2 & \textbf{0.7" in mccgr("table", path, "--format", "latex").stdout
    rows = list(csv.DictReader(io.StringIO(mccgr("table", path, "--format", "csv").stdout)))
    assert len(rows) == 2 * 2 * 3
    assert {row["method"] for row in rows if row["best"] == "1"} == {"mccgr"}


def test_values_that_differ_little_are_columns_of_their_own(results):
    _, datasets = results
    alphas = np.where(datasets["run"] % 2 == 0, 1234567.0, 1234568.0)
    assert len(set(variant_names({**datasets, "alpha": alphas}))) == 2 * 3


def test_swept_values_become_columns(mccgr, classes, tmp_path):
    out = tmp_path / "s.h5"
    arguments = ("--methods", "mccgr,l2", "--alpha", "1,100", "--k", 2, "--runs", 2, "--jobs", 0)
    mccgr("experiment", classes, *arguments, "-o", out)
    header = mccgr("table", out).stdout.splitlines()[0]
    assert header.split()[1:] == ["mccgr", "alpha=1", "mccgr", "alpha=100", "l2"]


@pytest.mark.parametrize("name", ["a list", "null", "short", "text", "out of bounds"])
def test_impossible_results_in_a_journal_are_repeated(mccgr, classes, tmp_path, name):
    options = ("experiment", classes, *FOUR_TRIALS, "-o", tmp_path / "r.h5")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Journal, "remove", Journal.close)
        assert mccgr(*options).status == 0
    part = tmp_path / "r.h5.part"
    (tmp_path / "r.h5").rename(tmp_path / "whole.h5")
    first, *lines = part.read_text().splitlines()
    entries = [json.loads(line) for line in lines]
    row = entries[0]["result"][0]
    nonsense = {
        "a list": [],
        "null": None,
        "short": [{key: row[key] for key in list(row)[1:]}],
        "text": [{**row, "accuracy": "high"}],
        "out of bounds": [{**row, "nmi": 2.0}],
    }[name]
    entries[0]["result"] = nonsense
    entries[1] = {"name": ["odd"], "result": [], "sum": checksum(["odd"], [])}
    entries[0]["sum"] = checksum(entries[0]["name"], nonsense)
    part.write_text("\n".join([first, *map(json.dumps, entries)]) + "\n")
    outcome = mccgr(*options)
    assert outcome.status == 0, outcome.stderr
    assert f"continuing after {len(entries) - 2} of {len(entries)}" in outcome.stderr
    with h5py.File(tmp_path / "r.h5") as again, h5py.File(tmp_path / "whole.h5") as whole:
        assert again["accuracy"][()].tolist() == whole["accuracy"][()].tolist()
