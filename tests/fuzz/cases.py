"""From a seed and a number to a case: a command line, and the files that it finds."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from .commands import HDF5, Rng, changed, command_line, one_of
from .corpus import Seed
from .mutations import mutations_of

SHARE_OF_COMMANDS = 0.15  # cases with a file as it should be, and an odd command line


@dataclass(frozen=True)
class Case:
    """A command to run, and where it comes from."""

    arguments: list[str]
    files: dict[str, bytes]  # by their names in the folder where it runs
    stdin: bytes = b""
    format: str = ""
    mutation: str = ""
    number: int = 0

    @property
    def command(self) -> str:
        return self.arguments[0] if self.arguments else ""


@dataclass(frozen=True)
class Corpus:
    seeds: dict[str, Seed]
    groups: dict[str, list[Seed]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for seed in self.seeds.values():
            self.groups.setdefault(seed.format if seed.kind == "matrix" else seed.kind, []).append(seed)

    def pick(self, rng: Rng) -> Seed:
        """Any seed: matrices of all formats, and other kinds of files, all alike."""
        picked: Seed = one_of(rng, self.groups[one_of(rng, sorted(self.groups))])
        return picked

    def companions(self, arguments: list[str]) -> dict[str, bytes]:
        """The seeds that a command line asks for."""
        asked = {word.partition("::")[0] for word in arguments}
        asked |= {"matrix.h5"} if "--resume" in arguments else set()
        folders = {"images"} if "extract" in arguments else set()
        return {
            name: seed.data
            for name, seed in self.seeds.items()
            if name in asked or name.partition("/")[0] in asked | folders
        }


def make_case(seed: int, number: int, corpus: Corpus) -> Case:
    """The same for the same numbers and the same seeds."""
    rng = np.random.default_rng([seed, number])
    base = corpus.pick(rng)
    arguments = command_line(rng, base)
    draw = rng.random()
    data, mutation = base.data, ""
    if draw > SHARE_OF_COMMANDS:
        mutate = one_of(rng, mutations_of(base.format))
        data, mutation = mutate(rng, base.data, corpus.pick(rng).data)
    if draw < 2 * SHARE_OF_COMMANDS / 1.5:
        arguments, change = changed(rng, arguments)
        mutation = f"{mutation} + {change}" if mutation else f"command: {change}"
    stdin = b""
    if base.format in HDF5 and base.name in arguments and rng.random() < 0.1:
        arguments = ["-" if word == base.name else word for word in arguments]
        stdin = data
    elif base.kind == "image" and base.name in arguments and rng.random() < 0.3:
        arguments = ["-" if word == base.name else word for word in arguments]
        stdin = one_of(rng, (b"\n", b"\0", b"\r\n")).join([base.name.encode(), b"images/b/1.bmp", b"images/a/1.png"])
    files = {**corpus.companions(arguments), base.name: data}
    return Case(arguments, files, stdin, f"{base.kind} {base.format}", mutation, number)
