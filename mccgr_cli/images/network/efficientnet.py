"""EfficientNet-Lite as an ONNX model, made from weights that PyTorch stored, without PyTorch.

Tan and Le, *EfficientNet: Rethinking Model Scaling for Convolutional Neural Networks*, 2019; the Lite variants have
ReLU6 and no squeeze-and-excitation. A block widens its input by a 1 x 1 convolution, filters each channel by itself,
and narrows the result by another 1 x 1 convolution. Batch normalization is folded into the convolutions. The model
ends before the classifier: its output is the mean of the last feature maps, 1,280 values that are not negative.
"""

from __future__ import annotations

import math
import pickle
import struct
from collections import OrderedDict
from collections.abc import Mapping
from io import BytesIO
from typing import Any

import numpy as np

from mccgr_cli.blocks.protocol import Array
from mccgr_cli.images.network import onnx

STRIDES = (1, 2, 2, 2, 1, 2, 1)  # of the first block of each stage
EPSILON = 1e-3  # of batch normalization
HIGHEST = 6.0  # of ReLU6


def convert(stored: bytes, size: int, name: str) -> bytes:
    """The ONNX model for images of ``size`` x ``size`` pixels, from the contents of PyTorch's file of weights."""
    return build(read_weights(stored), size, name)


# PyTorch's file


class _WeightsUnpickler(pickle.Unpickler):
    """Reads only what a file of weights holds: dictionaries and tensors. Everything else is refused."""

    def find_class(self, module: str, name: str) -> Any:
        known: dict[tuple[str, str], Any] = {
            ("collections", "OrderedDict"): OrderedDict,
            ("torch._utils", "_rebuild_tensor_v2"): lambda *described: described,
            ("torch", "FloatStorage"): np.dtype("<f4"),
            ("torch", "LongStorage"): np.dtype("<i8"),
        }
        if (module, name) not in known:
            raise pickle.UnpicklingError(f"{module}.{name} does not belong to weights")
        return known[module, name]

    def persistent_load(self, described: Any) -> tuple[Any, str, int]:
        _, dtype, key, _, count, *_ = described
        return dtype, key, count


def read_weights(stored: bytes) -> dict[str, Array]:
    """The arrays in a file that ``torch.save`` wrote in its format before version 1.6.

    Four pickles (a number, a version, sizes of types, the tensors), then the list of the arrays' keys, then the arrays,
    each after its length.
    """
    file = BytesIO(stored)
    *_, tensors, keys = (_WeightsUnpickler(file).load() for _ in range(5))
    dtypes = {key: dtype for (dtype, key, _), *_ in tensors.values()}
    storages = {}
    for key in keys:
        (count,) = struct.unpack("<q", file.read(8))
        storages[key] = np.frombuffer(file.read(count * dtypes[key].itemsize), dtypes[key])
    weights = {}
    for name, ((_, key, _), offset, shape, strides, *_) in tensors.items():
        steps = [step * dtypes[key].itemsize for step in strides]
        weights[name] = np.lib.stride_tricks.as_strided(storages[key][offset:], shape, steps, writeable=False)
    return weights


# The network


class _Network:
    """The nodes and weights of a network that is built layer by layer."""

    def __init__(self, weights: Mapping[str, Array], size: int) -> None:
        self.weights, self.length = weights, size  # length of a side of the feature maps so far
        self.nodes: list[bytes] = []
        self.arrays: dict[str, Array] = {"lowest": np.array(0.0), "highest": np.array(HIGHEST)}

    def node(self, kind: str, inputs: list[str], output: str, **attributes: Any) -> str:
        self.nodes.append(onnx.node(kind, inputs, [output], output, **attributes))
        return output

    def convolution(self, source: str, name: str, normalization: str, stride: int = 1, limited: bool = True) -> str:
        """A convolution with its batch normalization, and ReLU6 behind it if it is ``limited``."""
        weights, (scale, shift) = self.weights[f"{name}.weight"].astype(np.float64), self.normalization(normalization)
        is_depthwise = weights.shape[1] == 1 and weights.shape[0] > 1
        self.arrays |= {f"{name}.w": scale[:, None, None, None] * weights, f"{name}.b": shift}
        before, after = padding(self.length, weights.shape[2], stride)
        self.length = math.ceil(self.length / stride)
        output = self.node(
            *("Conv", [source, f"{name}.w", f"{name}.b"], name),
            kernel_shape=list(weights.shape[2:]),
            strides=[stride, stride],
            group=len(weights) if is_depthwise else 1,
            pads=[before, before, after, after],
        )
        return self.node("Clip", [output, "lowest", "highest"], f"{name}.relu6") if limited else output

    def normalization(self, name: str) -> tuple[Array, Array]:
        """Batch normalization as a factor and a summand for each channel."""
        gamma, beta, mean, variance = (
            self.weights[f"{name}.{part}"].astype(np.float64)
            for part in ("weight", "bias", "running_mean", "running_var")
        )
        scale = gamma / np.sqrt(variance + EPSILON)
        return scale, beta - mean * scale


def padding(length: int, kernel: int, stride: int) -> tuple[int, int]:
    """Zeros before and after an axis of this length, as TensorFlow's padding "same" adds them."""
    total = max((math.ceil(length / stride) - 1) * stride + kernel - length, 0)
    return total // 2, total - total // 2


def build(weights: Mapping[str, Array], size: int, name: str) -> bytes:
    """The network; widths, kernels and repeats follow from the shapes of its weights."""
    network = _Network(weights, size)
    last = network.convolution("image", "_conv_stem", "_bn0", stride=2)
    width, stage = len(weights["_conv_stem.weight"]), -1
    for number in range(sum(key.endswith("_project_conv.weight") for key in weights)):
        block, first = f"_blocks.{number}", last
        new_width = len(weights[f"{block}._project_conv.weight"])
        begins = new_width != width or number == 0  # a stage: all its blocks have the same width
        stage += begins
        if f"{block}._expand_conv.weight" in weights:
            last = network.convolution(last, f"{block}._expand_conv", f"{block}._bn0")
        stride = STRIDES[stage] if begins else 1
        last = network.convolution(last, f"{block}._depthwise_conv", f"{block}._bn1", stride)
        last = network.convolution(last, f"{block}._project_conv", f"{block}._bn2", limited=False)
        if not begins:
            last = network.node("Add", [first, last], f"{block}.sum")
        width = new_width
    last = network.convolution(last, "_conv_head", "_bn1")
    last = network.node("GlobalAveragePool", [last], "pooled")
    network.node("Flatten", [last], "features", axis=1)
    features = len(weights["_conv_head.weight"])
    return onnx.model(name, network.nodes, network.arrays, {"image": (1, 3, size, size)}, {"features": (1, features)})
