"""Options of commands: made from the fields of dataclasses, and handed to a command as values of these dataclasses.

A command gathers related options into one frozen value::

    @options.command
    @options.matrix("MATRIX")                     # -> matrix: MatrixInput
    @options.gathered("settings", Settings)       # -> settings: Settings
    def command(matrix: MatrixInput, settings: Settings) -> None: ...
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import MISSING, asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any, TypeAlias

import click
from click.core import ParameterSource

from mccgr_cli.cli import piping, types
from mccgr_cli.cli.help import GroupedCommand, GroupedOption, as_typed, grouped
from mccgr_cli.errors import ParameterError
from mccgr_cli.fields import Setting, basic_option, output_option, resource_option, settings_of, whole
from mccgr_cli.settings import PRESETS

Decorator: TypeAlias = Callable[[Any], Any]


@dataclass(frozen=True)
class Gathered:
    """A parameter of a command that is made from several options."""

    name: str
    kind: type
    options: Mapping[str, str]  # name of the field -> name of the option
    fixed: Mapping[str, Any]  # fields that are not options

    def collect(self, values: Mapping[str, Any]) -> Any:
        chosen = {field: values[option] for field, option in self.options.items()}
        for name, setting in settings_of(self.kind).items():
            other = setting.instead_of
            if other and name in self.options and other in self.options:
                by_user = [one for one in (name, other) if is_given(self.options[one])]
                if len(by_user) == 2:
                    what = f"sets in other units what --{other} sets"
                    raise ParameterError(f"--{name}", what, "give one of them")
                if by_user == [other]:  # against a preset
                    chosen[name] = None
        return self.kind(**{**chosen, **self.fixed})


def command(function: Callable[..., None]) -> click.Command:
    """The click command of a function; options are sorted by group, so that help and completion agree."""
    gathered: list[Gathered] = getattr(function, "gathered", [])

    def collect(values: Mapping[str, Any]) -> dict[str, Any]:
        return {one.name: one.collect(values) for one in reversed(gathered)}

    @functools.wraps(function)
    def call(**values: Any) -> None:
        context = click.get_current_context()
        piped = piping.find_piped(context, values)
        collected = collect(values)
        if piped is not None:  # what is wrong already is said before the pipe is awaited
            refuse_existing(output for output in collected.values() if isinstance(output, Output))
            piping.take_name(piped, values)
            collected = collect(values)
        used = {option for one in gathered for option in one.options.values()} - collected.keys()
        function(**{**{name: value for name, value in values.items() if name not in used}, **collected})

    made = click.command(cls=GroupedCommand)(call)
    options = [one for _, members in grouped(made.params) for one in members]
    made.params = [*(one for one in made.params if isinstance(one, click.Argument)), *options]
    return made


def gathered(
    name: str,
    kind: type,
    only: Collection[str] | None = None,
    *,
    exclude: Collection[str] = (),
    renamed: Mapping[str, str] | None = None,
    arguments: Collection[str] = (),
    changed: Mapping[str, Mapping[str, Any]] | None = None,
    **fixed: Any,
) -> Decorator:
    """Options for the fields of a dataclass, which reach the command as one value.

    Parameters
    ----------
    name
        Parameter of the command.
    kind
        The dataclass.
    only
        Fields that become options; the others keep their defaults. All by default.
    exclude
        Fields that do not become options.
    renamed
        Names of options that differ from those of their fields.
    arguments
        Fields whose values come from arguments of the command.
    changed
        By field: what differs in this command, such as ``{"k": {"help": ..., "default": ...}}``.
    fixed
        Values of fields that are no options in this command.
    """
    settings = settings_of(kind)
    chosen = [one for one in settings if one not in (*fixed, *exclude) and (only is None or one in only)]
    names = {one: (renamed or {}).get(one, one) for one in (*arguments, *chosen)}
    defaults = {one.name: one.default for one in fields(kind)}

    def decorate(function: Any) -> Any:
        known = {one.name for one in getattr(function, "__click_params__", [])}
        for one in reversed(chosen):
            if names[one] not in known:  # two dataclasses may share an option, such as --seed
                function = make_option(names[one], settings[one], defaults[one], (changed or {}).get(one, {}))(function)
        function.gathered = [*getattr(function, "gathered", []), Gathered(name, kind, names, fixed)]
        return function

    return decorate


def make_option(name: str, setting: Setting, default: Any, changed: Mapping[str, Any]) -> Decorator:
    """The click option for a setting."""
    default, changed = changed.get("default", default), {k: v for k, v in changed.items() if k != "default"}
    setting = replace(setting, **changed)
    if default is False:
        kind: dict[str, Any] = {"is_flag": True}
    else:
        several = isinstance(default, tuple)
        typed = as_typed(default) if several else default
        kind = {"type": types.type_of(setting, several), "metavar": setting.metavar}
        kind |= {"required": True} if default is MISSING else {"default": typed, "show_default": default is not None}
    flags = setting.flags or (f"--{name.replace('_', '-')}",)
    shown = {"group": setting.group, "default_text": setting.default_text}
    return click.option(*flags, name, cls=GroupedOption, help=setting.help, **shown, **kind)


def stack(*decorators: Decorator) -> Decorator:
    """Several decorators as one, the first on top."""

    def decorate(function: Any) -> Any:
        for one in reversed(decorators):
            function = one(function)
        return function

    return decorate


# Options that many commands share


@dataclass(frozen=True)
class MatrixInput:
    """A file, and how to read the matrix in it."""

    source: str
    transpose: bool = basic_option(False, "Samples are the columns of the matrix, not the rows.")
    label_key: str | None = basic_option(
        None,
        "Name of the labels in the file: a variable (.mat, .npz), dataset (HDF5), column (.csv), or column of obs "
        "(.h5ad).",
        metavar="NAME",
    )
    header: str = basic_option(
        "auto",
        "Whether the first line of a .csv or .tsv file names the columns. auto: judged by the values.",
        values=("auto", "yes", "no"),
    )


@dataclass(frozen=True)
class Output:
    """Where the result goes, and how much is said on the way."""

    path: str | None = basic_option(
        None,
        "Output file. - is standard output.",
        default_text="derived from the input, and printed",
        flags=("-o", "--output"),
        type=types.FILE,
    )
    overwrite: bool = output_option(False, "Replace the output file if it exists.")
    quiet: bool = output_option(False, "Print nothing on standard error, except errors.", flags=("-q", "--quiet"))
    verbose: bool = output_option(False, "Print more details.", flags=("-v", "--verbose"))


@dataclass(frozen=True)
class Resources:
    """What a command may use to compute."""

    jobs: int | None = resource_option(
        None,
        "Number of worker processes. 0: compute in this process. The result does not depend on it.",
        default_text="one per core",
        values=whole(0),
    )
    memory: float | None = resource_option(
        None,
        "Memory limit, for example 500MB or 4GB. A larger HDF5 matrix stays on disk and is read in parts, as often "
        "as needed.",
        default_text="free memory",
        type=types.Bytes(),
        metavar="SIZE",
    )
    scheduler: str | None = resource_option(
        None,
        "Use the workers of a Dask cluster. tcp://HOST:8786 joins one, local:N starts one with N processes on this "
        "machine. Needs Dask: pip install 'mccgr-cli[dask]'.",
        type=types.Scheduler(),
        metavar="ADDRESS",
    )
    time_limit: float | None = resource_option(
        None,
        "End within this time, for example 30m, 2h or 1:30:00, with exit status 124. What is done by then is kept, and "
        "the last line says how to continue.",
        type=types.Duration(),
        metavar="TIME",
    )

    def __post_init__(self) -> None:
        if self.jobs is not None and self.scheduler is not None:
            raise ParameterError("--jobs", "the cluster (--scheduler) has its own workers", "leave one of them out")


def file_argument(name: str, metavar: str, **more: Any) -> Decorator:
    """The file that a command is about; without it, standard input."""
    return click.argument(name, metavar=metavar, cls=piping.FileArgument, **more)


def matrix(metavar: str, **more: Any) -> Decorator:
    """The argument ``metavar`` and how to read it."""
    return stack(file_argument("source", metavar, **more), gathered("matrix", MatrixInput, arguments=("source",)))


output = gathered("output", Output)


def resources(*names: str) -> Decorator:
    return gathered("resources", Resources, only=names)


def take_preset(ctx: click.Context, param: click.Parameter, value: str | None) -> None:
    """Use the values of the preset as defaults."""
    if value is not None:
        ctx.default_map = {**(ctx.default_map or {}), **PRESETS[value]}


preset = click.option(
    "--preset",
    cls=GroupedOption,
    type=click.Choice(list(PRESETS)),
    is_eager=True,
    expose_value=False,
    callback=take_preset,
    help="Use other defaults. Options that you give still win. paper: "
    + ", ".join(f"--{name.replace('_', '-')} {as_typed(value)}" for name, value in PRESETS["paper"].items())
    + ".",
)


def labels(metavar: str, otherwise: str = "") -> Decorator:
    """True classes from a file; ``otherwise``: what happens without any."""
    return click.option(
        "--labels",
        cls=GroupedOption,
        type=types.INPUT_OR_TEXT,
        default_text=f"the labels in {metavar}{'; ' if otherwise else ''}{otherwise}",
        help="True classes: a text file with one class per line, or a .csv, .tsv, .h5ad, .mat, .npz, .npy or HDF5 "
        "file. FILE::NAME names a variable or column. If the file has names of samples, classes are joined to samples "
        "by name; otherwise by row order.",
    )


def output_format(*formats: str) -> Decorator:
    return click.option(
        "--format",
        "style",
        cls=GroupedOption,
        type=click.Choice(formats),
        default=formats[0],
        show_default=True,
        help="Format of the printed result.",
    )


def choose_format(output: str | None, asked: str | None, formats: Sequence[str]) -> str:
    """The format that the suffix of the output names, or the one asked for, or the first."""
    if output in (None, "-"):
        return asked or formats[0]
    suffix = Path(str(output)).suffix.lower().removeprefix(".")
    if suffix not in formats:
        what = f"{output} has no suffix of a known format"
        raise ParameterError("-o", what, f"end the name in .{', .'.join(formats[:-1])} or .{formats[-1]}")
    if asked not in (None, suffix):
        raise ParameterError("--format", f"{asked}, but the output ends in .{suffix}", "leave it out")
    return suffix


def refuse_existing(outputs: Iterable[Output]) -> None:
    """Refuse to replace a file, as the job will, but before anything is read."""
    from mccgr_cli.files.atomic_write import check_destination

    for one in outputs:
        if one.path and Path(one.path).is_file():
            check_destination(Path(one.path), one.overwrite)


# What the user typed


def is_given(name: str) -> bool:
    """Whether the user typed this option or argument."""
    return click.get_current_context().get_parameter_source(name) is ParameterSource.COMMANDLINE


def refuse_given(names: Collection[str], what: str, remedy: str) -> None:
    """Refuse options that would have no effect."""
    context = click.get_current_context()
    for one in context.command.params:
        if one.name in names and is_given(one.name):
            flag = one.opts[0 if len(one.opts[0]) > 2 else -1]
            raise ParameterError(flag if isinstance(one, click.Option) else one.make_metavar(context), what, remedy)


def parameters(*values: Any, **more: Any) -> dict[str, Any]:
    """Settings as one flat dictionary, as provenance and checkpoints hold them."""
    return {name: value for one in values for name, value in asdict(one).items()} | more


def command_line(name: str, *values: Any, without: Collection[str] = (), **more: Any) -> list[str]:
    """A command line with these settings, except those ``without``, for people to read and repeat."""
    words: list[str] = []
    for flag, value in more.items():
        words += [f"--{flag.replace('_', '-')}", str(value)] if value is not None else []
    for one in values:
        settings = settings_of(type(one))
        for part in fields(one):
            value = getattr(one, part.name)
            if part.name == "source":
                words = [str(value), *words]
            elif part.name not in without and value != part.default:
                setting = settings.get(part.name)
                flag = setting.flags[-1] if setting and setting.flags else f"--{part.name.replace('_', '-')}"
                words += [flag] if value is True else [flag, as_typed(value, setting)]
    return ["mccgr", name, *words]
