"""Many cases, shared by some processes, and what came of them."""

from __future__ import annotations

import gc
import json
import os
import shlex
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, Any

from .apart import made_apart
from .cases import Case, Corpus
from .corpus import make_corpus
from .run import FAILURES, GOOD, Place, Result, run_case

FOUND = Path(__file__).parent / "found"
EVERY = 10.0  # seconds between lines of progress
MOST_SHOWN = 5  # failures with the same explanation


@dataclass(frozen=True)
class Told:
    """A case and its result, as they come from another process."""

    number: int
    format: str
    mutation: str
    command: str
    line: str
    outcome: str
    message: str
    seconds: float
    memory: int


def temporary_folder() -> tempfile.TemporaryDirectory[str]:
    """In memory if it can be: there, to write safely takes no time."""
    return tempfile.TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None)


def load_corpus() -> Corpus:
    with temporary_folder() as folder:
        return Corpus(make_corpus(Path(folder)))


def told(case: Case, result: Result) -> Told:
    line = shlex.join(["mccgr", *case.arguments])
    about = (case.number, case.format, case.mutation, case.command, line)
    return Told(*about, result.outcome, result.message, result.seconds, result.memory)


# Many


def run_cases(seed: int, numbers: range, jobs: int) -> int:
    """Run them, tell what came of them; 1 if any failed."""
    corpus = load_corpus()
    gc.freeze()  # so that a child does not copy what it only looks at
    began, due = time.monotonic(), time.monotonic() + EVERY
    results: list[Told] = []
    with temporary_folder() as folder:
        for one in shared(seed, numbers, jobs, corpus, Path(folder)):
            results.append(one)
            if time.monotonic() > due:
                due = time.monotonic() + EVERY
                failed = sum(one.outcome in FAILURES for one in results)
                print(f"{len(results)}/{len(numbers)} cases, {failed} failures", file=sys.stderr, flush=True)
    print(report(results, time.monotonic() - began))
    return int(any(one.outcome in FAILURES for one in results))


def shared(seed: int, numbers: range, jobs: int, corpus: Corpus, folder: Path) -> Iterator[Told]:
    """The results of all cases as they come, from processes that take every so many-th."""
    reading, writing = os.pipe()
    for job in range(jobs):
        if os.fork() == 0:
            os.close(reading)
            try:
                with os.fdopen(writing, "w", buffering=1) as pipe:
                    work(seed, numbers[job::jobs], corpus, folder / str(job), pipe)
                os._exit(0)
            except BaseException:
                import traceback

                traceback.print_exc()
            finally:
                os._exit(1)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        for line in pipe:
            yield Told(**json.loads(line))
    if any(os.wait()[1] for _ in range(jobs)):
        raise RuntimeError("a process that ran cases has failed")


def work(seed: int, numbers: Iterable[int], corpus: Corpus, folder: Path, pipe: IO[str]) -> None:
    folder.mkdir()
    place = Place(folder)
    for case in made_apart(seed, numbers, corpus):
        # a line longer than the pipe takes at once would mix with those of others
        one = asdict(told(case, run_case(case, place)))
        short = {name: value[:1000] if isinstance(value, str) else value for name, value in one.items()}
        pipe.write(json.dumps(short) + "\n")


def report(results: list[Told], seconds: float) -> str:
    counts = Counter(one.outcome for one in results)
    lines = [f"{len(results)} cases in {seconds:.0f} s", ""]
    lines += [f"{counts[outcome]:7} {outcome}" for outcome in (*GOOD, *FAILURES) if counts[outcome]]
    for title in ("command", "format", "mutation"):
        lines += ["", f"by {title}", *tabulated(results, title)]
    slowest = max(results, key=lambda one: one.seconds)
    largest = max(results, key=lambda one: one.memory)
    lines += ["", f"slowest: {slowest.seconds:.1f} s, case {slowest.number}: {slowest.line[:150]}"]
    lines += [f"largest: {largest.memory >> 20} MB, case {largest.number}: {largest.line[:150]}"]
    return "\n".join([*lines, *failures(results)])


def tabulated(results: list[Told], title: str) -> Iterator[str]:
    """How often what came of cases that have something in common."""
    groups: dict[str, Counter[str]] = defaultdict(Counter)
    for one in results:
        groups[getattr(one, title).partition(" + ")[0] or "none"][one.outcome] += 1
    for name in sorted(groups):
        cells = (f"{outcome} {groups[name][outcome]}" for outcome in (*GOOD, *FAILURES) if groups[name][outcome])
        yield f"  {name[:40]:40} {', '.join(cells)}"


def failures(results: list[Told]) -> Iterator[str]:
    """Those with the same explanation together; and which had too little memory, which is no failure."""
    groups: dict[tuple[str, str], list[Told]] = defaultdict(list)
    for one in sorted(results, key=lambda one: one.number):
        if one.outcome in (*FAILURES, "exhausted"):
            groups[one.outcome, one.message].append(one)
    for (outcome, message), alike in sorted(groups.items(), key=lambda item: -len(item[1])):
        yield f"\n{outcome} x {len(alike)}: {message}"
        for one in alike[:MOST_SHOWN]:
            yield f"  case {one.number} ({one.format}; {one.mutation}): {one.line[:200]}"


# One


def show_case(seed: int, number: int, keep: Path | None) -> int:
    """Run a case again, and tell all about it."""
    corpus = load_corpus()
    with temporary_folder() as temporary:
        folder = Path(temporary) if keep is None else keep
        folder.mkdir(parents=True, exist_ok=True)
        place = Place(folder.resolve())
        (case,) = made_apart(seed, [number], corpus)
        result = run_case(case, place)
        if keep is not None:
            place.prepare(case)
            print(f"cd {place.case}")
    print(shlex.join(["mccgr", *case.arguments]) + (f"  # with {len(case.stdin)} bytes on stdin" if case.stdin else ""))
    print(f"{case.format}; {case.mutation}\n\n{result.stderr}")
    print(f"{result.outcome}: {result.message}  ({result.seconds:.2f} s, {result.memory >> 20} MB)")
    return int(result.failed)


# Those that failed before


def read_index() -> list[str]:
    """Of each: the file in the folder, its name when the command runs, and the command; - where there is no file."""
    lines = (FOUND / "index.txt").read_text().splitlines()
    return [line for line in lines if line.strip() and not line.startswith("#")]


def found_case(entry: list[str], corpus: Corpus) -> Case:
    stored, name, *arguments = entry
    files = corpus.companions(arguments)
    stdin = b""
    if name == "-" and stored != "-":
        stdin = (FOUND / stored).read_bytes()
    elif stored != "-":
        files[name] = (FOUND / stored).read_bytes()
    return Case(arguments, files, stdin, "found", stored)


def replay() -> int:
    """Run all of them again, and print what came of each as JSON."""
    corpus = load_corpus()
    results: dict[str, Any] = {}
    with temporary_folder() as folder:
        place = Place(Path(folder))
        for line in read_index():
            result = run_case(found_case(shlex.split(line), corpus), place)
            results[line] = [result.outcome, result.message]
    print(json.dumps(results, indent=1))
    return int(any(outcome in FAILURES for outcome, _ in results.values()))
