"""What makes each component and sets each cluster apart: the same features in ``mccgr top``, figures and the report."""

from __future__ import annotations

import numpy as np
import pytest
from conftest import planted
from far import FarBlocks
from reports import WITHOUT_FACTORS, clustering
from scipy import sparse

from mccgr_cli.blocks.in_memory import MemoryBlocks
from mccgr_cli.core.profiles import group_values
from mccgr_cli.errors import DataError
from mccgr_cli.workflow.top_features import COMPONENTS, WEIGHT, top_features

# Component 0 has feature 0 alone, component 1 features 1 and 2, all have feature 3, the strongest.
H = np.array([[2.0, 0, 0, 5], [0, 3, 1, 5], [0, 0, 0, 5]])


def contents_of(H, rho=None, **more):
    d = H.shape[1]
    rho = np.ones(d) if rho is None else rho
    return clustering(d=d, H=H, rho=rho, W=np.eye(3)[np.arange(90) % 3], assignments=np.arange(90) % 3, **more)


def numbers(group):
    return [feature.number for feature in group.features]


# Which features


@pytest.mark.parametrize("of", ["clusters", COMPONENTS])
def test_features_that_all_have_set_nothing_apart(of):
    found = top_features(contents_of(H), 10, of)
    assert [numbers(group) for group in found] == [[0], [1, 2], [3]]
    assert [group.size for group in found] == ([30, 30, 30] if of == "clusters" else [None] * 3)
    assert found[0].features[0].times == pytest.approx((2 / 7) / (2 / 21))


def test_by_weight_the_strongest_features_come_first():
    found = top_features(contents_of(H), 2, by=WEIGHT)
    assert [numbers(group) for group in found] == [[3, 0], [3, 1], [3]]
    assert [feature.weight for feature in found[1].features] == pytest.approx([5 / 9, 3 / 9])


def test_weights_of_the_features_count_and_silenced_features_are_left_out():
    found = top_features(contents_of(H, np.array([0.5, 0.009, 1, 0.5])), 10)
    assert [numbers(group) for group in found] == [[0], [2], [3]]
    assert found[0].features[0].weight == pytest.approx(2 / 7)


@pytest.mark.parametrize("scale", [1e-300, 1.0, 1e300])
def test_the_scale_of_the_factors_does_not_matter(scale):
    plain, scaled = (top_features(contents_of(H * factor), 10) for factor in (1, scale))
    assert [numbers(group) for group in scaled] == [numbers(group) for group in plain]
    components = contents_of(H * np.array([[scale], [1], [1]]))
    assert numbers(top_features(components, 1, COMPONENTS)[0]) == [0]


def test_clusters_keep_their_numbers():
    contents = contents_of(H)
    contents.datasets["assignments"] = np.array([7, -2, 40])[contents["assignments"]]
    assert [(group.number, numbers(group)) for group in top_features(contents, 10)] == [
        (-2, [1, 2]),
        (7, [0]),
        (40, [3]),
    ]


# Values of X


@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("source", [MemoryBlocks, FarBlocks])
def test_means_and_fractions_of_groups_are_those_of_their_rows(kind, source):
    X, labels = planted()
    X[X < 1] = 0
    found = group_values(source(kind(X)), labels)
    parts, others = ([X[(labels == g) == own] for g in range(3)] for own in (True, False))
    expected = [[one.mean(axis=0) for one in some] for some in (parts, others, [p > 0 for p in parts])]
    np.testing.assert_allclose(found.compared()[:3], expected)
    np.testing.assert_allclose(found.compared()[3], [(one > 0).mean(axis=0) for one in others], atol=1e-15)
    np.testing.assert_array_equal(found.sizes, [20, 20, 20])


def test_clusters_without_factors_are_judged_by_the_values_of_the_matrix():
    X, labels = planted()
    contents = clustering(60, **WITHOUT_FACTORS)
    contents.datasets["assignments"] = labels
    with pytest.raises(DataError, match="give the matrix"):
        top_features(contents, 8)
    found = top_features(contents, 8, values=group_values(MemoryBlocks(X), labels))
    assert [set(numbers(group)) for group in found] == [set(range(start, start + 8)) for start in (0, 8, 16)]
    first = found[1].features[0]
    assert first.mean == pytest.approx(X[labels == 1, first.number].mean())
    assert first.elsewhere == pytest.approx(X[labels != 1, first.number].mean())
    assert (first.fraction, first.fraction_elsewhere) == (1, 1)
