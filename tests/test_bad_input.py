"""Whatever is wrong: one line that says where, what and the remedy, the right status, and nothing half-written."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import h5py
import numpy as np
import pytest
from conftest import planted

from mccgr_cli.errors import OutputError
from mccgr_cli.files import atomic_write as storage
from mccgr_cli.files.atomic_write import write_files
from mccgr_cli.files.container import Contents, encode


def factorize(*more):
    return ("factorize", *more, "--method", "l2", "--k", 2)


def save(path, X):
    np.save(path, X)
    return path


def with_value(value):
    X, _ = planted()
    X[17, 4] = X[18, 2] = value
    return X


@pytest.mark.parametrize(
    ("value", "words"),
    [(-0.5, ["2 negative", "17", "4"]), (np.nan, ["NaN", "17", "4"]), (np.inf, ["infinit", "17", "4"])],
)
def test_values_that_nmf_cannot_use(refused, tmp_path, value, words):
    message = refused(*factorize(save(tmp_path / "X.npy", with_value(value))))
    assert message.startswith(f"{tmp_path / 'X.npy'}: ")
    assert all(word in message for word in words)


def test_files_that_are_no_matrix(refused, tmp_path, X_file):
    assert "no such file" in refused(*factorize(tmp_path / "missing.h5"))
    text = tmp_path / "text.h5"
    text.write_text("not HDF5")
    assert "not an HDF5 file" in refused(*factorize(text))
    cut = tmp_path / "cut.h5"
    cut.write_bytes(X_file.read_bytes()[:3000])
    assert "truncated" in refused(*factorize(cut))
    with h5py.File(tmp_path / "empty.h5", "w") as file:
        file["something"] = [1.0]
    assert "no matrix" in refused(*factorize(tmp_path / "empty.h5"))
    assert "empty" in refused(*factorize(save(tmp_path / "none.npy", np.zeros((0, 5)))))
    assert "folder" in refused(*factorize(tmp_path), "-o", tmp_path / "F.h5")


def test_a_file_of_ours_without_X(refused, tmp_path):
    with h5py.File(tmp_path / "X.h5", "w") as file:
        file.attrs.update({"format": "mccgr", "version": 1, "kind": "matrix"})
    assert "without /X" in refused(*factorize(tmp_path / "X.h5"))


def test_the_wrong_kind_of_file(mccgr, refused, X_file, tmp_path):
    mccgr("factorize", X_file, "--k", 2, "-o", tmp_path / "F.h5")
    assert "factors" in refused(*factorize(tmp_path / "F.h5"))
    assert "mccgr cluster" in refused("evaluate", X_file)
    assert "mccgr graph" in refused("factorize", X_file, "--k", 2, "--graph", tmp_path / "F.h5")
    assert "mccgr factorize" in refused("transform", X_file, X_file)


def test_a_text_column_in_a_csv(refused, tmp_path):
    (tmp_path / "X.csv").write_text("a,b,species\n1,2,setosa\n3,4,virginica\n")
    message = refused(*factorize(tmp_path / "X.csv"))
    assert all(word in message for word in ("species", "setosa", "2"))


def test_newer_files_are_refused(refused, tmp_path):
    with h5py.File(tmp_path / "X.h5", "w") as file:
        file.attrs.update({"format": "mccgr", "version": 2, "kind": "matrix"})
        file["X"] = np.eye(3)
    assert "newer" in refused(*factorize(tmp_path / "X.h5"))


def test_links_out_of_the_file_are_refused(refused, tmp_path):
    with h5py.File(tmp_path / "other.h5", "w") as file:
        file["X"] = np.eye(3)
    with h5py.File(tmp_path / "X.h5", "w") as file:
        file["X"] = h5py.ExternalLink("other.h5", "/X")
    assert "link to another file" in refused(*factorize(tmp_path / "X.h5"))
    with h5py.File(tmp_path / "V.h5", "w") as file:
        layout = h5py.VirtualLayout((3, 3), dtype="f8")
        layout[:] = h5py.VirtualSource(str(tmp_path / "other.h5"), "X", (3, 3))
        file.create_virtual_dataset("X", layout)
    assert "another file" in refused(*factorize(tmp_path / "V.h5"))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--k", 0), "--k"),
        (("--k", "many"), "--k"),
        ((), "--k"),
        (("--k", 3, "--alpha", -1), "--alpha"),
        (("--k", 3, "--theta", 0), "--theta"),
        (("--k", 3, "--bandwidth", "narrow"), "--bandwidth"),
        (("--k", 3, "--bandwidth", -2), "--bandwidth"),
        (("--k", 3, "--method", "magic"), "--method"),
        (("--k", 3, "--colour", "red"), "--colour"),
        (("--k", 25), "at most 24"),
    ],
)
def test_bad_usage(refused, X_file, options, words):
    assert words in refused("factorize", X_file, *options, "-q", status=2)


def test_unknown_commands(refused):
    assert "No such command 'clutser'" in refused("clutser", status=2)


def test_k_larger_than_the_matrix(refused, tmp_path):
    path = save(tmp_path / "X.npy", np.ones((3, 8)))
    assert "at most 3" in refused("factorize", path, "--k", 4, "--method", "l2", status=2)
    assert "--k" in refused("cluster", path, "--k", 4, status=2)
    assert "--k" in refused("cluster", path, status=2)


def test_graphs_that_do_not_fit(mccgr, refused, X_file, tmp_path):
    mccgr("graph", save(tmp_path / "small.npy", planted(n=30)[0]), "-o", tmp_path / "A.h5")
    assert "a graph of 30 samples for a matrix of 60" in refused(
        "factorize", X_file, "--k", 2, "--graph", tmp_path / "A.h5"
    )
    write_files({tmp_path / "B.h5": encode(Contents("graph", {"A": np.triu(np.ones((60, 60)), 1)}))}, overwrite=False)
    assert "symmetric" in refused("factorize", X_file, "--k", 2, "--graph", tmp_path / "B.h5")


def test_starts_that_do_not_fit(mccgr, refused, X_file, tmp_path):
    mccgr("factorize", X_file, "--k", 2, "-o", tmp_path / "F.h5")
    assert "are needed" in refused("factorize", X_file, "--k", 3, "--method", "l2", "--init", tmp_path / "F.h5")
    assert "auto, graph, merged, nndsvd, random" in refused("factorize", X_file, "--k", 3, "--init", "nndvsd", status=2)
    assert "--restarts" in refused(*factorize(X_file), "--init", tmp_path / "F.h5", "--restarts", 2, status=2)


def test_labels_of_the_wrong_length(mccgr, refused, X_file, tmp_path):
    mccgr("cluster", X_file, "--k", 3, "-o", tmp_path / "C.h5")
    (tmp_path / "labels.txt").write_text("a\nb\n")
    assert "2 labels for 60 samples" in refused("evaluate", tmp_path / "C.h5", "--labels", tmp_path / "labels.txt")


def test_no_labels_at_all(mccgr, refused, tmp_path):
    mccgr("cluster", save(tmp_path / "X.npy", planted()[0]), "--k", 3, "-o", tmp_path / "C.h5")
    assert "--labels" in refused("evaluate", tmp_path / "C.h5")


def test_new_samples_with_other_features(mccgr, refused, X_file, tmp_path):
    mccgr("factorize", X_file, "--k", 2, "-o", tmp_path / "F.h5")
    path = save(tmp_path / "new.npy", np.ones((4, 7)))
    assert "7 features where the basis has 24" in refused("transform", tmp_path / "F.h5", path)


def test_standard_input_that_is_empty_or_not_hdf5(refused, X_file):
    assert "nothing arrived" in refused("cluster", "-", "-o", "-", stdin=b"")
    assert "standard input" in refused("cluster", "-", "-o", "-", stdin=b"hello")
    assert "-o" in refused("cluster", "-", stdin=X_file.read_bytes(), status=2)


# Outputs


def leftovers(folder):
    return [path.name for path in folder.iterdir() if path.name.endswith(".tmp")]


def test_an_existing_output_is_kept_unless_told_otherwise(mccgr, refused, X_file, tmp_path):
    output = tmp_path / "F.h5"
    output.write_text("precious")
    assert "--overwrite" in refused(*factorize(X_file), "-o", output)
    assert output.read_text() == "precious"
    assert mccgr(*factorize(X_file), "-o", output, "--overwrite").status == 0
    assert h5py.is_hdf5(output)
    assert not leftovers(tmp_path)


def test_an_output_folder_that_is_not_there(refused, X_file, tmp_path):
    assert "no folder" in refused(*factorize(X_file), "-o", tmp_path / "nowhere" / "F.h5")
    assert "is a folder" in refused(*factorize(X_file), "-o", tmp_path)


def test_another_run_that_was_first_wins(tmp_path, monkeypatch):
    output = tmp_path / "F.h5"
    rename = storage.rename_exclusively

    def late(temporary, path):
        output.write_text("the first")
        rename(temporary, path)

    monkeypatch.setattr(storage, "rename_exclusively", late)
    with pytest.raises(OutputError, match="exists already"):
        write_files({output: b"the second"}, overwrite=False)
    assert output.read_text() == "the first"
    assert not leftovers(tmp_path)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk_on_standard_output(X_file):
    command = [sys.executable, "-m", "mccgr_cli", *map(str, factorize(X_file)), "-q", "-o", "-"]
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 1
    assert "no space left" in done.stderr
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.skipif(os.name != "posix" or shutil.which("bash") is None, reason="needs a limit on file sizes")
def test_a_full_disk_leaves_nothing_behind_and_the_earlier_output_intact(X_file, tmp_path):
    """A limit on the size of files stands in for the full disk: the write fails half-way all the same."""
    output = tmp_path / "F.h5"
    output.write_text("precious")
    command = f"trap '' XFSZ; ulimit -f 4; {sys.executable} -m mccgr_cli factorize {X_file} --k 5 --method l2 -q"
    done = subprocess.run(
        ["bash", "-c", f"{command} -o {output} --overwrite"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1, done.stderr
    assert "cannot write" in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert output.read_text() == "precious"
    assert not leftovers(tmp_path)


def test_interrupted_runs_end_with_130_and_leave_nothing(mccgr, X_file, tmp_path, monkeypatch):
    from mccgr_cli.core import solver

    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(solver, "has_settled", interrupt)
    outcome = mccgr(*factorize(X_file), "-q", "-o", tmp_path / "F.h5")
    assert outcome.status == 130
    assert "interrupted" in outcome.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["X.h5"]


def test_running_out_of_memory_is_said_in_one_line(refused, X_file, monkeypatch):

    def exhaust(*_):
        raise MemoryError

    monkeypatch.setattr("mccgr_cli.workflow.factorization.solve", exhaust)
    assert "out of memory" in refused(*factorize(X_file), "-q")


def test_a_bug_keeps_its_traceback(mccgr, X_file, monkeypatch):

    def bug(*_):
        raise ZeroDivisionError

    monkeypatch.setattr("mccgr_cli.workflow.factorization.solve", bug)
    with pytest.raises(ZeroDivisionError):
        mccgr(*factorize(X_file), "-q")


def test_names_with_line_breaks_stay_on_one_line(refused, tmp_path):
    assert "\\n" in refused(*factorize(tmp_path / "two\nlines.h5"))


# Found by an attacker


@pytest.mark.parametrize("scale", [1e300, 1e-300])
@pytest.mark.parametrize("command", [("factorize", "--k", 2), ("graph", "--weight", "heat"), ("cluster", "--k", 2)])
def test_numbers_that_cannot_be_squared(refused, tmp_path, command, scale):
    path = save(tmp_path / "X.npy", planted()[0] * scale)
    assert "rescale" in refused(command[0], path, *command[1:], "-o", tmp_path / "out.h5")


def test_numbers_too_large_for_single_precision(refused, tmp_path):
    path = save(tmp_path / "X.npy", planted()[0] * 1e60)
    assert "float32" in refused("factorize", path, "--k", 2, "--dtype", "float32", "-o", tmp_path / "out.h5")


@pytest.mark.parametrize("value", ["nan", "inf", "1e200"])
@pytest.mark.parametrize("option", ["--alpha", "--theta", "--bandwidth", "--ridge", "--tolerance", "--heat-width"])
def test_options_are_finite_numbers(refused, X_file, option, value):
    assert option in refused("factorize", X_file, "--k", 2, option, value, status=2)


def test_clusters_of_a_matrix_hold_no_factors(mccgr, refused, X_file, tmp_path):
    mccgr("cluster", X_file, "--k", 3, "-o", tmp_path / "C.h5")
    for command in (
        ("cluster", tmp_path / "C.h5"),
        ("transform", tmp_path / "C.h5", X_file),
        ("factorize", X_file, "--k", 3, "--init", tmp_path / "C.h5"),
    ):
        assert "without the factors" in refused(*command, "-o", tmp_path / "out.h5")
    assert mccgr("info", tmp_path / "C.h5").status == 0


@pytest.mark.parametrize("name", ["", "."])
def test_names_of_failed_commands(refused, X_file, name, tmp_path):
    assert refused("cluster", name)
    if name == "":
        assert "no file name" in refused("factorize", X_file, "--k", 2, "--graph", "", "-q")
        assert "no file name" in refused("factorize", X_file, "--k", 2, "-o", "", status=2)
        assert "no file name" in refused("evaluate", "")


def test_labels_from_a_failed_command_are_not_ignored(mccgr, refused, X_file, tmp_path):
    mccgr("cluster", X_file, "--k", 3, "-o", tmp_path / "C.h5")
    assert "no file name" in refused("evaluate", tmp_path / "C.h5", "--labels", "")


@pytest.mark.parametrize("name", ["W", "H", "rho"])
@pytest.mark.parametrize("value", [np.nan, np.inf, -1.0])
def test_factors_that_are_no_factors(mccgr, refused, X_file, tmp_path, name, value):
    mccgr("factorize", X_file, "--k", 2, "-o", tmp_path / "F.h5")
    with h5py.File(tmp_path / "F.h5", "a") as file:
        file[name][0] = value
    assert f"negative or non-finite values in /{name}" in refused("cluster", tmp_path / "F.h5")


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("rho", np.ones(23), "/rho has 23 entries where /H has 24"),
        ("W", np.ones((0, 2)), "/W is empty"),
        ("labels", np.full(60, 3), "outside /label_names"),
        ("sample_names", np.arange(60), "not a list of names"),
        ("H", np.ones((2, 24), dtype=complex), "complex"),
        ("history/sigma", np.ones(3), "/history/sigma"),
    ],
)
def test_files_that_break_the_format(mccgr, refused, X_file, tmp_path, name, value, words):
    mccgr("factorize", X_file, "--k", 2, "-o", tmp_path / "F.h5")
    with h5py.File(tmp_path / "F.h5", "a") as file:
        del file[name]
        file[name] = value
    assert words in refused("cluster", tmp_path / "F.h5")


@pytest.mark.parametrize(("name", "value"), [("method", "magic"), ("method", 5), ("normalize", "magic")])
def test_factors_learnt_by_unknown_means_are_not_guessed_at(mccgr, refused, X_file, tmp_path, name, value):
    mccgr("factorize", X_file, "--k", 2, "-o", tmp_path / "F.h5")
    with h5py.File(tmp_path / "F.h5", "a") as file:
        file.attrs[name] = value
    assert str(value) in refused("transform", tmp_path / "F.h5", X_file)


def test_graphs_of_any_float_type_serve_and_negative_ones_do_not(mccgr, refused, X_file, tmp_path):
    ring = np.roll(np.eye(60), 1, axis=1)
    for dtype in ("f2", ">f8", "u1"):
        with h5py.File(tmp_path / f"{dtype}.h5", "w") as file:
            file.attrs.update({"format": "mccgr", "version": 1, "kind": "graph"})
            file["A"] = (ring + ring.T).astype(dtype)
        assert mccgr("factorize", X_file, "--k", 2, "--graph", tmp_path / f"{dtype}.h5", "-o", "-").status == 0
    write_files({tmp_path / "minus.h5": encode(Contents("graph", {"A": -ring - ring.T}))}, overwrite=False)
    assert "negative" in refused("factorize", X_file, "--k", 2, "--graph", tmp_path / "minus.h5")


def test_starts_that_are_zero(refused, mccgr, X_file, tmp_path):
    mccgr("factorize", X_file, "--k", 2, "-o", tmp_path / "F.h5")
    with h5py.File(tmp_path / "F.h5", "a") as file:
        file["H"][:] = 0
    assert "updates cannot change that" in refused("factorize", X_file, "--k", 2, "--init", tmp_path / "F.h5")


def test_only_regular_files_are_replaced(refused, mccgr, X_file, tmp_path):
    os.mkfifo(tmp_path / "pipe")
    assert "not a regular file" in refused(*factorize(X_file), "-o", tmp_path / "pipe", "--overwrite")
    (tmp_path / "real.h5").write_text("old")
    (tmp_path / "real.h5").chmod(0o600)
    (tmp_path / "link.h5").symlink_to("real.h5")
    assert mccgr(*factorize(X_file), "-o", tmp_path / "link.h5", "--overwrite").status == 0
    assert (tmp_path / "link.h5").is_symlink()
    assert h5py.is_hdf5(tmp_path / "real.h5")
    assert (tmp_path / "real.h5").stat().st_mode & 0o777 == 0o600


def test_an_input_is_never_the_output(refused, X_file):
    before = X_file.read_bytes()
    assert "also an input" in refused(*factorize(X_file), "-o", X_file, "--overwrite")
    assert X_file.read_bytes() == before


def test_names_that_are_too_long(refused, X_file):
    assert "shorter name" in refused(*factorize(X_file), "-o", "x" * 300 + ".h5")
    assert refused(*factorize("x" * 300 + ".h5"))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("redirection", "status"),
    [("-o {out} 2>&-", 0), ("-o - >&-", 1), ("-o {out} 2>/dev/full", 0), ("-o - >/dev/full", 1)],
)
def test_streams_that_are_closed_or_full(X_file, tmp_path, redirection, status):
    out = tmp_path / "F.h5"
    command = f"{sys.executable} -m mccgr_cli factorize {X_file} --k 2 {redirection.format(out=out)}"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, stdin=subprocess.DEVNULL)
    assert done.returncode == status, done.stderr
    assert "Traceback" not in done.stderr
    assert out.exists() == (status == 0)


@pytest.mark.slow
def test_text_for_a_full_disk_or_a_narrow_encoding(mccgr, X_file, tmp_path):
    names = ["蟻", "蜂", "猫"]
    with h5py.File(X_file, "a") as file:
        del file["label_names"]
        file["label_names"] = names
    mccgr("cluster", X_file, "--k", 3, "-o", tmp_path / "C.h5")
    command = f"{sys.executable} -m mccgr_cli evaluate {tmp_path}/C.h5"
    full = subprocess.run(["bash", "-c", f"{command} > /dev/full"], capture_output=True, text=True)
    assert full.returncode == 1
    assert full.stderr.startswith("standard output: cannot write: no space left")
    narrow = {**os.environ, "PYTHONIOENCODING": "latin-1"}
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, env=narrow)
    assert done.returncode == 0
    assert "\\u" in done.stdout


@pytest.mark.slow
def test_interrupting_a_real_run(X_file, tmp_path):
    command = [sys.executable, "-m", "mccgr_cli", "factorize", X_file, "--k", "3", "--tolerance", "0"]
    process = subprocess.Popen(
        [*map(str, command), "--iterations", "100000000", "-o", str(tmp_path / "F.h5")],
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stderr.readline().startswith("estimate")
        time.sleep(1)  # by now it iterates
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=30)
    finally:
        process.kill()  # a test that fails must not leave it running
    assert process.returncode == 130
    assert said.splitlines()[-1] == "mccgr: interrupted; nothing was written"
    assert [path.name for path in tmp_path.iterdir()] == ["X.h5"]


def test_an_interrupt_while_a_library_is_imported_has_the_same_status(tmp_path):
    (tmp_path / "begun.py").write_text(
        "import sys\n"
        "from mccgr_cli import __main__\nfrom mccgr_cli.cli import group\n"
        "def main(**_):\n"
        "    try:\n"
        "        exec('raise KeyboardInterrupt')\n"
        "    except KeyboardInterrupt:\n"
        "        sys.exit(130)\n"
        "group.main = main\n"
        "__main__.run()\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    assert subprocess.run([sys.executable, "-m", "begun"], env=environment).returncode == 130


@pytest.mark.skipif(os.name != "posix", reason="needs signals")
@pytest.mark.parametrize(("name", "status"), [("SIGTERM", 143), ("SIGINT", 130)])
def test_a_signal_that_comes_in_a_destructor_is_not_lost(X_file, tmp_path, name, status):
    program = f"""
import os, signal, sys
from mccgr_cli import __main__
from mccgr_cli.core import solver

class Dying:
    def __del__(self):
        os.kill(os.getpid(), signal.{name})

def start(course):
    Dying()
    while True:
        pass

solver.SolverRun.start = start
__main__.run()
"""
    command = [sys.executable, "-c", program, "factorize", X_file, "--k", "2", "-q", "-o", tmp_path / "F.h5"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == status, done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_a_device_is_not_read(refused):
    assert "a device" in refused(*factorize("/dev/zero"), "-o", "-")


def test_a_ranking_of_which_no_run_succeeds_is_none(refused, X_file, monkeypatch):
    ranking = ("rank", X_file, "--k", "2-3", "--runs", 2, "--jobs", 0, "-q")
    assert "--solver: kl" in refused(*ranking, "--method", "kl", "--solver", "coordinate", status=2)
    monkeypatch.setattr("mccgr_cli.core.neighbours.approximate.has_faiss", lambda: False)
    assert "needs faiss" in refused(*ranking, "--method", "grnmf", "--search", "approximate", status=2)
