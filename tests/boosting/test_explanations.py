"""Feature contributions (SHAP values) and importances of committees and estimators."""

from dataclasses import replace

import families
import naive_shap
import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_wine
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import Ridge
from sklearn.tree import DecisionTreeClassifier
from slow import slow

from streamboost import (
    ABCLogitBoostClassifier,
    AdaBoostMHClassifier,
    AOSOLogitBoostClassifier,
    Committee,
    GambleClassifier,
    KLogitBoostClassifier,
    LogitBoostClassifier,
    OneVsAllAdaBoostClassifier,
    RebelClassifier,
    SammeClassifier,
    SketchLogitBoostClassifier,
)
from streamboost.errors import DataError

SMALL = [
    SketchLogitBoostClassifier(max_depth=4, max_leaf_nodes=12),
    *slow(
        AOSOLogitBoostClassifier(max_leaf_nodes=6, max_depth=4),
        AdaBoostMHClassifier(max_leaf_nodes=6, max_depth=4),
        GambleClassifier(max_leaf_nodes=8, max_depth=4),
        KLogitBoostClassifier(max_leaf_nodes=6, max_depth=4),
    ),
    LogitBoostClassifier(max_leaf_nodes=5, max_depth=4),
    RebelClassifier(max_depth=3),
    SammeClassifier(max_leaf_nodes=8, max_depth=4),
]


def mixed_rows(n, seed=0):
    """Two columns of categories and three of numbers, some missing, and three classes."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 5))
    X[:, :2] = rng.integers(0, [12, 4], size=(n, 2))
    y = (X[:, 0] % 3 + (X[:, 2] > 0.3) + (X[:, 1] == 2)).astype(int) % 3
    X[rng.random(X.shape) < 0.15] = np.nan
    return X.astype(np.float32), y, rng.choice([0.5, 1.0, 3.0], n)


@pytest.mark.parametrize("estimator", SMALL, ids=str)
@pytest.mark.parametrize("weighted", [True, False])
def test_contributions_are_those_of_all_subsets_by_the_weight_of_the_rows(estimator, weighted):
    X, y, weight = mixed_rows(150)
    model = clone(estimator).set_params(
        n_estimators=3, subsample=0.7, categorical_features=[0, 1], random_state=0
    )
    committee = model.fit(X, y, weight if weighted else None).committee_
    forest = committee.learners
    assert forest.sets.size
    met = naive_shap.leaves_met(forest, X, weight if weighted else np.ones(len(y)))
    asked = np.vstack([X[:3], [[99, -1, np.nan, 0, np.inf]]]).astype(np.float32)
    expected = naive_shap.contributions(forest, met, asked)
    expected[:, :, -1] += committee.base
    # Covers are float32.
    np.testing.assert_allclose(committee.contributions(asked), expected, atol=1e-6)


@pytest.mark.parametrize("model", families.others_slow(families.TREES), ids=str)
def test_contributions_sum_to_the_scores(model):
    X, y = load_breast_cancer(return_X_y=True)
    X[::7, 3] = np.nan
    model = clone(model).set_params(n_estimators=10, random_state=0).fit(X, y)
    committee = model.extend(X[::2], y[::2], n_estimators=3).committee_
    owed = committee.contributions(X)
    assert (owed.dtype, owed.shape) == (np.float64, (len(X), 2, 31))
    np.testing.assert_allclose(owed.sum(axis=2), committee.class_scores(X), atol=1e-9)
    unused = np.setdiff1d(np.arange(30), committee.learners.nodes["feature"])
    np.testing.assert_array_equal(owed[:, :, unused], 0.0)
    np.testing.assert_array_equal(committee.contributions(X[5:6])[0], owed[5])


def test_contributions_outlive_a_file_and_new_classes(tmp_path):
    X, y = load_wine(return_X_y=True)
    model = SketchLogitBoostClassifier(n_estimators=10, random_state=0)
    model.fit(X[y < 2], y[y < 2]).extend(X, y, n_estimators=10)
    model.committee_.save(tmp_path / "model")
    committee = Committee.load(tmp_path / "model")
    owed = committee.contributions(X)
    assert owed.shape == (len(X), 3, 14)
    np.testing.assert_allclose(owed.sum(axis=2), committee.class_scores(X), atol=1e-9)
    np.testing.assert_array_equal(owed, model.committee_.contributions(X))


def test_contributions_read_frames():
    X, y, _ = mixed_rows(200)
    frame = pd.DataFrame(X, columns=list("abcde"))
    frame["a"] = frame["a"].map("v{}".format, na_action="ignore").astype("category")
    committee = SketchLogitBoostClassifier(n_estimators=10, random_state=0).fit(frame, y).committee_
    owed = committee.contributions(frame.iloc[:9])
    np.testing.assert_allclose(owed.sum(axis=2), committee.class_scores(frame.iloc[:9]), atol=1e-9)
    assert np.abs(owed[:, :, 0]).max() > 0.1


def test_contributions_want_the_columns_of_the_training():
    X, y = load_wine(return_X_y=True)
    committee = SketchLogitBoostClassifier(n_estimators=3).fit(X, y).committee_
    with pytest.raises(DataError, match="scores 13 features"):
        committee.contributions(X[:, :5])


@pytest.mark.parametrize("model", families.others_slow(families.TREES), ids=str)
def test_importances_find_what_the_classes_hang_on(model):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 6))
    y = (X[:, 4] > 0).astype(int)
    model = clone(model).set_params(n_estimators=5, random_state=0)
    with pytest.raises(NotFittedError):
        model.feature_importances_  # noqa: B018
    shares = model.fit(X, y).feature_importances_
    assert shares.shape == (6,)
    assert (shares >= 0).all()
    assert shares.sum() == pytest.approx(1)
    assert shares[4] > 0.5


@pytest.mark.parametrize("times", [4.0, 1e6])
def test_importances_do_not_depend_on_the_unit_of_weights(times):
    """Small weights use histograms with packed sums, large weights one with separate sums."""
    X, y = load_wine(return_X_y=True)
    model = SketchLogitBoostClassifier(
        n_estimators=20, min_child_weight=0.0, l2_regularization=0.0, random_state=0
    )
    shares = model.fit(X, y).feature_importances_
    again = model.fit(X, y, np.full(len(y), times)).feature_importances_
    np.testing.assert_allclose(again, shares, atol=0.02)


def test_importances_of_one_gini_tree_are_scikit_learns():
    X, y = load_wine(return_X_y=True)
    X = np.floor(X * 20 / X.max(axis=0))  # every value has a bin of its own
    weight = np.random.default_rng(0).choice([1.0, 2.0, 5.0], len(y))
    ours = SammeClassifier(n_estimators=1, max_leaf_nodes=6, max_bins=64).fit(X, y, weight)
    theirs = DecisionTreeClassifier(max_leaf_nodes=6, random_state=0).fit(X, y, weight)
    np.testing.assert_allclose(
        np.sort(ours.feature_importances_), np.sort(theirs.feature_importances_), atol=1e-6
    )


@pytest.mark.parametrize("weight", [1.0, 1000.0])
def test_a_newton_tree_gains_what_its_leaves_lower_of_the_loss(weight):
    """Small weights use histograms with packed sums, large weights one with separate sums."""
    X, y = load_breast_cancer(return_X_y=True)
    model = LogitBoostClassifier(n_estimators=1, max_leaf_nodes=7, l2_regularization=0.0)
    forest = model.fit(X, y, np.full(len(y), weight)).committee_.learners
    # The first of the round's two trees is that of class 0.
    first = replace(forest, roots=forest.roots[:1], rounds=np.array([0, 1], dtype=np.int32))
    met = [naive_shap.leaves_met(first, X[y == k], np.ones((y == k).sum())) for k in (0, 1)]
    records = np.sum(met, axis=0)[:7]
    p = (y == 0).mean()
    G, H = met[0][:7] - p * records, p * (1 - p) * records
    gained = (G**2 / H).sum() - G.sum() ** 2 / H.sum()
    assert forest.gain[:6].sum() * len(y) == pytest.approx(gained, rel=1e-3)


def test_importances_are_zero_where_nothing_splits():
    X, y = np.zeros((20, 3)), np.arange(20) % 2
    model = SketchLogitBoostClassifier(n_estimators=3).fit(X, y)
    np.testing.assert_array_equal(model.feature_importances_, np.zeros(3))


@pytest.mark.parametrize(
    "model",
    [
        GambleClassifier(weak_learner=Ridge()),
        RebelClassifier(weak_learner="localized_similarity"),
    ],
    ids=str,
)
def test_learners_that_are_no_trees_have_no_importances(model):
    X, y = load_wine(return_X_y=True)
    with pytest.raises(AttributeError):
        model.feature_importances_  # noqa: B018
    model = clone(model).set_params(n_estimators=2).fit(X, y)
    assert not hasattr(model, "feature_importances_")
    if isinstance(model, RebelClassifier):
        with pytest.raises(DataError, match="made of similarities"):
            model.committee_.contributions(X)


def test_a_one_against_all_tree_owes_its_own_class_alone():
    X, y = load_wine(return_X_y=True)
    committee = OneVsAllAdaBoostClassifier(n_estimators=1).fit(X, y).committee_
    owed = committee.contributions(X)
    of_tree = [set(np.flatnonzero(np.abs(owed[:, k, :-1]).max(axis=0))) for k in range(3)]
    assert all(of_tree)
    assert set.union(*map(set, of_tree)) == set(committee.learners.nodes["feature"].tolist())


def test_reading_importances_leaves_an_estimator_as_it_is():
    X, y = load_wine(return_X_y=True)
    model = ABCLogitBoostClassifier(n_estimators=2, random_state=0).fit(X, y)
    before = set(vars(model))
    assert model.feature_importances_.sum() == pytest.approx(1)
    assert set(vars(model)) == before
