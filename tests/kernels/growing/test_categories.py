"""The grow kernel on features of categories, against plain Python."""

import naive
import naive_categories
import numpy as np
import pytest

from streamboost.kernels.growing import criteria as kernels
from streamboost.trees.bins import Bins
from streamboost.trees.grower import Grower
from streamboost.trees.histogram_input import (
    class_weight_histogram_input,
    gradient_histogram_input,
    vector_histogram_input,
)

CATEGORICAL = np.array([True, False, True, True])


def make(seed, n=80, missing=0.15, categorical=CATEGORICAL):
    rng = np.random.default_rng(seed)
    X = rng.integers(0, 7, (n, len(categorical))).astype(np.float32)
    X[rng.random(X.shape) < missing] = np.nan
    return rng, X


def grower(X, categorical=CATEGORICAL, **limits):
    bins = Bins.fit(X, np.ones(len(X)), 64, categorical)
    codes = bins.transform(X)
    settings = {"max_leaf_nodes": 8, "max_depth": None, "min_child_weight": 0.0}
    settings |= {"l2_regularization": 0.0} | limits
    return Grower(bins, codes, **settings), bins, codes


def leaf_sets(tree):
    return {frozenset(tree.rows[a:b].tolist()) for a, b in zip(tree.start, tree.stop, strict=True)}


def gradients(rng, n):
    g = rng.standard_normal(n).astype(np.float32)
    h = rng.random(n).astype(np.float32) + np.float32(0.05)
    return g, h


def newton_histogram_input(g, h):
    return gradient_histogram_input(g, h, np.ones_like(g), float(abs(g).sum()), float(h.sum()))


def rows_only(rows):
    return float(len(rows))


@pytest.mark.parametrize("wide", [False, True], ids=["packed", "wide"])
@pytest.mark.parametrize("missing", [0.0, 0.15])
@pytest.mark.parametrize("l2", [0.0, 1.5])
@pytest.mark.parametrize("seed", range(5))
def test_newton_tree_is_the_naive_one(seed, l2, missing, wide, monkeypatch):
    rng, X = make(seed, missing=missing)
    g, h = gradients(rng, len(X))
    if wide:
        monkeypatch.setattr("streamboost.trees.histogram_input.WIDE_ROWS", 10)
    grow, bins, codes = grower(X, l2_regularization=l2, min_child_weight=0.5)
    tree = grow(newton_histogram_input(g, h))
    g, h = g.astype(float), h.astype(float)
    expected = naive_categories.grow(
        codes,
        bins.n_bins,
        CATEGORICAL,
        lambda rows: naive.newton_score(g, h, rows, l2),
        naive_categories.newton_keys(g, h),
        lambda rows: h[rows].sum(),
        8,
        0.5,
    )
    assert leaf_sets(tree) == naive.leaves_of(expected)


@pytest.mark.parametrize("n_classes", [2, 3, 5])
@pytest.mark.parametrize("seed", range(5))
def test_gini_tree_is_the_naive_one(seed, n_classes):
    rng, X = make(seed)
    w, y = rng.random(len(X)) + 0.05, rng.integers(0, n_classes, len(X)).astype(np.uint32)
    grow, bins, codes = grower(X)
    tree = grow(class_weight_histogram_input(w, y, n_classes))
    expected = naive_categories.grow(
        codes,
        bins.n_bins,
        CATEGORICAL,
        lambda rows: naive.gini_score(w, y, rows),
        naive_categories.share_keys(w, y, n_classes),
        lambda rows: w[rows].sum(),
        8,
    )
    assert leaf_sets(tree) == naive.leaves_of(expected)


def vector_cases():
    def newton(V):
        def score(rows):
            return sum(naive.newton_score(V[:, k], V[:, 2 + k], rows, 0.0) for k in range(2))

        keys = naive_categories.leading_keys(
            lambda rows: V[rows, :2].sum(0) / V[rows, 2:].sum(0), lambda rows: V[rows, 2:].sum()
        )
        return score, keys

    def error(V):
        def gains(rows):
            total = V[rows].sum(0)
            return total - total.mean()

        keys = naive_categories.leading_keys(gains, naive_categories.one)
        return lambda rows: V[rows].sum(0).max(), keys

    def hinge(V):
        def lean(rows):
            plus, minus = V[rows, :2].sum(0), V[rows, 2:].sum(0)
            return (plus - minus) / (plus + minus)

        keys = naive_categories.leading_keys(lean, lambda rows: V[rows].sum())
        return lambda rows: -2 * np.sqrt(V[rows, :2].sum(0) * V[rows, 2:].sum(0)).sum(), keys

    return [
        pytest.param(kernels.NEWTON_SUMS, 2, newton, id="newton sums"),
        pytest.param(kernels.ERROR, 4, error, id="best answer"),
        pytest.param(kernels.MH, 0, hinge, id="AdaBoost.MH"),
    ]


@pytest.mark.parametrize(("kind", "signed", "case"), vector_cases())
@pytest.mark.parametrize("seed", range(5))
def test_vector_tree_is_the_naive_one(seed, kind, signed, case):
    rng, X = make(seed)
    V = rng.random((len(X), 4)) + 0.05
    V[:, :signed] -= 0.5
    grow, bins, codes = grower(X)
    tree = grow(vector_histogram_input(kind, V))
    score, keys = case(V)
    expected = naive_categories.grow(codes, bins.n_bins, CATEGORICAL, score, keys, rows_only, 8)
    assert leaf_sets(tree) == naive.leaves_of(expected)


@pytest.mark.parametrize("l2", [0.0, 2.0, 10.0])
@pytest.mark.parametrize("seed", range(12))
def test_no_set_of_categories_beats_the_best_prefix_of_a_newton_order(seed, l2):
    rng, X = make(seed, n=60, categorical=np.ones(1, bool))
    g, h = gradients(rng, len(X))
    # Categories of very different Hessians: ordered by G / (H + l2) they would miss the best set.
    place = np.nan_to_num(X[:, 0], nan=7).astype(int)
    size = rng.choice(np.array([0.1, 1, 5], np.float32), 8)[place]
    g, h = g * size, h * size
    grow, bins, codes = grower(X, np.ones(1, bool), l2_regularization=l2, max_leaf_nodes=2)
    tree = grow(newton_histogram_input(g, h))
    g, h = g.astype(float), h.astype(float)
    best = naive_categories.grow(
        codes, bins.n_bins, [True], lambda rows: naive.newton_score(g, h, rows, l2), None,
        lambda rows: h[rows].sum(), 2, bins_to_codes=naive_categories.all_sets,
    )  # fmt: skip
    gain = sum(naive.newton_score(g, h, list(leaf), l2) for leaf in leaf_sets(tree))
    wanted = sum(naive.newton_score(g, h, list(leaf), l2) for leaf in naive.leaves_of(best))
    assert gain == pytest.approx(wanted, rel=1e-6)


@pytest.mark.parametrize("kind", [kernels.GINI, kernels.ERROR], ids=["gini", "best answer"])
@pytest.mark.parametrize("seed", range(8))
def test_no_set_beats_the_best_prefix_for_two_classes(seed, kind):
    rng, X = make(seed, n=60, categorical=np.ones(1, bool))
    w, y = rng.random(len(X)) + 0.05, rng.integers(0, 2, len(X)).astype(np.uint32)

    def score(rows):
        if kind == kernels.GINI:
            return naive.gini_score(w, y, rows)
        return np.bincount(y[rows], weights=w[rows]).max() if len(rows) else 0.0

    grow, bins, codes = grower(X, np.ones(1, bool), max_leaf_nodes=2)
    tree = grow(class_weight_histogram_input(w, y, 2, kind))
    best = naive_categories.grow(
        codes,
        bins.n_bins,
        [True],
        score,
        None,
        rows_only,
        2,
        bins_to_codes=naive_categories.all_sets,
    )
    wanted = sum(score(list(leaf)) for leaf in naive.leaves_of(best))
    assert sum(score(list(leaf)) for leaf in leaf_sets(tree)) == pytest.approx(wanted)


@pytest.mark.parametrize("seed", range(6))
def test_stumps_of_one_channel_find_the_best_set(seed):
    rng, X = make(seed, n=60, categorical=np.ones(1, bool))
    d = rng.standard_normal((len(X), 1))
    total = abs(d).sum(axis=0)
    grow, _, codes = grower(X, np.ones(1, bool), max_leaf_nodes=2)
    tree = grow(vector_histogram_input(kernels.STUMP, d, total))
    by_code = np.bincount(codes[0], weights=d[:, 0])
    ours = d[tree.rows[tree.start[0] : tree.stop[0]], 0].sum()
    # |left - right| is largest with all gains of one sign on one side.
    assert abs(2 * ours - d.sum()) == pytest.approx(abs(by_code).sum(), rel=1e-6)


def test_equal_categories_keep_the_lowest_code_first():
    X = np.array([[0], [0], [1], [1], [2], [2]], np.float32)
    g = np.zeros(6, np.float32)
    g[:2], h = 1, np.ones(6, np.float32)
    tree = grower(X, np.ones(1, bool), max_leaf_nodes=2)[0](newton_histogram_input(g, h))
    assert tree.nodes["members"][0][0] & 7 == 0b110  # 1 and 2 tie at zero, below 0


def test_categories_without_a_row_follow_the_missing_values():
    # The sample meets 0 and 1; the other rows bring 2, which goes where missing values go.
    X = np.array([[0], [1], [1], [1], [2], [2]], np.float32)
    y = np.array([0, 1, 1, 1, 0, 1], np.uint32)
    for sign, y_ in ((1, y), (-1, 1 - y)):
        grow, _, _ = grower(X, np.ones(1, bool), max_leaf_nodes=2)
        grow.set_sample(grow.splittable, np.arange(4, dtype=np.uint32), np.array([4, 5], np.uint32))
        tree = grow(class_weight_histogram_input(np.ones(6), y_.astype(np.uint32), 2))
        leaf = tree.leaf_indices(6)
        assert leaf[4] == leaf[5] == leaf[1], sign


def test_the_order_of_the_rows_does_not_change_the_tree():
    rng, X = make(9, n=300)
    g, h = gradients(rng, 300)
    order = rng.permutation(300)
    one = grower(X)[0](newton_histogram_input(g, h))
    other = grower(X[order])[0](newton_histogram_input(g[order], h[order]))
    inner = one.nodes["left"] >= 0
    for name in ("feature", "bin", "missing_left", "left", "gain"):
        np.testing.assert_array_equal(one.nodes[name], other.nodes[name])
    sets = inner & CATEGORICAL[one.features[one.nodes["feature"]]]
    np.testing.assert_array_equal(one.nodes["members"][sets], other.nodes["members"][sets])
