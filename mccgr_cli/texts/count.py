"""Count the words of texts, with scikit-learn."""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS, CountVectorizer

from mccgr_cli.blocks.protocol import Array
from mccgr_cli.errors import DataError, ParameterError
from mccgr_cli.files.folders import Skipped
from mccgr_cli.system.phases import advance
from mccgr_cli.texts.read import Text, UnusableText, read_text
from mccgr_cli.texts.settings import FEW_TEXTS, Counting

UNKNOWN_WORDS = "none of its words is counted"
LONGEST_LIST = 10_000_000  # bytes of a file of stop words


@dataclass(frozen=True)
class Vocabulary:
    """The words that are counted, and what must be known to count them again."""

    words: list[str]
    ngrams: str
    stop_words: list[str]  # they matter for pairs of words


@dataclass
class CountedTexts:
    """The texts that can be used, and a row of counts for each of them."""

    vocabulary: Vocabulary
    X: Any = None  # (texts, words), sparse
    names: list[str] = field(default_factory=list)
    labels: list[str | None] = field(default_factory=list)
    skipped: list[Skipped] = field(default_factory=list)
    western: int = 0  # texts that are not Unicode
    left_out: dict[str, int] = field(default_factory=dict)  # numbers of words, by reason
    sha256: str = ""  # of the names and contents


def learn_words(texts: Iterable[Text], counting: Counting, where: str) -> CountedTexts:
    """Count the words of texts, and choose those to keep."""
    stop_words = stop_words_of(counting.stop_words)
    found = CountedTexts(Vocabulary([], counting.ngrams, stop_words))
    counter = vectorizer(found.vocabulary)
    try:
        X = count(counter.fit_transform, texts, found)
    except ValueError:  # no text has any word
        raise nothing_left(found, where) from None
    keep, found.left_out = chosen_words(X, counting)
    if not keep.any():
        why = "; ".join(f"{number} {reason}" for reason, number in found.left_out.items() if number)
        raise DataError(where, f"no word is left: {why}", "give other --min-df and --max-df, or more texts")
    words = counter.get_feature_names_out()[keep].tolist()
    found.vocabulary = Vocabulary(words, counting.ngrams, stop_words)
    return with_rows(found, X[:, np.flatnonzero(keep)], where)


def count_known(texts: Iterable[Text], vocabulary: Vocabulary, where: str) -> CountedTexts:
    """Count the words of a vocabulary in new texts."""
    found = CountedTexts(vocabulary)
    return with_rows(found, count(vectorizer(vocabulary).transform, texts, found), where)


def vectorizer(vocabulary: Vocabulary) -> Any:
    first, _, last = vocabulary.ngrams.partition("-")
    return CountVectorizer(
        vocabulary=vocabulary.words or None,
        stop_words=vocabulary.stop_words or None,
        ngram_range=(int(first), int(last or first)),
        dtype=np.int32,
    )


def count(counted: Callable[[Iterable[str]], Any], texts: Iterable[Text], found: CountedTexts) -> Any:
    """The counts of the usable texts, of which one at a time is in memory; what is known of them goes to ``found``."""
    digest = hashlib.sha256()

    def contents() -> Iterator[str]:
        for text in texts:
            advance(1, "texts")
            if text.fault:
                found.skipped.append(Skipped(text.name, text.fault))
                continue
            found.names.append(text.name)
            found.labels.append(text.label)
            found.western += text.is_western
            content = text.content.encode(errors="replace")
            digest.update(f"{hashlib.sha256(content).hexdigest()}  {text.name}\n".encode())
            yield text.content

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # stop words such as don't have parts that are no stop words
        X = sparse.csr_array(counted(contents()))
    found.sha256 = digest.hexdigest()
    return X


def chosen_words(X: Any, counting: Counting) -> tuple[Array, dict[str, int]]:
    """Which words are kept (d,), and how many are left out by which reason."""
    n, d = X.shape
    texts_with = np.bincount(X.indices, minlength=d)
    least = counting.min_df or (2 if n > FEW_TEXTS else 1)
    rare, common = texts_with < least, texts_with > counting.max_df * n
    keep = ~(rare | common)
    most = counting.max_features or d
    further = max(0, int(keep.sum()) - most)
    if further:
        totals = np.where(keep, np.asarray(X.sum(axis=0)).ravel(), -1)
        keep = np.zeros(d, dtype=bool)
        keep[np.argsort(-totals, kind="stable")[:most]] = True
    reasons = {
        f"in fewer than {least} texts": int(rare.sum()),
        f"in more than {counting.max_df:g} of the texts": int((common & ~rare).sum()),
        f"beyond --max-features {most}": further,
    }
    return keep, reasons


def with_rows(found: CountedTexts, X: Any, where: str) -> CountedTexts:
    """The counted texts without those that have no word."""
    some = np.diff(X.indptr) > 0
    empty = np.flatnonzero(~some)
    found.skipped += [Skipped(found.names[i], UNKNOWN_WORDS) for i in empty.tolist()]
    if not some.any():
        raise nothing_left(found, where)
    if len(empty):
        X = X[np.flatnonzero(some)]
        found.names = [name for name, used in zip(found.names, some, strict=True) if used]
        found.labels = [label for label, used in zip(found.labels, some, strict=True) if used]
    found.X = X
    return found


def nothing_left(found: CountedTexts, where: str) -> DataError:
    if not found.skipped and not found.names:
        return DataError(where, "no text in it")
    if not found.skipped:
        return DataError(where, "its texts have no words that are counted", "give --stop-words none, or more texts")
    first, number = found.skipped[0], len(found.skipped)
    return DataError(where, f"none of {number} texts can be used; the first is {first.name}: {first.reason}")


def stop_words_of(given: str) -> list[str]:
    """The stop words of the list that an option names, or in a file."""
    if given == "none":
        return []
    if given == "english":
        return sorted(ENGLISH_STOP_WORDS)
    try:
        content, _ = read_text(given, LONGEST_LIST)
    except UnusableText as fault:
        where = str(Path(given))
        raise ParameterError("--stop-words", f"{where}: {fault}", "give english, none or a file of words") from None
    return sorted(set(CountVectorizer().build_analyzer()(content)))
