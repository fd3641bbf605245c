"""Outputs appear whole or not at all, one run at a time writes them, and killed runs leave nothing for long."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from mccgr_cli.errors import OutputError
from mccgr_cli.files import atomic_write as storage
from mccgr_cli.files.atomic_write import OutputLock, check_space, write_files
from mccgr_cli.files.readers import load

LOCKS = pytest.mark.skipif(sys.platform == "win32", reason="needs locks on files")


def hidden(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if path.name.startswith("."))


def killed_while_it_claims(path: Path) -> None:
    """A run that claims an output, begins to write it, and is killed."""
    program = f"""
import os, signal
from pathlib import Path
from mccgr_cli.files import atomic_write as storage
claim = storage.OutputLock(Path({str(path)!r}), overwrite=True)
storage.temporary_path(Path({str(path)!r})).write_bytes(b"half of it")
os.kill(os.getpid(), signal.SIGKILL)
"""
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == -signal.SIGKILL


@LOCKS
def test_only_one_run_at_a_time_has_an_output(tmp_path):
    first = OutputLock(tmp_path / "F.h5", overwrite=False)
    with pytest.raises(OutputError, match=f"another run is writing it .process {os.getpid()} on "):
        OutputLock(tmp_path / "F.h5", overwrite=True)
    OutputLock(tmp_path / "other.h5", overwrite=False).release()
    first.release()
    OutputLock(tmp_path / "F.h5", overwrite=True).release()
    assert hidden(tmp_path) == []


@LOCKS
def test_two_names_of_one_file_are_one_output(tmp_path):
    (tmp_path / "F.h5").write_bytes(b"earlier")
    (tmp_path / "link.h5").symlink_to("F.h5")
    claim = OutputLock(tmp_path / "link.h5", overwrite=True)
    with pytest.raises(OutputError, match="another run"):
        OutputLock(tmp_path / "F.h5", overwrite=True)
    claim.release()


@LOCKS
def test_what_is_written_while_waiting_for_the_claim_is_not_lost(tmp_path, monkeypatch):
    output = tmp_path / "F.h5"
    take = storage.open_locked

    def late(*arguments):
        output.write_text("the first")
        return take(*arguments)

    monkeypatch.setattr(storage, "open_locked", late)
    with pytest.raises(OutputError, match="exists already"):
        OutputLock(output, overwrite=False)
    assert output.read_text() == "the first"
    assert hidden(tmp_path) == []


@LOCKS
@pytest.mark.parametrize("name", ["F.h5", "x" * 240 + ".h5", "a\nb[*].h5", "größe.h5"])
def test_what_a_killed_run_left_is_removed_by_the_next_in_that_folder(tmp_path, name):
    killed_while_it_claims(tmp_path / name)
    assert len(hidden(tmp_path)) == 2
    assert not (tmp_path / name).exists()
    OutputLock(tmp_path / "another.h5", overwrite=False).release()
    assert hidden(tmp_path) == []


@LOCKS
def test_what_a_living_run_or_another_program_has_there_stays(tmp_path):
    claim = OutputLock(tmp_path / "F.h5", overwrite=False)
    mine = storage.temporary_path(tmp_path / "F.h5")
    others = [tmp_path / name for name in (".lock", ".F.h5.lock", ".F.h5.0123abcd.tmp", ".G.h5.0123abcd.mccgr.tmp")]
    for path in (mine, *others):
        path.write_bytes(b"in use")
    killed_while_it_claims(tmp_path / "G")
    OutputLock(tmp_path / "another.h5", overwrite=False).release()
    assert all(path.exists() for path in (mine, *others))
    claim.release()


@LOCKS
def test_what_runs_of_other_machines_have_there_is_left_to_them(tmp_path):
    """Some file systems do not tell machines of each other's locks."""
    killed_while_it_claims(tmp_path / "F.h5")
    storage.lock_path(tmp_path / "F.h5").write_text("process 1 on elsewhere")
    OutputLock(tmp_path / "another.h5", overwrite=False).release()
    assert len(hidden(tmp_path)) == 2
    OutputLock(tmp_path / "F.h5", overwrite=False).release()  # but this one needs it


def test_a_folder_that_may_be_written_to_and_not_looked_into(tmp_path, monkeypatch):
    def forbidden(_):
        raise PermissionError

    monkeypatch.setattr(storage.os, "scandir", forbidden)
    OutputLock(tmp_path / "F.h5", overwrite=False).release()


@LOCKS
def test_the_lock_of_a_killed_run_of_somebody_else_is_no_obstacle(tmp_path, monkeypatch):
    storage.lock_path(tmp_path / "F.h5").write_text("process 1 on elsewhere")
    path_open = Path.open

    def not_for_writing(path, mode="r", **options):
        if path.name.endswith(storage.LOCK) and mode == "a+b":
            raise PermissionError
        return path_open(path, mode, **options)

    monkeypatch.setattr(Path, "open", not_for_writing)
    OutputLock(tmp_path / "F.h5", overwrite=False).release()
    assert hidden(tmp_path) == []


@LOCKS
def test_a_lock_that_is_a_link_is_not_followed(tmp_path):
    storage.lock_path(tmp_path / "F.h5").symlink_to("elsewhere")
    with pytest.raises(OutputError, match="cannot write"):
        OutputLock(tmp_path / "F.h5", overwrite=False)
    assert not (tmp_path / "elsewhere").exists()


def test_a_file_system_without_locks_serves_too(tmp_path, monkeypatch):
    monkeypatch.setattr(storage, "try_lock", lambda _: None)
    claims = [OutputLock(tmp_path / "F.h5", overwrite=False) for _ in range(2)]
    assert hidden(tmp_path) == []
    for claim in claims:
        claim.release()


@LOCKS
def test_a_lock_that_is_removed_in_that_moment_is_taken_anew(tmp_path, monkeypatch):
    """As when the run that had it ends between our opening and our locking it."""
    take, taken = storage.try_lock, []

    def late(file):
        if not taken:
            storage.remove(storage.lock_path(tmp_path / "F.h5"))
        taken.append(take(file))
        return taken[-1]

    monkeypatch.setattr(storage, "try_lock", late)
    claim = OutputLock(tmp_path / "F.h5", overwrite=False)
    assert taken == [True, True]
    with pytest.raises(OutputError, match="another run"):
        OutputLock(tmp_path / "F.h5", overwrite=False)
    claim.release()


def test_names_that_begin_alike_are_told_apart(tmp_path):
    names = {storage.short_name(Path("y" * 150 + str(i))) for i in range(5)}
    assert len(names) == 5
    assert max(map(len, names)) <= storage.LONGEST_NAME


def test_an_output_larger_than_the_free_space_is_refused_before_it_is_written(tmp_path, monkeypatch):
    monkeypatch.setattr(storage.shutil, "disk_usage", lambda _: storage.shutil._ntuple_diskusage(100, 90, 10))
    check_space(tmp_path / "F.h5", 10)
    with pytest.raises(OutputError, match=r"takes 11 B, and 10 B are free in .*; free some space"):
        check_space(tmp_path / "F.h5", 11)
    with pytest.raises(OutputError, match="takes 12 B"):
        write_files({tmp_path / "F.h5": b"123456", tmp_path / "G.h5": b"123456"}, overwrite=False)
    assert list(tmp_path.iterdir()) == []


@LOCKS
@pytest.mark.slow
@pytest.mark.parametrize(("number", "overwrite"), [(5, False), (3, True)])
def test_of_several_runs_with_one_output_one_wins_and_the_others_say_why(X_file, tmp_path, number, overwrite):
    folder = tmp_path / "out"
    folder.mkdir()
    output = folder / "F.h5"
    command = [sys.executable, "-m", "mccgr_cli", "factorize", X_file, "--k", "3", "-q", "-o", output]
    command += ["--overwrite"] * overwrite
    runs = [
        subprocess.Popen([*command, "--seed", str(seed)], stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for seed in range(number)
    ]
    ends = [(*run.communicate(timeout=60), run.returncode) for run in runs]
    won = [status for _, _, status in ends if status == 0]
    assert won if overwrite else len(won) == 1
    for _, message, status in ends:
        if status:
            assert status == 1
            assert "another run is writing it" in message or "exists already" in message
            assert len(message.splitlines()) == 1
    assert load(str(output), kinds=("factors",)).contents["W"].shape == (60, 3)
    assert hidden(folder) == []


@LOCKS
@pytest.mark.slow
def test_an_interrupted_run_leaves_no_lock(X_file, tmp_path):
    folder = tmp_path / "out"
    folder.mkdir()
    command = [sys.executable, "-m", "mccgr_cli", "factorize", X_file, "--k", "3", "--tolerance", "0"]
    run = subprocess.Popen([*command, "--iterations", "1000000", "-q", "-o", folder / "F.h5"], stderr=subprocess.PIPE)
    while not hidden(folder) and run.poll() is None:
        time.sleep(0.01)
    run.terminate()
    run.communicate(timeout=60)
    assert run.returncode == 143
    assert hidden(folder) == []


def can_mount() -> bool:
    command = ["unshare", "-rm", "mount", "-t", "tmpfs", "tmpfs", "/mnt"]
    return bool(shutil.which("unshare")) and subprocess.run(command, capture_output=True, check=False).returncode == 0


@LOCKS
@pytest.mark.slow
@pytest.mark.skipif(not can_mount(), reason="needs leave to mount a small file system")
def test_a_folder_of_20_mb(tmp_path):
    """A result that fits, one that does not, one for which others have left no room, and one that finds it full."""
    rng = np.random.default_rng(0)
    np.save(tmp_path / "small.npy", rng.random((50_000, 24)))
    np.save(tmp_path / "large.npy", rng.random((150_000, 24)))
    (tmp_path / "disk").mkdir()
    mccgr = f"{sys.executable} -m mccgr_cli factorize"
    solver = "--method l2 --normalize none --init random --iterations 2 -q --overwrite"
    script = f"""
mount -t tmpfs -o size=20m tmpfs {tmp_path}/disk && cd {tmp_path}/disk
{mccgr} ../small.npy --k 10 {solver} -o F.h5; echo "status $?" >&2
before=$(sha256sum F.h5)
{mccgr} ../large.npy --k 20 {solver} -o F.h5; echo "status $?" >&2
head -c 13m /dev/zero > others
{mccgr} ../small.npy --k 10 {solver} -o F.h5; echo "status $?" >&2
{mccgr} ../small.npy --k 10 {solver} -o G.h5 --checkpoint C.h5 --checkpoint-every 0; echo "status $?" >&2
head -c 20m /dev/zero > rest
{mccgr} ../small.npy --k 1 {solver} -o G.h5; echo "status $?" >&2
echo "$before" | sha256sum -c >&2
ls -A >&2
"""
    done = subprocess.run(["unshare", "-rm", "sh", "-c", script], capture_output=True, text=True, check=False)
    said = [line for line in done.stderr.splitlines() if not line.startswith("head:")]
    assert said[0] == "status 0", done.stderr
    for message, status in zip(said[1:9:2], said[2:9:2], strict=True):
        assert "are free in" in message
        assert "free some space or choose another place" in message
        assert status == "status 1"
    assert said[9:] == ["F.h5: OK", "F.h5", "others", "rest"]
