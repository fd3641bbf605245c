"""How the letters of a text are stored as bytes."""

from __future__ import annotations

import codecs

MARKS = {  # the longest first: UTF-32 begins like UTF-16
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF8: "utf-8-sig",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
LONGEST_MARK = max(map(len, MARKS))
WESTERN = "cp1252"  # of most texts that are not Unicode; it contains the letters of Latin-1


def marked_encoding(start: bytes) -> str | None:
    """The encoding that the first bytes of a text name by a byte-order mark."""
    return next((encoding for mark, encoding in MARKS.items() if start.startswith(mark)), None)
