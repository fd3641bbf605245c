"""What comes down a pipe: HDF5 or the name of a file, clusters or factors, or nothing."""

from __future__ import annotations

import os
from pathlib import Path

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
        (b"", "nothing arrived; did the command before the pipe fail?"),
        (b"\n\n", "nothing arrived; did the command before the pipe fail?"),
        (b"no such.h5\n", "there is no file 'no such.h5'; did the command before the pipe fail?"),
        (b"a.h5\nb.h5\n", "2 lines of text, where HDF5 or one file name should be; give a file by its name, and "),
        (bytes(range(256)), "not HDF5"),
    ],
)
@pytest.mark.parametrize("command", ["evaluate", "top", "info"])
def test_a_pipe_without_a_file_is_refused_in_plain_words(refused, command, content, fault):
    message = refused(command, "-", stdin=content)
    assert message.startswith("standard input: ")
    assert fault in message
