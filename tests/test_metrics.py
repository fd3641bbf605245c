"""Scores equal those of others, edge cases included."""

from __future__ import annotations

import itertools
import json

import numpy as np
import pytest
from conftest import ORACLES
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score

from mccgr_cli.core.metrics import evaluate

PAIRS = json.loads((ORACLES / "metrics_pairs.json").read_text())["pairs"]


@pytest.mark.parametrize("pair", PAIRS, ids=[pair["desc"] for pair in PAIRS])
def test_equals_the_oracle(pair):
    scores = evaluate(pair["labels_true"], np.array(pair["labels_pred"]))
    expected = pair["expected"]
    assert scores.accuracy == pytest.approx(expected["acc"], abs=1e-12)
    assert scores.nmi == pytest.approx(expected["nmi_max"], abs=1e-12)
    assert scores.ari == pytest.approx(expected["ari"], abs=1e-12)


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 6)), min_size=1, max_size=60))
def test_equals_scikit_learn(pairs):
    truth, found = np.array(pairs).T
    scores = evaluate(truth.tolist(), found)
    assert scores.nmi == pytest.approx(normalized_mutual_info_score(truth, found, average_method="max"), abs=1e-9)
    assert scores.ari == pytest.approx(adjusted_rand_score(truth, found), abs=1e-9)
    assert scores.accuracy <= scores.purity + 1e-12
    assert scores.confusion.sum() == len(pairs)


def test_confusion_puts_each_cluster_under_its_class():
    scores = evaluate(["b", "b", "a", "a", "a", "c"], np.array([7, 7, 2, 2, 7, 9]))
    assert scores.classes == ["a", "b", "c"]
    assert scores.clusters == [2, 7, 9]
    assert scores.matches == ["a", "b", "c"]
    assert scores.confusion.tolist() == [[2, 1, 0], [0, 2, 0], [0, 0, 1]]
    assert scores.accuracy == pytest.approx(5 / 6)
    assert scores.purity == pytest.approx(5 / 6)


def test_unmatched_clusters_come_last_and_unmatched_classes_stay():
    more = evaluate(["a", "a", "b", "b"], np.array([0, 1, 2, 2]))
    assert more.clusters[:2] == [0, 2]
    assert more.matches == ["a", "b"]
    fewer = evaluate(["a", "b", "c"], np.array([5, 5, 5]))
    assert fewer.confusion.tolist() == [[1], [1], [1]]
    assert fewer.accuracy == pytest.approx(1 / 3)


def test_numbers_are_sorted_as_numbers():
    assert evaluate(["10", "9", "2"], np.array([0, 1, 2])).classes == ["2", "9", "10"]


def test_missing_labels_come_after_numbers_in_any_order():
    for labels in itertools.permutations(["nan", "2", "inf", "x"]):
        assert evaluate(labels, np.arange(4)).classes == ["2", "inf", "nan", "x"]
