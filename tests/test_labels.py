"""True classes from a file of their own, joined to the samples by name or by row order."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.io
from conftest import planted

from mccgr_cli.files.atomic_write import write_files
from mccgr_cli.files.container import Contents, encode
from mccgr_cli.files.readers.arrays import NamedLabels
from mccgr_cli.files.readers.labels import join_labels

COUNT = 60
NAMES = [f"s{i}" for i in range(COUNT)]
CLASSES = [("ant", "bee", "cat")[label] for label in planted()[1]]
SHUFFLED = [(NAMES[i], CLASSES[i]) for i in np.random.default_rng(0).permutation(COUNT)]


def save_clusters(path: Path, names: list[str] | None = NAMES) -> Path:
    """Clusters that agree with the classes, without labels of their own."""
    datasets: dict[str, Any] = {"assignments": planted()[1]}
    if names is not None:
        datasets["sample_names"] = names
    write_files({path: encode(Contents("clusters", datasets))}, overwrite=False)
    return path


@pytest.fixture
def clusters(tmp_path):
    return save_clusters(tmp_path / "C.h5")


def save_table(path: Path, rows: list[tuple[str, ...]], header: str = "name,class") -> Path:
    path.write_text("\n".join([*([header] if header else []), *(",".join(row) for row in rows)]) + "\n")
    return path


def save_arrays(path: Path) -> Path:
    names, classes = (np.array(column) for column in zip(*SHUFFLED, strict=True))
    if path.suffix == ".npz":
        np.savez(path, labels=classes, sample_names=names)
    else:
        scipy.io.savemat(path, {"gnd": classes.astype(object), "sample_names": names.astype(object)})
    return path


def save_container(path: Path) -> Path:
    names, classes = zip(*SHUFFLED, strict=True)
    distinct, codes = np.unique(classes, return_inverse=True)
    datasets = {"X": np.ones((COUNT, 2)), "labels": codes, "label_names": distinct.tolist(), "sample_names": names}
    write_files({path: encode(Contents("matrix", datasets))}, overwrite=False)
    return path


def save_h5ad(path: Path) -> Path:
    import anndata
    import pandas

    names, classes = zip(*SHUFFLED, strict=True)
    obs = pandas.DataFrame({"class": list(classes)}, index=list(names))
    anndata.AnnData(np.ones((COUNT, 2)), obs=obs).write_h5ad(path)
    return path


MAKERS = {
    "a.csv": lambda path: save_table(path, SHUFFLED),
    "b.csv": lambda path: save_table(path, SHUFFLED, header=""),
    "c.csv": lambda path: save_table(path, [(a, "1", b) for a, b in SHUFFLED], header="sample,cluster,label"),
    "d.csv::class": lambda path: save_table(path, [(a, "1", b) for a, b in SHUFFLED], header="id,batch,class"),
    "a.npz": save_arrays,
    "a.mat": save_arrays,
    "a.h5": save_container,
    "a.h5ad::obs/class": save_h5ad,
}


@pytest.mark.parametrize("name", MAKERS)
def test_shuffled_labels_with_names_give_exactly_the_score(mccgr, clusters, tmp_path, name):
    if "h5ad" in name:
        pytest.importorskip("anndata")
    MAKERS[name](tmp_path / name.partition("::")[0])
    outcome = mccgr("evaluate", clusters, "--labels", tmp_path / name, "--format", "json")
    assert json.loads(outcome.stdout)["accuracy"] == 1.0
    assert outcome.stderr == ""


def test_labels_come_down_a_pipe_with_or_without_names(mccgr, refused, clusters):
    for separator in (",", "\t"):
        table = "".join(f"{name}{separator}{label}\n" for name, label in SHUFFLED)
        outcome = mccgr("evaluate", clusters, "--labels", "-", stdin=table.encode())
        assert "accuracy  1.0000" in outcome.stdout
        assert outcome.stderr == ""
    outcome = mccgr("evaluate", clusters, "--labels", "-", stdin="\n".join(CLASSES).encode())
    assert "accuracy  1.0000" in outcome.stdout
    assert outcome.stderr == "standard input: labels are joined by row order: no names of samples in standard input\n"
    assert "nothing arrived" in refused("evaluate", clusters, "--labels", "-", stdin=b"")


def test_labels_without_names_are_joined_by_row_order_and_that_is_said(mccgr, clusters, tmp_path):
    (tmp_path / "shuffled.txt").write_text("\n".join(label for _, label in SHUFFLED))
    outcome = mccgr("evaluate", clusters, "--labels", tmp_path / "shuffled.txt", "--format", "json")
    assert json.loads(outcome.stdout)["accuracy"] < 0.6
    assert outcome.stderr == (
        f"{tmp_path}/shuffled.txt: labels are joined by row order: no names of samples in {tmp_path}/shuffled.txt\n"
    )
    ordered, nameless = [*zip(NAMES, CLASSES, strict=True)], save_clusters(tmp_path / "nameless.h5", None)
    outcome = mccgr("evaluate", nameless, "--labels", save_table(tmp_path / "a.csv", ordered), "--format", "json")
    assert json.loads(outcome.stdout)["accuracy"] == 1.0
    assert f"by row order: no names of samples in {nameless}" in outcome.stderr


def test_numbers_of_rows_are_no_names_of_samples(mccgr, clusters, tmp_path):
    rows = [(str(i), label) for i, label in enumerate(CLASSES)]  # as pandas writes a series
    outcome = mccgr("evaluate", clusters, "--labels", save_table(tmp_path / "a.csv", rows, ",class"), "--format", "csv")
    assert outcome.stdout.splitlines()[1].startswith("1.0,")
    assert "by row order" in outcome.stderr
    numbered = save_clusters(tmp_path / "numbered.h5", [str(i) for i in range(COUNT)])
    shuffled = [(name[1:], label) for name, label in SHUFFLED]
    outcome = mccgr("evaluate", numbered, "--labels", save_table(tmp_path / "b.csv", shuffled, "id,class"))
    assert "accuracy  1.0000" in outcome.stdout
    assert outcome.stderr == ""


@pytest.mark.parametrize("command", ["evaluate", "report"])
def test_missing_names_are_refused_with_their_count_and_examples(refused, clusters, tmp_path, command):
    half = save_table(tmp_path / "half.csv", [*zip(NAMES[:30], CLASSES[:30], strict=True), ("x", "ant")])
    message = refused(command, clusters, "--labels", half)
    assert f"{half}: no label for 30 of the 60 samples in {clusters} ('s30', 's31', 's32', ...)" in message
    assert "1 of its 31 names are not there ('x')" in message
    assert not (tmp_path / "C.report.html").exists()


def test_more_names_than_samples_are_only_a_note(mccgr, clusters, tmp_path):
    labels = save_table(tmp_path / "a.csv", [("other", "dog"), *SHUFFLED, ("more", "dog")])
    outcome = mccgr("evaluate", clusters, "--labels", labels, "--format", "json")
    assert json.loads(outcome.stdout)["accuracy"] == 1.0
    assert outcome.stderr == f"{labels}: left out 2 names not in {clusters} ('other', 'more')\n"


def test_repeated_names_are_refused_unless_all_are_in_the_same_order(refused, mccgr, clusters, tmp_path):
    twice = save_table(tmp_path / "twice.csv", [*SHUFFLED, ("s7", "ant")])
    message = refused("evaluate", clusters, "--labels", twice)
    assert "1 name more than once ('s7'); keep one label for each name" in message
    same = save_clusters(tmp_path / "same.h5", ["s"] * COUNT)
    assert "make them unique" in refused("evaluate", same, "--labels", save_table(tmp_path / "a.csv", SHUFFLED))
    ordered = save_table(tmp_path / "ordered.csv", [("s", label) for label in CLASSES], header="sample,label")
    assert "accuracy  1.0000" in mccgr("evaluate", same, "--labels", ordered).stdout


def test_run_joins_by_name_and_says_row_order_once(mccgr, X_file, tmp_path):
    ways = ("--k", 3, "--normalize", "none", "--iterations", 5, "-o", tmp_path / "out")
    labels = save_table(tmp_path / "a.csv", SHUFFLED)
    assert "accuracy  1.0000" in mccgr("run", X_file, *ways, "--labels", labels).stdout
    (tmp_path / "a.txt").write_text("\n".join(CLASSES))
    outcome = mccgr("run", X_file, *ways, "--overwrite", "--labels", tmp_path / "a.txt")
    assert outcome.stderr.count("by row order") == 1


@pytest.mark.parametrize("seed", range(3))
def test_joined_labels_do_not_depend_on_the_order_of_either_side(seed):
    rng = np.random.default_rng(seed)
    label_of = dict(zip(NAMES, CLASSES, strict=True))
    ours, theirs = ([NAMES[i] for i in rng.permutation(COUNT)] for _ in range(2))
    given = NamedLabels(theirs, [label_of[name] for name in theirs])
    assert join_labels(given, "labels", ours, COUNT, "clusters", pytest.fail) == [label_of[name] for name in ours]


@pytest.mark.parametrize("header", ["label", "Labels", '"label"', ""])
def test_the_header_of_a_column_of_labels_is_no_label(mccgr, clusters, tmp_path, header):
    table = save_table(tmp_path / "labels.csv", [(label,) for label in CLASSES], header)
    outcome = mccgr("evaluate", clusters, "--labels", table, "--format", "json")
    assert outcome.status == 0, outcome.stderr
    assert json.loads(outcome.stdout)["accuracy"] == 1
