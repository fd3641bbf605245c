"""A folder of texts becomes topics in one command."""

from __future__ import annotations

import csv
import json
import shutil
from pathlib import Path

import pytest

from mccgr_cli.core.metrics import evaluate
from mccgr_cli.files.readers import load

ROOT = Path(__file__).parent.parent
TEXTS = ROOT / "sample_data" / "texts"
OWN_WORDS = {  # which no other topic has
    "bicycles": {"wheel", "brake", "tyre", "lever", "chain", "gear", "pedal", "saddle"},
    "bread": {"dough", "loaf", "bread", "crust", "yeast", "oven", "bake", "flour"},
    "gardens": {"soil", "roots", "plants", "frost", "sow", "bed", "plant"},
    "stars": {"star", "planet", "orbit", "telescope", "sky", "galaxy", "stars"},
}


def topics_in(said):
    """The words of each cluster that were shown."""
    lines = [line for line in said.splitlines() if line.startswith("cluster ")]
    return [line.partition(": ")[2].split(", ") for line in lines]


@pytest.fixture
def ran(mccgr, tmp_path):
    outcome = mccgr("run", TEXTS, "--k", 4, "-o", tmp_path / "out")
    assert outcome.status == 0, outcome.stderr
    return outcome


def test_each_cluster_is_a_topic_and_shows_ten_of_its_words(ran, tmp_path):
    contents = load(str(tmp_path / "out" / "clusters.h5"), kinds=("clusters",)).contents
    assert evaluate(contents.labels_as_text(), contents["assignments"]).accuracy > 0.9
    topics = topics_in(ran.stderr)
    assert [len(words) for words in topics] == [10] * 4
    found = [max(OWN_WORDS, key=lambda topic: len(OWN_WORDS[topic] & set(words))) for words in topics]
    assert sorted(found) == sorted(OWN_WORDS)
    assert all(len(OWN_WORDS[topic] & set(words)) >= 4 for topic, words in zip(found, topics, strict=True))


def test_the_folder_has_all_results_and_word_counts_are_normalized_by_tfidf(ran, tmp_path):
    out = tmp_path / "out"
    rows = list(csv.DictReader((out / "clusters.csv").read_text().splitlines()))
    assert rows[0]["sample"] == "bicycles/01.txt"
    assert load(str(out / "factors.h5"), kinds=("factors",)).contents.attributes["normalize"] == "tfidf"
    assert "dough" in (out / "report.html").read_text()


def test_quiet_shows_no_topics_and_the_user_may_choose_another_normalization(mccgr, tmp_path):
    options = ("--normalize", "hellinger", "--format", "json", "-q")
    outcome = mccgr("run", TEXTS, "--k", 4, *options, "-o", tmp_path / "out")
    assert (outcome.status, outcome.stderr) == (0, "")
    json.loads(outcome.stdout)
    attributes = load(str(tmp_path / "out" / "factors.h5"), kinds=("factors",)).contents.attributes
    assert attributes["normalize"] == "hellinger"


def test_the_same_command_repeats_nothing_and_changed_texts_need_overwrite(mccgr, refused, tmp_path):
    texts, out = tmp_path / "texts", tmp_path / "out"
    shutil.copytree(TEXTS, texts)
    assert mccgr("run", texts, "--k", 4, "-o", out).status == 0
    before = (out / "clusters.h5").stat()
    again = mccgr("run", texts, "--k", 4, "-o", out)
    assert len(topics_in(again.stderr)) == 4
    assert (out / "clusters.h5").stat().st_mtime_ns == before.st_mtime_ns
    assert "--min-df was not given" in refused("run", texts, "--k", 4, "--min-df", 3, "-o", out)
    (texts / "bread" / "01.txt").write_text("dough and flour")
    assert "as it was before it changed" in refused("run", texts, "--k", 4, "-o", out)
    assert mccgr("run", texts, "--k", 4, "-o", out, "--overwrite").status == 0


def test_texts_in_one_file_are_clustered_too(mccgr, tmp_path):
    lines = [json.dumps({"body": path.read_text(), "topic": path.parent.name}) for path in sorted(TEXTS.rglob("*.txt"))]
    (tmp_path / "texts.jsonl").write_text("\n".join(lines))
    fields = ("--text-field", "body", "--label-field", "topic")
    outcome = mccgr("run", tmp_path / "texts.jsonl", *fields, "--k", 4, "-o", tmp_path / "out")
    assert outcome.status == 0, outcome.stderr
    assert "accuracy" in outcome.stdout
    assert len(topics_in(outcome.stderr)) == 4


@pytest.mark.parametrize("option", [("--words", 5), ("--transpose",), ("--model", "net.onnx")], ids=str)
def test_options_that_texts_have_no_use_for_are_refused(refused, tmp_path, option):
    said = refused("run", TEXTS, "--k", 4, *option, "-o", tmp_path / "out", status=2)
    assert f"{TEXTS} holds texts" in said


def test_options_about_texts_are_refused_for_other_sources(refused, X_file, tmp_path):
    said = refused("run", X_file, "--k", 3, "--min-df", 2, "-o", tmp_path / "out", status=2)
    assert said.startswith("--min-df: ")


def test_new_texts_find_their_topics_in_the_folder_of_a_run(mccgr, ran, tmp_path):
    new = tmp_path / "new.txt"
    new.write_text("The comet and the planet, seen in the telescope on a dark night")
    outcome = mccgr("predict", tmp_path / "out", new)
    assert outcome.stdout.strip().endswith(",stars")
