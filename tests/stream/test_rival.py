import numpy as np
import pytest

from streamboost.boosting.sketch import SketchLogitBoostClassifier
from streamboost.stream import Schedule, StreamLearner
from streamboost.stream.rival import Rival
from streamboost.stream.schedule import Training

RNG = np.random.default_rng(2)
X = RNG.random((400, 2), dtype=np.float32)
Y = np.where(X[:, 0] + X[:, 1] < 1, "a", "b")
IDS = [str(i) for i in range(len(X))]

GOOD = SketchLogitBoostClassifier(n_estimators=60).train(X, Y, seed=1)
POOR = SketchLogitBoostClassifier(n_estimators=1, max_leaf_nodes=2).train(X, Y, seed=1)


def judged(rival, champion, n):
    one = Rival(Training("drop_oldest", 9, 1, 2), rival, left=n)
    for row, label in zip(X[:n], Y[:n], strict=True):
        one.judge(champion, row, label)
    return one


def test_a_rival_wins_by_fewer_errors_and_not_by_as_many():
    assert judged(GOOD, POOR, 100).wins
    assert not judged(POOR, GOOD, 100).wins
    assert not judged(GOOD, GOOD, 100).wins


def test_a_rival_does_not_win_before_all_labels_are_there():
    one = judged(GOOD, POOR, 100)
    one.left = 1
    assert not one.wins


def learner(n_estimators, at_limit="drop_oldest"):
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
            shadow=12,
        ),
        random_state=1,
    )


def kinds(one, stop=160):
    return [(t.kind, t.labels, t.version) for t in one.learn(IDS[:stop], X[:stop], Y[:stop])]


def test_the_newer_half_of_a_full_committee_serves_once_it_has_beaten_the_retrained_one():
    one = learner(n_estimators=1)
    done = kinds(one)
    at = next(i for i, (kind, _, _) in enumerate(done) if kind == "drop_oldest")
    retrained = [labels for kind, labels, _ in done[:at] if kind == "retrain"][-1]
    assert done[at][1] == retrained
    versions = [version for _, _, version in done]
    assert versions == sorted(set(versions))


def test_the_winner_has_the_newer_half_of_the_rounds_and_those_of_its_extension():
    one = learner(n_estimators=1)
    for i in range(160):
        before = one.committee
        for training in one.learn(IDS[i : i + 1], X[i : i + 1], Y[i : i + 1]):
            if training.kind == "drop_oldest":
                assert one.committee.version == training.version > before.version
                assert one.committee.n_rounds == 8 + 4  # of 17 rounds the newer 8
                return
    pytest.fail("no rival has won")


def test_a_retrained_committee_that_does_as_well_goes_on_serving():
    kept = [kind for kind, _, _ in kinds(learner(n_estimators=16))]
    assert "retrain" in kept
    assert "drop_oldest" not in kept


def test_without_the_option_there_is_no_rival():
    assert "drop_oldest" not in [kind for kind, _, _ in kinds(learner(1, at_limit="retrain"))]
