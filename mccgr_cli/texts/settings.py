"""Settings of texts: defaults, bounds and help texts, as in :mod:`mccgr_cli.settings`."""

from __future__ import annotations

from dataclasses import dataclass

from mccgr_cli.fields import Bounds, text_option, whole

KINDS = IMAGES, TEXTS = ("images", "texts")
STOP_WORDS = ("english", "none")
NGRAMS = ("1", "1-2", "1-3", "2", "3")
COUNTS_OF, WORDS = "counts_of", "words"  # attribute of a matrix file: what its numbers count
FEW_TEXTS = 20  # up to which a word of a single text counts


@dataclass(frozen=True)
class TextInput:
    """Where texts are, and which are too long."""

    kind: str | None = text_option(
        None,
        "What a folder holds.",
        values=KINDS,
        default_text="images if there is any image in it, otherwise texts",
    )
    text_field: str | None = text_option(
        None,
        "Field of a .jsonl file, or column of a .csv file, that holds the text, in upper or lower case.",
        metavar="NAME",
        default_text="text",
    )
    label_field: str | None = text_option(
        None, "Field or column that holds the label.", metavar="NAME", default_text="label, if there is one"
    )
    id_field: str | None = text_option(
        None, "Field or column that holds the name of the text.", metavar="NAME", default_text="id, if there is one"
    )
    max_text: int = text_option(10_000_000, "Skip texts with more bytes.", values=whole(1, 10**9), metavar="BYTES")


@dataclass(frozen=True)
class Counting:
    """Which words of a text are counted."""

    stop_words: str = text_option(
        "english",
        "Words that are never counted. english: the list of scikit-learn. none: count all. FILE: a list of your own, "
        "separated by blanks or lines.",
    )
    min_df: int | None = text_option(
        None,
        "Leave out words that fewer texts have.",
        values=whole(1),
        default_text=f"2, or 1 for up to {FEW_TEXTS} texts",
    )
    max_df: float = text_option(
        0.5,
        "Leave out words that more than this fraction of the texts have.",
        values=Bounds(1e-6, 1),
        metavar="FRACTION",
    )
    ngrams: str = text_option(
        "1", "Count words (1), also pairs of words that follow each other (1-2), or only pairs (2).", values=NGRAMS
    )
    max_features: int | None = text_option(
        50_000, "Maximum number of words. If there are more, the most frequent are kept.", values=whole(2)
    )
