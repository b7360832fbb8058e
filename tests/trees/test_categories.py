"""Bins of categories, and the stable codes of categories across trainings."""

from dataclasses import replace

import naive_categories
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamboost.errors import ModelFileError
from streamboost.trees.bins import Bins
from streamboost.trees.categories import CategoryBins, CategoryCodes
from streamboost.trees.forest import Forest, ForestBuilder
from streamboost.trees.grower import Grower
from streamboost.trees.histogram_input import class_weight_histogram_input


def bins_of(column, weight=None):
    column = np.asarray(column, np.float32)
    return CategoryBins.fit(column, np.ones(len(column)) if weight is None else weight)


def test_each_category_has_a_bin_and_what_is_none_is_missing():
    bins = bins_of([7, 3, 3, np.nan, -1])
    assert bins.n_bins == 2
    np.testing.assert_array_equal(
        bins.transform(np.array([3, 7, 5, -1, np.nan, 1e9], np.float32)), [0, 1, 2, 2, 2, 2]
    )


def test_a_column_of_missing_values_has_one_bin_that_nothing_is_in():
    bins = bins_of([np.nan, -3])
    np.testing.assert_array_equal(bins.transform(np.array([0, np.nan], np.float32)), [1, 1])


def test_beyond_254_the_lightest_share_the_last_bin():
    column = np.repeat(np.arange(400), np.where(np.arange(400) % 2, 3, 1))
    bins = bins_of(column)
    assert bins.n_bins == 255
    codes = bins.transform(np.arange(400, dtype=np.float32))
    assert len(set(codes[1::2])) == 200  # the 200 heavy ones
    own = codes[0::2] < 254
    np.testing.assert_array_equal(own, np.arange(200) < 54)  # of equals the lowest
    assert not (codes == 255).any()
    by_weight = bins_of(np.arange(400), np.where(np.arange(400) < 300, 1.0, 2.0))
    assert (by_weight.transform(np.arange(300, 400, dtype=np.float32)) < 254).all()


def test_codes_are_split_only_where_a_training_tells_them_apart():
    first, readings = CategoryCodes().merge_categories({2: bins_of(np.repeat(np.arange(300), 2))})
    assert first.n_codes == 256  # 254 alone, the others as one, and missing
    assert (readings[2].origin == 0).all()
    same, readings = first.merge_categories({2: bins_of(np.repeat(np.arange(300), 2))})
    np.testing.assert_array_equal(same.codes, first.codes)
    np.testing.assert_array_equal(readings[2].origin, np.arange(256))
    # 299 was rare and now has a bin of its own; 1000 is new.
    after, readings = first.merge_categories({2: bins_of([299, 1000, 5])})
    of = {int(v): int(c) for v, c in zip(after.values, after.codes, strict=True)}
    old = {int(v): int(c) for v, c in zip(first.values, first.codes, strict=True)}
    assert of[299] != of[298] == old[298]
    assert all(of[v] == old[v] for v in range(299))
    assert readings[2].origin[of[299]] == old[299]
    assert readings[2].origin[of[1000]] == 0
    assert readings[2].bins[of[298]] == 3 == readings[2].bins[0]  # not met


def eras(seed, n_eras, n_categories):
    """Trainings whose categories drift: each has its own range and its own rare ones."""
    rng = np.random.default_rng(seed)
    for era in range(n_eras):
        low = era * n_categories // 3
        X = rng.integers(0, n_categories, (600, 3)) + low
        X[:, 0] = np.minimum(X[:, 0], rng.integers(0, n_categories, 600)) + low
        X = X.astype(np.float32)
        X[rng.random(X.shape) < 0.05] = np.nan
        X[:, 2] = rng.standard_normal(600)
        y = ((np.nan_to_num(X[:, 0]) % 3 + np.nan_to_num(X[:, 1]) % 2) % 3).astype(np.uint32)
        yield rng, X, y


@pytest.mark.parametrize("n_categories", [5, 40, 500])
@pytest.mark.parametrize("seed", range(3))
def test_old_trees_answer_as_before_and_new_ones_as_they_were_grown(seed, n_categories):
    forest, categorical = Forest.empty(3), np.array([True, True, False])
    everything = np.concatenate([X for _, X, _ in eras(seed, 4, n_categories)])
    answers = []
    for rng, X, y in eras(seed, 4, n_categories):
        bins = Bins.fit(X, np.ones(len(X)), 64, categorical)
        grow = Grower(
            bins, bins.transform(X), max_leaf_nodes=12, max_depth=None, min_child_weight=0.0,
            l2_regularization=0.0,
        )  # fmt: skip
        chosen = rng.random(len(X)) < 0.5
        grow.set_sample(grow.splittable, grow.all_rows[chosen], grow.all_rows[~chosen])
        tree = grow(class_weight_histogram_input(np.ones(len(X)), y, 3))
        tree.values = rng.random((tree.n_leaves, 3)).astype(np.float32)
        builder = ForestBuilder(forest, bins)
        builder.append_round([tree])
        forest = builder.build()
        forest.validate(3)

        scores = np.zeros((len(X), 3))
        last = len(forest.roots) - 1
        forest.add_scores(X, scores, (last, last + 1))
        np.testing.assert_array_equal(scores, tree.values[tree.leaf_indices(len(X))])
        for x in X[:40]:
            place = naive_categories.leaf_of(forest, forest.roots[last], x)
            single = np.zeros((1, 3))
            forest.add_scores(x[None], single, (last, last + 1))
            np.testing.assert_array_equal(single[0], forest.values[place])

        for t, before in enumerate(answers):
            now = np.zeros((len(everything), 3))
            forest.add_scores(everything, now, (t, t + 1))
            np.testing.assert_array_equal(now, before)
        answer = np.zeros((len(everything), 3))
        forest.add_scores(everything, answer, (last, last + 1))
        answers.append(answer)


@given(st.lists(st.lists(st.integers(0, 9), max_size=6), min_size=1, max_size=5))
@settings(max_examples=100, deadline=None)
def test_codes_stay_distinct_whatever_comes(trainings):
    categories = CategoryCodes()
    known = set()
    for values in trainings:
        before = dict(zip(categories.values, categories.codes, strict=True))
        categories, readings = categories.merge_categories({0: bins_of(values)})
        known |= set(values)
        now = dict(zip(categories.values, categories.codes, strict=True))
        assert set(now) == known
        assert sorted(now.values()) == list(range(1, len(known) + 1))
        assert all(now[v] == code for v, code in before.items())
        assert len(readings[0].origin) == len(known) + 1
        categories.validate(1)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("features", np.array([5], np.int32)),
        ("start", np.array([0, 9], np.int64)),
        ("values", np.array([2, 1], np.float32)),
        ("codes", np.array([0, 1], np.int32)),
    ],
)
def test_a_damaged_table_is_refused(name, value):
    whole, _ = CategoryCodes().merge_categories({1: bins_of([4, 6])})
    whole.validate(2)
    with pytest.raises(ModelFileError, match="damaged"):
        replace(whole, **{name: value}).validate(2)
