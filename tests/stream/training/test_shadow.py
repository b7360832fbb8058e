"""A full committee's newer half is tried against the one retrained in its place."""

import numpy as np

from streamboost.boosting.log_loss.sketch import SketchLogitBoostClassifier
from streamboost.stream import Schedule, StreamLearner

RNG = np.random.default_rng(2)
X = RNG.random((400, 2), dtype=np.float32)
Y = np.where(X[:, 0] + X[:, 1] < 1, "a", "b")
IDS = [str(i) for i in range(len(X))]


def learner(n_estimators, at_limit="drop_oldest", shadow=12):
    """One whose retrained committees have so many rounds; extended ones have up to 20."""
    return StreamLearner(
        SketchLogitBoostClassifier(n_estimators=n_estimators, min_child_weight=0.01),
        schedule=Schedule(
            growth=1e9,
            retrain_every=None,
            extend_every=5,
            extend_estimators=4,
            max_estimators=20,
            at_limit=at_limit,
            shadow=shadow,
        ),
        random_state=1,
    )


def kinds(one, stop=160):
    return [(t.kind, t.labels, t.version) for t in one.learn(IDS[:stop], X[:stop], Y[:stop])]


def rounds_after_the_judgement(one, stop=160):
    """Rounds that the training after each rival's adds to: the winner's, and 4 of its own."""
    rounds, previous = [], ""
    for i in range(stop):
        for training in one.learn(IDS[i : i + 1], X[i : i + 1], Y[i : i + 1]):
            if previous == "drop_oldest":
                rounds.append(one.committee.n_rounds)
            previous = training.kind
    return rounds


def test_the_newer_half_of_a_full_committee_is_tried_once_the_retrained_one_serves():
    done = kinds(learner(n_estimators=1))
    at = next(i for i, (kind, _, _) in enumerate(done) if kind == "drop_oldest")
    kind, labels, version = done[at - 1]
    assert (kind, labels + 1, version + 1) == ("retrain", *done[at][1:])


def test_the_winner_has_the_newer_half_of_the_rounds_and_those_of_its_extension():
    rounds = rounds_after_the_judgement(learner(n_estimators=1))
    assert 8 + 4 + 4 in rounds  # of 17 rounds the newer 8


def test_a_retrained_committee_that_does_as_well_goes_on_serving():
    rounds = rounds_after_the_judgement(learner(n_estimators=16, shadow=40), stop=400)
    assert 16 + 4 in rounds


def test_without_the_option_there_is_no_rival():
    assert "drop_oldest" not in [kind for kind, _, _ in kinds(learner(1, at_limit="retrain"))]
