"""Repeated labels of a record: corrected, voted on, retracted."""

import numpy as np
import pytest
from learner.small_learner import IDS, X, Y, assert_same, learn, small

from streamboost.errors import ConfigurationError
from streamboost.features import Features
from streamboost.learner import QueryConfig, Schedule, StreamLearner, WorkingSet

NEVER = Schedule(first=1_000)


def labels_of(learner):
    return learner._rows.training_sample().y.tolist()


def asked_and_learned(n=120, **settings):
    """Return a learner that asked for every label, and has them."""
    learner = small(query=QueryConfig(strategy="random", budget=1.0, audit=0.0), **settings)
    asked = learner.query(X[:n], learner.score(X[:n]), IDS[:n])
    learn(learner, 0, n, propensity=np.ones(n))
    assert len(asked) == n
    return learner


@pytest.mark.parametrize("kind", ["sliding", "reservoir", "balanced"])
def test_a_later_label_takes_the_place_of_the_one_before(kind):
    learner = small(working_set=WorkingSet(kind=kind, size=50), schedule=NEVER)
    learn(learner, 0, 40)
    learner.learn([IDS[3]], X[3:4], ["other"])
    assert labels_of(learner) == [*Y[:3], "other", *Y[4:40]]
    assert np.array_equal(learner._rows.training_sample().X, X[:40], equal_nan=True)
    assert learner.label_of(IDS[3]) == "other"


def test_the_columns_of_a_record_stay_as_they_were():
    learner = small(schedule=NEVER)
    learn(learner, 0, 5)
    learner.learn([IDS[2]], np.full((1, 3), 9.0), ["other"])
    assert np.array_equal(learner._rows.training_sample().X, X[:5], equal_nan=True)


def test_the_first_label_stays_where_that_is_the_rule():
    learner = small(on_conflict="first", schedule=NEVER)
    learn(learner, 0, 5)
    learner.learn([IDS[2]], X[2:3], ["other"])
    assert labels_of(learner) == Y[:5]


def test_a_vote_needs_more_than_a_tie_and_each_source_has_one():
    learner = small(on_conflict="vote", schedule=NEVER)
    learner.learn(["a", "b"], X[:2], ["ok", "ok"], sources=["ann", "ann"])
    learner.correct(["a"], ["fraud"], sources=["bob"])
    assert learner.label_of("a") == "ok"
    learner.correct(["a"], ["fraud"], sources=["bob"])
    assert learner.label_of("a") == "ok", "who says it twice has said it once"
    learner.correct(["a"], ["fraud"], sources=["cid"])
    assert learner.label_of("a") == "fraud"


def test_a_label_that_is_taken_back_leaves_no_row():
    learner = small(schedule=NEVER)
    learn(learner, 0, 5)
    learner.correct([IDS[2]], [None])
    assert labels_of(learner) == [*Y[:2], *Y[3:5]]
    assert learner.label_of(IDS[2]) is None
    learner.learn([IDS[2]], X[2:3], ["other"])
    assert labels_of(learner) == [*Y[:2], *Y[3:5], "other"]


def test_the_classes_are_those_of_the_records_there_are():
    learner = small(schedule=NEVER)
    learner.learn(["a", "b"], X[:2], ["typo", "low"])
    learner.correct(["a"], ["low"])
    assert learner.classes == ["low"]
    assert learner.score(X[:1]).labels.tolist() == ["low"]


def test_an_id_that_is_queried_again_names_another_record():
    learner = small(schedule=NEVER)
    learner.learn(["a"], X[:1], ["low"])
    learner.query(X[1:2], learner.score(X[1:2]), ["a"])
    learner.learn(["a"], X[1:2], ["high"])
    assert labels_of(learner) == ["low", "high"]
    learner.correct(["a"], ["middle"])
    assert labels_of(learner) == ["low", "middle"]


def test_rows_that_left_the_working_set_are_not_found():
    learner = small(working_set=WorkingSet(size=10), schedule=NEVER)
    learn(learner, 0, 200)
    learner.correct(IDS[:190], ["other"] * 190)
    assert labels_of(learner) == Y[190:200]
    assert len(learner._rows._named) <= 2 * 10 + 64 + 1


def test_every_label_is_that_of_another_record_where_nobody_looks():
    learner = small(on_conflict=None, schedule=NEVER)
    learn(learner, 0, 5)
    learn(learner, 0, 5)
    assert labels_of(learner) == Y[:5] * 2


def test_a_rule_that_there_is_not_is_refused():
    with pytest.raises(ConfigurationError, match="on_conflict 'newest' is not known"):
        small(on_conflict="newest")


def test_retraining_follows_the_schedule_as_labels_are_corrected():
    learner = small()
    learn(learner, 0, 100)
    before = learner.committee.version
    wrong = [i for i in range(100) if Y[i] == "low"]
    trainings = learner.correct([IDS[i] for i in wrong], ["high"] * len(wrong))
    assert trainings
    assert learner.committee.version > before
    assert "low" not in learner.predict(X[:100]).tolist()


@pytest.mark.parametrize("n", [120, 450], ids=["in the queue", "in the sums"])
def test_the_honest_figures_are_those_of_the_labels_that_hold(n):
    ids = [str(i) for i in range(n)]
    rows, truth = np.tile(X, (2, 1))[:n], (Y * 2)[:n]
    drawn = np.random.default_rng(1).random(n) < 0.5
    first = [label if right else "low" for label, right in zip(truth, drawn, strict=True)]
    corrected, told = (
        small(query=QueryConfig(strategy="random", budget=1.0, audit=0.0), schedule=NEVER)
        for _ in range(2)
    )
    for learner, labels in ((corrected, first), (told, truth)):
        learner.learn(["1st", "2nd", "3rd"], X[:3], ["low", "middle", "high"])
        scored = learner.score(rows)
        learner.query(rows, scored, ids)
        learner.learn(ids, rows, labels, propensity=np.ones(n))
    corrected.correct(ids, truth)
    for report in ("since_start", "recent"):
        ours, theirs = (getattr(one.evaluation, report)() for one in (corrected, told))
        assert ours.answered == theirs.answered == n
        assert ours.committee.accuracy.value == pytest.approx(theirs.committee.accuracy.value)
        assert np.allclose(ours.confusion, theirs.confusion)


def test_an_answer_that_is_taken_back_is_one_less():
    learner = asked_and_learned(450 - 200, schedule=NEVER)
    assert learner.evaluation.since_start().answered == 250
    learner.correct(IDS[:3], [None] * 3)
    assert learner.evaluation.since_start().answered == 247


def test_running_rates_subtract_what_was_counted():
    fields = {"shop": {"type": "category", "min_frequency": 1}, "amount": "number"}
    corrected, told = (
        StreamLearner(features=Features(fields), schedule=NEVER, random_state=3) for _ in range(2)
    )
    values = [(f"shop {i % 300}", float(i)) for i in range(700)]
    first = ["ok"] * 700
    truth = ["fraud" if i % 7 == 0 else "ok" for i in range(700)]
    ids = [str(i) for i in range(700)]
    for learner, labels in ((corrected, first), (told, truth)):
        rows = learner.encode_arrivals(values)
        learner.learn(["f", "o"], rows[:2], ["fraud", "ok"], records=values[:2])
        learner.learn(ids, [None] * 700, labels, records=values)
    corrected.correct(ids, truth)
    assert corrected.encode_records(values).tolist() == told.encode_records(values).tolist()


def test_what_learns_label_by_label_learns_it_as_one_more_example():
    fields = {"note": "text"}
    learner = StreamLearner(features=Features(fields), schedule=NEVER, random_state=3)
    values = [(f"{word} number {i}",) for i, word in enumerate(["meadow", "brook"] * 20)]
    learner.learn([str(i) for i in range(40)], [None] * 40, ["grass", "water"] * 20, records=values)
    before = learner.features.encode([("meadow",)])[0]
    learner.correct(["0", "2", "4"], ["water"] * 3, records=[values[i] for i in (0, 2, 4)])
    after = learner.features.encode([("meadow",)])[0]
    assert after[1] > before[1]


@pytest.mark.parametrize("rule", ["last", "vote"])
@pytest.mark.parametrize("kind", ["sliding", "balanced", "reservoir"])
@pytest.mark.quick_once
def test_saving_and_restoring_between_corrections_changes_nothing(rule, kind):
    settings = {"working_set": WorkingSet(kind=kind, size=60), "on_conflict": rule}
    steady, moved = (asked_and_learned(90, **settings) for _ in range(2))
    for turn, (start, label) in enumerate([(20, "low"), (50, "high"), (60, None), (61, "low")]):
        moved = StreamLearner.restore(moved.snapshot())
        for learner in (steady, moved):
            ids = IDS[start : start + 25]
            learner.correct(ids, [label] * 25, sources=[f"person {turn}"] * 25)
            learn(learner, 90 + turn, 91 + turn)
    assert_same(steady.snapshot(), moved.snapshot())


def test_an_id_that_comes_back_is_the_last_whether_a_snapshot_was_taken_or_not():
    steady, moved = (small(schedule=NEVER) for _ in range(2))
    for learner in (steady, moved):
        learn(learner, 0, 30)
        learner.rename_class("low", None)
        if learner is moved:
            learner.snapshot()
        learn(learner, 0, 10)
    assert_same(steady.snapshot(), moved.snapshot())
