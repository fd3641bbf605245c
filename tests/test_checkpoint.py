"""A run that is ended goes on from its checkpoint and ends with the same factors, to the last bit."""

from __future__ import annotations

import errno
import json
import os
import re
import signal
import subprocess
import sys
import time

import h5py
import numpy as np
import pytest
from conftest import paper, planted
from scipy import sparse

from mccgr_cli import __version__
from mccgr_cli.blocks.in_memory import MemoryBlocks
from mccgr_cli.core import solver
from mccgr_cli.core.graph import build_graph
from mccgr_cli.files import atomic_write as storage
from mccgr_cli.files.atomic_write import write_files
from mccgr_cli.files.container import encode
from mccgr_cli.files.provenance import Input
from mccgr_cli.files.readers import load
from mccgr_cli.settings import GraphSettings, Settings
from mccgr_cli.system import signals as interrupts
from mccgr_cli.workflow.checkpoints import Checkpoint, Run, checkpoint_contents, read_progress

RUN = Run({"source": "X.h5"}, {"k": 3}, [Input("X.h5", "0")])
WAYS = [
    *((method, "multiplicative") for method in ("mccgr", "mcc", "grnmf", "l2", "kl", "gdcls", "pg")),
    *((method, "coordinate") for method in ("mccgr", "mcc", "grnmf", "l2")),
]


def through_a_file(tmp_path, progress, A):
    path = tmp_path / "checkpoint.h5"
    write_files({path: encode(checkpoint_contents(Checkpoint(RUN, progress, A)))}, overwrite=True)
    return load(str(path), kinds=("checkpoint",))


def same(ours, theirs):
    return all(np.array_equal(getattr(ours, name), getattr(theirs, name)) for name in ("W", "H", "rho"))


@pytest.mark.parametrize("kind", ["dense", "sparse", "single"])
@pytest.mark.parametrize(("method", "way"), WAYS)
def test_a_run_goes_on_to_the_same_bits(tmp_path, method, way, kind):
    """From its beginning, from the middle of its first start, and from its second start."""
    X, _ = planted(n=45, d=21)
    X = {"dense": X, "sparse": sparse.csr_array(np.where(X > 1, X, 0)), "single": X.astype(np.float32)}[kind]
    source = MemoryBlocks(X, block_rows=13)
    A = build_graph(X, GraphSettings(axes=0)) if method in ("mccgr", "grnmf") else None
    settings = Settings(k=3, method=method, solver=way, iterations=8, tolerance=0, init="random", restarts=2)
    pauses, found = [], {}

    def pause(progress):
        if len(pauses) in (0, 5, 14):
            found[len(pauses)] = through_a_file(tmp_path, progress(), A)
        pauses.append(progress)

    undisturbed = solver.solve(source, settings, A, on_pause=pause)
    for at, kept in found.items():
        progress = read_progress(kept, settings, source)
        steps = []
        resumed = solver.solve(source, settings, kept.contents.datasets.get("A"), None, steps.append, progress)
        assert same(resumed, undisturbed)
        for name in ("objective", "data", "graph", "sigma"):
            assert np.array_equal(resumed.history[name], undisturbed.history[name], equal_nan=True)
        assert len(steps) == 17 - at  # two starts of 8 iterations, and the beginning of the second
    assert len(found) == 3


@pytest.mark.parametrize(
    "settings",
    [
        Settings(k=3, method="gdcls", ridge=1.0, iterations=90, tolerance=0),
        paper(k=3, method="mcc", bandwidth="settle", iterations=60, tolerance=0),
    ],
    ids=["a basis that is scaled back remembers its size", "a bandwidth that has settled stays"],
)
def test_what_was_learnt_on_the_way_is_known_after_a_pause_too(tmp_path, settings):
    source = MemoryBlocks(planted(n=45, d=21)[0])
    pauses, found = [], []

    def pause(progress):
        pauses.append(progress)
        if len(pauses) == 45:
            found.append(through_a_file(tmp_path, progress(), None))

    undisturbed = solver.solve(source, settings, None, on_pause=pause)
    assert settings.bandwidth != "settle" or len(set(undisturbed.history["sigma"][40:])) == 1
    assert same(solver.solve(source, settings, resumed=read_progress(found[0], settings, source)), undisturbed)


def test_starts_still_to_come_are_those_that_would_have_come(tmp_path):
    X, _ = planted()
    source, settings = MemoryBlocks(X), Settings(k=3, method="l2", init="random", restarts=3, iterations=4, tolerance=0)
    seen, resumed_seen, found = [], [], []

    def pause(progress):
        found.append(found or through_a_file(tmp_path, progress(), None))

    solver.solve(source, settings, None, None, seen.append, None, pause)
    solver.solve(source, settings, None, None, resumed_seen.append, read_progress(found[0], settings, source))
    assert [step.objective for step in seen[1:]] == [step.objective for step in resumed_seen]


@pytest.fixture
def interrupt_at(monkeypatch):
    """Let a signal come in the middle of an iteration."""

    def arrange(iteration, number=signal.SIGINT):
        step = solver.SolverRun.step

        def disturbed(course):
            if len(course.steps) == iteration:
                signal.raise_signal(number)
            step(course)

        monkeypatch.setattr(solver.SolverRun, "step", disturbed)
        return lambda: monkeypatch.setattr(solver.SolverRun, "step", step)

    return arrange


def contents(path):
    with h5py.File(path) as file:
        found = {}
        file.visititems(lambda name, node: found.update({name: node[()]}) if isinstance(node, h5py.Dataset) else None)
        attributes = {name: value for name, value in file.attrs.items() if name != "provenance"}
        provenance = json.loads(file.attrs["provenance"])
    del found["history/seconds"]
    kept = {name: provenance[name] for name in ("parameters", "inputs", "command")}
    return {name: value.tolist() for name, value in found.items()}, attributes, kept


OPTIONS = ("--k", 3, "--tolerance", 0, "--iterations", 30, "--preset", "paper")


@pytest.mark.parametrize("options", [OPTIONS, OPTIONS[:-2]], ids=["preset", "chosen without labels"])
def test_an_interrupt_waits_for_the_iteration_and_says_how_to_go_on(mccgr, X_file, tmp_path, interrupt_at, options):
    checkpoint, whole, parts = tmp_path / "a run.h5", tmp_path / "whole.h5", tmp_path / "parts.h5"
    assert mccgr("factorize", X_file, *options, "-o", whole).status == 0
    undo = interrupt_at(12)
    ended = mccgr("factorize", X_file, *options, "-o", parts, "--checkpoint", checkpoint)
    undo()
    assert ended.status == 130
    message = f"mccgr: interrupted; continue after iteration 12 with: mccgr factorize --resume '{checkpoint}'"
    assert ended.stderr.splitlines()[-1] == message
    assert not parts.exists()
    resumed = mccgr("factorize", "--resume", checkpoint)
    assert resumed.status == 0, resumed.stderr
    assert "continuing after iteration 12" in resumed.stderr
    assert contents(parts) == contents(whole)
    assert not checkpoint.exists()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["X.h5", "parts.h5", "whole.h5"]


def test_the_same_command_goes_on_too_and_may_be_interrupted_again(mccgr, X_file, tmp_path, interrupt_at):
    whole, parts = tmp_path / "whole.h5", tmp_path / "parts.h5"
    command = ("factorize", X_file, *OPTIONS, "--init", "random", "--restarts", 3)
    assert mccgr(*command, "-o", whole).status == 0
    for iteration in (5, 17):
        undo = interrupt_at(iteration)
        assert mccgr(*command, "-o", parts, "--checkpoint", tmp_path / "C.h5").status == 130
        undo()
    assert mccgr(*command, "-o", parts, "--checkpoint", tmp_path / "C.h5").status == 0
    assert contents(parts) == contents(whole)


def test_graphs_and_starts_from_files_need_not_be_there_any_more(mccgr, X_file, tmp_path, interrupt_at):
    mccgr("graph", X_file, "-o", tmp_path / "A.h5")
    mccgr("factorize", X_file, "--k", 3, "-o", tmp_path / "start.h5")
    command = ("factorize", X_file, *OPTIONS, "--graph", tmp_path / "A.h5", "--init", tmp_path / "start.h5")
    assert mccgr(*command, "-o", tmp_path / "whole.h5").status == 0
    undo = interrupt_at(9)
    assert mccgr(*command, "-o", tmp_path / "parts.h5", "--checkpoint", tmp_path / "C.h5").status == 130
    undo()
    (tmp_path / "A.h5").unlink()
    (tmp_path / "start.h5").unlink()
    resumed = mccgr("factorize", "--resume", tmp_path / "C.h5")
    assert resumed.status == 0, resumed.stderr
    assert contents(tmp_path / "parts.h5") == contents(tmp_path / "whole.h5")


@pytest.fixture
def interrupted(mccgr, X_file, tmp_path, interrupt_at):
    """A checkpoint, and the file that it is about."""
    undo = interrupt_at(9)
    command = ("factorize", X_file, *OPTIONS, "-o", tmp_path / "F.h5", "--checkpoint", tmp_path / "C.h5")
    assert mccgr(*command).status == 130
    undo()
    return tmp_path / "C.h5"


def test_how_to_run_can_be_said_anew(mccgr, interrupted, tmp_path):
    resumed = mccgr("factorize", "--resume", interrupted, "-o", tmp_path / "other.h5", "--memory", "1GB", "-q")
    assert resumed.status == 0
    assert resumed.stderr == ""
    assert (tmp_path / "other.h5").exists()
    assert not (tmp_path / "F.h5").exists()


def test_a_run_that_is_interrupted_before_it_goes_on_can_still_go_on(mccgr, interrupted, monkeypatch):
    def interrupt(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("mccgr_cli.cli.samples.place", interrupt)
    ended = mccgr("factorize", "--resume", interrupted)
    assert ended.stderr == f"mccgr: interrupted; continue with: mccgr factorize --resume {interrupted}\n"


def test_the_hint_repeats_how_to_run(mccgr, X_file, tmp_path, interrupt_at):
    interrupt_at(9)
    manner = ("--checkpoint-every", "7", "--memory", "1GB", "--overwrite", "-v")
    ended = mccgr("factorize", X_file, *OPTIONS, "-o", tmp_path / "F.h5", "--checkpoint", tmp_path / "C.h5", *manner)
    hint = ended.stderr.splitlines()[-1].split(" with: ")[-1]
    assert hint.startswith(f"mccgr factorize --resume {tmp_path / 'C.h5'} ")
    assert set(hint.split()[4:]) == {"--checkpoint-every", "7", "--memory", "1GB", "--overwrite", "--verbose"}


def test_what_to_compute_cannot_be_said_anew(refused, X_file, interrupted):
    assert "--k: the run in the checkpoint has decided it" in refused(
        "factorize", "--resume", interrupted, "--k", 4, status=2
    )
    assert "MATRIX" in refused("factorize", X_file, "--resume", interrupted, status=2)
    assert "--checkpoint" in refused("factorize", "--resume", interrupted, "--checkpoint", "C", status=2)
    assert "name a file" in refused("factorize", "--resume", "-", status=2)


def test_another_matrix_or_other_options_are_refused(mccgr, refused, X_file, interrupted, tmp_path):
    command = ("factorize", X_file, *OPTIONS, "-o", tmp_path / "F.h5", "--checkpoint", interrupted)
    assert "with other data or options" in refused(*command, "--seed", 1)
    assert interrupted.exists()
    assert mccgr(*command, "--seed", 1, "--overwrite").status == 0
    assert not interrupted.exists()


def test_another_dataset_of_the_same_file_is_another_matrix(mccgr, refused, tmp_path, interrupt_at):
    with h5py.File(tmp_path / "two.h5", "w") as file:
        file["A"], file["B"] = planted(seed=1)[0], planted(seed=2)[0]
    command = (*OPTIONS, "--checkpoint", tmp_path / "C.h5", "-o", tmp_path / "F.h5")
    undo = interrupt_at(9)
    assert mccgr("factorize", f"{tmp_path}/two.h5::A", *command).status == 130
    undo()
    assert "with other data or options" in refused("factorize", f"{tmp_path}/two.h5::B", *command)
    (tmp_path / "two.h5").rename(tmp_path / "moved.h5")
    assert "continuing after" in mccgr("factorize", f"{tmp_path}/moved.h5::A", *command).stderr


def test_a_matrix_that_has_changed_is_refused(refused, X_file, interrupted):
    with h5py.File(X_file, "r+") as file:
        file["X"][0, 0] += 1
    assert "has changed since the run" in refused("factorize", "--resume", interrupted)
    assert interrupted.exists()


def test_a_checkpoint_is_no_output_and_no_input(mccgr, refused, X_file, interrupted, tmp_path):
    command = ("factorize", X_file, *OPTIONS, "-o", tmp_path / "G.h5", "--checkpoint")
    assert mccgr("graph", X_file, "--k", 2, "-o", tmp_path / "A.h5").status == 0
    (tmp_path / "link.h5").symlink_to(X_file)
    for path, more in ((X_file, ()), (tmp_path / "link.h5", ()), (tmp_path / "A.h5", ("--graph", tmp_path / "A.h5"))):
        before = path.read_bytes()
        message = refused(*command, path, "--overwrite", *more, status=2)
        assert message == f"--checkpoint: {path} is an input; name another file"
        assert path.read_bytes() == before
    named = ("factorize", f"{X_file}::X", *OPTIONS, "-o", tmp_path / "G.h5")
    assert "is an input" in refused(*named, "--checkpoint", X_file, status=2)
    assert "is the output" in refused(*command, tmp_path / "G.h5", status=2)
    precious = tmp_path / "precious.h5"
    precious.write_text("precious")
    assert "is not a checkpoint" in refused(*command, precious, "--overwrite")
    assert precious.read_text() == "precious"
    for name, *more in (("table",), ("factorize",), ("factorize", "-k", 2), ("rank", "--k", "2-3")):
        message = refused(name, interrupted, *more)
        assert "holds the state of a run where" in message
        assert message.endswith(f"continue this run with: mccgr factorize --resume {interrupted}")
    piped = ("factorize", "-", "--k", 2, "--checkpoint", tmp_path / "D.h5", "-o", tmp_path / "E.h5")
    assert "- cannot be read again" in refused(*piped, status=2, stdin=X_file.read_bytes())


def test_without_k_only_a_checkpoint_has_an_error_of_its_own(refused, X_file, tmp_path):
    for given in ((), (X_file,), (tmp_path / "missing.h5",), (tmp_path,), ("-",)):
        assert "Missing option '-k' / '--k'" in refused("factorize", *given, status=2)


def test_two_runs_do_not_share_a_checkpoint(X_file, refused, interrupted, tmp_path):
    from mccgr_cli.files.atomic_write import OutputLock

    claim = OutputLock(interrupted, overwrite=True)
    assert "another run is writing it" in refused("factorize", "--resume", interrupted)
    claim.release()


def test_info_says_what_a_checkpoint_is_about(mccgr, interrupted):
    shown = mccgr("info", interrupted)
    assert shown.status == 0
    assert re.search(r"state +checkpoint after 9 iterations\n", shown.stdout)
    assert re.search(r"silenced features +0\n", shown.stdout)


@pytest.fixture
def ended_there(mccgr, X_file, interrupted, tmp_path, monkeypatch):
    """The factors of a run that ends where the checkpoint C.h5 is."""
    monkeypatch.chdir(tmp_path)
    assert mccgr("factorize", X_file, *OPTIONS, "--iterations", 9, "-o", "ended.h5").status == 0


@pytest.mark.usefixtures("ended_there")
@pytest.mark.parametrize(
    ("command", "more"),
    [
        ("evaluate", ()),
        ("top", ("--format", "csv")),
        ("plot", ("--figure", "weights", "-o", "-")),
        ("plot", ("--figure", "embedding", "-o", "-")),
        ("export", ("--format", "csv", "-o", "-")),
    ],
)
def test_a_checkpoint_is_shown_as_its_factors(mccgr, command, more):
    ours, theirs = (mccgr(command, path, *more) for path in ("C.h5", "ended.h5"))
    assert (ours.status, theirs.status) == (0, 0), ours.stderr
    assert "C.h5: checkpoint after 9 iterations\n" in ours.stderr
    without_inputs = [re.sub(rb"(?s)<metadata>.*</metadata>", b"", one.output) for one in (ours, theirs)]
    assert without_inputs[0] == without_inputs[1]


@pytest.mark.usefixtures("ended_there")
@pytest.mark.parametrize(
    ("command", "more", "kind", "name"),
    [("cluster", (), "clusters", "assignments"), ("transform", ("X.h5",), "factors", "W")],
)
def test_a_checkpoint_is_used_as_its_factors(mccgr, command, more, kind, name):
    for path, result in (("C.h5", "ours.h5"), ("ended.h5", "theirs.h5")):
        assert mccgr(command, path, *more, "-o", result).status == 0
    ours, theirs = (load(result, kinds=(kind,)).contents for result in ("ours.h5", "theirs.h5"))
    for part in (name, "labels", "label_names", "H", "rho"):
        assert np.array_equal(ours[part], theirs[part])
    assert ours.attributes["ended_by"] == "checkpoint"


def test_a_damaged_checkpoint_is_not_read_as_factors(refused, interrupted):
    with h5py.File(interrupted, "r+") as file:
        file.attrs["run"] = file.attrs["run"].replace('"keep": 0.5', '"keep": 7')
    assert "damaged or was changed" in refused("cluster", interrupted, "-q")
    with h5py.File(interrupted, "r+") as file:
        file["rho"][0] = -1
    assert "negative or non-finite values in /rho" in refused("cluster", interrupted, "-q")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("run", "no JSON"),
        ("run", json.dumps({"output": "x", "parameters": {}, "inputs": [], "version": __version__})),
        ("run", json.dumps({"output": None, "parameters": {"k": 3}, "inputs": [["X", "0"]], "version": __version__})),
        ("run", 3),
        ("random", "{}"),
        ("random", json.dumps({"bit_generator": "MT19937"})),
        ("quiet", "many"),
        ("quiet", 1e30),
        ("restart", 7),
        ("restart", -1),
    ],
)
def test_checkpoints_that_were_changed_are_refused(refused, interrupted, name, value):
    with h5py.File(interrupted, "r+") as file:
        file.attrs[name] = value
    assert "damaged or was changed" in refused("factorize", "--resume", interrupted)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("state/scale", [1.0, 2.0]),
        ("state/scale", -1.0),
        ("state/steps", -1),
        ("state/errors", np.full(24, -1.0)),
        ("state/P", 1.0),
        ("state/P", np.ones((24, 3))),
        ("state/G", np.ones((2, 2))),
        ("state/G", b"text"),
        ("state/G", np.nan),
        ("state/G/inner", np.ones(3)),
        ("W", np.ones((59, 3))),
    ],
)
def test_checkpoints_with_a_state_that_does_not_fit_are_refused(refused, interrupted, name, value):
    with h5py.File(interrupted, "r+") as file:
        del file["/".join(name.split("/")[:2])]
        file[name] = value
    message = refused("factorize", "--resume", interrupted, "-q")
    assert "damaged" in message or "in /state" in message or "/state/G holds" in message


@pytest.mark.parametrize("name", ["W", "state/P", "state/G", "A", "state/errors", "state", "history/objective"])
def test_checkpoints_that_lack_something_are_refused(mccgr, interrupted, name):
    with h5py.File(interrupted, "r+") as file:
        del file[name]
    outcome = mccgr("factorize", "--resume", interrupted)
    assert outcome.status == 1
    assert "without" in outcome.stderr or "damaged" in outcome.stderr
    assert "continue" not in outcome.stderr.splitlines()[-1]
    assert len(outcome.stderr.splitlines()[-1].split("; ")) == 2


def test_a_checkpoint_neither_overwrites_by_itself_nor_says_how_to_run(refused, interrupted, tmp_path):
    (tmp_path / "F.h5").write_text("precious")
    assert "exists already" in refused("factorize", "--resume", interrupted)
    assert (tmp_path / "F.h5").read_text() == "precious"
    (tmp_path / "F.h5").unlink()
    with h5py.File(interrupted, "r+") as file:
        run = json.loads(file.attrs["run"])
        file.attrs["run"] = json.dumps({**run, "parameters": {**run["parameters"], "overwrite": True}})
    assert "damaged or was changed" in refused("factorize", "--resume", interrupted)


def test_a_checkpoint_of_another_version_is_refused_unless_it_may_be_overwritten(
    mccgr, refused, X_file, interrupted, tmp_path
):
    with h5py.File(interrupted, "r+") as file:
        file.attrs["run"] = file.attrs["run"].replace(__version__, "0.0.1")
    assert "mccgr 0.0.1" in refused("factorize", "--resume", interrupted)
    command = ("factorize", X_file, *OPTIONS, "-o", tmp_path / "F.h5", "--checkpoint", interrupted)
    assert "mccgr 0.0.1" in refused(*command)
    assert mccgr(*command, "--overwrite").status == 0


def test_a_checkpoint_that_cannot_be_written_does_not_end_the_run(mccgr, X_file, tmp_path, monkeypatch):
    from mccgr_cli.errors import OutputError

    def full(path, size):
        if path.name == "C.h5":
            raise OutputError(str(path), "no room")

    monkeypatch.setattr(storage, "check_space", full)
    command = ("factorize", X_file, *OPTIONS, "-o", tmp_path / "F.h5", "--checkpoint", tmp_path / "C.h5")
    done = mccgr(*command, "--checkpoint-every", 0)
    assert done.status == 0
    assert "no room; the run continues" in done.stderr
    assert (tmp_path / "F.h5").exists()


def test_a_result_that_cannot_be_written_is_not_lost(mccgr, X_file, tmp_path, monkeypatch):
    publish = storage.publish

    def full(temporary, target, overwrite):
        if target.name == "F.h5":
            raise OSError(errno.ENOSPC, "No space left on device")
        publish(temporary, target, overwrite)

    monkeypatch.setattr(storage, "publish", full)
    command = ("factorize", X_file, *OPTIONS, "-o", tmp_path / "F.h5", "--checkpoint", tmp_path / "C.h5")
    failed = mccgr(*command)
    assert failed.status == 1
    assert (
        "no space left on device; free some space or choose another place; continue after iteration 30" in failed.stderr
    )
    assert mccgr("factorize", "--resume", tmp_path / "C.h5", "-o", tmp_path / "G.h5").status == 0
    monkeypatch.undo()
    assert mccgr("factorize", X_file, *OPTIONS, "-o", tmp_path / "F.h5").status == 0
    assert contents(tmp_path / "F.h5") == contents(tmp_path / "G.h5")


def test_a_signal_after_the_last_iteration_leaves_all_of_them(mccgr, X_file, tmp_path, monkeypatch):
    factors = solver.SolverRun.factors

    def disturbed(course):
        signal.raise_signal(signal.SIGINT)
        return factors(course)

    monkeypatch.setattr(solver.SolverRun, "factors", disturbed)
    ended = mccgr("factorize", X_file, *OPTIONS, "-o", tmp_path / "F.h5", "--checkpoint", tmp_path / "C.h5")
    assert ended.status == 130
    assert "continue after iteration 30 with" in ended.stderr


def test_the_state_is_kept_as_often_as_asked_for(mccgr, X_file, tmp_path, monkeypatch):
    from mccgr_cli.cli import checkpointing

    kept = []
    monkeypatch.setattr(checkpointing.Keeper, "write", lambda keeper, progress, *_: kept.append(progress))
    command = ("factorize", X_file, *OPTIONS, "-o", tmp_path / "F.h5", "--checkpoint", tmp_path / "C.h5")
    assert mccgr(*command).status == 0
    assert kept == []
    assert mccgr(*command, "--overwrite", "--checkpoint-every", 0).status == 0
    assert len(kept) == 31


def test_a_failure_says_how_to_go_on(mccgr, X_file, tmp_path, monkeypatch):
    from mccgr_cli.errors import MccgrError

    step = solver.SolverRun.step

    def fails(course):
        if len(course.steps) == 9:
            raise MccgrError("tcp://node", "the scheduler has gone", "start it again")
        step(course)

    monkeypatch.setattr(solver.SolverRun, "step", fails)
    command = ("factorize", X_file, *OPTIONS, "-o", tmp_path / "F.h5", "--checkpoint", tmp_path / "C.h5")
    failed = mccgr(*command, "--checkpoint-every", 0)
    assert failed.status == 1
    assert "tcp://node: the scheduler has gone; start it again; continue after iteration 8 with" in failed.stderr


def test_a_signal_in_the_moment_when_a_checkpoint_gets_its_name_is_not_lost(mccgr, X_file, tmp_path, monkeypatch):
    publish = storage.publish

    def disturbed(temporary, target, overwrite):
        publish(temporary, target, overwrite)
        signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(storage, "publish", disturbed)
    command = ("factorize", X_file, *OPTIONS, "-o", tmp_path / "F.h5", "--checkpoint", tmp_path / "C.h5")
    ended = mccgr(*command, "--checkpoint-every", 0)
    assert ended.status == 130
    assert "continue after iteration 0 with" in ended.stderr


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="needs signals")
@pytest.mark.parametrize(("number", "status"), [(signal.SIGTERM, 143), (signal.SIGINT, 130), (signal.SIGKILL, -9)])
def test_ending_a_real_run(mccgr, X_file, tmp_path, number, status):
    command = ["factorize", X_file, *map(str, OPTIONS), "--iterations", "5000"]
    assert mccgr(*command, "-o", tmp_path / "whole.h5").status == 0
    checkpoint = tmp_path / "C.h5"
    parts = [*command, "-o", tmp_path / "parts.h5", "--checkpoint", checkpoint, "--checkpoint-every", "0.05"]
    run = subprocess.Popen([sys.executable, "-m", "mccgr_cli", *parts], stderr=subprocess.PIPE, text=True)
    while not checkpoint.exists() and run.poll() is None:
        time.sleep(0.01)
    run.send_signal(number)
    _, message = run.communicate(timeout=60)
    assert run.returncode == status, message
    assert not (tmp_path / "parts.h5").exists()
    assert mccgr("factorize", "--resume", checkpoint).status == 0
    assert contents(tmp_path / "parts.h5") == contents(tmp_path / "whole.h5")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["X.h5", "parts.h5", "whole.h5"]


@pytest.mark.parametrize(
    ("name", "value"),
    [("alpha", -1.0), ("alpha", np.nan), ("restart", -1), ("quiet", -1)],
)
def test_numbers_that_no_run_has_are_refused(refused, interrupted, name, value):
    with h5py.File(interrupted, "r+") as file:
        file.attrs[name] = value
    assert "damaged or was changed" in refused("factorize", "--resume", interrupted)


@pytest.mark.parametrize("way", [(), ("--solver", "coordinate"), ("--method", "pg"), ("--method", "gdcls")])
@pytest.mark.parametrize("name", ["W", "H", "state/P", "state/G"])
@pytest.mark.parametrize("value", [np.nan, -5.0, 1e299])
def test_values_that_no_run_has_never_become_factors(mccgr, X_file, tmp_path, interrupt_at, way, name, value):
    undo = interrupt_at(9)
    command = ("factorize", X_file, *OPTIONS, *way, "-o", tmp_path / "F.h5", "--checkpoint", tmp_path / "C.h5")
    assert mccgr(*command).status == 130
    undo()
    with h5py.File(tmp_path / "C.h5", "r+") as file:
        file[name][...] = value
    outcome = mccgr("factorize", "--resume", tmp_path / "C.h5", "-q")
    assert len(outcome.stderr.splitlines()) == (outcome.status != 0)
    if outcome.status == 0:
        load(str(tmp_path / "F.h5"), kinds=("factors",))


@pytest.mark.parametrize(
    ("name", "value"),
    [("output", True), ("label_key", False), ("output", "a\0b"), ("source", "\ud800"), ("k", "3"), ("transpose", 1)],
)
def test_what_nobody_can_type_is_refused(refused, interrupted, tmp_path, name, value):
    with h5py.File(interrupted, "r+") as file:
        run = json.loads(file.attrs["run"])
        changed = {"output": value} if name == "output" else {"parameters": {**run["parameters"], name: value}}
        file.attrs["run"] = json.dumps({**run, **changed})
    assert "damaged or was changed" in refused("factorize", "--resume", interrupted, "-q")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["C.h5", "X.h5"]


def test_a_graph_that_is_none_is_refused(refused, interrupted):
    with h5py.File(interrupted, "r+") as file:
        file["A/data"][0] *= 5
    assert "not symmetric" in refused("factorize", "--resume", interrupted)


def test_names_that_no_checkpoint_can_have(refused, X_file, tmp_path):
    command = ("factorize", X_file, "--k", 2, "-o", tmp_path / "F.h5", "--checkpoint")
    (tmp_path / "loop.h5").symlink_to("loop.h5")
    assert refused(*command, tmp_path / "loop.h5")
    assert "too long" in refused(*command, tmp_path / ("y" * 256))
    assert "name one" in refused(*command, "", status=2)
    assert "name one" in refused(*command, "-", status=2)
    assert "without --checkpoint" in refused("factorize", X_file, "--k", 2, "--checkpoint-every", 5, status=2)
    os.mkfifo(tmp_path / "pipe.h5")
    pipe = ("factorize", tmp_path / "pipe.h5", "--k", 2, "-o", tmp_path / "F.h5", "--checkpoint", tmp_path / "C.h5")
    assert "cannot be read again" in refused(*pipe, status=2)


def test_a_checkpoint_behind_a_link_is_removed_too(mccgr, X_file, tmp_path):
    (tmp_path / "link.h5").symlink_to("real.h5")
    command = ("factorize", X_file, *OPTIONS, "-o", tmp_path / "F.h5", "--checkpoint", tmp_path / "link.h5")
    assert mccgr(*command, "--checkpoint-every", 0).status == 0
    assert not (tmp_path / "real.h5").exists()


def test_a_signal_that_is_sent_twice_counts_once_and_one_that_comes_later_ends_at_once(monkeypatch):
    went_on = []

    def disturbed():
        with interrupts.recorded_interrupts() as noted:
            signal.raise_signal(signal.SIGINT)
            signal.raise_signal(signal.SIGINT)
            went_on.append(noted.number)
            monkeypatch.setattr(interrupts, "AT_ONCE", -1.0)
            signal.raise_signal(signal.SIGINT)
            went_on.append(noted.number)

    with pytest.raises(KeyboardInterrupt):
        disturbed()
    assert went_on == [signal.SIGINT]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(signal, "SIGXCPU"), reason="needs a limit on time")
def test_a_run_whose_time_is_up_can_go_on(X_file, tmp_path):
    endless = "--init random --restarts 1000000 --tolerance 0 --iterations 100000000"
    command = f"{sys.executable} -m mccgr_cli factorize {X_file} --k 3 {endless} -q"
    script = f"ulimit -St 6; {command} -o {tmp_path}/F.h5 --checkpoint {tmp_path}/C.h5"
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 152, done.stderr
    assert "ended by SIGXCPU; continue after iteration" in done.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["C.h5", "X.h5"]
