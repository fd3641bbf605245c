"""Work in a process of its own, so that a library that dies takes nothing else along."""

from __future__ import annotations

import contextlib
import os
import pickle
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from .cases import Case, Corpus, make_case

Result = TypeVar("Result")
BATCH = 20


def apart(work: Callable[[], Result]) -> Result | None:
    """What the work returns in another process; None if that dies."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        with contextlib.suppress(BaseException), os.fdopen(writing, "wb") as pipe:
            pickle.dump(work(), pipe)
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        answer = pipe.read()
    os.waitpid(pid, 0)
    try:
        result: Result = pickle.loads(answer)
    except (EOFError, pickle.UnpicklingError):
        return None
    return result


def made_apart(seed: int, numbers: Iterable[int], corpus: Corpus) -> Iterator[Case]:
    """The cases of these numbers. HDF5 may die of what it is made to write: then each is made alone, or left out."""
    left = list(numbers)
    while left:
        batch, left = left[:BATCH], left[BATCH:]
        cases = apart(lambda batch=batch: [make_case(seed, number, corpus) for number in batch])
        if cases is None:
            alone = (apart(lambda number=number: make_case(seed, number, corpus)) for number in batch)
            cases = [case for case in alone if case is not None]
        yield from cases
