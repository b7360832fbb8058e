"""Contract of every boosted estimator."""

import pickle

import families
import numpy as np
import pytest
from sklearn.datasets import load_wine
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import Ridge
from sklearn.tree import DecisionTreeRegressor
from sklearn.utils.estimator_checks import (
    check_class_weight_classifiers,
    parametrize_with_checks,
)

from streamboost import (
    ABCLogitBoostClassifier,
    AdaBoostAClassifier,
    AdaBoostCostClassifier,
    AdaBoostM1Classifier,
    AdaBoostMHClassifier,
    AOSOLogitBoostClassifier,
    GambleClassifier,
    GDMCBoostClassifier,
    GentleAdaBoostClassifier,
    OneVsAllAdaBoostClassifier,
    RebelClassifier,
    SammeClassifier,
    SketchLogitBoostClassifier,
)
from streamboost.boosting.log_loss.parameters import LogLossClassifier
from streamboost.errors import DataError

# The wines are of three classes.
ESTIMATORS = [one for one in families.ESTIMATORS if one is not GentleAdaBoostClassifier]
VARIANTS = [
    GambleClassifier(weak_learner=Ridge()),
    RebelClassifier(weak_learner="localized_similarity"),
    GambleClassifier(pruning="quick"),
    ABCLogitBoostClassifier(base="search"),
    AOSOLogitBoostClassifier(leaf="pair"),
    AOSOLogitBoostClassifier(leaf="dense"),
    GambleClassifier(weak_learner=DecisionTreeRegressor(max_leaf_nodes=15)),
    SammeClassifier(variant="real"),
    OneVsAllAdaBoostClassifier(variant="gentle"),
]


_NOT_BY_DEFAULT = {
    "check_class_weight_classifiers": "a leaf may be as light as a single row, unless something "
    "like min_weight_fraction_leaf, which the check sets where it is called so, forbids it"
}


def expected_failures(estimator):
    """The checks that a family cannot pass by default: its leaves may be of any weight."""
    grows_similarities = getattr(estimator, "weak_learner", None) == "localized_similarity"
    if isinstance(getattr(estimator, "weak_learner", None), Ridge) or grows_similarities:
        return {}
    if isinstance(estimator, LogLossClassifier | AdaBoostMHClassifier):
        return {}
    return _NOT_BY_DEFAULT


# What is checked are conventions, for which two rounds do.
@parametrize_with_checks(
    [one(n_estimators=2) for one in (*families.KINDS, GentleAdaBoostClassifier)],
    expected_failed_checks=expected_failures,
)
@pytest.mark.filterwarnings("default")
def test_scikit_learn_conventions(estimator, check):
    check(estimator)


@parametrize_with_checks(
    [
        *(one(n_estimators=2) for one in ESTIMATORS if one not in families.KINDS),
        *(one.set_params(n_estimators=2) for one in VARIANTS),
    ],
    expected_failed_checks=expected_failures,
)
@pytest.mark.slow
@pytest.mark.filterwarnings("default")
def test_scikit_learn_conventions_of_the_others(estimator, check):
    check(estimator)


@pytest.mark.parametrize(
    "estimator",
    [
        AdaBoostCostClassifier(max_leaf_nodes=2),
        GDMCBoostClassifier(max_leaf_nodes=2),
        RebelClassifier(max_depth=1),
        AdaBoostAClassifier(min_child_weight=0.01),
        AdaBoostM1Classifier(min_child_weight=0.01),
        GambleClassifier(min_child_weight=0.01),
        GambleClassifier(min_child_weight=0.01, pruning="quick"),
        GentleAdaBoostClassifier(min_child_weight=0.01),
        OneVsAllAdaBoostClassifier(min_child_weight=0.01),
        SammeClassifier(min_child_weight=0.01),
        SammeClassifier(min_child_weight=0.01, variant="real"),
        GambleClassifier(
            weak_learner=DecisionTreeRegressor(max_leaf_nodes=15, min_weight_fraction_leaf=0.01)
        ),
    ],
    ids=str,
)
@pytest.mark.quick_once
def test_a_class_is_hardly_predicted_that_weighs_next_to_nothing(estimator):
    check_class_weight_classifiers("", estimator.set_params(n_estimators=2))


@pytest.fixture(scope="module")
def wine():
    return load_wine(return_X_y=True)


@pytest.fixture(params=families.others_slow(ESTIMATORS), ids=lambda e: e.__name__)
def estimator(request):
    return request.param(n_estimators=20, random_state=0)


def test_scores_do_not_depend_on_the_order_of_the_rows(estimator, wine):
    X, y = wine
    X = X + np.random.default_rng(0).normal(scale=1e-3, size=X.shape)  # no two splits tie
    order = np.random.default_rng(1).permutation(len(y))
    one = estimator.fit(X, y).decision_function(X)
    other = estimator.fit(X[order], y[order]).decision_function(X)
    np.testing.assert_allclose(one, other, atol=1e-5)


def test_the_seed_decides(estimator, wine):
    estimator.set_params(subsample=0.5, max_features=0.5)
    one = estimator.fit(*wine).decision_function(wine[0])
    np.testing.assert_array_equal(one, estimator.fit(*wine).decision_function(wine[0]))
    other = estimator.set_params(random_state=1).fit(*wine).decision_function(wine[0])
    assert (one != other).any()


def test_rows_of_weight_zero_are_as_good_as_absent(estimator, wine):
    X, y = wine
    weight = (np.arange(len(y)) % 3 > 0).astype(float)
    kept = weight > 0
    with_zeros = estimator.fit(X, y, sample_weight=weight).decision_function(X)
    without = estimator.fit(X[kept], y[kept]).decision_function(X)
    np.testing.assert_array_equal(with_zeros, without)


def test_weights_that_cannot_be_are_refused(estimator, wine):
    X, y = wine
    with pytest.raises(ValueError, match="sample_weight"):
        estimator.fit(X, y, sample_weight=np.full(len(y), -1.0))
    with pytest.raises(ValueError, match="non-zero"):
        estimator.fit(X, y, sample_weight=np.zeros(len(y)))


def test_stages_end_at_the_whole_committee(estimator, wine):
    X, y = wine
    estimator.fit(X, y)
    *_, scores = estimator.staged_decision_function(X)
    *_, labels = estimator.staged_predict(X)
    np.testing.assert_array_equal(scores, estimator.decision_function(X))
    np.testing.assert_array_equal(labels, estimator.predict(X))
    assert len(list(estimator.staged_predict(X))) == estimator.committee_.n_rounds
    if hasattr(estimator, "predict_proba"):
        *_, shares = estimator.staged_predict_proba(X)
        np.testing.assert_array_equal(shares, estimator.predict_proba(X))


def test_pickles_score_the_same(estimator, wine):
    X, y = wine
    estimator.fit(X, y)
    again = pickle.loads(pickle.dumps(estimator))
    np.testing.assert_array_equal(again.decision_function(X), estimator.decision_function(X))


def test_extending_before_fitting_is_refused(estimator, wine):
    with pytest.raises(NotFittedError):
        estimator.extend(*wine)


@pytest.mark.parametrize(
    ("name", "value"),
    [("learning_rate", 0.0), ("max_bins", 256), ("subsample", 0.0), ("max_leaf_nodes", 1)],
)
def test_impossible_parameters_are_refused_by_name(estimator, wine, name, value):
    with pytest.raises(ValueError, match=name):
        estimator.set_params(**{name: value}).fit(*wine)


def test_parameters_can_be_checked_without_rows(estimator):
    estimator.check_parameters()
    with pytest.raises(ValueError, match="n_estimators of"):
        estimator.set_params(n_estimators=0).check_parameters()


def test_string_labels_come_back(estimator, wine):
    X, y = wine
    names = np.array(["Barolo", "Grignolino", "Barbera"])[y]
    estimator.fit(X, names)
    assert set(estimator.predict(X)) == set(names)
    assert estimator.score(X, names) > 0.95


def test_labels_of_another_kind_may_not_extend(estimator, wine):
    X, y = wine
    estimator.fit(X, y)
    with pytest.raises(ValueError, match="text and numbers do not mix"):
        estimator.extend(X, np.array(["a", "b", "c"])[y])


def test_fewer_columns_may_not_extend(estimator, wine):
    X, y = wine
    estimator.fit(X, y)
    with pytest.raises(DataError, match="scores 13 features, and X has 2"):
        estimator.train(X[:, :2].astype(np.float32), y, seed=0, committee=estimator.committee_)


@pytest.mark.parametrize("n_classes", [3, 12])
def test_a_row_of_weight_two_counts_as_two_rows(estimator, n_classes):
    rng = np.random.default_rng(0)
    X, y = rng.random((120, 4)), np.arange(120) % n_classes
    weighted = estimator.fit(X, y, sample_weight=np.full(120, 2.0)).decision_function(X)
    twice = estimator.fit(np.repeat(X, 2, axis=0), np.repeat(y, 2)).decision_function(X)
    np.testing.assert_allclose(weighted, twice, rtol=1e-9)


def test_huge_weights_still_train(wine):
    X, y = wine
    model = SketchLogitBoostClassifier(n_estimators=30, random_state=0)
    plain = model.fit(X, y).decision_function(X)
    # Penalties are in units of weight: scaled alike, the committee is the same.
    model.set_params(l2_regularization=0.1 * 2**20, min_child_weight=0.1 * 2**20)
    heavy = model.fit(X, y, sample_weight=np.full(len(y), 2.0**20)).decision_function(X)
    np.testing.assert_allclose(heavy, plain, atol=0.05)
