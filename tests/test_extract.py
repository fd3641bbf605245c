"""``mccgr extract``: from folders of images and other files to a matrix."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import h5py
import numpy as np
import pytest
from grain import grainy, make_folder, save
from PIL import Image
from test_images import bomb

from mccgr_cli.cli.job import Job
from mccgr_cli.files.atomic_write import write_files
from mccgr_cli.images import extract as extraction
from mccgr_cli.images.codebook import Codebook, count, draw, learn, typical_distance
from mccgr_cli.images.settings import Description, Learning

SAMPLES = Path(__file__).parent.parent / "sample_data"
QUICK = ("--words", 6, "--step", 6, "--jobs", 0)


@pytest.fixture
def folder(tmp_path):
    return make_folder(tmp_path / "images")


def names_in(path):
    with h5py.File(path) as file:
        return list(file["sample_names"].asstr())


# What comes out


def test_folders_become_a_matrix_with_labels_and_names(mccgr, folder, tmp_path):
    outcome = mccgr("extract", folder, *QUICK, "-o", tmp_path / "X.h5")
    assert outcome.status == 0, outcome.stderr
    with h5py.File(tmp_path / "X.h5") as file:
        assert file.attrs["kind"] == "matrix"
        assert file["X"].shape == (8, 6)
        assert np.all(file["X"][()].sum(axis=1) > 0)
        assert list(file["label_names"].asstr()) == ["coarse", "fine"]
        assert file["labels"][()].tolist() == [0] * 4 + [1] * 4
        assert file["sample_names"].asstr()[0] == "coarse/0.png"
        assert file["feature_names"].asstr()[3].startswith("word 3 (")
        assert file["codebook"].shape == (6, 128)
        assert file.attrs["step"] == 6
        assert file.attrs["radii"].tolist() == [4, 8, 12, 16]
        assert file.attrs["codebook_sha256"][:8] in file["feature_names"].asstr()[3]
        assert "skipped" not in file
    assert "6 words: " in outcome.stderr
    assert "the most frequent word is" in outcome.stderr


def test_every_patch_is_counted_once(mccgr, folder, tmp_path):
    points = (48 // 6) * (64 // 6)
    for soft in ((), ("--soft",)):
        mccgr("extract", folder, *QUICK, "--min-contrast", 0, "--overwrite", *soft, "-o", tmp_path / "X.h5")
        with h5py.File(tmp_path / "X.h5") as file:
            np.testing.assert_allclose(file["X"][()].sum(axis=1), 4 * points)


def test_the_name_of_the_output_comes_from_the_folder(mccgr, folder):
    outcome = mccgr("extract", f"{folder}/", *QUICK)
    assert outcome.stdout.splitlines() == [str(folder.with_suffix(".h5"))]
    assert folder.with_suffix(".h5").exists()


@pytest.mark.parametrize("source", [".", "..", "../fine", "../../images/"])
def test_folders_named_by_dots(mccgr, folder, monkeypatch, source):
    monkeypatch.chdir(folder / "fine")
    outcome = mccgr("extract", source, *QUICK)
    assert outcome.status == 0, outcome.stderr
    whole = Path(source).resolve()
    assert Path(outcome.stdout.strip()).resolve() == whole.with_name(f"{whole.name}.h5")


def test_several_sizes_in_one_run_are_those_of_several_runs(mccgr, folder, tmp_path):
    outcome = mccgr("extract", folder, "--words", "3,5", "--jobs", 0, "-o", tmp_path / "X.h5")
    assert outcome.status == 0, outcome.stderr
    for words in (3, 5):
        mccgr("extract", folder, "--words", words, "--jobs", 0, "-o", tmp_path / "alone.h5", "--overwrite")
        with h5py.File(tmp_path / f"X.{words}.h5") as both, h5py.File(tmp_path / "alone.h5") as alone:
            np.testing.assert_array_equal(both["X"], alone["X"])
    assert not (tmp_path / "X.h5").exists()


def test_several_sizes_do_not_go_beside_a_folder(refused, folder, tmp_path):
    for output in (tmp_path, f"{tmp_path}/", "/"):
        assert "is a folder" in refused("extract", folder, "--words", "3,5", "-o", output)


def test_several_sizes_do_not_fit_into_a_pipe(refused, folder):
    assert "2 results do not fit one stream" in refused("extract", folder, "--words", "3,5", "-o", "-", status=2)


@pytest.mark.parametrize("options", [(), ("--soft", "--root-sift"), ("--detector", "keypoints")])
def test_same_seed_same_bytes_whatever_the_jobs(mccgr, folder, tmp_path, options):
    found = []
    for jobs in (0, 1, 3):
        output = tmp_path / f"{jobs}.h5"
        assert mccgr("extract", folder, "--words", 6, "--jobs", jobs, *options, "-o", output).status == 0
        with h5py.File(output) as file:
            found.append((file["X"][()].tobytes(), file["codebook"][()].tobytes(), file.attrs["codebook_sha256"]))
    assert found[0] == found[1] == found[2]
    mccgr("extract", folder, "--words", 6, "--jobs", 0, *options, "--seed", 1, "-o", tmp_path / "other.h5")
    with h5py.File(tmp_path / "other.h5") as file:
        assert file["codebook"][()].tobytes() != found[0][1]


def test_a_flat_folder_has_no_labels(mccgr, folder, tmp_path):
    outcome = mccgr("extract", folder / "fine", *QUICK, "-o", tmp_path / "X.h5")
    assert outcome.status == 0, outcome.stderr
    with h5py.File(tmp_path / "X.h5") as file:
        assert "labels" not in file
        assert file["X"].shape == (4, 6)


def test_a_list_on_standard_input(mccgr, folder, tmp_path):
    listed = [str(folder / "fine" / "2.png"), str(folder / "coarse" / "1.png"), str(folder / "fine" / "0.png")]
    content = "\n".join(listed).encode()
    assert mccgr("extract", "-", *QUICK, "-o", tmp_path / "X.h5", stdin=content).status == 0
    assert names_in(tmp_path / "X.h5") == listed
    with h5py.File(tmp_path / "X.h5") as file:
        assert file["labels"][()].tolist() == [1, 0, 1]


def test_one_image_by_its_name(mccgr, folder, tmp_path):
    mccgr("extract", folder, *QUICK, "-o", tmp_path / "X.h5")
    output = tmp_path / "one.h5"
    one = folder / "fine" / "0.png"
    assert mccgr("extract", one, "--codebook", tmp_path / "X.h5", "--jobs", 0, "-o", output).status == 0
    with h5py.File(tmp_path / "X.h5") as known, h5py.File(output) as file:
        np.testing.assert_array_equal(file["X"][0], known["X"][4])


def test_the_pipe_from_images_to_scores(mccgr, folder, tmp_path):
    X = mccgr("extract", folder, "--words", 8, "--step", 4, "--jobs", 0, "-q", "-o", "-")
    F = mccgr("factorize", "-", "--k", 2, "--normalize", "sqrt", "-q", "-o", "-", stdin=X.output)
    C = mccgr("cluster", "-", "-q", "-o", "-", stdin=F.output)
    scores = mccgr("evaluate", "-", "--format", "csv", stdin=C.output)
    assert float(scores.stdout.splitlines()[1].split(",")[0]) == 1.0


@pytest.mark.slow
def test_the_sample_images_are_clustered_by_texture(mccgr, tmp_path):
    """What the README shows: at least 95 of 100 images in the cluster of their texture."""
    X = tmp_path / "X.h5"
    assert mccgr("extract", SAMPLES / "textures", "--step", 4, "--radii", "4,8", "-o", X).status == 0
    for seed in range(3):
        options = ("--preset", "paper", "--normalize", "sqrt", "--seed", seed)
        F = mccgr("factorize", X, "--k", 3, *options, "-q", "-o", "-")
        C = mccgr("cluster", "-", "-q", "-o", "-", stdin=F.output)
        scores = mccgr("evaluate", "-", "--format", "csv", stdin=C.output)
        assert float(scores.stdout.splitlines()[1].split(",")[0]) >= 0.95


# New images with old words


def test_a_codebook_describes_the_same_images_in_the_same_way(mccgr, folder, tmp_path):
    options = (*QUICK, "--radii", "5,9", "--min-contrast", "0.5", "--soft", "--root-sift")
    mccgr("extract", folder, *options, "-o", tmp_path / "X.h5")
    outcome = mccgr("extract", folder, "--codebook", tmp_path / "X.h5", "--jobs", 0, "-o", tmp_path / "Y.h5")
    assert outcome.status == 0, outcome.stderr
    with h5py.File(tmp_path / "X.h5") as X, h5py.File(tmp_path / "Y.h5") as Y:
        np.testing.assert_array_equal(X["X"], Y["X"])
        assert X.attrs["codebook_sha256"] == Y.attrs["codebook_sha256"]
        assert Y.attrs["radii"].tolist() == [5, 9]


def test_new_images_are_transformed_on_the_old_basis(mccgr, folder, tmp_path):
    new = tmp_path / "new"
    save(new / "a.png", grainy(4.0, 100))
    mccgr("extract", folder, *QUICK, "-o", tmp_path / "X.h5")
    mccgr("extract", new, "--codebook", tmp_path / "X.h5", "--jobs", 0, "-o", tmp_path / "new.h5")
    mccgr("factorize", tmp_path / "X.h5", "--k", 2, "-o", tmp_path / "F.h5")
    outcome = mccgr("transform", tmp_path / "F.h5", tmp_path / "new.h5", "-o", tmp_path / "W.h5")
    assert outcome.status == 0, outcome.stderr
    with h5py.File(tmp_path / "W.h5") as file:
        assert file["W"].shape == (1, 2)


def test_one_new_image_is_placed_by_its_largest_coefficient(mccgr, folder, tmp_path):
    mccgr("extract", folder, *QUICK, "-o", tmp_path / "X.h5")
    mccgr("factorize", tmp_path / "X.h5", "--k", 3, "-o", tmp_path / "F.h5")
    known = mccgr("cluster", tmp_path / "F.h5", "--assign", "max", "-o", tmp_path / "C.h5")
    assert known.status == 0
    one = folder / "fine" / "0.png"
    mccgr("extract", one, "--codebook", tmp_path / "X.h5", "--jobs", 0, "-o", tmp_path / "one.h5")
    W = mccgr("transform", tmp_path / "F.h5", tmp_path / "one.h5", "-o", "-")
    placed = mccgr("cluster", "-", "--assign", "max", "-o", tmp_path / "P.h5", stdin=W.output)
    assert placed.status == 0, placed.stderr
    with h5py.File(tmp_path / "P.h5") as file, h5py.File(tmp_path / "F.h5") as factors:
        assert file["assignments"].shape == (1,)
        assert file["H"].shape == factors["H"].shape


def test_words_of_different_codebooks_are_not_confused(mccgr, refused, folder, tmp_path):
    mccgr("extract", folder, *QUICK, "-o", tmp_path / "X.h5")
    mccgr("extract", folder, *QUICK, "--seed", 1, "-o", tmp_path / "Y.h5")
    mccgr("factorize", tmp_path / "X.h5", "--k", 2, "-o", tmp_path / "F.h5")
    message = refused("transform", tmp_path / "F.h5", tmp_path / "Y.h5", "-o", tmp_path / "W.h5")
    assert "no feature 'word 0 (" in message


@pytest.mark.parametrize(
    ("name", "value"),
    [("step", 0), ("step", 2.5), ("radii", [0]), ("detector", "xx"), ("soft_width", float("nan")), ("max_size", -1)],
)
def test_an_invented_codebook_is_refused(refused, mccgr, folder, tmp_path, name, value):
    mccgr("extract", folder, *QUICK, "-o", tmp_path / "B.h5")
    with h5py.File(tmp_path / "B.h5", "a") as file:
        file.attrs[name] = value
        stored = {key: file.attrs[key] for key in Description.__dataclass_fields__}
        stored = {key: item.tolist() if hasattr(item, "tolist") else item for key, item in stored.items()}
        made_up = Description(**{**stored, "radii": tuple(stored["radii"])})
        width = float(file.attrs["soft_width"])
        file.attrs["codebook_sha256"] = Codebook(file["codebook"][()], made_up, width).sha256()
    assert "its codebook is damaged or was changed" in refused("extract", folder, "--codebook", tmp_path / "B.h5")


def test_the_history_of_words_that_were_learnt_before(mccgr, folder, tmp_path):
    mccgr("extract", folder, *QUICK, "-o", tmp_path / "X.h5")
    mccgr("extract", folder, "--codebook", tmp_path / "X.h5", "--jobs", 0, "-o", tmp_path / "Y.h5")
    with h5py.File(tmp_path / "Y.h5") as file:
        provenance = json.loads(file.attrs["provenance"])
    assert "step" not in provenance["parameters"]
    assert [given["name"] for given in provenance["inputs"]] == [str(folder), str(tmp_path / "X.h5")]
    assert provenance["inputs"][1]["provenance"]["parameters"]["step"] == 6


def test_what_a_codebook_decides_cannot_be_given_too(mccgr, refused, folder, tmp_path):
    mccgr("extract", folder, *QUICK, "-o", tmp_path / "X.h5")
    for option in (("--words", 6), ("--step", 6), ("--radii", 4), ("--soft",), ("--seed", 1)):
        message = refused("extract", folder, "--codebook", tmp_path / "X.h5", *option, status=2)
        assert message == f"{option[0]}: the codebook decides it; leave it out, or leave out --codebook"


def test_files_that_are_no_codebook(refused, mccgr, folder, X_file, tmp_path):
    assert "holds no codebook" in refused("extract", folder, "--codebook", X_file)
    mccgr("extract", folder, *QUICK, "-o", tmp_path / "B.h5")
    for name, value in (("radii", "four"), ("step", 7), ("soft_width", "wide"), ("detector", np.arange(3.0))):
        with h5py.File(tmp_path / "B.h5", "a") as file:
            before = file.attrs[name]
            file.attrs[name] = value
        message = refused("extract", folder, "--codebook", tmp_path / "B.h5")
        assert "its codebook is damaged or was changed" in message
        with h5py.File(tmp_path / "B.h5", "a") as file:
            file.attrs[name] = before
    with h5py.File(tmp_path / "B.h5", "a") as file:
        del file["codebook"]
        file["codebook"] = np.ones((6, 5))
    assert "its codebook is damaged or was changed" in refused("extract", folder, "--codebook", tmp_path / "B.h5")


# Bad images: each named, and the rest goes on


@pytest.mark.parametrize("jobs", [0, 2])
def test_bad_images_are_named_and_the_rest_goes_on(mccgr, folder, tmp_path, jobs):
    bad = folder / "fine"
    whole = save(tmp_path / "whole.jpg", np.dstack([grainy(1.0, i) for i in range(3)])).read_bytes()
    (bad / "truncated.jpg").write_bytes(whole[: len(whole) // 2])
    (bad / "empty.jpg").write_bytes(b"")
    (bad / "text.jpg").write_text("just words\n" * 50)
    save(bad / "one.png", np.full((1, 1), 7, np.uint8))
    save(bad / "flat.png", np.full((40, 40), 7, np.uint8))
    (bad / "bomb.png").write_bytes(bomb(30_000, 30_000))
    (bad / "loop.jpg").symlink_to(bad / "loop.jpg")
    (bad / "up").symlink_to(folder)
    (bad / "new\nline.jpg").write_bytes(b"")
    (folder / "void").mkdir()
    save(folder / "fine" / "small.png", grainy(1.0, 50, (12, 12)))
    outcome = mccgr("extract", folder, "--words", 6, "--jobs", jobs, "-o", tmp_path / "X.h5")
    assert outcome.status == 0, outcome.stderr
    skipped = {
        "fine/truncated.jpg": "cannot be decoded: image file is truncated",
        "fine/empty.jpg": "empty file",
        "fine/text.jpg": "not an image",
        "fine/one.png": "too small to describe: 1 x 1 pixels",
        "fine/flat.png": "no patch of its 40 x 40 pixels has --min-contrast 1",
        "fine/bomb.png": "30000 x 30000 pixels are more than --max-pixels",
        "fine/loop.jpg": "cannot be read: too many levels of symbolic links",
        "fine/up": "a link to the folder that it lies in",
        "fine/new\\nline.jpg": "empty file",
    }
    lines = outcome.stderr.splitlines()
    for name, reason in skipped.items():
        assert [line for line in lines if line.startswith(f"skipped {name}: {reason}")], outcome.stderr
    assert "void: no images in this folder" in lines
    assert "images used: 9 of 17" in lines
    with h5py.File(tmp_path / "X.h5") as file:
        assert sorted(file["skipped/names"].asstr()) == sorted(name.replace("\\n", "\n") for name in skipped)
        assert len(file["skipped/reasons"]) == len(skipped)
        assert file["X"].shape == (9, 6)
        assert "fine/small.png" in list(file["sample_names"].asstr())
    shown = mccgr("info", tmp_path / "X.h5").stdout
    assert "skipped images  9" in shown


def test_odd_but_good_images_are_used_and_counted(mccgr, folder, tmp_path):
    odd, grey = folder / "fine", grainy(1.0, 60)
    save(odd / "deep.png", grey.astype(np.uint16) * 257)
    save(odd / "alpha.png", np.dstack([grey, grey, grey, np.tile(np.arange(64, dtype=np.uint8) * 4, (48, 1))]))
    Image.fromarray(grey).convert("P").save(odd / "palette.png")
    Image.fromarray(np.dstack([grey] * 3)).convert("CMYK").save(odd / "cmyk.jpg")
    exif = Image.Exif()
    exif[0x0112] = 6
    save(odd / "turned.jpg", grey, exif=exif)
    save(odd / "Größe 大 '\".png", grey)
    outcome = mccgr("extract", folder, *QUICK, "-v", "-o", tmp_path / "X.h5")
    assert outcome.status == 0, outcome.stderr
    lines = outcome.stderr.splitlines()
    assert "1 image converted from CMYK" in lines
    assert "1 image laid on white where transparent" in lines
    assert "1 image scaled from more than 8 bits" in lines
    assert "1 image turned as EXIF says" in lines
    assert "fine/turned.jpg: turned as EXIF says" in lines
    assert "images used: 14, all of them" in lines
    assert "fine/Größe 大 '\".png" in names_in(tmp_path / "X.h5")


def test_images_without_keypoints_are_skipped(mccgr, folder, tmp_path):
    save(folder / "fine" / "flat.png", np.full((40, 40), 7, np.uint8))
    outcome = mccgr("extract", folder, "--detector", "keypoints", *QUICK, "-o", tmp_path / "X.h5")
    assert outcome.status == 0, outcome.stderr
    assert "skipped fine/flat.png: no keypoints in its 40 x 40 pixels" in outcome.stderr


def test_a_category_without_usable_images_is_named(mccgr, folder, tmp_path):
    for path in (folder / "fine").iterdir():
        path.write_text("no image")
    outcome = mccgr("extract", folder, *QUICK, "-o", tmp_path / "X.h5")
    assert "fine: none of its images can be used" in outcome.stderr.splitlines()
    with h5py.File(tmp_path / "X.h5") as file:
        assert list(file["label_names"].asstr()) == ["coarse"]


def test_no_image_is_written_over(refused, folder, tmp_path):
    one = folder / "fine" / "0.png"
    content = one.read_bytes()
    listed = "\n".join(str(path) for path in folder.glob("*/*")).encode()
    for source, stdin in ((folder, None), (one, None), ("-", listed)):
        message = refused("extract", source, *QUICK, "-q", "--overwrite", "-o", one, stdin=stdin)
        assert message == f"{one}: is also an input; name another output file"
    assert one.read_bytes() == content


def test_the_file_is_written_also_without_standard_output(folder):
    command = f"{sys.executable} -m mccgr_cli extract {folder} --words 6 --jobs 0 >&-"
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stderr.splitlines()[-1] == f"wrote {folder}.h5"
    assert folder.with_suffix(".h5").exists()


def test_a_current_folder_that_has_gone(folder, tmp_path):
    gone = tmp_path / "gone"
    gone.mkdir()
    command = f"cd {gone}; rmdir {gone}; {sys.executable} -m mccgr_cli extract {folder} -o {tmp_path}/X.h5"
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (1, "the current folder: was deleted; change to another folder\n")


def test_strict_makes_a_bad_image_an_error(refused, folder, tmp_path):
    (folder / "fine" / "bad.jpg").write_text("no image")
    message = refused("extract", folder, *QUICK, "--strict", "-q", "-o", tmp_path / "X.h5")
    assert message.startswith("fine/bad.jpg: not an image")
    assert "leave out --strict" in message
    assert not (tmp_path / "X.h5").exists()


def test_nothing_to_work_on(refused, folder, tmp_path):
    empty = tmp_path / "empty"
    empty.mkdir()
    assert "no image in it" in refused("extract", empty)
    assert "no such file" in refused("extract", tmp_path / "nowhere")
    assert "names no images" in refused("extract", "-", "-o", tmp_path / "X.h5", stdin=b"")
    for path in folder.glob("*/*"):
        path.write_text("no image")
    message = refused("extract", folder, "-q", "--jobs", 0)
    assert message.startswith("images: none of 8 can be used; the first is coarse/0.png: not an image")
    assert "no file name" in refused("extract", "", "-o", tmp_path / "X.h5")
    assert "name too long" in refused("extract", "x" * 300, "-o", tmp_path / "X.h5")


def test_more_words_than_descriptors(refused, mccgr, folder, tmp_path):
    message = refused("extract", folder, "--words", 300000, status=2)
    assert message == "--words: 300000 words out of 200000 descriptors; give a larger --sample"
    message = refused("extract", folder, "--words", 100000, "-q", "--jobs", 0, status=2)
    assert "--words: 100000 words out of" in message
    number = int(message.split("give at most ")[1].split(",")[0])
    for soft in ((), ("--soft",)):
        options = ("--words", number, "-q", "--jobs", 0, "--overwrite", *soft)
        assert mccgr("extract", folder, *options, "-o", tmp_path / "X.h5").status == 0
        with h5py.File(tmp_path / "X.h5") as file:
            assert np.isfinite(file["X"][()]).all()


@pytest.mark.parametrize(
    ("option", "value", "part"),
    [
        ("--words", "300,x", "'x' is not a whole number"),
        ("--words", "0", "0 is not in the range"),
        ("--radii", "4,,8", "'' is not a whole number"),
        ("--radii", "1", "1 is not in the range"),
        ("--step", "0", "0 is not in the range"),
        ("--step", "1" + 24 * "0", "is not in the range"),
        ("--sample", "1" + 24 * "0", "is not in the range"),
        ("--max-size", "1" + 24 * "0", "is not in the range"),
        ("--radii", ",".join(map(str, range(2, 200))), "more than 100 numbers"),
        ("--jobs", "-1", "-1 is not in the range"),
        ("--radii", "100000", "100000 is not in the range"),
        ("--min-contrast", "-1", "-1.0 is not in the range"),
        ("--detector", "sift", "'sift' is not one of"),
    ],
)
def test_bad_options(refused, folder, option, value, part):
    assert part in refused("extract", folder, option, value, status=2)


def test_an_image_that_crashes_its_decoder_is_skipped(folder, tmp_path):
    """In a real process: the script simulates a crash in the native code of a decoder."""
    (folder / "fine" / "evil.png").write_bytes(b"\x89PNG\r\n\x1a\nevil")
    code = (
        "import os, signal, sys\n"
        "from PIL import Image\n"
        "whole = Image.open\n"
        "def crashing(file, formats):\n"
        "    if b'evil' in file.read(): os.kill(os.getpid(), signal.SIGSEGV)\n"
        "    file.seek(0)\n"
        "    return whole(file, formats=formats)\n"
        "Image.open = crashing\n"
        "if __name__ == '__main__':\n"
        "    from mccgr_cli.cli import main\n"
        "    main(sys.argv[1:], prog_name='mccgr')\n"
    )
    script = tmp_path / "crashing.py"
    script.write_text(code)
    command = [sys.executable, script, "extract", folder, "--words", "6", "--jobs", "2", "-o", tmp_path / "X.h5"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "skipped fine/evil.png: its decoder crashed" in done.stderr
    assert "images used: 8 of 9" in done.stderr


# Interrupted


@pytest.mark.slow
@pytest.mark.parametrize(
    ("number", "delay"), [(signal.SIGINT, 0.0), (signal.SIGTERM, 0.6), (signal.SIGINT, 1.4), (signal.SIGHUP, 1.4)]
)
def test_interrupted_runs_leave_nothing(tmp_path, number, delay):
    images = make_folder(tmp_path / "images", each=150)
    output = tmp_path / "out"
    output.mkdir()
    command = [sys.executable, "-m", "mccgr_cli", "extract", str(images), "--step", "1", "--jobs", "2"]
    process = subprocess.Popen(
        [*command, "-o", str(output / "X.h5")], stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    deadline = time.monotonic() + 20
    while len(processes_in(process.pid)) < 2 and time.monotonic() < deadline:  # until it has begun to share
        time.sleep(0.01)
    time.sleep(delay)
    started = processes_in(process.pid)
    os.killpg(process.pid, number)  # as a terminal does
    _, said = process.communicate(timeout=30)
    assert process.returncode == 128 + number, said
    assert "Traceback" not in said
    assert list(output.iterdir()) == []
    deadline = time.monotonic() + 10
    while left := [pid for pid in started if group_of(pid) == process.pid]:
        assert time.monotonic() < deadline, left
        time.sleep(0.05)
    assert said.splitlines()[-1].endswith("nothing was written")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_late_signal_is_ignored(tmp_path, number):
    before = signal.getsignal(number)
    write_files({tmp_path / "a": b"a", tmp_path / "b": b"b"}, False, lambda: os.kill(os.getpid(), number))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "b"]
    assert signal.getsignal(number) is before


def test_an_interrupt_after_the_result_is_written_changes_nothing(mccgr, folder, tmp_path, monkeypatch):
    write = Job.write

    def write_and_interrupt(*arguments):
        write(*arguments)
        raise KeyboardInterrupt

    monkeypatch.setattr(Job, "write", write_and_interrupt)
    outcome = mccgr("extract", folder, *QUICK, "-o", tmp_path / "X.h5")
    assert outcome.status == 0
    assert (tmp_path / "X.h5").exists()


def processes_in(group: int) -> list[str]:
    return [path.name for path in Path("/proc").glob("[0-9]*") if group_of(path.name) == group]


def group_of(pid: str) -> int | None:
    try:
        state, _, group = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[:3]
        return int(group) if state != "Z" else None
    except OSError:
        return None


# Words


def test_words_are_the_nearest():
    rng = np.random.default_rng(0)
    words = rng.random((7, 128), dtype=np.float32)
    x = rng.random((50, 128), dtype=np.float32)
    nearest = ((x[:, None] - words) ** 2).sum(axis=2).argmin(axis=1)
    (counts,) = count([x[:20], x[20:]], [Codebook(words, Description())])
    np.testing.assert_array_equal(counts, np.bincount(nearest, minlength=7))


def test_soft_words_share_a_descriptor_by_distance():
    rng = np.random.default_rng(0)
    words = rng.random((7, 128), dtype=np.float32)
    x = rng.random((1, 128), dtype=np.float32)
    squares = ((x - words) ** 2).sum(axis=1)
    expected = np.exp(-squares / (2 * 3.0))
    expected[np.argsort(squares)[5:]] = 0
    (counts,) = count([x], [Codebook(words, Description(soft=True), width=3.0)])
    np.testing.assert_allclose(counts, expected / expected.sum(), rtol=1e-4)


def test_words_equal_to_the_descriptors_have_a_positive_width():
    words = np.random.default_rng(0).random((300, 128), dtype=np.float32)
    words /= np.linalg.norm(words, axis=1, keepdims=True)
    assert typical_distance(words, words) > 0
    assert typical_distance(0.999 * words, 0.999 * words) > 0
    book = Codebook(words, Description(soft=True), 0.1 * typical_distance(words, words))
    np.testing.assert_allclose(count([words], [book])[0], 1, rtol=1e-3)


def test_planted_words_are_learnt():
    rng = np.random.default_rng(0)
    planted = rng.random((5, 128), dtype=np.float32)
    sample = planted[rng.integers(5, size=2000)] + rng.normal(0, 0.01, (2000, 128)).astype(np.float32)
    book = learn(sample, 5, 0, Description())
    gaps = ((planted[:, None] - book.words) ** 2).sum(axis=2).min(axis=1)
    assert gaps.max() < 0.01


def test_the_sample_is_drawn_uniformly_from_all_blocks():
    blocks = [np.full((100, 128), i, np.float32) for i in range(4)]
    drawn = [draw(iter(blocks), 40, np.random.default_rng(seed)) for seed in range(50)]
    assert all(len(some) == 40 for some in drawn)
    shares = np.bincount(np.concatenate(drawn)[:, 0].astype(int)) / 2000
    assert np.abs(shares - 0.25).max() < 0.05
    assert len(draw(iter(blocks[:1]), 500, np.random.default_rng(0))) == 100
    assert draw(iter([]), 5, np.random.default_rng(0)).shape == (0, 128)


@pytest.mark.parametrize(("images", "sample", "most"), [(7, 100, None), (300, 100, None), (7, 100, 5), (1, 10, 50)])
def test_the_sample_never_exceeds_what_was_asked_for(images, sample, most):
    shares = extraction.quotas(images, Learning(sample=sample, descriptors_per_image=most))
    assert len(shares) == images
    assert sum(shares) <= sample
    assert max(shares) - min(shares) <= 1
    assert max(shares) <= (most or sample)
    assert sum(shares) == min(sample, images * (most or sample))
