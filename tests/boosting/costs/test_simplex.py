"""GD-MCBoost, AdaBoost-Cost and CD-MCBoost."""

import naive_vectors as naive
import numpy as np
import pytest
from sklearn.datasets import load_wine
from slow import seeds

from streamboost import AdaBoostCostClassifier, CDMCBoostClassifier, GDMCBoostClassifier
from streamboost.boosting.costs.cdmcboost import minimize_exponential_sum
from streamboost.boosting.costs.simplex import simplex_codewords

EXACT = {"max_bins": 255}  # so few rows that each distinct value has a bin of its own


def risk(z, y):
    own = z[np.arange(len(y)), y]
    return np.exp(-(own[:, None] - z) / 2).sum() - len(y)


# Leaf values are float32: scores of a few units agree to some 1e-6 times the number of rounds.


@pytest.mark.parametrize("seed", seeds(3))
@pytest.mark.parametrize("K", [2, 3, 4])
@pytest.mark.quick_once
def test_gd_mcboost_equals_algorithm_1_in_the_space_of_codewords(seed, K):
    X, y, weight = naive.problem(seed, K=K)
    model = GDMCBoostClassifier(n_estimators=5, max_leaf_nodes=5, **EXACT)
    model.fit(X, y, sample_weight=weight)
    z = naive.gd_mcboost(X, y, weight, 5, 5)
    np.testing.assert_allclose(model.committee_.class_scores(X), z, atol=1e-5)


@pytest.mark.parametrize("seed", seeds(3))
@pytest.mark.parametrize("K", [2, 3, 5])
def test_cd_mcboost_equals_algorithm_1_in_the_space_of_codewords(seed, K):
    X, y, weight = naive.problem(seed, K=K)
    model = CDMCBoostClassifier(n_estimators=7, **EXACT).fit(X, y, sample_weight=weight)
    z = naive.cd_mcboost(X, y, weight, 7)
    np.testing.assert_allclose(model.committee_.class_scores(X), z, atol=1e-5)


@pytest.mark.parametrize("seed", seeds(3))
@pytest.mark.parametrize("step", ["exact", "bound"])
@pytest.mark.quick_once
def test_adaboost_cost_equals_its_cost_matrix_form(seed, step):
    X, y, weight = naive.problem(seed, K=4)
    model = AdaBoostCostClassifier(n_estimators=5, max_leaf_nodes=6, step=step, **EXACT)
    model.fit(X, y, sample_weight=weight)
    votes = naive.adaboost_cost(X, y, weight, 5, 6, step)
    z = 2 * (votes - votes.mean(axis=1, keepdims=True))
    np.testing.assert_allclose(model.committee_.class_scores(X), z, atol=1e-5)


def test_with_the_exact_step_the_two_are_one():
    X, y = load_wine(return_X_y=True)
    gd = GDMCBoostClassifier(n_estimators=20).fit(X, y)
    cost = AdaBoostCostClassifier(n_estimators=20, step="exact").fit(X, y)
    np.testing.assert_array_equal(gd.decision_function(X), cost.decision_function(X))
    assert (
        gd.decision_function(X) != AdaBoostCostClassifier().fit(X, y).decision_function(X)
    ).any()


@pytest.mark.parametrize("estimator", [GDMCBoostClassifier, CDMCBoostClassifier])
def test_two_classes_are_adaboost(estimator):
    X, y, weight = naive.problem(1, n=120, K=2)
    model = estimator(n_estimators=10, max_leaf_nodes=2, **EXACT)
    model.fit(X, y, sample_weight=weight)
    f = naive.adaboost(X, y, weight, 10)
    # z = (-f, f), and decision_function gives their difference.
    np.testing.assert_allclose(model.decision_function(X), 2 * f, atol=1e-5)
    np.testing.assert_allclose(model.predict_proba(X)[:, 1], 1 / (1 + np.exp(-2 * f)), atol=1e-5)


def test_codewords_are_those_of_the_recursion():
    np.testing.assert_allclose(
        simplex_codewords(3), [[1, 0], [-0.5, 0.866025], [-0.5, -0.866025]], atol=1e-6
    )
    np.testing.assert_allclose(simplex_codewords(4)[2], [-0.333333, -0.471405, 0.816497], atol=1e-6)
    for M in (2, 5, 9):
        np.testing.assert_allclose(simplex_codewords(M), naive.codewords(M), atol=1e-12)
        gram = simplex_codewords(M) @ simplex_codewords(M).T
        np.testing.assert_allclose(gram, np.eye(M) - (1 - np.eye(M)) / (M - 1), atol=1e-12)


def test_the_hand_worked_round_of_gd_mcboost():
    X, y = np.array([[0.0], [1.0], [0.0], [0.0]]), np.array([0, 1, 2, 0])
    w = naive.descent_directions(np.zeros((4, 2)), y, np.ones(4))
    np.testing.assert_allclose(w[:2], [[1.5, 0], [-0.75, 1.299038]], atol=1e-6)
    model = GDMCBoostClassifier(n_estimators=1, max_leaf_nodes=2).fit(X, y)
    z = model.decision_function(X)
    assert z[0, 0] == pytest.approx(1.194506, abs=1e-6)
    assert (risk(np.zeros((4, 3)), y) + 4, risk(z, y) + 4) == (
        12,
        pytest.approx(9.898979, abs=1e-6),
    )
    np.testing.assert_allclose(model.predict_proba(X)[0], [0.75, 0.125, 0.125], atol=1e-6)
    bound = AdaBoostCostClassifier(n_estimators=1, max_leaf_nodes=2).fit(X, y)
    votes = bound.decision_function(X)[0] / 2
    assert votes[0] - votes[1] == pytest.approx(0.733169, abs=1e-6)
    votes = z[0] / 2
    assert votes[0] - votes[1] == pytest.approx(0.895880, abs=1e-6)


def test_the_hand_worked_round_of_cd_mcboost():
    X, y = np.array([[1.0], [0.0], [0.0], [1.0]]), np.array([0, 1, 2, 1])
    model = CDMCBoostClassifier(n_estimators=1).fit(X, y)
    z = model.decision_function(X)
    assert z[0, 0] == pytest.approx(0.924196, abs=1e-6)  # coordinate 0 of class 0 is 1
    assert risk(z, y) + 4 == pytest.approx(11, abs=1e-6)


@pytest.mark.parametrize("estimator", [GDMCBoostClassifier, CDMCBoostClassifier])
def test_the_risk_falls_every_round_and_bounds_the_training_error(estimator):
    X, y, _ = naive.problem(5, n=300, K=5)
    model = estimator(n_estimators=60).fit(X, y)
    risks = [risk(z, y) for z in model.staged_decision_function(X)]
    assert (np.diff([risk(np.zeros((300, 5)), y), *risks]) < 0).all()
    assert 300 * (1 - model.score(X, y)) <= risks[-1]


def test_the_bound_step_is_never_the_longer_one():
    X, y, _ = naive.problem(6, K=4)
    exact = GDMCBoostClassifier(n_estimators=1).fit(X, y).decision_function(X)
    bound = AdaBoostCostClassifier(n_estimators=1).fit(X, y).decision_function(X)
    assert np.abs(bound).max() <= np.abs(exact).max()


@pytest.mark.parametrize("seed", range(20))
def test_the_line_search_finds_the_minimum(seed):
    rng = np.random.default_rng(seed)
    mass, slope = rng.exponential(size=9), rng.standard_normal(9)
    a = minimize_exponential_sum(mass, slope)
    around = [(mass * np.exp((a + step) * slope)).sum() for step in (-1e-4, 0, 1e-4)]
    longest = 8 / np.abs(slope).max()
    assert min(around) == around[1] or abs(a) == longest


def test_the_line_search_stops_where_there_is_no_minimum():
    assert minimize_exponential_sum(np.array([1.0, 0.0]), np.array([2.0, -2.0])) == -4
    assert minimize_exponential_sum(np.array([0.0, 0.0]), np.array([2.0, -2.0])) == 0


def test_a_coordinate_without_a_tree_is_passed_over():
    # The feature tells class 1 from class 2 only, which is coordinate 1.
    X = np.array([[0.0], [1.0], [0.0], [0.0], [1.0], [1.0]])
    y = np.array([0, 0, 1, 1, 2, 2])
    model = CDMCBoostClassifier(n_estimators=2).fit(X, y)
    assert model.committee_.n_rounds == 2
    assert set(model.predict(X[2:])) == {1, 2}


def test_the_three_extend_one_another():
    X, y, _ = naive.problem(7, n=200, K=4)
    gd = GDMCBoostClassifier(n_estimators=5).fit(X, y)
    cd = CDMCBoostClassifier(n_estimators=6)
    committee = cd.train(X, y, seed=0, committee=gd.committee_)
    assert committee.n_rounds == 11
    assert risk(committee.class_scores(X), y) < risk(gd.decision_function(X), y)


@pytest.mark.filterwarnings("ignore:the rows of this extension:UserWarning")
def test_extend_with_a_new_class_trains_anew_and_keeps_the_absent_one():
    X, y, _ = naive.problem(8, n=300)
    model = CDMCBoostClassifier(n_estimators=20).fit(X[y < 2], y[y < 2])
    rows = y > 0
    model.extend(X[rows], y[rows], n_estimators=30)
    np.testing.assert_array_equal(model.classes_, [0, 1, 2])
    assert model.committee_.n_rounds == 50
    assert model.score(X[rows], y[rows]) > 0.8
