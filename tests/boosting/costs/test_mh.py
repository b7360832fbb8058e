import naive_rebel as naive
import numpy as np
import pytest
from naive_vectors import problem
from slow import seeds

from streamboost import AdaBoostMHClassifier, RebelClassifier


@pytest.mark.parametrize("seed", seeds(4))
@pytest.mark.parametrize("K", [2, 3, 5])
@pytest.mark.quick_once
def test_real_trees_equal_adaboost_mh_written_plainly(seed, K):
    X, y, weight = problem(seed, K=K)
    model = AdaBoostMHClassifier(n_estimators=5, max_leaf_nodes=5, max_bins=255)
    model.fit(X, y, sample_weight=weight)
    # Leaf values are float32.
    np.testing.assert_allclose(
        model.committee_.class_scores(X), naive.mh_real(X, y, weight, 5, 5), atol=1e-5
    )


@pytest.mark.parametrize("seed", seeds(4))
def test_a_coefficient_for_each_class_is_cost_neutral_rebel(seed):
    X, y, weight = problem(seed, K=4)
    model = RebelClassifier(n_estimators=8, max_depth=1, smoothing=0, max_bins=255)
    model.fit(X, y, sample_weight=weight)
    start = model.committee_.base
    F = naive.mh_shared_sign(X, y, weight, 8, start)
    np.testing.assert_allclose(model.committee_.class_scores(X), F, atol=1e-5)


def test_the_loss_falls_every_round_and_bounds_the_training_error():
    X, y, _ = problem(9, n=300, K=5)
    model = AdaBoostMHClassifier(n_estimators=40).fit(X, y)
    args = y, np.ones(300), *naive.neutral_subcosts(5)
    losses = [naive.coupled_loss(H, *args) for H in model.staged_decision_function(X)]
    assert (np.diff(losses) < 0).all()
    assert 300 * (1 - model.score(X, y)) <= losses[-1]


def test_the_least_weight_of_a_child_counts_records():
    X, y, _ = problem(2, n=200)
    model = AdaBoostMHClassifier(n_estimators=1, min_child_weight=40, max_leaf_nodes=30).fit(X, y)
    leaves = np.unique(model.committee_.class_scores(X), axis=0, return_counts=True)[1]
    assert 1 < len(leaves) <= 5


def test_probabilities_are_the_sigmoids_of_twice_the_scores_shared_out():
    X, y, _ = problem(3)
    model = AdaBoostMHClassifier(n_estimators=10).fit(X, y)
    odds = 1 / (1 + np.exp(-2 * model.decision_function(X)))
    np.testing.assert_allclose(model.predict_proba(X), odds / odds.sum(axis=1, keepdims=True))
