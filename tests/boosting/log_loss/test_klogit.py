"""K-LogitBoost against its plain transcription, and the interpretation of its scores."""

from itertools import pairwise

import naive_logit
import numpy as np
import pytest
from naive_logit import SETTINGS, scores, small, transcribe
from sklearn.datasets import load_digits
from slow import seeds

from streamboost import KLogitBoostClassifier
from streamboost.boosting.log_loss.klogit import _KLogitState


@pytest.mark.parametrize("K", [2, 3, 6])
@pytest.mark.parametrize("seed", seeds(3))
@pytest.mark.quick_once
def test_k_logitboost_is_the_plain_transcription(seed, K):
    X, y, w = small(seed, K=K)
    model = KLogitBoostClassifier(**SETTINGS).fit(X, y, sample_weight=w)
    np.testing.assert_allclose(
        scores(model, X), transcribe(X, y, w, naive_logit.k_logitboost), atol=2e-5
    )
    assert model.committee_.n_trees == 4


def test_gradient_and_hessian_are_the_loss_derivatives():
    rng = np.random.default_rng(0)
    F, y = rng.standard_normal((30, 4)), rng.integers(0, 4, 30).astype(np.uint32)
    w = rng.random(30).astype(np.float32)
    found = _KLogitState(y, w, F.astype(np.float32), np.exp(F - 1).astype(np.float32)).derivatives()

    def loss(k, t):
        return w * np.array(
            [
                naive_logit.separate_loss(F[i : i + 1] + t * np.eye(4)[k], y[i : i + 1])
                for i in range(30)
            ]
        )

    eps = 1e-4
    for k in range(4):
        slope = (loss(k, eps) - loss(k, -eps)) / (2 * eps)
        bend = (loss(k, eps) - 2 * loss(k, 0) + loss(k, -eps)) / eps**2
        np.testing.assert_allclose(found[:, k], -slope, atol=1e-6)
        np.testing.assert_allclose(found[:, 4 + k], bend, atol=1e-5)


def test_classes_of_equal_share_start_at_one_less_the_logarithm_of_their_number():
    X, y = np.random.default_rng(0).random((60, 2)), np.arange(60) % 5
    base = KLogitBoostClassifier(n_estimators=1).fit(X, y).committee_.base
    np.testing.assert_allclose(base, 1 - np.log(5))


def test_every_round_lowers_its_own_loss_and_probabilities_are_normalised():
    X, y = load_digits(return_X_y=True)
    model = KLogitBoostClassifier(n_estimators=40, random_state=0).fit(X, y)
    losses = [naive_logit.separate_loss(F, y) for F in model.staged_decision_function(X)]
    assert all(b < a for a, b in pairwise(losses))
    p = np.exp(model.decision_function(X) - 1)
    np.testing.assert_allclose(model.predict_proba(X), p / p.sum(axis=1, keepdims=True))


def test_a_new_class_starts_at_its_share_whatever_the_others_have_learned():
    X, y, _ = small(0, n=300, K=3)
    model = KLogitBoostClassifier(n_estimators=5).fit(X[y < 2], y[y < 2])
    known = model.committee_.base
    model.extend(X, y, n_estimators=1)
    share = (np.bincount(y) + 1) / (len(y) + 3)
    np.testing.assert_allclose(model.committee_.base, [*known, 1 + np.log(share[2])])


def test_upward_steps_are_clamped():
    # One row of class 1 in a hundred, alone in its leaf: the Newton step of 1/p - 1 = 99 is cut.
    X, y = np.arange(100.0)[:, None], np.r_[np.zeros(99, int), 1]
    settings = {"learning_rate": 1.0, "l2_regularization": 0.0, "min_child_weight": 0.0}
    model = KLogitBoostClassifier(n_estimators=1, **settings).fit(X, y)
    assert model.committee_.learners.values.max() == 2.0
