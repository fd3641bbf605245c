"""A folder for each cluster: nothing is lost, nothing is overwritten, and everything can be taken back."""

from __future__ import annotations

import csv
import errno
import io
import json
import os
import random
import shutil
import signal
import stat
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from conftest import run_mccgr

from mccgr_cli.files.atomic_write import OutputLock
from mccgr_cli.files.container import Contents, encode
from mccgr_cli.output.organize.manifest import NAME
from mccgr_cli.output.organize.names import distinct_names

pytestmark = pytest.mark.skipif(os.name != "posix", reason="needs names in open folders")

WAYS = {"link": (), "hardlink": ("--by", "hardlink"), "copy": ("--by", "copy"), "move": ("--move",)}
CLUSTERS = {"cats/1.jpg": 0, "cats/2.jpg": 0, "dogs/1.jpg": 0, "dogs/3.jpg": 1, "4.jpg": 1}
LAID_OUT = {
    "cluster-00/cats_1.jpg": "cats/1.jpg",
    "cluster-00/2.jpg": "cats/2.jpg",
    "cluster-00/dogs_1.jpg": "dogs/1.jpg",
    "cluster-01/3.jpg": "dogs/3.jpg",
    "cluster-01/4.jpg": "4.jpg",
}


def make_images(folder: Path, names=tuple(CLUSTERS)) -> Path:
    """Files with their own names as contents; they are never decoded."""
    for number, name in enumerate(names):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(os.fsencode(name))
        os.utime(path, ns=(10**18, 10**18 + number))
    return folder


def write_table(path: Path, clusters=CLUSTERS, **columns) -> Path:
    buffer = io.StringIO()
    writer = csv.writer(buffer)
    writer.writerow(["sample", "cluster", *columns])
    for sample, cluster in clusters.items():
        writer.writerow([sample, cluster, *(column.get(sample, "") for column in columns.values())])
    path.write_text(buffer.getvalue())
    return path


def tree(folder: Path) -> dict[str, object]:
    """Everything in a folder: contents and times of files, targets of links."""
    found: dict[str, object] = {}
    for place, folders, files in os.walk(folder):
        for name in [*folders, *files]:
            path = Path(place, name)
            status = path.lstat()
            key = str(path.relative_to(folder))
            if path.is_symlink():
                found[key] = str(path.readlink())
            elif stat.S_ISREG(status.st_mode):
                found[key] = path.read_bytes(), status.st_mtime_ns
            else:
                found[key] = "folder"
    return found


def laid_out(out: Path) -> dict[str, str]:
    """The images in the folders of clusters, by their contents."""
    return {str(path.relative_to(out)): path.read_text() for path in out.glob("cluster-*/*")}


@pytest.fixture
def images(tmp_path):
    return make_images(tmp_path / "images")


@pytest.fixture
def table(tmp_path):
    return write_table(tmp_path / "clusters.csv")


@pytest.fixture
def organize(mccgr, tmp_path, images):
    def run(clusters, *arguments, folder=images, out=tmp_path / "out", **named):
        outcome = mccgr("organize", clusters, "--images", folder, "-o", out, *arguments, **named)
        assert outcome.status == 0, outcome.stderr
        return outcome

    return run


@pytest.fixture
def undo(mccgr, tmp_path):
    def run(*arguments, out=tmp_path / "out"):
        outcome = mccgr("organize", "--undo", out, *arguments)
        assert outcome.status == 0, outcome.stderr
        return outcome

    return run


# What is made


@pytest.mark.parametrize("way", WAYS)
def test_every_image_is_in_the_folder_of_its_cluster_and_undo_restores_everything(
    organize, undo, images, table, tmp_path, way
):
    before = tree(images)
    outcome = organize(table, *WAYS[way])
    assert laid_out(tmp_path / "out") == LAID_OUT
    assert "organized 5 images into 2 folders" in outcome.stderr
    made = tmp_path / "out" / "cluster-00" / "2.jpg"
    assert made.is_symlink() == (way == "link")
    assert (images / "cats" / "2.jpg").exists() == (way != "move")
    assert made.stat().st_nlink == (2 if way == "hardlink" else 1)
    assert made.stat().st_mtime_ns == 10**18 + 1
    undo()
    assert tree(images) == before
    assert not (tmp_path / "out").exists()


def test_links_are_relative_so_both_folders_can_be_moved_together(organize, undo, table, tmp_path):
    (tmp_path / "project").mkdir()
    folder = make_images(tmp_path / "project" / "images")
    organize(table, folder=folder, out=tmp_path / "project" / "sorted")
    moved = tmp_path / "elsewhere"
    (tmp_path / "project").rename(moved)
    assert laid_out(moved / "sorted") == LAID_OUT
    again = organize(table, folder=moved / "images", out=moved / "sorted")
    assert "nothing to do: 5 images" in again.stderr
    undo(out=moved / "sorted")
    assert not (moved / "sorted").exists()


def clusters_file(path, clusters=CLUSTERS, **more):
    datasets = {"assignments": np.array(list(clusters.values())), "sample_names": list(clusters), **more}
    path.write_bytes(encode(Contents("clusters", datasets)))
    return path


def test_folders_have_the_classes_that_evaluate_matches(organize, tmp_path):
    labels = {"labels": np.array([1, 1, 1, 0, 0]), "label_names": ["ant/../x", "b\ne"]}
    organize(clusters_file(tmp_path / "C.h5", **labels))
    folders = sorted(path.name for path in (tmp_path / "out").glob("cluster-*"))
    assert folders == ["cluster-00-b_e", "cluster-01-ant_.._x"]


def test_predicted_clusters_have_the_classes_of_the_old_samples(organize, tmp_path):
    new = {"labels": np.zeros(5, int), "label_names": ["new"]}
    known = {"correspondence/clusters": np.array([0, 1]), "correspondence/classes": ["cat", "dog"]}
    organize(clusters_file(tmp_path / "C.h5", **new, **known))
    assert {path.name for path in (tmp_path / "out").glob("cluster-*")} == {"cluster-00-cat", "cluster-01-dog"}


def test_what_run_export_and_predict_write_can_be_organized(organize, undo, tmp_path, table):
    (tmp_path / "run").mkdir()
    path = clusters_file(tmp_path / "run" / "clusters.h5")
    exported = run_mccgr("export", path, "-o", "-").output
    for clusters, given in (
        (tmp_path / "run", None),
        (path, None),
        ("-", path.read_bytes()),
        ("-", exported),
        (table, None),
    ):
        organize(clusters, stdin=given)
        assert laid_out(tmp_path / "out") == LAID_OUT
        undo()


def test_a_table_from_predict_has_the_classes_of_clusters(organize, tmp_path):
    organize(write_table(tmp_path / "t.csv", certainty={}, **{"class": {"4.jpg": "dog", "dogs/3.jpg": "dog"}}))
    assert {path.name for path in (tmp_path / "out").glob("cluster-*")} == {"cluster-00", "cluster-01-dog"}


def test_a_person_can_name_clusters_in_a_table(organize, tmp_path):
    names = {"cats/2.jpg": "Kätzchen", "4.jpg": "../.."}
    path = write_table(tmp_path / "t.csv", name=names, label=dict.fromkeys(CLUSTERS, "x"))
    path.write_text("\ufeff" + path.read_text().replace(",", ";").replace(";0;", ";0.0;"))  # as spreadsheets do
    organize(path)
    assert {name.name for name in (tmp_path / "out").glob("cluster-*")} == {"cluster-00-Kätzchen", "cluster-01"}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("a,b\n1,2\n", "no columns sample and cluster"),
        ("sample,cluster\n", "names no samples"),
        ("sample,cluster\n1.jpg\n", "line 2 has 1 cells"),
        ("sample,cluster\n4.jpg,cats\n", "line 2: cluster 'cats' is not a whole number"),
        ("sample,cluster\n4.jpg,\n", "line 2 has no cluster"),
        ("sample,cluster\n4.jpg,1\n4.jpg,2\n", "4.jpg is in cluster 2, and in cluster 1"),
        ("sample,cluster\n4.jpg,1\ncats/../4.jpg,2\n", "in cluster 1 as 4.jpg"),
        ("sample,cluster,name\n4.jpg,1,a\ncats/1.jpg,1,b\n", "cluster 1 has the name 'b', and 'a' before"),
        ("sample,cluster\n4.jpg,\x81", "UTF-8"),
    ],
)
def test_a_table_with_a_mistake_is_refused_and_nothing_is_made(refused, images, tmp_path, content, message):
    path = tmp_path / "t.csv"
    path.write_bytes(content.encode("latin-1"))
    assert message in refused("organize", path, "--images", images, "-o", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_clusters_without_names_of_samples_are_refused(refused, images, tmp_path):
    path = tmp_path / "C.h5"
    path.write_bytes(encode(Contents("clusters", {"assignments": np.array([0, 1])})))
    assert "no names of samples" in refused("organize", path, "--images", images, "-o", tmp_path / "out")


def test_a_dry_run_prints_one_line_an_image_and_does_nothing(organize, undo, table, tmp_path, images):
    everything = tree(tmp_path)
    lines = organize(table, "--move", "--dry-run").stdout.splitlines()
    assert f"move {images}/cats/1.jpg -> {tmp_path}/out/cluster-00/cats_1.jpg" in lines
    assert len(lines) == 5
    assert tree(tmp_path) == everything
    organize(table, "--move")
    everything = tree(tmp_path)
    assert f"move {tmp_path}/out/cluster-01/4.jpg -> {images}/4.jpg" in undo("--dry-run").stdout.splitlines()
    assert tree(tmp_path) == everything
    assert organize(table, "--move", "--dry-run").stdout == ""


def test_quiet_says_nothing(organize, table):
    outcome = organize(table, "-q")
    assert (outcome.stdout, outcome.stderr) == ("", "")


# Names


def test_names_do_not_depend_on_the_order_of_images():
    paths = [f"/r/{folder}/{name}" for folder in ("a", "b", "a/b", "B") for name in ("1.jpg", "a_1.jpg", "x" * 251)]
    expected = distinct_names(paths)
    for seed in range(20):
        random.Random(seed).shuffle(paths)
        assert distinct_names(paths) == expected
    assert len({name.casefold() for name in expected.values()}) == len(paths)
    assert max(map(len, expected.values())) <= 255


def test_a_name_with_a_checksum_may_be_the_name_of_another_image():
    clash = distinct_names(["/a/b_1.jpg", "/b/1.jpg", "/c/1.jpg"])["/b/1.jpg"]
    assert clash.startswith("1~")
    names = distinct_names(["/a/b_1.jpg", "/b/1.jpg", "/c/1.jpg", f"/d/{clash}"])
    assert len(set(names.values())) == 4


@pytest.mark.parametrize("way", WAYS)
def test_odd_names_are_organized_and_restored(organize, undo, tmp_path, way):
    odd = ["a\nb.jpg", "q\"'.jpg", "-o.jpg", ".hidden.jpg", "n" * 251 + ".jpg", "né 猫.jpg", "a/" + "n" * 251 + ".jpg"]
    folder = make_images(tmp_path / "odd", odd)
    raw = os.fsencode(folder) + b"/\xff\xfe.jpg"
    Path(os.fsdecode(raw)).write_bytes(b"raw")
    (folder / "dangling.jpg").symlink_to("nowhere")
    clusters = {**dict.fromkeys(odd, 7), "\\xff\\xfe.jpg": 7, "dangling.jpg": 7}
    before = tree(folder)
    path = write_table(tmp_path / "t.csv", clusters)
    for _ in range(2):  # given again, everything is in place
        outcome = organize(path, *WAYS[way], folder=folder)
        assert "left out: dangling.jpg: not there" in outcome.stderr
    assert "nothing to do: 8 images" in outcome.stderr
    made = list((tmp_path / "out" / "cluster-07").iterdir())
    assert len(made) == 8
    assert {os.fsencode(path.name) for path in made} >= {b"\xff\xfe.jpg", b"a\nb.jpg", b".hidden.jpg"}
    undo()
    assert tree(folder) == before


@pytest.mark.parametrize("title", ["..", "/etc", "a/../../b", ".x", "x" * 1000, "é" * 200, "\u202egnp", "a\0b", "con:"])
def test_titles_never_lead_out_of_the_folder(organize, tmp_path, title):
    known = {"correspondence/clusters": np.array([0]), "correspondence/classes": [title]}
    organize(clusters_file(tmp_path / "C.h5", **known))
    made = [path.name for path in (tmp_path / "out").iterdir() if path.name != NAME]
    assert len(made) == 2
    assert all(name.startswith("cluster-0") and name.isprintable() and len(name.encode()) <= 111 for name in made)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["C.h5", "images", "out"]


def test_images_of_a_list_are_found_by_their_paths(organize, undo, images, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    absolute = {str(images / name): cluster for name, cluster in CLUSTERS.items()}
    relative = {f"images/{name}": cluster for name, cluster in CLUSTERS.items()}
    for clusters, folder in ((absolute, images), (absolute, tmp_path), (relative, "images"), (relative, ".")):
        organize(write_table(tmp_path / "t.csv", clusters), folder=folder)
        assert laid_out(tmp_path / "out") == LAID_OUT
        undo()


# Again


@pytest.mark.parametrize("way", WAYS)
def test_given_again_only_what_is_missing_is_done(organize, table, tmp_path, images, way):
    organize(table, *WAYS[way])
    before = tree(tmp_path / "out")
    assert "nothing to do: 5 images" in organize(table, *WAYS[way]).stderr
    assert tree(tmp_path / "out") == before
    (tmp_path / "out" / "cluster-01" / "4.jpg").unlink()
    if way == "move":
        make_images(images, ["4.jpg"])
    assert "organized 1 image into 1 folder" in organize(table, *WAYS[way]).stderr
    assert laid_out(tmp_path / "out") == LAID_OUT


@pytest.mark.parametrize(
    "change", [{"cats/1.jpg": 1}, {"title": {"4.jpg": "x"}}, {"way": ("--by", "hardlink")}, {"way": ()}]
)
def test_another_result_in_the_same_folder_is_refused(organize, refused, images, table, tmp_path, change):
    change = dict(change)
    organize(table, "--by", "copy")
    before = tree(tmp_path / "out")
    title, way = change.pop("title", {}), change.pop("way", ("--by", "copy"))
    other = write_table(tmp_path / "other.csv", {**CLUSTERS, **change}, name=title)
    message = refused("organize", other, "--images", images, "-o", tmp_path / "out", *way)
    assert "holds another result" in message
    assert f"mccgr organize --undo {tmp_path / 'out'}" in message
    assert tree(tmp_path / "out") == before


def test_new_images_join_the_folders_of_their_clusters(organize, undo, table, tmp_path):
    organize(table)
    new = make_images(tmp_path / "new", ["1.jpg", "2.jpg", "5.jpg"])
    organize(write_table(tmp_path / "new.csv", {"1.jpg": 0, "2.jpg": 0, "5.jpg": 123}), "--move", folder=new)
    assert laid_out(tmp_path / "out") == {
        **LAID_OUT,
        "cluster-00/1.jpg": "1.jpg",
        "cluster-00/new_2.jpg": "2.jpg",
        "cluster-123/5.jpg": "5.jpg",
    }
    undo()
    assert sorted(path.name for path in new.iterdir()) == ["1.jpg", "2.jpg", "5.jpg"]
    assert not (tmp_path / "out").exists()


def test_links_whose_images_are_gone_are_not_made_twice(organize, refused, images, table, tmp_path):
    organize(table)
    images.rename(tmp_path / "moved")
    message = refused("organize", table, "--images", tmp_path / "moved", "-o", tmp_path / "out")
    assert f"its links lead to {images}, which is not there any more" in message


def test_a_copy_of_an_image_that_changed_before_it_was_copied_is_known_again(organize, undo, images, table, tmp_path):
    organize(table, "--by", "copy")
    (tmp_path / "out" / "cluster-01" / "4.jpg").unlink()
    (images / "4.jpg").write_text("another image")
    organize(table, "--by", "copy")
    assert "nothing to do" in organize(table, "--by", "copy").stderr
    undo()
    assert not (tmp_path / "out").exists()


# Nothing is overwritten, nothing is lost


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", ["file", "link", "dangling link", "folder"])
def test_what_has_the_name_of_an_image_is_not_touched(refused, images, table, tmp_path, way, kind):
    taken = tmp_path / "out" / "cluster-01" / "4.jpg"
    taken.parent.mkdir(parents=True)
    other = tmp_path / "other"
    if kind == "file":
        taken.write_text("mine")
    elif kind == "folder":
        taken.mkdir()
    else:
        taken.symlink_to(other)
        if kind == "link":
            other.write_text("mine")
    before = tree(tmp_path)
    assert "exists already" in refused("organize", table, "--images", images, "-o", tmp_path / "out", *WAYS[way])
    assert tree(tmp_path) == before


def test_links_in_the_output_are_not_followed(refused, images, table, tmp_path):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    out = tmp_path / "out"
    for name in ("cluster-01", NAME):
        out.mkdir()
        (out / name).symlink_to(elsewhere if name != NAME else elsewhere / "x")
        refused("organize", table, "--images", images, "-o", out)
        assert list(elsewhere.iterdir()) == []
        assert [path.name for path in out.iterdir()] == [name]
        shutil.rmtree(out)


def test_names_of_samples_do_not_lead_out_of_the_folder_of_images(organize, refused, images, tmp_path):
    secret = tmp_path / "secret.jpg"
    secret.write_text("secret")
    hostile = ("../secret.jpg", str(secret), "cats/../../secret.jpg", "x" * 5000, "", ".", "cats", "a\x01")
    path = write_table(tmp_path / "t.csv", dict.fromkeys(hostile, 0))
    message = refused("organize", path, "--images", images, "-o", tmp_path / "out", status=2)
    assert "none of the 8 images" in message
    outcome = organize(clusters_file(tmp_path / "C.h5", dict.fromkeys((*hostile, "4.jpg"), 0)), "--by", "copy")
    assert "left out: 8 images" in outcome.stderr
    assert laid_out(tmp_path / "out") == {"cluster-00/4.jpg": "4.jpg"}


def test_links_and_what_is_behind_links_are_not_moved(organize, images, tmp_path, refused):
    behind = make_images(tmp_path / "behind", ["x.jpg"])
    (images / "door").symlink_to(behind)
    (images / "link.jpg").symlink_to("4.jpg")
    path = write_table(tmp_path / "t.csv", {**CLUSTERS, "door/x.jpg": 0, "link.jpg": 1})
    assert "door/x.jpg: lies behind a link that leads out of the folder of images, and 1 other image" in refused(
        "organize", path, "--images", images, "-o", tmp_path / "out", "--move", "--strict"
    )
    assert not (tmp_path / "out").exists()
    outcome = organize(path, "--move")
    assert "left out: 2 images" in outcome.stderr
    assert (behind / "x.jpg").exists()
    assert (images / "link.jpg").is_symlink()
    assert laid_out(tmp_path / "out") == LAID_OUT


def test_missing_images_are_named_and_counted_and_strict_refuses_them(organize, refused, images, tmp_path):
    path = write_table(tmp_path / "t.csv", {**CLUSTERS, **{f"gone{i:02}.jpg": 0 for i in range(12)}})
    message = refused("organize", path, "--images", images, "-o", tmp_path / "out", "--strict")
    assert "gone00.jpg: not there, and 11 other images" in message
    assert not (tmp_path / "out").exists()
    lines = organize(path).stderr.splitlines()
    named = [f"left out: gone{i:02}.jpg: not there" for i in range(10)]
    assert [line for line in lines if line.startswith("left out: ")] == [*named, "left out: 12 images"]
    assert laid_out(tmp_path / "out") == LAID_OUT


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (["T", "-o", "O"], 2, "--images: missing"),
        (["T", "--images", "I"], 2, "-o: missing"),
        (["--images", "I", "-o", "O"], 2, "Missing argument 'CLUSTERS'"),
        (["T", "--images", "I", "-o", "I"], 1, "is the folder of the images"),
        (["T", "--images", "T", "-o", "O"], 1, "cannot be read"),
        (["T", "--images", "I", "-o", "T"], 1, "is not a folder"),
        (["T", "--images", "I", "-o", "no/where"], 1, "there is no folder no"),
        (["T", "--images", "I", "-o", "O", "--move", "--by", "copy"], 2, "--by"),
        (["I", "--images", "I", "-o", "O"], 1, "no clusters.h5 in this folder"),
        (["--undo", "I"], 1, "no .mccgr-organize.jsonl"),
        (["--undo", "nowhere"], 1, "no such folder"),
        (["T", "--undo", "I"], 2, "CLUSTERS: has no effect with --undo"),
        (["--undo", "I", "-o", "O"], 2, "--output: has no effect"),
    ],
)
def test_what_makes_no_sense_is_refused(refused, images, table, tmp_path, monkeypatch, arguments, status, message):
    monkeypatch.chdir(tmp_path)
    before = tree(tmp_path)
    named = {"T": "clusters.csv", "I": "images", "O": "out"}
    assert message in refused("organize", *(named.get(word, word) for word in arguments), status=status)
    assert tree(tmp_path) == before


def fail_with(number: int) -> Callable[..., None]:
    def fail(*_: object, **__: object) -> None:
        raise OSError(number, os.strerror(number))

    return fail


@pytest.mark.parametrize(
    ("way", "function", "number", "message"),
    [
        ("link", "symlink", errno.EPERM, "this file system has no symbolic links; give --by copy"),
        ("hardlink", "link", errno.EXDEV, "no hard link is possible here"),
        ("hardlink", "link", errno.EPERM, "give --by link or --by copy"),
        ("link", "mkdir", errno.EACCES, "permission denied; choose another place"),
    ],
)
def test_a_file_system_that_cannot_do_it_is_refused_before_anything_is_done(
    refused, images, table, tmp_path, monkeypatch, way, function, number, message
):
    before = tree(tmp_path)
    monkeypatch.setattr(os, function, fail_with(number))
    assert message in refused("organize", table, "--images", images, "-o", tmp_path / "out", *WAYS[way])
    monkeypatch.undo()
    assert tree(tmp_path) == before


def test_a_full_disk_is_one_line_and_the_same_command_continues(
    organize, refused, images, table, tmp_path, monkeypatch
):
    copy = shutil.copyfileobj
    calls = []

    def full(*arguments):
        calls.append(1)
        if len(calls) == 3:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        copy(*arguments)

    monkeypatch.setattr(shutil, "copyfileobj", full)
    message = refused("organize", table, "--images", images, "-o", tmp_path / "out", "--by", "copy")
    assert "no space left on device; free some space" in message
    assert "the same command continues" in message
    assert len(laid_out(tmp_path / "out")) == 2
    assert not list((tmp_path / "out").rglob("*.tmp"))
    organize(table, "--by", "copy")
    assert laid_out(tmp_path / "out") == LAID_OUT


def test_images_that_do_not_fit_the_disk_are_refused(refused, images, table, tmp_path, monkeypatch):
    monkeypatch.setattr(shutil, "disk_usage", lambda _: shutil._ntuple_diskusage(100, 99, 1))
    message = refused("organize", table, "--images", images, "-o", tmp_path / "out", "--by", "copy")
    assert "the images take 45 B, and 1 B are free" in message
    assert not (tmp_path / "out").exists()


def test_images_are_not_moved_out_of_a_folder_that_cannot_be_written(refused, images, table, tmp_path, monkeypatch):
    usual = os.access

    def access(path, mode):
        return usual(path, mode) and not (mode & os.W_OK and str(path).startswith(str(images)))

    (tmp_path / "out").mkdir()
    monkeypatch.setattr(os, "access", access)
    message = refused("organize", table, "--images", images, "-o", tmp_path / "out", "--move")
    assert "no permission to move images out of this folder; leave out --move" in message
    assert list((tmp_path / "out").iterdir()) == []


def test_an_image_that_cannot_be_removed_stays_where_it_is(refused, images, table, tmp_path, monkeypatch):
    usual = os.unlink

    def unlink(path, **named):
        if str(path).endswith("4.jpg") and named.get("dir_fd") is None:
            raise PermissionError(errno.EPERM, "Operation not permitted")
        usual(path, **named)

    monkeypatch.setattr(os, "unlink", unlink)
    refused("organize", table, "--images", images, "-o", tmp_path / "out", "--move")
    assert (images / "4.jpg").exists()
    assert not (tmp_path / "out" / "cluster-01" / "4.jpg").exists()


# Other file systems


@pytest.fixture
def other_device(tmp_path, monkeypatch):
    """A folder on another file system, or one that looks like it."""
    memory = Path("/dev/shm")
    if memory.is_dir() and os.access(memory, os.W_OK) and memory.stat().st_dev != tmp_path.stat().st_dev:
        folder = memory / f"mccgr-test-{os.getpid()}-{tmp_path.name}"
        folder.mkdir()
        yield folder
        shutil.rmtree(folder)
        return
    folder, link = tmp_path / "other", os.link

    def separate(source, dest, **folders):
        places = [os.path.realpath(f"/proc/self/fd/{number}") for number in folders.values() if number is not None]
        if not source.endswith(".tmp") and any(place.startswith(str(folder)) for place in places):
            raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))
        link(source, dest, **folders)

    monkeypatch.setattr(os, "link", separate)
    folder.mkdir()
    yield folder


def test_images_move_to_another_file_system_and_back(organize, undo, table, images, other_device):
    before, out = tree(images), other_device / "out"
    organize(table, "--move", out=out)
    assert laid_out(out) == LAID_OUT
    assert not [name for name, what in tree(images).items() if what != "folder"]
    undo(out=out)
    assert tree(images) == before
    assert not out.exists()


def test_hard_links_to_another_file_system_are_refused(refused, table, images, other_device):
    message = refused("organize", table, "--images", images, "-o", other_device / "out", "--by", "hardlink")
    assert "give --by link or --by copy" in message


def test_images_move_where_there_are_no_hard_links(organize, undo, images, table, tmp_path, monkeypatch):
    before = tree(images)
    monkeypatch.setattr(os, "link", fail_with(errno.EPERM))
    organize(table, "--move")
    assert laid_out(tmp_path / "out") == LAID_OUT
    undo()
    organize(table, "--by", "copy")
    assert laid_out(tmp_path / "out") == LAID_OUT
    undo()
    assert tree(images) == before


# Undo


def test_undo_leaves_what_was_changed_or_added_and_says_why(organize, undo, images, table, tmp_path):
    organize(table, "--by", "copy")
    out = tmp_path / "out"
    (out / "cluster-00" / "2.jpg").write_text("edited")
    (images / "4.jpg").unlink()
    (out / "cluster-01" / "notes.txt").write_text("mine")
    os.utime(out / "cluster-01" / "3.jpg")  # touched, but the same bytes
    lines = undo().stderr.splitlines()
    assert f"stays: {out}/cluster-00/2.jpg: was changed" in lines
    assert f"stays: {out}/cluster-01/4.jpg: the image is no longer in its folder, and this is the last copy" in lines
    assert {str(path.relative_to(out)) for path in out.rglob("*")} == {
        *("cluster-00", "cluster-00/2.jpg", "cluster-01", "cluster-01/4.jpg", "cluster-01/notes.txt")
    }


def test_undo_leaves_links_that_lead_elsewhere_and_other_folders(organize, undo, table, tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "cluster-01").mkdir()
    organize(table)
    link = tmp_path / "out" / "cluster-00" / "2.jpg"
    link.unlink()
    link.symlink_to("elsewhere")
    undo()
    found = tree(tmp_path / "out")
    assert found == {"cluster-00": "folder", "cluster-00/2.jpg": "elsewhere", "cluster-01": "folder"}


def test_undo_never_removes_the_last_hard_link(organize, undo, images, table, tmp_path):
    organize(table, "--by", "hardlink")
    (images / "4.jpg").unlink()
    undo()
    assert laid_out(tmp_path / "out") == {"cluster-01/4.jpg": "4.jpg"}


def test_undo_moves_back_what_it_can_and_the_rest_later(organize, mccgr, undo, images, table, tmp_path):
    before = tree(images)
    organize(table, "--move")
    shutil.rmtree(images)
    images.mkdir()
    (images / "4.jpg").write_text("mine")
    (tmp_path / "out" / "cluster-00").rename(tmp_path / "out" / "renamed")
    assert f"stays: {tmp_path}/out/cluster-01/4.jpg: another file is at" in undo("--dry-run").stderr
    outcome = mccgr("organize", "--undo", tmp_path / "out")
    assert outcome.status == 1
    assert f"another file is at {images}/4.jpg; move it away" in outcome.stderr
    assert "if you renamed its folder, give it its old name" in outcome.stderr
    assert "4 images could not be taken back" in outcome.stderr
    assert (images / "4.jpg").read_text() == "mine"
    assert (images / "dogs" / "3.jpg").exists()
    (images / "4.jpg").unlink()
    (tmp_path / "out" / "renamed").rename(tmp_path / "out" / "cluster-00")
    undo()
    assert tree(images) == before
    assert not (tmp_path / "out").exists()


def test_an_image_that_was_edited_after_it_was_moved_goes_back_too(organize, undo, images, table, tmp_path):
    organize(table, "--move")
    (tmp_path / "out" / "cluster-01" / "4.jpg").write_text("edited")
    undo()
    assert (images / "4.jpg").read_text() == "edited"


# Manifests from elsewhere


def lines_of(out: Path) -> list[dict[str, dict[str, object]]]:
    return [json.loads(line) for line in (out / NAME).read_text().splitlines()]


def write_lines(out: Path, lines: list[object]) -> None:
    (out / NAME).write_text("".join(json.dumps(line) + "\n" for line in lines))


HOSTILE: dict[str, tuple[str, str, object]] = {
    "folder up": ("folder", "name", ".."),
    "folder of another name": ("folder", "name", "mine"),
    "folder deeper": ("folder", "name", "cluster-00/x"),
    "entry up": ("entry", "name", ".."),
    "entry deeper": ("entry", "name", "../../victim"),
    "entry elsewhere": ("entry", "folder", ".."),
    "entry with a zero": ("entry", "name", "a\0b"),
    "entry without bytes": ("entry", "name", "\ud800"),
    "source up": ("entry", "source", "../victim"),
    "source absolute": ("entry", "source", "/etc/victim"),
    "source empty": ("entry", "source", ""),
    "relative images": ("run", "images", "images"),
    "images with dots": ("run", "images", "/x/../etc"),
    "way": ("run", "by", "delete"),
    "number": ("entry", "size", "1"),
    "yes": ("folder", "made", 1),
    "huge": ("entry", "mtime", 10**400),
    "list": ("entry", "name", ["x"]),
    "format": ("heading", "format", "mccgr organize 9"),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_a_hostile_manifest_is_refused_and_nothing_is_changed(organize, refused, table, images, tmp_path, case):
    organize(table, "--move")
    kind, name, value = HOSTILE[case]
    lines = lines_of(tmp_path / "out")
    next(line for line in lines if kind in line)[kind][name] = value
    write_lines(tmp_path / "out", lines)
    (tmp_path / "victim").write_text("mine")
    before = tree(tmp_path)
    for command in (("--undo", tmp_path / "out"), (table, "--images", images, "-o", tmp_path / "out", "--move")):
        assert "not what mccgr writes" in refused("organize", *command)
    assert tree(tmp_path) == before


def test_a_manifest_cannot_name_other_folders(organize, refused, table, tmp_path):
    organize(table, "--by", "copy")
    manifest = tmp_path / "out" / NAME
    (tmp_path / "out" / "cluster-00").rename(tmp_path / "out" / "mine")
    manifest.write_text(manifest.read_text().replace("cluster-00", "mine"))
    assert "not what mccgr writes" in refused("organize", "--undo", tmp_path / "out")
    assert len(list((tmp_path / "out" / "mine").iterdir())) == 3


@pytest.mark.parametrize(
    "content", [b"", b"\n", b"[]\n", b"\xff\n", b"[" * 100_000, b'{"heading": {}}\n', b'{"run": 3}\n', b"null\n" * 5]
)
def test_a_damaged_manifest_is_refused(refused, table, images, tmp_path, content):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / NAME).write_bytes(content)
    assert "line 1 is not what mccgr writes" in refused("organize", "--undo", tmp_path / "out")
    assert "line 1" in refused("organize", table, "--images", images, "-o", tmp_path / "out")


def test_a_manifest_that_is_no_file_is_refused(refused, table, images, tmp_path):
    out = tmp_path / "out"
    out.mkdir()
    os.mkfifo(out / NAME)
    refused("organize", "--undo", out)
    refused("organize", table, "--images", images, "-o", out)


def test_moved_images_of_a_folder_from_elsewhere_go_only_where_the_user_says(
    organize, refused, undo, images, table, tmp_path
):
    """A manifest that somebody sends could name any folder, such as one whose programs start at login."""
    organize(table, "--move")
    theirs, startup = tmp_path / "theirs", tmp_path / "startup"
    startup.mkdir()
    shutil.copytree(tmp_path / "out", theirs)
    lines = lines_of(theirs)
    next(line for line in lines if "run" in line)["run"]["images"] = str(startup)
    write_lines(theirs, lines)
    message = refused("organize", "--undo", theirs, status=2)
    assert f"would be moved to {startup}; if that is right, add --images {startup}" in message
    assert list(startup.iterdir()) == []
    here = tmp_path / "here"
    undo("--images", here, out=theirs)
    assert list(startup.iterdir()) == []
    assert {str(path.relative_to(here)) for path in here.rglob("*.jpg")} == set(CLUSTERS)


def test_adding_to_the_folder_of_somebody_else_does_not_make_its_manifest_trusted(organize, refused, table, tmp_path):
    organize(table, "--move")
    (tmp_path / "out" / NAME).chmod(0o664)  # others could have written it
    refused("organize", "--undo", tmp_path / "out", status=2)
    new = make_images(tmp_path / "new", ["5.jpg"])
    organize(write_table(tmp_path / "new.csv", {"5.jpg": 0}), folder=new)
    assert not (tmp_path / "out" / NAME).stat().st_mode & 0o022
    assert "made by somebody else" in refused("organize", "--undo", tmp_path / "out", status=2)


def test_moved_images_do_not_go_back_through_links(organize, mccgr, images, table, tmp_path):
    organize(table, "--move")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (images / "dogs").rmdir()
    (images / "dogs").symlink_to(elsewhere)
    assert mccgr("organize", "--undo", tmp_path / "out").status == 1
    assert list(elsewhere.iterdir()) == []
    assert (tmp_path / "out" / "cluster-01" / "3.jpg").exists()


def test_undo_does_not_follow_a_link_in_the_place_of_a_folder(organize, mccgr, table, images, tmp_path):
    organize(table, "--by", "copy")
    (tmp_path / "out" / "cluster-00").rename(tmp_path / "kept")
    (tmp_path / "out" / "cluster-00").symlink_to(tmp_path / "kept")
    mccgr("organize", "--undo", tmp_path / "out")
    assert len(list((tmp_path / "kept").iterdir())) == 3


# Two at once, and kills


def test_a_second_run_is_refused_while_another_one_writes(organize, refused, images, table, tmp_path):
    organize(table)
    lock = OutputLock(tmp_path / "out" / NAME, overwrite=True)
    try:
        for command in (("--undo", tmp_path / "out"), (table, "--images", images, "-o", tmp_path / "out")):
            assert "another run is writing it" in refused("organize", *command)
    finally:
        lock.release()
    assert laid_out(tmp_path / "out") == LAID_OUT


CHANGES = ("mkdir", "symlink", "link", "unlink", "rename", "rmdir", "open", "fsync", "utime", "fchmod")


def killed_before(change: int, arguments: list[object]) -> bool:
    """Run a command in a child that kills itself before it changes something for the n-th time; False if it ended."""
    child = os.fork()
    if child == 0:
        try:
            left = change

            def counted(function):
                def call(*given, **named):
                    nonlocal left
                    if function is not usual_open or given[1] & os.O_CREAT:
                        left -= 1
                        if not left:
                            os.kill(os.getpid(), signal.SIGKILL)
                    return function(*given, **named)

                return call

            usual_open = os.open
            for name in CHANGES:
                setattr(os, name, counted(getattr(os, name)))
            os._exit(run_mccgr(*arguments).status)
        finally:
            os._exit(99)
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status) or os.WEXITSTATUS(status) == 0
    return os.WIFSIGNALED(status)


def contents_of(*folders: Path) -> set[str]:
    """What the images in some folders contain, wherever they are."""
    return {path.read_text() for folder in folders for path in folder.rglob("*.jpg") if path.is_file()}


FEW = {"a/1.jpg": 0, "b/1.jpg": 0}


@pytest.mark.slow
@pytest.mark.parametrize("way", [*WAYS, "move far"])
def test_killed_at_any_change_the_same_command_completes_and_nothing_is_lost(mccgr, tmp_path, other_device, way):
    way, _, far = way.partition(" ")
    place = other_device if far else tmp_path
    table, change, ended = write_table(tmp_path / "t.csv", FEW), 0, False
    while not ended:
        change += 1
        folder, out = make_images(tmp_path / f"images{change}", FEW), place / f"out{change}"
        command = ["organize", table, "--images", folder, "-o", out, *WAYS[way]]
        ended = not killed_before(change, command)
        assert contents_of(folder, out) == set(FEW)
        assert mccgr(*command).status == 0
        assert laid_out(out) == {"cluster-00/a_1.jpg": "a/1.jpg", "cluster-00/b_1.jpg": "b/1.jpg"}
        assert {path.name for path in out.iterdir()} == {"cluster-00", NAME}
        assert (contents_of(folder) == set(FEW)) == (way != "move")
    assert change > 8


@pytest.mark.slow
@pytest.mark.parametrize("way", ["copy", "move", "move far"])
def test_killed_at_any_change_of_an_undo_the_same_command_completes(mccgr, tmp_path, other_device, way):
    way, _, far = way.partition(" ")
    place = other_device if far else tmp_path
    table, change, ended = write_table(tmp_path / "t.csv", FEW), 0, False
    while not ended:
        change += 1
        folder, out = make_images(tmp_path / f"images{change}", FEW), place / f"out{change}"
        before = tree(folder)
        assert mccgr("organize", table, "--images", folder, "-o", out, *WAYS[way]).status == 0
        ended = not killed_before(change, ["organize", "--undo", out])
        assert contents_of(folder, out) == set(FEW)
        if (out / NAME).exists():
            assert mccgr("organize", "--undo", out).status == 0
            assert not out.exists()
        assert tree(folder) == before
        assert not out.exists() or {path.name for path in out.iterdir()} <= {f".{NAME}.mccgr.lock"}
    assert change > 5
