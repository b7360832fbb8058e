"""Trees grown a layer at a time."""

import numpy as np
import pytest

from streamboost.kernels.growing.criteria import ERROR
from streamboost.trees.bins import Bins
from streamboost.trees.forest import Forest
from streamboost.trees.grower import Grower
from streamboost.trees.histogram_input import vector_histogram_input
from streamboost.trees.layers import add_layer


def make(seed, n=300, categorical=()):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 4)).astype(np.float32)
    chosen = np.isin(np.arange(4), categorical)
    X[:, chosen] = rng.integers(0, 20, (n, len(categorical)))
    X[rng.random((n, 4)) < 0.1] = np.nan
    pull = rng.standard_normal(n) + np.nan_to_num(X[:, 0] * X[:, 1])
    bins = Bins.fit(X, np.ones(n), 64, chosen)
    grow = Grower(
        bins,
        bins.transform(X),
        max_leaf_nodes=2,
        max_depth=None,
        min_child_weight=0.0,
        l2_regularization=0.0,
    )
    return rng, X, pull, bins, grow


def layered(grow, pull, n_layers):
    histogram_input = vector_histogram_input(ERROR, np.stack([pull, -pull], axis=1))
    tree = grow(histogram_input)
    for _ in range(1, n_layers):
        tree = add_layer(grow, tree, histogram_input)
    return tree


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("n_layers", [1, 2, 5])
@pytest.mark.parametrize("categorical", [(), (1, 2)])
def test_rows_end_where_the_packed_tree_sends_them(seed, n_layers, categorical):
    rng, X, pull, bins, grow = make(seed, categorical=categorical)
    sampled = rng.random(len(X)) < 0.5
    grow.set_sample(grow.splittable[1:], grow.all_rows[sampled], grow.all_rows[~sampled])
    tree = layered(grow, pull, n_layers)
    assert 2 <= tree.n_leaves <= 2**n_layers
    assert sorted([*tree.rows, *tree.unsampled_rows]) == list(range(len(X)))
    tree.values = np.arange(tree.n_leaves, dtype=np.float32)[:, None]
    builder = Forest.empty(1).builder(bins)
    builder.append_round([tree])
    forest = builder.build()
    forest.validate(4)
    scores = np.zeros((len(X), 1))
    forest.add_scores(X, scores)
    np.testing.assert_array_equal(scores[:, 0], tree.leaf_indices(len(X)))


def test_each_layer_raises_the_criterion():
    _, _, pull, _, grow = make(9)
    worth = [np.abs(layered(grow, pull, n).leaf_sums(pull)).sum() for n in range(1, 6)]
    assert (np.diff(worth) > 0).all()


def test_gains_of_layers_are_in_one_unit():
    _, _, pull, _, grow = make(9)

    def of(pull, unit):
        return vector_histogram_input(ERROR, np.stack([pull, -pull], axis=1), unit=unit)

    first = grow(of(1000 * pull, 1000.0), max_leaf_nodes=2)
    second = add_layer(grow, first, of(pull, 1.0))
    worth = [abs(pull.sum()), *(np.abs(tree.leaf_sums(pull)).sum() for tree in (first, second))]
    gains = second.nodes["gain"][~second.leaves] * second.gain_scale
    np.testing.assert_allclose([gains[0], gains[1:].sum()], np.diff(worth))


def test_a_leaf_sums_over_its_sampled_rows():
    _, X, pull, _, grow = make(3)
    tree = layered(grow, pull, 3)
    leaf = tree.leaf_indices(len(X))
    for values in (pull, np.stack([pull, pull**2], axis=1)):
        expected = [values[leaf == m].sum(axis=0) for m in range(tree.n_leaves)]
        np.testing.assert_allclose(tree.leaf_sums(values), expected)


def test_a_tree_that_cannot_be_split_stays():
    _, X, _, _, grow = make(0)
    tree = layered(grow, np.zeros(len(X)), 4)
    assert tree.n_leaves == 1
    np.testing.assert_array_equal(tree.rows, np.arange(len(X)))
