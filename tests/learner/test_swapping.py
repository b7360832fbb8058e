"""Deployment of a committee that was trained elsewhere."""

from dataclasses import replace

import numpy as np
import pytest
from learner.small_learner import IDS, X, Y, assert_same, learn, small

from streamboost.boosting.reweighting.gamble import GambleClassifier
from streamboost.errors import DataError
from streamboost.learner import QueryConfig, Schedule, StreamLearner
from streamboost.predictions import score_with_committee


def test_a_swapped_committee_serves_under_the_next_version():
    learner = small()
    learn(learner, 0, 10)
    old = learner.committee
    learn(learner, 10, 20)
    made = learner.committee.version
    learner.deploy(old)
    assert learner.score(X).version == made + 1
    np.testing.assert_array_equal(learner.committee.class_scores(X), old.class_scores(X))
    learner.deploy(replace(small().estimator.train(X, np.array(Y), seed=1), version=99))
    assert learner.committee.version == made + 2
    (training, *_) = learn(learner, 20, 21)
    assert training.version == made + 3


def test_scores_taken_before_a_swap_are_not_those_of_a_committee_of_the_same_number():
    query = QueryConfig(budget=0.3, selection="quantile_filter")
    learner, other = small(query=query), small(random_state=9)
    for one in (learner, other):
        learn(one, 0, 40)
    stale = learner.score(X[:50])
    assert stale.version == other.committee.version
    learner.deploy(other.committee)
    restored = StreamLearner.restore(learner.snapshot())
    first = learner.query(X[:50], stale, IDS[:50])
    second = restored.query(X[:50], restored.score(X[:50]), IDS[:50])
    assert first.ids == second.ids
    np.testing.assert_array_equal(first.utility, second.utility)


@pytest.mark.parametrize("restart", [False, True])
def test_a_swapped_committee_of_another_family_serves_until_a_training_anew(restart):
    learner = small(schedule=Schedule(growth=50, extend_every=5, extend_estimators=3))
    learn(learner, 0, 30)
    foreign = GambleClassifier(n_estimators=4).train(X, np.array(Y), seed=1)
    learner.deploy(foreign)
    if restart:
        learner = StreamLearner.restore(learner.snapshot())
    np.testing.assert_array_equal(learner.committee.class_scores(X), foreign.class_scores(X))
    (training,) = learn(learner, 30, 35)
    assert training.kind == "retrain"
    assert [t.kind for t in learn(learner, 35, 40)] == ["extend"]


def test_a_swapped_committee_of_the_same_family_is_extended():
    learner = small(schedule=Schedule(growth=50, extend_every=5, extend_estimators=3))
    learn(learner, 0, 30)
    learner.deploy(learner.estimator.train(X, np.array(Y), seed=1, n_estimators=20))
    assert [t.kind for t in learn(learner, 30, 35)] == ["extend"]
    assert learner.committee.n_rounds == 23


@pytest.mark.parametrize("experts", ["all", "committee"])
def test_a_swapped_committee_of_one_class_serves_until_a_training_anew(experts):
    learner = small(query=QueryConfig(budget=0.3), experts=experts)
    learn(learner, 0, 30)
    learner.deploy(learner.estimator.train(X, np.array(["high"] * len(X)), seed=1))
    assert set(learner.committee.classes) == {"high"}
    learner.query(X, learner.score(X), IDS)
    assert learn(learner, 30, 41)[0].kind == "retrain"


@pytest.mark.parametrize(
    ("labels", "classes", "words"),
    [
        (Y, np.arange(300) % 2, "classes.0. is 0, and this learner's labels are text"),
        (
            list(range(300)),
            np.array(Y),
            "classes.0. is 'high', and this learner's labels are whole",
        ),
        (list(range(300)), np.arange(300) % 2 / 2, "classes.0. is 0.0: labels are text or whole"),
        (list(range(300)), np.arange(300) % 2 > 0, "classes.0. is False"),
    ],
)
def test_a_committee_whose_classes_are_no_labels_here_is_refused(labels, classes, words):
    learner = small()
    learner.learn(IDS[:10], X[:10], labels[:10])
    before = learner.snapshot()
    with pytest.raises(DataError, match=words):
        learner.deploy(learner.estimator.train(X, classes, seed=1))
    assert_same(learner.snapshot(), before)


def test_the_first_labels_are_of_the_kind_of_the_committee_that_serves():
    learner = small()
    learner.deploy(learner.estimator.train(X, np.array(Y), seed=1))
    learner = StreamLearner.restore(learner.snapshot())
    with pytest.raises(DataError, match="labels are text"):
        learner.learn(IDS[:1], X[:1], [1])
    learn(learner, 0, 10)


def test_a_swap_has_earlier_records_measured_anew_even_under_the_same_number():
    learner = small()
    learn(learner, 0, 20)
    learner.query(X[:30], learner.score(X[:30]), IDS[:30])
    other = learner.estimator.train(X, np.array(Y), seed=9)
    learner.deploy(replace(other, version=learner.committee.version))
    learner.query(X[:0], learner.score(X[:0]), [])
    measured = learner.snapshot()["window.utility"]
    margins = score_with_committee(learner.committee, X[:30]).margins
    np.testing.assert_array_equal(measured, 1 / (1 + margins))


def test_swapping_nothing_leaves_the_committee():
    learner = small()
    learn(learner, 0, 10)
    committee = learner.committee
    learner.deploy(None)
    assert learner.committee is committee
