"""SHAP values of handmade forests, against every subset of their features."""

import naive_shap
import numpy as np
import pytest
from slow import seeds

from streamboost.errors import ModelFileError
from streamboost.kernels.traverse import FOREST_NODE
from streamboost.trees.explained import feature_importances, shap_values
from streamboost.trees.forest import Forest


def random_forest(rng, depth, n_features, *, n_trees=3, n_classes=3, chain=False, empty=0.0):
    """Trees of random splits; a chain asks for one feature after the other."""
    nodes, values, cover = [], [], []

    def grow(level):
        if level == depth or (not chain and level and rng.random() < 0.2):
            values.append(rng.normal(size=n_classes))
            cover.append(0.0 if rng.random() < empty else rng.random())
            return ~(len(values) - 1)
        at = len(nodes)
        nodes.append(None)
        feature = level % n_features if chain else rng.integers(n_features)
        short = level + 1 if not chain else depth
        children = [grow(level + 1), grow(short)]
        if rng.random() < 0.5:
            children.reverse()
        nodes[at] = (feature, rng.normal(), *children, rng.random() < 0.5)
        return at

    roots = [grow(0) for _ in range(n_trees)]
    return Forest(
        np.array(nodes, dtype=FOREST_NODE),
        np.array(roots, dtype=np.int32),
        np.array(values, dtype=np.float32),
        np.arange(n_trees + 1, dtype=np.int32),
        set_of=np.full(len(nodes), -1, dtype=np.int32),
        gain=rng.random(len(nodes)).astype(np.float32),
        cover=np.array(cover, dtype=np.float32),
    )


def random_rows(rng, n, n_features):
    X = rng.normal(size=(n, n_features)).astype(np.float32)
    X[rng.random(X.shape) < 0.2] = np.nan
    return X


def same_as_naive(forest, X):
    np.testing.assert_allclose(
        shap_values(forest, X), naive_shap.contributions(forest, forest.cover, X), atol=1e-12
    )


@pytest.mark.parametrize("seed", seeds(5))
@pytest.mark.parametrize("n_classes", [1, 2, 3, 4, 5, 17])
def test_contributions_are_those_of_all_subsets(seed, n_classes):
    rng = np.random.default_rng(seed)
    # Of three features, most ways ask one of them twice.
    for n_features in (1, 3, 6):
        forest = random_forest(rng, 4, n_features, n_classes=n_classes)
        same_as_naive(forest, random_rows(rng, 3, n_features))


@pytest.mark.parametrize("n_features", [8, 9, 11])
@pytest.mark.quick_once
def test_ways_of_many_features_are_exact_too(n_features):
    rng = np.random.default_rng(n_features)
    same_as_naive(
        random_forest(rng, n_features, n_features, chain=True, n_trees=1),
        random_rows(rng, 2, n_features),
    )


@pytest.mark.parametrize("seed", seeds(4))
def test_leaves_that_no_row_met_are_exact_too(seed):
    rng = np.random.default_rng(seed)
    forest = random_forest(rng, 4, 4, n_trees=2, empty=0.4)
    same_as_naive(forest, random_rows(rng, 4, 4))


def test_a_way_of_a_hundred_features_still_sums_to_the_score():
    rng = np.random.default_rng(0)
    forest = random_forest(rng, 150, 100, chain=True)
    X = random_rows(rng, 50, 100)
    X[:5] = np.where(X[:5] > 0, 9.0, -9.0)
    scores = np.zeros((50, 3))
    forest.add_scores(X, scores)
    np.testing.assert_allclose(shap_values(forest, X).sum(axis=2), scores, atol=1e-10)


def test_trees_of_one_leaf_only_add_to_what_is_expected():
    forest = random_forest(np.random.default_rng(1), 0, 2, n_trees=2)
    found = shap_values(forest, np.zeros((3, 2), dtype=np.float32))
    np.testing.assert_array_equal(found[:, :, :2], 0.0)
    np.testing.assert_allclose(found[:, :, 2], np.tile(forest.values.sum(axis=0), (3, 1)))
    np.testing.assert_array_equal(feature_importances(forest, 2), [0.0, 0.0])


def test_the_unit_of_the_covers_does_not_matter():
    rng = np.random.default_rng(2)
    forest = random_forest(rng, 4, 5)
    X = random_rows(rng, 5, 5)
    before = shap_values(forest, X)
    forest.cover[:] *= 1024.0
    np.testing.assert_array_equal(shap_values(forest, X), before)


def test_importances_are_shares_of_the_gain():
    forest = random_forest(np.random.default_rng(3), 4, 3)
    gains = np.zeros(4)
    np.add.at(gains, forest.nodes["feature"], forest.gain.astype(float))
    np.testing.assert_allclose(feature_importances(forest, 4), gains / gains.sum())


@pytest.mark.parametrize("name", ["gain", "cover"])
def test_what_explains_is_checked_as_all_else_is(name):
    arrays = random_forest(np.random.default_rng(4), 3, 2).to_arrays()
    Forest.from_arrays(arrays).validate(2)
    with pytest.raises(ModelFileError, match="differ in number"):
        Forest.from_arrays(arrays | {name: arrays[name][1:]}).validate(2)
    with pytest.raises(ModelFileError, match="negative"):
        Forest.from_arrays(arrays | {name: arrays[name] - 2}).validate(2)
