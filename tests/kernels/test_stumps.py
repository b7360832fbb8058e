import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamboost.kernels.stumps import boost_stumps
from streamboost.kernels.traverse import FOREST_NODE
from tests import naive_stumps

SETTINGS = {"rate": 0.8, "l2": 1.0, "least": 0.02, "clamp": 4.0}


def run(X, y, weight, scores, directions, features=None, **changes):
    n_stumps, K = directions.shape
    features = np.arange(X.shape[1]) if features is None else np.array(features)
    nodes = np.empty(n_stumps, dtype=FOREST_NODE)
    roots = np.empty(n_stumps, dtype=np.int32)
    values = np.empty((2 * n_stumps, K), dtype=np.float32)
    s = {**SETTINGS, **changes}
    args = s["rate"], s["l2"], s["least"], s["clamp"], nodes, roots, values
    n_nodes = boost_stumps(X, features, y, weight, scores, directions, *args)
    return nodes[:n_nodes], roots, values


def random_rows(seed, n, n_features, K):
    rng = np.random.default_rng(seed)
    X = np.round(rng.random((n, n_features)) * 6).astype(np.float32)
    X[rng.random(X.shape) < 0.1] = np.nan
    y = rng.integers(0, K, n)
    u = rng.standard_normal((4, K))
    u -= u.mean(axis=1, keepdims=True)
    scores = rng.standard_normal((n, K)).astype(np.float32)
    return X, y, rng.random(n) + 0.1, scores, u.astype(np.float32)


# Always the same examples: the scores of two cuts may differ by less than float32's precision.
@settings(deadline=None, derandomize=True)
@given(
    seed=st.integers(0, 10**6),
    n=st.integers(1, 70),
    n_features=st.integers(0, 4),
    K=st.integers(2, 5),
)
@pytest.mark.slow
def test_stumps_are_those_of_the_slow_twin(seed, n, n_features, K):
    X, y, weight, scores, u = random_rows(seed, n, n_features, K)
    slow_scores = scores.astype(float)
    nodes, roots, values = run(X, y, weight, scores, u)
    slow = naive_stumps.boost_stumps(X, range(n_features), y, weight, slow_scores, u, **SETTINGS)
    np.testing.assert_allclose(scores, slow_scores, rtol=1e-3, atol=1e-4)
    for m, (split, leaves) in enumerate(slow):
        if split is None:
            assert roots[m] == ~(2 * m)
            np.testing.assert_allclose(values[2 * m], leaves[0], rtol=1e-3, atol=1e-4)
            continue
        node = nodes[roots[m]]
        feature, threshold, missing_left, left = split
        missing_left = 2 * left.sum() >= n if missing_left is None else missing_left
        assert (node["feature"], node["threshold"]) == (feature, threshold)
        assert node["missing_left"] == missing_left
        assert (node["left"], node["right"]) == (~(2 * m), ~(2 * m + 1))
        np.testing.assert_allclose(values[2 * m : 2 * m + 2], leaves, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize(
    "column",
    [[1, 1, 1, 1], [np.nan] * 4],
    ids=["constant", "missing"],
)
def test_a_column_with_nothing_to_cut_is_not_cut(column):
    X = np.array(column, dtype=np.float32)[:, None]
    y = np.array([0, 1, 0, 1])
    nodes, roots, _ = run(
        X, y, np.ones(4), np.zeros((4, 2), np.float32), np.array([[1, -1]], np.float32), least=0.3
    )
    assert len(nodes) == 0
    assert roots.tolist() == [~0]


def test_missing_values_can_be_split_off():
    X = np.array([0, 0, np.nan, np.nan], dtype=np.float32)[:, None]
    nodes, _, _ = run(
        X,
        np.array([0, 0, 1, 1]),
        np.ones(4),
        np.zeros((4, 2), np.float32),
        np.array([[1, -1]], np.float32),
    )
    assert nodes[["threshold", "missing_left"]].tolist() == [(np.inf, False)]


def test_neighbouring_floats_are_told_apart():
    low = np.float32(1)
    X = np.array([low, low, np.nextafter(low, np.float32(2)), np.float32(2)])[:, None]
    y = np.array([0, 0, 1, 1])
    nodes, _, _ = run(
        X, y, np.ones(4), np.zeros((4, 2), np.float32), np.array([[1, -1]], np.float32)
    )
    assert nodes["threshold"].tolist() == [1.0]


def test_only_the_features_offered_are_split():
    X, y, weight, scores, u = random_rows(1, 40, 4, 3)
    nodes, _, _ = run(X, y, weight, scores, u, features=[1, 3])
    assert len(nodes)
    assert set(nodes["feature"].tolist()) <= {1, 3}
