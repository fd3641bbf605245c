"""Matrices of word counts: what their files hold, so that the words of new texts can be counted in the same way."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mccgr_cli.errors import DataError, one_line
from mccgr_cli.files.container import Contents
from mccgr_cli.files.folders import walk
from mccgr_cli.files.readers import Loaded, input_errors
from mccgr_cli.files.readers.checks import code_labels
from mccgr_cli.images.find import SUFFIXES as IMAGE_SUFFIXES
from mccgr_cli.settings import AUTO, TFIDF
from mccgr_cli.texts import find
from mccgr_cli.texts.settings import COUNTS_OF, NGRAMS, TEXTS, WORDS, Counting, TextInput
from mccgr_cli.texts.tables import LINES, TABLES

if TYPE_CHECKING:
    from mccgr_cli.texts.count import CountedTexts, Vocabulary


def holds_texts(source: str, texts: TextInput, tables: bool = False) -> bool:
    """Whether a folder or file holds texts. A folder with any image holds images, unless the user says texts.

    ``tables``: a table has texts, not numbers, even if the user names no column of texts.
    """
    with input_errors(source):
        is_folder = Path(source).is_dir()
    if not is_folder:
        tables = tables or texts.text_field is not None
        return source.lower().endswith((*find.SUFFIXES, *LINES, *(TABLES if tables else ())))
    if texts.kind is not None:
        return texts.kind == TEXTS
    skipped: list[Any] = []
    has_texts = False
    for path in walk(Path(source), skipped):
        if path.suffix.lower() in IMAGE_SUFFIXES:
            return False
        has_texts = has_texts or find.may_be_text(Path(source) / path)
    return has_texts


def normalization_for(matrix: Loaded, asked: str) -> str:
    """tfidf for counts of words, unless the user asked for another normalization."""
    return TFIDF if asked == AUTO and is_word_counts(matrix) else asked


def is_word_counts(matrix: Loaded) -> bool:
    return matrix.contents.kind == "matrix" and matrix.contents.attributes.get(COUNTS_OF) == WORDS


def text_contents(counted: CountedTexts, counting: Counting | None) -> Contents:
    """A matrix file of word counts; ``counting`` is None if the words are those of another file."""
    words = counted.vocabulary
    datasets: dict[str, Any] = {"X": counted.X, "feature_names": words.words, "sample_names": counted.names}
    labels = [label for label in counted.labels if label is not None]
    if labels and len(labels) == len(counted.labels):
        datasets["labels"], datasets["label_names"] = code_labels(labels, "labels")
    if words.stop_words:
        datasets["texts/stop_words"] = words.stop_words
    if counted.skipped:
        datasets["skipped/names"] = [one.name for one in counted.skipped]
        datasets["skipped/reasons"] = [one_line(one.reason) for one in counted.skipped]
    attributes: dict[str, Any] = {COUNTS_OF: WORDS, "ngrams": words.ngrams}
    if counting is not None:
        attributes |= {name: value for name, value in asdict(counting).items() if value is not None}
    return Contents("matrix", datasets, attributes)


def read_vocabulary(matrix: Loaded) -> Vocabulary:
    """The words in a file of ``mccgr extract``."""
    from mccgr_cli.texts.count import Vocabulary

    contents = matrix.contents
    words, ngrams = contents.datasets.get("feature_names"), contents.attributes.get("ngrams")
    if not words or len(set(words)) < len(words) or ngrams not in NGRAMS:
        raise DataError(matrix.name, "its list of words is damaged or was changed", "extract it again")
    return Vocabulary(list(words), str(ngrams), list(contents.datasets.get("texts/stop_words", [])))
