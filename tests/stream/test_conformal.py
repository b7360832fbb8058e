import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamboost.errors import ConfigurationError
from streamboost.stream.conformal import LabelSets


def covered(sets, chances):
    """Return for each true label's probability in turn whether the set would have held it."""
    held = []
    for p in chances:
        held.append(p >= sets.threshold)
        sets.learn(p, sets.threshold)
    return np.array(held)


@pytest.mark.parametrize("coverage", [0.6, 0.9, 0.95])
def test_sets_cover_as_often_as_asked(coverage):
    chances = np.random.default_rng(41).beta(2.0, 1.0, size=2000)
    held = covered(LabelSets(coverage), chances)
    assert held.mean() == pytest.approx(coverage, abs=0.01)
    assert held[1000:].mean() == pytest.approx(coverage, abs=0.02)


@settings(max_examples=10, deadline=None)
@given(
    seed=st.integers(0, 2**16),
    coverage=st.sampled_from([0.5, 0.8, 0.9]),
    stretches=st.lists(st.sampled_from([0.02, 0.3, 1.0, 5.0]), min_size=1, max_size=4),
)
def test_coverage_holds_over_time_however_the_stream_shifts(seed, coverage, stretches):
    held = covered(LabelSets(coverage), shifting(seed, stretches))
    # Gibbs and Candès, prop. 4.1: the range of the level, by the step and the labels.
    assert abs(held.mean() - coverage) <= 2.0 / (0.01 * len(held))
    # What is seen is far less: a twentieth, and for the last shift, which the thousand labels
    # remembered outlast, twenty labels more.
    assert abs(held.sum() - coverage * len(held)) <= 0.05 * len(held) + 20 * (len(stretches) > 1)


def shifting(seed, stretches):
    """Return what true labels have where the stream shifts every 400 of them."""
    rng = np.random.default_rng(seed)
    return np.concatenate([rng.beta(shape, 1.0, size=400) for shape in stretches])


def test_weights_make_up_for_what_was_asked_about():
    rng = np.random.default_rng(42)
    sets, held = LabelSets(0.9), []
    for _ in range(8000):
        hard = rng.random() < 0.3
        p = rng.random() * (0.5 if hard else 1.0) + (0.0 if hard else 0.3)
        held.append(p >= sets.threshold)
        chance = 0.8 if hard else 0.1
        if rng.random() < chance:
            sets.learn(p, sets.threshold, 1.0 / chance)
    assert np.mean(held[1000:]) == pytest.approx(0.9, abs=0.02)


def test_sets_are_all_labels_until_one_is_known():
    assert LabelSets().threshold == 0.0


def test_a_committee_better_than_the_target_leaves_sets_empty():
    sets = LabelSets(0.8)
    held = covered(sets, np.ones(1000))
    assert held.mean() == pytest.approx(0.8, abs=0.03)


@settings(max_examples=20, deadline=None)
@given(st.lists(st.tuples(st.floats(0, 1), st.floats(1, 100)), max_size=60), st.integers(0, 60))
def test_going_on_from_a_state_is_never_having_stopped(labels, cut):
    kept, resumed = LabelSets(), LabelSets()
    for p, weight in labels[:cut]:
        kept.learn(p, kept.threshold, weight)
    resumed.resume(json.loads(json.dumps(kept.state())))
    for sets in (kept, resumed):
        for p, weight in labels[cut:]:
            sets.learn(p, sets.threshold, weight)
    assert kept.state() == resumed.state()


@pytest.mark.parametrize("coverage", [0.0, 1.0, float("nan"), "most"])
def test_a_coverage_that_is_no_share_is_refused(coverage):
    with pytest.raises(ConfigurationError, match="coverage"):
        LabelSets(coverage)
