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

# In reading order: a folder imports from itself and from those after it, never from those before it.
LAYERS = (
    *(
        "cli",
        "estimator",
        "api",
        "output",
        "workflow",
        "images",
        "texts",
        "core",
        "distributed",
        "files",
        "blocks",
        "system",
    ),
    *("catalog", "settings", "fields", "errors"),
)
# Each of these libraries is imported in one folder (or module) only.
CONFINED = {
    "click": ("cli",),
    "rich": ("cli",),
    "h5py": ("files", "output.export"),  # output.export: AnnData's files
    "cv2": ("images",),
    "PIL": ("images",),
    "pillow_heif": ("images",),
    "onnxruntime": ("images.network.engines",),
    "matplotlib": ("output.plots",),
    "jinja2": ("output.report",),
    "multiprocessing": ("system.processes",),
    "dask": ("distributed",),
    "distributed": ("distributed",),
    "tornado": ("distributed",),
    "numba": ("blocks.kernels",),
    "faiss": ("core.neighbours",),
}


def module_name(path: Path) -> str:
    return ".".join(path.relative_to(PACKAGE).with_suffix("").parts)


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
    module = module_name(path)
    layer = module.partition(".")[0]
    if layer in ("__init__", "__main__"):
        return
    for name in imported(path):
        library, _, inner = name.partition(".")
        below = inner.partition(".")[0]
        if library == "mccgr_cli" and below not in ("", "__version__"):
            assert LAYERS.index(below) >= LAYERS.index(layer), f"{module} imports {name}"
        if library in CONFINED:
            assert f"{module}.".startswith(tuple(f"{home}." for home in CONFINED[library])), (
                f"{module} imports {library}"
            )


def test_first_level_is_short_and_every_folder_introduces_itself():
    folders = [entry for entry in PACKAGE.iterdir() if entry.is_dir() and entry.name != "__pycache__"]
    files = [entry for entry in PACKAGE.iterdir() if entry.suffix == ".py"]
    assert len(folders) <= 10
    assert len(files) <= 8
    assert {entry.stem for entry in (*folders, *files)} - {"__init__", "__main__"} == set(LAYERS)
    for folder in folders:
        assert "May import: " in (ast.get_docstring(ast.parse((folder / "__init__.py").read_text())) or ""), folder


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
        "import sys\nfrom mccgr_cli.core import metrics\nfrom mccgr_cli.files import readers\n"
        "from mccgr_cli.workflow import checkpoints, stages\n"
        "slow = {'scipy.optimize', 'scipy.sparse.csgraph', 'scipy.spatial', 'scipy.special', 'sklearn'}\n"
        "assert not slow & set(sys.modules), slow & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
