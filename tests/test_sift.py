"""Dense descriptors are SIFT: equal to OpenCV's at the same points of any image."""

from __future__ import annotations

import cv2
import numpy as np
import pytest
from grain import grainy
from hypothesis import given
from hypothesis import strategies as st

from mccgr_cli.images import sift


def every_patch(grey, step=10, radii=(4, 8, 12, 16), min_contrast=0.0):
    return np.concatenate(list(sift.dense(grey.astype(np.float32), step, radii, min_contrast)))


def by_opencv(grey, step, radius):
    """OpenCV's cells are three halves of a keypoint's size wide, ours half a radius."""
    rows, columns = sift.grid(grey.shape[0], step), sift.grid(grey.shape[1], step)
    points = [cv2.KeyPoint(float(x), float(y), radius / 3, 0, 0, 0) for y in rows for x in columns]
    _, descriptors = cv2.SIFT.create().compute(grey, points)
    return descriptors


def similarity(a, b):
    return np.einsum("ij,ij->i", a, b) / (np.linalg.norm(a, axis=1) * np.linalg.norm(b, axis=1))


@pytest.mark.parametrize("radius", [4, 8, 16, 48])
def test_descriptors_are_those_of_opencv(radius):
    grey = grainy(1.5, 0, (97, 131))
    ours = every_patch(grey, radii=(radius,))
    # OpenCV rounds to whole numbers, and takes a little less of patches that reach beyond the edge
    assert np.median(similarity(ours, by_opencv(grey, 10, radius))) > 0.9999
    assert similarity(ours, by_opencv(grey, 10, radius)).min() > 0.99


def textbook(grey, row, column, radius):
    """One descriptor by its definition, pixel by pixel."""
    smooth = cv2.GaussianBlur(grey.astype(np.float32), (0, 0), sift.BLUR).astype(float)
    sums = np.zeros((4, 4, 8))
    cell = radius / 2
    for y in range(1, grey.shape[0] - 1):
        for x in range(1, grey.shape[1] - 1):
            right, up = smooth[y, x + 1] - smooth[y, x - 1], smooth[y - 1, x] - smooth[y + 1, x]
            direction = np.arctan2(up, right) % (2 * np.pi) * 8 / (2 * np.pi)
            dx, dy = (x - column) / cell, (y - row) / cell
            strength = np.hypot(right, up) * np.exp(-(dx**2 + dy**2) / 8)
            for i, j, o in np.ndindex(4, 4, 8):
                turn = abs(direction - o)
                weights = (abs(dy + 1.5 - i), abs(dx + 1.5 - j), min(turn, 8 - turn))
                sums[i, j, o] += strength * np.prod([max(0, 1 - w) for w in weights])
    cut = np.minimum(sums.ravel() / np.linalg.norm(sums), 0.2)
    return cut / np.linalg.norm(cut)


def test_descriptors_follow_the_definition():
    grey = grainy(2.0, 3, (23, 19))
    ours = every_patch(grey, step=10, radii=(6,))
    rows, columns = sift.grid(23, 10), sift.grid(19, 10)
    for i, (row, column) in enumerate((r, c) for r in rows for c in columns):
        np.testing.assert_allclose(ours[i], textbook(grey, row, column, 6), atol=2e-4)


@given(height=st.integers(3, 40), width=st.integers(3, 40), step=st.integers(1, 15), radius=st.integers(2, 40))
def test_any_size_of_image_step_and_patch(height, width, step, radius):
    descriptors = every_patch(grainy(1.0, 0, (height, width)), step, (radius,))
    assert descriptors.shape == (max(1, height // step) * max(1, width // step), 128)
    norms = np.linalg.norm(descriptors, axis=1)
    assert np.all((np.abs(norms - 1) < 1e-5) | (norms == 0))
    assert descriptors.min() >= 0


def test_the_height_of_the_bands_does_not_matter(monkeypatch):
    grey = grainy(1.5, 1, (211, 80))
    whole = every_patch(grey, radii=(8,))
    monkeypatch.setattr(sift, "BAND_BYTES", 1)
    assert sum(1 for _ in sift.dense(grey.astype(np.float32), 10, (8,), 0)) == 21
    np.testing.assert_allclose(every_patch(grey, radii=(8,)), whole, atol=1e-5)


def test_patches_without_contrast_are_left_out():
    grey = np.full((60, 120), 128, np.uint8)
    grey[:, 60:] = grainy(1.0, 0, (60, 60))
    assert len(every_patch(grey, radii=(4,))) == 72
    strong = every_patch(grey, radii=(4,), min_contrast=1.0)
    assert 30 <= len(strong) <= 42
    assert np.all(np.linalg.norm(strong, axis=1) > 0.99)


@pytest.mark.parametrize("radius", [4, 16])
def test_contrast_is_the_slope_of_a_ramp(radius):
    ramp = np.tile(np.arange(200, dtype=np.float32), (200, 1))  # rises by 1 a pixel
    assert len(every_patch(ramp, step=200, radii=(radius,), min_contrast=0.999)) == 1
    assert len(every_patch(ramp, step=200, radii=(radius,), min_contrast=1.001)) == 0


def test_keypoints_are_described_with_unit_length():
    (found,) = sift.at_keypoints(grainy(3.0, 0, (120, 160)).astype(np.float32))
    assert found.shape[1] == 128
    np.testing.assert_allclose(np.linalg.norm(found, axis=1), 1, atol=1e-5)
    assert list(sift.at_keypoints(np.zeros((50, 50), np.float32))) == []
