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
from mccgr_cli.texts.settings import STOP_WORDS, Counting, TextInput

if TYPE_CHECKING:
    from mccgr_cli.cli.job import Caller, Job
    from mccgr_cli.texts.count import Vocabulary
    from mccgr_cli.workflow.description import Describer

ABOUT_WORDS = (*settings_of(Learning), *settings_of(Description))
ABOUT_MODELS = tuple(name for name in settings_of(ModelSettings) if name != "model")
ABOUT_TEXTS = (*settings_of(Counting), *(name for name in settings_of(TextInput) if name != "kind"))
LISTED: dict[str, dict[str, Any]] = {
    "stop_words": {"type": types.WordOrFile(STOP_WORDS), "metavar": f"[{'|'.join(STOP_WORDS)}|FILE]"}
}
# What differs in the options of a network: types that only the command line knows.
MODEL: dict[str, dict[str, Any]] = {
    "model": {"type": types.WordOrFile(("efficientnet-lite0",))},
    "model_mean": {"type": types.PerChannel(types.Number(min=-1e6, max=1e6))},
    "model_scale": {"type": types.PerChannel(types.Number(min=1e-6, max=1e6))},
}


@dataclass(frozen=True)
class ImageInput:
    """Which images or texts are used, and what is done with those that cannot be used."""

    source: str
    codebook: str | None = image_option(
        None,
        "Describe images or texts as those in FILE, a matrix from an earlier 'mccgr extract': by the same visual "
        "words, network or words. New and old ones can then be compared.",
        type=types.INPUT,
    )
    no_labels: bool = image_option(False, "Folders are not categories, and there is no field of labels.")
    strict: bool = image_option(False, "Fail if an image or a text cannot be used.")
    max_pixels: int = image_option(
        100_000_000,
        "Skip images with more pixels in total (width x height), without decoding them.",
        values=whole(1, 10**12),
    )


@options.command
@options.file_argument("source", "SOURCE", holds="names")
@options.gathered("network", ModelSettings, changed=MODEL)
@options.gathered("learning", Learning)
@options.output
@options.gathered("images", ImageInput, arguments=("source",))
@options.gathered("description", Description)
@options.gathered("texts", TextInput)
@options.gathered("counting", Counting, changed=LISTED)
@options.resources("jobs", "scheduler")
def command(
    images: ImageInput,
    network: ModelSettings,
    learning: Learning,
    description: Description,
    texts: TextInput,
    counting: Counting,
    resources: Resources,
    output: Output,
) -> None:
    """Describe images by a neural network or by visual words, and texts by their words.

    SOURCE is a folder of images or texts, or one image or text. Texts may also be in one file: .jsonl with a JSON
    object on each line, or .csv with a column of texts. Without it, standard input is a list of image files (one per
    line, or separated by zero bytes, as from find -print0). In a folder, each subfolder is a category and becomes a
    label; a folder without subfolders gives no labels. What cannot be used is skipped, and listed at the end and in the
    file.

    With --model, each image becomes a row with the features that the network computes. This is the better choice for
    photographs. Without --model, each image becomes a row with the counts of its visual words: SIFT descriptors are
    computed on a regular grid, and a sample of them is clustered into words.

    Each text becomes a row with the counts of its words, in lower case. The file says that it holds counts of words, so
    factorize and run normalize its rows by tfidf.

    \b
    Examples:
      mccgr extract images/ --model efficientnet-lite0 -o X.h5
      mccgr extract images/ --model network.onnx --model-split -o X.h5
      mccgr extract images/ -o X.h5 --words 300
      mccgr extract images/ --words 300,1000 --radii 4,8,12,16
      find images -name '*.jpg' -print0 | mccgr extract -o X.h5
      mccgr extract new/ --codebook X.h5 -o new.h5
      mccgr extract texts/ -o X.h5 --stop-words english --min-df 3
      mccgr extract articles.jsonl --text-field body --label-field topic
      mccgr extract images/ | mccgr factorize --k 5 --normalize sqrt -o factors.h5
    """
    from mccgr_cli.workflow.texts import holds_texts

    if holds_texts(images.source, texts, tables=True):
        refuse_about_images(images.source)
        extract_texts(images, texts, counting, resources, output)
        return
    options.refuse_given(ABOUT_TEXTS, "it is about texts", f"leave it out, or name texts instead of {images.source}")
    refuse_unused(images, network)
    extract(images, network, learning, description, resources, output)


def refuse_about_images(source: str, used: Sequence[str] = ()) -> None:
    """Refuse options about images where ``source`` holds texts, except those ``used`` by others."""
    about_images = [name for name in (*ABOUT_WORDS, *settings_of(ModelSettings), "max_pixels") if name not in used]
    options.refuse_given(about_images, f"{source} holds texts", "leave it out, or give --kind images")


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


def extract_texts(
    chosen: ImageInput,
    texts: TextInput,
    counting: Counting,
    resources: Resources,
    output: Output,
    caller: Caller | None = None,
) -> None:
    """Count the words of texts and write a matrix file."""
    from mccgr_cli.cli.counting import count_words
    from mccgr_cli.cli.job import Job
    from mccgr_cli.files.provenance import Input

    if chosen.codebook is not None:
        options.refuse_given(settings_of(Counting), "the file of --codebook decides it", "leave it out")
    parameters = options.parameters(chosen, texts, *((counting,) if chosen.codebook is None else ()))
    derived = (chosen.source, "words")
    with Job("extract", output, parameters, derived=derived, resources=resources, caller=caller) as job:
        matrix, sha256 = count_words(job, chosen, texts, counting, known_words(job, chosen.codebook))
        job.inputs.insert(0, Input(chosen.source, sha256))
        job.write(matrix)


def known_words(job: Job, file: str | None) -> Vocabulary | None:
    """The words of another matrix; None if words are to be chosen."""
    from mccgr_cli.errors import DataError
    from mccgr_cli.workflow.texts import is_word_counts, read_vocabulary

    if file is None:
        return None
    matrix = job.load(file, ("matrix",))
    if not is_word_counts(matrix):
        raise DataError(matrix.name, "holds no counts of words", "name a matrix that 'mccgr extract' made from texts")
    return read_vocabulary(matrix)


def known_describer(job: Job, chosen: ImageInput, network: ModelSettings) -> Describer | None:
    """The words of another matrix, or a network; None if words are to be learnt."""
    from mccgr_cli.images.network.describe import open_network
    from mccgr_cli.workflow.description import read_describer

    if chosen.codebook is not None:
        return read_describer(job.load(chosen.codebook, ("matrix",)), network.model)
    return None if network.model is None else open_network(network)
