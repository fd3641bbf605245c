"""Programs that compute networks: onnxruntime if it is installed, otherwise OpenCV."""

from __future__ import annotations

import importlib.util
from abc import ABC, abstractmethod

import numpy as np

from mccgr_cli.blocks.protocol import Array

ENGINES = ("onnxruntime", "opencv")


class Engine(ABC):
    """A network that is ready to run, in one thread."""

    @abstractmethod
    def run(self, image: Array) -> Array:
        """The output for an image with the shape that the network takes."""


class OnnxRuntime(Engine):
    def __init__(self, model: bytes) -> None:
        import onnxruntime

        onnxruntime.set_default_logger_severity(4)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.log_severity_level = 4
        self.session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
        self.input = self.session.get_inputs()[0].name

    def run(self, image: Array) -> Array:
        return np.asarray(self.session.run(None, {self.input: image})[0])


class OpenCV(Engine):
    def __init__(self, model: bytes) -> None:
        import cv2

        cv2.setNumThreads(1)
        self.network = cv2.dnn.readNetFromONNX(np.frombuffer(model, np.uint8))

    def run(self, image: Array) -> Array:
        self.network.setInput(image)
        return np.array(self.network.forward())  # a copy: the network uses its memory again


def installed_engine() -> str:
    return ENGINES[0] if importlib.util.find_spec("onnxruntime") is not None else ENGINES[1]


def load_engine(name: str, model: bytes) -> Engine:
    return OnnxRuntime(model) if name == ENGINES[0] else OpenCV(model)
