import numpy as np
import pytest

from streamboost.boosting.costs.rebel import RebelClassifier
from streamboost.boosting.log_loss.sketch import SketchLogitBoostClassifier
from streamboost.errors import ConfigurationError
from streamboost.learner import Schedule, StreamLearner

RNG = np.random.default_rng(2)
X = RNG.random((400, 3), dtype=np.float32)
X[RNG.random(X.shape) < 0.05] = np.nan
RUNS = np.arange(400) // 40 % 4
Y = [("north", "east", "south", "west")[k] for k in RUNS]  # says nothing about X
IDS = [str(i) for i in range(len(X))]


def following(estimator=None, **settings):
    if estimator is None:
        estimator = SketchLogitBoostClassifier(n_estimators=5, max_leaf_nodes=4)
    schedule = Schedule.per_label(**settings)
    return StreamLearner(estimator, schedule=schedule, random_state=3, experts="committee")


def learn(learner, start, stop):
    return learner.learn(IDS[start:stop], X[start:stop], Y[start:stop])


def one_by_one(learner, start, stop):
    """Predict and learn each record; return the share of right answers."""
    right = 0
    for i in range(start, stop):
        right += learner.predict(X[i : i + 1])[0] == Y[i]
        learn(learner, i, i + 1)
    return right / (stop - start)


def test_the_newest_labels_count_at_once():
    rights = [one_by_one(following(correction_rounds=n), 0, 400) for n in (5, 0)]
    assert rights[0] > 0.75
    assert rights[1] < 0.6


def test_a_class_the_committee_does_not_know_is_predicted_before_the_next_training():
    learner = following()
    trainings = learn(learner, 0, 94)
    assert "south" not in learner.committee.classes
    assert trainings[-1].labels < 80
    scored = learner.score(X[94:])
    assert np.mean(scored.labels == "south") > 0.6
    assert scored.classes.tolist() == ["east", "north", "south"]
    np.testing.assert_allclose(scored.probabilities.sum(axis=1), 1)


def test_corrections_make_no_versions_and_leave_the_committee_alone():
    learner, plain = following(), following(correction_rounds=0)
    assert learn(learner, 0, 100) == learn(plain, 0, 100)
    learner.score(X)
    np.testing.assert_array_equal(
        learner.committee.class_scores(X), plain.committee.class_scores(X)
    )
    assert learner.score(X).version == plain.score(X).version


def test_predictions_do_not_depend_on_how_labels_are_cut_into_batches_or_when_records_are_scored():
    whole, parts = following(), following()
    learn(whole, 0, 120)
    for a, b in [(0, 1), (1, 70), (70, 71), (71, 120)]:
        learn(parts, a, b)
        parts.score(X[:5])
    np.testing.assert_array_equal(whole.score(X).probabilities, parts.score(X).probabilities)


def test_columns_that_join_are_corrected_by_from_the_next_training_on():
    learner = following()
    learn(learner, 0, 60)
    learner.widen_rows(4)
    wider = np.column_stack([X, RUNS]).astype(np.float32)
    scored = []
    for i in range(60, 130):
        learner.learn(IDS[i : i + 1], wider[i : i + 1], Y[i : i + 1])
        scored.append(learner.score(wider[i : i + 1]).labels[0] == Y[i])
    assert np.mean(scored) > 0.85
    assert learner.committee.n_features == 4


@pytest.mark.parametrize("stop", [0, 1, 7, 49, 50, 51, 90, 130])
def test_a_restored_learner_goes_on_as_if_never_stopped(stop):
    learner = following()
    learn(learner, 0, stop)
    twin = StreamLearner.restore(learner.snapshot())
    for i in range(stop, stop + 60, 7):
        for each in (learner, twin):
            learn(each, i, i + 7)
        first, second = learner.score(X[i:]), twin.score(X[i:])
        np.testing.assert_array_equal(first.probabilities, second.probabilities)
        np.testing.assert_array_equal(first.classes, second.classes)


def test_scores_of_another_kind_are_refused_with_a_word():
    learner = following(RebelClassifier(n_estimators=2))
    learn(learner, 0, 60)
    with pytest.raises(ConfigurationError, match="correction_rounds to 0"):
        learner.score(X[:1])
