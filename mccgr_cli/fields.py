"""What a setting is: its help text, the values it takes, its place in help; and the check of a value.

Plain values that load at once: no numpy, no click.
"""

from __future__ import annotations

import math
import reprlib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from functools import partial
from numbers import Integral, Real
from typing import Any, TypeVar

from mccgr_cli.errors import ParameterError

Kind = TypeVar("Kind")

# Headings of help, manual pages and docs/COMMANDS.md, in this order.
BASIC, IMAGES, TEXTS, METHOD = "Basic options", "Images", "Texts", "Method"
GRAPH, SOLVER = "Neighbour graph", "Solver"
CLUSTERS, RESOURCES, OUTPUT = "Clusters", "Resources", "Output"
GROUPS = (BASIC, IMAGES, TEXTS, METHOD, GRAPH, SOLVER, CLUSTERS, RESOURCES, OUTPUT)


@dataclass(frozen=True)
class Bounds:
    """The numbers that a setting takes. Without bounds of its own, squares of the numbers are still finite."""

    least: float = 1e-100
    most: float = 1e100
    whole: bool = False


@dataclass(frozen=True)
class Setting:
    """What is known of a setting beside its default."""

    help: str
    group: str
    values: tuple[str, ...] | Bounds | None = None  # words, or numbers
    metavar: str | None = None  # default: N, NUMBER, or the words
    default_text: str = ""  # the default in words, where None stands for it
    flags: tuple[str, ...] = ()  # names of the option, if they do not follow from the name of the field
    type: Any = None  # of the option, where ``values`` does not say it
    instead_of: str = ""  # another setting for the same thing in other units; at most one of the two is given
    or_number: Bounds | None = None  # numbers that it takes beside the words in ``values``


def option(group: str, default: Any, help: str, **more: Any) -> Any:
    """A field of a dataclass that is an option of the command line."""
    return field(default=default, metadata={"setting": Setting(help, group, **more)})


basic_option, image_option = partial(option, BASIC), partial(option, IMAGES)
text_option = partial(option, TEXTS)
method_option, graph_option = partial(option, METHOD), partial(option, GRAPH)
solver_option, cluster_option = partial(option, SOLVER), partial(option, CLUSTERS)
resource_option, output_option = partial(option, RESOURCES), partial(option, OUTPUT)


def settings_of(kind: type) -> dict[str, Setting]:
    """The settings among the fields of a dataclass, by name."""
    return {one.name: one.metadata["setting"] for one in fields(kind) if "setting" in one.metadata}


def whole(least: int, most: float = math.inf) -> Bounds:
    return Bounds(least, most, whole=True)


def checked(kind: type[Kind], values: Mapping[str, Any]) -> Kind:
    """Settings from values of any origin (Python arguments, a checkpoint), each checked."""
    known = settings_of(kind)
    return kind(
        **{
            one.name: check_value(one.name, known[one.name], values[one.name], one.default)
            for one in fields(kind)  # type: ignore[arg-type]
        }
    )


def check_value(name: str, setting: Setting, value: Any, default: Any = ...) -> Any:
    """A value of a setting as a plain Python number or word, or a :class:`ParameterError`."""
    flag = f"--{name.replace('_', '-')}"
    words = setting.values if isinstance(setting.values, tuple) else ()
    bounds = setting.or_number if words else setting.values
    if (value is None and default is None) or (isinstance(value, str) and value in words):
        return value
    if not isinstance(bounds, Bounds):
        raise ParameterError(flag, f"{reprlib.repr(value)} is not one of {', '.join(words)}", "choose one of them")
    is_number = isinstance(value, Integral if bounds.whole else Real) and not isinstance(value, bool)
    if is_number and bounds.least <= value <= bounds.most:
        return int(value) if bounds.whole else float(value)
    limits = f"from {bounds.least:g} to {bounds.most:g}" if bounds.most < math.inf else f"of at least {bounds.least:g}"
    what = f"{reprlib.repr(value)} is not a {'whole ' if bounds.whole else ''}number {limits}"
    raise ParameterError(flag, f"none of {', '.join(words)}, and {what}" if words else what)
