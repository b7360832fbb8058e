"""AdaBoost.A: one distribution weights the training of trees, another weights their errors."""

import naive_weights as naive
import numpy as np
import pytest
from weight_data import ALL, clouds

from streamboost import AdaBoostAClassifier, SammeClassifier
from streamboost.boosting.reweighting.adaboost_a import log_geometric_weights, log_zipf_weights
from streamboost.boosting.reweighting.voting_trees import VoteState
from streamboost.errors import ConfigurationError

SMALL = {"n_estimators": 6, "max_leaf_nodes": 5, **ALL}


@pytest.mark.parametrize("seed", range(4))
def test_two_classes_are_the_printed_algorithm(seed):
    X, y, D1 = clouds(seed, K=2)
    p = np.random.default_rng(seed + 100).random(len(y)) + 0.5
    f = naive.adaboost_a_as_printed(X, 2 * y - 1, D1, p, 6, 5)
    model = AdaBoostAClassifier(initial_distribution=D1, cost=p, **SMALL).fit(X, y)
    np.testing.assert_allclose(model.decision_function(X), 2 * f, atol=1e-5)


@pytest.mark.parametrize("seed", range(3))
def test_several_classes_take_sammes_step_on_q(seed):
    X, y, D1 = clouds(seed, K=4)
    p = np.random.default_rng(seed + 100).random(len(y)) + 0.5
    V = naive.votes(X, y, D1, p, 6, 5, np.log(3))[-1]
    model = AdaBoostAClassifier(initial_distribution=D1, cost=p, **SMALL).fit(X, y)
    F = V - V.mean(axis=1, keepdims=True)
    np.testing.assert_allclose(model.decision_function(X), F, atol=1e-5)


@pytest.mark.parametrize("K", [2, 4])
def test_a_cost_in_proportion_to_the_distribution_is_adaboost(K):
    X, y, w = clouds(5, K=K)
    model = AdaBoostAClassifier(initial_distribution=3 * w, cost=w, **SMALL).fit(X, y)
    plain = SammeClassifier(**SMALL).fit(X, y, sample_weight=w)
    np.testing.assert_allclose(model.decision_function(X), plain.decision_function(X), atol=1e-5)


def test_uniform_without_cost_is_samme():
    X, y, w = clouds(6)
    model = AdaBoostAClassifier(**SMALL).fit(X, y, sample_weight=w)
    plain = SammeClassifier(**SMALL).fit(X, y, sample_weight=w)
    np.testing.assert_array_equal(model.decision_function(X), plain.decision_function(X))


def test_distributions_of_the_hand_worked_round():
    y, h = np.array([1, 1, -1, -1, 1]), np.array([1, -1, -1, -1, 1])
    D1, p = np.array([0.4, 0.3, 0.2, 0.1, 0.0]), np.array([0.1, 0.2, 0.2, 0.2, 0.3])
    with np.errstate(divide="ignore"):
        state = VoteState(
            ((y + 1) // 2).astype(np.uint32), np.ones(5), np.zeros(5), 2,
            log_growing_weights=np.log(D1), log_error_weights=np.log(p),
        )  # fmt: skip
    A = state.error_rate((h + 1) // 2)
    alpha = 0.5 * np.log((1 - A) / A)
    assert alpha == pytest.approx(0.693147, abs=1e-6)
    state.own_score += alpha * y * h
    D2, q2 = (
        state.record_weights(state.log_growing_weights),
        state.record_weights(state.log_error_weights),
    )
    np.testing.assert_allclose(
        D2 / D2.sum(), [0.210526, 0.631579, 0.105263, 0.052632, 0.0], atol=1e-6
    )
    np.testing.assert_allclose(q2 / q2.sum(), [0.0625, 0.5, 0.125, 0.125, 0.1875], atol=1e-6)
    assert (p * np.exp(-alpha * y * h)).sum() == pytest.approx(0.8)


def test_a_row_outside_the_distribution_still_counts_in_the_vote():
    # x splits the rows with D1 > 0 cleanly; the last one, wrongly answered, has only a cost.
    X, y = np.array([[0.0], [0.0], [1.0], [1.0], [1.0]]), np.array([0, 0, 1, 1, 0])
    model = AdaBoostAClassifier(initial_distribution=[1, 1, 1, 1, 0], n_estimators=1).fit(X, y)
    assert model.decision_function(X)[0] == pytest.approx(-np.log(0.8 / 0.2))
    one = AdaBoostAClassifier(
        initial_distribution=[1, 1, 1, 1, 0], cost=[1, 1, 1, 1, 0], n_estimators=1
    ).fit(X, y)
    assert one.decision_function(X)[0] == pytest.approx(-np.log(1e10), rel=1e-6)


def test_a_tree_that_fails_under_the_cost_is_grown_again_under_it():
    # D1 sees the first half, where x = y; the costs lie on the second, where x = 1 - y.
    x, y = np.tile([0.0, 1.0], 20), np.r_[np.tile([0, 1], 10), np.tile([1, 0], 10)]
    first = np.repeat([1.0, 0.0], 20)
    cost = np.where(first == 1, 0.1, 1.0)
    model = AdaBoostAClassifier(initial_distribution=first, cost=cost).fit(x[:, None], y)
    assert model.committee_.n_rounds >= 1
    np.testing.assert_array_equal(model.predict(x[20:, None]), y[20:])


@pytest.mark.parametrize("n", [1, 7])
def test_distributions_are_the_papers(n):
    i, ones = np.arange(n), np.ones(n)
    np.testing.assert_allclose(np.exp(log_zipf_weights(i, ones)), 1 / (i + 1.0))
    q = 2 ** (-1 / 3)
    np.testing.assert_allclose(np.exp(log_geometric_weights(i, ones, 3.0)), q**i)


@pytest.mark.parametrize("distribution", ["geometric", "zipf"])
def test_a_row_of_three_records_stands_for_three_rows(distribution):
    X, y, _ = clouds(3, n=60)
    times = 1 + np.arange(60) % 3
    model = AdaBoostAClassifier(initial_distribution=distribution, **SMALL)
    once = model.fit(X, y, sample_weight=times).decision_function(X)
    often = model.fit(X.repeat(times, axis=0), y.repeat(times)).decision_function(X)
    # The three rows have D1 of their own, and a row's records share its sum: a tree sees the same,
    # as the three are never parted.
    np.testing.assert_allclose(once, often, atol=1e-5)


@pytest.mark.parametrize("distribution", ["geometric", "zipf"])
def test_the_oldest_rows_shape_the_first_tree_most(distribution):
    X, y, _ = clouds(4, n=400, noise=0.0)
    flipped = y.copy()
    flipped[200:] = (y[200:] + 1) % 3
    settings = {"initial_distribution": distribution, "cost": None, "n_estimators": 1}
    model = AdaBoostAClassifier(half_life=20, max_leaf_nodes=6, **settings).fit(X, flipped)
    assert (model.predict(X) == y).mean() > 0.6


def test_a_cost_by_class_moves_the_answer_where_classes_mix():
    x = np.zeros((30, 1))
    y = np.repeat(["no", "yes"], [20, 10])
    assert AdaBoostAClassifier().fit(x, y).predict(x[:1]) == "no"
    model = AdaBoostAClassifier(cost={"yes": 4.0}, initial_distribution=np.where(y == "yes", 4, 1))
    assert model.fit(x, y).predict(x[:1]) == "yes"
    np.testing.assert_allclose(model.predict_proba(x[:1]), [[1 / 3, 2 / 3]], atol=1e-6)


def test_a_cost_may_name_a_class_by_its_text():
    X, y, _ = clouds(1)
    by_label = AdaBoostAClassifier(cost={1: 5.0}, **SMALL).fit(X, y)
    by_text = AdaBoostAClassifier(cost={"1": 5.0, "7": 2.0}, **SMALL).fit(X, y)
    np.testing.assert_array_equal(by_label.decision_function(X), by_text.decision_function(X))
    plain = AdaBoostAClassifier(**SMALL).fit(X, y)
    assert (plain.decision_function(X) != by_label.decision_function(X)).any()


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"initial_distribution": [1.0, 2.0]}, r"initial_distribution has shape \(2,\).*220 rows"),
        ({"cost": np.ones(3)}, r"cost has shape \(3,\)"),
        ({"cost": -np.ones(220)}, "cost holds -1.0 at place 0"),
        ({"cost": {0: np.inf}}, "cost holds inf"),
        ({"cost": np.zeros(220)}, "cost is 0 throughout"),
        ({"initial_distribution": "poisson"}, "initial_distribution"),
        ({"half_life": 0}, "half_life"),
    ],
)
def test_impossible_distributions_are_refused(parameters, message):
    X, y, _ = clouds(0)
    with pytest.raises(ValueError, match=message) as caught:
        AdaBoostAClassifier(**parameters).fit(X, y)
    assert isinstance(caught.value, ConfigurationError) or "parameter" in str(caught.value)


def test_arrays_go_with_the_rows_given_also_where_weights_are_zero():
    X, y, D1 = clouds(7)
    weight = (np.arange(len(y)) % 3 > 0).astype(float)
    kept = weight > 0
    model = AdaBoostAClassifier(initial_distribution=D1, cost=D1[::-1], **SMALL)
    whole = model.fit(X, y, sample_weight=weight).decision_function(X)
    model.set_params(initial_distribution=D1[kept], cost=D1[::-1][kept])
    np.testing.assert_array_equal(model.fit(X[kept], y[kept]).decision_function(X), whole)


@pytest.mark.parametrize(
    ("parameters", "name"),
    [
        ({"initial_distribution": np.eye(220)[7]}, "initial_distribution"),
        ({"cost": np.eye(220)[7]}, "cost"),
        ({"cost": {0: 0.0, 1: 0.0, 2: 0.0, "unmet": 1.0}}, "cost"),
    ],
)
@pytest.mark.parametrize("extended", [False, True])
def test_a_distribution_that_no_row_of_weight_has_is_refused(parameters, name, extended):
    X, y, _ = clouds(0)
    weight = np.ones(220)
    weight[7] = 0
    model = AdaBoostAClassifier(**SMALL)
    teach = model.fit(X, y).extend if extended else model.fit
    model.set_params(**parameters)
    with pytest.raises(ConfigurationError, match=f"{name} is 0 on all rows of positive weight"):
        teach(X, y, sample_weight=weight)
