"""Run one case in a process of its own, within limits, and tell what came of it."""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import itertools
import os
import re
import resource
import select
import shutil
import signal
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import h5py
import numpy as np

from mccgr_cli.__main__ import run
from mccgr_cli.files.container import SCHEMA
from mccgr_cli.files.readers import load

from .arrays import UNPICKLED
from .cases import Case
from .watch import Watch

SECONDS = 10
MEMORY = 2 << 30
FILE_BYTES = 1 << 28

GOOD = ("done", "refused", "usage", "exhausted")
FAILURES = (
    *("traceback", "hang", "crash", "memory", "silent", "noise", "status", "leftovers", "changed", "invalid", "escape"),
)
MARK = 31337.0625  # every number in the file that links lead to
MARKED = (np.float64(MARK).tobytes(), np.float32(MARK).tobytes(), b"31337.0")
COUNTED_OUT = "mccgr: out of memory"


@dataclass(frozen=True)
class Result:
    """What came of a case."""

    outcome: str
    message: str  # the last line that it said, or what is wrong with what it did
    seconds: float
    memory: int  # bytes, at most
    stderr: str = ""

    @property
    def failed(self) -> bool:
        return self.outcome not in GOOD


@dataclass(frozen=True)
class Ended:
    """How a process ended, and what it said."""

    status: int  # negative: the signal that killed it
    late: bool
    seconds: float
    worked: float  # seconds of a processor
    memory: int
    stdout: bytes
    stderr: bytes
    fault: str  # of its output


class Place:
    """A folder where cases run one after the other, beside another that none may touch."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.case = root / "case"
        self.canary = root / "canary"
        self.canary.mkdir(exist_ok=True)
        with h5py.File(self.canary / "target.h5", "w") as file:
            file["X"] = np.full((12, 8), MARK)
            file["labels"] = np.full(12, int(MARK))
        (self.canary / "secret").write_bytes(np.full(200, MARK).tobytes())
        self.watch = Watch(self.canary)

    def prepare(self, case: Case) -> None:
        shutil.rmtree(self.case, ignore_errors=True)
        self.case.mkdir()
        for name, data in case.files.items():
            path = self.case / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
        (self.root / "stdin").write_bytes(case.stdin)
        (self.root / "fault").write_bytes(b"")

    def touched(self) -> str:
        """What happened to the other folder, if anything."""
        made = self.root / "canary" / Path(UNPICKLED).name
        if made.exists():
            made.rmdir()
            return "an array was unpickled"
        return ", ".join(sorted(self.watch.seen()))


def run_case(case: Case, place: Place) -> Result:
    """What comes of a case; one that had to wait for others on this machine has another chance."""
    for _ in range(3):
        place.prepare(case)
        ended = in_child(lambda: child(case, place), place)
        if not ended.late or ended.worked > SECONDS / 2:
            break
    outcome, message = judged(case, ended, place)
    stderr = ended.stderr.decode(errors="replace")
    return Result(outcome, message, ended.seconds, ended.memory, stderr)


# The process


def in_child(work: Callable[[], None], place: Place) -> Ended:
    began = time.monotonic()
    sys.stdout.flush()
    sys.stderr.flush()
    pid = os.fork()
    if pid == 0:
        try:
            work()
        finally:
            os._exit(99)
    handle = os.pidfd_open(pid)
    poll = select.poll()
    poll.register(handle, select.POLLIN)
    late = not poll.poll(SECONDS * 1000)
    os.close(handle)
    if late:
        os.kill(pid, signal.SIGKILL)
    _, status, usage = os.wait4(pid, 0)
    seconds = time.monotonic() - began
    said = [(place.root / name).read_bytes() for name in ("stdout", "stderr", "fault")]
    code = os.waitstatus_to_exitcode(status)
    worked = usage.ru_utime + usage.ru_stime
    return Ended(
        code, late, seconds, worked, usage.ru_maxrss * 1024, said[0], said[1], said[2].decode(errors="replace")
    )


def child(case: Case, place: Place) -> None:
    """The command as the shell would start it, and then a look at what it wrote."""
    atexit._clear()  # what the process that this one comes from is to tidy up
    redirect(place)
    set_limits()
    sys.argv = ["mccgr", *case.arguments]
    status = 0
    try:
        run()
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        traceback.print_exc()
        status = 1
    with contextlib.suppress(OSError):
        sys.stdout.flush()
    sys.stderr.flush()
    if status == 0:
        (place.root / "fault").write_text(fault_of_output(case, place.root / "stdout"), errors="replace")
    atexit._run_exitfuncs()
    ctypes.CDLL(None).exit(status)  # HDF5 and others end here, as they do in any process


def redirect(place: Place) -> None:
    os.chdir(place.case)
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        flags = os.O_RDONLY if number == 0 else os.O_WRONLY | os.O_CREAT | os.O_TRUNC
        opened = os.open(place.root / name, flags, 0o644)
        os.dup2(opened, number)
        os.close(opened)
    sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", encoding="utf-8", errors="backslashreplace", closefd=False)  # noqa: SIM115


def set_limits() -> None:
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS + 1))
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_FSIZE, (FILE_BYTES, FILE_BYTES))


def fault_of_output(case: Case, stdout: Path) -> str:
    """What is wrong with the files that a command wrote: each must be one that mccgr reads."""
    streamed = stdout.read_bytes()
    new = [path for path in Path().rglob("*.h5") if str(path) not in case.files]
    if streamed.startswith(b"\x89HDF") and case.command != "export":  # AnnData's files may have no X
        Path("streamed.h5").write_bytes(streamed)
        new.append(Path("streamed.h5"))
    for path in new:
        try:
            contents = load(str(path), kinds=tuple(SCHEMA)).contents
        except Exception as fault:
            return f"{path} cannot be read: {fault}"
        for name in ("W", "H", "rho"):
            if name in contents and not np.isfinite(contents[name]).all():
                return f"{path}: /{name} is not finite"
    return ""


# What came of it


def judged(case: Case, ended: Ended, place: Place) -> tuple[str, str]:
    """The outcome, and a line that explains it."""
    text = ended.stderr.decode(errors="replace")
    lines = [line for line in text.split("\n") if line.strip()]
    last = lines[-1] if lines else ""
    touched = place.touched()
    files = {str(path.relative_to(place.case)): path for path in place.case.rglob("*") if path.is_file()}
    if touched or escaped(ended, files, case):
        return "escape", touched or "numbers of another file in its output"
    if ended.late or -ended.status in (signal.SIGXCPU, signal.SIGKILL):
        return "hang", f"still running after {SECONDS} s; {last}"
    if ended.status < 0:
        return "crash", f"{signal.Signals(-ended.status).name}; {last}"
    if "Traceback (most recent call last)" in text:
        return "traceback", location(text)
    if ended.memory > MEMORY:
        return "memory", f"{ended.memory >> 20} MB"
    if ended.status not in (0, 1, 2):
        return "status", f"{ended.status}; {last}"
    if ended.status and not lines:
        return "silent", f"status {ended.status}"
    if (fault := noise(case, ended.status, lines)) is not None:
        return "noise", fault
    changed = [name for name, data in case.files.items() if is_changed(name, data, files, case, ended.status)]
    if changed:
        return "changed", f"{changed[0]} is not as it was; {last}"
    left = sorted(set(files) - set(case.files))
    if ended.status and left:
        return "leftovers", f"{', '.join(left)}; {last}"
    if ended.fault:
        return "invalid", ended.fault
    if ended.status == 0:
        return "done", last
    if ended.status == 1:
        return ("exhausted" if last.startswith(COUNTED_OUT) else "refused"), last
    return "usage", last


def escaped(ended: Ended, files: dict[str, Path], case: Case) -> bool:
    """Whether numbers of the file that links lead to are in what was said or written."""
    made = [path.read_bytes() for name, path in files.items() if name not in case.files]
    return any(mark in data for data in (ended.stdout, ended.stderr, *made) for mark in MARKED)


def noise(case: Case, status: int, lines: list[str]) -> str | None:
    """A line that is not ours: one who asks for quiet, or has a result printed, is told of nothing but a failure."""
    asked = any(word == "-q" and before != "-o" for before, word in itertools.pairwise(case.arguments))
    quiet = asked or case.command == "table"
    if (status == 2 and not {"--help", "-h"}.isdisjoint(case.arguments)) or not case.arguments:
        return None
    allowed = int(status != 0)
    if quiet and len(lines) > allowed:
        return f"{len(lines)} lines where {allowed} should be: {lines[0]}"
    return None


def is_changed(name: str, data: bytes, files: dict[str, Path], case: Case, status: int) -> bool:
    """Whether an input is another than before, which only an output may be that was to be overwritten, or removed."""
    ends = status == 0 and not {"--overwrite", "--resume", "--checkpoint"}.isdisjoint(case.arguments)
    if name.endswith(".part") or ends:
        return False
    return name not in files or files[name].read_bytes() != data


def location(text: str) -> str:
    """The last place of ours in a traceback, and what was raised."""
    frames = re.findall(r'File "[^"]*/(mccgr_cli/[^"]*)", line (\d+), in (\S+)', text)
    where = "{}:{} {}".format(*frames[-1]) if frames else "?"
    return f"{where}: {text.strip().splitlines()[-1][:200]}"
