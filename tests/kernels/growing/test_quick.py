"""Pruned trees equal unpruned trees bit for bit: the lemma behind it, and the additions saved."""

from itertools import pairwise

import naive_quick
import numpy as np
import pytest

from streamboost.errors import ConfigurationError
from streamboost.kernels.growing import criteria as kernels
from streamboost.trees.bins import Bins
from streamboost.trees.grower import Grower, _max_score_of_each_row, _sort_rows_by_rounded_weight
from streamboost.trees.histogram_input import (
    class_weight_histogram_input,
    gradient_histogram_input,
    vector_histogram_input,
)

CRITERIA = ["gini", "entropy", "error", "cost", "sign", "newton", "wide newton", "vector newton"]
KINDS = {"gini": kernels.GINI, "entropy": kernels.ENTROPY, "error": kernels.ERROR}


def make(seed):
    """Rows of many sorts: ties, missing values, few or many, even or very uneven weights."""
    rng = np.random.default_rng(seed)
    n, d, n_classes = (int(rng.integers(*limits)) for limits in ((2, 400), (1, 12), (1, 5)))
    X = rng.integers(0, rng.integers(2, 9), (n, d)).astype(np.float32)
    X[rng.random((n, d)) < rng.choice([0.0, 0.2])] = np.nan
    y = ((np.nan_to_num(X[:, 0]) + rng.integers(0, 2, n)) % n_classes).astype(np.uint32)
    sorts = [rng.random(n), np.ones(n), np.exp(3 * rng.standard_normal(n)), rng.random(n) > 0.5]
    return rng, X, y, sorts[seed % 4].astype(float), n_classes


def gains_of(criterion, weight, y, n_classes):
    """What each answer gains row by row: the class weights, or those of costs or of signs.

    AdaBoost-Cost earns all costs of a row by naming its class and pays one by naming another;
    CD-MCBoost's trees say ±1.
    """
    rng = np.random.default_rng(len(y))
    if criterion == "sign":
        pull = weight * rng.choice([-1, 1], len(y))
        return np.stack([pull, -pull], axis=1)
    if criterion == "cost":
        gains = -weight[:, None] * rng.random((len(y), n_classes))
        gains[np.arange(len(y)), y] = 0
        gains[np.arange(len(y)), y] = -gains.sum(axis=1)
        return gains
    return weight[:, None] * np.eye(n_classes)[y]


def newton_of(weight, y, n_classes):
    """Gradients and Hessians of the log loss, of odd numbers of rows some settled, some far off."""
    rng = np.random.default_rng(len(y))
    p = rng.dirichlet(np.full(n_classes, 0.3 if len(y) % 2 else 30.0), len(y))
    p = p * (1 - 1e-6) + 1e-6 / n_classes
    gradient = np.eye(n_classes)[y] - p
    return gradient * weight[:, None], (p * (1 - p) + 1e-6) * weight[:, None]


def histogram_input_of(criterion, weight, y, n_classes):
    if criterion.endswith("newton"):
        gradient, hessian = newton_of(weight, y, n_classes)
        if criterion == "newton":
            g, h = gradient[:, 0], hessian[:, 0]
            return gradient_histogram_input(g, h, np.ones(len(y)), np.abs(g).sum(), h.sum())
        classes = slice(None) if criterion == "vector newton" else slice(1)
        both = np.hstack([gradient[:, classes], hessian[:, classes]])
        return vector_histogram_input(kernels.NEWTON_SUMS, both)
    if criterion in KINDS:
        return class_weight_histogram_input(weight, y, n_classes, KINDS[criterion])
    return vector_histogram_input(kernels.ERROR, gains_of(criterion, weight, y, n_classes))


def rows_of(criterion, histogram_input, y, n_classes):
    """What each row adds, as `naive_quick` takes it."""
    if criterion in KINDS:
        return naive_quick.class_weights(histogram_input.values, y, n_classes)
    values = histogram_input.values.reshape(len(y), -1)
    if criterion == "newton":
        values = np.hstack([values >> 32, values & 0xFFFFFFFF])
    return values.tolist()


def growers(X, **limits):
    bins = Bins.fit(X, np.ones(len(X)), 64)
    settings = {"max_leaf_nodes": 6, "max_depth": None, "min_child_weight": 0.0}
    settings |= {"l2_regularization": 0.0} | limits
    codes = bins.transform(X)
    return [Grower(bins, codes, pruning=pruning, **settings) for pruning in (None, "quick")]


def assert_same(one, other):
    for name in ("gain", "feature", "bin", "left", "depth", "missing_left", "start", "stop"):
        np.testing.assert_array_equal(one.nodes[name], other.nodes[name])
    np.testing.assert_array_equal(one.rows, other.rows)
    np.testing.assert_array_equal(one.unsampled_rows, other.unsampled_rows)


@pytest.mark.parametrize("criterion", CRITERIA)
@pytest.mark.parametrize(
    "limits", [{}, {"max_depth": 2}, {"min_child_weight": 3.0}, {"l2_regularization": 0.5}]
)
def test_pruned_trees_are_the_unpruned_ones(criterion, limits):
    for seed in range(80):
        rng, X, y, weight, n_classes = make(seed)
        chosen = rng.random(len(X)) < 0.7
        trees = []
        for grow in growers(X, **limits):
            if seed % 3 == 0:
                grow.set_sample(grow.splittable, grow.all_rows[chosen], grow.all_rows[~chosen])
            trees.append(grow(histogram_input_of(criterion, weight, y, n_classes)))
        assert_same(*trees)


@pytest.mark.parametrize("criterion", CRITERIA)
def test_equal_features_leave_the_win_to_the_first(criterion):
    rng = np.random.default_rng(0)
    X = np.repeat(rng.standard_normal((300, 4)), 3, axis=1).astype(np.float32)[:, ::-1]
    y = (X[:, 5] + rng.standard_normal(300) > 0).astype(np.uint32)
    weight = np.exp(2 * rng.standard_normal(300))
    plain, quick = (
        grow(histogram_input_of(criterion, weight, y, 2))
        for grow in growers(np.ascontiguousarray(X))
    )
    assert_same(plain, quick)
    assert (quick.nodes["feature"][quick.nodes["left"] >= 0] % 3 == 0).all()


@pytest.mark.parametrize("criterion", CRITERIA)
def test_additions_are_those_of_the_search_in_plain_python(criterion):
    for seed in range(6):
        rng = np.random.default_rng(seed)
        X = rng.integers(0, 4, (120, 6)).astype(np.float32)
        X[rng.random(X.shape) < 0.1] = np.nan
        y = ((np.nan_to_num(X[:, seed]) > 1) ^ (rng.random(120) < 0.1)).astype(np.uint32)
        histogram_input = histogram_input_of(criterion, np.exp(2 * rng.standard_normal(120)), y, 2)
        bins = Bins.fit(X, np.ones(120), 64)
        plain, quick = growers(X, max_leaf_nodes=2)
        assert_same(plain(histogram_input), quick(histogram_input))
        gains = rows_of(criterion, histogram_input, y, 2)
        heavy = _sort_rows_by_rounded_weight(
            quick.all_rows, _max_score_of_each_row(histogram_input, quick.all_rows)
        )
        width = int((bins.n_bins + bins.missing).sum()) * histogram_input.channels
        adds, finished = naive_quick.quick_adds(
            heavy.tolist(), bins.transform(X), bins.n_bins, gains, criterion, width // (2 * 6)
        )
        assert quick.n_adds == adds < plain.n_adds == 120 * 6
        assert len(finished) < 6


@pytest.mark.parametrize("criterion", CRITERIA)
def test_an_error_never_falls_as_rows_are_added(criterion):
    for seed in range(10):
        rng, X, y, weight, n_classes = make(seed)
        X, y, weight = X[:25], y[:25], (weight[:25] * 1000).astype(int)
        gains = rows_of(
            criterion, histogram_input_of(criterion, weight, y, n_classes), y, n_classes
        )
        bins = Bins.fit(X, np.ones(len(X)), 64)
        order = rng.permutation(len(X)).tolist()
        args = 0, bins.transform(X), bins.n_bins, gains, criterion
        errors = [naive_quick.error(order[:m], *args) for m in range(1, len(X) + 1)]
        exact = criterion in ("gini", "error", "cost", "sign")
        rounding = 0 if exact else 1e-9 * naive_quick.most(gains, order, criterion)
        assert all(later >= error - rounding for error, later in pairwise(errors))


def test_gini_errors_of_the_hand_worked_prefixes():
    x, y = np.array([[0, 1, 0, 1, 1, 0]]), [0, 1, 0, 1, 0, 1]
    gains = naive_quick.class_weights([8, 6, 4, 2, 1, 1], y, 2)  # in halves
    errors = [
        float(naive_quick.error(list(range(m)), 0, x, [2], gains, "gini")) / 2 for m in (2, 4, 5, 6)
    ]
    np.testing.assert_allclose(errors, [0, 0, 0.888889, 1.811966], atol=1e-6)


def test_entropies_of_the_hand_worked_prefixes():
    x, y = np.array([[0, 1, 0, 1, 1, 0]]), [0, 1, 0, 1, 0, 1]
    gains = naive_quick.class_weights([8, 6, 4, 2, 1, 1], y, 2)  # in halves
    errors = [naive_quick.error(list(range(m)), 0, x, [2], gains, "entropy") for m in (2, 4, 5, 6)]
    right = 8 * np.log(9 / 8) + np.log(9)
    left = 12 * np.log(13 / 12) + np.log(13)
    np.testing.assert_allclose(errors, [0, 0, right, right + left], atol=1e-9)


def test_limits_on_children_would_break_the_lemma_on_prefixes():
    # Two rows of each class. With at least two rows in each child, the first two rows cannot be
    # split: their error is larger than the error of all four.
    x, gains = np.array([[0, 1, 0, 1]]), naive_quick.class_weights([1, 1, 1, 1], [0, 1, 0, 1], 2)
    args = 0, x, [2], gains, "gini"
    assert 2 - max(naive_quick.worths([0, 1], *args, 2)) == 1
    assert 4 - max(naive_quick.worths([0, 1, 2, 3], *args, 2)) == 0
    assert naive_quick.error([0, 1], *args) == 0


def test_heavy_rows_come_first_within_an_eighth():
    rng = np.random.default_rng(0)
    weight = (2.0**30 * rng.random(1000) ** 4).astype(np.int64)
    rows = np.sort(rng.permutation(1000)[:700]).astype(np.uint32)
    heavy = _sort_rows_by_rounded_weight(rows, weight)
    np.testing.assert_array_equal(np.sort(heavy), rows)
    largest_behind = np.maximum.accumulate(weight[heavy][::-1])[::-1]
    assert (weight[heavy] * 1.126 >= largest_behind).all()


@pytest.mark.parametrize("criterion", ["newton", "wide newton"])
def test_a_row_without_hessian_may_be_worth_anything_and_none_is_left_out(criterion):
    X = np.random.default_rng(0).integers(0, 4, (200, 8)).astype(np.float32)
    gradient, hessian = np.where(X[:, 5] > 1, 1.0, -1.0), np.ones(200)
    hessian[::9] = 0.0
    plain, quick = growers(X, max_leaf_nodes=2)
    if criterion == "newton":
        histogram_input = gradient_histogram_input(
            gradient, hessian, np.ones(200), 200.0, hessian.sum()
        )
    else:
        both = np.stack([gradient, hessian], axis=1)
        histogram_input = vector_histogram_input(kernels.NEWTON_SUMS, both)
    assert_same(plain(histogram_input), quick(histogram_input))
    assert quick.n_adds == plain.n_adds == 200 * 8


def test_other_criteria_are_refused():
    _, quick = growers(np.arange(10, dtype=np.float32)[:, None])
    with pytest.raises(ConfigurationError, match="leave it out"):
        quick(vector_histogram_input(kernels.MH, np.ones((10, 4))))
