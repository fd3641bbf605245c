"""ONNX models: read the graph of a model, cut it at a layer, and write models.

The numbers below are those of the fields in the definition of the format (onnx.proto). Only what mccgr needs is read;
everything else in a file is kept as it is.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from mccgr_cli.blocks.protocol import Array
from mccgr_cli.images.network import protobuf
from mccgr_cli.images.network.protobuf import Malformed, message, message_in, numbers_in, text_in

GRAPH_OF_MODEL = 7
NODES, ARRAYS, INPUTS, OUTPUTS, SHAPES = 1, 5, 11, 12, 13  # of a graph
FLOAT, INT, STRING, INTS = 1, 2, 3, 7  # types of attributes; FLOAT is also a type of arrays
OPSET = 13  # version of the operators in models that we write
IR_VERSION = 7  # of the format

Shape = tuple[int | None, ...]  # None: any length


@dataclass(frozen=True)
class Node:
    """One operation."""

    kind: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    captured: tuple[str, ...]  # values that graphs within this node use


@dataclass(frozen=True)
class Graph:
    """The operations of a model, in their order, and the names and shapes of its values."""

    nodes: list[Node]
    arrays: dict[str, memoryview]  # weights, by name
    inputs: dict[str, Shape]  # without weights
    outputs: list[str]
    shapes: dict[str, Shape]  # of values, as far as the file says

    @cached_property
    def _makers(self) -> dict[str, int]:
        return {output: number for number, node in enumerate(self.nodes) for output in node.outputs}

    def maker(self, name: str) -> Node | None:
        """The node that computes a value; None for inputs and weights."""
        return self.nodes[self._makers[name]] if name in self._makers else None

    def needed_for(self, name: str) -> set[int]:
        """The numbers of the nodes that are needed to compute a value."""
        needed: set[int] = set()
        waiting = [name]
        while waiting:
            number = self._makers.get(waiting.pop())
            if number is not None and number not in needed:
                needed.add(number)
                waiting += [*self.nodes[number].inputs, *self.nodes[number].captured]
        return needed


# Reading


def read_graph(model: bytes) -> Graph:
    """The graph of a model, or :class:`Malformed`."""
    parts = [value for number, value, _ in protobuf.fields(memoryview(model)) if number == GRAPH_OF_MODEL]
    if len(parts) != 1:
        raise Malformed(f"{len(parts)} graphs in it")
    nodes, outputs = list[Node](), list[str]()
    arrays: dict[str, memoryview] = {}
    inputs: dict[str, Shape] = {}
    shapes: dict[str, Shape] = {}
    for number, value, _ in protobuf.fields(message_in(parts[0])):
        if number == NODES:
            nodes.append(read_node(message_in(value)))
        elif number == ARRAYS:
            arrays[array_name(message_in(value))] = message_in(value)
        elif number in (INPUTS, OUTPUTS, SHAPES):
            name, shape = read_value_info(message_in(value))
            shapes[name] = shape
            if number == INPUTS:
                inputs[name] = shapes[name]
            elif number == OUTPUTS:
                outputs.append(name)
    if not nodes or not outputs:
        raise Malformed("no operations in it")
    return Graph(nodes, arrays, {name: inputs[name] for name in inputs if name not in arrays}, outputs, shapes)


def read_node(node: memoryview) -> Node:
    names: dict[int, list[str]] = {1: [], 2: [], 4: []}
    captured: list[str] = []
    for number, value, _ in protobuf.fields(node):
        if number in names:
            names[number].append(text_in(value))
        elif number == 5:
            captured += captured_by(message_in(value))
    return Node("".join(names[4]), tuple(names[1]), tuple(names[2]), tuple(captured))


def captured_by(attribute: memoryview) -> Iterator[str]:
    """Names that the graphs in an attribute use (loops and branches have such graphs)."""
    waiting = [attribute]
    while waiting:
        for number, value, _ in protobuf.fields(waiting.pop()):
            if number in (6, 11):  # a graph
                for inner, part, _ in protobuf.fields(message_in(value)):
                    if inner == NODES:
                        for place, content, _ in protobuf.fields(message_in(part)):
                            if place == 1:
                                yield text_in(content)
                            elif place == 5:
                                waiting.append(message_in(content))


def array_name(array: memoryview) -> str:
    name = ""
    for number, value, _ in protobuf.fields(array):
        if number == 8:
            name = text_in(value)
        elif number in (13, 14) and value != 0:
            raise Malformed("its weights are in another file")
    return name


def array_shape(array: memoryview) -> tuple[int, ...]:
    return tuple(length for number, value, _ in protobuf.fields(array) if number == 1 for length in numbers_in(value))


def read_value_info(info: memoryview) -> tuple[str, Shape]:
    """The name of a value, and its shape; an empty shape if the file does not say it."""
    name, lengths = "", list[int | None]()
    for number, value, _ in protobuf.fields(info):
        if number == 1:
            name = text_in(value)
        elif number == 2:
            for dims in within(message_in(value), 1, 2):
                for place, dim, _ in protobuf.fields(dims):
                    if place == 1:
                        known = [length for key, length, _ in protobuf.fields(message_in(dim)) if key == 1]
                        lengths.append(known[0] if known and isinstance(known[0], int) and known[0] > 0 else None)
    return name, tuple(lengths)


def within(part: memoryview, *path: int) -> Iterator[memoryview]:
    """The messages at a path of field numbers."""
    if not path:
        yield part
        return
    for number, value, _ in protobuf.fields(part):
        if number == path[0]:
            yield from within(message_in(value), *path[1:])


# Cutting


def cut(model: bytes, output: str) -> bytes:
    """A model with one output, which may be any value of the graph. What is not needed for it is left out."""
    graph = read_graph(model)
    needed = graph.needed_for(output)
    used = {name for i in needed for name in (*graph.nodes[i].inputs, *graph.nodes[i].captured)}
    whole: list[bytes | memoryview] = []
    parts = bytearray()
    for number, value, field_bytes in protobuf.fields(memoryview(model)):
        if number != GRAPH_OF_MODEL:
            whole.append(field_bytes)
            continue
        numbers = itertools.count()
        for key, part, part_bytes in protobuf.fields(message_in(value)):
            if key == NODES:
                keep = next(numbers) in needed
            elif key == ARRAYS:
                keep = array_name(message_in(part)) in used
            elif key == INPUTS:
                keep = read_value_info(message_in(part))[0] in used
            else:
                keep = key not in (OUTPUTS, SHAPES)
            if keep:
                parts += part_bytes
    parts += protobuf.field(OUTPUTS, value_info(output, graph.shapes.get(output, ())))
    return b"".join([*whole, protobuf.field(GRAPH_OF_MODEL, bytes(parts))])


# Writing


def node(kind: str, inputs: Sequence[str], outputs: Sequence[str], name: str, **attributes: Any) -> bytes:
    written = (attribute(key, value) for key, value in attributes.items())
    return message((1, encoded(inputs)), (2, encoded(outputs)), (3, name), (4, kind), (5, written))


def encoded(names: Iterable[str]) -> list[bytes]:
    return [name.encode() for name in names]


def attribute(name: str, value: int | str | list[int]) -> bytes:
    if isinstance(value, str):
        return message((1, name), (4, value), (20, STRING))
    if isinstance(value, int):
        return message((1, name), (3, value), (20, INT))
    return message((1, name), *((8, one) for one in value), (20, INTS))


def array(name: str, values: Array) -> bytes:
    values = np.asarray(values, dtype="<f4")
    return message(*((1, length) for length in values.shape), (2, FLOAT), (8, name), (9, values.tobytes()))


def value_info(name: str, shape: Shape) -> bytes:
    dims = [message((1, length)) if length is not None else message((2, "any")) for length in shape]
    return message((1, name), (2, message((1, message((1, FLOAT), (2, message((1, dims))))))))


def model(
    name: str,
    nodes: Sequence[bytes],
    arrays: Mapping[str, Array],
    inputs: Mapping[str, Shape],
    outputs: Mapping[str, Shape],
) -> bytes:
    """A model; inputs and outputs by name with their shapes."""
    graph = message(
        (NODES, nodes),
        (2, name),
        (ARRAYS, (array(key, values) for key, values in arrays.items())),
        (INPUTS, (value_info(*one) for one in inputs.items())),
        (OUTPUTS, (value_info(*one) for one in outputs.items())),
    )
    opset = message((1, ""), (2, OPSET))
    return message((1, IR_VERSION), (2, "mccgr"), (GRAPH_OF_MODEL, graph), (8, opset))
