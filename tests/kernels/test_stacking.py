import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamboost.kernels.stacking import (
    combine_experts,
    predict_softmax_regression,
    predict_young_committee,
    update_fixed_share_weights,
    update_softmax_regression,
)
from tests import naive_blending

FURTHEST = 5.0


def mixed(weights, said, least):
    _, n, K = said.shape
    filled = np.empty((n, K)), np.empty(n, dtype=np.int64), np.empty(n)
    combine_experts(weights, said, least, *filled)
    return filled


@settings(deadline=None)
@given(seed=st.integers(0, 10**6), E=st.integers(1, 8), n=st.integers(0, 5), K=st.integers(1, 6))
def test_the_sum_of_experts_is_the_slow_twins(seed, E, n, K):
    rng = np.random.default_rng(seed)
    said, weights = -6 * rng.random((E, n, K)), 2 * rng.random(E)
    P, best, margins = mixed(weights, said, -5.0)
    wanted = naive_blending.mix(weights, np.maximum(said, -5.0)).reshape(n, K)
    np.testing.assert_allclose(P, np.exp(wanted), rtol=1e-11)
    assert (said >= -5.0).all()
    np.testing.assert_array_equal(best, P.argmax(axis=1))
    ordered = np.sort(wanted, axis=1)
    gaps = ordered[:, -1] - ordered[:, -2] if K > 1 else np.zeros(n)
    np.testing.assert_allclose(margins, gaps, atol=1e-11)


def test_experts_without_weight_leave_every_class_alike():
    P, best, margins = mixed(np.zeros(2), -np.arange(8.0).reshape(2, 1, 4), -6.0)
    np.testing.assert_allclose(P, 0.25)
    assert best[0] == margins[0] == 0


def random_rows(seed, n=5, D=3):
    rng = np.random.default_rng(seed)
    X = (10 * rng.standard_normal((n, D))).astype(np.float32)
    X[rng.random(X.shape) < 0.2] = np.nan
    mean, rate = rng.standard_normal(D), rng.choice([0.0, 0.1, 3.0], D)
    return rng, X, mean, rate


@settings(deadline=None)
@given(seed=st.integers(0, 10**6), K=st.integers(1, 5), D=st.integers(0, 4))
def test_the_regression_says_what_its_slow_twin_says(seed, K, D):
    rng, X, mean, rate = random_rows(seed, D=D)
    weights = 3 * rng.standard_normal((K, D + 1))
    said = np.full((5, K + 2), 7.0)
    predict_softmax_regression(X, mean, rate, FURTHEST, weights, said)
    slow = naive_blending.say_linear(X, mean, rate, FURTHEST, weights)
    np.testing.assert_allclose(said[:, :K], slow, atol=1e-12)
    assert (said[:, K:] == 7.0).all()


@settings(deadline=None)
@given(seed=st.integers(0, 10**6), K=st.integers(1, 5), weight=st.sampled_from([0.1, 1.0, 20.0]))
def test_it_learns_label_by_label_what_its_slow_twin_learns(seed, K, weight):
    rng, X, mean, rate = random_rows(seed, n=8)
    scale = mean, rate, FURTHEST
    weights, squares = np.zeros((K, 4)), np.full((K, 4), 1e-6)
    slow = weights.copy(), squares.copy()
    for row in X:
        k = int(rng.integers(K))
        update_softmax_regression(row[None], *scale, k, 0.5, weight, weights, squares)
        slow = naive_blending.learn_linear(row, *scale, k, 0.5, weight, *slow)
    np.testing.assert_allclose(weights, slow[0], rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(squares, slow[1], rtol=1e-9)


@pytest.mark.parametrize("sign", [1, -1])
def test_what_is_far_out_counts_as_no_further_than_the_furthest(sign):
    X = np.array([[sign * np.finfo(np.float32).max], [sign * FURTHEST]], dtype=np.float32)
    said = np.empty((2, 2))
    weights = np.array([[0.5, 1.0], [0.0, -1.0]])
    predict_softmax_regression(X, np.zeros(1), np.ones(1), FURTHEST, weights, said)
    np.testing.assert_array_equal(said[0], said[1])


def test_a_young_committee_is_shrunk_to_the_class_shares():
    scores, columns = np.log([[0.75, 0.25]]), np.array([2, 0])
    said = np.empty((1, 3))
    predict_young_committee(scores, columns, 0.4, np.array([0.0, 3.0]), said)
    shares = np.array([1.0, 4.0, 1.0]) / 6.0  # one is added to each count; the third has none
    np.testing.assert_allclose(said[0], 0.4 * shares + 0.6 * np.array([0.25, 0.0, 0.75]))


def test_weights_are_shared_and_then_follow_the_likelihood():
    own, young = np.array([0.7, 0.3]), np.array([[0.2, 0.8]])
    weights = np.array([1.0, 0.0, 0.0])
    update_fixed_share_weights(own, young, 1, 0.1, 0.5, 0.02, 0.003, weights)
    both = np.sqrt((own + 1e-4) * young[0])
    likelihoods = np.array([(0.3 + 1e-4) / (1 + 2e-4), 0.8, (both / both.sum())[1]])
    shared = np.array([0.9 + 0.05, 0.025, 0.025])  # a half to the stack, a half to the others
    expected = shared * np.sqrt(likelihoods)
    np.testing.assert_allclose(weights, expected / expected.sum(), rtol=1e-6)


def test_a_new_class_is_equally_unlikely_for_all():
    weights = np.array([0.5, 0.3, 0.2])
    update_fixed_share_weights(
        np.array([0.9, 0.1]), np.array([[0.5, 0.5]]), 2, 0.0, 0.5, 0.02, 0.003, weights
    )
    np.testing.assert_allclose(weights, [0.5, 0.3, 0.2])
