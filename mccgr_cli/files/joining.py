"""What two files say of the same samples or features is joined by their names."""

from __future__ import annotations

from collections.abc import Collection, Sequence

SHOWN_NAMES = 3


def only_in(names: Sequence[str], others: Collection[str]) -> list[str]:
    """The names that are not among the others."""
    known = set(others)
    return [name for name in names if name not in known]


def such_as(names: Sequence[str]) -> str:
    """A few of the names, for messages.

    >>> such_as(["a", "b", "c", "d"]), such_as([])
    (" ('a', 'b', 'c', ...)", '')
    """
    shown = [repr(name) for name in names[:SHOWN_NAMES]] + ["..."] * (len(names) > SHOWN_NAMES)
    return f" ({', '.join(shown)})" if names else ""
