"""What is built holds what users and testers need, and nothing else."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

import completions
import mccgr_cli

ROOT = Path(__file__).parent.parent
SOURCES = sorted(str(path.relative_to(ROOT)) for path in (ROOT / "mccgr_cli").rglob("*") if path.is_file())
DATA = f"mccgr_cli-{mccgr_cli.__version__}.data/data/share"
INFO = f"mccgr_cli-{mccgr_cli.__version__}.dist-info"


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheel and the sources, built without a network and without leaving anything behind."""
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "hatchling", "build", "-d", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    return folder


@pytest.mark.slow
def test_wheel_holds_package_manual_and_completions_and_nothing_else(built):
    (wheel,) = built.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        found = {name for name in archive.namelist() if not name.startswith(INFO)}
        about = archive.read(f"{INFO}/METADATA").decode()
        scripts = archive.read(f"{INFO}/entry_points.txt").decode()
    expected = {path for path in SOURCES if "__pycache__" not in path}
    expected |= {f"{DATA}/man/man1/{path.name}" for path in (ROOT / "man").iterdir()}
    expected |= {
        f"{DATA}/bash-completion/completions/mccgr",
        f"{DATA}/zsh/site-functions/_mccgr",
        f"{DATA}/fish/vendor_completions.d/mccgr.fish",
    }
    assert found == expected
    assert "mccgr = mccgr_cli.__main__:run" in scripts
    assert "License-Expression: BSD-3-Clause" in about
    assert "**mccgr clusters images" in about  # the README


def test_citation_is_of_this_version():
    assert f"\nversion: {mccgr_cli.__version__}\n" in (ROOT / "CITATION.cff").read_text()


@pytest.mark.slow
def test_sources_hold_what_tests_need(built):
    (sources,) = built.glob("*.tar.gz")
    with tarfile.open(sources) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    tests = [str(path.relative_to(ROOT)) for path in (ROOT / "tests").rglob("*.py")]
    needed = ["pyproject.toml", "LICENSE", "CITATION.cff", "README.md", "docs/COMMANDS.md", "man/mccgr.1", *tests]
    needed += ["scripts/test.sh", "scripts/generate.py", "sample_data/textures.h5", "completions/_mccgr", *SOURCES]
    assert [path for path in needed if path not in names and "__pycache__" not in path] == []
    assert not [name for name in names if name.startswith((".venv", ".git/", ".ci")) or name.endswith(".pyc")]


def test_zsh_keeps_the_function_of_its_file():
    name = completions.SHELLS["zsh"]
    text = (ROOT / "completions" / name).read_text()
    assert text.startswith("#compdef mccgr\n")
    assert f"\n{name}() {{\n" in text


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("bash") is None, reason="no bash here")
def test_bash_completes_commands_and_options():
    """As bash does it: the function of the file, called with words before the cursor."""
    file = ROOT / "completions" / completions.SHELLS["bash"]
    ask = 'COMP_WORDS=(mccgr "$@"); COMP_CWORD=$#; _mccgr_completion mccgr; printf "%s\\n" "${COMPREPLY[@]}"'
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    for words, wanted in ((["facto"], "factorize"), (["factorize", "--chec"], "--checkpoint")):
        call = ["bash", "-c", f'. "{file}"; {ask}', "bash", *words]
        done = subprocess.run(call, check=True, capture_output=True, text=True, env={**os.environ, "PATH": path})
        assert wanted in done.stdout.split()
