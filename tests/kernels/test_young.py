"""Kernels of young committees, against the same formulas in numpy."""

import numpy as np

from streamboost.kernels.young import mix_young, predict_young, share_weights

RNG = np.random.default_rng(5)


def random_probabilities(*shape):
    P = RNG.random(shape) + 0.01
    return P / P.sum(axis=-1, keepdims=True)


def test_a_prediction_is_shrunk_to_the_class_shares():
    scores, columns = np.log([[0.75, 0.25]]), np.array([2, 0])
    said = np.empty((1, 3))
    predict_young(scores, columns, 0.4, np.array([0.0, 3.0]), said)
    shares = np.array([1.0, 4.0, 1.0]) / 6.0  # one is added to each count; the third has none
    np.testing.assert_allclose(said[0], 0.4 * shares + 0.6 * np.array([0.25, 0.0, 0.75]))


def test_the_mixture_adds_logarithms_by_weight():
    own, young = random_probabilities(6, 4), random_probabilities(3, 6, 4)
    weights = np.array([0.3, 0.1, 0.2])
    logs = 0.4 * np.log(own) + np.tensordot(weights, np.log(young), 1)
    P = np.exp(logs) / np.exp(logs).sum(axis=1, keepdims=True)
    best, margins = np.empty(6, dtype=np.int64), np.empty(6)
    mix_young(0.4, weights, young, 1e-9, own, best, margins)
    np.testing.assert_allclose(own, P)
    np.testing.assert_array_equal(best, P.argmax(axis=1))
    ordered = np.sort(np.log(P), axis=1)
    np.testing.assert_allclose(margins, ordered[:, -1] - ordered[:, -2])


def test_probabilities_are_bounded_below_so_that_no_committee_has_a_veto():
    own, young = np.array([[0.9, 0.1]]), np.array([[[0.0, 1.0]]])
    mix_young(0.9, np.array([0.1]), young, 0.003, own, np.empty(1, dtype=np.int64), np.empty(1))
    assert own[0, 0] > 0.7


def test_weights_are_shared_and_then_follow_the_likelihood():
    own, young = np.array([0.7, 0.3]), np.array([[0.2, 0.8]])
    weights = np.array([1.0, 0.0, 0.0])
    share_weights(own, young, 1, 0.1, 0.5, 0.02, 0.003, weights)
    both = np.sqrt((own + 1e-4) * young[0])
    likelihoods = np.array([(0.3 + 1e-4) / (1 + 2e-4), 0.8, (both / both.sum())[1]])
    shared = np.array([0.9 + 0.05, 0.025, 0.025])  # a half to the stack, a half to the others
    expected = shared * np.sqrt(likelihoods)
    np.testing.assert_allclose(weights, expected / expected.sum(), rtol=1e-6)


def test_a_new_class_is_equally_unlikely_for_all():
    weights = np.array([0.5, 0.3, 0.2])
    share_weights(np.array([0.9, 0.1]), np.array([[0.5, 0.5]]), 2, 0.0, 0.5, 0.02, 0.003, weights)
    np.testing.assert_allclose(weights, [0.5, 0.3, 0.2])
