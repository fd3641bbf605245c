"""A network, and how it turns an image into a row of features."""

from __future__ import annotations

import hashlib
import json
import math
import re
from dataclasses import asdict, dataclass, field
from functools import cached_property

import numpy as np
from PIL import Image

from mccgr_cli.blocks.protocol import Array
from mccgr_cli.errors import DataError, ParameterError
from mccgr_cli.files.folders import reading_fault
from mccgr_cli.images.decode import UnusableImage, size_of_regular
from mccgr_cli.images.network import layers, onnx
from mccgr_cli.images.network.engines import Engine, installed_engine, load_engine
from mccgr_cli.images.network.protobuf import Malformed
from mccgr_cli.images.network.ready import MEAN, READY, SCALE, ready_model
from mccgr_cli.images.settings import IMAGENET_MEAN, IMAGENET_SCALE, LARGEST_SIZE, ModelSettings
from mccgr_cli.system.memory import format_bytes, require_memory
from mccgr_cli.system.processes import limit_memory_of_worker

LARGEST = 2**31 - 1  # bytes of an ONNX file: protocol buffers cannot be larger
COPIES = 4  # of a model in memory while it is loaded
ROOM = 3e9  # bytes that a worker may use beside the model; a hostile model could ask for any amount
LONGEST_REASON = 200  # letters of a library's message


@dataclass(frozen=True)
class Preparation:
    """How an image is prepared for a network, and which of its values are used: all that a row depends on."""

    model_sha256: str
    model_size: int
    model_mean: tuple[float, ...]  # red, green, blue
    model_scale: tuple[float, ...]
    model_channels: str
    model_layer: str
    model_split: bool

    def is_sound(self) -> bool:
        """Whether this can describe a network: a file may hold anything."""
        texts = (self.model_sha256, self.model_channels, self.model_layer)
        numbers = (*self.model_mean, *self.model_scale)
        return (
            all(isinstance(text, str) for text in texts)
            and (type(self.model_size) is int and 1 <= self.model_size <= LARGEST_SIZE)
            and (len(self.model_mean) == len(self.model_scale) == 3)
            and all(type(number) is float and math.isfinite(number) for number in numbers)
            and (0 not in self.model_scale and type(self.model_split) is bool)
        )

    def sha256(self) -> str:
        return hashlib.sha256(json.dumps(asdict(self), sort_keys=True).encode()).hexdigest()


@dataclass(frozen=True, eq=False)
class Network:
    """A network that describes images."""

    name: str  # as the user gave it
    preparation: Preparation
    engine: str
    input: layers.ImageInput
    model: bytes = field(repr=False)  # cut at the layer

    @cached_property
    def _engine(self) -> Engine:
        limit_memory_of_worker(ROOM + COPIES * len(self.model))
        return load_engine(self.engine, self.model)

    def __getstate__(self) -> dict[str, object]:
        return {name: value for name, value in self.__dict__.items() if name != "_engine"}

    def describe(self, pixels: Array) -> Array:
        """The features (d,) of an image (height, width, 3): red, green and blue from 0 to 255."""
        chosen = self.preparation
        size = (chosen.model_size, chosen.model_size)
        squashed = np.asarray(Image.fromarray(pixels).resize(size, Image.Resampling.BICUBIC), dtype=np.float32)
        values = (squashed - single(chosen.model_mean)) / single(chosen.model_scale)
        if chosen.model_channels == "bgr":
            values = values[:, :, ::-1]
        if not self.input.channels_last:
            values = values.transpose(2, 0, 1)
        found = pooled(self._engine.run(np.ascontiguousarray(values[None])), self.input.channels_last)
        if not np.isfinite(found).all():
            raise UnusableImage("the network gives NaN or infinite values for it")
        if chosen.model_split:
            return np.concatenate([np.maximum(found, 0), np.maximum(-found, 0)])
        if found.min(initial=0) < 0:
            what = f"layer {chosen.model_layer} of {self.name} has negative values, which cannot be factorized"
            raise ParameterError("--model", what, "add --model-split, or choose another --model-layer")
        return found + np.float32(0)  # no -0

    def feature_names(self, count: int) -> list[str]:
        """Names with a part of the hash, so that features of different networks are never confused."""
        short = self.preparation.sha256()[:8]
        if not self.preparation.model_split:
            return [f"feature {i} ({short})" for i in range(count)]
        return [f"feature {sign}{i} ({short})" for sign in "+-" for i in range(count // 2)]


def single(values: tuple[float, ...]) -> Array:
    return np.array(values, dtype=np.float32)


def pooled(output: Array, channels_last: bool) -> Array:
    """The output for one image as a row: the mean over all places of an image (or all tokens of a transformer)."""
    values = np.asarray(output, dtype=np.float32)
    if values.ndim == 4 and len(values) == 1:
        return np.asarray(values[0].mean(axis=(0, 1) if channels_last else (1, 2)))
    if values.ndim == 3 and len(values) == 1:
        return np.asarray(values[0].mean(axis=0))
    if values.ndim in (1, 2) and (values.ndim == 1 or len(values) == 1):
        return values.ravel()
    raise Unsuitable(f"its output has the shape {' x '.join(map(str, values.shape))}, not that of one image")


class Unsuitable(Exception):
    """A network cannot be run; the text says why."""


def open_network(chosen: ModelSettings) -> Network:
    """The network that the user chose, not yet run."""
    name = str(chosen.model)
    model = ready_model(name) if name in READY else read_model(name)
    try:
        graph = onnx.read_graph(model)
        layer = layers.choose_layer(graph, chosen.model_layer, name)
        image = layers.image_input(graph, layer, name)
        part = onnx.cut(model, layer)
    except Malformed as fault:
        raise DataError(name, f"not an ONNX model that mccgr can use: {fault}", "export the network to ONNX") from None
    if chosen.model_size is not None and image.size not in (None, chosen.model_size):
        what = f"{chosen.model_size}, but {name} takes images of {image.size} x {image.size} pixels"
        raise ParameterError("--model-size", what, "leave it out")
    is_ready = name in READY
    preparation = Preparation(
        hashlib.sha256(model).hexdigest(),
        chosen.model_size or image.size or layers.USUAL_SIZE,
        three(chosen.model_mean, (MEAN,) if is_ready else IMAGENET_MEAN),
        three(chosen.model_scale, (SCALE,) if is_ready else IMAGENET_SCALE),
        chosen.model_channels,
        layer,
        chosen.model_split,
    )
    return Network(name, preparation, installed_engine(), image, part)


def three(given: tuple[float, ...] | None, usual: tuple[float, ...]) -> tuple[float, ...]:
    """A value for each channel."""
    values = given or usual
    return values * 3 if len(values) == 1 else values


def read_model(path: str) -> bytes:
    remedy = f"name an ONNX file, or one of {', '.join(READY)}"
    try:
        size = size_of_regular(path)
        if size > LARGEST:
            raise DataError(path, f"{format_bytes(size)} are too many for an ONNX model", remedy)
        require_memory(COPIES * size, path, "the model")
        with open(path, "rb") as file:  # noqa: PTH123
            return file.read()
    except UnusableImage as fault:
        raise DataError(path, str(fault), remedy) from None
    except (OSError, ValueError) as fault:
        raise DataError(path, reading_fault(fault), remedy) from None


def count_features(_: None, network: Network) -> int | str:
    """Run a network once; return the number of its features, or the reason why it cannot be run."""
    size = network.preparation.model_size
    noise = np.random.default_rng(0).integers(0, 256, (size, size, 3), dtype=np.uint8)
    try:
        return len(network.describe(noise))
    except (Unsuitable, UnusableImage) as fault:
        return str(fault)
    except MemoryError:
        return "it needs too much memory"
    except (ParameterError, KeyboardInterrupt):
        raise
    except Exception as fault:  # libraries raise errors of all types for models that they do not support
        return reason_of(fault)


def reason_of(fault: Exception) -> str:
    """A library's message, short and in one line.

    >>> reason_of(Exception("OpenCV(5.0.0) a.cpp:1: error: (-2:Unspecified error) no such layer in function 'f'"))
    'no such layer'
    """
    text = " ".join(str(fault).split()) or type(fault).__name__
    found = re.search(r"error: \([^)]*\) (.*?)(?: in function '[^']*')?$", text)
    text = found[1] if found else text
    if "nsufficient memory" in text or "bad_alloc" in text or "Failed to allocate memory" in text:
        return "it needs too much memory"
    return text if len(text) <= LONGEST_REASON else f"{text[:LONGEST_REASON]}..."
