"""Command lines: valid ones for every kind of file, and what can be done to them."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, TypeAlias

import click
import numpy as np

from mccgr_cli.catalog import EXPORT_FORMATS
from mccgr_cli.cli import COMMANDS, main

from .corpus import EXPERIMENT, EXTRACT, RANK, Seed

Rng: TypeAlias = np.random.Generator

FACTORIZE = ("--k", "2", "--iterations", "5")
# By kind of file, the commands that take one; {} is where.
TEMPLATES: dict[str, tuple[tuple[str, ...], ...]] = {
    "matrix": (
        ("info", "{}"),
        ("info", "{}", "--format", "json"),
        ("info", "{}", "--transpose"),
        ("graph", "{}", "--neighbors", "2"),
        ("graph", "{}", "--neighbors", "2", "--dtype", "float32"),
        ("factorize", "{}", *FACTORIZE),
        ("factorize", "{}", *FACTORIZE, "--dtype", "float32"),
        ("factorize", "{}", *FACTORIZE, "--solver", "coordinate"),
        ("factorize", "{}", *FACTORIZE, "--method", "kl", "--init", "random"),
        ("cluster", "{}", "--k", "2", "--restarts", "1"),
        ("transform", "factors.h5", "{}"),
        ("evaluate", "clusters.h5", "--labels", "{}"),
        *(("export", "{}", "--format", form) for form in ("csv", "npz", "mat", "mtx", "h5ad")),
        ("export", "factors.h5", "--matrix", "{}", "--format", "h5ad"),
        ("experiment", "{}", "--k", "2", "--runs", "1", "--methods", "l2,k-means", "--iterations", "5", "--jobs", "0"),
    ),
    "graph": (
        ("info", "{}"),
        ("factorize", "matrix.h5", *FACTORIZE, "--graph", "{}"),
        ("export", "{}", "--format", "csv"),
        ("export", "clusters.h5", "--graph", "{}", "--format", "h5ad"),
    ),
    "factors": (
        ("info", "{}"),
        ("info", "{}", "--format", "json"),
        ("cluster", "{}", "--restarts", "1"),
        ("cluster", "{}", "--assign", "max"),
        ("transform", "{}", "matrix.h5"),
        ("factorize", "matrix.h5", *FACTORIZE, "--init", "{}"),
        ("plot", "{}"),
        ("plot", "{}", "--figure", "weights"),
        ("plot", "{}", "--figure", "basis", "--shape", "2x4"),
        ("plot", "{}", "--figure", "embedding"),
        ("plot", "factors.h5", "{}", "--figure", "convergence"),
        *(("export", "{}", "--format", form) for form in EXPORT_FORMATS),
    ),
    "clusters": (
        ("info", "{}"),
        ("evaluate", "{}"),
        ("evaluate", "{}", "--format", "json"),
        ("evaluate", "clusters.h5", "--labels", "{}"),
        ("cluster", "{}", "--restarts", "1"),
        ("transform", "{}", "matrix.h5"),
        ("plot", "{}", "--figure", "embedding"),
        ("plot", "{}", "--figure", "dots"),
        ("top", "{}"),
        ("predict", "{}", "matrix.h5"),
        *(("export", "{}", "--format", form) for form in EXPORT_FORMATS),
        ("report", "{}"),
        ("report", "clusters.h5", "--labels", "{}"),
    ),
    "results": (
        ("info", "{}"),
        *(("table", "{}", "--format", style) for style in ("table", "csv", "json", "latex", "markdown")),
        ("table", "{}", "--against", "l2", "--score", "ari,purity"),
        *(("plot", "{}", "--figure", figure) for figure in ("scores", "sweep", "iterations")),
        ("plot", "{}", "--only", "k=2"),
        *(("export", "{}", "--format", form) for form in ("npz", "mat")),
    ),
    "labels": (("evaluate", "clusters.h5", "--labels", "{}"), ("info", "{}")),
    "codebook": (
        ("extract", "images", "--codebook", "{}", "--jobs", "0"),
        ("info", "{}"),
        ("factorize", "{}", "--k", "2", "--iterations", "5"),
    ),
    "texts": (
        ("extract", "{}"),
        ("extract", "texts", "--stop-words", "none", "--ngrams", "1-2"),
        ("predict", "topics.h5", "{}", "--codebook", "words.h5"),
        ("extract", "{}", "--codebook", "words.h5"),
    ),
    "words": (
        ("info", "{}"),
        ("factorize", "{}", "--k", "2", "--iterations", "5"),
        ("extract", "texts", "--codebook", "{}"),
        ("predict", "topics.h5", "texts", "--codebook", "{}"),
        ("transform", "weights.h5", "{}"),
        ("top", "{}", "--of", "clusters"),
    ),
    "ranks": (("info", "{}"), ("plot", "{}")),
    "image": (
        ("extract", "images", *EXTRACT),
        ("extract", "{}", *EXTRACT),
        ("extract", "{}", *EXTRACT, "--detector", "keypoints"),
        ("extract", "images", "--codebook", "codebook.h5", "--jobs", "0"),
        ("extract", "images", *EXTRACT, "--strict"),
    ),
    "checkpoint": (
        ("info", "{}"),
        ("cluster", "{}"),
        ("evaluate", "{}"),
        ("top", "{}"),
        ("plot", "{}"),
        ("transform", "{}", "matrix.h5"),
        *(("export", "{}", "--format", form) for form in EXPORT_FORMATS),
        ("factorize", "--resume", "{}"),
        ("factorize", "--resume", "{}", "--checkpoint-every", "0"),
        ("factorize", "matrix.h5", *FACTORIZE, "--checkpoint", "{}"),
    ),
    "journal": (("experiment", "matrix.h5", *EXPERIMENT, "-o", "trials.h5"),),
    "rank journal": (("rank", "matrix.h5", *RANK, "-o", "k.h5"),),
}
WRITERS = ("extract", "graph", "factorize", "cluster", "transform", "experiment", "plot", "report", "export")
HDF5 = ("h5", "hdf5", "h5ad", "mat")

# Options of which a large value means much work, which is no fault.
LONG = ("--iterations", "--restarts", "--runs", "--cluster-restarts", "--k")
FORBIDDEN = ("--scheduler", "--jobs")
SMALL = (
    "",
    "0",
    "-1",
    "1",
    "nan",
    "-0",
    "1e3",
    "0x10",
    "\uff15",
    "½",
    "2.0",
    " 2",
    "2,",
    "x",
    "None",
    "é\u202e",
    "\udcff",
    "a\nb",
)
LARGE = (
    "inf",
    "1e300",
    "1e-300",
    "1e100",
    "1e30",
    "10" * 12,
    "2400",
    "10000",
    "40x40",
    "1x999999",
    "2-101",
    "1000PB",
    "10MB",
)
NAMES = (
    *("-", "--", "::", "::X", ".", "/dev/null", "/dev/full", "/dev/stdin", "/proc/self/mem", "missing.h5", "images"),
    *("matrix.h5", "matrix.h5::", "matrix.h5::X", "matrix.h5::/", "matrix.h5::..", "matrix.h5::X/X", "plain.h5::deep"),
    *("factors.h5::W", "results.h5", "graph.h5", "nowhere/out.h5", "x" * 300, "out.svg", "out.h5", "a::b::c"),
)


def one_of(rng: Rng, choice: Sequence[Any]) -> Any:
    return choice[int(rng.integers(len(choice)))]


def command_line(rng: Rng, seed: Seed) -> list[str]:
    """A valid command on a file, with some of the options that it can have."""
    template = one_of(rng, TEMPLATES.get(seed.kind, (("info", "{}"),)))
    name = seed.name + (seed.labels if "--labels" in template and rng.random() < 0.8 else "")
    arguments = [name if word == "{}" else word for word in template]
    if seed.kind == "matrix" and "--labels" not in arguments and rng.random() < 0.7:
        arguments += seed.options
    if rng.random() < 0.3:
        arguments += valid_option(rng, arguments[0])
    if arguments[0] in WRITERS:
        arguments += output(rng, arguments)
        arguments += ["-q"] if rng.random() < 0.7 else []
    return arguments


def output(rng: Rng, arguments: list[str]) -> list[str]:
    if "-o" in arguments:
        return []
    suffixes = {"plot": ("svg", "png", "pdf"), "report": ("html",)}.get(arguments[0], ("h5",))
    suffix = one_of(rng, suffixes)
    if arguments[0] == "export":
        suffix = arguments[arguments.index("--format") + 1] if "--format" in arguments else "csv"
    streams = [["-o", "-"]] if arguments[0] != "experiment" else []
    return one_of(rng, [["-o", f"out.{suffix}"], [], *streams])


@cache
def options_of(command: str) -> list[click.Option]:
    """All options of a command but those that are left alone."""
    found = main.get_command(click.Context(main), command)
    assert found is not None
    named = [option for option in found.params if isinstance(option, click.Option)]
    return [option for option in named if not set(option.opts) & {*FORBIDDEN, "-o", "--help"}]


def valid_option(rng: Rng, command: str) -> list[str]:
    """An option with one of the words that it takes."""
    choices = [option for option in options_of(command) if isinstance(option.type, click.Choice)]
    if not choices:
        return []
    option = one_of(rng, choices)
    return [option.opts[0], str(one_of(rng, list(option.type.choices)))]


# What can be done to a command line


def odd_value(rng: Rng, option: str) -> str:
    pools = (SMALL, NAMES) if option in LONG else (SMALL, LARGE, NAMES)
    return str(one_of(rng, one_of(rng, pools)))


def drop(rng: Rng, arguments: list[str]) -> None:
    del arguments[int(rng.integers(len(arguments)))]


def duplicate(rng: Rng, arguments: list[str]) -> None:
    position = int(rng.integers(len(arguments)))
    arguments[position:position] = arguments[position : position + int(rng.integers(1, 3))]


def replace(rng: Rng, arguments: list[str]) -> None:
    """Give an odd value to an option, or instead of the file."""
    position = int(rng.integers(1, len(arguments))) if len(arguments) > 1 else 0
    arguments[position] = odd_value(rng, arguments[position - 1])


def add_odd_option(rng: Rng, arguments: list[str]) -> None:
    command = arguments[0] if arguments[0] in COMMANDS else one_of(rng, COMMANDS)
    option = one_of(rng, options_of(command))
    arguments += [option.opts[0]] if option.is_flag else [option.opts[0], odd_value(rng, option.opts[0])]


def add_foreign_option(rng: Rng, arguments: list[str]) -> None:
    arguments += valid_option(rng, one_of(rng, COMMANDS))


def add_unknown(rng: Rng, arguments: list[str]) -> None:
    arguments.insert(
        int(rng.integers(len(arguments) + 1)), one_of(rng, ("--colour", "--k=", "-x", "--no-k", "--help", "-vq"))
    )


def change_command(rng: Rng, arguments: list[str]) -> None:
    arguments[0] = one_of(rng, (*COMMANDS, "clutser", "", "--version"))


def name_inside(rng: Rng, arguments: list[str]) -> None:
    """Ask for something within the file."""
    if len(arguments) > 1:
        inner = (
            "X",
            "Y",
            "/",
            "..",
            ".",
            "X/",
            "//X",
            "obs",
            "obs/type",
            "deep/M",
            "bag",
            "é",
            "X" * 300,
            "kind",
            "1",
            "\n",
        )
        arguments[1] += f"::{one_of(rng, inner)}"


def change_labels(rng: Rng, arguments: list[str]) -> None:
    arguments += [
        "--label-key",
        one_of(rng, ("X", "", "/", "Y", "obs/type", "type", "number", "kind", "id", "3", "99", "é", "gnd")),
    ]


CHANGES: tuple[Callable[[Rng, list[str]], None], ...] = (
    *(drop, duplicate, replace, replace, add_odd_option, add_odd_option, add_foreign_option, add_unknown),
    *(change_command, name_inside, change_labels),
)


def changed(rng: Rng, arguments: list[str]) -> tuple[list[str], str]:
    """Another command line, and what was done last."""
    arguments = list(arguments)
    name = ""
    for _ in range(int(rng.integers(1, 3))):
        if arguments:
            change = one_of(rng, CHANGES)
            change(rng, arguments)
            name = change.__name__
    return harmless(arguments), name


def harmless(arguments: list[str]) -> list[str]:
    """Neither other processes nor much work, and no output but in the folder where it runs."""
    arguments = [word for word in arguments if word not in FORBIDDEN]
    for position, (before, word) in enumerate(itertools.pairwise(arguments), 1):
        if before in ("-o", "--output") and word.startswith("/"):
            arguments[position] = "nowhere/out.h5"
    if arguments[:1] == ["experiment"] and "--runs" not in arguments:
        arguments += ["--runs", "1"]
    return [*arguments, "--jobs", "0"] if arguments[:1] in (["experiment"], ["extract"]) else arguments
