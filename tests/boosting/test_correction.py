import numpy as np
import pytest

from streamboost.boosting.correction import (
    CorrectedCommittee,
    initial_scores_of_new_classes,
    supports_residual_correction,
    train_correction_stumps,
)
from streamboost.boosting.costs.rebel import RebelClassifier
from streamboost.boosting.log_loss.sketch import SketchLogitBoostClassifier
from streamboost.boosting.reweighting.gamble import GambleClassifier

RNG = np.random.default_rng(5)
X = RNG.random((200, 3), dtype=np.float32)
Y = (X[:, 0] * 3).astype(np.int64)
NEWEST = X[:40]
TURNED = (Y[:40] + 1) % 3  # what the newest labels say: every class has become the next


def corrected(committee, y=TURNED, n_stumps=80):
    """The committee with stumps that follow the newest labels."""
    scores = committee.class_scores(NEWEST) / committee.temperature
    stumps = train_correction_stumps(
        NEWEST,
        y,
        np.ones(40),
        np.ones(40),
        scores,
        features=np.arange(3),
        n_stumps=n_stumps,
        direction_offset=7,
        temperature=committee.temperature,
    )
    return CorrectedCommittee(committee, committee.classes, np.zeros(0), stumps)


@pytest.mark.parametrize("family", [SketchLogitBoostClassifier, GambleClassifier])
def test_the_correction_follows_the_newest_labels_and_leaves_the_committee(family):
    committee = family(n_estimators=10, random_state=0).fit(X, Y).committee_
    before = committee.class_scores(X)
    model = corrected(committee)
    chances = model.probabilities(model.class_scores(NEWEST))
    np.testing.assert_allclose(chances.sum(axis=1), 1)
    assert (model.predicted_indices(model.class_scores(NEWEST)) == TURNED).mean() > 0.9
    np.testing.assert_array_equal(committee.class_scores(X), before)


def test_the_same_turn_gives_the_same_stumps_and_another_turn_others():
    scores = np.zeros((40, 3))

    def values(turn):
        settings = {"features": np.arange(3), "n_stumps": 12, "direction_offset": turn}
        return train_correction_stumps(
            NEWEST, TURNED, np.ones(40), np.ones(40), scores, **settings
        ).values

    np.testing.assert_array_equal(values(1), values(1))
    assert not np.array_equal(values(1), values(2))


def test_a_class_the_committee_does_not_know_enters_near_its_share():
    scores = RNG.standard_normal((30, 3))
    y = np.where(np.arange(30) < 6, 3, 0)
    first = initial_scores_of_new_classes(scores, y, 4)
    full = np.hstack([scores, np.tile(first, (30, 1))])
    p = np.exp(full) / np.exp(full).sum(axis=1, keepdims=True)
    assert p[:, 3].mean() == pytest.approx(7 / 34, abs=0.05)
    assert initial_scores_of_new_classes(scores, y % 3, 3).size == 0


def test_only_logarithms_of_probabilities_can_be_corrected():
    assert supports_residual_correction(
        SketchLogitBoostClassifier(n_estimators=1).fit(X, Y).committee_
    )
    costly = RebelClassifier(n_estimators=1).fit(X, Y).committee_
    assert not supports_residual_correction(costly)
