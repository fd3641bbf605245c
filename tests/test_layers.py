"""Imports point one way, heavy ones wait until they are needed, and nothing goes undocumented."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import click
import pytest

import mccgr_cli
from mccgr_cli.cli import COMMANDS, main

PACKAGE = Path(mccgr_cli.__file__).parent
MODULES = sorted(PACKAGE.rglob("*.py"))
ROOT = PACKAGE.parent

# From the top down: a module imports only from its own layer and those below it.
LAYERS = (
    ("cli",),
    ("estimator",),
    ("api", "checkpoints", "comparison", "estimate", "experiment", "exporting", "plots", "ranking", "report"),
    ("provenance", "stages"),
    ("solver", "metrics"),
    ("axes", "clustering", "features", "graph", "initialize", "methods", "neighbours"),
    ("distributed",),
    ("readers",),
    ("journal", "manifest"),
    ("container", "storage"),
    ("stored",),
    ("normalize",),
    ("products",),
    ("compiled",),
    ("memory", "outofcore"),
    ("blocks", "settings", "workers"),
    ("interrupts", "locks"),
    ("errors",),
)
CONFINED = {
    "click": ("cli",),
    "rich": ("cli",),
    "h5py": ("container", "exporting", "readers", "stored"),  # exporting: AnnData's files
    "cv2": ("features",),
    "PIL": ("features",),
    "matplotlib": ("plots",),
    "multiprocessing": ("workers",),
    "dask": ("distributed",),
    "distributed": ("distributed",),
    "tornado": ("distributed",),
    "numba": ("compiled",),
    "faiss": ("neighbours",),
}


def layer_name(path: Path) -> str:
    return path.relative_to(PACKAGE).with_suffix("").parts[0]


def imported(path: Path) -> set[str]:
    names = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.add(node.module)
            if node.module == "mccgr_cli":
                names |= {f"mccgr_cli.{alias.name}" for alias in node.names}
    return names


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_imports_point_down(path):
    height = {name: len(LAYERS) - i for i, layer in enumerate(LAYERS) for name in layer}
    own = layer_name(path)
    if own in ("__init__", "__main__"):
        return
    for name in imported(path):
        parts = name.split(".")
        if parts[0] == "mccgr_cli" and len(parts) > 1 and parts[1] != "__version__":
            assert height[parts[1]] <= height[own], f"{own} imports {name}"
        if parts[0] in CONFINED:
            assert own in CONFINED[parts[0]], f"{own} imports {parts[0]}"


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], *([name, "--help"] for name in COMMANDS)])
def test_help_loads_nothing_heavy(arguments):
    code = (
        "import sys\nfrom mccgr_cli.cli import main\n"
        f"try:\n    main({arguments!r}, prog_name='mccgr')\nexcept SystemExit: pass\n"
        "heavy = {'numpy', 'scipy', 'sklearn', 'h5py', 'rich', 'cv2', 'PIL', 'multiprocessing', 'matplotlib'}\n"
        "heavy |= {'dask', 'distributed'}\n"
        "assert not heavy & set(sys.modules), heavy & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)


def commands():
    context = click.Context(main, info_name="mccgr")
    return [(name, main.get_command(context, name)) for name in main.list_commands(context)]


@pytest.mark.parametrize(("name", "command"), commands())
def test_every_command_has_help_examples_and_a_manual_page(name, command):
    assert f"mccgr {name}" in command.help.partition("Examples:")[2]
    assert all(option.help for option in command.params if isinstance(option, click.Option))
    assert (ROOT / "man" / f"mccgr-{name}.1").exists()


def test_module_and_script_are_the_same_command():
    done = subprocess.run([sys.executable, "-m", "mccgr_cli", "--version"], check=True, capture_output=True, text=True)
    assert done.stdout.split() == ["mccgr,", "version", mccgr_cli.__version__]


def test_commands_load_what_is_slow_to_load_only_when_they_need_it():
    code = (
        "import sys, mccgr_cli.checkpoints, mccgr_cli.metrics, mccgr_cli.readers, mccgr_cli.stages\n"
        "slow = {'scipy.optimize', 'scipy.sparse.csgraph', 'scipy.spatial', 'scipy.special', 'sklearn'}\n"
        "assert not slow & set(sys.modules), slow & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
