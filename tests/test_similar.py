"""``mccgr similar`` and ``mccgr duplicates``: copies are found, other images of the same kind are not."""

from __future__ import annotations

import csv
import io
import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from grain import grainy
from PIL import Image

from mccgr_cli.blocks.in_memory import MemoryBlocks
from mccgr_cli.blocks.rows import normalize
from mccgr_cli.core.duplicates import Likeness, group_duplicates
from mccgr_cli.core.similarity import Neighbours, most_similar, most_similar_of_all
from mccgr_cli.files.container import Contents, encode
from mccgr_cli.workflow.similar_images import copies_first

TEXTURES = Path(__file__).parent.parent / "sample_data" / "textures"


def scene(seed):
    """A colour image with structure everywhere, 160 x 120."""
    layers = [grainy(4.0, 3 * seed + i, (120, 160)) for i in range(3)]
    return Image.fromarray(np.dstack(layers).astype(np.uint8))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Twelve images; a smaller, a cropped, a re-encoded and an exact copy of some; and their matrix."""
    where = tmp_path_factory.mktemp("photos")
    images = where / "images"
    images.mkdir()
    for i in range(12):
        scene(i).save(images / f"{i:02}.png")
    scene(0).resize((96, 72), Image.Resampling.LANCZOS).save(images / "small.png")
    scene(1).crop((20, 14, 142, 106)).save(images / "cropped.png")
    scene(2).save(images / "again.jpg", quality=60)
    shutil.copy(images / "03.png", images / "same.png")
    X = np.random.default_rng(0).random((16, 12))
    names = sorted(path.name for path in images.iterdir())
    for copy, original in (("small.png", 0), ("cropped.png", 1), ("again.jpg", 2), ("same.png", 3)):
        X[names.index(copy)] = X[names.index(f"{original:02}.png")] * 1.01
    (where / "X.h5").write_bytes(encode(Contents("matrix", {"X": X, "sample_names": names})))
    return where


def rows(text):
    return list(csv.DictReader(io.StringIO(text)))


def groups_in(text):
    found = {}
    for row in rows(text):
        found.setdefault(row["group"], []).append(row["sample"])
    return sorted(found.values())


# Duplicates


def test_copies_are_found_and_nothing_else(mccgr, folder):
    """Own features, and the images beside them."""
    given = ("duplicates", folder / "X.h5", "--images", folder / "images", "--jobs", 0, "--format", "csv")
    outcome = mccgr(*given)
    assert outcome.status == 0, outcome.stderr
    expected = {("00.png", "small.png"), ("01.png", "cropped.png"), ("02.png", "again.jpg"), ("03.png", "same.png")}
    assert {tuple(sorted(group)) for group in groups_in(outcome.stdout)} == {tuple(sorted(pair)) for pair in expected}
    assert "groups of near-duplicates: 4" in outcome.stderr


def test_similar_features_of_other_images_are_no_duplicates(mccgr, folder, tmp_path):
    """The features say that all images are the same; the pixels do not."""
    names = [f"{i:02}.png" for i in range(12)]
    (tmp_path / "X.h5").write_bytes(encode(Contents("matrix", {"X": np.ones((12, 5)), "sample_names": names})))
    given = ("duplicates", tmp_path / "X.h5", "--images", folder / "images", "--jobs", 0, "--format", "csv")
    assert rows(mccgr(*given).stdout) == []


def test_extracted_images_need_no_folder_and_have_facts(mccgr, folder, tmp_path):
    X = tmp_path / "X.h5"
    assert mccgr("extract", folder / "images", "--words", 20, "--jobs", 0, "-q", "-o", X).status == 0
    outcome = mccgr("duplicates", X, "--jobs", 0, "--format", "json", "-q")
    assert outcome.status == 0, outcome.stderr
    groups = json.loads(outcome.stdout)
    exact = next(group for group in groups if group[1]["sample"] in ("same.png", "03.png"))
    assert exact[0]["keep"] == 1
    assert exact[1]["exact"] == 1
    small = next(group for group in groups if any(one["sample"] == "small.png" for one in group))
    assert [one["sample"] for one in small] == ["00.png", "small.png"]  # the largest comes first
    assert (small[1]["width"], small[1]["height"]) == (96, 72)
    cropped = next(group for group in groups if any(one["sample"] == "cropped.png" for one in group))
    assert cropped[0]["sample"] == "01.png"  # not the one that shows only a part


@pytest.mark.slow
def test_the_number_of_processes_does_not_matter(mccgr, folder):
    given = ("duplicates", folder / "X.h5", "--images", folder / "images", "--format", "csv", "-q")
    assert mccgr(*given, "--jobs", 2).stdout == mccgr(*given, "--jobs", 0).stdout


def test_without_images_only_features_are_compared_and_that_is_said(mccgr, folder):
    outcome = mccgr("duplicates", folder / "X.h5", "--format", "csv")
    assert "only features are compared" in outcome.stderr
    assert len(groups_in(outcome.stdout)) == 4
    assert mccgr("duplicates", folder / "X.h5", "--features-only").stdout.startswith("sample")


def test_names_that_lead_out_of_the_folder_are_not_followed(mccgr, folder, tmp_path):
    shutil.copytree(folder / "images", tmp_path / "images")
    shutil.copytree(folder / "images", tmp_path / "elsewhere")
    names = [f"../elsewhere/{i:02}.png" for i in range(6)] + [f"{i:02}.png" for i in range(6)]
    X = np.tile(np.random.default_rng(0).random((6, 5)), (2, 1))
    (tmp_path / "X.h5").write_bytes(encode(Contents("matrix", {"X": X, "sample_names": names})))
    outcome = mccgr("duplicates", tmp_path / "X.h5", "--images", tmp_path / "images", "--jobs", 0, "--format", "csv")
    assert "6 of 12 images are not there" in outcome.stderr
    assert rows(outcome.stdout) == []


def test_a_damaged_image_is_no_duplicate_and_no_obstacle(mccgr, folder, tmp_path):
    shutil.copytree(folder / "images", tmp_path / "images")
    (tmp_path / "images" / "small.png").write_bytes(b"damaged")
    given = ("duplicates", folder / "X.h5", "--images", tmp_path / "images", "--jobs", 0, "--format", "csv")
    outcome = mccgr(*given)
    assert outcome.status == 0, outcome.stderr
    assert len(groups_in(outcome.stdout)) == 3


def test_a_folder_without_the_images_is_refused(refused, folder, tmp_path):
    line = refused("duplicates", folder / "X.h5", "--images", tmp_path, "-q", status=2)
    assert "none of the 16 images" in line


def test_a_group_is_no_chain():
    """a is like b and b like c, but a is not like c: c is not in the group of a."""
    alike = {(0, 1): 0.9, (1, 2): 0.9, (0, 2): 0.1}

    def compare(pairs):
        return [Likeness(alike[pair]) for pair in pairs]

    assert group_duplicates([(0, 1), (1, 2)], compare, 0.5, lambda i: (i,)) == [[(0, 1.0), (1, 0.9)]]


# Similar


def test_the_most_similar_samples_come_first(mccgr, folder):
    outcome = mccgr("similar", folder / "X.h5", "small.png", "--most", 2, "--format", "csv")
    assert outcome.status == 0, outcome.stderr
    found = rows(outcome.stdout)
    assert [row["rank"] for row in found] == ["1", "2"]
    first = {"query": "small.png", "rank": "1", "sample": "00.png", "similarity": "1.0", "near_duplicate": ""}
    assert found[0] == first
    assert "only features are compared" in outcome.stderr


@pytest.fixture(scope="module")
def misled(folder):
    """A matrix by whose features another image is more similar to the cropped copy than its original is."""
    names = sorted(path.name for path in (folder / "images").iterdir())
    X = np.random.default_rng(1).random((16, 12))
    X[names.index("cropped.png")] = X[names.index("07.png")] * 0.9 + X[names.index("01.png")] * 0.1
    (folder / "misled.h5").write_bytes(encode(Contents("matrix", {"X": X, "sample_names": names})))
    return folder / "misled.h5"


def test_the_original_of_a_cropped_copy_comes_first(mccgr, folder, misled):
    given = ("similar", misled, "cropped.png", "--jobs", 0, "--format", "csv", "-q")
    by_features = rows(mccgr(*given, "--features-only").stdout)
    assert by_features[0]["sample"] == "07.png"
    assert {row["near_duplicate"] for row in by_features} == {""}
    outcome = mccgr(*given, "--images", folder / "images")
    assert outcome.status == 0, outcome.stderr
    first, *others = rows(outcome.stdout)
    assert (first["sample"], first["rank"], first["near_duplicate"]) == ("01.png", "1", "1")
    assert others[0]["sample"] == "07.png"
    assert {row["near_duplicate"] for row in others} == {"0"}
    values = [float(row["similarity"]) for row in others]
    assert values == sorted(values, reverse=True)
    similarity = {row["sample"]: row["similarity"] for row in by_features}
    assert all(similarity.get(row["sample"], row["similarity"]) == row["similarity"] for row in others)  # as before


def test_all_rows_of_the_table_say_what_is_a_copy(mccgr, folder, misled):
    outcome = mccgr("similar", misled, "cropped.png", "--images", folder / "images", "--jobs", 0, "--most", 2)
    copy, other = outcome.stdout.splitlines()[1:3]
    assert copy.split()[0] == "01.png"
    assert copy.endswith("near-duplicate")
    assert other.split()[0] == "07.png"
    assert "near-duplicate" not in other


def test_an_image_that_is_missing_or_damaged_is_not_compared(mccgr, folder, misled, tmp_path):
    shutil.copytree(folder / "images", tmp_path / "images")
    (tmp_path / "images" / "07.png").write_bytes(b"damaged")
    (tmp_path / "images" / "08.png").unlink()
    given = ("similar", misled, "cropped.png", "--images", tmp_path / "images", "--jobs", 0, "--most", 20)
    outcome = mccgr(*given, "--format", "json")
    assert "1 of 16 images are not there" in outcome.stderr
    found = {row["sample"]: row["near_duplicate"] for row in json.loads(outcome.stdout)}
    assert (found["01.png"], found["07.png"], found["08.png"], found["09.png"]) == (1, None, None, 0)


def test_near_duplicates_come_first_and_keep_their_order():
    found = Neighbours(np.repeat([0, 1], 4), np.arange(8), np.tile([0.9, 0.8, 0.7, 0.6], 2))
    copies = [False, True, None, True, None, None, None, None]
    first, said = copies_first(found, copies, 3)
    np.testing.assert_array_equal(first.neighbours, [1, 3, 0, 4, 5, 6])
    np.testing.assert_allclose(first.similarities, [0.8, 0.6, 0.9, 0.9, 0.8, 0.7])
    assert said == [True, True, False, None, None, None]


def test_the_original_of_a_new_image_comes_first(mccgr, folder, tmp_path):
    """Of a new file and of a sample, in one call; the folder is that of the history of the matrix."""
    X = tmp_path / "X.h5"
    assert mccgr("extract", folder / "images", "--words", 20, "--jobs", 0, "-q", "-o", X).status == 0
    scene(5).crop((20, 14, 142, 106)).resize((90, 68)).save(tmp_path / "new.jpg", quality=80)
    given = ("similar", X, tmp_path / "new.jpg", "again.jpg", "--format", "json", "-q")
    outcome = mccgr(*given, "--jobs", 0)
    assert outcome.status == 0, outcome.stderr
    found = [(row["query"], row["sample"]) for row in json.loads(outcome.stdout) if row["near_duplicate"]]
    assert found == [(str(tmp_path / "new.jpg"), "05.png"), ("again.jpg", "02.png")]


def test_similarity_is_the_cosine_of_square_roots():
    X = np.random.default_rng(0).random((30, 8))
    roots = np.sqrt(X)
    roots /= np.linalg.norm(roots, axis=1, keepdims=True)
    expected = roots @ roots.T
    np.fill_diagonal(expected, -1)
    source = MemoryBlocks(normalize(X.copy(), "hellinger"))
    found = most_similar(source, normalize(X[:5].copy(), "hellinger"), 3, list(range(5)))
    np.testing.assert_array_equal(found.neighbours.reshape(5, 3), np.argsort(-expected[:5], axis=1)[:, :3])
    np.testing.assert_allclose(found.similarities.reshape(5, 3), -np.sort(-expected[:5], axis=1)[:, :3])
    everything = most_similar_of_all(source, 3)
    np.testing.assert_array_equal(everything.neighbours.reshape(30, 3), np.argsort(-expected, axis=1)[:, :3])


def test_a_new_image_is_described_on_the_way(mccgr, tmp_path):
    for name in ("brick", "grass"):
        (tmp_path / "old" / name).mkdir(parents=True)
        for path in sorted((TEXTURES / name).iterdir())[:6]:
            shutil.copy(path, tmp_path / "old" / name)
    X = tmp_path / "X.h5"
    described = mccgr("extract", tmp_path / "old", "--words", 30, "--step", 4, "--radii", 4, "--jobs", 0, "-q", "-o", X)
    assert described.status == 0, described.stderr
    new = sorted((TEXTURES / "brick").iterdir())[7]
    outcome = mccgr("similar", X, new, "brick_00.png", "--most", 4, "--jobs", 0, "--format", "json", "-q")
    assert outcome.status == 0, outcome.stderr
    found = json.loads(outcome.stdout)
    assert [row["query"] for row in found] == [str(new)] * 4 + ["brick/brick_00.png"] * 4
    assert all(row["sample"].startswith("brick/") for row in found[:3])


def test_unknown_and_ambiguous_names_are_refused(refused, mccgr, folder):
    assert "no such file" in refused("similar", folder / "X.h5", "nothing.png")
    assert "give more of the name" in refused("similar", folder / "X.h5", "1.p", status=2)
    assert mccgr("similar", folder / "X.h5", "smal", "--most", 1).stdout.startswith("small.png")


def test_options_that_would_have_no_effect_are_refused(refused, folder):
    given = ("similar", folder / "X.h5", "--images", folder / "images")
    assert "without IMAGE" in refused(*given, status=2)
    assert "no image is read" in refused(*given, "small.png", "--features-only", status=2)


def test_all_samples_without_a_name(mccgr, folder):
    found = rows(mccgr("similar", folder / "X.h5", "--most", 2, "--format", "csv").stdout)
    assert len(found) == 32
    assert {row["near_duplicate"] for row in found} == {""}
