from collections import deque

import numpy as np
import pytest

from streamboost.stacking import online
from streamboost.stacking.experts import ExpertRecords
from streamboost.stacking.online import LabelTransitionModel


def says(expert, n_classes):
    said = np.full((1, 2, n_classes), -9.0)
    expert.predict(ExpertRecords(None, None, None, {}, None, None), said)
    np.testing.assert_array_equal(said[0, 0], said[0, 1])
    return said[0, 0]


def counted(pairs, newest, n_classes):
    """The slow twin: chances of what follows `newest`, from all (before, label, weight) so far."""
    counts = np.zeros(n_classes)
    for before, k, weight in pairs:
        if before == newest:
            counts *= 0.98
            counts[k] += weight
    return np.log((counts + 0.3) / (counts + 0.3).sum())


@pytest.mark.parametrize("delay", [0, 1, 7])
def test_labels_are_counted_after_the_one_that_was_the_newest_on_arrival(delay):
    rng = np.random.default_rng(delay)
    labels, weights = rng.integers(0, 4, 300), rng.choice([0.5, 1.0, 3.0], 300)
    expert, waiting, pairs = LabelTransitionModel(), deque(), []
    for label, weight in zip(labels.tolist(), weights.tolist(), strict=True):
        waiting.append((expert.newest, label, weight))
        if len(waiting) > delay:
            pairs.append(waiting.popleft())
            expert.learn_transition(*pairs[-1])
            assert expert.newest == pairs[-1][1]
            known = max(k for _, k, _ in pairs) + 1
            np.testing.assert_allclose(
                says(expert, known), counted(pairs, expert.newest, known), rtol=1e-9
            )


@pytest.mark.slow
def test_with_late_labels_runs_are_followed_as_far_as_they_are_long():
    labels = np.arange(4000) // 20 % 3
    for delay, low, high in [(0, 0.9, 1.0), (5, 0.6, 0.8), (20, 0.9, 1.0)]:
        expert, waiting, right = LabelTransitionModel(), deque(), []
        for label in labels.tolist():
            right.append(says(expert, 3).argmax() == label)
            waiting.append((expert.newest, label))
            if len(waiting) > delay:
                expert.learn_transition(*waiting.popleft(), 1.0)
        assert low < np.mean(right[500:]) < high


def test_before_the_first_label_nothing_is_said():
    assert says(LabelTransitionModel(), 2).tolist() == [-9.0, -9.0]


def test_of_classes_that_it_does_not_know_it_says_nothing():
    expert = LabelTransitionModel()
    expert.learn_transition(-1, 0, 1.0)
    expert.learn_transition(0, 1, 1.0)
    assert says(expert, 3)[2] == -9.0


def test_classes_beyond_its_table_are_passed_over(monkeypatch):
    monkeypatch.setattr(online, "MOST_CLASSES", 3)
    expert = LabelTransitionModel()
    for before, k in [(-1, 0), (0, 2), (2, 3), (-1, 9), (-1, 1)]:
        expert.learn_transition(before, k, 1.0)
        assert expert.newest == (k if k < 3 else -1)
    assert expert.state()[1]["counts"].shape == (3, 3)
    assert expert.state()[1]["counts"].sum() == 1


def test_an_expert_resumed_goes_on():
    expert, twin = LabelTransitionModel(), LabelTransitionModel()
    for before, k in [(-1, 0), (0, 1), (1, 0), (0, 1)]:
        expert.learn_transition(before, k, 1.0)
    twin.resume(*expert.state())
    for one in (expert, twin):
        one.learn_transition(1, 4, 2.0)
        one.learn_transition(4, 1, 2.0)
    np.testing.assert_array_equal(says(expert, 5), says(twin, 5))
