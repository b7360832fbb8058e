"""The grow kernel against plain Python, with explicit edge cases."""

import naive
import numpy as np
import pytest

from streamboost.kernels.growing import criteria as kernels
from streamboost.trees.bins import Bins
from streamboost.trees.grower import Grower
from streamboost.trees.histogram_input import (
    WIDE_ROWS,
    choose_gradient_format,
    class_weight_histogram_input,
    gradient_histogram_input,
    vector_histogram_input,
)


def make(seed, n=60, d=5, missing=0.2, distinct=7):
    rng = np.random.default_rng(seed)
    X = rng.integers(0, distinct, (n, d)).astype(np.float32)
    X[rng.random((n, d)) < missing] = np.nan
    return rng, X


def grower(X, **limits):
    bins = Bins.fit(X, np.ones(len(X)), 64)
    codes = bins.transform(X)
    settings = {"max_leaf_nodes": 8, "max_depth": None, "min_child_weight": 0.0}
    settings |= {"l2_regularization": 0.0} | limits
    return Grower(bins, codes, **settings), bins, codes


def leaf_sets(tree):
    return {frozenset(tree.rows[a:b].tolist()) for a, b in zip(tree.start, tree.stop, strict=True)}


def newton_histogram_input(g, h, w=None):
    w = np.ones(len(g), np.float32) if w is None else w.astype(np.float32)
    return gradient_histogram_input(g, h, w, float((w * abs(g)).sum()), float((w * h).sum()))


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize(
    "limits", [{}, {"max_depth": 2}, {"min_child_weight": 2.0}, {"l2_regularization": 1.5}]
)
def test_newton_tree_is_the_naive_one(seed, limits):
    rng, X = make(seed)
    g = rng.standard_normal(len(X)).astype(np.float32)
    h = rng.random(len(X)).astype(np.float32) + np.float32(0.05)
    grow, bins, codes = grower(X, **limits)
    tree = grow(newton_histogram_input(g, h))
    l2, least = limits.get("l2_regularization", 0.0), limits.get("min_child_weight", 0.0)
    g, h = g.astype(float), h.astype(float)
    expected = naive.grow(
        codes,
        bins.n_bins,
        lambda rows: naive.newton_score(g, h, rows, l2),
        lambda rows: h[rows].sum(),
        8,
        limits.get("max_depth", 10**9),
        least,
    )
    assert leaf_sets(tree) == naive.leaves_of(expected)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("missing", [0.0, 0.2])
def test_features_of_few_bins_counted_together_grow_the_naive_tree(seed, missing):
    rng, X = make(seed, n=120, d=9, missing=missing, distinct=2)
    X[:, 3] = rng.integers(0, 3, 120)  # bins of 2, 3 and more, side by side
    X[:, 6] = rng.integers(0, 9, 120)
    g = rng.standard_normal(120).astype(np.float32)
    h = rng.random(120).astype(np.float32) + np.float32(0.05)
    grow, bins, codes = grower(X)
    tree = grow(newton_histogram_input(g, h))
    g, h = g.astype(float), h.astype(float)
    expected = naive.grow(
        codes,
        bins.n_bins,
        lambda rows: naive.newton_score(g, h, rows, 0.0),
        lambda rows: h[rows].sum(),
        8,
    )
    assert leaf_sets(tree) == naive.leaves_of(expected)


@pytest.mark.parametrize("seed", range(8))
def test_gini_tree_is_the_naive_one(seed):
    rng, X = make(seed)
    w = rng.random(len(X)) + 0.05
    y = rng.integers(0, 4, len(X)).astype(np.uint32)
    grow, bins, codes = grower(X, min_child_weight=1.0)
    tree = grow(class_weight_histogram_input(w, y, 4))
    expected = naive.grow(
        codes,
        bins.n_bins,
        lambda rows: naive.gini_score(w, y, rows),
        lambda rows: w[rows].sum(),
        8,
        min_child=1.0,
    )
    assert leaf_sets(tree) == naive.leaves_of(expected)


def newton_sums(V, l2=0.0):
    half = V.shape[1] // 2
    return lambda rows: sum(
        naive.newton_score(V[:, k], V[:, half + k], rows, l2) for k in range(half)
    )


def hinge(V):
    half = V.shape[1] // 2
    return lambda rows: -2 * np.sqrt(V[rows, :half].sum(0) * V[rows, half:].sum(0)).sum()


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize(
    ("kind", "signed", "score"),
    [
        (kernels.NEWTON_SUMS, 2, newton_sums),
        (kernels.ERROR, 4, lambda V: lambda rows: V[rows].sum(0).max()),
        (kernels.MH, 0, hinge),
    ],
    ids=["newton sums", "best answer", "AdaBoost.MH"],
)
def test_vector_tree_is_the_naive_one(seed, kind, signed, score):
    rng, X = make(seed)
    V = rng.random((len(X), 4)) + 0.05
    V[:, :signed] -= 0.5
    grow, bins, codes = grower(X)
    tree = grow(vector_histogram_input(kind, V))
    expected = naive.grow(codes, bins.n_bins, score(V), lambda rows: float(len(rows)), 8)
    assert leaf_sets(tree) == naive.leaves_of(expected)


@pytest.mark.parametrize("seed", range(6))
def test_error_tree_on_weights_is_the_naive_one(seed):
    rng, X = make(seed)
    w, y = rng.random(len(X)) + 0.05, rng.integers(0, 3, len(X)).astype(np.uint32)
    grow, bins, codes = grower(X)
    tree = grow(class_weight_histogram_input(w, y, 3, kernels.ERROR))
    expected = naive.grow(
        codes,
        bins.n_bins,
        lambda rows: np.bincount(y[rows], weights=w[rows]).max() if rows else 0.0,
        lambda rows: float(len(rows)),
        8,
    )
    assert leaf_sets(tree) == naive.leaves_of(expected)


@pytest.mark.parametrize("seed", range(6))
def test_stump_is_the_one_of_least_loss(seed):
    rng, X = make(seed)
    plus, minus = rng.random((2, len(X), 3))
    grow, bins, codes = grower(X)
    tree = grow(
        vector_histogram_input(kernels.STUMP, plus - minus, (plus + minus).sum(axis=0)),
        max_leaf_nodes=2,
    )

    def loss(left):
        f = np.where(left, 1.0, -1.0)[:, None]
        s_plus = np.where(f > 0, plus, minus).sum(axis=0)
        s_minus = np.where(f > 0, minus, plus).sum(axis=0)
        return 2 * np.sqrt(s_plus * s_minus).sum()

    splits = [
        [naive.goes_left(codes, bins.n_bins, side, f, code, r) for r in range(len(X))]
        for f in range(len(codes))
        for side in (False, True)
        for code in range(bins.n_bins[f])
    ]
    ours = np.zeros(len(X), bool)
    ours[tree.rows[tree.start[0] : tree.stop[0]]] = True
    assert loss(ours) == pytest.approx(min(loss(np.array(s)) for s in splits))


@pytest.mark.parametrize("seed", range(6))
def test_tree_of_one_gradient_and_hessian_an_int64_each_is_the_naive_one(seed):
    rng, X = make(seed)
    V = np.stack([rng.standard_normal(len(X)), rng.random(len(X)) + 0.05], axis=1)
    grow, bins, codes = grower(X, min_child_weight=0.5, l2_regularization=0.3)
    tree = grow(vector_histogram_input(kernels.NEWTON_SUMS, V))
    expected = naive.grow(
        codes,
        bins.n_bins,
        newton_sums(V, 0.3),
        lambda rows: V[rows, 1].sum(),
        8,
        min_child=0.5,
    )
    assert leaf_sets(tree) == naive.leaves_of(expected)


def test_many_rows_use_wide_sums_and_grow_the_same_tree(monkeypatch):
    rng, X = make(3, n=300)
    g = rng.standard_normal(300).astype(np.float32)
    h = rng.random(300).astype(np.float32)
    packed = grower(X)[0](newton_histogram_input(g, h))
    monkeypatch.setattr("streamboost.trees.histogram_input.WIDE_ROWS", 10)
    wide = grower(X)[0](newton_histogram_input(g, h))
    assert WIDE_ROWS > 300
    assert leaf_sets(packed) == leaf_sets(wide)
    np.testing.assert_array_equal(packed.nodes["bin"], wide.nodes["bin"])


@pytest.mark.parametrize(
    ("n_rows", "weight", "kind"),
    [
        (65_536, 1.0, kernels.NEWTON),
        (1000, 66.0, kernels.NEWTON_SUMS),
        (100_000, 1.0, kernels.NEWTON),
        (100_000, 11.0, kernels.NEWTON_SUMS),
        (2**20, 1.0, kernels.NEWTON),
        (2**20 + 1, 0.5, kernels.NEWTON_SUMS),
    ],
)
def test_sums_are_wide_if_rows_are_many_or_heavy(n_rows, weight, kind):
    weights = np.full(n_rows, weight, np.float32)
    assert choose_gradient_format(weights, weight * n_rows, n_rows)[2] == kind


def test_first_and_lowest_of_equal_splits_wins():
    X = np.array([[0, 0], [0, 0], [1, 1], [1, 1], [2, 2], [2, 2]], np.float32)
    y = np.array([0, 0, 1, 1, 2, 2], np.uint32)
    tree = grower(X, max_leaf_nodes=2)[0](class_weight_histogram_input(np.ones(6), y, 3))
    assert (tree.nodes["feature"][0], tree.nodes["bin"][0]) == (0, 0)


def test_gini_masses_of_the_hand_worked_stump():
    # Classes 0 0 1 1 2 2 at x = 0..5: child impurities .5333 .3333 .4444 .3333 .5333 of the whole.
    y, w = np.array([0, 0, 1, 1, 2, 2]), np.ones(6) / 6
    masses = [
        1 - naive.gini_score(w, y, list(range(i))) - naive.gini_score(w, y, list(range(i, 6)))
        for i in range(1, 6)
    ]
    np.testing.assert_allclose(
        masses, [0.533333, 0.333333, 0.444444, 0.333333, 0.533333], atol=1e-6
    )
    X = np.arange(6, dtype=np.float32)[:, None]
    grow, bins, _ = grower(X, max_leaf_nodes=2)
    tree = grow(class_weight_histogram_input(w, y.astype(np.uint32), 3))
    assert bins.cuts[0][tree.nodes["bin"][0]] == 1.5
    assert tree.nodes["gain"][0] > 0


@pytest.mark.parametrize("what", ["one row", "constant", "all missing", "one class", "no gradient"])
def test_nothing_to_split_leaves_one_leaf(what):
    X = np.ones((1 if what == "one row" else 20, 2), np.float32)
    if what == "all missing":
        X[:] = np.nan
    if what in ("one class", "no gradient"):
        X = np.random.default_rng(0).random((20, 2)).astype(np.float32)
    y = np.zeros(len(X), np.uint32)
    grow = grower(X)[0]
    if what != "no gradient":
        assert grow(class_weight_histogram_input(np.ones(len(X)), y, 2)).n_leaves == 1
    zeros = np.zeros(len(X), np.float32)
    assert grow(newton_histogram_input(zeros, zeros + 1)).n_leaves == 1
    assert grow(newton_histogram_input(zeros, zeros)).n_leaves == 1


def test_missing_values_alone_can_be_split_off():
    X = np.array([[1], [1], [1], [np.nan], [np.nan]], np.float32)
    y = np.array([0, 0, 0, 1, 1], np.uint32)
    tree = grower(X)[0](class_weight_histogram_input(np.ones(5), y, 2))
    assert leaf_sets(tree) == {frozenset({0, 1, 2}), frozenset({3, 4})}


def test_unseen_missing_values_follow_the_larger_child():
    X = np.array([[0], [1], [1], [1]], np.float32)
    y = np.array([0, 1, 1, 1], np.uint32)
    tree = grower(X)[0](class_weight_histogram_input(np.ones(4), y, 2))
    assert not tree.nodes["missing_left"][0]
    tree = grower(-X)[0](class_weight_histogram_input(np.ones(4), y, 2))
    assert tree.nodes["missing_left"][0]


def test_rows_not_sampled_are_routed_but_not_counted():
    rng, X = make(5, n=100)
    y = rng.integers(0, 3, 100).astype(np.uint32)
    grow, _, codes = grower(X)
    rows = np.arange(0, 100, 2, dtype=np.uint32)
    unsampled_rows = np.arange(1, 100, 2, dtype=np.uint32)
    grow.set_sample(grow.splittable, rows, unsampled_rows)
    tree = grow(class_weight_histogram_input(np.ones(100), y, 3))
    alone = Grower(
        Bins([np.arange(6) + 0.5] * 5, np.ones(5, bool)),
        np.ascontiguousarray(codes[:, ::2]),
        max_leaf_nodes=8,
        max_depth=None,
        min_child_weight=0.0,
        l2_regularization=0.0,
    )(class_weight_histogram_input(np.ones(50), y[::2], 3))
    assert leaf_sets(tree) == {frozenset(2 * r for r in leaf) for leaf in leaf_sets(alone)}
    leaf = tree.leaf_indices(100)
    assert sorted([*tree.rows, *tree.unsampled_rows]) == list(range(100))
    for m in range(tree.n_leaves):
        for r in tree.unsampled_rows[tree.unsampled_start[m] : tree.unsampled_stop[m]]:
            assert leaf[r] == m
            twins = [s for s in rows if (codes[:, s] == codes[:, r]).all()]
            assert all(leaf[s] == m for s in twins)


def test_the_order_of_the_rows_does_not_change_the_tree():
    rng, X = make(9, n=200)
    g = rng.standard_normal(200).astype(np.float32)
    h = rng.random(200).astype(np.float32)
    order = rng.permutation(200)
    one = grower(X)[0](newton_histogram_input(g, h))
    other = grower(X[order])[0](newton_histogram_input(g[order], h[order]))
    for name in ("feature", "bin", "missing_left", "left", "gain"):
        np.testing.assert_array_equal(one.nodes[name], other.nodes[name])


@pytest.mark.parametrize("limits", [{}, {"max_depth": 4}, {"min_child_weight": 1.0}])
@pytest.mark.parametrize("kind", ["packed", "class weights", "errors", "newton sums"])
@pytest.mark.parametrize("slots", [2, 3, 7])
def test_trees_are_the_same_to_the_last_bit_where_few_histograms_are_kept(
    monkeypatch, slots, kind, limits
):
    rng, X = make(slots, n=400, distinct=30)
    g, h = rng.standard_normal(400).astype(np.float32), rng.random(400).astype(np.float32)
    histogram_input = {
        "packed": lambda: newton_histogram_input(g, h),
        "class weights": lambda: class_weight_histogram_input(
            h, rng.integers(0, 9, 400).astype(np.uint32), 9
        ),
        "errors": lambda: vector_histogram_input(kernels.ERROR, rng.standard_normal((400, 4))),
        "newton sums": lambda: vector_histogram_input(
            kernels.NEWTON_SUMS, np.stack([g, h], axis=1)
        ),
    }[kind]()
    all_kept, _, _ = grower(X, max_leaf_nodes=60, **limits)
    some_kept, _, _ = grower(X, max_leaf_nodes=60, **limits)
    width = sum(len(np.unique(x[~np.isnan(x)])) + 1 for x in X.T) * histogram_input.channels
    rows, unsampled_rows = np.split(rng.permutation(400).astype(np.uint32), [300])
    expected = all_kept(histogram_input, rows=rows, unsampled_rows=unsampled_rows)
    monkeypatch.setattr("streamboost.trees.grower.MOST_SUMS", slots * width)
    tree = some_kept(histogram_input, rows=rows, unsampled_rows=unsampled_rows)
    assert tree.n_leaves > 10
    for field in set(tree.nodes.dtype.names) - {"slot", "members"}:  # members: of categories
        np.testing.assert_array_equal(tree.nodes[field], expected.nodes[field])
    np.testing.assert_array_equal(tree.rows, expected.rows)
    np.testing.assert_array_equal(tree.unsampled_rows, expected.unsampled_rows)
    # What is not kept is counted again.
    assert (some_kept.n_adds > all_kept.n_adds) == (slots < 7 or not limits.get("max_depth"))
