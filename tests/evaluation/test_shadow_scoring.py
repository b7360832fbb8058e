"""Comparisons of newer versions with an earlier one, on the same labelled records."""

from math import isclose, sqrt

import numpy as np
import pytest
from scipy.stats import t as student

from streamboost.evaluation.confidence_sequence import relative_width_since_start
from streamboost.evaluation.shadow_scoring import FEWEST_LABELS, MOST_LABELS, PairedComparison

RNG = np.random.default_rng(4)


def compared(*differences, weight=1.0):
    comparison = PairedComparison(1, 2, 2)
    for one in differences:
        comparison.add(one, weight)
    return comparison


def test_difference_and_interval_agree_with_a_case_worked_by_hand():
    comparison = PairedComparison(1, 2, 2)
    for difference, weight in ((1, 2.0), (-1, 1.0), (1, 1.0), *[(0, 4.0)] * 3):
        comparison.add(difference, weight)
    # sum of w: 2 + 1 + 1 + 12 = 16, of w d: 2 - 1 + 1 = 2, of w²: 4 + 1 + 1 + 48 = 54
    found = comparison.difference
    assert found is None, "the effective number of labels is 16² / 54, below 5"
    comparison.add(0, 4.0)
    comparison.add(0, 4.0)
    # sum of w: 24; the pseudo-records have the mean weight 24 / 8 = 3
    found = comparison.difference
    assert found.value == 2 / 24
    mean = 2 / 30
    residuals = [2 * (1 - mean), 1 * (-1 - mean), 1 * (1 - mean), *[4 * (0 - mean)] * 5]
    residuals += [3 * (1 - mean), 3 * (-1 - mean)]
    error = sqrt(sum(r * r for r in residuals)) / 30
    quantile = student.ppf(0.975, 24**2 / 86 + 1)
    half = quantile * error * relative_width_since_start(8)
    assert isclose(found.high, min(2 / 24 + half, 1.0))
    assert isclose(found.low, 2 / 24 - half)


def test_interval_stays_open_if_both_versions_are_always_right():
    found = compared(*[0] * 100).difference
    assert found.low < 0.0 == found.value < found.high


@pytest.mark.parametrize("sign", [1, -1])
def test_missing_labels_decide_the_sign(sign):
    def after(n):
        return compared(*[sign, 0, 0, 0, sign, -sign, 0, 0, 0, 0] * (n // 10), weight=10.0)

    missing = after(50).n_missing_labels
    assert missing > 0
    assert after(50 + 2 * missing).n_missing_labels == 0
    assert after(50 + missing // 3).n_missing_labels != 0


def test_difference_that_no_feasible_number_of_labels_decides_has_no_missing_labels():
    assert compared(*[1, -1, 0, 0] * 100).n_missing_labels is None
    assert compared().n_missing_labels is None


def test_comparison_ends_once_the_sign_is_known_from_enough_labels_or_too_small_to_be_known():
    assert compared(*[1] * 50).n_missing_labels == 0
    assert not compared(*[1] * 50).is_finished
    assert compared(*[1] * FEWEST_LABELS).is_finished
    assert not compared(*[1, -1] * (MOST_LABELS // 2 - 1)).is_finished
    assert compared(*[1, -1] * (MOST_LABELS // 2)).is_finished


def test_difference_is_unbiased_and_its_intervals_hold_at_every_look():
    """Hard records are requested more often, and the newer version is right on more of them."""
    found, held = [], []
    for _ in range(60):
        hardness = RNG.beta(0.5, 2.5, 3_000)
        d = np.where(RNG.random(3_000) < 0.4 * hardness, 1, 0)
        d = np.where(RNG.random(3_000) < 0.05, -1, d)
        p = np.clip(0.02 + 0.5 * hardness, 0.0, 1.0)
        truth, comparison = 0.95 * 0.4 * 0.5 / 3.0 - 0.05, PairedComparison(1, 2, 2)
        looks = []
        for i in np.flatnonzero(RNG.random(3_000) < p):
            comparison.add(int(d[i]), 1.0 / p[i])
            if comparison.n_labels % 10 == 0 and (one := comparison.difference):
                looks.append(one.low <= truth <= one.high)
        found.append(comparison.difference.value)
        held.append(all(looks))
    error = np.std(found) / sqrt(len(found))
    assert abs(np.mean(found) - truth) < 3.0 * error
    assert error < 0.003
    assert np.mean(held) >= 0.9
