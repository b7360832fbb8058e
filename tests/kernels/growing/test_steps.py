"""Kernels of one round of the sketch, against plain numpy and finite differences."""

import naive
import numpy as np
import pytest
from numba import njit

from streamboost.boosting.log_loss.sketch_trainer import draw_class_directions
from streamboost.kernels.growing import steps


def called_by_a_kernel(inner):
    return njit(lambda *args: inner(*args))


update_gradients = called_by_a_kernel(steps.update_gradients)
gradient_bounds_to_float = called_by_a_kernel(steps.gradient_bounds_to_float)
leaf_gradient_sums = called_by_a_kernel(steps.leaf_gradient_sums)
write_leaf_values = called_by_a_kernel(steps.leaf_values)


def rows(seed, n=50, K=5, n_leaves=3):
    """Scores, labels, weights and the leaf of each row, and the leaves' values."""
    rng = np.random.default_rng(seed)
    F = rng.standard_normal((n, K)).astype(np.float32) * 2
    y = rng.integers(0, K, n).astype(np.uint32)
    w = rng.integers(1, 4, n).astype(np.float32)
    leaf = rng.integers(0, n_leaves, n).astype(np.uint16)
    values = rng.standard_normal((n_leaves, K)).astype(np.float32)
    return rng, F, y, w, leaf, values


def advance(P, leaf, values, u, y, w):
    g, h = np.empty((2, len(y)), np.float32)
    bounds = gradient_bounds_to_float(*update_gradients(P, leaf, np.exp(values), u, y, w, g, h))
    return g, h, bounds


@pytest.mark.parametrize("K", [2, 3, 7, 26, 40])
def test_probabilities_follow_the_leaves_and_gradients_are_the_loss_derivatives(K):
    rng, F, y, w, leaf, values = rows(0, K=K)
    u, P = draw_class_directions(1, K, rng)[0], naive.softmax(F.astype(float)).astype(np.float32)
    g, h, bounds = advance(P, leaf, values, u, y, w)
    F = F.astype(float) + values[leaf]
    np.testing.assert_allclose(P, naive.softmax(F), rtol=2e-5)

    def loss(t):
        return -np.log(naive.softmax(F + t * u.astype(float))[np.arange(len(y)), y])

    eps = 1e-4
    np.testing.assert_allclose(g, -(loss(eps) - loss(-eps)) / (2 * eps), atol=1e-5)
    np.testing.assert_allclose(h, (loss(eps) - 2 * loss(0) + loss(-eps)) / eps**2, atol=1e-5)
    sums = w.astype(float) @ abs(g), w.astype(float) @ h
    np.testing.assert_allclose(bounds, sums, rtol=1e-5)
    assert (np.array(bounds) >= sums).all()


def test_a_probability_that_all_but_vanished_comes_back():
    P, y, leaf = np.array([[0.5, 0.5]], np.float32), np.zeros(1, np.uint32), np.zeros(1, np.uint16)
    u, w = np.array([1, -1], np.float32), np.ones(1, np.float32)
    for _ in range(30):
        advance(P, leaf, np.array([[-20, 20]], np.float32), u, y, w)
    assert (P > 0).all()
    for _ in range(3):
        advance(P, leaf, np.array([[20, -20]], np.float32), u, y, w)
    assert P[0, 0] > 0.99


def leaf_values(P, y, w, leaf, chosen, l2=0.3, clamp=4.0, rate=0.5, n_leaves=3):
    K = P.shape[1]
    first, second = np.empty((2, n_leaves, K), np.int64)
    leaf_gradient_sums(P, y, w, leaf, chosen, first, second)
    values, factors = np.empty((2, n_leaves, K), np.float32)
    write_leaf_values(first, second, l2, clamp, rate, values, factors)
    np.testing.assert_allclose(factors, np.exp(values), rtol=1e-6)
    return values


EVERY = np.zeros(0, dtype=bool)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("sampled", [False, True])
@pytest.mark.parametrize("K", [2, 3, 7, 26])
def test_leaf_values_are_the_plain_transcription(K, sampled, weighted):
    rng, F, y, w, leaf, _ = rows(1, K=K)
    w = w if weighted else np.ones_like(w)
    P = naive.softmax(F.astype(float)).astype(np.float32)
    chosen = rng.random(len(y)) < 0.6 if sampled else EVERY
    values = leaf_values(P, y, w, leaf, chosen)
    for m in range(3):
        part = np.flatnonzero((leaf == m) & (chosen if sampled else True))
        expected = 0.5 * naive.newton_leaf(P.astype(float), y, w, part, 0.3)
        np.testing.assert_allclose(values[m], expected, atol=1e-5)


def test_neither_the_order_of_rows_nor_their_being_counted_as_one_changes_a_bit():
    rng, F, y, w, leaf, moves = rows(2, n=500)
    u, before = (
        draw_class_directions(1, 5, rng)[0],
        naive.softmax(F.astype(float)).astype(np.float32),
    )

    def told_of(order, w):
        P, own, at = before[order], y[order], leaf[order]
        *_, bounds = advance(P, at, moves, u, own, w)
        return leaf_values(P, own, w, at, EVERY), bounds

    expected, bounds = told_of(np.arange(500), w)
    order = rng.permutation(500)
    shuffled, others = told_of(order, w[order])
    np.testing.assert_array_equal(shuffled, expected)
    assert others == bounds
    single, _ = told_of(np.repeat(order, w[order].astype(int)), np.ones(int(w.sum()), np.float32))
    np.testing.assert_array_equal(single, expected)


def test_leaf_values_are_clamped():
    # Two rows at F = (0, 7, 0) with labels 0 and 1: the bare step would raise the loss to 541.
    P = naive.softmax(np.tile([0.0, 7.0, 0.0], (2, 1))).astype(np.float32)
    y, w, leaf = np.array([0, 1], np.uint32), np.ones(2, np.float32), np.zeros(2, np.uint16)
    values = leaf_values(P, y, w, leaf, EVERY, l2=0.0, rate=1.0, n_leaves=1)
    assert np.abs(values).max() == 4.0


def test_a_leaf_without_rows_moves_nothing():
    _, F, y, w, leaf, _ = rows(3)
    P = naive.softmax(F.astype(float)).astype(np.float32)
    values = leaf_values(P, y, w, np.minimum(leaf, 1), EVERY)
    np.testing.assert_array_equal(values[2], 0.0)


def test_sums_are_exact_for_rows_of_many_records():
    P, y = np.full((4, 2), 0.5, np.float32), np.array([0, 0, 0, 1], np.uint32)
    w, leaf = np.full(4, 2.0**30, np.float32), np.zeros(4, np.uint16)
    first, second = np.empty((2, 1, 2), np.int64)
    leaf_gradient_sums(P, y, w, leaf, EVERY, first, second)
    assert first.tolist() == [[2**60, -(2**60)]]
    assert second.tolist() == [[2**60, 2**60]]
