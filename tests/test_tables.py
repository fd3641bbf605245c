"""Tables are read as the programs that wrote them meant them, and one line says what was taken for what."""

from __future__ import annotations

import codecs
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from mccgr_cli.errors import DataError
from mccgr_cli.files.readers import Loaded, load
from mccgr_cli.files.readers.labels import load_labels

VALUES = [[1.5, 0, 3], [0, 1011, 2.25], [2, 0.125, 7]]
ROWS, COLUMNS = ["s1", "s2", "s3"], ["a", "b", "c"]
POSITIONS, YEARS = ["0", "1", "2"], ["2019", "2020", "2021"]


def frame(index: Any = None, columns: Any = None) -> pd.DataFrame:
    return pd.DataFrame(VALUES, index=index, columns=columns)


def by_pandas(data: pd.DataFrame, **how: Any) -> bytes:
    buffer = io.BytesIO()
    data.to_csv(buffer, **how)
    return buffer.getvalue()


def lines(*found: str, end: str = "\n", encoding: str = "utf-8") -> bytes:
    return "".join(line + end for line in found).encode(encoding)


# file: its bytes, names of rows and columns, and words of the note
WRITERS: dict[str, tuple[bytes, list[str] | None, list[str] | None, str]] = {
    "pandas": (by_pandas(frame(ROWS, COLUMNS)), ROWS, COLUMNS, "row names: column 1 ('')"),
    "pandas, no names": (by_pandas(frame()), POSITIONS, POSITIONS, "column names: line 1"),
    "pandas, numbered rows": (by_pandas(frame(None, COLUMNS)), POSITIONS, COLUMNS, "row names: column 1 ('')"),
    "pandas, header only": (by_pandas(frame(), index=False), None, POSITIONS, "line 1 (0, 1, 2; if these are values"),
    "pandas, written twice": (
        by_pandas(pd.read_csv(io.BytesIO(by_pandas(frame(None, COLUMNS))))),
        *(POSITIONS, COLUMNS, "left out: column 2 ('Unnamed: 0')"),
    ),
    "pandas, reset index": (
        by_pandas(frame(ROWS, COLUMNS).reset_index()),
        *(ROWS, COLUMNS, "row names: column 2 ('index'); labels: none; left out: column 1 ('')"),
    ),
    "pandas, named index": (by_pandas(frame([5, 3, 9], COLUMNS).rename_axis("id")), ["5", "3", "9"], COLUMNS, "'id'"),
    "pandas, years": (by_pandas(frame(None, YEARS), index=False), None, YEARS, "give --header no"),
    "pandas, all quoted": (by_pandas(frame(ROWS, COLUMNS), quoting=1), ROWS, COLUMNS, ""),
    "pandas, cells": (by_pandas(frame([4, 5, 6], COLUMNS).rename_axis("cell")), ["4", "5", "6"], COLUMNS, "'cell'"),
    "pandas, id last": (
        by_pandas(frame(None, COLUMNS).assign(id=[7, 8, 9]), index=False),
        *(["7", "8", "9"], COLUMNS, "row names: column 4 ('id')"),
    ),
    "R write.csv": (
        lines('"","a","b","c"', '"s1",1.5,0,3', '"s2",0,1011,2.25', '"s3",2,0.125,7'),
        *(ROWS, COLUMNS, "row names: column 1 ('')"),
    ),
    "R write.csv, numbered rows": (
        lines('"","a","b","c"', '"1",1.5,0,3', '"2",0,1011,2.25', '"3",2,0.125,7'),
        *(["1", "2", "3"], COLUMNS, ""),
    ),
    "R write.csv2": (
        lines('"";"a";"b";"c"', '"s1";1,5;0;3', '"s2";0;1011;2,25', '"s3";2;0,125;7'),
        *(ROWS, COLUMNS, "separated by semicolons; decimal commas"),
    ),
    "R write.table": (
        lines('"a" "b" "c"', '"s1" 1.5 0 3', '"s2" 0 1011 2.25', '"s3" 2 0.125 7'),
        *(ROWS, COLUMNS, "separated by spaces"),
    ),
    "aligned columns": (
        lines('  "a"   "b"    "c" ', '"s1"  1.5     0  3.000 ', '"s2"  0.0  1011  2.250 ', '"s3"  2.0 0.125  7.000 '),
        *(ROWS, COLUMNS, "separated by spaces"),
    ),
    "aligned columns, no names": (
        lines("  1.500     0.000  3.000", "  0.000  1011.000  2.250", "  2.000     0.125  7.000"),
        *(None, None, "separated by spaces"),
    ),
    "R write.table, years": (
        lines('"2019"\t"2020"\t"2021"', '"1"\t1.5\t0\t3', '"2"\t0\t1011\t2.25', '"3"\t2\t0.125\t7'),
        *(["1", "2", "3"], YEARS, "separated by tabs"),
    ),
    "R write.table, no quotes": (
        lines("a\tb\tc", "s1\t1.5\t0\t3", "s2\t0\t1011\t2.25", "s3\t2\t0.125\t7"),
        *(ROWS, COLUMNS, "row names: column 1 ('')"),
    ),
    "Excel, CSV": (
        lines("Name;a;b;c", "s1;1,5;0;3", "s2;0;1011;2,25", "s3;2;0,125;7", end="\r\n", encoding="cp1252"),
        *(ROWS, COLUMNS, "decimal commas"),
    ),
    "Excel, thousands and sep": (
        lines("sep=;", "Größe;a;b;c", "s1;1,5;0;3", "s2;0;1.011;2,25", "s3;2;0,125;7", end="\r\n", encoding="cp1252"),
        *(ROWS, COLUMNS, "row names: column 1 ('Größe')"),
    ),
    "Excel, CSV UTF-8": (
        codecs.BOM_UTF8 + lines("id;a;b;c", "s1;1,5;0;3", "s2;0;1011;2,25", "s3;2;0,125;7", end="\r\n"),
        *(ROWS, COLUMNS, "row names: column 1 ('id')"),
    ),
    "Excel, Unicode text": (
        codecs.BOM_UTF16_LE + lines("\ta\tb\tc", "s1\t1.5\t0\t3", 's2\t0\t"1,011"\t2.25', "s3\t2\t0.125\t7")
        .decode().encode("utf-16-le"),
        *(ROWS, COLUMNS, "separated by tabs; commas between thousands"),
    ),
    "Excel, years": (
        lines("2019;2020;2021", "1,5;0;3", "0;1011;2,25", "2;0,125;7", end="\r\n"),
        *(None, YEARS, "column names: line 1 (2019, 2020, 2021; if these are values, give --header no)"),
    ),
    "Excel, empty cells around": (
        lines("id,a,b,c,,", "s1,1.5,0,3,,", "s2,0,1011,2.25,,", "s3,2,0.125,7,,", ",,,,,", end="\r\n"),
        *(ROWS, COLUMNS, ""),
    ),
    "LibreOffice": (
        codecs.BOM_UTF16_LE + '"id"\t"a"\t"b"\t"c"\n"s1"\t1.5\t0\t3\n"s2"\t0\t1011\t2.25\n"s3"\t2\t0.125\t7\n'
        .encode("utf-16-le"),
        *(ROWS, COLUMNS, "separated by tabs"),
    ),
    "LibreOffice, UTF-32": (
        codecs.BOM_UTF32_LE + lines("id,a,b,c", "s1,1.5,0,3", "s2,0,1011,2.25", "s3,2,0.125,7")
        .decode().encode("utf-32-le"),
        *(ROWS, COLUMNS, "row names: column 1 ('id')"),
    ),
    "LibreOffice, all quoted": (
        lines('"id","a","b","c"', '"s1","1,5","0","3"', '"s2","0","1011","2,25"', '"s3","2","0,125","7"'),
        *(ROWS, COLUMNS, "decimal commas"),
    ),
    "thousands": (
        lines("gene,a,b,c", "s1,1.5,0,3", 's2,0,"1,011",2.25', "s3,2,0.125,7"),
        *(ROWS, COLUMNS, "commas between thousands"),
    ),
    "trailing separators": (lines("a,b,c", "1.5,0,3,", "0,1011,2.25,", "2,.125,7,"), None, COLUMNS, ""),
    "no header, trailing separators": (lines("1.5,0,3,", "0,1011,2.25,", "2,.125,7,"), None, None, ""),
    "empty lines, no end": (b'\n"a","b","c"\r\n"1.5","0","3"\r\n\r\n0,1011,2.25\r\n2,.125,7', None, COLUMNS, ""),
    "semicolons in .csv": (lines("1.5;0;3", "0;1011;2.25", "2;.125;7"), None, None, "separated by semicolons"),
    "names and years": (
        lines("Country;2019;2020;2021", "s1;1,5;0;3", "s2;0;1011;2,25", "s3;2;0,125;7"),
        *(ROWS, YEARS, "line 1 (2019, 2020, 2021; if these are values, give --header no)"),
    ),
    "sample and numbers": (
        lines("sample,12,7,9", "s1,1.5,0,3", "s2,0,1011,2.25", "s3,2,.125,7"),
        *(ROWS, ["12", "7", "9"], "row names: column 1 ('sample')"),
    ),
    "pandas, other numbers": (
        by_pandas(frame([7, 9, 8], [400, 410, 430])),
        *(["7", "9", "8"], ["400", "410", "430"], "row names: column 1 ('')"),
    ),
    "spectrum": (
        lines(*(",".join([*map(str, row), "1,1,1,1,1"]) for row in [[4.5, 5, 5.5], *VALUES])).replace(
            b"4.5,5,5.5,1,1,1,1,1", b"4.5,5,5.5,6,6.5,7,7.5,8"
        ),
        *(None, ["4.5", "5", "5.5", "6", "6.5", "7", "7.5", "8"]),
        "line 1 (4.5, 5, 5.5, ...; if these are values, give --header no)",
    ),
}  # fmt: skip


def stored(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    return path


def read(path: Path, text: str, **how: Any) -> Loaded:
    return load(str(stored(path / "a.csv", text.encode())), **how)


@pytest.mark.parametrize("suffix", [".csv", ".tsv"])
@pytest.mark.parametrize("writer", WRITERS)
def test_tables_of_other_programs_are_read_right(writer: str, suffix: str, tmp_path: Path) -> None:
    content, rows, columns, words = WRITERS[writer]
    path = stored(tmp_path / f"a{suffix}", content)
    loaded = load(str(path))
    contents = loaded.contents
    np.testing.assert_array_equal(contents["X"].load()[:, :3], VALUES)
    assert contents.datasets.get("sample_names") == rows
    assert contents.datasets.get("feature_names") == columns
    (note,) = loaded.notes
    assert note.startswith(f"{path}: 3 samples x {contents['X'].shape[1]} features; row names: ")
    assert words in note


@pytest.mark.parametrize(
    ("text", "header", "shape", "words"),
    [
        ("1,2\n4,3\n", "auto", (2, 2), "column names: none (if 1, 2 in line 1 are names, give --header yes)"),
        ("1,2\n4,3\n", "yes", (1, 2), "column names: line 1"),
        ("2019,2020\n4,3\n", "no", (2, 2), "column names: none"),
        ("5,6,9\n4,3,8\n", "auto", (2, 3), "(if 5, 6, 9 in line 1 are names, give --header yes)"),
        ("5,3,9\n4,3,8\n", "auto", (2, 3), "column names: none"),
        ("5,10,15\n.5,1,2\n1,.5,3\n1,4,.5\n", "auto", (3, 3), "(5, 10, 15; if these are values, give --header no)"),
        ("2019,2020\n2018,2021\n", "auto", (2, 2), "(if 2019, 2020 in line 1 are names, give --header yes)"),
        ("2019,2020,2021\n2000,5,2100\n1,2,2\n", "auto", (2, 3), "line 1 (2019, 2020, 2021; if these are values"),
        ("1,2,3\n2,3,4\n3,4,5\n", "auto", (2, 3), "line 1 (1, 2, 3; if these are values"),
        ("r1,1,2\nr2,4,3\n", "auto", (2, 2), "column names: none (if 1, 2 in line 1 are names, give --header yes)"),
        ("r1,5,2\nr2,4,3\n", "auto", (2, 2), "column names: none"),
        ("2,3,4\n3,4,5\n", "auto", (2, 3), "column names: none"),
    ],
)
def test_a_first_line_of_numbers_is_judged_aloud_and_the_user_may_decide(text, header, shape, words, tmp_path):
    loaded = read(tmp_path, text, header=header)
    assert loaded.contents["X"].shape == shape
    assert loaded.notes[0].endswith(words) or words.endswith("values")
    assert words in loaded.notes[0]


def test_header_is_for_tables(refused, mccgr, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.save("a.npy", np.eye(3))
    stored(Path("a.csv"), b"1,2\n3,4\n")
    assert "a.npy: not a table; leave out --header" in refused("factorize", "a.npy", "-k", "1", "--header", "no")
    assert "1 samples x 2" in mccgr("info", "a.csv", "--header", "yes").stderr


def test_a_feature_may_be_called_like_a_name(tmp_path):
    text = "cat,cell,dog\n0,1,2\n1,1,0\n3,0,1\n"
    assert read(tmp_path, text).contents["feature_names"] == ["cat", "cell", "dog"]
    assert read(tmp_path, "index,b\n0.5,1\n0.25,1\n0.75,1\n").contents["feature_names"] == ["index", "b"]


@pytest.mark.parametrize("gap", ["", "NA", "NaN"])
def test_gaps_in_labels_that_nobody_asked_for_leave_the_labels_out(gap, tmp_path):
    text = f"sample,a,b,label\ns1,1,2,x\ns2,3,4,{gap}\n"
    loaded = read(tmp_path, text)
    assert "labels" not in loaded.contents
    assert loaded.contents["feature_names"] == ["a", "b"]
    assert "labels: none (column 4 ('label') has none for sample 1)" in loaded.notes[0]
    if not gap:
        with pytest.raises(DataError, match="sample 1 has no label"):
            read(tmp_path, text, label_key="label")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("a;b\n1;2\n1;2;3\n", "line 3: 3 fields where the first line has 2"),
        ("a;b\n1,5;2\n1,5;2.5\n", "'1,5' in line 2, column 1 ('a') has a decimal comma, and '2.5' in line 3, column 2"),
        (
            f"id,text\n1,{'two words ' * 1000}\n2,b\n",
            f"'{'two words ' * 6}...' is not a number; for texts, give --text-field text",
        ),
        ("a;b\n1,5;2\n1,5;x\n", "line 3, column 2 ('b'): 'x' is not a number"),
        ("a;b\n1,5;2\n;2\n", "line 3, column 1 ('a'): no value ('')"),
        ("a,b,\n1,2,\n3,4,\n" * 30 + "5,6,7\n", "line 4, column 1"),
        ("a,b,\n" + "1,2,\n" * 60 + "5,6,7\n", "column 3 has no name, but a value in row 60"),
        ("a,b\n1,2\n\0,4\n", "line 3, column 1"),
    ],
)
def test_what_cannot_be_read_is_named_with_its_line(text, told, tmp_path):
    with pytest.raises(DataError) as caught:
        read(tmp_path, text)
    assert told in str(caught.value)


def test_transposed_tables_count_samples_in_columns(tmp_path):
    loaded = read(tmp_path, "gene,s1,s2,s3\ng1,1,2,3\ng2,4,5,6\n", transpose=True)
    assert "3 samples x 2 features" in loaded.notes[0]
    assert loaded.contents["sample_names"] == ["s1", "s2", "s3"]


def test_labels_of_a_table_with_semicolons_are_found_and_words_stay_whole(tmp_path):
    path = stored(tmp_path / "a.csv", "Name;label\r\ns1;größer\r\ns2;b\r\n".encode("cp1252"))
    assert load_labels(str(path)).labels == ["größer", "b"]
    assert load_labels(str(stored(path, b"T cell\nB cell\n"))).labels == ["T cell", "B cell"]


def test_one_line_on_stderr_says_what_was_taken_for_what(mccgr, tmp_path):
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.random((12, 4)), index=[f"s{i}" for i in range(12)]).assign(label=["x", "y"] * 6)
    table.to_csv(tmp_path / "a.csv", sep=";", decimal=",")
    done = mccgr("run", tmp_path / "a.csv", "-k", "2", "-o", tmp_path / "out", "--no-duplicates")
    assert done.status == 0, done.stderr
    (line,) = (line for line in done.stderr.splitlines() if "row names" in line)
    assert "12 samples x 4 features; row names: column 1 (''); labels: column 6 ('label')" in line
    quiet = mccgr("info", tmp_path / "a.csv", "--format", "json")
    assert json.loads(quiet.stdout)["datasets"]["X"]


def test_a_column_number_is_no_word_of_a_header(tmp_path):
    loaded = read(tmp_path, "5,3,1,x\n4,4,2,y\n", label_key="4")
    assert loaded.contents.labels_as_text() == ["x", "y"]
    assert loaded.contents["X"].shape == (2, 3)
