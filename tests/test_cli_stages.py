"""graph, cluster, evaluate, transform, info, and all of them in a pipe."""

from __future__ import annotations

import csv
import io
import json
import os
import subprocess
import sys
from pathlib import Path

import h5py
import numpy as np
import pytest
from conftest import planted

from mccgr_cli.files.atomic_write import write_files
from mccgr_cli.files.container import Contents, encode


@pytest.fixture
def factors(mccgr, X_file, tmp_path):
    path = tmp_path / "F.h5"
    assert mccgr("factorize", X_file, "--k", 3, "--theta", 5, "-o", path).status == 0
    return path


@pytest.fixture
def clusters(mccgr, factors, tmp_path):
    path = tmp_path / "C.h5"
    assert mccgr("cluster", factors, "-o", path).status == 0
    return path


# The pipe


def test_the_pipe_gives_one_json_object_and_the_same_numbers_as_files(mccgr, X_file, clusters):
    factors = mccgr("factorize", X_file, "--k", 3, "--theta", 5, "-o", "-")
    piped = mccgr("cluster", "-", "-o", "-", stdin=factors.output)
    scores = mccgr("evaluate", "-", "--format", "json", stdin=piped.output)
    piped, stored = (json.loads(one.stdout) for one in (scores, mccgr("evaluate", clusters, "--format", "json")))
    assert (piped.pop("file"), stored.pop("file")) == ("standard input", str(clusters))
    assert piped.pop("seconds") > 0 < stored.pop("seconds")
    assert piped == stored
    assert piped["accuracy"] == 1.0


@pytest.mark.slow
def test_a_real_shell_pipe(X_file):
    mccgr = f"{sys.executable} -m mccgr_cli"
    line = (
        f"{mccgr} factorize {X_file} --alpha 100 --theta 5 --k 3 -o - | {mccgr} cluster - -o - | "
        f"{mccgr} evaluate - --format json"
    )
    done = subprocess.run(["bash", "-o", "pipefail", "-c", line], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout)["nmi"] == 1.0


@pytest.mark.slow
@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_closed_pipe_is_one_line_and_no_traceback(tmp_path, unbuffered):
    np.save(tmp_path / "X.npy", np.random.default_rng(0).random((10_000, 20)))  # W is more than any pipe holds
    quickly = "--method l2 --normalize none --init random --iterations 1 -q"
    mccgr = f"{sys.executable} -m mccgr_cli factorize {tmp_path}/X.npy --k 20 {quickly} -o -"
    done = subprocess.run(
        ["bash", "-c", f"{mccgr} | head -c 10 > /dev/null; exit ${{PIPESTATUS[0]}}"],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": unbuffered},
    )
    assert done.returncode == 1
    assert done.stderr.startswith("standard output: closed before the whole result was written;")
    assert len(done.stderr.splitlines()) == 1


def test_substitution_of_the_printed_name(mccgr, X_file):
    printed = mccgr("factorize", X_file, "--k", 3).stdout.strip()
    outcome = mccgr("cluster", printed)
    assert outcome.stdout.strip() == str(X_file.with_name("X.factors.clusters.h5"))


# graph


def test_graph_says_how_healthy_it_is(mccgr, X_file, tmp_path):
    outcome = mccgr("graph", X_file, "--neighbors", 3, "--weight", "heat")
    assert outcome.stdout.strip() == str(X_file.with_name("X.graph.h5"))
    assert "isolated samples" in outcome.stderr
    assert "connected components" in outcome.stderr
    with h5py.File(outcome.stdout.strip()) as file:
        assert file.attrs["weight"] == "heat"
        assert tuple(file["A"].attrs["shape"]) == (60, 60)


# cluster


def test_cluster_finds_the_planted_groups_by_k_means_and_by_the_largest_coefficient(mccgr, factors, tmp_path):
    _, labels = planted()
    for assign in ("kmeans", "max"):
        mccgr("cluster", factors, "--assign", assign, "-o", tmp_path / f"{assign}.h5")
        with h5py.File(tmp_path / f"{assign}.h5") as file:
            found = file["assignments"][()]
            assert file["W"].shape == (60, 3)
        assert len(set(zip(found, labels, strict=True))) == 3


def test_cluster_on_a_matrix_is_the_baseline(mccgr, X_file, tmp_path):
    assert mccgr("cluster", X_file, "--k", 3, "-o", tmp_path / "base.h5").status == 0
    scores = json.loads(mccgr("evaluate", tmp_path / "base.h5", "--format", "json").stdout)
    assert scores["accuracy"] == 1.0


def test_cluster_can_use_another_number_of_clusters(mccgr, factors, tmp_path):
    mccgr("cluster", factors, "--k", 5, "-o", tmp_path / "five.h5")
    with h5py.File(tmp_path / "five.h5") as file:
        assert len(np.unique(file["assignments"])) == 5


def test_cluster_with_fewer_distinct_samples_than_clusters(mccgr, tmp_path):
    np.save(tmp_path / "X.npy", np.repeat(np.eye(2), 5, axis=0))
    outcome = mccgr("cluster", tmp_path / "X.npy", "--k", 3, "-o", tmp_path / "C.h5")
    assert outcome.status == 0
    assert "clusters: 2 of 10 samples" in outcome.stderr


# evaluate


def test_evaluate_prints_a_table(mccgr, clusters):
    printed = mccgr("evaluate", clusters).stdout
    assert "accuracy  1.0000" in printed
    assert "bee" in printed


def test_evaluate_prints_csv(mccgr, clusters):
    (row,) = csv.DictReader(io.StringIO(mccgr("evaluate", clusters, "--format", "csv").stdout))
    assert float(row["nmi"]) == 1.0
    assert row["samples"] == "60"


def test_json_has_a_line_for_each_file_with_how_it_was_made(mccgr, X_file, clusters, tmp_path):
    quick = ("--normalize", "none", "--iterations", 5, "-q", "-o")
    mccgr("factorize", X_file, "--k", 4, "--alpha", 7, "--seed", 3, *quick, tmp_path / "A.h5")
    mccgr("factorize", X_file, "--k", 3, "--method", "l2", *quick, tmp_path / "L.h5")
    mccgr("cluster", X_file, "--k", 3, "--seed", 2, "-q", "-o", tmp_path / "K.h5")
    files = [clusters, tmp_path / "A.h5", tmp_path / "L.h5", tmp_path / "K.h5"]
    usual, absolute, plain, baseline = map(
        json.loads, mccgr("evaluate", *files, "--format", "json").stdout.splitlines()
    )
    assert [usual["file"], baseline["file"]] == [str(clusters), str(tmp_path / "K.h5")]
    assert {one["matrix"] for one in (usual, absolute, plain, baseline)} == {str(X_file)}
    assert (usual["method"], usual["strength"], usual["alpha"]) == ("mccgr", 10.0, None)
    assert (absolute["k"], absolute["strength"], absolute["alpha"], absolute["seed"]) == (4, None, 7.0, 3)
    assert (absolute["iterations"], absolute["converged"], absolute["normalize"]) == (5, False, "none")
    with h5py.File(tmp_path / "A.h5") as file:
        assert absolute["objective"] == file["history/objective"][-1]
        assert absolute["seconds"] == file["history/seconds"][-1]
    assert (plain["method"], plain["strength"], plain["alpha"]) == ("l2", None, None)
    assert (baseline["method"], baseline["k"], baseline["seed"], baseline["objective"]) == ("k-means", 3, 2, None)


def test_csv_has_the_columns_of_json_and_one_header(mccgr, refused, clusters):
    both = mccgr("evaluate", clusters, clusters, "--format", "csv").stdout
    header, first, second = both.splitlines()
    assert first == second
    found = json.loads(mccgr("evaluate", clusters, "--format", "json").stdout)
    assert header.split(",") == [name for name in found if name != "confusion"]
    assert header.startswith("accuracy,nmi,ari,")  # scripts count columns
    assert mccgr("evaluate", clusters, "--format", "csv", "--no-header").stdout == f"{first}\n"
    assert "--no-header" in refused("evaluate", clusters, "--no-header", status=2)


def test_tables_of_several_files_have_their_names(mccgr, clusters):
    one = mccgr("evaluate", clusters).stdout
    assert mccgr("evaluate", clusters, clusters).stdout == f"{clusters}\n{one}\n{clusters}\n{one}"


@pytest.mark.parametrize("name", ["labels.txt", "labels.npy"])
def test_evaluate_takes_labels_from_a_file(mccgr, clusters, tmp_path, name):
    _, labels = planted()
    labels = (labels == 0).astype(int)
    if name.endswith("txt"):
        (tmp_path / name).write_text("".join(f"{label}\n" for label in labels))
    else:
        np.save(tmp_path / name, labels)
    scores = json.loads(mccgr("evaluate", clusters, "--labels", tmp_path / name, "--format", "json").stdout)
    assert scores["classes"] == 2
    assert scores["accuracy"] == pytest.approx(2 / 3)


# transform


def test_transform_puts_new_samples_into_the_right_clusters(mccgr, factors, tmp_path):
    X, labels = planted(n=30, seed=9)
    np.savez(tmp_path / "new.npz", X=X, y=labels)
    outcome = mccgr("transform", factors, tmp_path / "new.npz")
    assert outcome.stdout.strip() == str(tmp_path / "new.coefficients.h5")
    mccgr("cluster", tmp_path / "new.coefficients.h5", "--assign", "max", "-o", tmp_path / "C.h5")
    assert json.loads(mccgr("evaluate", tmp_path / "C.h5", "--format", "json").stdout)["accuracy"] == 1.0


def test_transform_normalizes_as_the_basis_was_learnt(mccgr, X_file, tmp_path):
    mccgr("factorize", X_file, "--k", 3, "--normalize", "l2", "-o", tmp_path / "F.h5")
    X, _ = planted()
    for name, scale in (("a", 1), ("b", 1000)):
        np.save(tmp_path / f"{name}.npy", X * scale)
        mccgr("transform", tmp_path / "F.h5", tmp_path / f"{name}.npy", "-o", tmp_path / f"{name}.h5")
    with h5py.File(tmp_path / "a.h5") as a, h5py.File(tmp_path / "b.h5") as b:
        np.testing.assert_allclose(a["W"][()], b["W"][()], rtol=1e-6)


# info


def test_info_shows_every_kind(mccgr, X_file, factors, clusters, tmp_path):
    mccgr("graph", X_file, "-o", tmp_path / "A.h5")
    for path, kind, fact in (
        (X_file, "matrix", "empty samples"),
        (tmp_path / "A.h5", "graph", "connected components"),
        (factors, "factors", "silenced features"),
        (clusters, "clusters", "assignments"),
    ):
        printed = mccgr("info", path).stdout
        assert f"kind    {kind}" in printed
        assert fact in printed
        facts = json.loads(mccgr("info", path, "--format", "json").stdout)
        assert facts["kind"] == kind


def test_info_tells_the_history_of_a_file(mccgr, clusters):
    facts = json.loads(mccgr("info", clusters, "--format", "json").stdout)
    assert facts["provenance"]["command"] == "cluster"
    assert facts["provenance"]["inputs"][0]["provenance"]["command"] == "factorize"
    assert mccgr("info", clusters).stdout.count("+00:00") == 2


def test_info_survives_odd_provenance(mccgr, tmp_path):
    odd = {"inputs": [{"provenance": [1]}, 3], "command_line": 7}
    write_files({tmp_path / "X.h5": encode(Contents("matrix", {"X": np.eye(3)}, provenance=odd))}, overwrite=False)
    assert mccgr("info", tmp_path / "X.h5").status == 0


# What is promised of files


def test_convergence_is_recorded_truly(mccgr, X_file, tmp_path):
    for iterations, converged in ((3, False), (5000, True)):
        mccgr("factorize", X_file, "--k", 3, "--iterations", iterations, "--overwrite", "-o", tmp_path / "F.h5")
        with h5py.File(tmp_path / "F.h5") as file:
            assert file.attrs["converged"] == converged


def test_clusters_carry_on_what_led_to_them(mccgr, clusters):
    with h5py.File(clusters) as file:
        assert file.attrs["method"] == "mccgr"
        assert file.attrs["theta"] == 5
        assert file.attrs["cluster_assign"] == "max"
        assert file["feature_names"].asstr()[0] == "f0"
        assert file["history/objective"].shape[0] > 1


def test_the_graph_knows_its_samples_and_how_they_were_normalized(mccgr, X_file, tmp_path):
    mccgr("graph", X_file, "--normalize", "l2", "-o", tmp_path / "A.h5")
    with h5py.File(tmp_path / "A.h5") as file:
        assert file["sample_names"].asstr()[59] == "s59"
    given = ("factorize", X_file, "--k", 3, "--graph", tmp_path / "A.h5", "-o", tmp_path / "F.h5", "--overwrite")
    assert "built with" not in mccgr(*given).stderr
    with h5py.File(tmp_path / "F.h5") as file:
        assert file.attrs["normalize"] == "l2"
    outcome = mccgr(*given, "--normalize", "hellinger")
    assert "built with --normalize l2, used with --normalize hellinger" in outcome.stderr


def test_unknown_datasets_are_ignored(mccgr, X_file):
    with h5py.File(X_file, "a") as file:
        file["something/else"] = [1.0]
    assert mccgr("factorize", X_file, "--k", 2, "-o", "-").status == 0


def test_cluster_heeds_its_seed_and_restarts(mccgr, tmp_path):
    np.save(tmp_path / "X.npy", np.random.default_rng(0).random((200, 5)))
    found = {}
    for seed, restarts in ((0, 1), (1, 1), (0, 30), (1, 30)):
        mccgr(
            "cluster",
            tmp_path / "X.npy",
            "--k",
            8,
            "--seed",
            seed,
            "--restarts",
            restarts,
            "--overwrite",
            "-o",
            tmp_path / "C",
        )
        with h5py.File(tmp_path / "C") as file:
            found[seed, restarts] = file["assignments"][()]
    X = np.load(tmp_path / "X.npy")

    def spread(assignments):
        return sum(((X[assignments == c] - X[assignments == c].mean(axis=0)) ** 2).sum() for c in range(8))

    assert not np.array_equal(found[0, 1], found[1, 1])
    assert max(spread(found[0, 30]), spread(found[1, 30])) < min(spread(found[0, 1]), spread(found[1, 1]))


def test_options_that_would_be_ignored_are_refused(refused, factors):
    assert "--k" in refused("cluster", factors, "--assign", "max", "--k", 7, status=2)
    assert "--normalize" in refused("cluster", factors, "--normalize", "l2", status=2)
    assert "--transpose" in refused("cluster", factors, "--transpose")


def test_transform_uses_the_weights_and_the_loss_of_the_basis(mccgr, X_file, tmp_path):
    X, _ = planted(n=20, seed=5)
    np.save(tmp_path / "new.npy", X)
    for method in ("mcc", "kl"):
        mccgr(
            *("factorize", X_file, "--k", 3, "--method", method, "--normalize", "none"),
            *("-o", tmp_path / "F.h5", "--overwrite"),
        )
        mccgr("transform", tmp_path / "F.h5", tmp_path / "new.npy", "-o", tmp_path / "W.h5", "--overwrite")
        with h5py.File(tmp_path / "W.h5") as file:
            W, H, rho = (file[name][()] for name in ("W", "H", "rho"))
        least_squares, divergence = ((W @ H - X) * rho) @ H.T, H.sum(axis=1) - (X / (W @ H)) @ H.T
        gradient, other = (least_squares, divergence) if method == "mcc" else (divergence, least_squares)
        assert np.abs(np.minimum(W, gradient)).max() < 0.02  # the conditions of optimality
        assert np.abs(np.minimum(W, other)).max() > 0.1


def test_transform_matches_features_by_name(mccgr, refused, factors, tmp_path):
    X, _ = planted(n=12, seed=5)
    names = [f"f{j}" for j in range(24)]
    np.savetxt(tmp_path / "a.csv", X, delimiter=",", header=",".join(names), comments="")
    np.savetxt(tmp_path / "b.csv", X[:, ::-1], delimiter=",", header=",".join(names[::-1]), comments="")
    for name in "ab":
        mccgr("transform", factors, tmp_path / f"{name}.csv", "-o", tmp_path / f"{name}.h5")
    with h5py.File(tmp_path / "a.h5") as a, h5py.File(tmp_path / "b.h5") as b:
        np.testing.assert_allclose(a["W"][()], b["W"][()], rtol=1e-9)
    np.savetxt(tmp_path / "c.csv", X, delimiter=",", header=",".join(["other", *names[1:]]), comments="")
    assert "no feature 'f0'" in refused("transform", factors, tmp_path / "c.csv", "-q")


def test_info_names_the_silenced_features(mccgr, tmp_path):
    X, _ = planted(n=90)
    noise = np.random.default_rng(1).integers(0, 2, (90, 2)) * 15.0
    names = ",".join([*(f"f{j}" for j in range(24)), "noise1", "noise2"])
    np.savetxt(tmp_path / "X.csv", np.hstack([X, noise]), delimiter=",", header=names, comments="")
    mccgr("factorize", tmp_path / "X.csv", "--k", 3, "--method", "mcc", "-o", tmp_path / "F.h5")
    assert "noise1, noise2" in mccgr("info", tmp_path / "F.h5").stdout


def test_info_prints_json_whatever_the_attributes(mccgr, X_file):
    with h5py.File(X_file, "a") as file:
        file.attrs.update({"list": [1, 2], "nan": np.nan, "bytes": np.bytes_(b"x"), "nothing": h5py.Empty("f")})
    facts = json.loads(mccgr("info", X_file, "--format", "json").stdout, parse_constant=pytest.fail)
    assert facts["attributes"]["nan"] is None


@pytest.mark.slow
def test_the_noisy_sample_is_clustered_as_the_readme_says(mccgr, tmp_path):
    sample = Path(__file__).parent.parent / "sample_data" / "textures_noisy.h5"
    accuracy = {}
    for method in ("l2", "mccgr"):
        factors = mccgr("factorize", sample, "--k", 3, "--method", method, "-q", "-o", "-")
        clusters = mccgr("cluster", "-", "-q", "-o", "-", stdin=factors.output)
        accuracy[method] = json.loads(mccgr("evaluate", "-", "--format", "json", stdin=clusters.output).stdout)[
            "accuracy"
        ]
    assert accuracy["mccgr"] >= 0.98
    assert accuracy["l2"] < 0.8
