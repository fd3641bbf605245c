"""What comes down a pipe: HDF5 or the name of a file, clusters or factors, or nothing."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pandas
import pytest

QUICK = ("--k", 3, "--iterations", 5, "--normalize", "none", "-q")


@pytest.fixture
def factors(mccgr, X_file, tmp_path):
    path = tmp_path / "F.h5"
    assert mccgr("factorize", X_file, *QUICK, "-o", path).status == 0
    return path


@pytest.mark.parametrize("command", [("evaluate",), ("top", "--of", "clusters"), ("report", "-o", "-")])
def test_factors_are_clustered_first_as_mccgr_cluster_does(mccgr, factors, tmp_path, command):
    mccgr("cluster", factors, "-q", "-o", tmp_path / "C.h5")
    of_clusters, of_factors = mccgr(*command, tmp_path / "C.h5"), mccgr(*command, factors)
    (line,) = set(of_factors.stderr.splitlines()) - set(of_clusters.stderr.splitlines())
    assert "holds factors, clustered first as by 'mccgr cluster'; clusters: 3 of 60 samples" in line
    if command[0] == "report":  # which also shows the commands
        assert of_factors.stdout.startswith("<!DOCTYPE html>")
    else:
        assert of_factors.stdout == of_clusters.stdout


@pytest.mark.parametrize("name", ["a b.h5", "a\nb.h5", "b.h5\n", b"caf\xe9.h5", "$x;'.h5"])
def test_a_name_in_a_pipe_may_have_any_letters(mccgr, factors, tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    Path(os.fsdecode(name)).symlink_to(factors)
    outcome = mccgr("cluster", "-", "-q", stdin=os.fsencode(name) + b"\n")
    assert outcome.status == 0, outcome.stderr
    made = outcome.output.removesuffix(b"\n")
    assert made == os.fsencode(name).removesuffix(b".h5") + b".clusters.h5"
    assert mccgr("info", "-", stdin=outcome.output).status == 0


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        (b"", "nothing arrived; did the command before the pipe fail, or write to -o FILE?"),
        (b"\n\n", "nothing arrived; did the command before the pipe fail, or write to -o FILE?"),
        (b"no such.h5\n", "there is no file 'no such.h5'; did the command before the pipe fail?"),
        (bytes(range(256)), "not HDF5"),
    ],
)
@pytest.mark.parametrize("command", ["evaluate", "top", "info"])
def test_a_pipe_without_a_file_is_refused_in_plain_words(refused, command, content, fault):
    message = refused(command, "-", stdin=content)
    assert message.startswith("standard input: ")
    assert fault in message


def test_names_in_several_lines_are_several_files_where_these_are_taken(mccgr, refused, factors, tmp_path):
    mccgr("cluster", factors, "-q", "-o", tmp_path / "C.h5")
    names = f"{factors}\n{tmp_path}/C.h5\n".encode()
    outcome = mccgr("evaluate", "-", "-q", "--format", "csv", "--no-header", stdin=names)
    assert [line.split(",")[7] for line in outcome.stdout.splitlines()] == names.decode().split()
    assert "there is no file 'no.h5'" in refused("evaluate", "-", stdin=names + b"no.h5\n")
    assert "2 lines of text" in refused("info", "-", stdin=names)


# Real shells

SCRIPT = """
set -eu -o pipefail
quick="--normalize none --iterations 5 -q"

# a name comes in, so a name goes out
mccgr factorize X.h5 --alpha 100 --k 3 $quick | mccgr cluster -q | tee name | mccgr evaluate > by-name
mccgr factorize X.h5 --alpha 100 --k 3 $quick -o - | mccgr evaluate 2> note > by-data

# HDF5 comes in, so HDF5 goes out
mccgr factorize $quick --alpha 100 -k 3 < X.h5 | mccgr cluster -q | tee data.h5 | mccgr evaluate > streamed

ls X*.h5 | xargs -n1 mccgr info > infos

for k in 2 3; do
    for seed in 1 2; do
        mccgr factorize X.h5 -k $k --seed $seed $quick -o $k-$seed.h5
    done
done
mccgr evaluate ?-?.h5 -q --format json > scores.jsonl
mccgr factorize X.h5 -k 3 --seed 3 $quick -o - | mccgr evaluate -q --format json >> scores.jsonl

if mccgr factorize nowhere.h5 -k 3 2> upstream | mccgr evaluate 2> downstream; then exit 9; fi
"""


@pytest.fixture
def shell(X_file, tmp_path):
    """Run a script in the folder of X.h5, with ``mccgr`` as a command."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "mccgr").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m mccgr_cli "$@"\n')
    (tmp_path / "bin" / "mccgr").chmod(0o755)
    path = f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}"

    def run(script: str, **streams: Any) -> subprocess.CompletedProcess[str]:
        how = {"cwd": tmp_path, "env": {**os.environ, "PATH": path}, "text": True, "check": False}
        return subprocess.run(["bash", "-c", script], **how, timeout=600, **streams)  # a command that waits is a fault

    return run


def read_lines(path: Path) -> list[dict[str, Any]]:
    """JSON lines, as a notebook reads them."""
    found: list[dict[str, Any]] = pandas.read_json(path, lines=True).to_dict("records")
    return found


@pytest.mark.slow
def test_a_shell_script_of_pipes_and_loops_ends_well(shell, tmp_path):
    done = shell(SCRIPT, capture_output=True, stdin=subprocess.DEVNULL)
    assert done.returncode == 0, done.stderr
    told = {one.name: one.read_text() for one in tmp_path.iterdir() if one.is_file() and one.suffix != ".h5"}
    assert told["name"] == "X.factors.clusters.h5\n"
    assert "accuracy  1.0000" in told["by-name"]
    assert told["by-name"] == told["by-data"] == told["streamed"]
    assert "clustered first" not in done.stderr
    assert told["note"].startswith("standard input holds factors, clustered first")
    assert {one.name for one in tmp_path.glob("X*.h5")} == {"X.h5", "X.factors.h5", "X.factors.clusters.h5"}
    assert told["infos"].count("sha256") == 3
    scores = read_lines(tmp_path / "scores.jsonl")
    assert [(one["k"], one["seed"]) for one in scores] == [(2, 1), (2, 2), (3, 1), (3, 2), (3, 3)]
    assert [one["accuracy"] for one in scores[2:]] == [1.0, 1.0, 1.0]
    assert {(one["matrix"], one["method"], one["strength"], one["iterations"]) for one in scores} == {
        ("X.h5", "mccgr", 10.0, 5)
    }
    assert told["upstream"].startswith("nowhere.h5: no such file")
    assert (
        told["downstream"]
        == "standard input: nothing arrived; did the command before the pipe fail, or write to -o FILE?\n"
    )


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "openpty"), reason="needs pseudo-terminals")
def test_at_a_terminal_a_missing_file_is_an_error_with_an_example(shell):
    commands = ["factorize -k 3", "cluster", "evaluate", "info"]
    ours, theirs = os.openpty()
    done = shell("; ".join(f"mccgr {one}; echo $?" for one in commands), stdin=theirs, capture_output=True)
    os.close(theirs)
    os.close(ours)
    assert done.stdout.split() == ["2"] * len(commands)
    for command, line in zip(commands, done.stderr.splitlines(), strict=True):
        name = command.split()[0]
        assert line.startswith(f"mccgr {name}: Missing argument")
        assert f"; for example: mccgr {name} X." in line
