"""Make textures.h5 and textures_noisy.h5 from the images in textures/.

textures.h5 counts how often each local binary pattern occurs in each image. textures_noisy.h5 has 24 more features
that are only uniform noise.

Run it as ``python sample_data/make_textures.py`` with mccgr installed.

A local binary pattern (Ojala et al. 2002) says which of the eight pixels around a pixel are at least as bright as it.
Patterns with at most two changes between dark and bright around the circle have a count each, all others share one.
So an image has 59 counts for circles of radius 1 and 59 for radius 2.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from PIL import Image

from mccgr_cli.files.atomic_write import write_files
from mccgr_cli.files.container import Contents, encode
from mccgr_cli.files.provenance import record

HERE = Path(__file__).parent
CIRCLE = ((-1, -1), (-1, 0), (-1, 1), (0, 1), (1, 1), (1, 0), (1, -1), (0, -1))
RADII = (1, 2)
NOISY_FEATURES = 24


def uniform_codes() -> np.ndarray:
    """The bin of each of the 256 patterns."""
    bits = (np.arange(256)[:, None] >> np.arange(8)) & 1
    changes = (bits != np.roll(bits, 1, axis=1)).sum(axis=1)
    return np.where(changes <= 2, np.cumsum(changes <= 2) - 1, 58)


def pattern_counts(image: np.ndarray, radius: int, codes: np.ndarray) -> np.ndarray:
    height, width = image.shape
    inner = image[radius : height - radius, radius : width - radius]
    patterns = np.zeros(inner.shape, dtype=int)
    for bit, (down, right) in enumerate(CIRCLE):
        top, left = radius * (1 + down), radius * (1 + right)
        around = image[top : top + inner.shape[0], left : left + inner.shape[1]]
        patterns |= (around >= inner).astype(int) << bit
    return np.bincount(codes[patterns].ravel(), minlength=59)


def main() -> None:
    codes = uniform_codes()
    paths = sorted((HERE / "textures").glob("*/*.png"))
    images = [np.asarray(Image.open(path).convert("L")) for path in paths]
    counts = np.array([[pattern_counts(image, radius, codes) for radius in RADII] for image in images])
    X = counts.reshape(len(paths), -1).astype(np.uint16)
    label_names, labels = np.unique([path.parent.name for path in paths], return_inverse=True)
    names = {
        "labels": labels,
        "label_names": label_names.tolist(),
        "sample_names": [path.relative_to(HERE).as_posix() for path in paths],
    }
    features = [f"radius {radius}, pattern {i}" for radius in RADII for i in range(59)]
    noise = np.random.default_rng(0).integers(0, X.max(), (len(X), NOISY_FEATURES), dtype=np.uint16)
    noise_names = [f"noise {i}" for i in range(NOISY_FEATURES)]
    save("textures.h5", {"X": X, "feature_names": features, **names})
    save("textures_noisy.h5", {"X": np.hstack([X, noise]), "feature_names": features + noise_names, **names})


def save(name: str, datasets: dict[str, object]) -> None:
    provenance = record("make_textures", {"radii": list(RADII)}, [])
    write_files({HERE / name: encode(Contents("matrix", datasets, provenance=provenance))}, overwrite=True)


if __name__ == "__main__":
    main()
