"""Runs the code that a document shows, in order, as a reader would who types it all.

Blocks of ``python`` share their names, blocks of ``sh`` stop at the first command that fails, and both see the same
folder, in which ``sample_data`` is. A block of ``text`` that follows one is what it prints, where ``...`` stands for
anything. Other blocks are not run.
"""

from __future__ import annotations

import contextlib
import doctest
import io
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
BLOCK = re.compile(r"^```(python|sh)\n(.*?)^```\n(?:\n?```text\n(.*?)^```\n)?", re.DOTALL | re.MULTILINE)


@dataclass(frozen=True)
class Block:
    language: str
    code: str
    printed: str | None  # None: whatever it is
    line: int  # of the document, where the code begins


def blocks(document: str) -> Iterator[Block]:
    for found in BLOCK.finditer(document):
        yield Block(found[1], found[2], found[3], document.count("\n", 0, found.start()) + 2)


def run_document(path: Path, folder: Path) -> int:
    """Run the blocks of a document in a folder; how many there were."""
    (folder / "sample_data").symlink_to(ROOT / "sample_data")
    names: dict[str, Any] = {"__name__": "__main__"}
    found = list(blocks(path.read_text()))
    with contextlib.chdir(folder):
        for block in found:
            printed = run_python(block, path, names) if block.language == "python" else run_shell(block, path)
            if block.printed is not None:
                same = doctest.OutputChecker().check_output(block.printed, printed, doctest.ELLIPSIS)
                assert same, f"{path}:{block.line}: prints\n{printed}\ninstead of\n{block.printed}"
    return len(found)


def run_python(block: Block, path: Path, names: dict[str, Any]) -> str:
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        exec(compile("\n" * (block.line - 1) + block.code, str(path), "exec"), names)  # so that tracebacks name lines
    return printed.getvalue()


def run_shell(block: Block, path: Path) -> str:
    with_command = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    with_command["OMP_NUM_THREADS"] = "1"  # tests share the machine
    done = subprocess.run(["sh", "-eu", "-c", block.code], env=with_command, capture_output=True, text=True)
    assert done.returncode == 0, f"{path}:{block.line}: {done.stderr}"
    return done.stdout
