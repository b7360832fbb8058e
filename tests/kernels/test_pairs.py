"""Class pairs against plain numpy, finite differences and examples worked by hand."""

from functools import partial

import naive
import naive_logit
import numpy as np
import pytest

from streamboost.kernels import pairs
from streamboost.kernels import softmax as kernels

leaf_steps_in_best_pair = partial(pairs.leaf_steps_in_class_pairs, by_gain=True)

# Labels 0 0 1 2 at uniform probabilities.
LABELS = np.array([0, 0, 1, 2], np.uint32)
UNIFORM = np.full((4, 3), 1 / 3, np.float32)
ONES, ORDER = np.ones(4, np.float32), np.arange(4, dtype=np.uint32)


def rows(seed, n=50, K=5):
    rng = np.random.default_rng(seed)
    F = (rng.standard_normal((n, K)) * 2).astype(np.float32)
    P = np.empty_like(F)
    kernels.softmax(F, P)
    y = rng.integers(0, K, n).astype(np.uint32)
    return rng, F, P, y, rng.integers(1, 4, n).astype(np.float32)


def leaf(kind, P, y, w, order, l2=0.0, clamp=4.0, start=0):
    values = np.empty((1, P.shape[1]))
    kind(P, y, w, order, np.array([start]), np.array([len(order)]), l2, clamp, values)
    return values[0]


@pytest.mark.parametrize("K", [2, 3, 7])
def test_gradient_and_hessian_of_a_pair_are_the_loss_derivatives(K):
    rng, F, P, y, w = rows(0, K=K)
    order = rng.permutation(50)[:30].astype(np.uint32)
    a, b = K - 1, 0
    g, h = np.empty(30, np.float32), np.empty(30, np.float32)
    totals = pairs.class_pair_gradients(P, y, w, order, a, b, g, h)
    direction = np.eye(K)[a] - np.eye(K)[b]

    def loss(t):
        p = naive.softmax(F.astype(float) + t * direction)
        return -np.log(p[np.arange(50), y])[order]

    eps = 1e-4
    np.testing.assert_allclose(g, -(loss(eps) - loss(-eps)) / (2 * eps), atol=1e-5)
    np.testing.assert_allclose(h, (loss(eps) - 2 * loss(0) + loss(-eps)) / eps**2, atol=1e-5)
    np.testing.assert_allclose(totals, [(w[order] * abs(g)).sum(), (w[order] * h).sum()], rtol=1e-5)


@pytest.mark.parametrize("by_gain", [True, False])
@pytest.mark.parametrize("K", [2, 3, 7])
@pytest.mark.parametrize("seed", range(5))
def test_the_pair_is_the_naive_one(seed, K, by_gain):
    rng, _, P, y, w = rows(seed, K=K)
    order = rng.permutation(50)[: rng.integers(1, 50)].astype(np.uint32)
    found = pairs.choose_node_class_pair(P, y, w, order, by_gain)
    assert found == naive_logit.pair(P.astype(float), y, w, order, by_gain)


def test_the_two_choices_part_where_a_class_is_sure_of_itself():
    # G = (1.7, -1.0, -0.7); the third class, at p = 0 and 0.7, has the smaller Hessian against a.
    y = np.array([0, 0, 0, 1, 2], np.uint32)
    P = np.array([[0.5, 0.5, 0], [0.5, 0.5, 0], [0.3, 0, 0.7], [0, 1, 0], [0, 0, 1]], np.float32)
    order, w = np.arange(5, dtype=np.uint32), np.ones(5, np.float32)
    # H = .71 + .50 + 2 * .50 and .71 + .21 + 2 * .21: 2.7^2 / 2.21 = 3.30, 2.4^2 / 1.34 = 4.30.
    assert pairs.choose_node_class_pair(P, y, w, order, True) == (0, 2)
    assert pairs.choose_node_class_pair(P, y, w, order, False) == (0, 1)


@pytest.mark.parametrize("by_gain", [True, False])
def test_the_pair_does_not_depend_on_the_order_of_the_rows(by_gain):
    # All classes are equally frequent: only rounding could make a difference between them.
    y = np.arange(700, dtype=np.uint32) % 7
    P = np.full((700, 7), 1 / 7, np.float32)
    rng = np.random.default_rng(0)
    w = np.full(700, 0.3, np.float32)
    for _ in range(10):
        order = rng.permutation(700).astype(np.uint32)
        assert pairs.choose_node_class_pair(P, y, w, order, by_gain) == (0, 1)


@pytest.mark.parametrize("wide", [False, True])
def test_the_statistic_sums_to_that_of_the_pair(wide):
    rng, _, P, y, w = rows(3)
    order = rng.permutation(50)[:30].astype(np.uint32)
    values = np.zeros(100, np.int64)
    scale_g, scale_h = pairs.write_class_pair_gradients(
        P, y, w, order, True, 52.0 if wide else 30.0, wide, values
    )
    g, h = naive_logit.pair_derivatives(
        P.astype(float), y, *pairs.choose_node_class_pair(P, y, w, order, True)
    )
    if wide:
        total_g, total_h = values[0::2].sum(), values[1::2].sum()
        assert set(np.flatnonzero(values[1::2])) == set(order.tolist())
    else:
        total_g, total_h = int(values.sum()) >> 32, int(values.sum()) & 0xFFFFFFFF
        assert set(np.flatnonzero(values)) == set(order.tolist())
    assert total_g / scale_g == pytest.approx((w * g)[order].sum(), abs=1e-4)
    assert total_h / scale_h == pytest.approx((w * h)[order].sum(), abs=1e-4)
    assert np.log2([scale_g, scale_h]) == pytest.approx(np.rint(np.log2([scale_g, scale_h])))


@pytest.mark.parametrize(
    ("kernel", "plain"),
    [
        (leaf_steps_in_best_pair, naive_logit.leaf_pair),
        (pairs.leaf_steps_full_hessian, naive_logit.leaf_dense),
    ],
)
@pytest.mark.parametrize("K", [2, 3, 7])
@pytest.mark.parametrize("l2", [0.0, 0.3])
def test_leaf_steps_are_the_plain_transcription(kernel, plain, K, l2):
    rng, _, P, y, w = rows(5, K=K)
    order = rng.permutation(50).astype(np.uint32)
    start, stop = np.array([0, 20]), np.array([20, 50])
    values = np.empty((2, K))
    kernel(P, y, w, order, start, stop, l2, 4.0, values)
    for m in range(2):
        expected = plain(P.astype(float), y, w.astype(float), order[start[m] : stop[m]], l2)
        np.testing.assert_allclose(values[m], expected, atol=1e-5)


def test_the_hand_worked_sums_and_pair():
    G, H = naive_logit.sums(UNIFORM.astype(float), LABELS, ONES, ORDER)
    np.testing.assert_allclose(G, [0.666667, -0.333333, -0.333333], atol=1e-6)
    np.testing.assert_allclose(H[0], [0.888889, -0.444444, -0.444444], atol=1e-6)
    assert pairs.choose_node_class_pair(UNIFORM, LABELS, ONES, ORDER, True) == (
        0,
        1,
    )  # 2 ties with 1


def test_the_hand_worked_leaves():
    zero = np.zeros((4, 3))
    assert naive_logit.log_loss(zero, LABELS) == pytest.approx(4.394449, abs=1e-6)
    pair = leaf(leaf_steps_in_best_pair, UNIFORM, LABELS, ONES, ORDER)
    np.testing.assert_allclose(pair, [0.375, -0.375, 0], atol=1e-6)
    assert naive_logit.log_loss(zero + pair, LABELS) == pytest.approx(4.204795, abs=1e-6)
    dense = leaf(pairs.leaf_steps_full_hessian, UNIFORM, LABELS, ONES, ORDER)
    np.testing.assert_allclose(dense, [0.5, -0.25, -0.25], atol=1e-6)
    assert naive_logit.log_loss(zero + dense, LABELS) == pytest.approx(4.160499, abs=1e-6)


@pytest.mark.parametrize("seed", range(3))
def test_for_two_classes_all_leaves_are_one(seed):
    _, _, P, y, w = rows(seed, K=2)
    order = np.arange(50, dtype=np.uint32)
    pair, dense, vector = (
        leaf(kind, P, y, w, order)
        for kind in (
            leaf_steps_in_best_pair,
            pairs.leaf_steps_full_hessian,
            kernels.leaf_steps_diagonal,
        )
    )
    np.testing.assert_allclose(pair, dense, atol=1e-6)
    np.testing.assert_allclose(pair, vector, atol=1e-6)


def test_at_uniform_probabilities_the_diagonal_step_is_the_dense_one():
    rng = np.random.default_rng(0)
    y, P = rng.integers(0, 6, 40).astype(np.uint32), np.full((40, 6), 1 / 6, np.float32)
    order, w = np.arange(40, dtype=np.uint32), np.ones(40, np.float32)
    dense = leaf(pairs.leaf_steps_full_hessian, P, y, w, order)
    np.testing.assert_allclose(leaf(kernels.leaf_steps_diagonal, P, y, w, order), dense, atol=1e-5)


@pytest.mark.parametrize(
    "kind",
    [leaf_steps_in_best_pair, pairs.leaf_steps_full_hessian, kernels.leaf_steps_diagonal],
)
@pytest.mark.parametrize("K", [2, 3, 10])
def test_every_leaf_lowers_the_quadratic_loss_of_its_rows(kind, K):
    for seed in range(10):
        _, _, P, y, w = rows(seed, K=K)
        G, H = naive_logit.sums(P.astype(float), y, w, range(50))
        f = leaf(kind, P, y, w, np.arange(50, dtype=np.uint32), 0.1, np.inf)
        assert f.sum() == pytest.approx(0, abs=1e-6)
        assert -G @ f + f @ H @ f / 2 < 0


@pytest.mark.parametrize("kind", [leaf_steps_in_best_pair, pairs.leaf_steps_full_hessian])
def test_a_leaf_without_any_hessian_is_clamped(kind):
    # Certain and wrong: p is 0 or 1 to the last bit of float32.
    P = np.tile(np.array([0, 1, 0, 0], np.float32), (3, 1))
    y = np.array([0, 0, 2], np.uint32)
    values = leaf(kind, P, y, ONES[:3], ORDER[:3])
    assert np.isfinite(values).all()
    assert np.abs(values).max() == 4.0
    assert values[1] < 0 < values[0]


def test_dense_steps_of_the_far_off_rows_are_clamped_too():
    # Two rows at F = (0, 7, 0) with labels 0 and 1, where bare diagonal steps reach 305.
    F = np.tile(np.array([0, 7, 0], np.float32), (2, 1))
    P = np.empty_like(F)
    kernels.softmax(F, P)
    y = np.array([0, 1], np.uint32)
    values = leaf(pairs.leaf_steps_full_hessian, P, y, ONES[:2], ORDER[:2])
    assert np.abs(values).max() <= 4.0
    assert naive_logit.log_loss(F + values, y) < naive_logit.log_loss(F, y)
