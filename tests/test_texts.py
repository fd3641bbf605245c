"""Texts become counts of words: from folders, .jsonl and .csv files, whatever else is in them."""

from __future__ import annotations

import csv
import io
import json
import os

import numpy as np
import pytest
from sklearn.feature_extraction.text import CountVectorizer

from mccgr_cli.files.readers import load
from mccgr_cli.texts.read import UnusableText, decode

TOPICS = {
    "bread": "dough flour yeast oven crust loaf bake rise knead salt",
    "stars": "telescope planet orbit moon comet galaxy light night sky dust",
    "bikes": "wheel chain brake pedal gear saddle tyre pump ride frame",
}


def articles(each=8, seed=0):
    """Texts of the topics, with their names and labels."""
    rng = np.random.default_rng(seed)
    for label, words in TOPICS.items():
        for number in range(each):
            some = rng.choice(words.split(), 12)
            yield f"{label}{number}", label, f"The {' and the '.join(some)}. It is {rng.choice(words.split())} again!"


def write_folder(folder, **more):
    for name, label, text in articles(**more):
        (folder / label).mkdir(parents=True, exist_ok=True)
        (folder / label / f"{name}.txt").write_text(text)
    return folder


def write_lines(path, records):
    path.write_text("".join(json.dumps(one) + "\n" for one in records))
    return path


def done(outcome):
    assert outcome.status == 0, outcome.stderr
    return outcome


def contents_of(path):
    contents = load(str(path)).contents
    return contents, contents["X"].load().toarray()


@pytest.fixture
def extracted(mccgr, tmp_path):
    """Extract a source; its contents, the matrix and what was said."""

    def extract(source, *options):
        out = tmp_path / "out.h5"
        outcome = done(mccgr("extract", source, *options, "-o", out, "--overwrite"))
        return *contents_of(out), outcome.stderr

    return extract


# Folders


def test_rows_are_the_counts_of_scikit_learn(extracted, tmp_path):
    contents, X, _ = extracted(write_folder(tmp_path / "texts"))
    counter = CountVectorizer(stop_words="english", min_df=2, max_df=0.5)
    expected = counter.fit_transform([text for _, _, text in sorted(articles(), key=lambda one: (one[1], one[0]))])
    np.testing.assert_array_equal(X, expected.toarray())
    assert contents["feature_names"] == counter.get_feature_names_out().tolist()
    assert contents["sample_names"][0] == "bikes/bikes0.txt"
    assert contents.labels_as_text() == [name.split("/")[0] for name in contents["sample_names"]]
    assert contents.attributes["counts_of"] == "words"


def test_a_flat_folder_has_no_labels_and_labels_can_be_left_out(extracted, tmp_path):
    for name, _, text in articles():
        (tmp_path / "flat").mkdir(exist_ok=True)
        (tmp_path / "flat" / name).write_text(text)  # without a suffix
    assert "labels" not in extracted(tmp_path / "flat")[0]
    assert "labels" not in extracted(write_folder(tmp_path / "texts"), "--no-labels")[0]


def test_what_is_no_usable_text_is_skipped_with_a_reason(extracted, tmp_path):
    folder = write_folder(tmp_path / "texts")
    (folder / "bread" / "binary.txt").write_bytes(b"\x7fELF\0\0\1dough")
    (folder / "bread" / "controls.txt").write_bytes(bytes(range(1, 32)) * 9)
    (folder / "bread" / "empty.txt").write_text(" \n")
    (folder / "bread" / "huge.txt").write_text("dough " * 1000)
    (folder / "bread" / "stop.txt").write_text("the of and 1")
    (folder / "stars" / "loop").symlink_to(folder)
    os.mkfifo(folder / "stars" / "pipe.txt")
    (folder / "stars" / "gone.txt").symlink_to(tmp_path / "nowhere")
    (folder / "stars" / "cover.pdf").write_bytes(b"%PDF")
    contents, X, said = extracted(folder, "--max-text", 2000)
    reasons = dict(zip(contents["skipped/names"], contents["skipped/reasons"], strict=True))
    assert reasons.pop("stars/gone.txt").startswith("cannot be read: no such file")
    assert reasons == {
        "bread/binary.txt": "not a text but binary data",
        "bread/controls.txt": "not a text but binary data",
        "bread/empty.txt": "empty",
        "bread/huge.txt": "larger than --max-text 2000",
        "bread/stop.txt": "none of its words is counted",
        "stars/loop": "a link to the folder that it lies in",
        "stars/pipe.txt": "not a file",
    }
    assert len(X) == 24
    assert "texts used: 24 of 32" in said
    assert "skipped 2 texts, not a text but binary data: bread/binary.txt, bread/controls.txt" in said
    assert "not texts by their suffix (1 .pdf): stars/cover.pdf" in said


def test_strict_refuses_the_first_text_that_cannot_be_used(refused, tmp_path):
    folder = write_folder(tmp_path / "texts")
    (folder / "bread" / "empty.txt").write_text("")
    said = refused("extract", folder, "--strict", "-q", "-o", tmp_path / "X.h5")
    assert said == "bread/empty.txt: empty; mend or remove it, or leave out --strict"


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-32", "cp1252"])
def test_encodings_are_recognised(encoding):
    assert decode("Crème brûlée, “cafés”".encode(encoding)) == (
        "Crème brûlée, “cafés”",
        {"utf-8-sig": "utf-8-sig"}.get(encoding, encoding),
    )


@pytest.mark.parametrize("data", [b"", b"\0", b"\xff\xfea", b"PK\3\4\0"])
def test_what_cannot_be_decoded_has_a_reason(data):
    with pytest.raises(UnusableText):
        decode(data)


def test_texts_that_are_not_unicode_are_said(extracted, tmp_path):
    folder = write_folder(tmp_path / "texts")
    for name in "one", "two":
        (folder / "bread" / name).write_bytes("pâtisserie dough".encode("latin-1"))
    contents, _, said = extracted(folder)
    assert "pâtisserie" in contents["feature_names"]
    assert "2 texts not in Unicode: read as Windows-1252 (Latin-1)" in said


# Which words


def test_options_choose_the_words(extracted, tmp_path):
    folder, own = write_folder(tmp_path / "texts"), tmp_path / "own.txt"
    own.write_text("Dough\nflour")

    def words(*options):
        return set(extracted(folder, *options)[0]["feature_names"])

    usual = words()
    assert "the" not in usual
    assert "the" not in words("--stop-words", "none")  # more than half of the texts have it
    assert "the" in words("--stop-words", "none", "--max-df", 1)
    assert words("--stop-words", own, "--max-df", 1) >= {"the", "yeast"}
    assert not words("--stop-words", own) & {"dough", "flour"}
    assert words("--min-df", 8, "--max-df", 1) < words("--min-df", 5, "--max-df", 1) <= words("--max-df", 1)
    assert len(words("--max-features", 7)) == 7
    assert any(" " in word for word in words("--ngrams", "1-2", "--max-df", 1))


def test_too_strict_options_say_what_they_left_out(refused, tmp_path):
    said = refused("extract", write_folder(tmp_path / "texts"), "--min-df", 99, "-q", "-o", tmp_path / "X.h5")
    assert "no word is left" in said
    assert "in fewer than 99 texts" in said


# Files with many texts


def test_lines_of_json_give_the_same_matrix_as_a_folder(extracted, tmp_path):
    folder, X, _ = extracted(write_folder(tmp_path / "texts"))
    ordered = sorted(articles(), key=lambda one: (one[1], one[0]))
    records = [{"body": text, "topic": label, "number": name} for name, label, text in ordered]
    options = ("--text-field", "body", "--label-field", "topic", "--id-field", "number")
    lines, Y, _ = extracted(write_lines(tmp_path / "texts.jsonl", records), *options)
    np.testing.assert_array_equal(X, Y)
    assert lines.labels_as_text() == folder.labels_as_text()
    assert lines["sample_names"][0] == "bikes0"


@pytest.mark.parametrize("encoding", ["utf-8-sig", "cp1252", "utf-16"])
def test_a_column_of_a_table_gives_texts_labels_and_names(extracted, tmp_path, encoding):
    rows = io.StringIO()
    table = csv.writer(rows)
    table.writerow(["id", "label", "text"])
    table.writerows([name, label, f"{text}\nand, the crème"] for name, label, text in articles())
    (tmp_path / "texts.csv").write_bytes(rows.getvalue().encode(encoding))
    contents, X, _ = extracted(tmp_path / "texts.csv", "--max-df", 1)
    assert len(X) == 24
    assert contents["sample_names"][:2] == ["bread0", "bread1"]
    assert set(contents.labels_as_text()) == set(TOPICS)
    assert "crème" in contents["feature_names"]


@pytest.mark.parametrize("separator", [";", "\t"])
def test_separators_are_found_by_the_name_of_the_column(extracted, tmp_path, separator):
    lines = [separator.join(("topic", "body")), *(separator.join((label, text)) for _, label, text in articles())]
    (tmp_path / "texts.csv").write_text("\n".join(lines))
    contents, X, _ = extracted(tmp_path / "texts.csv", "--text-field", "body", "--label-field", "topic")
    assert len(X) == 24
    assert set(contents.labels_as_text()) == set(TOPICS)


def test_a_table_of_excel_needs_no_exact_names_and_its_texts_may_have_several_lines(extracted, refused, tmp_path):
    rows = [("Nr", "Topic", "Text"), *((name, label, text + "\r\n" + text) for name, label, text in articles())]
    rows[2] = ("", *rows[2][1:])
    with (tmp_path / "texts.csv").open("w", newline="", encoding="utf-8-sig") as file:
        csv.writer(file, delimiter=";").writerows(rows)
    contents, X, _ = extracted(tmp_path / "texts.csv", "--id-field", "nr", "--label-field", "topic")
    assert len(X) == 24
    assert contents["sample_names"][:3] == ["bread0", "line 4", "bread2"]
    assert set(contents.labels_as_text()) == set(TOPICS)
    said = refused("extract", tmp_path / "texts.csv", "--text-field", "body", "-o", tmp_path / "X.h5")
    assert said.endswith("no field 'body'; name one with --text-field: Nr, Topic, Text")


def test_records_without_a_text_are_skipped(extracted, tmp_path):
    records = [{"text": text, "id": name} for name, _, text in articles()]
    odd = [{"id": "none"}, {"text": None}, {"text": 3, "id": "three"}, {"text": " ", "id": "blank"}]
    contents, X, said = extracted(write_lines(tmp_path / "texts.jsonl", [*records, *odd]))
    assert len(X) == 24
    assert contents["skipped/names"] == ["none", "line 26", "three", "blank"]
    assert "skipped 1 text, its 'text' is not text: three" in said


@pytest.mark.parametrize(
    ("name", "content", "told"),
    [
        ("a.jsonl", '{"text": "a"}\n{"text": \n', "line 2 is not JSON"),
        ("a.jsonl", '{"text": "a"}\n[3]\n', "line 2 is not an object with fields"),
        ("a.jsonl", '{"body": "a", "topic": 3}\n', "no field 'text'; name one with --text-field: body, topic"),
        ("a.csv", "body,topic\nx,y\n", "no field 'text'; name one with --text-field: body, topic"),
        ("a.csv", "text\na\0b\n", "holds zero bytes, so it is no text"),
        ("a.csv", "text\n", "no text in it"),
        ("a.csv", "text,topic\na, b,c\n", "line 2 has 3 fields, the header 2"),
        ("a.csv", "text,text\na,b\n", "two columns are called 'text'"),
        ("a.csv", 'text,topic\na,b\n"c,d\ne,f\n', "line 4: unexpected end of data"),
        ("a.jsonl", "[" * 100_000, "line 1 is not JSON"),
        ("a.jsonl", "", "no text in it"),
    ],
    ids=range(11),
)
def test_files_that_are_no_texts_are_refused_in_a_line(refused, tmp_path, name, content, told):
    (tmp_path / name).write_text(content)
    assert told in refused("extract", tmp_path / name, "-q", "-o", tmp_path / "X.h5")
    assert not (tmp_path / "X.h5").exists()


# Texts or images?


def test_a_folder_with_an_image_holds_images_unless_the_user_says_texts(mccgr, extracted, refused, tmp_path):
    folder = write_folder(tmp_path / "texts")
    (folder / "bread" / "cover.png").write_bytes(b"no image")
    said = refused("extract", folder, "-q", "-o", tmp_path / "X.h5")
    assert "bread/cover.png" in said
    assert f"{folder} has 24 texts too" in mccgr("extract", folder, "-o", tmp_path / "X.h5").stderr
    assert len(extracted(folder, "--kind", "texts")[1]) == 24


def test_options_of_the_other_kind_are_refused(refused, tmp_path):
    folder = write_folder(tmp_path / "texts")
    said = refused("extract", folder, "--words", 5, "-o", tmp_path / "X.h5", status=2)
    assert said == f"--words: {folder} holds texts; leave it out, or give --kind images"
    assert "it is about texts" in refused("extract", tmp_path / "a.png", "--min-df", 2, status=2)
    assert "leave them out" in refused("extract", folder, "--text-field", "body", "-o", tmp_path / "X.h5", status=2)
    (tmp_path / "table.txt").write_text("body\tlabel\n")
    said = refused("extract", tmp_path / "table.txt", "--text-field", "body", status=2)
    assert "a table needs the suffix .csv or .tsv" in said


# New texts


@pytest.fixture
def clusters(mccgr, tmp_path):
    X, F, C = (tmp_path / f"{name}.h5" for name in "XFC")
    done(mccgr("extract", write_folder(tmp_path / "texts"), "--ngrams", "1-2", "-o", X))
    done(mccgr("factorize", X, "--k", 3, "-o", F))
    done(mccgr("cluster", F, "-o", C))
    return C


def test_word_counts_are_normalized_by_tfidf_by_default(clusters):
    assert load(str(clusters), kinds=("clusters",)).contents.attributes["normalize"] == "tfidf"


def test_new_texts_get_the_clusters_of_their_topics(mccgr, clusters, tmp_path):
    new = write_folder(tmp_path / "new", each=2, seed=1)
    (new / "bread" / "other.txt").write_text("zebra xylophone")
    outcome = done(mccgr("predict", clusters, new))
    rows = list(csv.DictReader(io.StringIO(outcome.stdout)))
    topics = ["bikes"] * 2 + ["bread"] * 2 + ["stars"] * 2
    assert [row["label"] for row in rows] == [row["class"] for row in rows] == topics
    assert "skipped 1 text, none of its words is counted: bread/other.txt" in outcome.stderr
    lines = write_lines(tmp_path / "new.jsonl", [{"text": "flour and yeast make dough"}])
    assert ",bread\n" in done(mccgr("predict", clusters, lines)).stdout
    one = tmp_path / "one.txt"
    one.write_text("the moon and a comet")
    assert ",stars\n" in done(mccgr("predict", clusters, one)).stdout


def test_the_words_of_a_file_are_counted_again(mccgr, clusters, tmp_path):
    new = tmp_path / "new.h5"
    done(mccgr("extract", write_folder(tmp_path / "new", each=2, seed=1), "--codebook", tmp_path / "X.h5", "-o", new))
    assert load(str(new)).contents["feature_names"] == load(str(tmp_path / "X.h5")).contents["feature_names"]
    done(mccgr("transform", tmp_path / "F.h5", new, "-o", tmp_path / "W.h5"))


def test_texts_for_a_model_of_a_matrix_are_refused(mccgr, refused, X_file, tmp_path):
    done(mccgr("factorize", X_file, "--k", 3, "-o", tmp_path / "F.h5"))
    done(mccgr("cluster", tmp_path / "F.h5", "-o", tmp_path / "C.h5"))
    said = refused("predict", tmp_path / "C.h5", write_folder(tmp_path / "texts"), "-q")
    assert "was not made from images or texts" in said
