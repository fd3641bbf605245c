"""Options that several commands share, as decorators."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from mccgr_cli.cli.types import FILE, Bytes, Number, Scheduler, Whole, number
from mccgr_cli.errors import ParameterError
from mccgr_cli.settings import (
    ALTERNATIVES,
    Description,
    Drawing,
    GraphSettings,
    Learning,
    Settings,
)

if TYPE_CHECKING:
    pass

Function = TypeVar("Function", bound=Callable[..., Any])
Chosen = TypeVar("Chosen", Settings, GraphSettings, Description, Learning, Drawing)


# Options that say how to run, not what to compute.
MANNERS = (
    *("output", "overwrite", "quiet", "verbose", "jobs", "scheduler", "memory"),
    *("checkpoint", "checkpoint_every", "resume"),
)


def stack(*decorators: Callable[[Any], Any]) -> Callable[[Function], Function]:
    """Several decorators as one, the first on top."""

    def apply(function: Function) -> Function:
        for decorate in reversed(decorators):
            function = decorate(function)
        return function

    return apply


def matrix_input(metavar: str) -> Callable[[Function], Function]:
    return stack(
        click.argument("source", metavar=metavar, type=FILE),
        click.option("--transpose", is_flag=True, help=f"Samples are the columns of {metavar}, not the rows."),
        click.option(
            "--label-key",
            metavar="NAME",
            help=f"Where {metavar} keeps its labels: a variable (.mat, .npz), dataset (HDF5), column (.csv) "
            "or column of obs (.h5ad).",
        ),
    )


def all_cores_if_none(ctx: click.Context, param: click.Parameter, value: int | None) -> int:
    from mccgr_cli.system.processes import usable_cores

    return usable_cores() if value is None else value


jobs = click.option(
    "--jobs",
    type=Whole(min=0),
    metavar="N",
    callback=all_cores_if_none,
    help="Processes that share the work; 0: none but this one. The result is the same.  [default: one for each core]",
)

memory = click.option(
    "--memory",
    type=Bytes(),
    metavar="SIZE",
    help="Use about so much, as 500MB or 4GB: a larger MATRIX stays in its file, if that is HDF5 by rows, and is read "
    "there as often as it is needed, once for every iteration.  [default: what is free]",
)

checkpoints = stack(
    click.option(
        "--checkpoint",
        type=FILE,
        metavar="FILE",
        help="Keep the state of the run in FILE, now and then and when it is interrupted: the same command goes on "
        "from there, and ends with the same factors. FILE is removed when the result is written.",
    ),
    click.option(
        "--checkpoint-every",
        type=Number(min=0),
        metavar="SECONDS",
        default=60,
        show_default=True,
        help="How often; 0: after every iteration.",
    ),
    click.option(
        "--resume",
        type=FILE,
        metavar="FILE",
        help="Go on with the run in FILE, instead of MATRIX and options; only those that say how to run, as --memory, "
        "can be given.",
    ),
)

scheduler = click.option(
    "--scheduler",
    type=Scheduler(),
    metavar="ADDRESS",
    help="Share the work with a Dask cluster: tcp://HOST:8786 joins one, local:N starts N processes here. "
    "Needs the extra 'dask'.",
)

seed = click.option(
    "--seed",
    type=number("seed"),
    metavar="N",
    default=Settings.seed,
    show_default=True,
    help="Of the random numbers: the same seed gives the same result.",
)

output = stack(
    click.option(
        "-o",
        "--output",
        type=FILE,
        metavar="FILE",
        help="Write FILE; - is standard output.  [default: named after the input; the name is printed]",
    ),
    click.option("--overwrite", is_flag=True, help="Replace the output if it exists."),
)

verbosity = stack(
    click.option("-q", "--quiet", is_flag=True, help="Say nothing on standard error unless it fails."),
    click.option("-v", "--verbose", is_flag=True, help="Say more about what is done."),
)


def output_format(*formats: str) -> Callable[[Function], Function]:
    return click.option(
        "--format",
        "style",
        type=click.Choice(formats),
        default=formats[0],
        show_default=True,
        help="How to print the result.",
    )


def chosen_format(output: str | None, asked: str | None, formats: Sequence[str]) -> str:
    """What the name of the output says, or else what was asked for, or the first."""
    if output in (None, "-"):
        return asked or formats[0]
    suffix = Path(str(output)).suffix.lower().removeprefix(".")
    if suffix not in formats:
        what = f"{output} does not say its format"
        raise ParameterError("-o", what, f"let the name end in .{', .'.join(formats[:-1])} or .{formats[-1]}")
    if asked not in (None, suffix):
        raise ParameterError("--format", f"{asked}, and the output ends in .{suffix}", "leave it out")
    return suffix


def told_once(given: dict[str, Any]) -> dict[str, Any]:
    """What was given, with a preset's way of saying something dropped where the user says it in the other way."""
    source = click.get_current_context().get_parameter_source
    for names in ALTERNATIVES:
        by_user = [name for name in names if source(name) is click.core.ParameterSource.COMMANDLINE]
        if len(by_user) > 1:
            raise ParameterError(f"--{names[0]}", f"says in other units what --{names[1]} says", "give one of them")
        if by_user == [names[1]]:
            given = {**given, names[0]: None}
    return given


def chosen(kind: type[Chosen], given: dict[str, Any]) -> Chosen:
    """The settings of one kind among everything that was given."""
    return kind(**{field.name: given[field.name] for field in fields(kind)})
