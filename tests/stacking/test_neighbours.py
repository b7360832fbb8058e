from functools import cache

import numpy as np
import pytest
from learner.small_learner import IDS, X, Y, learn, small

from streamboost.learner import QueryConfig, Schedule, StreamLearner
from streamboost.stacking import neighbours
from streamboost.stacking.experts import TREES, ExpertRecords, RunningScaler
from streamboost.stacking.neighbours import NeighboursExpert

the_committee = cache(lambda: small().estimator.train(X[:100], np.array(Y[:100]), seed=1))


def taught(n, width=3):
    """Return neighbours that know the first rows, which have columns more."""
    scale = RunningScaler()
    expert = NeighboursExpert(scale)
    for part in (scale, expert):
        part.set_n_features(width)
    wide = np.ascontiguousarray(np.hstack([X, X[:, ::-1]])[:, :width])
    for i in range(n):
        scale.learn(wide[i])
        expert.learn(the_committee(), wide[i], Y[i], ["low", "middle", "high"].index(Y[i]), 1.0)
    return expert, wide


def say(expert, rows, committee=None):
    committee = committee or the_committee()
    said = np.full((3, len(rows), 3), -9.0)
    scores, leaves = committee.learners.scores_and_leaves(committee.base, rows, TREES)
    expert.predict(ExpertRecords(committee, rows, scores, {}, np.arange(3), leaves), said)
    return said


def test_without_a_label_nothing_is_said():
    assert (say(taught(0)[0], X[:2]) == -9.0).all()


def test_a_row_known_is_its_own_nearest():
    expert, rows = taught(150)
    by_features = say(expert, rows[:150])[0]
    wanted = [["low", "middle", "high"].index(label) for label in Y[:150]]
    np.testing.assert_array_equal(by_features.argmax(axis=1), wanted)


def test_leaves_are_those_of_the_committee_that_serves():
    other = small().estimator.train(X[100:200], np.array(Y[100:200]), seed=2)
    used, fresh = taught(80)[0], taught(80)[0]
    say(used, X)
    np.testing.assert_array_equal(say(used, X, other), say(fresh, X, other))
    np.testing.assert_array_equal(say(used, X), say(fresh, X))


def test_rows_learned_between_two_words_are_read_as_those_learned_before_both():
    steady = taught(120)[0]
    asked = NeighboursExpert(steady._scale)
    asked.set_n_features(3)
    for i in range(120):
        asked.learn(the_committee(), X[i], Y[i], ["low", "middle", "high"].index(Y[i]), 1.0)
        if i % 7 == 0:
            say(asked, X[:2])
    np.testing.assert_array_equal(say(asked, X), say(steady, X))


def test_columns_that_join_tell_rows_apart():
    expert, rows = taught(100, width=4)
    far = rows[:100].copy()
    far[:, 3] += 100
    assert (say(expert, far)[0].argmax(axis=1) != say(expert, rows[:100])[0].argmax(axis=1)).any()


@pytest.mark.parametrize("n", [7, 20, 33])
def test_a_ring_restored_after_it_went_round_says_the_same_bit_for_bit(monkeypatch, n):
    monkeypatch.setattr(neighbours, "_SIZE", 20)
    weights = np.random.default_rng(n).random(n + 5)
    learner = small(query=QueryConfig(budget=1.0), schedule=Schedule(first=5), experts="all")
    learn(learner, 0, n, weight=weights[:n])
    twin = StreamLearner.restore(learner.snapshot())
    for i in range(n, n + 5):
        scored = [one.score(X) for one in (learner, twin)]
        np.testing.assert_array_equal(scored[0].experts, scored[1].experts)
        for one in (learner, twin):
            one.learn(IDS[i : i + 1], X[i : i + 1], Y[i : i + 1], weight=weights[i : i + 1])
