"""Describe images by a neural network in an ONNX file.

Begin with ``describe.open_network``. ``onnx`` and ``protobuf`` read and write model files, ``layers`` finds the layer
that describes an image, ``engines`` computes it. ``ready`` has the networks that come with packages, which
``efficientnet`` converts.
"""
