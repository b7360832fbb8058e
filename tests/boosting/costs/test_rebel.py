import naive_rebel as naive
import numpy as np
import pytest
from naive_vectors import adaboost, problem

from streamboost import AdaBoostMHClassifier, RebelClassifier
from streamboost.boosting.costs.coupled_loss import loss_bound, optimal_coefficients
from streamboost.boosting.costs.subcosts import Costs
from streamboost.errors import DataError

COSTS = np.array([[0.0, 1, 4], [1, 0, 1], [2, 2, 0]])


def random_costs(rng, K):
    C = np.abs(rng.standard_normal((K, K)))
    np.fill_diagonal(C, 0)
    return C


# Leaf values are float32: scores of a few units agree to some 1e-6 times the number of rounds.


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("depth", [1, 2, 3])
@pytest.mark.parametrize("subcosts", [None, "paper", "linear"])
@pytest.mark.quick_once
def test_equals_trees_grown_by_the_loss_itself(seed, depth, subcosts):
    X, y, weight = problem(seed, n=60)
    C = None if subcosts is None else COSTS
    model = RebelClassifier(
        cost_matrix=C, subcosts=subcosts or "paper", n_estimators=4, max_depth=depth, max_bins=255
    )
    model.fit(X, y, sample_weight=weight)
    plus, minus = Costs(C, subcosts or "paper").subcosts(3)
    H, losses = naive.rebel(X, y, weight, 4, depth, plus, minus, model.smoothing)
    np.testing.assert_allclose(model.committee_.class_scores(X), H, atol=1e-5)
    assert (np.diff(losses) < 0).all()


@pytest.mark.parametrize("seed", range(3))
def test_two_classes_are_adaboost(seed):
    X, y, weight = problem(seed, n=120, K=2)
    weight /= np.bincount(y, weights=weight)[y]  # classes of one weight, so that a_0 is 0
    model = RebelClassifier(n_estimators=10, max_depth=1, smoothing=0, max_bins=255)
    H = model.fit(X, y, sample_weight=weight).committee_.class_scores(X)
    f = adaboost(X, y, weight, 10)
    np.testing.assert_allclose(H, np.stack([-f, f], axis=1), atol=1e-5)


def test_five_rows_and_one_error_give_adaboosts_step():
    X, y = np.array([[0.0], [0], [0], [1], [1]]), np.array([0, 0, 1, 1, 1])
    balance = np.array([3.0, 3, 2, 2, 2])
    a = RebelClassifier(n_estimators=1, max_depth=1, smoothing=0).fit(X, y, balance)
    f = a.decision_function(X) / 2
    error = 2 / 12  # the third row
    np.testing.assert_allclose(np.abs(f), np.log((1 - error) / error) / 2, atol=1e-6)
    one_in_five = optimal_coefficients(np.array([1.0, 1.0]), np.array([-0.6, 0.6]), 0.0)
    np.testing.assert_allclose(one_in_five, [0.693147, -0.693147], atol=1e-6)


def test_subcosts_of_the_hand_worked_matrix():
    plus, minus = Costs(COSTS).subcosts(3)
    np.testing.assert_allclose(plus[0], [0, 0.171499, 2.743977], atol=1e-6)
    np.testing.assert_allclose(plus[1:], [[0.5, 0, 0.5], [1, 1, 0]], atol=1e-12)
    np.testing.assert_allclose(minus, np.diag([1.457738, 0.5, 1]), atol=1e-6)
    np.testing.assert_allclose(2 * np.sqrt(plus * np.diag(minus)[:, None]), COSTS)
    for half in Costs().subcosts(3):
        assert set(half.ravel()) == {0, 0.5}


def test_coefficients_of_the_hand_worked_stump():
    X, y = np.array([[1.0], [1], [0], [0]]), np.array([0, 0, 1, 2])
    total, difference = np.full(3, 0.5), np.array([-0.5, 0.25, 0.25])
    a = optimal_coefficients(total, difference, 1e-3)
    np.testing.assert_allclose(a, [3.108303, -0.546654, -0.546654], atol=1e-6)
    exact = np.array([np.inf, -0.549306, -0.549306])
    s_plus, s_minus = (total + difference) / 2, (total - difference) / 2
    assert 2 * np.sqrt(s_plus * s_minus).sum() == pytest.approx(0.866025, abs=1e-6)
    assert loss_bound(total, difference, np.zeros(3)) == 1.5
    np.testing.assert_allclose(
        optimal_coefficients(total, difference, 0.0), np.minimum(exact, 4), atol=1e-6
    )
    model = RebelClassifier(n_estimators=1, smoothing=0).fit(X, y)
    np.testing.assert_allclose(model.committee_.base, [0, -0.549306, -0.549306], atol=1e-6)


def test_the_gain_of_a_row_with_the_coefficients_held_goes_by_sinh():
    plus, minus = np.array([0.5, 0, 0.5]), np.array([0, 0.5, 0])
    a = np.array([0.5, -0.3, 0.2])
    loss = [(plus * np.exp(f * a) + minus * np.exp(-f * a)).sum() for f in (1, -1)]
    assert loss[1] - loss[0] == pytest.approx(2 * (minus - plus) @ np.sinh(a))
    assert loss[1] - loss[0] == pytest.approx(-1.026951, abs=1e-6)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("depth", [1, 2, 4])
@pytest.mark.parametrize("subcosts", ["paper", "linear"])
def test_the_loss_never_rises_and_bounds_the_cost(seed, depth, subcosts):
    X, y, _ = problem(seed, n=300, K=4)
    C = random_costs(np.random.default_rng(seed), 4)
    model = RebelClassifier(
        cost_matrix=C, subcosts=subcosts, max_depth=depth, n_estimators=40, random_state=0
    ).fit(X, y)
    plus, minus = Costs(C, subcosts).subcosts(4)
    stages = [np.tile(model.committee_.base, (300, 1)), *model.staged_decision_function(X)]
    losses = np.array([naive.coupled_loss(H, y, np.ones(300), plus, minus) for H in stages])
    assert (np.diff(losses) < 1e-6 * losses[:-1]).all()  # float32 leaves
    least = 300 * 0 if subcosts == "paper" else 2 * np.sqrt(plus * minus)[y].sum()
    for H, loss in zip(stages, losses, strict=True):
        assert C[y, H.argmax(axis=1)].sum() <= loss - least + 1e-9


def test_a_further_layer_never_raises_the_loss_of_a_round():
    X, y, _ = problem(4, n=300, K=5)
    args = y, np.ones(300), *naive.neutral_subcosts(5)
    losses = []
    for depth in range(1, 7):
        model = RebelClassifier(n_estimators=1, max_depth=depth).fit(X, y)
        losses.append(naive.coupled_loss(model.decision_function(X), *args))
    assert (np.diff(losses) <= 1e-6).all()
    assert losses[-1] < losses[0]


def test_mh_and_rebel_extend_one_another_and_absent_classes_stay():
    X, y, _ = problem(5, n=300)
    mh = AdaBoostMHClassifier(n_estimators=10).fit(X, y)
    kept = y != 2
    rebel = RebelClassifier(n_estimators=10)
    committee = rebel.train(X[kept], y[kept], seed=0, committee=mh.committee_)
    assert committee.n_rounds == 20
    np.testing.assert_array_equal(committee.classes, [0, 1, 2])
    answers = committee.predicted_indices(committee.class_scores(X))
    assert (answers[y == 2] == 2).mean() > 0.5


def test_trees_and_similarities_do_not_extend_one_another():
    X, y, _ = problem(5)
    trees = RebelClassifier(n_estimators=2).fit(X, y)
    with pytest.raises(DataError, match="rebel similarity"):
        trees.set_params(weak_learner="localized_similarity").extend(X, y)
