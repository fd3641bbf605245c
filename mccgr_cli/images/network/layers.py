"""Which value of a network describes an image: the last one before the classifier."""

from __future__ import annotations

from dataclasses import dataclass

from mccgr_cli.errors import DataError, ParameterError
from mccgr_cli.images.network.onnx import Graph, Node, array_shape

# Operations behind a classifier, which only change the form of its scores.
PROBABILITIES = {"Softmax", "LogSoftmax", "Sigmoid"}
AFTER_CLASSIFIER = PROBABILITIES | {"Identity", "Cast", "Flatten", "Reshape", "Squeeze", "Unsqueeze"}
CHANNELS = 3
USUAL_SIZE = 224  # pixels, if a model takes images of any size
MOST_NAMES = 8  # layers that a message names


@dataclass(frozen=True)
class ImageInput:
    """The value of a network that takes an image."""

    name: str
    size: int | None  # of both sides, in pixels; None: any
    channels_last: bool


def image_input(graph: Graph, needed_for: str, where: str) -> ImageInput:
    """The input of the image, if a layer needs no other input."""
    nodes = [graph.nodes[number] for number in graph.needed_for(needed_for)]
    used = {name for node in nodes for name in (*node.inputs, *node.captured)}
    names = [name for name in graph.inputs if name in used]
    if len(names) != 1:
        what = f"its layer {needed_for} needs {len(names)} inputs{': ' if names else ''}{', '.join(names[:MOST_NAMES])}"
        raise DataError(where, what, "give a model with one input, an image")
    shape = graph.inputs[names[0]]
    for channels_last in (False, True):
        batch, *rest = shape if len(shape) == 4 else (None, None, None, None)
        channels, sides = (rest[-1], rest[:-1]) if channels_last else (rest[0], rest[1:])
        if channels in (CHANNELS, None) and batch in (1, None) and sides[0] == sides[1] and len(shape) in (0, 4):
            return ImageInput(names[0], sides[0], channels_last)
    lengths = " x ".join("any" if length is None else str(length) for length in shape)
    what = f"its input {names[0]} has the shape {lengths}"
    raise DataError(where, what, "give a model that takes one square image with 3 channels")


def choose_layer(graph: Graph, asked: str | None, where: str) -> str:
    """The value that describes an image: the one asked for, or the last one before the classifier.

    A classifier is a fully connected layer with a bias at the end of the network. One without a bias is kept: networks
    such as CLIP end so, and its output is meant as a description.
    """
    if asked is not None:
        if graph.maker(asked) is None:
            names = [name for node in graph.nodes[::-1] for name in node.outputs if name]
            raise ParameterError(
                "--model-layer", f"no {asked} in {where}", f"its last: {', '.join(names[:MOST_NAMES])}"
            )
        return asked
    flat = [name for name in graph.outputs if len(graph.shapes[name]) == 2]
    output = (flat or graph.outputs)[0]
    is_classifier, name = False, output
    while (node := graph.maker(name)) is not None and node.kind in AFTER_CLASSIFIER and node.inputs:
        is_classifier = is_classifier or node.kind in PROBABILITIES
        name = node.inputs[0]
    source = before_classifier(graph, node, is_classifier)
    return output if source is None or graph.maker(source) is None else source


def before_classifier(graph: Graph, node: Node | None, is_classifier: bool) -> str | None:
    """The input of a fully connected layer, if the layer is a classifier."""
    if node is None:
        return None
    if node.kind == "Gemm" and (is_classifier or len(node.inputs) > 2):
        return node.inputs[0]
    if node.kind == "Add":  # of a bias
        products = [
            maker for name in node.inputs if (maker := graph.maker(name)) is not None and maker.kind == "MatMul"
        ]
        biases = [name for name in node.inputs if name in graph.arrays and len(array_shape(graph.arrays[name])) == 1]
        if len(products) == len(biases) == 1:
            node, is_classifier = products[0], True
    is_layer = node.kind == "MatMul" and len(node.inputs) == 2 and node.inputs[1] in graph.arrays
    return node.inputs[0] if is_layer and is_classifier else None
