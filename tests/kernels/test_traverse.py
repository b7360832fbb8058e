import naive
import naive_categories
import numpy as np
import pytest

from streamboost import SketchLogitBoostClassifier


@pytest.fixture(scope="module")
def fitted():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((400, 6)).astype(np.float32)
    X[rng.random(X.shape) < 0.1] = np.nan
    y = (np.nan_to_num(X[:, 0]) > 0) + 2 * (np.nan_to_num(X[:, 1]) > 0.5) * 1
    return SketchLogitBoostClassifier(n_estimators=15, random_state=0).fit(X, y), X


def test_scores_are_those_of_walking_each_tree(fitted):
    model, X = fitted
    np.testing.assert_allclose(
        model.committee_.class_scores(X[:100]),
        naive.forest_scores(model.committee_, X[:100]),
        atol=1e-12,
    )


def test_scores_do_not_depend_on_the_batch_or_the_threads(fitted):
    model, X = fitted
    whole = model.decision_function(X)
    for size in (1, 7, 63, 64, 65):
        parts = [model.decision_function(X[i : i + size]) for i in range(0, len(X), size)]
        np.testing.assert_array_equal(np.concatenate(parts), whole)
    for n_jobs in (2, 3, -1):
        np.testing.assert_array_equal(model.set_params(n_jobs=n_jobs).decision_function(X), whole)


@pytest.mark.parametrize("n_categories", [0, 12])
def test_scores_and_leaves_are_those_of_each_row_alone_also_of_wider_rows(n_categories):
    rng = np.random.default_rng(1)
    X = rng.standard_normal((300, 4)).astype(np.float32)
    X[rng.random(X.shape) < 0.1] = np.nan
    categories = [3] if n_categories else None
    X[:, 3] = rng.integers(0, 12, 300)
    y = (np.nan_to_num(X[:, 0]) > 0) + 2 * (X[:, 3] % 3 == 1)
    model = SketchLogitBoostClassifier(n_estimators=15, categorical_features=categories)
    committee = model.set_params(random_state=0).fit(X, y).committee_
    forest, wide = committee.learners, np.hstack([X, X])
    alone = [forest.scores_and_leaves(committee.base, row[None], 9) for row in X]
    for n in (1, 20, 48, 49, 300):
        scores, leaves = forest.scores_and_leaves(committee.base, wide[:n], 9)
        np.testing.assert_array_equal(scores, committee.class_scores(X[:n]))
        np.testing.assert_array_equal(scores, np.concatenate([one for one, _ in alone[:n]]))
        np.testing.assert_array_equal(leaves, np.concatenate([one for _, one in alone[:n]]))
        np.testing.assert_array_equal(leaves, forest.leaf_indices(X[:n], 9))
    assert leaves.shape == (300, 9)
    assert len(np.unique(leaves)) > 4


def test_a_value_equal_to_the_threshold_goes_left_as_in_training():
    X = np.array([[0.0], [1.0], [2.0]], np.float32)
    model = SketchLogitBoostClassifier(n_estimators=5, min_child_weight=0.0, random_state=0)
    model.fit(X, [0, 0, 1])
    at = model.committee_.learners.nodes["threshold"][:1]
    assert at[0] == 1.5
    np.testing.assert_array_equal(
        model.decision_function(at[:, None]), model.decision_function([[1.0]])
    )


@pytest.mark.parametrize("leaves", [2, 40, 255, 256, 257, 300])
def test_many_rows_get_the_scores_of_rows_that_walk(leaves):
    rng = np.random.default_rng(leaves)
    X = rng.standard_normal((2600, 3)).astype(np.float32)
    X[rng.random(X.shape) < 0.1] = np.nan
    y = rng.integers(0, 3, len(X))
    model = SketchLogitBoostClassifier(
        n_estimators=3, max_bins=255, max_leaf_nodes=leaves, min_child_weight=0.0, random_state=0
    ).fit(X, y)
    committee = model.committee_
    assert len(committee.learners.values) == 3 * leaves
    walked = [committee.class_scores(X[i : i + 100]) for i in range(0, len(X), 100)]
    np.testing.assert_array_equal(committee.class_scores(X), np.concatenate(walked))


@pytest.mark.parametrize("n_classes", [2, 3, 4, 5, 9])
def test_so_do_rows_of_few_values_however_many_the_classes(n_classes):
    rng = np.random.default_rng(n_classes)
    X = rng.integers(0, 3, (2600, 6)).astype(np.float32)
    X[rng.random(X.shape) < 0.1] = np.nan
    y = rng.integers(0, n_classes, len(X))
    model = SketchLogitBoostClassifier(n_estimators=5, random_state=0).fit(X, y)
    committee = model.committee_
    walked = [committee.class_scores(X[i : i + 100]) for i in range(0, len(X), 100)]
    np.testing.assert_array_equal(committee.class_scores(X), np.concatenate(walked))


def places_by_walking(forest, leaf_of, X, n_trees):
    """Return the leaf of each row in each tree, modulo 256."""
    walked = np.array([[leaf_of(forest, r, x) for r in forest.roots[:n_trees]] for x in X])
    return walked % 256


@pytest.mark.parametrize("n_trees", [0, 1, 7, 1000])
def test_the_leaves_of_rows_are_those_that_walking_ends_in(fitted, n_trees):
    model, X = fitted
    forest = model.committee_.learners
    found = model.committee_.learners.leaf_indices(X[:60], n_trees)
    n = min(n_trees, len(forest.roots))
    assert found.shape == (60, n)
    assert found.dtype == np.uint8
    if n:
        np.testing.assert_array_equal(found, places_by_walking(forest, naive.leaf_of, X[:60], n))


def test_so_are_those_where_categories_part_rows():
    rng = np.random.default_rng(7)
    X = rng.integers(0, 9, (300, 3)).astype(np.float32)
    X[rng.random(X.shape) < 0.1] = np.nan
    y = np.isin(X[:, 0], [1, 4, 8]) * 2 + (np.nan_to_num(X[:, 2]) > 4)
    model = SketchLogitBoostClassifier(
        n_estimators=8, categorical_features=[0, 1], random_state=0
    ).fit(X, y)
    forest = model.committee_.learners
    assert len(forest.sets)
    unmet = np.array([[77, 0, 1], [np.nan, np.nan, np.nan], [-1, 3, 2]], dtype=np.float32)
    rows = np.vstack([X[:60], unmet])
    np.testing.assert_array_equal(
        model.committee_.learners.leaf_indices(rows, 8),
        places_by_walking(forest, naive_categories.leaf_of, rows, 8),
    )
