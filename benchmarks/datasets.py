"""The sets of samples with known classes on which the quality of clusters is measured.

A folder with the subfolders ``suite`` or ``matrices`` gives the development sets: ``suite/*.mat``, the named files of
``matrices``, and two sets that need no file there: the images of sample_data/textures and the digits of scikit-learn.
Of any other folder, every .mat and .h5 file is a set.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np

from benchmarks.robustness import disturbed
from mccgr_cli.blocks.protocol import Array, Matrix
from mccgr_cli.cli.extract import ImageInput
from mccgr_cli.files.readers import load
from mccgr_cli.images.extract import count_words, learn_codebooks
from mccgr_cli.images.find import images_in_folder
from mccgr_cli.images.grid import adapt_to_images
from mccgr_cli.images.settings import Description, Learning
from mccgr_cli.system.processes import LocalPool

SAMPLE_DATA = Path(__file__).parent.parent / "sample_data"
MATRICES = ("COIL20.mat", "TDT2.mat", "ALL_AML_brunet.mat", "worm_neuron_cell.h5")
SUFFIXES = (".mat", ".h5")
TEXTS = ("pcmac", "relathe", "TDT2")  # word counts; counts of cells look the same, so texts are named
NOISE = 0.3  # fraction of the features that noise replaces


@dataclass(frozen=True)
class DataSet:
    """Samples and their classes."""

    X: Matrix  # never changed
    labels: Array  # the code of the class of each sample, (n,)
    is_text: bool = False

    @property
    def k(self) -> int:
        return len(np.unique(self.labels))


@dataclass(frozen=True)
class Source:
    """Where a set comes from. It is read when it is measured."""

    name: str
    read: Callable[[], tuple[Matrix, Array]]
    is_text: bool = False
    noise: float = 0.0  # fraction of the features that every seed replaces by uniform noise

    def load(self) -> DataSet:
        return DataSet(*self.read(), self.is_text)

    def draw(self, data: DataSet, seed: int) -> DataSet:
        """The set with the noise of this seed, if it has noise."""
        return replace(data, X=disturbed(data.X, self.noise, seed)) if self.noise else data


def sources(folder: Path, texts: tuple[str, ...] = ()) -> list[Source]:
    """All sets of a folder, in the order of their names. ``texts`` are names of texts beside TEXTS."""
    is_text = {*TEXTS, *texts}.__contains__
    found = [Source(path.stem, partial(read_matrix, path), is_text(path.stem)) for path in files(folder)]
    if is_development(folder):
        found += [Source("digits", read_digits), Source("textures", read_textures)]
    return sorted(found, key=lambda source: source.name.lower())


def noisy_sources(folder: Path) -> list[Source]:
    """The sets for robustness: faces behind sunglasses, COIL-20 with noise, and textures with features of noise.

    Of a folder that has no development sets: every set with noise.
    """
    known = {source.name: source for source in sources(folder)}
    if not is_development(folder):
        return [with_noise(source) for source in known.values()]
    chosen = [known[name] for name in ("arglass",) if name in known]
    chosen += [with_noise(known[name]) for name in ("COIL20",) if name in known]
    return [*chosen, Source("textures_noisy", partial(read_matrix, SAMPLE_DATA / "textures_noisy.h5"))]


def with_noise(source: Source) -> Source:
    return replace(source, name=f"{source.name}+noise", noise=NOISE)


def is_development(folder: Path) -> bool:
    return (folder / "suite").is_dir() or (folder / "matrices").is_dir()


def files(folder: Path) -> Iterator[Path]:
    if not is_development(folder):
        yield from (path for path in sorted(folder.iterdir()) if path.suffix in SUFFIXES)
        return
    yield from sorted((folder / "suite").glob("*.mat"))
    yield from (path for name in MATRICES if (path := folder / "matrices" / name).exists())


def read_matrix(path: Path) -> tuple[Matrix, Array]:
    contents = load(str(path)).contents
    if "labels" not in contents:
        raise SystemExit(f"{path}: no classes in it; store them as gnd or labels")
    return contents["X"].load().astype(np.float64), contents["labels"]


def read_digits() -> tuple[Matrix, Array]:
    from sklearn.datasets import load_digits

    return load_digits(return_X_y=True)  # type: ignore[no-any-return]


def read_textures() -> tuple[Matrix, Array]:
    """Visual words of the images, as ``mccgr run`` counts them."""
    images = images_in_folder(str(SAMPLE_DATA / "textures")).images
    description = adapt_to_images(images, Description(), ImageInput.max_pixels)
    with LocalPool(0) as workers:
        books = learn_codebooks(images, description, Learning(), workers, ImageInput.max_pixels)
        counts = count_words(images, books, workers, ImageInput.max_pixels)
    labels = np.unique([str(image.label) for image in counts.images], return_inverse=True)[1]
    return counts.X[0].astype(np.float64), labels
