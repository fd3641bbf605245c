"""Images for the tests: noise of a grain that tells the categories apart."""

from __future__ import annotations

from pathlib import Path

import cv2
import numpy as np
from PIL import Image


def grainy(grain: float, seed: int, size: tuple[int, int] = (48, 64)) -> np.ndarray:
    """(height, width) grey levels: noise that is the smoother, the larger the grain."""
    noise = np.random.default_rng(seed).standard_normal(size).astype(np.float32)
    smooth = cv2.GaussianBlur(noise, (0, 0), grain)
    low, high = smooth.min(), smooth.max()
    return ((smooth - low) / (high - low) * 255).astype(np.uint8)


def save(path: Path, values: np.ndarray, **options: object) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(values).save(path, **options)
    return path


def make_folder(folder: Path, each: int = 4) -> Path:
    """Two categories, coarse and fine."""
    for name, grain in (("coarse", 4.0), ("fine", 1.0)):
        for i in range(each):
            save(folder / name / f"{i}.png", grainy(grain, i))
    return folder
