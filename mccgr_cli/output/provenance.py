"""What a file says about how it was made."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

Pairs = list[tuple[str, str]]


def commands(provenance: Any) -> Iterator[dict[str, str | Pairs]]:
    """The commands that led to a file, in the order in which they were run."""
    inputs = inputs_of(provenance)
    for one in inputs:
        yield from commands(one.get("provenance"))
    if isinstance(provenance, dict) and "command_line" in provenance:
        yield {
            "time": str(provenance.get("time", "")),
            "command": str(provenance["command_line"]),
            "inputs": [(str(one.get("name")), str(one.get("sha256"))) for one in inputs],
            "parameters": pairs(provenance.get("parameters")),
            "versions": pairs(provenance.get("versions")),
        }


def first_input(provenance: Any) -> str | None:
    """The name of the first input that the history goes back to."""
    for one in inputs_of(provenance):
        name = first_input(one.get("provenance")) or one.get("name")
        if name:
            return str(name)
    return None


def nearest_step(provenance: Any, command: str) -> dict[str, Any] | None:
    """The last use of a command on the way to a file."""
    if isinstance(provenance, dict) and provenance.get("command") == command:
        return provenance
    found = (nearest_step(one.get("provenance"), command) for one in inputs_of(provenance))
    return next((step for step in found if step is not None), None)


def checksums(provenance: Any) -> Iterator[str]:
    """The checksums of all files that led to a file."""
    for one in inputs_of(provenance):
        yield str(one.get("sha256"))
        yield from checksums(one.get("provenance"))


def inputs_of(provenance: Any) -> list[dict[str, Any]]:
    inputs = provenance.get("inputs") if isinstance(provenance, dict) else None
    return [one for one in inputs if isinstance(one, dict)] if isinstance(inputs, list) else []


def pairs(values: Any) -> Pairs:
    if not isinstance(values, dict):
        return []
    return [(str(name), format_value(value)) for name, value in sorted(values.items()) if value is not None]


def format_value(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:g}"
    return ", ".join(map(format_value, value)) if isinstance(value, list) else str(value)
