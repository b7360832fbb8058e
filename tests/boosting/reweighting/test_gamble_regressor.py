"""GAMBLE's Algorithm 1 with regressors of other libraries."""

import naive_weights as naive
import numpy as np
import pytest
from sklearn.linear_model import BayesianRidge, LinearRegression, Ridge
from sklearn.neighbors import KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.tree import DecisionTreeRegressor
from weight_data import ALL, clouds

from streamboost import GambleClassifier, StreamLearner
from streamboost.errors import ConfigurationError


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("K", [2, 3, 4])
@pytest.mark.parametrize("regressor", [Ridge(), BayesianRidge()], ids=str)
@pytest.mark.parametrize("floor", [0.0, 0.1])
@pytest.mark.quick_once
def test_equals_algorithm_1_written_plainly(seed, K, regressor, floor):
    X, y, weight = clouds(seed, n=80, K=K)
    X = X.astype(np.float64)
    F = naive.gamble_1(X, y, weight, 3, regressor, floor)
    model = GambleClassifier(
        n_estimators=3, weak_learner=regressor, step="paper", weight_floor=floor
    )
    model.fit(X, y, sample_weight=weight)
    expected = F[:, 1] - F[:, 0] if K == 2 else F
    np.testing.assert_allclose(model.decision_function(X), expected, atol=1e-6)


@pytest.mark.parametrize("seed", range(3))
def test_with_a_regression_tree_it_is_algorithm_2(seed):
    X, y, weight = clouds(seed, K=4)
    tree = DecisionTreeRegressor(max_leaf_nodes=8)
    one = GambleClassifier(n_estimators=6, weak_learner=tree, step="paper").fit(X, y, weight)
    two = GambleClassifier(n_estimators=6, max_leaf_nodes=8, step="paper", **ALL)
    two.fit(X, y, sample_weight=weight)
    np.testing.assert_allclose(one.decision_function(X), two.decision_function(X), atol=1e-4)


def test_a_tree_is_fitted_once_a_round_and_others_twice():
    X, y, _ = clouds(0)
    tree = GambleClassifier(n_estimators=2, weak_learner=DecisionTreeRegressor(max_leaf_nodes=4))
    assert all(r.of_square is None for r in tree.fit(X, y).regressors_.rounds)
    for other in (Ridge(), DecisionTreeRegressor(max_leaf_nodes=4, ccp_alpha=1e-6)):
        model = GambleClassifier(n_estimators=2, weak_learner=other).fit(X, y)
        assert all(r.of_square is not None for r in model.regressors_.rounds)


def test_one_fit_of_a_tree_gives_what_two_give():
    X, y, weight = clouds(1, K=4)
    settings = {"n_estimators": 5, "random_state": 0, "step": "paper"}
    once = GambleClassifier(weak_learner=DecisionTreeRegressor(max_leaf_nodes=6), **settings)
    twice = GambleClassifier(
        # So little pruning that it prunes nothing, but two fits are made.
        weak_learner=DecisionTreeRegressor(max_leaf_nodes=6, min_impurity_decrease=1e-300),
        **settings,
    )
    np.testing.assert_allclose(
        once.fit(X, y, weight).decision_function(X),
        twice.fit(X, y, weight).decision_function(X),
        atol=1e-9,
    )


@pytest.mark.slow
def test_the_line_search_never_raises_the_loss_where_the_printed_step_does():
    X, y, _ = clouds(2, n=200, noise=0.3)

    def losses(step):
        model = GambleClassifier(n_estimators=40, weak_learner=LinearRegression(), step=step)
        stages = model.fit(X, y).staged_decision_function(X)
        return [np.exp(-F[np.arange(len(y)), y] / 2).mean() for F in stages]

    line, paper = losses("line"), losses("paper")
    assert (np.diff(line) <= 1e-12).all()
    assert line == losses(None)
    assert max(np.diff(paper)) > 0


def test_stages_probabilities_and_seeds():
    X, y, _ = clouds(3)
    tree = DecisionTreeRegressor(max_leaf_nodes=4, splitter="random")
    model = GambleClassifier(n_estimators=5, weak_learner=tree, random_state=0).fit(X, y)
    *_, last = model.staged_decision_function(X)
    np.testing.assert_array_equal(last, model.decision_function(X))
    np.testing.assert_allclose(model.predict_proba(X).sum(axis=1), 1)
    p = np.exp(last / 2) / np.exp(last / 2).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(model.predict_proba(X), p)
    again = GambleClassifier(n_estimators=5, weak_learner=tree, random_state=0).fit(X, y)
    np.testing.assert_array_equal(again.decision_function(X), last)
    other = GambleClassifier(n_estimators=5, weak_learner=tree, random_state=1).fit(X, y)
    assert (other.decision_function(X) != last).any()


def test_it_has_no_committee_and_says_what_that_means():
    X, y, _ = clouds(4)
    model = GambleClassifier(n_estimators=2, weak_learner=Ridge()).fit(X, y)
    assert not hasattr(model, "committee_")
    with pytest.raises(AttributeError, match="no committee: it cannot be saved"):
        model.committee_.save("anywhere")
    with pytest.raises(AttributeError, match=r"cannot be saved.*extended"):
        model.extend(X, y)
    learner = StreamLearner(estimator=GambleClassifier(weak_learner=Ridge()))
    with pytest.raises(ConfigurationError, match="trained on a stream"):
        learner.learn(["a", "b"], X[:2], ["low", "high"])


def test_fitting_again_without_it_gives_a_committee_back():
    X, y, _ = clouds(4)
    model = GambleClassifier(n_estimators=2, weak_learner=Ridge()).fit(X, y)
    model.set_params(weak_learner=None).fit(X, y)
    assert model.committee_.n_rounds == 2
    assert not hasattr(model, "regressors_")
    model.set_params(weak_learner=Ridge()).fit(X, y)
    assert not hasattr(model, "committee_")


def test_what_it_cannot_use_is_refused():
    X, y, _ = clouds(5)
    with pytest.raises(ConfigurationError, match=r"KNeighborsRegressor takes no sample_weight"):
        GambleClassifier(weak_learner=KNeighborsRegressor()).fit(X, y)
    with pytest.raises(ConfigurationError, match="exact"):
        GambleClassifier(weak_learner=Ridge(), step="exact").fit(X, y)
    with pytest.raises(ValueError, match="weak_learner"):
        GambleClassifier(weak_learner="tree").fit(X, y)
    with pytest.raises(ConfigurationError, match="Pipeline takes no sample_weight"):
        GambleClassifier(weak_learner=make_pipeline(Ridge())).fit(X, y)


@pytest.mark.parametrize("what", ["one class", "constant columns", "two rows"])
def test_it_ends_well_with_nothing_to_learn(what):
    X, y, _ = clouds(6)
    if what == "one class":
        y = np.full(len(y), 2)
    if what == "constant columns":
        X = np.ones_like(X)
    if what == "two rows":
        X, y = X[:2], np.array([0, 1])
    model = GambleClassifier(n_estimators=20, weak_learner=Ridge()).fit(X, y)
    assert np.isfinite(model.predict_proba(X)).all()
    assert model.score(X, y) >= np.bincount(y).max() / len(y)
