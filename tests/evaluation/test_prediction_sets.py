import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamboost.errors import ConfigurationError
from streamboost.evaluation.prediction_sets import PredictionSets, is_in_set, new_label_probability


def covered(sets, P, truth, unseen=0.0):
    """Return for each record in turn whether its set held its label; -1: one never named."""
    held = []
    for row, k in zip(P, truth, strict=True):
        probability = unseen if k < 0 else row[k]
        held.append(bool(is_in_set(probability, sets.threshold(unseen))))
        expected = sets.add_records(row[None], row[None], unseen)
        sets.update_level(held[-1], expected[0])
    return np.array(held)


def drawn(rng, P, sharpness=1.0):
    """Return labels (n,) of which P (n, K) are the chances, once taken to that power."""
    chances = P**sharpness
    shares = (chances / chances.sum(axis=1, keepdims=True)).cumsum(axis=1)
    return np.minimum((shares < rng.random((len(P), 1))).sum(axis=1), P.shape[1] - 1)


@pytest.mark.parametrize("coverage", [0.6, 0.9, 0.95])
@pytest.mark.parametrize("sharpness", [0.3, 1.0, 2.0])
def test_sets_cover_as_often_as_asked_however_sure_the_committee_is(coverage, sharpness):
    rng = np.random.default_rng(41)
    P = rng.dirichlet([0.4, 0.4, 0.4, 0.4], size=2000)
    held = covered(PredictionSets(coverage), P, drawn(rng, P, sharpness))
    assert held.mean() == pytest.approx(coverage, abs=0.02)
    assert held[1000:].mean() == pytest.approx(coverage, abs=0.02)


def test_where_the_committee_knows_its_chances_the_level_is_the_coverage():
    rng = np.random.default_rng(44)
    P = rng.dirichlet([0.4, 0.4, 0.4, 0.4], size=4000)
    truth = drawn(rng, P)
    sets = PredictionSets(0.9)
    expected = sets.add_records(P[:500], P[:500])
    for i in range(1000):
        sets.update_level(i % 10 > 0, expected[0])
    assert sets.level == pytest.approx(0.9)
    held = is_in_set(P[np.arange(4000), truth], sets.threshold())
    assert held.mean() == pytest.approx(0.9, abs=0.02)


def test_few_labels_make_sets_larger():
    sets = PredictionSets(0.8)
    P = np.random.default_rng(45).dirichlet([0.4, 0.4, 0.4], size=200)
    expected = sets.add_records(P, P)
    thresholds = [sets.threshold()]
    for held in [True, True, True, True, False] * 8:
        sets.update_level(held, expected[0])
        thresholds.append(sets.threshold())
    assert thresholds[0] == 0.0
    assert 0.0 < thresholds[5] < thresholds[10] < thresholds[40]


@settings(max_examples=15, deadline=None)
@given(
    seed=st.integers(0, 2**16),
    coverage=st.sampled_from([0.5, 0.8, 0.9]),
    stretches=st.lists(st.sampled_from([-2.0, 0.0, 0.3, 1.0, 9.0]), min_size=1, max_size=4),
    unseen=st.sampled_from([0.0, 0.1, 1.0]),
    never=st.sampled_from([0.0, 0.3]),
)
@pytest.mark.slow
def test_coverage_holds_over_time_however_the_stream_shifts(
    seed, coverage, stretches, unseen, never
):
    rng = np.random.default_rng(seed)
    P = rng.dirichlet([0.4, 0.4, 0.4], size=400 * len(stretches))
    truth = np.concatenate(
        [drawn(rng, P[400 * i : 400 * (i + 1)], power) for i, power in enumerate(stretches)]
    )
    truth[rng.random(len(truth)) < never] = -1
    held = covered(PredictionSets(coverage), P, truth, unseen)
    # Gibbs and Candès, prop. 4.1: the level stays within a step of [0, 1], where it began at
    # `coverage`. It holds at any time.
    n = np.arange(1, len(held) + 1)
    gap = np.abs(np.cumsum(held) - coverage * n)
    assert (gap <= (max(coverage, 1.0 - coverage) + 0.02) / 0.02 + 1e-6).all()


@pytest.mark.slow
def test_weights_make_up_for_what_was_asked_about():
    rng = np.random.default_rng(42)
    P = rng.dirichlet([0.5, 0.5, 0.5], size=8000)
    is_hard = P.max(axis=1) < 0.7
    truth = drawn(rng, P, sharpness=0.5)
    sets, held = PredictionSets(0.9), []
    for row, k, hard in zip(P, truth, is_hard, strict=True):
        held.append(bool(is_in_set(row[k], sets.threshold())))
        expected = sets.add_records(row[None], row[None])
        chance = 0.8 if hard else 0.1
        if rng.random() < chance:
            sets.update_level(held[-1], expected[0], 1.0 / chance)
    assert np.mean(held) == pytest.approx(0.9, abs=0.015)
    assert np.mean(np.array(held)[is_hard]) != pytest.approx(0.9, abs=0.015)


@pytest.mark.slow
def test_few_labels_by_chance_bring_single_runs_near_the_coverage():
    shares = []
    for seed in range(12):
        rng = np.random.default_rng(seed)
        P = rng.dirichlet([0.05, 0.05, 0.05], size=1600)
        truth, doubt = drawn(rng, P, sharpness=0.5), 1.0 - P.max(axis=1)
        chances = np.minimum(0.02 + 0.08 * doubt / doubt.mean(), 1.0)
        sets, held = PredictionSets(0.9), []
        for row, k, chance in zip(P, truth, chances, strict=True):
            held.append(bool(is_in_set(row[k], sets.threshold())))
            expected = sets.add_records(row[None], row[None])
            if rng.random() < chance:
                sets.update_level(held[-1], expected[0], 1.0 / chance)
        shares.append(np.mean(held))
    assert np.abs(np.array(shares) - 0.9).max() <= 0.03


def test_sets_are_everything_until_a_label_has_come():
    sets = PredictionSets()
    sets.add_records(np.array([[0.9, 0.1]]), np.array([[0.9, 0.1]]))
    assert sets.threshold() == 0.0
    assert is_in_set(0.0, sets.threshold(unseen_probability=0.5))


@pytest.mark.parametrize("sure", [1.0, 0.7])
def test_a_committee_better_than_the_target_leaves_sets_empty(sure):
    P = np.tile([sure, 1.0 - sure], (2000, 1))
    held = covered(PredictionSets(0.8), P, np.zeros(2000, dtype=int))
    assert held.mean() == pytest.approx(0.8, abs=0.03)


def test_labels_that_nobody_named_are_covered_as_often_as_their_probability_says():
    rng = np.random.default_rng(43)
    P = rng.dirichlet([0.4, 0.4, 0.4], size=3000)
    truth = drawn(rng, P)
    truth[rng.random(3000) < 0.3] = -1
    held = covered(PredictionSets(0.9), P, truth, unseen=0.3)
    assert held.mean() == pytest.approx(0.9, abs=0.02)
    assert held[truth == -1].mean() > 0.95


@pytest.mark.parametrize(
    ("counts", "share"), [([], 1.0), ([1], 1.0), ([2, 1], 1 / 3), ([5, 0, 2], 0.0)]
)
def test_labels_that_came_once_tell_of_those_that_never_came(counts, share):
    assert new_label_probability(counts) == share


@settings(max_examples=20, deadline=None)
@given(st.lists(st.tuples(st.floats(0, 1), st.floats(1, 100)), max_size=60), st.integers(0, 60))
def test_going_on_from_a_state_is_never_having_stopped(records, cut):
    kept, resumed = PredictionSets(), PredictionSets()
    for i, (p, weight) in enumerate(records):
        if i == cut:
            resumed.resume(json.loads(json.dumps(kept.state())))
        for sets in (kept, resumed)[: 1 + (i >= cut)]:
            held = bool(is_in_set(p, sets.threshold()))
            expected = sets.add_records(np.array([[p, 1.0 - p]]), np.array([[p, 1.0 - p]]))
            sets.update_level(held, expected[0], weight)
    assert cut >= len(records) or kept.state() == resumed.state()


@pytest.mark.parametrize("coverage", [0.0, 1.0, float("nan"), "most"])
def test_a_coverage_that_is_no_share_is_refused(coverage):
    with pytest.raises(ConfigurationError, match="coverage"):
        PredictionSets(coverage)
