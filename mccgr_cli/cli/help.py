"""How --help looks: options under headings, defaults as a user would type them."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable
from typing import Any

import click

from mccgr_cli.cli import types
from mccgr_cli.fields import BASIC, GROUPS, OUTPUT, Setting


class GroupedOption(click.Option):
    """An option that help lists under a heading; ``default_text``: the default in words."""

    def __init__(self, *args: Any, group: str = BASIC, default_text: str = "", **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.group, self.default_text = group, default_text
        self.metavar = self.metavar or types.metavar_of(self.type)

    def get_help_extra(self, ctx: click.Context) -> Any:
        """What help shows in brackets: no ranges, and defaults as a user would type them."""
        extra: Any = super().get_help_extra(ctx)
        extra.pop("range", None)
        shown = self.default_text or (as_typed(self.default) if self.show_default else "")
        return {**extra, "default": shown} if shown else extra


def group_of(parameter: click.Parameter) -> str:
    return parameter.group if isinstance(parameter, GroupedOption) else OUTPUT  # --help


class HelpFormatter(click.HelpFormatter):
    """Formats help without breaking names of options at their hyphens."""

    def write_dl(self, rows: Iterable[tuple[str, str]], col_max: int = 30, col_spacing: int = 2) -> None:
        entries, indent = list(rows), " " * self.current_indent
        first = min(max(len(term) for term, _ in entries), col_max) + col_spacing
        for term, text in entries:
            width = max(self.width - first - self.current_indent, 10)
            lines = textwrap.wrap(text, width, break_on_hyphens=False) or [""]
            if len(term) > first - col_spacing:
                self.write(f"{indent}{term}\n")
                term = ""
            for line in lines:
                self.write(f"{indent}{term:<{first}}{line}".rstrip() + "\n")
                term = ""


class GroupedContext(click.Context):
    formatter_class = HelpFormatter


class GroupedCommand(click.Command):
    """A command whose help lists options under headings."""

    context_class = GroupedContext

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for group, members in grouped(self.get_params(ctx)):
            records = [record for one in members if (record := one.get_help_record(ctx)) is not None]
            with formatter.section(group):
                formatter.write_dl(records)


def grouped(parameters: Iterable[click.Parameter]) -> list[tuple[str, list[click.Option]]]:
    """Options under their headings, in the order of help."""
    options = [one for one in parameters if isinstance(one, click.Option)]
    by_group = [(group, [one for one in options if group_of(one) == group]) for group in GROUPS]
    return [(group, members) for group, members in by_group if members]


def as_typed(value: Any, setting: Setting | None = None) -> str:
    """
    >>> as_typed((4, 8)), as_typed(0.5), as_typed(4e9, Setting("", "", type=types.Bytes()))
    ('4,8', '0.5', '4GB')
    """
    if setting is not None and isinstance(setting.type, types.Bytes):
        power = max(power for power in range(6) if value % 1000**power == 0)
        return f"{value / 1000**power:.0f}{' kMGTP'[power].strip()}B"
    if isinstance(value, tuple):
        return ",".join(map(str, value))
    return f"{value:g}" if isinstance(value, float) and float(f"{value:g}") == value else str(value)
