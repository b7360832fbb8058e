"""Detection of changes by the weights of recent committees."""

import json

import numpy as np
import pytest

from streamboost.stacking.change_detector import ChangeDetector

ORDERS = (0, 40, 80, 120)


def labels(detector, likelihoods, n=1, weight=1.0):
    return [detector.update(ORDERS, np.array(likelihoods), weight) for _ in range(n)]


def test_the_weights_of_one_label_are_those_calculated_by_hand():
    detector = ChangeDetector()
    detector.update((0, 40), np.array([0.5, 0.25]), 0.0)
    # The reference had all. A label gives 0.0025 to the reference, and 0.00125 to each of both.
    shared = np.array([0.995 + 0.0025 + 0.00125, 0.00125]) * [0.5, 0.25]
    known = dict(detector.state()["weights"])
    assert known == pytest.approx(dict(zip((0, 40), shared / shared.sum(), strict=True)))


def test_a_change_is_located_at_the_creation_of_the_likeliest_and_reported_once():
    detector = ChangeDetector()
    assert not any(labels(detector, [0.9, 0.8, 0.7, 0.6], 200))
    found = labels(detector, [0.2, 0.3, 0.9, 0.7], 100)
    assert [one for one in found if one is not None] == [80]
    assert found.index(80) < 10


def test_a_later_change_is_found_although_committees_are_removed_in_between():
    detector = ChangeDetector()
    labels(detector, [0.2, 0.3, 0.9, 0.7], 50)
    later = [detector.update((80, 120, 300), np.array([0.3, 0.4, 0.9]), 1.0) for _ in range(50)]
    assert [one for one in later if one is not None] == [300]


def test_an_older_committee_that_predicts_better_is_no_change():
    detector = ChangeDetector()
    labels(detector, [0.2, 0.3, 0.9, 0.7], 50)
    assert not any(labels(detector, [0.9, 0.8, 0.2, 0.2], 100))


def test_without_weight_in_predictions_nothing_is_reported():
    detector = ChangeDetector()
    assert not any(labels(detector, [0.2, 0.9, 0.9, 0.9], 100, weight=0.3))
    assert labels(detector, [0.2, 0.9, 0.9, 0.9], weight=0.5) == [40]


def test_a_probability_of_zero_leaves_finite_weights():
    detector = ChangeDetector()
    labels(detector, [0.0, 0.0, 0.0, 0.0], 500)
    assert sum(dict(detector.state()["weights"]).values()) == pytest.approx(1.0)


def test_a_resumed_detector_goes_on_with_the_same_weights():
    detector, twin = ChangeDetector(), ChangeDetector()
    labels(detector, [0.2, 0.3, 0.5, 0.7], 3)
    twin.resume(json.loads(json.dumps(detector.state())))
    for one in (detector, twin):
        labels(one, [0.2, 0.3, 0.9, 0.7], 2, weight=0.0)
    assert twin.state() == detector.state()
