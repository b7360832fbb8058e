"""The log-loss kernels against plain numpy and finite differences."""

import naive
import naive_logit
import numpy as np
import pytest

from streamboost.boosting.log_loss.sketch_trainer import draw_class_directions
from streamboost.kernels import softmax as kernels


def rows(seed, n=50, K=5):
    rng = np.random.default_rng(seed)
    F = rng.standard_normal((n, K)).astype(np.float32) * 2
    y = rng.integers(0, K, n).astype(np.uint32)
    P = np.empty_like(F)
    kernels.softmax(F, P)
    return rng, F, P, y


@pytest.mark.parametrize("K", [2, 3, 7])
def test_softmax_is_the_naive_one(K):
    _, F, P, _ = rows(0, K=K)
    np.testing.assert_allclose(P, naive.softmax(F.astype(float)), rtol=1e-5)


@pytest.mark.parametrize("K", [2, 3, 7])
def test_leaf_values_are_the_plain_transcription(K):
    rng, _, P, y = rows(2, K=K)
    w = rng.random(len(y)).astype(np.float32)
    order = rng.permutation(len(y)).astype(np.uint32)
    start, stop = np.array([0, 20, 20]), np.array([20, 20, 50])
    values = np.empty((3, K))
    kernels.leaf_steps_diagonal(P, y, w, order, start, stop, 0.3, 4.0, values)
    for m in range(3):
        expected = naive.newton_leaf(P.astype(float), y, w, order[start[m] : stop[m]], 0.3)
        np.testing.assert_allclose(values[m], expected, atol=1e-5)


def test_leaf_value_of_the_hand_worked_case():
    # Labels 0 0 1 2 at uniform probabilities: (.5, -.25, -.25), and with l2 = 1 (.2353, ...).
    y, order = np.array([0, 0, 1, 2], np.uint32), np.arange(4, dtype=np.uint32)
    P, w = np.full((4, 3), 1 / 3, np.float32), np.ones(4, np.float32)
    values = np.empty((1, 3))
    ends = np.array([0]), np.array([4])
    kernels.leaf_steps_diagonal(P, y, w, order, *ends, 0.0, 4.0, values)
    np.testing.assert_allclose(values, [[0.5, -0.25, -0.25]], atol=1e-6)
    kernels.leaf_steps_diagonal(P, y, w, order, *ends, 1.0, 4.0, values)
    np.testing.assert_allclose(values, [[0.235294, -0.117647, -0.117647]], atol=1e-6)


def test_leaf_values_are_clamped():
    # Two rows at F = (0, 7, 0) with labels 0 and 1: the bare step would raise the loss to 541.
    F = np.tile(np.array([0, 7, 0], np.float32), (2, 1))
    P = np.empty_like(F)
    kernels.softmax(F, P)
    y, w, order = np.array([0, 1], np.uint32), np.ones(2, np.float32), np.arange(2, dtype=np.uint32)
    values = np.empty((1, 3))
    kernels.leaf_steps_diagonal(P, y, w, order, np.array([0]), np.array([2]), 0.0, 4.0, values)
    assert np.abs(values).max() == 4.0
    losses = -np.log(naive.softmax(F + values)[np.arange(2), y])
    assert losses.sum() == pytest.approx(1.627, abs=1e-3)


def test_multiplying_by_the_leaf_follows_the_softmax():
    rng, F, P, _ = rows(3)
    values = rng.standard_normal((2, 5)).astype(np.float32)
    order = rng.permutation(50).astype(np.uint32)
    before = F.copy()
    kernels.update_softmax_by_leaves(F, P, order, np.array([0, 30]), np.array([30, 50]), values)
    before[order[:30]] += values[0]
    before[order[30:]] += values[1]
    np.testing.assert_array_equal(F, before)
    np.testing.assert_allclose(P, naive.softmax(F.astype(float)), rtol=2e-5)


def test_packed_sums_come_apart_again_whatever_the_signs():
    rng = np.random.default_rng(4)
    g, h = rng.standard_normal(1000).astype(np.float32), rng.random(1000).astype(np.float32)
    w = rng.integers(1, 4, 1000).astype(np.float32)
    packed, wide = np.empty(1000, np.int64), np.empty(2000, np.int64)
    kernels.quantize(g, h, w, 2.0**17, 2.0**17, False, packed)
    kernels.quantize(g, h, w, 2.0**17, 2.0**17, True, wide)
    for part in (slice(0, 1000), slice(3, 40), slice(7, 8)):
        total = int(packed[part].sum())
        assert total >> 32 == wide[0::2][part].sum()
        assert total & 0xFFFFFFFF == wide[1::2][part].sum()
    assert wide[0::2].sum() == pytest.approx((w * g).sum() * 2**17, abs=1500)


def test_directions_are_centred_and_reach_one():
    rng = np.random.default_rng(5)
    for K in (2, 3, 26):
        u = draw_class_directions(1, K, rng)[0]
        assert abs(u).max() == 1.0
        assert abs(u.sum()) < 1e-5


@pytest.mark.parametrize("K", [2, 3, 7])
def test_gradient_and_hessian_of_one_class_are_the_loss_derivatives(K):
    rng, F, P, y = rows(6, K=K)
    w = rng.random(len(y)).astype(np.float32)
    g, h = np.empty((2, len(y)), np.float32)
    sums = kernels.class_gradients(P, y, w, 1, g, h)

    def loss(t):
        moved = naive.softmax(F.astype(float) + t * np.eye(K)[1])
        return -np.log(moved[np.arange(len(y)), y])

    eps = 1e-4
    np.testing.assert_allclose(g, -(loss(eps) - loss(-eps)) / (2 * eps), atol=1e-5)
    np.testing.assert_allclose(h, (loss(eps) - 2 * loss(0) + loss(-eps)) / eps**2, atol=1e-5)
    np.testing.assert_allclose(sums, [(w * abs(g)).sum(), (w * h).sum()], rtol=1e-5)


def test_scalar_leaf_steps_are_ratios_of_sums_and_clamped():
    rng = np.random.default_rng(7)
    g, h = rng.standard_normal((2, 50)).astype(np.float32)
    h, w = abs(h), rng.integers(1, 4, 50).astype(np.float32)
    order = rng.permutation(50).astype(np.uint32)
    start, stop = np.array([0, 20, 49, 30]), np.array([20, 49, 50, 30])
    g[order[49]], h[order[49]] = -100, 1
    steps = np.empty(4)
    kernels.leaf_steps(g, h, w, order, start, stop, 0.3, 4.0, steps)
    parts = [order[a:b] for a, b in zip(start, stop, strict=True)]
    ratios = [(w * g)[r].sum() / ((w * h)[r].sum() + 0.3) for r in parts]
    np.testing.assert_allclose(steps, np.clip(ratios, -4, 4), atol=1e-5)
    assert steps[2] == -4.0
    kernels.leaf_steps(g, h, w, order, start, stop, 0.0, 4.0, steps)
    assert steps[3] == 0.0  # no rows, no step


@pytest.mark.parametrize("K", [2, 5])
def test_separate_leaf_values_are_the_plain_transcription(K):
    rng, F, _, y = rows(8, K=K)
    P = np.exp(F - 1)  # which need not sum to one
    w = rng.integers(1, 4, len(y)).astype(np.float32)
    order = rng.permutation(len(y)).astype(np.uint32)
    values = np.empty((2, K))
    kernels.leaf_steps_independent(
        P, y, w, order, np.array([0, 20]), np.array([20, 50]), 0.3, 2.0, values
    )
    for m, part in enumerate((order[:20], order[20:])):
        expected = naive_logit.leaf_separate(P.astype(float), y, w.astype(float), part, 0.3)
        np.testing.assert_allclose(values[m], expected, atol=1e-5)


def test_separate_leaf_steps_lower_the_log_loss_where_probabilities_sum_to_one():
    # Centred they are the step of H <= n (diag p - p p') with mean p: a quadratic bound from above.
    for seed in range(20):
        _, _, P, y = rows(seed, K=6)
        w, order = np.ones(50, np.float32), np.arange(50, dtype=np.uint32)
        values = np.empty((1, 6))
        ends = np.array([0]), np.array([50])
        kernels.leaf_steps_independent(P, y, w, order, *ends, 0.0, np.inf, values)
        G, H = naive_logit.sums(P.astype(float), y, w, range(50))
        step = values[0] - values[0].mean()
        np.testing.assert_allclose(step, (G / P.sum(0)) - (G / P.sum(0)).mean(), atol=1e-5)
        p = P.astype(float).mean(axis=0)
        bound = 50 * (np.diag(p) - np.outer(p, p))
        assert np.linalg.eigvalsh(bound - H).min() > -1e-5
        assert -G @ step + step @ H @ step / 2 < 0


def test_added_leaves_and_loss_are_the_naive_ones():
    rng, F, _, y = rows(9)
    w = rng.random(50).astype(np.float32)
    before, values = F.copy(), rng.standard_normal((2, 5)).astype(np.float32)
    order = rng.permutation(50).astype(np.uint32)
    kernels.add_leaf_values(F, order, np.array([0, 30]), np.array([30, 50]), values)
    before[order[:30]] += values[0]
    before[order[30:]] += values[1]
    np.testing.assert_array_equal(F, before)
    assert kernels.log_loss(F, y, w) == pytest.approx(naive_logit.log_loss(F, y, w), rel=1e-5)
