"""A tree grown node by node equals the tree grown at once, if all nodes have the same input."""

from dataclasses import replace

import naive
import naive_logit
import numpy as np
import pytest

from streamboost.kernels import softmax as kernels
from streamboost.trees.bins import Bins
from streamboost.trees.by_node import grow_with_node_histogram_inputs
from streamboost.trees.grower import Grower
from streamboost.trees.histogram_input import class_pair_histogram_input, gradient_histogram_input


def grower(seed, n=120, **limits):
    rng = np.random.default_rng(seed)
    X = rng.integers(0, 9, (n, 4)).astype(np.float32)
    X[rng.random((n, 4)) < 0.1] = np.nan
    bins = Bins.fit(X, np.ones(n), 64)
    codes = bins.transform(X)
    settings = {"max_leaf_nodes": 8, "max_depth": None, "min_child_weight": 0.0}
    settings |= {"l2_regularization": 0.0} | limits
    return rng, Grower(bins, codes, **settings), bins, codes


def newton(rng, n=120):
    g, h = rng.standard_normal(n).astype(np.float32), rng.random(n).astype(np.float32)
    return gradient_histogram_input(
        g, h, np.ones(n, np.float32), float(abs(g).sum()), float(h.sum())
    )


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize(
    "limits",
    [{}, {"max_depth": 2}, {"max_depth": 1}, {"min_child_weight": 5.0}, {"max_leaf_nodes": 2}],
)
@pytest.mark.parametrize("sampled", [False, True])
def test_with_one_histogram_input_for_all_nodes_it_is_the_grown_tree(seed, limits, sampled):
    rng, grow, *_ = grower(seed, **limits)
    if sampled:
        grow.set_sample(
            grow.splittable[1:], np.arange(0, 120, 2, np.uint32), np.arange(1, 120, 2, np.uint32)
        )
    histogram_input = newton(rng)
    expected, tree = (
        grow(histogram_input),
        grow_with_node_histogram_inputs(grow, lambda rows: histogram_input),
    )
    for name in ("left", "depth", "start", "stop", "unsampled_start", "unsampled_stop"):
        np.testing.assert_array_equal(tree.nodes[name], expected.nodes[name])
    for name in ("feature", "bin", "missing_left"):
        np.testing.assert_array_equal(
            tree.nodes[name][~tree.leaves], expected.nodes[name][~expected.leaves]
        )
    np.testing.assert_array_equal(tree.rows, expected.rows)
    np.testing.assert_array_equal(tree.unsampled_rows, expected.unsampled_rows)
    np.testing.assert_array_equal(tree.features, expected.features)


def test_gains_are_compared_in_the_users_units():
    rng, grow, *_ = grower(7)
    histogram_input = newton(rng)
    asked = []

    def choose(rows):
        asked.append(len(rows))
        # The larger a node, the less its gain is worth: small leaves are split first.
        return replace(histogram_input, gain_scale=1.0 / len(rows) ** 6)

    tree = grow_with_node_histogram_inputs(grow, choose)
    assert asked[0] == 120
    assert tree.nodes["depth"].max() > grow(histogram_input).nodes["depth"].max()


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("wide", [False, True])
def test_a_tree_of_pairs_is_the_naive_one(seed, wide, monkeypatch):
    if wide:
        monkeypatch.setattr("streamboost.trees.histogram_input.WIDE_ROWS", 10)
    rng, grow, bins, codes = grower(seed, min_child_weight=0.5, l2_regularization=0.2)
    y = rng.integers(0, 5, 120).astype(np.uint32)
    F = rng.standard_normal((120, 5)).astype(np.float32)
    P = np.empty_like(F)
    kernels.softmax(F, P)
    w = rng.integers(1, 3, 120).astype(np.float32)
    buffer = np.empty(240, np.int64)
    tree = grow_with_node_histogram_inputs(
        grow, lambda rows: class_pair_histogram_input(P, y, w, rows, buffer)
    )

    def choose(rows):
        g, h = naive_logit.pair_derivatives(
            P.astype(float), y, *naive_logit.pair(P.astype(float), y, w, rows)
        )
        return w * g, w * h

    expected = naive_logit.grow_with_node_histogram_inputs(codes, bins.n_bins, choose, 0.2, 8, 0.5)
    leaves = {
        frozenset(tree.rows[a:b].tolist()) for a, b in zip(tree.start, tree.stop, strict=True)
    }
    assert leaves == naive.leaves_of(expected)


def test_nothing_to_split_leaves_one_leaf():
    _, grow, *_ = grower(0)
    zeros = np.zeros(120, np.float32)
    histogram_input = gradient_histogram_input(zeros, zeros, zeros + 1, 0.0, 0.0)
    tree = grow_with_node_histogram_inputs(grow, lambda rows: histogram_input)
    assert tree.n_leaves == 1
    np.testing.assert_array_equal(tree.rows, np.arange(120))
