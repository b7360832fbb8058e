"""Sufficient statistics as views of one array, which they remain after every operation."""

import pickle
from copy import deepcopy

import numpy as np
import pytest

from streamboost.evaluation.sufficient_stats import PREDICTORS, EvaluatedRecords, SufficientStats


def added(tally, seed, n=50):
    """Return `tally` with some records added."""
    rng = np.random.default_rng(seed)
    K = tally.n_classes
    P = rng.dirichlet(np.ones(K), n)
    predicted, truth = rng.integers(0, K, (n, len(PREDICTORS))), rng.integers(-1, K, n)
    tally.add(EvaluatedRecords(P, predicted, truth, rng.random(n) * 9, rng.random((n, K))))
    return tally


def assert_equal(one, other):
    assert one.n_classes == other.n_classes
    for name, sums in one.state().items():
        np.testing.assert_array_equal(sums, other.state()[name], err_msg=name)


def remade(tally):
    return SufficientStats.from_state({name: sums.copy() for name, sums in tally.state().items()})


def widened_and_back(tally):
    tally.extend_classes(tally.n_classes)
    return tally


@pytest.mark.parametrize(
    "anew", [deepcopy, lambda one: pickle.loads(pickle.dumps(one)), remade, widened_and_back]
)
def test_sums_made_anew_are_added_to_and_merged_as_those_before(anew):
    tally, other = added(SufficientStats(3), 1), anew(added(SufficientStats(3), 1))
    assert_equal(tally, other)
    assert_equal(added(tally, 2), added(other, 2))
    whole, again = SufficientStats(3), SufficientStats(3)
    whole.merge(tally, times=-0.5)
    again.merge(other, times=-0.5)
    assert_equal(whole, again)
    assert whole.n_records == -50.0


def test_room_for_more_classes_changes_no_sum():
    tally = added(SufficientStats(2), 3)
    before = {name: sums.copy() for name, sums in tally.state().items()}
    tally.extend_classes(4)
    for name, sums in tally.state().items():
        known = tuple(slice(length) for length in before[name].shape)
        np.testing.assert_array_equal(sums[known], before[name], err_msg=name)
        assert sums.sum() == pytest.approx(before[name].sum())
    assert added(tally, 4).n_records == 100.0
