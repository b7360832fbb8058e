"""Logistic regression on vectors: kernels compared with scikit-learn and with a slow version."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from streamboost.features.text import log_softmax
from streamboost.kernels.logistic import predict_logistic, train_logistic

RNG = np.random.default_rng(4)


def rows(n, n_features, n_classes):
    y = RNG.integers(n_classes, size=n)
    y[:n_classes] = np.arange(n_classes)
    X = RNG.normal(size=(n_classes, n_features))[y] + RNG.normal(size=(n, n_features))
    return X.astype(np.float32), y


def trained(X, y, weight, prior, strength=2.0, n_iterations=2_000, tolerance=1e-5):
    weights = prior.copy()
    steps = train_logistic(X, y, weight, prior, strength, n_iterations, tolerance, weights)
    return weights, steps


@pytest.mark.parametrize(("n", "n_features", "n_classes"), [(30, 4, 3), (53, 7, 2), (90, 6, 9)])
def test_without_a_prior_weights_are_those_of_scikit_learn(n, n_features, n_classes):
    X, y = rows(n, n_features, n_classes)
    share = RNG.uniform(0.5, 2.0, n).astype(np.float32)
    weights, _ = trained(X, y, share, np.zeros((n_features, n_classes), dtype=np.float32))
    # For two classes, scikit-learn has one vector: the difference, with twice the penalty.
    strength = 4.0 if n_classes == 2 else 2.0
    model = LogisticRegression(C=strength, fit_intercept=False, tol=1e-6, max_iter=1_000)
    P = model.fit(X, y, share).predict_proba(X)
    np.testing.assert_allclose(np.exp(log_softmax(X @ weights)), P, atol=2e-3)


def test_weights_end_where_the_objective_has_no_slope():
    X, y = rows(40, 6, 5)
    share = RNG.uniform(0.5, 2.0, 40).astype(np.float32)
    prior = RNG.normal(size=(6, 5)).astype(np.float32)
    weights, steps = trained(X, y, share, prior, strength=3.0)
    off = np.exp(log_softmax(X.astype(np.float64) @ weights)) - np.eye(5)[y]
    slope = 3.0 * X.T @ (share[:, None] * off) + weights - prior
    assert np.abs(slope).max() < 1e-2
    assert 1 < steps < 2_000


def test_a_row_of_weight_zero_changes_nothing():
    X, y = rows(24, 5, 3)
    prior = np.zeros((5, 3), dtype=np.float32)
    share = np.ones(24, dtype=np.float32)
    share[20:] = 0.0
    whole, _ = trained(X, y, share, prior)
    fewer, _ = trained(X[:20], y[:20], share[:20], prior)
    np.testing.assert_allclose(whole, fewer, atol=1e-5)


def test_predictions_are_log_probabilities_that_share_what_these_classes_had():
    X = RNG.normal(size=(11, 7)).astype(np.float32)
    weights = RNG.normal(size=(7, 3)).astype(np.float32)
    before = log_softmax(RNG.normal(size=(11, 5)))
    use, columns = np.arange(11) % 4 != 1, np.array([4, 0, 2])
    found = before.copy()
    predict_logistic(X, use, weights, columns, found)
    wanted = before.copy()
    part = np.exp(before[:, columns]).sum(axis=1, keepdims=True)
    own = log_softmax(X @ weights) + np.log(part)
    wanted[np.ix_(use, columns)] = own[use]
    np.testing.assert_allclose(found, wanted, atol=1e-5)
    np.testing.assert_allclose(np.exp(found).sum(axis=1), 1.0, atol=1e-5)
