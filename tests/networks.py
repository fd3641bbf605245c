"""Small networks with random weights, made by the package onnx: what users may bring."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

SIZE, WIDTH = 16, 5  # pixels of an image, channels of the last map


def array(name: str, *shape: int, seed: int = 0) -> TensorProto:
    values = np.random.default_rng([seed, len(name)]).normal(size=shape)
    return numpy_helper.from_array(values.astype(np.float32), name)


def value(name: str, *shape: int | str | None) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape or None)


def save(path: Path, nodes, arrays, inputs, outputs, **more) -> Path:
    graph = helper.make_graph(nodes, "test", inputs, outputs, arrays, **more)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    path.write_bytes(model.SerializeToString())
    return path


def convolutional(path: Path, ending: str = "map", seed: int = 0, rectified: bool = False) -> Path:
    """A convolution, then one of several endings: what networks for images look like in the small.

    map: the maps themselves. pooled: their means. gemm, matmul: a classifier of 7 classes on the means; matmul with a
    softmax. projection: as CLIP, a product without a bias.
    """
    arrays = [array("w", WIDTH, 3, 3, 3, seed=seed), array("b", WIDTH, seed=seed)]
    nodes = [helper.make_node("Conv", ["image", "w", "b"], ["conv"], kernel_shape=[3, 3], pads=[1, 1, 1, 1])]
    last = "conv"
    if rectified:
        nodes.append(helper.make_node("Relu", [last], ["rectified"]))
        last = "rectified"
    shape = (1, WIDTH, SIZE, SIZE)
    if ending != "map":
        nodes.append(helper.make_node("GlobalAveragePool", [last], ["pool"]))
        nodes.append(helper.make_node("Flatten", ["pool"], ["flat"]))
        last, shape = "flat", (1, WIDTH)
    if ending in ("gemm", "matmul", "projection"):
        arrays += [array("classes", WIDTH, 7, seed=seed), array("bias", 7, seed=seed)]
        shape = (1, 7)
    if ending == "gemm":
        nodes.append(helper.make_node("Gemm", [last, "classes", "bias"], ["scores"]))
        last = "scores"
    elif ending in ("matmul", "projection"):
        nodes.append(helper.make_node("MatMul", [last, "classes"], ["product"]))
        last = "product"
    if ending == "matmul":
        nodes.append(helper.make_node("Add", ["product", "bias"], ["sum"]))
        nodes.append(helper.make_node("Softmax", ["sum"], ["probabilities"], axis=1))
        last = "probabilities"
    return save(path, nodes, arrays, [value("image", 1, 3, SIZE, SIZE)], [value(last, *shape)])


def computed(path: Path, image: np.ndarray, layer: str) -> np.ndarray:
    """A value of a network for an image (3, height, width), by onnx's own slow implementation."""
    from onnx.reference import ReferenceEvaluator

    model = onnx.load(path)
    del model.graph.output[:]
    model.graph.output.append(value(layer))
    name = model.graph.input[0].name
    return ReferenceEvaluator(model).run(None, {name: image[None].astype(np.float32)})[0]
