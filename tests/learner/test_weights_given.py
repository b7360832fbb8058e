"""Sample weights of labels in training."""

import numpy as np
import pytest
from learner.small_learner import IDS, X, Y, assert_same, learn, small

from streamboost.errors import DataError
from streamboost.learner import QueryConfig, Schedule, StreamLearner, WorkingSet

ONCE = Schedule(growth=1000.0, extend_every=None)
"""Trains by itself as soon as there are two classes, and then when it is told to."""


def scores(learner):
    learner.trainer.retrain()
    return learner.score(X).probabilities


@pytest.mark.parametrize(
    "working_set",
    [WorkingSet(kind=kind) for kind in ("sliding", "reservoir", "balanced")]
    + [WorkingSet(kind="time", seconds=60)],
    ids=lambda one: one.kind,
)
def test_a_record_of_weight_two_is_trained_on_as_two(working_set):
    weights = np.random.default_rng(0).integers(1, 4, 200)
    alone = {"schedule": ONCE, "experts": "committee"}
    one, many = (small(working_set=working_set, **alone) for _ in range(2))
    one.learn(IDS[:200], X[:200], Y[:200], weight=weights)
    for i, times in enumerate(weights):
        for n in range(times):
            many.learn([f"{i}-{n}"], X[i : i + 1], Y[i : i + 1])
    for learner in (one, many):
        learner.trainer.newest_version, learner.trainer._seeds = 0, np.random.default_rng(1)
    # Bins are fitted to the rows, of which one learner has more: they need not agree to the bit.
    np.testing.assert_allclose(scores(one), scores(many), atol=0.02)


def test_weights_join_those_by_age():
    learner = small(schedule=ONCE, working_set=WorkingSet(weights="half_life", half_life=1))
    learn(learner, 0, 4, weight=[1, 1, 1, 10])
    by_age = learner.working_set.training_weights(4)
    np.testing.assert_allclose(learner._rows.training_sample().weight, by_age * [1, 1, 1, 10])


@pytest.mark.slow
def test_equal_weights_of_one_change_nothing():
    plain, told = small(), small()
    learn(plain, 0, 120)
    learn(told, 0, 120, weight=np.ones(120))
    assert_same(plain.snapshot(), told.snapshot())


@pytest.mark.parametrize("schedule", [Schedule(), Schedule.per_label()], ids=["plain", "per label"])
def test_a_weight_of_zero_teaches_nothing(schedule):
    strategy = QueryConfig(budget=0.5)
    told, untold = (small(schedule=schedule, query=strategy) for _ in range(2))
    for learner in (told, untold):
        learn(learner, 0, 60)
        learner.query(X[60:90], learner.score(X[60:90]), IDS[60:90])
    weight = np.tile([0.0, 1.0], 15)
    learn(told, 60, 90, weight=weight)
    untold.expire_requests([IDS[i] for i in range(60, 90, 2)])
    odd = list(range(61, 90, 2))
    untold.learn([IDS[i] for i in odd], X[odd], [Y[i] for i in odd])
    assert_same(told.snapshot(), untold.snapshot())


def test_a_label_of_weight_zero_is_not_known_afterwards():
    learner = small()
    learn(learner, 0, 40)
    learner.learn(["new"], X[:1], ["unheard of"], weight=[0])
    assert "unheard of" not in learner.classes
    assert learner.n_labels == 40


def test_the_correction_at_every_label_minds_weights():
    light, heavy = (small(schedule=Schedule.per_label(), experts="committee") for _ in range(2))
    for learner, weight in ((light, 0.01), (heavy, 30.0)):
        learn(learner, 0, 100)
        for i in range(100, 110):
            learner.learn(IDS[i : i + 1], X[:1], ["high"], weight=[weight])
    high = [one.score(X[:1]) for one in (light, heavy)]
    light_says, heavy_says = (one.probabilities[0, one.classes == "high"][0] for one in high)
    assert heavy_says > light_says + 0.1


@pytest.mark.parametrize("schedule", [Schedule(), Schedule.per_label()], ids=["plain", "per label"])
def test_weights_outlast_a_snapshot(schedule):
    learner = small(schedule=schedule)
    learn(learner, 0, 100, weight=np.linspace(0.1, 5, 100))
    twin = StreamLearner.restore(learner.snapshot())
    for one in (learner, twin):
        learn(one, 100, 160, weight=np.linspace(0.1, 5, 60))
    assert_same(learner.snapshot(), twin.snapshot())


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ([1, -0.5, 1], r"weight\[1\] is -0.5: give a finite number, 0 or more"),
        ([1, 1, float("nan")], r"weight\[2\] is nan"),
        ([float("inf"), 1, 1], r"weight\[0\] is inf"),
        ([1e30, 1, 1], r"weight\[0\] is 1e\+30.*at most"),
        ([1, 1], r"weight has shape \(2,\), and there are 3 records"),
        (["much", 1, 1], "weight is not numbers"),
    ],
)
def test_weights_that_cannot_be_are_refused_and_nothing_is_learned(wrong, message):
    learner = small()
    learn(learner, 0, 40)
    before = learner.snapshot()
    with pytest.raises(DataError, match=message):
        learn(learner, 40, 43, weight=wrong)
    assert_same(before, learner.snapshot())
