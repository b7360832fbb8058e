"""Trainings on a background thread, and the conditions to deploy their committees."""

import threading

import numpy as np
import pytest

from streamboost.boosting.log_loss.sketch import SketchLogitBoostClassifier
from streamboost.errors import ConfigurationError, DataError
from streamboost.learner import Schedule, StreamLearner, WorkingSet

RNG = np.random.default_rng(5)
X = RNG.random((400, 3), dtype=np.float32)
Y = np.where(X[:, 0] < 0.3, "low", np.where(X[:, 1] < 0.5, "middle", "high")).tolist()
IDS = [str(i) for i in range(len(X))]
WRONG = ["low" if label == "high" else "high" for label in Y]


def small(**schedule):
    return StreamLearner(
        SketchLogitBoostClassifier(
            n_estimators=8, learning_rate=0.5, max_leaf_nodes=4, min_child_weight=0.01
        ),
        WorkingSet(size=100),
        Schedule(**schedule),
        random_state=3,
    )


def learn(learner, start, stop, labels=Y):
    return learner.learn(IDS[start:stop], X[start:stop], labels[start:stop])


def arrive(learner):
    """Swap in what the thread is at; return what was started then."""
    return learner.deploy(
        learner.trainer.wait_for_training(learner.trainer.running_training.version)
    )


class Held(SketchLogitBoostClassifier):
    """Trains no committee before `go` is set, however it is copied."""

    go = threading.Event()

    def train(self, *arguments, **more):
        assert self.go.wait(60)
        return super().train(*arguments, **more)


def test_a_thread_trains_while_scoring_and_learning_go_on():
    learner = StreamLearner(Held(n_estimators=3), schedule=Schedule(training="background"))
    Held.go.clear()
    (training,) = learn(learner, 0, 30)
    assert learner.trainer.running_training == training
    assert learner.trainer.finished_committee() is None
    assert learner.score(X[:5]).version == 0
    Held.go.set()
    arrive(learner)
    assert learner.score(X[:5]).version == training.version == 1


def test_what_a_thread_trains_is_what_would_have_been_trained_inline():
    beside, inline = small(training="background"), small()
    (training,) = learn(beside, 0, 5)
    assert (training, learn(beside, 5, 90)) == (learn(inline, 0, 5)[0], ())
    committee = beside.trainer.wait_for_training(training.version)
    expected = inline.estimator.train(
        X[: training.labels], np.array(Y[: training.labels]), seed=training.seed
    )
    np.testing.assert_array_equal(committee.class_scores(X), expected.class_scores(X))


def test_a_committee_serves_from_the_swap_on_and_not_before():
    learner = small(training="background")
    learn(learner, 0, 30)
    made = learner.trainer.wait_for_training(1)
    assert learner.trainer.finished_committee() is made
    assert learner.committee is None
    learner.deploy(made)
    assert learner.committee is made


def test_of_the_trainings_due_while_one_runs_only_the_newest_starts_at_the_swap():
    learner = small(training="background", growth=1.5, extend_every=5)
    (first,) = learn(learner, 0, 10)
    assert learn(learner, 10, 57) == ()
    (second,) = arrive(learner)
    assert (first.kind, first.version) == ("first", 1)
    assert (second.kind, second.version, second.labels) == ("retrain", 2, 57)
    assert arrive(learner) == ()


def test_an_extension_in_a_thread_adds_to_the_committee_that_served_when_it_began():
    learner = small(training="background", first=20, growth=50, extend_every=5, extend_estimators=3)
    learn(learner, 0, 30)
    (extension,) = arrive(learner)
    assert extension.kind == "extend"
    arrive(learner)
    assert learner.committee.n_rounds == 8 + 3


def test_a_training_in_a_thread_is_begun_again_after_a_restore():
    learner = small(training="background")
    learn(learner, 0, 60)
    restored = StreamLearner.restore(learner.snapshot())
    assert restored.trainer.running_training == learner.trainer.running_training
    for one in (learner, restored):
        arrive(one)
    np.testing.assert_array_equal(
        restored.committee.class_scores(X), learner.committee.class_scores(X)
    )


def test_a_committee_from_elsewhere_gives_up_the_training_under_way():
    learner = small(training="background")
    learn(learner, 0, 30)
    given_up = learner.trainer.wait_for_training(1)
    other = learner.estimator.train(X, np.array(Y), seed=9)
    learner.deploy(other)
    assert learner.trainer.running_training is None
    assert learner.committee.version == 2
    with pytest.raises(DataError, match="version 1 cannot be waited for: nothing is"):
        learner.trainer.wait_for_training(1)
    (training,) = learn(learner, 30, 31)
    assert training.version == 3
    learner.deploy(given_up)
    assert learner.committee.version == 4, "it comes back as one from elsewhere"


def test_what_goes_wrong_in_a_thread_is_raised_where_its_committee_is_taken():
    class Failing(SketchLogitBoostClassifier):
        def train(self, *arguments, **more):
            raise MemoryError("no room")

    learner = StreamLearner(Failing(), schedule=Schedule(training="background"))
    learn(learner, 0, 30)
    with pytest.raises(MemoryError, match="no room"):
        learner.trainer.wait_for_training(1)
    with pytest.raises(MemoryError, match="no room"):
        learner.trainer.finished_committee()


@pytest.fixture
def judging():
    """A learner with a good champion, and a challenger that a hundred wrong labels made."""
    learner = small(
        promotion="better",
        n_evaluation_labels=10,
        first=100,
        growth=9,
        retrain_every=None,
        extend_every=None,
    )
    learner.deploy(learner.estimator.train(X, np.array(Y), seed=1))
    learn(learner, 0, 100, WRONG)
    assert learner.trainer.challenger is not None
    return learner


def test_a_challenger_that_makes_more_errors_on_labels_it_has_not_seen_is_dropped(judging):
    champion, challenger = judging.committee, judging.trainer.challenger
    learn(judging, 100, 109, Y)
    assert judging.trainer.challenger is challenger, "one label is missing"
    learn(judging, 109, 110, Y)
    assert judging.trainer.challenger is None
    assert judging.committee is champion


def test_a_challenger_that_makes_fewer_errors_serves_from_the_label_that_settles_it(judging):
    champion, challenger = judging.committee, judging.trainer.challenger
    learn(judging, 100, 109, WRONG)
    assert judging.committee is champion
    learn(judging, 109, 110, WRONG)
    assert judging.committee is challenger


def test_a_challenger_may_be_promoted_before_the_labels_settle_it_also_while_paused(judging):
    challenger = judging.trainer.challenger
    judging.trainer.pause_training()
    assert judging.trainer.promote() == ()
    assert judging.committee is challenger
    assert judging.trainer.challenger is None
    assert judging.trainer.promote() == ()
    assert judging.committee is challenger


def test_what_waited_for_the_judgement_starts_with_the_promotion(judging):
    judging.trainer.retrain()
    assert [training.kind for training in judging.trainer.promote()] == ["retrain"]


def test_no_training_starts_while_a_challenger_is_judged(judging):
    judging.trainer.retrain()
    assert learn(judging, 100, 109, WRONG) == ()
    assert [t.kind for t in learn(judging, 109, 110, WRONG)] == ["retrain"]


def test_a_young_challenger_is_judged_by_a_tenth_of_the_labels():
    assert Schedule(promotion="better", n_evaluation_labels=200).holdout_size(50) == 5
    assert Schedule(promotion="better", n_evaluation_labels=200).holdout_size(5) == 1
    assert Schedule(promotion="better", n_evaluation_labels=200).holdout_size(9_000) == 200


def test_the_first_committee_has_nobody_to_beat():
    learner = small(promotion="better")
    learn(learner, 0, 10)
    assert learner.committee is not None


def test_while_paused_labels_are_kept_and_nothing_is_trained_or_swapped():
    learner = small(training="background")
    learn(learner, 0, 30)
    learner.trainer.pause_training()
    learner.deploy(learner.trainer.wait_for_training(1))
    assert learn(learner, 30, 60) == ()
    assert learner.committee is None
    assert learner.n_labels == 60
    (training,) = learner.trainer.resume_training()
    assert learner.committee.version == 1
    assert (training.version, training.labels) == (2, 60)


def test_a_retraining_that_is_asked_for_starts_as_soon_as_none_is_under_way():
    learner = small(training="background", growth=100, extend_every=None, retrain_every=None)
    learn(learner, 0, 30)
    assert learner.trainer.retrain() == ()
    (training,) = arrive(learner)
    assert (training.kind, training.labels) == ("retrain", 30)
    arrive(learner)
    assert learn(learner, 30, 40) == ()


def test_a_retraining_asked_for_before_there_are_two_classes_is_the_first_training():
    learner = small()
    assert learner.trainer.retrain() == ()
    assert next(t.kind for t in learn(learner, 0, 20)) == "first"


@pytest.mark.parametrize(
    "wrong", [{"training": "later"}, {"promotion": "sometimes"}, {"n_evaluation_labels": 0}]
)
def test_settings_out_of_range_are_refused_by_name(wrong):
    (name,) = wrong
    with pytest.raises(ConfigurationError, match=f"schedule {name}"):
        Schedule(**wrong)
