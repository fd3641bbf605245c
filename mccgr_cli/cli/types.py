"""The kinds of values that options take."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from mccgr_cli.errors import ParameterError
from mccgr_cli.fields import Bounds, Setting

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem


class InputFile(click.Path):
    """A file that a command reads; - is standard input.

    ``holds``: what a pipe may bring; "file": HDF5 or the name of a file, "table": also lines of text, "names": only
    lines of text.
    """

    def __init__(self, holds: str = "file") -> None:
        super().__init__(allow_dash=True)
        self.holds = holds


FILE = click.Path(allow_dash=True)  # a file name, or -; shells complete it
INPUT = InputFile()
INPUT_OR_TEXT = InputFile("table")
MOST_NUMBERS = 100
LEAST_MEMORY = 1e7
LEAST_TIME, MOST_TIME = 1.0, 1000 * 86400.0


class Number(click.FloatRange):
    """A finite number within bounds; without bounds of its own, its square is finite too."""

    name = "number"

    def __init__(self, min: float = Bounds.least, max: float = Bounds.most) -> None:
        super().__init__(min=min, max=max)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        number = super().convert(value, param, ctx)
        if math.isnan(number):
            self.fail(f"{value!r} is not a number", param, ctx)
        return number


class Whole(click.IntRange):
    """A whole number within bounds."""

    name = "whole number"


def number(bounds: Bounds) -> Number | Whole:
    if not bounds.whole:
        return Number(bounds.least, bounds.most)
    return Whole(int(bounds.least), None if bounds.most == math.inf else int(bounds.most))


def type_of(setting: Setting, several: bool = False) -> Any:
    """The type of the option for a setting; ``several``: a list of numbers."""
    if setting.type is not None:
        return setting.type
    if isinstance(setting.values, Bounds):
        if several:
            return Numbers(int(setting.values.least), int(setting.values.most))
        return number(setting.values)
    if setting.or_number is not None and setting.values is not None:
        return WordOrNumber(setting.values, setting.or_number)
    return click.STRING if setting.values is None else click.Choice(setting.values)


class Numbers(click.ParamType):  # type: ignore[type-arg]
    """Whole numbers separated by commas, or a range (2-10), in the order given and each once."""

    name = "numbers"

    def __init__(self, min: int, max: int) -> None:
        self.one: Any = Whole(min, max)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, ...]:
        if isinstance(value, tuple):
            return value
        numbers: dict[int, None] = {}
        for part in (part.strip() for part in str(value).split(",")):
            ends = re.fullmatch(r"(-?[0-9]+)(?:-([0-9]+))?", part)
            if ends is None:
                self.fail(f"{part!r} is not a whole number", param, ctx)
            first = self.one.convert(ends[1], param, ctx)
            last = self.one.convert(ends[2] or ends[1], param, ctx)
            if last < first:
                self.fail(f"{part!r} goes down; write {last}-{first}", param, ctx)
            numbers |= dict.fromkeys(range(first, min(last, first + MOST_NUMBERS) + 1))
        if len(numbers) > MOST_NUMBERS:
            self.fail(f"more than {MOST_NUMBERS} numbers", param, ctx)
        return tuple(numbers)


class Several(click.ParamType):  # type: ignore[type-arg]
    """Values of another type separated by commas, in the order given and each once."""

    name = "several"

    def __init__(self, one: Any) -> None:
        self.one = one

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[Any, ...]:
        if isinstance(value, tuple):
            return value
        parts = [part.strip() for part in str(value).split(",")]
        return tuple(dict.fromkeys(self.one.convert(part, param, ctx) for part in parts))


class PerChannel(click.ParamType):  # type: ignore[type-arg]
    """A number for each of red, green and blue, separated by commas; or one number for all."""

    name = "numbers"

    def __init__(self, one: Any) -> None:
        self.one = one

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[float, ...]:
        if isinstance(value, tuple):
            return value
        numbers = tuple(self.one.convert(part.strip(), param, ctx) for part in str(value).split(","))
        if len(numbers) not in (1, 3):
            self.fail(f"{value!r} has {len(numbers)} numbers; give three, or one for all", param, ctx)
        return numbers


class Words(Several):
    """Some of a list of known words, or one word for all of them."""

    def __init__(self, known: Sequence[str], everything: str | None = None) -> None:
        super().__init__(click.Choice(known))
        self.known, self.everything = tuple(known), everything

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[Any, ...]:
        if self.everything is not None and value == self.everything:
            return self.known
        return super().convert(value, param, ctx)


class Extent(click.ParamType):  # type: ignore[type-arg]
    """Two numbers with an x between them."""

    name = "extent"

    def __init__(self, one: Any) -> None:
        self.one = one

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[Any, Any]:
        first, cross, second = str(value).lower().partition("x")
        if not cross:
            self.fail(f"{value!r} is not two numbers with an x between them", param, ctx)
        return self.one.convert(first, param, ctx), self.one.convert(second, param, ctx)


class Bytes(click.ParamType):  # type: ignore[type-arg]
    """An amount of memory: a number with a unit (500MB, 4GB, 1.5GiB), or bytes."""

    name = "bytes"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        if isinstance(value, float):
            return value
        found = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)\s*(?:([kmgtp])(i?)b?|b)?", str(value).strip().lower())
        if found is None:
            self.fail(f"{value!r} is not an amount of memory such as 500MB or 4GB", param, ctx)
        power = " kmgtp".index(found[2] or " ")
        amount = float(found[1]) * (1024.0 if found[3] else 1000.0) ** power
        if not LEAST_MEMORY <= amount < 1e18:
            self.fail(f"{value!r} is not from 10MB to 1000PB", param, ctx)
        return amount


class Duration(click.ParamType):  # type: ignore[type-arg]
    """A time in seconds: a number with a unit (90s, 30m, 1.5h, 2d), 1:30:00, 1-12:00:00 (days first), or seconds."""

    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        if isinstance(value, float):
            return value
        text = str(value).strip().lower()
        if (found := re.fullmatch(r"([0-9]+(?:\.[0-9]+)?) *([smhd]?)", text)) is not None:
            seconds = float(found[1]) * {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}[found[2]]
        elif (found := re.fullmatch(r"(?:([0-9]+)-)?(?:([0-9]+):)?([0-9]{1,2}):([0-9]{2})", text)) is not None:
            days, hours, minutes, rest = (float(part or 0) for part in found.groups())
            seconds = ((days * 24 + hours) * 60 + minutes) * 60 + rest
        else:
            self.fail(f"{value!r} is not a time such as 90s, 30m, 2h or 1:30:00", param, ctx)
        if not LEAST_TIME <= seconds <= MOST_TIME:
            self.fail(f"{value!r} is not from 1 second to 1000 days", param, ctx)
        return seconds


class Scheduler(click.ParamType):  # type: ignore[type-arg]
    """The address of a Dask cluster, or local:N."""

    name = "scheduler"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        from mccgr_cli.distributed.address import local_processes

        try:
            local_processes(str(value))
        except ParameterError as fault:
            self.fail(fault.fault, param, ctx)
        return str(value)


class WordOrNumber(click.ParamType):  # type: ignore[type-arg]
    """One of some words, or a number."""

    name = "word or number"

    def __init__(self, words: Sequence[str], bounds: Bounds) -> None:
        self.words, self.bounds = tuple(words), bounds

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if value in self.words:
            return value
        try:
            return number(self.bounds).convert(value, param, ctx)
        except click.BadParameter as fault:
            self.fail(f"none of {', '.join(self.words)}, and {fault.message}", param, ctx)

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        from click.shell_completion import CompletionItem

        return [CompletionItem(word) for word in self.words if word.startswith(incomplete)]


class WordOrFile(click.Path):
    """One of some words, or a file name."""

    def __init__(self, words: Sequence[str]) -> None:
        super().__init__(allow_dash=True)
        self.words = tuple(words)

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        from click.shell_completion import CompletionItem

        words = [CompletionItem(word) for word in self.words if word.startswith(incomplete)]
        return words or [CompletionItem(incomplete, type="file")]


def metavar_of(kind: click.ParamType[Any]) -> str | None:
    """The word that stands for a value in help; None if click's own is good."""
    if kind is FILE or isinstance(kind, InputFile):
        return "FILE"
    known: dict[type, str] = {Whole: "N", Number: "NUMBER", Numbers: "N,...", Words: "NAME,..."}
    return known.get(type(kind))
