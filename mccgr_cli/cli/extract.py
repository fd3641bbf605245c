"""``mccgr extract``"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from mccgr_cli.cli import options, types
from mccgr_cli.cli.options import Output, Resources
from mccgr_cli.fields import image_option, settings_of, whole
from mccgr_cli.images.settings import Description, Learning, ModelSettings

if TYPE_CHECKING:
    from mccgr_cli.cli.job import Caller, Job
    from mccgr_cli.workflow.description import Describer

ABOUT_WORDS = (*settings_of(Learning), *settings_of(Description))
ABOUT_MODELS = tuple(name for name in settings_of(ModelSettings) if name != "model")
# What differs in the options of a network: types that only the command line knows.
MODEL: dict[str, dict[str, Any]] = {
    "model": {"type": types.WordOrFile(("efficientnet-lite0",))},
    "model_mean": {"type": types.PerChannel(types.Number(min=-1e6, max=1e6))},
    "model_scale": {"type": types.PerChannel(types.Number(min=1e-6, max=1e6))},
}


@dataclass(frozen=True)
class ImageInput:
    """Which images are used, and what is done with those that cannot be used."""

    source: str
    codebook: str | None = image_option(
        None,
        "Describe images as those in FILE, a matrix from an earlier 'mccgr extract': by the same visual words or the "
        "same network. New and old images can then be compared.",
        type=types.INPUT,
    )
    no_labels: bool = image_option(False, "Folders are not categories.")
    strict: bool = image_option(False, "Fail if an image cannot be used.")
    max_pixels: int = image_option(
        100_000_000,
        "Skip images with more pixels in total (width x height), without decoding them.",
        values=whole(1, 10**12),
    )


@options.command
@options.file_argument("source", "IMAGES", holds="names")
@options.gathered("network", ModelSettings, changed=MODEL)
@options.gathered("learning", Learning)
@options.output
@options.gathered("images", ImageInput, arguments=("source",))
@options.gathered("description", Description)
@options.resources("jobs", "scheduler")
def command(
    images: ImageInput,
    network: ModelSettings,
    learning: Learning,
    description: Description,
    resources: Resources,
    output: Output,
) -> None:
    """Describe images by visual words, or by a neural network.

    IMAGES is a folder or one image. Without it, standard input is a list of files (one per line, or separated by zero
    bytes, as from find -print0). In a folder, each subfolder is a category and becomes a label; a folder without
    subfolders gives no labels. Images that cannot be used are skipped, and listed at the end and in the file.

    With --model, each image becomes a row with the features that the network computes. This is the better choice for
    photographs. Without --model, each image becomes a row with the counts of its visual words: SIFT descriptors are
    computed on a regular grid, and a sample of them is clustered into words.

    \b
    Examples:
      mccgr extract images/ --model efficientnet-lite0 -o X.h5
      mccgr extract images/ --model network.onnx --model-split -o X.h5
      mccgr extract images/ -o X.h5 --words 300
      mccgr extract images/ --words 300,1000 --radii 4,8,12,16
      find images -name '*.jpg' -print0 | mccgr extract -o X.h5
      mccgr extract new/ --codebook X.h5 -o new.h5
      mccgr extract images/ | mccgr factorize --k 5 --normalize sqrt -o factors.h5
    """
    refuse_unused(images, network)
    extract(images, network, learning, description, resources, output)


def refuse_unused(images: ImageInput, network: ModelSettings, used: Sequence[str] = ()) -> None:
    """Refuse options that would have no effect, except those ``used`` by others."""
    about_words = [name for name in ABOUT_WORDS if name not in used]
    if images.codebook is not None:
        decided = (*about_words, *ABOUT_MODELS)
        options.refuse_given(decided, "the codebook decides it", "leave it out, or leave out --codebook")
    elif network.model is not None:
        options.refuse_given(about_words, "it is about visual words", "leave it out, or leave out --model")
    else:
        options.refuse_given(ABOUT_MODELS, "it is about a network", "leave it out, or give --model")


def extract(
    chosen: ImageInput,
    network: ModelSettings,
    learning: Learning,
    description: Description,
    resources: Resources,
    output: Output,
    caller: Caller | None = None,
) -> None:
    """Describe images and write a matrix file, or one for each number of words."""
    from mccgr_cli.cli.describing import describe, find_images
    from mccgr_cli.cli.job import Job
    from mccgr_cli.files.provenance import Input

    learns = chosen.codebook is None and network.model is None  # visual words
    parameters = options.parameters(chosen, network, *((learning, description) if learns else ()))
    parts = [str(words) for words in learning.words] if learns and len(learning.words) > 1 else [""]
    derived = (chosen.source, "words" if learns else "features")
    with Job("extract", output, parameters, derived=derived, parts=parts, resources=resources, caller=caller) as job:
        known = known_describer(job, chosen, network)
        collection = find_images(job, chosen)
        job.refuse_overwriting(image.path for image in collection.images)
        if resources.scheduler is not None:
            collection.images = [replace(one, path=os.path.abspath(one.path)) for one in collection.images]  # noqa: PTH100
        matrices, sha256 = describe(job, chosen, collection, known, learning, description)
        job.inputs.insert(0, Input(chosen.source, sha256))
        job.write(*matrices)


def known_describer(job: Job, chosen: ImageInput, network: ModelSettings) -> Describer | None:
    """The words of another matrix, or a network; None if words are to be learnt."""
    from mccgr_cli.images.network.describe import open_network
    from mccgr_cli.workflow.description import read_describer

    if chosen.codebook is not None:
        return read_describer(job.load(chosen.codebook, ("matrix",)), network.model)
    return None if network.model is None else open_network(network)
