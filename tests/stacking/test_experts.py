"""Selection of experts, and their weights after changes of committees, classes and columns."""

import numpy as np
import pytest
from learner.small_learner import IDS, X, Y, assert_same, learn, small

from streamboost.boosting.costs.rebel import RebelClassifier
from streamboost.boosting.log_loss.sketch import SketchLogitBoostClassifier
from streamboost.errors import ConfigurationError
from streamboost.features import Features
from streamboost.learner import QueryConfig, Schedule, StreamLearner
from streamboost.stacking.experts import EXPERTS, as_expert_names

ALL = QueryConfig(budget=1.0)
NAMES = [
    *("committee", "correction", "nearest", "leaf neighbour", "leaf neighbours"),
    *("transitions", "linear"),
]


def served(learner, start, stop, *, batch=1, delay=0, width=3):
    """Score, query and learn records with labels `delay` records late; return the predictions."""
    said, waiting = [], list(range(max(start - delay, 0), start))
    wide = np.hstack([X, X[:, ::-1]])[:, :width]
    for at in range(start, stop, batch):
        end = min(at + batch, stop)
        rows, ids = wide[at:end], IDS[at:end]
        scored = learner.score(rows)
        said += scored.probabilities.tolist()
        learner.query(rows, scored, ids)
        waiting += range(at, end)
        due = waiting[: max(len(waiting) - delay, 0)]
        del waiting[: len(due)]
        for i in due:  # one by one, however they were scored
            learner.learn(IDS[i : i + 1], wide[i : i + 1], Y[i : i + 1])
    return said


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ("all", EXPERTS),
        (["all"], EXPERTS),
        ("committee", ("committee",)),
        (["text", "linear", "committee"], ("committee", "linear", "text")),
        (("committee", "transitions", "transitions"), ("committee", "transitions")),
    ],
    ids=str,
)
def test_experts_are_named_one_by_one_or_all_at_once(given, wanted):
    assert as_expert_names(given) == wanted
    assert small(experts=given).experts == wanted


@pytest.mark.parametrize(
    "wrong", ["none", "transitions", [], ["transitions"], ["committee", "oracle"]]
)
def test_experts_that_are_not_known_or_lack_the_committee_are_refused(wrong):
    with pytest.raises(ConfigurationError, match=r'experts is .*: give "all", "committee" alone'):
        StreamLearner(experts=wrong)


def test_all_have_a_voice_by_default_and_words_where_there_are_features():
    assert small()._stacking.names == NAMES
    learner = small(features=Features({"note": "text"}))
    assert learner._stacking.names == [*NAMES, "text"]


@pytest.mark.parametrize("name", EXPERTS[1:5])
def test_any_may_speak_beside_the_committee(name):
    learner = small(experts=["committee", name], query=ALL)
    served(learner, 0, 80)
    twin = StreamLearner.restore(learner.snapshot())
    assert twin.experts == ("committee", name)
    assert served(learner, 80, 110) == served(twin, 80, 110)
    assert learner._stacking.names[0] == "committee"
    assert set(learner._stacking.names[1:]) <= set(NAMES)
    assert (learner.predict(X[110:]) == np.array(Y[110:])).mean() > 0.7


def test_a_schedule_that_corrects_does_so_whoever_else_speaks():
    schedule = Schedule.per_label(correction_rounds=3)
    assert small(experts=["committee", "linear"], schedule=schedule)._stacking.names == [
        "committee", "correction", "linear",
    ]  # fmt: skip
    assert small(experts="committee", schedule=schedule)._stacking.names == ["committee"]


@pytest.mark.parametrize("delay", [0, 9])
@pytest.mark.quick_once
def test_a_learner_restored_at_every_step_says_the_same_bit_for_bit(delay):
    steady, stopped = small(query=ALL), small(query=ALL)
    width = 3
    for start in range(0, 91, 13):
        if start == 52:
            width = 5  # columns join
            for one in (steady, stopped):
                one.widen_rows(width)
        first = served(steady, start, start + 13, delay=delay, width=width)
        for i in range(start, start + 13):
            stopped = StreamLearner.restore(stopped.snapshot())
            again = served(stopped, i, i + 1, delay=delay, width=width)
            assert again == first[i - start : i - start + 1]
        assert_same(steady.snapshot(), stopped.snapshot())
    assert (steady._stacking.weights != small()._stacking.weights).all()


def test_what_is_said_of_a_record_does_not_depend_on_those_it_is_scored_with():
    learner = small(query=ALL)
    served(learner, 0, 120)
    whole = learner.score(X)
    for size in (1, 7, 129):
        parts = [learner.score(X[i : i + size]) for i in range(0, len(X), size)]
        for name in ("probabilities", "margins", "labels"):
            together = np.concatenate([getattr(one, name) for one in parts])
            np.testing.assert_array_equal(together, getattr(whole, name))
        experts = np.concatenate([one.experts for one in parts], axis=1)
        np.testing.assert_array_equal(experts, whole.experts)


@pytest.mark.slow
def test_nor_do_weights_on_how_late_labels_are_cut_into_batches():
    # The last record of a batch has just been scored when the labels due are learned.
    together, apart = small(query=ALL), small(query=ALL)
    for learner in (together, apart):
        served(learner, 0, 60)
        learner.query(X[60:90], learner.score(X[60:90]), IDS[60:90])
    learn(together, 60, 90)
    for i in range(60, 90):
        learn(apart, i, i + 1)
        apart.score(X[i : i + 5])
    assert_same(together.snapshot(), apart.snapshot())


# Committees that are not like others

COSTS = [[0, 1, 9], [1, 0, 1], [1, 1, 0]]


@pytest.mark.slow
def test_where_mistakes_cost_the_committee_answers_alone():
    estimator = RebelClassifier(n_estimators=4, cost_matrix=COSTS)
    learners = [
        small(estimator=estimator, query=ALL, schedule=Schedule(first=30), experts=experts)
        for experts in ("all", "committee")
    ]
    first, second = (served(one, 0, 80, batch=10) for one in learners)
    assert first == second
    scored = learners[0].score(X)
    assert scored.experts is None
    assert scored.labels.tolist() == learners[1].predict(X).tolist()


@pytest.mark.slow
def test_of_a_committee_that_cannot_be_corrected_the_correction_says_what_it_says():
    learner = small(estimator=RebelClassifier(n_estimators=4), query=ALL)
    served(learner, 0, 90, batch=3)
    experts = learner.score(X).experts
    np.testing.assert_array_equal(experts[1], experts[0])
    assert (learner.predict(X[90:]) == np.array(Y[90:])).mean() > 0.7


def test_of_a_committee_without_trees_two_neighbours_say_what_it_says():
    estimator = RebelClassifier(weak_learner="localized_similarity", n_estimators=4)
    learner = small(estimator=estimator, query=ALL)
    served(learner, 0, 60, batch=5)
    experts = learner.score(X).experts
    assert learner.committee.learners.leaf_indices(X, 64).shape == (300, 0)
    np.testing.assert_array_equal(experts[3:5], experts[[0, 0]])
    assert (experts[2] != experts[0]).any()


@pytest.mark.parametrize(
    "labels", [["z", "q"], ["low"], ["high", "z"], ["low", "middle", "high", "x", "y"]], ids=str
)
def test_a_committee_of_other_classes_may_serve(labels):
    learner = small(query=ALL)
    served(learner, 0, 40)
    y = np.array([labels[i % len(labels)] for i in range(100)])
    learner.deploy(learner.estimator.train(X[:100], y, seed=1))
    scored = learner.score(X)
    assert scored.classes.tolist()[:3] == list(dict.fromkeys(Y[:40]))
    assert set(scored.classes) == {"low", "middle", "high", *labels}
    np.testing.assert_allclose(scored.probabilities.sum(axis=1), 1)
    learner.query(X[40:60], learner.score(X[40:60]), IDS[40:60])
    learner.learn(IDS[40:46], X[40:46], ["z", "low", "fresh", "z", "high", "q"])
    twin = StreamLearner.restore(learner.snapshot())
    for one in (learner, twin):
        learn(one, 46, 60)
    assert_same(learner.snapshot(), twin.snapshot())
    np.testing.assert_array_equal(learner.score(X).probabilities, twin.score(X).probabilities)


def test_a_committee_may_serve_before_there_are_labels():
    learner = small()
    learner.deploy(SketchLogitBoostClassifier(n_estimators=3).train(X, np.array(Y), seed=1))
    scored = learner.score(X)
    own = learner.committee.probabilities(learner.committee.class_scores(X))
    np.testing.assert_array_equal(scored.labels, learner.committee.classes[own.argmax(axis=1)])
    assert learn(learner, 0, 1) == ()
