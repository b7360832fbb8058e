"""SAMME, SAMME.R and AdaBoost.M1, which share one algorithm and a leaf step."""

import naive_weights as naive
import numpy as np
import pytest
from sklearn.ensemble import AdaBoostClassifier
from sklearn.tree import DecisionTreeClassifier
from weight_data import ALL, clouds

from streamboost import AdaBoostM1Classifier, GambleClassifier, SammeClassifier

# Leaf values are float32: twenty of them, up to 5 each, add up to within 1e-5.
TOLERANCE = 1e-5


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("K", [2, 3, 5])
@pytest.mark.parametrize("estimator", [SammeClassifier, AdaBoostM1Classifier])
def test_equals_the_plain_votes(estimator, seed, K):
    X, y, weight = clouds(seed, K=K)
    bonus = np.log(K - 1) if estimator is SammeClassifier else 0.0
    stages = naive.votes(X, y, weight, weight, 8, 6, bonus)
    model = estimator(n_estimators=8, max_leaf_nodes=6, **ALL).fit(X, y, sample_weight=weight)
    for V, ours in zip(stages, model.staged_decision_function(X), strict=True):
        F = V - V.mean(axis=1, keepdims=True)
        expected = F[:, 1] - F[:, 0] if K == 2 else F
        np.testing.assert_allclose(ours, expected, atol=TOLERANCE)


@pytest.mark.parametrize("criterion", ["gini", "entropy"])
@pytest.mark.parametrize("seed", range(3))
def test_equals_scikit_learn_with_the_same_trees(seed, criterion):
    K, rounds = 4, 20
    X, y, weight = clouds(seed, K=K)
    tree = DecisionTreeClassifier(max_leaf_nodes=8, criterion=criterion)
    theirs = AdaBoostClassifier(tree, n_estimators=rounds, random_state=0)
    theirs.fit(X, y, sample_weight=weight)
    ours = SammeClassifier(n_estimators=rounds, max_leaf_nodes=8, criterion=criterion, **ALL)
    ours.fit(X, y, weight)
    assert ours.committee_.n_rounds == len(theirs.estimators_) == rounds
    # scikit-learn gives the wrong classes -1/(K-1) of a vote and divides by the sum of the votes.
    expected = theirs.decision_function(X) * theirs.estimator_weights_.sum() * (K - 1) / K
    np.testing.assert_allclose(ours.decision_function(X), expected, atol=1e-4)


@pytest.mark.parametrize("seed", range(3))
def test_a_smaller_rate_is_scikit_learns(seed):
    X, y, weight = clouds(seed, K=2)
    tree = DecisionTreeClassifier(max_leaf_nodes=4)
    theirs = AdaBoostClassifier(tree, n_estimators=10, learning_rate=0.3, random_state=0)
    theirs.fit(X, y, sample_weight=weight)
    ours = SammeClassifier(n_estimators=10, learning_rate=0.3, max_leaf_nodes=4, **ALL)
    ours.fit(X, y, sample_weight=weight)
    expected = theirs.decision_function(X) * theirs.estimator_weights_.sum() / 2
    np.testing.assert_allclose(ours.decision_function(X), expected, atol=TOLERANCE)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("estimator", [SammeClassifier, AdaBoostM1Classifier])
def test_two_classes_and_stumps_of_least_error_are_adaboost(estimator, seed):
    X, y, weight = clouds(seed, n=120, K=2)
    f = naive.adaboost(X, 2 * y - 1, weight, 6, naive.best_stump)
    model = estimator(n_estimators=6, max_leaf_nodes=2, criterion="error", **ALL)
    model.fit(X, y, sample_weight=weight)
    np.testing.assert_allclose(model.decision_function(X), 2 * f, atol=TOLERANCE)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("K", [2, 3, 6])
def test_the_real_variant_equals_the_plain_one(seed, K):
    X, y, weight = clouds(seed, K=K)
    F = naive.samme_real(X, y, weight, 5, 6)
    model = SammeClassifier(variant="real", n_estimators=5, max_leaf_nodes=6, **ALL)
    model.fit(X, y, sample_weight=weight)
    expected = F[:, 1] - F[:, 0] if K == 2 else F
    np.testing.assert_allclose(model.decision_function(X), expected, atol=1e-4)


def test_a_leaf_no_class_can_be_missing_from_for_sure_is_bounded():
    X, y = np.repeat([[0.0], [1.0]], 100_000, axis=0), np.repeat([0, 1], 100_000)
    model = SammeClassifier(variant="real", n_estimators=1).fit(X, y)
    assert model.decision_function(X[:1])[0] == pytest.approx(-np.log((1 - 1e-5) / 1e-5), rel=1e-3)


def test_vote_and_probabilities_of_the_hand_worked_tree():
    X, y = np.zeros((10, 1)), np.repeat([0, 1, 2], [6, 2, 2])  # one leaf, and it errs on 0.4
    model = SammeClassifier(n_estimators=1).fit(X, y)
    np.testing.assert_allclose(model.predict_proba(X)[0], [0.6, 0.2, 0.2], atol=1e-6)
    vote = model.decision_function(X)[0]
    assert vote[0] - vote[1] == pytest.approx(1.098612, abs=1e-6)


def test_a_tree_without_error_gets_a_long_vote_and_the_last():
    X, y = np.arange(8.0)[:, None], np.arange(8) // 4
    model = SammeClassifier(n_estimators=50, max_leaf_nodes=2).fit(X, y)
    assert model.committee_.n_rounds == 1
    assert model.decision_function(X)[-1] == pytest.approx(np.log(1e10), abs=1e-4)


def test_no_tree_votes_that_does_not_beat_guessing():
    X, y = np.array([[0.0], [0.0], [1.0], [1.0]]), np.array([0, 1, 0, 1])
    model = SammeClassifier().fit(X, y)
    assert model.committee_.n_rounds == 0
    np.testing.assert_allclose(model.predict_proba(X), 0.5)


def test_a_tree_that_fails_on_a_sample_is_grown_again_on_everything():
    # Only the first of 12 features tells anything; a tree on one other feature is a guess.
    rng = np.random.default_rng(0)
    X = np.zeros((200, 12))
    y = np.tile([0, 1], 100)
    X[:, 0] = np.where(rng.random(200) < 0.2, 1 - y, y)
    X[:100, 1:] = 1.0
    X[100:, 0] = X[:100, 0]  # both halves alike: the other features say nothing
    model = SammeClassifier(n_estimators=1, max_features=0.05, random_state=0)
    for seed in range(5):
        fitted = model.set_params(random_state=seed).fit(X, y)
        assert fitted.score(X, y) > 0.7


def test_m1_ends_at_a_tree_that_errs_on_half_while_samme_goes_on():
    X, y, _ = clouds(0, K=8, noise=0.6)
    settings = {"n_estimators": 40, "max_leaf_nodes": 3, **ALL}
    assert AdaBoostM1Classifier(**settings).fit(X, y).committee_.n_rounds < 5
    assert SammeClassifier(**settings).fit(X, y).committee_.n_rounds == 40


def test_m1_keeps_a_first_tree_that_is_better_than_a_guess():
    X, y = np.repeat(np.arange(6.0), 5)[:, None], np.repeat(np.arange(6), 5)
    model = AdaBoostM1Classifier(max_leaf_nodes=2).fit(X, y)  # errs on four classes of six
    assert model.committee_.n_rounds == 1
    assert model.score(X, y) == pytest.approx(1 / 3)


def test_m1_has_no_probabilities():
    X, y, _ = clouds(0)
    model = AdaBoostM1Classifier(n_estimators=2).fit(X, y)
    assert not hasattr(model, "predict_proba")
    assert not hasattr(model, "staged_predict_proba")
    with pytest.raises(AttributeError, match="predict_proba") as caught:
        model.predict_proba(X)
    assert "use SammeClassifier" in str(caught.value.__cause__)


@pytest.mark.filterwarnings("ignore:the rows of this extension:UserWarning")
@pytest.mark.parametrize("variant", ["discrete", "real"])
def test_a_class_without_rows_keeps_its_score(variant):
    X, y, _ = clouds(1, n=400, K=4)
    model = SammeClassifier(variant=variant, n_estimators=20, max_leaf_nodes=8).fit(X, y)
    before = model.decision_function(X)[:, 3]
    model.extend(X[y != 3], y[y != 3], n_estimators=20)
    np.testing.assert_array_equal(model.decision_function(X)[:, 3], before)
    np.testing.assert_allclose(model.decision_function(X).sum(axis=1), 0, atol=1e-3)


@pytest.mark.filterwarnings("ignore:the rows of this extension:UserWarning")
def test_rows_of_one_class_add_nothing():
    X, y, _ = clouds(1)
    for model in (SammeClassifier(n_estimators=3), GambleClassifier(n_estimators=3)):
        model.fit(X, y).extend(X[y == 1], y[y == 1])
        assert model.committee_.n_rounds == 3


def test_extending_goes_on_where_fitting_stopped():
    X, y, weight = clouds(2)
    settings = {"max_leaf_nodes": 6, **ALL}
    whole = SammeClassifier(n_estimators=10, **settings).fit(X, y, sample_weight=weight)
    part = SammeClassifier(n_estimators=4, **settings).fit(X, y, sample_weight=weight)
    part.extend(X, y, n_estimators=6, sample_weight=weight)
    np.testing.assert_allclose(part.decision_function(X), whole.decision_function(X), atol=1e-5)
