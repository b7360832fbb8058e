"""LogitBoost and ABC-LogitBoost against plain transcriptions, and edge cases of the family."""

from itertools import pairwise

import naive_logit
import numpy as np
import pytest
from naive_logit import SETTINGS, scores, small, transcribe
from sklearn.datasets import load_digits
from sklearn.metrics import log_loss
from slow import seeds, slow

from streamboost import (
    ABCLogitBoostClassifier,
    AOSOLogitBoostClassifier,
    KLogitBoostClassifier,
    LogitBoostClassifier,
    SketchLogitBoostClassifier,
)
from streamboost.errors import DataError

FAMILY = [
    LogitBoostClassifier(),
    ABCLogitBoostClassifier(),
    ABCLogitBoostClassifier(base="search"),
    AOSOLogitBoostClassifier(leaf="pair"),
    AOSOLogitBoostClassifier(leaf="vector"),
    AOSOLogitBoostClassifier(leaf="dense"),
    KLogitBoostClassifier(),
]
NAMES = [repr(e) for e in FAMILY]


@pytest.fixture(params=FAMILY, ids=NAMES)
def estimator(request):
    return request.param.__class__(**request.param.get_params()).set_params(random_state=0)


@pytest.mark.parametrize("K", [2, 3, *slow(4)])
@pytest.mark.parametrize("seed", seeds(3))
@pytest.mark.quick_once
def test_logitboost_is_the_plain_transcription(seed, K):
    X, y, w = small(seed, K=K)
    model = LogitBoostClassifier(**SETTINGS).fit(X, y, sample_weight=w)
    # Ours keeps F and p in float32, and rounds gradients to 30 bits of their sum.
    np.testing.assert_allclose(
        scores(model, X), transcribe(X, y, w, naive_logit.logitboost), atol=2e-5
    )
    assert (np.diff(model.committee_.learners.rounds) == K).all()


@pytest.mark.parametrize(
    ("base", "K"),
    [("worst", 2), ("worst", 3), ("search", 2), *slow(("worst", 4), ("search", 3))],
)
@pytest.mark.parametrize("seed", seeds(3))
@pytest.mark.quick_once
def test_abc_logitboost_is_the_plain_transcription(seed, K, base):
    X, y, w = small(seed, K=K)
    model = ABCLogitBoostClassifier(base=base, **SETTINGS).fit(X, y, sample_weight=w)
    np.testing.assert_allclose(
        scores(model, X), transcribe(X, y, w, naive_logit.abc_logitboost, base), atol=2e-5
    )
    assert (np.diff(model.committee_.learners.rounds) == K - 1).all()


def test_searching_the_base_class_lowers_the_loss_of_the_first_round_most():
    X, y, _ = small(0, n=300, K=6)
    loss = {
        base: log_loss(
            y, ABCLogitBoostClassifier(n_estimators=1, base=base).fit(X, y).predict_proba(X)
        )
        for base in ("worst", "search")
    }
    assert loss["search"] <= loss["worst"]


def test_for_two_classes_the_softmax_family_is_one_algorithm():
    X, y, w = small(1, n=150, K=2)
    settings = SETTINGS | {"l2_regularization": 0.0, "min_child_weight": 0.0, "n_estimators": 6}
    models = [e.__class__(**e.get_params() | settings) for e in FAMILY[:-1]]
    first, *others = (scores(model.fit(X, y, sample_weight=w), X) for model in models)
    assert np.ptp(first) > 1
    for F in others:
        np.testing.assert_allclose(F, first, atol=1e-4)


def test_two_class_scores_are_half_the_log_odds():
    X, y, _ = small(2, K=2)
    model = LogitBoostClassifier(n_estimators=10).fit(X, y)
    p = 1 / (1 + np.exp(-2 * scores(model, X)[:, 1]))
    np.testing.assert_allclose(model.predict_proba(X)[:, 1], p, atol=1e-6)


def test_scores_sum_to_zero_but_for_the_unconstrained(estimator):
    X, y, _ = small(3)
    F = scores(estimator.set_params(n_estimators=10).fit(X, y), X)
    unconstrained = isinstance(estimator, KLogitBoostClassifier)
    assert (np.abs(F.sum(axis=1)).max() < 1e-4) != unconstrained


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(return_X_y=True)
    return X[::2], y[::2], X[1::2], y[1::2]


def test_every_round_lowers_the_training_loss(estimator, digits):
    X, y, X_test, y_test = digits
    # K-1 equal steps of the base class overshoot where trees do not know of each other.
    rate = 0.02 if isinstance(estimator, ABCLogitBoostClassifier) else 0.1
    estimator.set_params(n_estimators=25, learning_rate=rate).fit(X, y)
    losses = [log_loss(y, p) for p in estimator.staged_predict_proba(X)]
    assert all(b < a for a, b in pairwise(losses))
    assert estimator.score(X_test, y_test) > 0.8


def test_extending_by_rounds_is_training_on(estimator, digits):
    X, y, X_test, _ = digits
    estimator.set_params(max_features=1.0)
    whole = estimator.set_params(n_estimators=8).fit(X, y).decision_function(X_test)
    parts = estimator.set_params(n_estimators=5).fit(X, y).extend(X, y, n_estimators=3)
    assert parts.committee_.n_rounds == 8
    # But for the last digits of float32 probabilities, which `extend` computes afresh: they may
    # turn a split between two of equal gain, for a few rows.
    differences = np.abs(parts.decision_function(X_test) - whole).max(axis=1)
    assert np.quantile(differences, 0.9) < 1e-5


@pytest.mark.filterwarnings("ignore:the rows of this extension:UserWarning")
def test_extend_takes_a_new_class_and_keeps_an_absent_one(estimator):
    X, y, _ = small(4, n=300, K=3)
    X[:, 0] = y + 0.1 * np.nan_to_num(X[:, 0])
    estimator.set_params(n_estimators=20).fit(X[y < 2], y[y < 2])
    estimator.extend(X, y, n_estimators=40)
    np.testing.assert_array_equal(estimator.classes_, [0, 1, 2])
    assert estimator.score(X, y) > 0.95
    estimator.extend(X[y < 2], y[y < 2], n_estimators=3)
    assert (estimator.predict(X[y == 2]) == 2).mean() > 0.9


def test_softmax_committees_extend_each_other_and_the_unconstrained_does_not():
    X, y, _ = small(5)
    sketch = SketchLogitBoostClassifier(n_estimators=5, random_state=0).fit(X, y).committee_
    longer = LogitBoostClassifier().train(X, y, seed=0, committee=sketch, n_estimators=2)
    assert longer.n_rounds == 7
    with pytest.raises(DataError, match=r"softmax.*k-logit"):
        KLogitBoostClassifier().train(X, y, seed=0, committee=sketch)


@pytest.mark.parametrize("settings", [{"l2_regularization": 0.0, "min_child_weight": 0.0}])
def test_no_penalty_and_a_full_rate_stay_finite(estimator, settings, digits):
    X, y, *_ = digits
    estimator.set_params(n_estimators=15, learning_rate=1.0, **settings).fit(X, y)
    assert np.isfinite(estimator.decision_function(X)).all()
    assert np.isfinite(estimator.predict_proba(X)).all()


def test_training_that_cannot_split_ends_with_the_shares(estimator):
    y = np.repeat([0, 1, 2], [60, 30, 10])
    estimator.set_params(n_estimators=1000).fit(np.ones((100, 2)), y)
    assert estimator.committee_.n_rounds < 200
    np.testing.assert_allclose(
        estimator.predict_proba(np.ones((1, 2))), [[0.6, 0.3, 0.1]], atol=0.02
    )


def test_a_round_with_the_wrong_features_does_not_end_the_training(estimator):
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 200)
    X = np.zeros((200, 30))
    X[:, 7] = y
    X[0, :] = 1  # 29 columns differ in one row alone, too light to be split off
    estimator.set_params(n_estimators=60, max_features=0.1, min_child_weight=3.0).fit(X, y)
    assert estimator.committee_.n_rounds == 60
    assert estimator.score(X[1:], y[1:]) == 1.0


def test_many_rows_take_wide_sums_and_give_the_same_scores(estimator, monkeypatch):
    X, y, w = small(6)
    estimator.set_params(n_estimators=3)
    narrow = estimator.fit(X, y, sample_weight=w).decision_function(X)
    monkeypatch.setattr("streamboost.trees.histogram_input.WIDE_ROWS", 20)
    wide = estimator.fit(X, y, sample_weight=w).decision_function(X)
    np.testing.assert_allclose(narrow, wide, atol=1e-5)
