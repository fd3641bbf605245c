"""The colours of clusters: different from each other and from the ground, and with markers beside them."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from mccgr_cli.output.colours import COLOURS, DARK_COLOURS, MARKERS

# Machado, Oliveira and Fernandes: A physiologically-based model for simulation of color vision deficiency, 2009.
DEUTERANOPIA = np.array([[0.367, 0.861, -0.228], [0.280, 0.673, 0.047], [-0.012, 0.043, 0.969]])
ALL_CONES = np.eye(3)
GROUNDS = [(COLOURS, "#ffffff"), (DARK_COLOURS, "#1b1f23")]


def linear(colour: str) -> np.ndarray:
    """Linear red, green and blue of an sRGB colour (IEC 61966-2-1)."""
    parts = np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    return np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)


def lab(colour: str, seen: np.ndarray = ALL_CONES) -> np.ndarray:
    """CIELAB with the white point D65; ``seen`` changes linear red, green and blue to those that a reader sees."""
    to_xyz = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])
    ratios = to_xyz @ np.clip(seen @ linear(colour), 0, 1) / to_xyz.sum(axis=1)
    x, y, z = np.where(ratios > (6 / 29) ** 3, np.cbrt(ratios), ratios / (3 * (6 / 29) ** 2) + 4 / 29)
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


def luminance(colour: str) -> float:
    return float(np.array([0.2126, 0.7152, 0.0722]) @ linear(colour))


@pytest.mark.parametrize("colours", [COLOURS, DARK_COLOURS])
def test_twenty_colours_are_far_apart_in_cielab(colours):
    assert len(set(colours)) == 20
    assert lab("#ffffff") == pytest.approx([100, 0, 0], abs=0.01)
    distances = [np.linalg.norm(lab(one) - lab(other)) for one, other in combinations(colours, 2)]
    assert min(distances) > 22
    assert min(np.linalg.norm(lab(one) - lab(other)) for one, other in combinations(colours[:5], 2)) > 35


@pytest.mark.parametrize("colours", [COLOURS, DARK_COLOURS])
def test_readers_without_green_cones_see_eight_different_colours(colours):
    seen = [lab(colour, DEUTERANOPIA) for colour in colours[:8]]
    assert min(np.linalg.norm(one - other) for one, other in combinations(seen, 2)) > 10


@pytest.mark.parametrize(("colours", "ground"), GROUNDS)
def test_every_colour_stands_out_from_its_ground(colours, ground):
    for colour in colours:
        light, dark = sorted((luminance(colour), luminance(ground)), reverse=True)
        assert (light + 0.05) / (dark + 0.05) >= 3, colour


def test_clusters_whose_colours_repeat_have_other_markers():
    looks = {(look % len(COLOURS), look % len(MARKERS)) for look in range(180)}
    assert len(looks) == 180
