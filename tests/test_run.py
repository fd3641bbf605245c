"""All stages in one command, which does again only what has changed."""

from __future__ import annotations

import json
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

from mccgr_cli.cli import run_plan
from mccgr_cli.cli.rank import Trials
from mccgr_cli.cli.run import command as run_command
from mccgr_cli.files import atomic_write as storage
from mccgr_cli.images.find import images_in_folder
from mccgr_cli.images.grid import adapt_to_images
from mccgr_cli.images.settings import Description
from mccgr_cli.workflow import ranking

TEXTURES = Path(__file__).parent.parent / "sample_data" / "textures"
FILES = ["clusters.csv", "clusters.h5", "factors.h5", "matrix.h5", "report.html", "run.json"]
QUICK = ("--words", 20, "--jobs", 0)


@pytest.fixture
def images(tmp_path):
    """Five images of each texture."""
    folder = tmp_path / "images"
    for category in ("brick", "grass", "gravel"):
        (folder / category).mkdir(parents=True)
        for path in sorted((TEXTURES / category).iterdir())[:5]:
            shutil.copy(path, folder / category)
    return folder


@pytest.fixture
def run(mccgr, tmp_path):
    def call(source, *arguments, **named):
        outcome = mccgr("run", source, "-o", tmp_path / "out", *arguments, **named)
        assert outcome.status == 0, outcome.stderr
        return outcome

    return call


@pytest.fixture
def few_trials(monkeypatch, one_thread):
    """Runs that look for k look less closely."""
    monkeypatch.setattr(ranking, "MASKS", 3)
    monkeypatch.setattr(run_plan, "TRIALS", Trials(runs=3, samples=50))


@pytest.fixture
def noise(tmp_path):
    np.save(tmp_path / "noise.npy", np.random.default_rng(0).gamma(2.0, 1.0, (50, 30)))
    return tmp_path / "noise.npy"


def stages_done(outcome):
    return [line.split()[1] for line in outcome.stderr.splitlines() if line.startswith("[") and "unchanged" not in line]


def test_images_become_clusters_a_table_and_a_page(run, images, tmp_path):
    outcome = run(images, "--k", 3, *QUICK, "--format", "json")
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == FILES
    assert json.loads(outcome.stdout)["samples"] == 15
    page = (tmp_path / "out" / "report.html").read_text()
    assert page.count("data:image/webp") >= 15
    assert 'id="duplicates"' in page
    assert stages_done(outcome) == ["extract", "factorize", "cluster", "export", "report"]
    assert stages_done(run(images, "--k", 3, *QUICK, "--no-duplicates", "--overwrite")) == ["report"]
    assert 'id="duplicates"' not in (tmp_path / "out" / "report.html").read_text()


def test_a_second_run_does_only_what_has_changed(run, images, tmp_path):
    run(images, "--k", 3, *QUICK)
    before = {path.name: path.stat().st_mtime_ns for path in (tmp_path / "out").iterdir()}
    again = run(images, "--k", 3, *QUICK, "--verbose")
    assert stages_done(again) == []
    assert {path.name: path.stat().st_mtime_ns for path in (tmp_path / "out").iterdir()} == before
    assert "accuracy" in again.stdout
    assert stages_done(run(images, "--k", 3, *QUICK, "--title", "Walls", "--overwrite")) == ["report"]
    other_k = ("--k", 2, *QUICK, "--overwrite")
    assert stages_done(run(images, *other_k)) == ["factorize", "cluster", "export", "report"]
    (images / "brick" / "brick_00.png").unlink()
    assert stages_done(run(images, *other_k))[0] == "extract"
    (tmp_path / "out" / "clusters.h5").unlink()
    assert stages_done(run(images, "--k", 2, *QUICK)) == ["cluster"]


def contents_of(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        (("--k", 2), "--k was 3"),
        ((), "--k was 3"),
        (("--k", 3, "--strength", 2.5), "--strength was 10"),
        (("--k", 3, "--title", "Walls"), "--title was not given"),
        (("--k", 3, "--cluster-restarts", 2), "--cluster-restarts was 20"),
        (("--k", 3, "--seed", 1, "--assign", "max"), "--seed was 0, --assign was not given"),
    ],
)
def test_a_result_of_other_options_is_not_replaced_silently(run, refused, X_file, tmp_path, changed, told):
    out = tmp_path / "out"
    run(X_file, "--k", 3)
    before = contents_of(out)
    message = refused("run", X_file, *changed, "-o", out)
    assert f"{out}: holds results of other options: {told}; choose another folder with -o, or give" in message
    (out / "factors.h5").unlink()  # what was made from it is still there
    refused("run", X_file, *changed, "-o", out)
    assert contents_of(out) == {name: held for name, held in before.items() if name != "factors.h5"}


def test_a_result_of_another_source_is_not_replaced_silently(run, refused, X_file, tmp_path):
    out = tmp_path / "out"
    run(X_file, "--k", 3)
    before = contents_of(out)
    other = shutil.copy(X_file, tmp_path / "other.h5")
    assert f"holds results of {X_file}; " in refused("run", other, "--k", 3, "-o", out)
    about = json.loads(before["run.json"])
    (out / "run.json").write_text(json.dumps({**about, "version": "0.1.0"}))
    assert "holds results of mccgr 0.1.0" in refused("run", X_file, "--k", 3, "-o", out)
    (out / "run.json").write_bytes(before["run.json"])
    X_file.write_bytes(X_file.read_bytes() + b"\0")
    assert "as it was before it changed" in refused("run", X_file, "--k", 3, "-o", out)
    assert contents_of(out) == before


def test_other_labels_do_not_replace_a_report_silently(run, refused, X_file, tmp_path):
    labels = tmp_path / "labels.txt"
    labels.write_text("a\nb\n" * 30)
    run(X_file, "--k", 3, "--labels", labels)
    before = contents_of(tmp_path / "out")
    labels.write_text("b\na\n" * 30)
    message = refused("run", X_file, "--k", 3, "--labels", labels, "-q", "-o", tmp_path / "out")
    assert "report.html: would be replaced: a file that it depends on has changed" in message
    assert contents_of(tmp_path / "out") == before


def test_a_run_that_failed_before_its_first_result_may_be_corrected(run, refused, X_file, tmp_path):
    refused("run", X_file, "--k", 900, "-q", "-o", tmp_path / "out", status=2)
    run(X_file, "--k", 3)


def test_a_matrix_needs_no_images(run, X_file, tmp_path):
    outcome = run(X_file, "--k", 3, "--assign", "max")
    assert "accuracy  1.0000" in outcome.stdout
    assert not (tmp_path / "out" / "matrix.h5").exists()
    X_file.write_bytes(X_file.read_bytes() + b"\0")
    assert stages_done(run(X_file, "--k", 3, "--assign", "max", "--overwrite"))[0] == "factorize"


def test_other_commands_take_the_folder_of_a_run(run, mccgr, refused, X_file, tmp_path):
    run(X_file, "--k", 3)
    out = tmp_path / "out"
    for command, name in (("export", "e.csv"), ("report", "r.html"), ("plot", "p.svg")):
        outcome = mccgr(command, out, "-o", tmp_path / name)
        assert outcome.status == 0, outcome.stderr
    assert (tmp_path / "e.csv").read_text() == (out / "clusters.csv").read_text()
    assert "no clusters.h5 in this folder" in refused("export", tmp_path, "-o", tmp_path / "f.csv")


def test_without_k_it_is_the_one_that_rank_recommends(run, mccgr, X_file, tmp_path, few_trials):
    outcome = run(X_file, "--seed", 1, "--jobs", 0)
    assert stages_done(outcome) == ["rank", "factorize", "cluster", "export", "report"]
    assert "accuracy  1.0000" in outcome.stdout
    mccgr("rank", X_file, "--runs", 3, "--samples", 50, "--seed", 1, "--jobs", 0, "-o", tmp_path / "ranks.h5")
    with h5py.File(tmp_path / "out" / "ranks.h5") as ours, h5py.File(tmp_path / "ranks.h5") as theirs:
        assert ours.keys() == theirs.keys()
        for name in theirs:
            assert ours[name][:].tobytes() == theirs[name][:].tobytes()
        assert ours.attrs["recommended"] == 3
        assert f"\nk = 3: {theirs.attrs['reasons']}\n" in outcome.stderr
        line = json.loads(ours.attrs["provenance"])["command_line"]
    out = tmp_path / "out" / "ranks.h5"
    assert line == f"mccgr rank {X_file} --runs 3 --samples 50 --seed 1 -o {out}"


def test_k_is_not_looked_for_again(run, refused, X_file, tmp_path, few_trials):
    first = run(X_file, "--jobs", 0)
    (why,) = (line for line in first.stderr.splitlines() if line.startswith("k = 3: "))
    again = run(X_file, "--k", "auto", "--jobs", 0)
    assert stages_done(again) == []
    assert why in again.stderr.splitlines()
    assert stages_done(run(X_file, "--k", 3)) == []
    assert stages_done(run(X_file, "--k", 2, "--overwrite")) == ["factorize", "cluster", "export", "report"]
    message = refused("run", X_file, "-q", "-o", tmp_path / "out")
    assert "holds results of other options: --k was 2" in message
    assert stages_done(run(X_file, "--overwrite")) == ["factorize", "cluster", "export", "report"]
    other = shutil.copy(X_file, tmp_path / "other.h5")
    run(other, "--k", 3, "--overwrite")
    assert not (tmp_path / "out" / "ranks.h5").exists()


def test_without_structure_nothing_is_clustered(run, refused, noise, tmp_path, few_trials):
    for _ in range(2):
        message = refused("run", noise, "--jobs", 0, "-q", "-o", tmp_path / "out")
        assert message.startswith(f"{noise}: No structure: ")
        assert message.endswith("; give --k to cluster it nevertheless")
        assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["ranks.h5", "run.json"]
    assert stages_done(run(noise, "--k", 2)) == ["factorize", "cluster", "export", "report"]


def test_k_is_looked_for_in_the_matrix_of_the_images(mccgr, images, tmp_path, few_trials):
    outcome = mccgr("run", images, *QUICK, "-o", tmp_path / "out")
    assert stages_done(outcome)[:2] == ["extract", "rank"]
    with h5py.File(tmp_path / "out" / "ranks.h5") as file:
        assert list(file["k"]) == [1, 2, 3, 4, 5]
        (matrix,) = json.loads(file.attrs["provenance"])["inputs"]
    assert Path(matrix["name"]).name == "matrix.h5"


def test_a_start_needs_its_k(refused, X_file, tmp_path):
    message = refused("run", X_file, "--init", X_file, "-o", tmp_path / "out", status=2)
    assert message.startswith("--init: ")
    assert message.endswith("give this number with --k")
    assert not (tmp_path / "out").exists()


def test_the_stages_are_those_of_the_other_commands(run, mccgr, X_file, tmp_path):
    chosen = ("--k", 3, "--preset", "paper", "--normalize", "l2", "--seed", 7)
    run(X_file, *chosen, "--cluster-restarts", 3)
    mccgr("factorize", X_file, *chosen, "-o", tmp_path / "F.h5")
    mccgr("cluster", tmp_path / "F.h5", "--seed", 7, "--restarts", 3, "-o", tmp_path / "C.h5")
    with h5py.File(tmp_path / "out" / "clusters.h5") as ours, h5py.File(tmp_path / "C.h5") as theirs:
        for name in ("W", "H", "rho", "assignments"):
            assert ours[name][:].tobytes() == theirs[name][:].tobytes()
        for name in ("cluster_restarts", "cluster_seed", "normalize", "theta"):
            assert ours.attrs[name] == theirs.attrs[name]
        provenance = json.loads(ours.attrs["provenance"])
    out = tmp_path / "out"
    line = f"mccgr cluster {out / 'factors.h5'} --restarts 3 --seed 7 -o {out / 'clusters.h5'}"
    assert provenance["command_line"] == line
    (before,) = provenance["inputs"]
    line = before["provenance"]["command_line"]
    assert line.startswith(f"mccgr factorize {X_file} --k 3 --alpha 100 --form paper --theta 1")
    assert line.endswith(f"--normalize l2 -o {out / 'factors.h5'}")
    words = [word for word in line.split()[1:] if word != str(out / "factors.h5")]
    assert mccgr(*words, tmp_path / "again.h5").status == 0
    with h5py.File(tmp_path / "F.h5") as typed, h5py.File(tmp_path / "again.h5") as again:
        assert typed["W"][:].tobytes() == again["W"][:].tobytes()


def test_files_that_no_run_made_are_not_replaced(run, refused, X_file, tmp_path):
    out = tmp_path / "out"
    out.mkdir()
    (out / "factors.h5").write_text("mine")
    message = refused("run", X_file, "--k", 3, "-o", out)
    assert "factors.h5: exists already" in message
    assert "--overwrite" in message
    assert [path.name for path in out.iterdir()] == ["factors.h5"]
    run(X_file, "--k", 3, "--overwrite")
    (out / "clusters.csv").write_text("changed by hand")
    assert "clusters.csv" in refused("run", X_file, "--k", 3, "-o", out)
    (out / "clusters.csv").unlink()
    (out / "run.json").write_text('{"something": "else"}')
    assert "run.json" in refused("run", X_file, "--k", 3, "-o", out)


@pytest.mark.parametrize("name", ["factors.h5", "report.html", "run.json"])
def test_links_that_lead_nowhere_are_not_followed(refused, X_file, tmp_path, name):
    out = tmp_path / "out"
    out.mkdir()
    (out / name).symlink_to(tmp_path / "elsewhere")
    assert f"{name}: exists already" in refused("run", X_file, "--k", 3, "-o", out)
    assert not (tmp_path / "elsewhere").exists()
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    assert "not a folder" in refused("run", X_file, "--k", 3, "-o", tmp_path / "link")


def test_what_has_no_name_or_can_be_read_once_is_refused(refused, X_file, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    before = sorted(tmp_path.iterdir())
    assert "-o: no folder name" in refused("run", X_file, "--k", 3, "-o", "", status=2)
    assert sorted(tmp_path.iterdir()) == before
    os.mkfifo("pipe")
    assert "SOURCE: pipe cannot be read again" in refused("run", "pipe", "--k", 3, "-o", "out", status=2)
    assert not Path("out").exists()


@pytest.mark.parametrize(
    "damage", ["", "[]", '{"format": "mccgr run 1", "stages": {"factorize": 3, "x": {"file": []}}}']
)
def test_a_damaged_list_of_what_was_done_costs_nothing_but_time(run, X_file, tmp_path, damage):
    run(X_file, "--k", 3)
    (tmp_path / "out" / "run.json").write_text(damage)
    assert stages_done(run(X_file, "--k", 3, "--overwrite"))[0] == "factorize"


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--words", "5"], "is a matrix; leave it out"),
        (["--radii", "4"], "--radii"),
        (["--k", "900"], "900 components"),
        (["--k", "some"], "none of auto"),
        (["--alpha", "1", "--strength", "1"], "give one of them"),
    ],
)
def test_what_does_not_fit_is_refused_in_one_line(mccgr, X_file, tmp_path, arguments, told):
    outcome = mccgr("run", X_file, "--k", 3, "-q", "-o", tmp_path / "out", *arguments)
    assert outcome.status == 2
    assert told in outcome.stderr
    assert len(outcome.stderr.splitlines()) == 1
    assert not (tmp_path / "out" / "factors.h5").exists()


def test_pipes_and_devices_among_the_images_are_left_out(run, images):
    os.mkfifo(images / "brick" / "pipe.png")
    (images / "grass" / "endless.png").symlink_to("/dev/zero")
    assert "images used: 15 of 17" in run(images, "--k", 3, "--iterations", 2, *QUICK).stderr


def test_folders_are_not_matrices(refused, images, tmp_path):
    assert "a folder of images" in refused("run", images, "--k", 3, "--transpose", "-o", tmp_path / "o", status=2)
    assert "standard input" in refused("run", "-", "--k", 3, "-o", tmp_path / "o", status=2, stdin=b"\x89HDF\r\n\x1a\n")
    assert "no such file" in refused("run", tmp_path / "nowhere", "--k", 3, "-o", tmp_path / "o").lower()
    assert "no folder" in refused("run", images, "--k", 3, "-o", tmp_path / "a" / "b")
    (tmp_path / "file").touch()
    assert "not a folder" in refused("run", images, "--k", 3, "-o", tmp_path / "file")


def test_small_images_get_a_finer_grid(run, mccgr, images, tmp_path):
    chosen = adapt_to_images(images_in_folder(str(images)).images, Description(), 10**8)
    assert (chosen.step, chosen.radii) == (3, (4, 8))
    assert adapt_to_images([], Description(), 10**8) == Description()
    assert "--step 3 --radii 4,8" in run(images, "--k", 3, *QUICK).stderr
    run(images, "--k", 3, *QUICK, "--step", 5, "--overwrite")
    with h5py.File(tmp_path / "out" / "matrix.h5") as file:
        assert (file.attrs["step"], list(file.attrs["radii"])) == (5, [4, 8, 12, 16])


def test_what_files_hold_is_looked_at_again(run, mccgr, X_file, tmp_path):
    labels, start = tmp_path / "labels.txt", tmp_path / "start.h5"
    labels.write_text("a\nb\n" * 30)
    mccgr("factorize", X_file, "--k", 3, "-o", start)
    chosen = ("--k", 3, "--labels", labels, "--init", start)
    run(X_file, *chosen)
    labels.write_text("b\na\na\n" * 20)
    assert stages_done(run(X_file, *chosen, "--overwrite")) == ["report"]
    mccgr("factorize", X_file, "--k", 3, "--seed", 1, "--init", "random", "--overwrite", "-o", start)
    assert stages_done(run(X_file, *chosen, "--overwrite"))[0] == "factorize"


def test_the_same_bytes_by_another_name_may_be_another_matrix(run, X_file, tmp_path):
    with h5py.File(tmp_path / "same.mat", "w") as file, h5py.File(X_file) as given:
        file["X"] = given["X"][:]
    shutil.copy(tmp_path / "same.mat", tmp_path / "same.h5")
    run(tmp_path / "same.h5", "--k", 3)
    by_rows = (tmp_path / "out" / "clusters.csv").read_text().count("\n")
    run(tmp_path / "same.mat", "--k", 3, "--overwrite")  # in which MATLAB has samples in columns
    assert (tmp_path / "out" / "clusters.csv").read_text().count("\n") != by_rows


@pytest.mark.parametrize("option", ["--labels", "--init", "--codebook"])
def test_what_can_be_read_but_once_is_refused(refused, images, tmp_path, option):
    os.mkfifo(tmp_path / "pipe")
    for name in ("-", tmp_path / "pipe"):
        given = (images, "--k", 3, option, name, "-o", tmp_path / "out")
        message = refused("run", *given, status=2, stdin=b"\x89HDF\r\n\x1a\n")
        assert message.startswith(f"{option}: ")
        assert "cannot be read again" in message
    assert not (tmp_path / "out").exists()


def test_a_folder_gets_nothing_that_a_run_does_not_know(refused, images, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    before = sorted(tmp_path.iterdir())
    assert "one matrix" in refused("run", images, "--k", 3, "--words", "20,30", "-o", tmp_path / "out", status=2)
    for name in ("", "-"):
        assert "-o: " in refused("run", images, "--k", 3, "-o", name, status=2)
    assert "no such file" in refused("run", images, "--k", 3, "--labels", "nowhere", "-o", tmp_path / "out")
    assert sorted(tmp_path.iterdir()) == before


def test_a_title_is_not_the_name_of_a_file(run, X_file):
    run(X_file, "--k", 3, "--title", "long " * 100)


@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("earlier", [True, False])
def test_a_run_that_ends_as_a_file_gets_its_name_knows_it_again(
    run, mccgr, X_file, tmp_path, monkeypatch, moment, earlier
):
    if earlier:
        run(X_file, "--k", 2)
    publish = storage.publish

    def ended(temporary, target, overwrite):
        if target.name != "clusters.h5":
            publish(temporary, target, overwrite)
            return
        if moment == "after":
            publish(temporary, target, overwrite)
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(storage, "publish", ended)
        assert mccgr("run", X_file, "--k", 3, "--overwrite", "-o", tmp_path / "out").status == 130
    cluster = [] if moment == "after" else ["cluster"]
    assert stages_done(run(X_file, "--k", 3, "--overwrite")) == [*cluster, "export", "report"]


@pytest.mark.slow
def test_an_interrupted_run_goes_on_where_it_was(images, tmp_path):
    words = [sys.executable, "-m", "mccgr_cli", "run", images, "--k", "3", *map(str, QUICK), "--tolerance", "0"]
    words += ["-o", tmp_path / "out", "--iterations"]
    process = subprocess.Popen([*words, "100000000"], stderr=subprocess.PIPE, text=True)
    while not (tmp_path / "out" / "matrix.h5").exists() and process.poll() is None:
        time.sleep(0.02)
    time.sleep(1)
    refused = subprocess.run([*words, "50"], capture_output=True, text=True)
    assert refused.returncode == 1
    assert "another run is writing it" in refused.stderr
    process.send_signal(signal.SIGINT)
    said = process.communicate()[1]
    assert process.returncode == 130
    assert said.splitlines()[-1].endswith("the same command continues")
    done = subprocess.run([*words, "50"], capture_output=True, text=True, check=True)
    assert "[1/5] extract: unchanged" in done.stderr
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == FILES


def test_the_report_of_a_matrix_shows_its_values_wherever_it_is(run, X_file, tmp_path, monkeypatch):
    run(X_file, "--k", 3)
    page = (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    assert "share of the samples of the cluster with a value above 0" in page
    assert "mean (elsewhere)" in page
    monkeypatch.chdir(X_file.parent)
    assert stages_done(run(X_file.name, "--k", 3)) == []


def test_every_option_of_a_stage_is_an_option_of_the_run():
    from mccgr_cli.cli import cluster, extract, factorize, rank, report

    own = {parameter.name for parameter in run_command.params}
    left_out = {"graph_file", "checkpoint", "checkpoint_every", "resume", "images", "restarts", "normalize"}
    left_out |= {"ks", "runs", "share", "samples", "matrix"}
    for stage in (extract, rank, factorize, cluster, report):
        assert {parameter.name for parameter in stage.command.params} - own - left_out == set()
