"""What the tests share: planted problems, and a way to run the command in this process."""

from __future__ import annotations

import os

# Tests share the cores: a thread that has nothing to do must wait, not spin. Libraries read this when they are loaded,
# here and in the processes that tests start; how many threads there are stays as it is for users.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")
os.environ.setdefault("OPENBLAS_THREAD_TIMEOUT", "4")

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import settings
from threadpoolctl import threadpool_limits

from mccgr_cli.cli import main
from mccgr_cli.files import provenance
from mccgr_cli.files.atomic_write import write_files
from mccgr_cli.files.container import Contents, encode
from mccgr_cli.settings import GraphSettings, Settings, by_preset

ORACLES = Path(__file__).parent / "oracles"

# What the formulas and other programs are compared with has the settings of the paper.
paper = partial(by_preset, "paper", Settings)
paper_graph = partial(by_preset, "paper", GraphSettings)

# In the background of a shell interrupts are ignored, under nohup hang-ups, and children would inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)
if hasattr(signal, "SIGHUP"):
    signal.signal(signal.SIGHUP, signal.SIG_DFL)

# No test takes the power away: what is written need not reach the disk. Nor do versions of libraries change meanwhile.
# For commands in this process, that is a third of the time of those that compute little.
os.fsync = lambda _: None
provenance.version = cache(provenance.version)

# Machines are shared: how long an example takes says nothing.
settings.register_profile("mccgr", deadline=None, derandomize=True)
settings.load_profile("mccgr")


@contextmanager
def after_calls(count: int, module: ModuleType, function: str, end: Callable[[], object]) -> Iterator[None]:
    """``end`` is called before every call of a function but the first ``count``."""
    real, left = getattr(module, function), [None] * count

    def perform(*given: Any) -> Any:
        left.pop() if left else end()
        return real(*given)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, function, perform)
        yield


def interrupt() -> None:
    raise KeyboardInterrupt


@dataclass(frozen=True)
class Outcome:
    """What a user sees of a command."""

    status: int
    stdout: str
    stderr: str
    output: bytes


def run_mccgr(*arguments: object, stdin: bytes | None = None) -> Outcome:
    result = CliRunner().invoke(main, [str(a) for a in arguments], input=stdin, prog_name="mccgr")
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception  # a bug, not a message
    stdout = result.stdout_bytes.decode(errors="replace")
    return Outcome(result.exit_code, stdout, result.stderr, result.stdout_bytes)


@pytest.fixture
def mccgr() -> Callable[..., Outcome]:
    return run_mccgr


@pytest.fixture
def refused(mccgr: Callable[..., Outcome]) -> Callable[..., str]:
    """Run a command that must fail, and return its message, which must be one line."""

    def run(*arguments: object, status: int = 1, stdin: bytes | None = None) -> str:
        outcome = mccgr(*arguments, stdin=stdin)
        lines = outcome.stderr.strip().splitlines()
        assert outcome.status == status, outcome.stderr
        assert len(lines) == 1, outcome.stderr
        assert "Traceback" not in outcome.stderr
        assert outcome.output == b""
        return lines[0]

    return run


@pytest.fixture
def one_thread(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Tests share the machine: threads of small problems would wait for each other most of the time."""
    import sklearn.cluster  # noqa: F401 (what is loaded later has as many threads as it likes)

    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    with threadpool_limits(1):
        yield


@pytest.fixture
def quick_choice(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is chosen of the settings is chosen with fewer samples, where there are many."""
    monkeypatch.setattr("mccgr_cli.workflow.choice.LEAST_SAMPLE", 200)


def planted(n: int = 60, d: int = 24, k: int = 3, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """k groups of samples, each with features of its own, and some noise: X (n, d) and labels (n,)."""
    rng = np.random.default_rng(seed)
    labels = np.arange(n) % k
    centers = np.kron(np.eye(k), np.ones((1, d // k))) * 4 + 0.5
    return rng.gamma(4.0, centers[labels] / 4), labels


@pytest.fixture
def X_file(tmp_path: Path) -> Path:
    """A matrix file with three planted groups, labels and names."""
    X, labels = planted()
    contents = Contents(
        "matrix",
        {
            "X": X,
            "labels": labels,
            "label_names": ["ant", "bee", "cat"],
            "sample_names": [f"s{i}" for i in range(len(X))],
            "feature_names": [f"f{j}" for j in range(X.shape[1])],
        },
    )
    path = tmp_path / "X.h5"
    write_files({path: encode(contents)}, overwrite=False)
    return path


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """An installed Chromium; without one, tests are skipped."""
    from browsing import started_browser

    with started_browser() as started:
        yield started


@pytest.fixture
def visit(browser: Any) -> Iterator[Callable[..., Any]]:
    """Open a page in a context of its own. Whatever it complains of or asks for is a failure."""
    from browsing import Visits

    visits = Visits(browser)
    yield visits.go
    visits.end()


def relative_gap(ours: Any, theirs: Any) -> float:
    return float(np.abs(ours - theirs).max() / np.abs(theirs).max())
