"""The similarity and eigenvector kernels against plain Python, with explicit edge cases."""

import naive_rebel as naive
import numpy as np
import pytest

from streamboost.kernels.perron import perron_eigenvectors
from streamboost.kernels.similarity import add_similarities, evaluate_similarity, squared_distances


def distances_to(points, at):
    out = np.empty(len(points))
    squared_distances(points, at, out)
    return out


def answers(points, first, second=None, reach=None, pull=None, mass=None):
    near = distances_to(points, first)
    far = np.zeros(0) if second is None else distances_to(points, second)
    reach = near[second] if reach is None else reach
    pull = np.zeros((len(points), 2)) if pull is None else pull
    mass = np.zeros_like(pull) if mass is None else mass
    values, slope, curvature = (
        np.empty(len(points)),
        np.empty(pull.shape[1]),
        np.empty(pull.shape[1]),
    )
    evaluate_similarity(near, far, reach, pull, mass, values, slope, curvature)
    return values, slope, curvature


@pytest.fixture(params=range(5))
def points(request):
    rng = np.random.default_rng(request.param)
    return (rng.standard_normal((40, 4)) * 10.0 ** rng.integers(-3, 4)).astype(np.float32)


def test_distances_are_squared_differences(points):
    P = points.astype(float)
    np.testing.assert_allclose(distances_to(points, 3), ((P - P[3]) ** 2).sum(axis=1), rtol=1e-14)


def test_answers_are_the_plain_functions_and_their_sums(points):
    rng = np.random.default_rng(0)
    pull, mass = rng.standard_normal((40, 3)), rng.random((40, 3))
    P = points.astype(float)
    reach = float(np.median(distances_to(points, 1)))
    for second, plain in (
        (None, [naive.one_point(x, P[1], reach) for x in P]),
        (2, [naive.two_point(x, P[1], P[2]) for x in P]),
    ):
        values, slope, curvature = answers(
            points, 1, second, reach if second is None else None, pull, mass
        )
        # Far away f is the small difference of two large distances.
        np.testing.assert_allclose(values, plain, atol=1e-12)
        np.testing.assert_allclose(slope, values @ pull)
        np.testing.assert_allclose(curvature, values**2 @ mass)


def test_the_hand_worked_values():
    points = np.array([[0, 0], [2, 0], [0.5, 1]], np.float32)
    assert answers(points, 0, 1)[0][2] == pytest.approx(0.438356, abs=1e-6)
    assert answers(points, 0, reach=2.0)[0][2] == pytest.approx(0.230769, abs=1e-6)  # D = 1.25


def test_two_points_are_the_extremes_and_the_bisector_is_zero(points):
    values, *_ = answers(points, 0, 1)
    assert values[0] == pytest.approx(1)
    assert values[1] == pytest.approx(-1)
    assert np.abs(values).max() <= 1 + 1e-12
    P = points.astype(float)
    nearer = ((P - P[0]) ** 2).sum(axis=1) < ((P - P[1]) ** 2).sum(axis=1)
    np.testing.assert_array_equal(values > 0, nearer)


def test_any_reach_is_the_constant(points):
    np.testing.assert_array_equal(answers(points, 0, reach=np.inf)[0], 1)


@pytest.mark.parametrize("n", [0, 1, 7])
def test_scoring_is_record_by_record(points, n):
    rng = np.random.default_rng(n)
    pairs = np.array([[0, 1], [2, -1], [3, -1], [5, 4]], np.int32)
    P = points.astype(float)
    reach = np.array([((P[0] - P[1]) ** 2).sum(), 2.0, np.inf, ((P[5] - P[4]) ** 2).sum()])
    a = rng.standard_normal((4, 3))
    X = (points[:n] + rng.standard_normal((n, 4))).astype(np.float32)
    for start, stop in ((0, 4), (1, 3), (2, 2)):
        scores = np.ones((n, 3))
        add_similarities(points, pairs, reach, a, X, scores, start, stop)
        expected = np.ones((n, 3))
        for i, x in enumerate(X.astype(float)):
            for m in range(start, stop):
                first, second = pairs[m]
                expected[i] += a[m] * (
                    naive.one_point(x, P[first], reach[m])
                    if second < 0
                    else naive.two_point(x, P[first], P[second])
                )
        np.testing.assert_allclose(scores, expected, atol=1e-11)


def shares_of(odds, ratio):
    shares = np.full_like(odds, 1 / odds.shape[1])
    perron_eigenvectors(odds, ratio, shares)
    return shares


@pytest.mark.parametrize("K", [2, 3, 6, 12])
def test_the_eigenvector_is_the_positive_one(K):
    rng = np.random.default_rng(K)
    ratio = rng.random((K, K)) * (1 - np.eye(K))
    odds = np.exp(3 * rng.standard_normal((30, K)))
    expected = [naive.perron(o, ratio) for o in odds]
    np.testing.assert_allclose(shares_of(odds, ratio), expected, atol=1e-9)


def test_an_eigenvector_does_not_depend_on_the_other_rows():
    rng = np.random.default_rng(0)
    ratio, odds = rng.random((4, 4)), rng.exponential(size=(20, 4))
    alone = np.concatenate([shares_of(odds[i : i + 1], ratio) for i in range(20)])
    np.testing.assert_array_equal(shares_of(odds, ratio), alone)


@pytest.mark.parametrize("what", ["one class", "odds of zero", "no ratio"])
def test_the_edges_of_the_eigenvector_are_finite(what):
    odds = np.array([[1.0]]) if what == "one class" else np.array([[1.0, 0, 0], [0, 0, 0]])
    K = odds.shape[1]
    ratio = np.zeros((K, K)) if what == "no ratio" else 1 - np.eye(K)
    shares = shares_of(odds, ratio)
    assert np.isfinite(shares).all()
    np.testing.assert_allclose(shares.sum(axis=1), 1)
